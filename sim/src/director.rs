//! The director: decides from the seed what happens to whom, and when.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use wadi_store::task;

use crate::clients::Shared;
use crate::clock::Dice;
use crate::faults::{Rates, Reach};
use crate::gateway::{Ground, Life};

/// Makes trouble for so long.
pub async fn direct(scene: &Shared, ground: &Ground, dice: &Dice, trouble: Duration) {
    let end = Instant::now() + trouble;
    let mut weather = Instant::now();
    let workers = dice.fork("workers");
    let mut stalled = vec![Instant::now(); scene.workers.len()];
    while Instant::now() < end {
        if Instant::now() >= weather {
            for life in scene.gateways.iter().filter_map(|g| g.life()) {
                life.link.set_rates(Rates::draw(dice));
            }
            weather = Instant::now() + dice.millis(2_000..6_000);
        }
        act(scene, ground, dice);
        act_on_workers(scene, &workers, &mut stalled);
        sleep(dice.millis(300..2_500)).await;
    }
}

/// One thing that goes wrong, with one gateway.
fn act(scene: &Shared, ground: &Ground, dice: &Dice) {
    let number = dice.pick(0..scene.gateways.len() as u64) as usize;
    let gateway = &scene.gateways[number];
    let Some(life) = gateway.life() else { return };
    let who = life.link.name().to_owned();
    let note = |what: String| ground.trace.note("DIRECTOR", format_args!("{what} {who}"));
    let ttl = ground.settings.lease_ttl.as_millis() as u64;
    match dice.pick(0..10) {
        0 | 1 => {
            ground.trace.count("crashes");
            gateway.crash();
            let (scene, after) = (scene.clone(), dice.millis(100..6_000));
            drop(task::spawn(async move {
                sleep(after).await;
                scene.gateways[number].start();
            }));
        }
        2 => {
            // Often just about as long as the lease.
            let time =
                if dice.chance(0.5) { dice.millis(ttl - 1_000..ttl + 2_000) } else { dice.millis(50..9_000) };
            ground.trace.count("pauses");
            note(format!("pauses {time:?}"));
            change(life, Reach::Paused, time);
        }
        3 => {
            let time = dice.millis(200..7_000);
            ground.trace.count("cuts from objects");
            note(format!("cuts from objects {time:?}"));
            change(life, Reach::NoObjects, time);
        }
        4 => {
            let time = dice.millis(200..9_000);
            ground.trace.count("cuts from meta");
            note(format!("cuts from meta {time:?}"));
            change(life, Reach::NoMeta, time);
        }
        5 | 6 if scene.early_expiry => {
            ground.trace.count("sessions ended early");
            note("ends the session of".into());
            life.expire();
        }
        7 => {
            ground.trace.count("watch resets");
            note("resets watches, seen by".into());
            ground.meta.reset_watches();
        }
        8 => {
            ground.trace.count("meta compactions");
            ground.meta.compact();
        }
        _ => {
            // Longer than the lease and the grace of deletions together (F2).
            let time = dice.millis(ttl + 1_500..3 * ttl);
            ground.trace.count("stalls");
            note(format!("stalls {time:?}"));
            change(life, Reach::Paused, time);
        }
    }
}

/// One thing that goes wrong, with one compactor. What it was lasts until the next thing happens to it; but one that is stopped
/// is mostly left alone until its lease and its grace are over, each of them `stalled` until then.
fn act_on_workers(scene: &Shared, dice: &Dice, stalled: &mut [Instant]) {
    if scene.workers.is_empty() {
        return;
    }
    let number = dice.pick(0..scene.workers.len() as u64) as usize;
    if Instant::now() < stalled[number] {
        return;
    }
    let worker = &scene.workers[number];
    match dice.pick(0..8) {
        0 => worker.crash(),
        1 => {
            stalled[number] = Instant::now() + dice.millis(0..12_000);
            worker.change(Reach::Paused, Rates::QUIET);
        }
        2 => worker.change(Reach::NoObjects, Rates::QUIET),
        3 => worker.change(Reach::NoMeta, Rates::QUIET),
        _ => {
            worker.start();
            worker.change(Reach::Up, Rates::draw(dice));
        }
    }
}

/// Changes what a gateway reaches, for a time. Another change meanwhile is not undone by this one's end, but healing is
/// for good: what was to come later finds a healed world and leaves it alone.
fn change(life: Life, reach: Reach, time: Duration) {
    if life.link.reach() != Reach::Up {
        return;
    }
    life.set(reach);
    drop(task::spawn(async move {
        sleep(time).await;
        life.set(Reach::Up);
    }));
}
