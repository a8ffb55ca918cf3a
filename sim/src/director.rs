//! The director: decides from the seed what happens to whom, and when.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use wadi_store::task;

use crate::clients::Shared;
use crate::clock::Dice;
use crate::faults::{Rates, Reach};
use crate::gateway::{Ground, Life};
use crate::trace::Trace;

/// Makes trouble for so long.
pub async fn direct(scene: &Shared, ground: &Ground, dice: &Dice, trouble: Duration) {
    let end = Instant::now() + trouble;
    if ground.calm {
        return move_shards(scene, ground, dice, end).await;
    }
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

/// Nothing goes wrong: gateways come, and go in good order, one at a time.
async fn move_shards(scene: &Shared, ground: &Ground, dice: &Dice, end: Instant) {
    while Instant::now() < end {
        sleep(dice.millis(500..4_000)).await;
        let number = dice.pick(0..scene.gateways.len() as u64) as usize;
        let gateway = &scene.gateways[number];
        if gateway.life().is_none() {
            ground.trace.count("gateways added");
            gateway.start();
        } else if scene.lives() > 1 {
            gateway.leave(Duration::from_secs(60)).await;
            if dice.chance(0.6) {
                sleep(dice.millis(0..3_000)).await;
                gateway.start();
            }
        }
    }
}

/// A gateway ends in good order, and is replaced after a while, or not.
fn leave(scene: &Shared, ground: &Ground, dice: &Dice, number: usize) {
    if scene.lives() < 2 {
        return;
    }
    ground.trace.count("leaves");
    let (scene, patience) = (scene.clone(), dice.millis(500..15_000));
    let again = dice.chance(0.7).then(|| dice.millis(0..6_000));
    drop(task::spawn(async move {
        let gateway = &scene.gateways[number];
        gateway.leave(patience).await;
        if let Some(after) = again {
            sleep(after).await;
            gateway.start();
        }
    }));
}

/// Two gateways do not reach each other, or one does not reach the other, while both reach the stores.
fn cut(scene: &Shared, ground: &Ground, dice: &Dice, from: usize) {
    let others: Vec<usize> = (0..scene.gateways.len()).filter(|other| *other != from).collect();
    if others.is_empty() {
        return;
    }
    let (to, both) = (*dice.one_of(&others), dice.chance(0.5));
    let time = if dice.chance(0.3) { dice.millis(10_000..120_000) } else { dice.millis(200..9_000) };
    ground.trace.count("cuts between gateways");
    let arrow = if both { "and" } else { "to" };
    ground.trace.note("DIRECTOR", format_args!("cuts place {from} {arrow} place {to} for {time:?}"));
    ground.net.cut(from, to);
    if both {
        ground.net.cut(to, from);
    }
    let net = ground.net.clone();
    drop(task::spawn(async move {
        sleep(time).await;
        net.mend(from, to);
        net.mend(to, from);
    }));
}

/// One thing that goes wrong, with one gateway.
fn act(scene: &Shared, ground: &Ground, dice: &Dice) {
    let number = dice.pick(0..scene.gateways.len() as u64) as usize;
    let gateway = &scene.gateways[number];
    let Some(life) = gateway.life() else {
        if dice.chance(0.3) {
            ground.trace.count("gateways added");
            gateway.start();
        }
        return;
    };
    let who = life.link.name().to_owned();
    let note = |what: String| ground.trace.note("DIRECTOR", format_args!("{what} {who}"));
    let ttl = ground.settings.lease_ttl.as_millis() as u64;
    match dice.pick(0..15) {
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
            change(&ground.trace, life, Reach::Paused, time);
        }
        3 => {
            let time = dice.millis(200..7_000);
            ground.trace.count("cuts from objects");
            note(format!("cuts from objects {time:?}"));
            change(&ground.trace, life, Reach::NoObjects, time);
        }
        4 => {
            let time = dice.millis(200..9_000);
            ground.trace.count("cuts from meta");
            note(format!("cuts from meta {time:?}"));
            change(&ground.trace, life, Reach::NoMeta, time);
        }
        5 if dice.chance(0.4) => {
            let skew = scene.draw_clock(dice);
            ground.trace.count("clocks set");
            note(format!("sets to {skew} ms the clock of"));
            gateway.set_clock(skew);
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
        9 | 10 => leave(scene, ground, dice, number),
        11 | 12 => cut(scene, ground, dice, number),
        13 => {
            let (reach, kind) = *dice.one_of(&[
                (Reach::NoObjects, "long cuts from objects"),
                (Reach::NoMeta, "long cuts from meta"),
            ]);
            let time = dice.millis(9_000..90_000);
            ground.trace.count(kind);
            note(format!("makes {kind} of {time:?}"));
            change(&ground.trace, life, reach, time);
        }
        _ => {
            // Longer than the lease and the grace of deletions together (F2).
            let time = dice.millis(ttl + 1_500..3 * ttl);
            ground.trace.count("stalls");
            note(format!("stalls {time:?}"));
            change(&ground.trace, life, Reach::Paused, time);
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
fn change(trace: &Trace, life: Life, reach: Reach, time: Duration) {
    if life.link.reach() != Reach::Up {
        return;
    }
    life.set(reach);
    let trace = trace.clone();
    drop(task::spawn(async move {
        sleep(time).await;
        if life.host.unwell().is_some() {
            trace.count("gateways that knew that they could not write");
        }
        life.set(Reach::Up);
    }));
}
