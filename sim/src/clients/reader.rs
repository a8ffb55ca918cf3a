//! Readers: each follows all buckets from their beginning at whichever gateway has them, and looks back now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;
use wadi_model::{Bucket, ErrorKind, Fault, Offset, system};
use wadi_store::route::RouteError;
use wadi_store::shard::{LogRead, LogReadError};

use super::rows::entries;
use super::{CALM_PATIENCE, Scene, Shared, keyed, pages};
use crate::clock::Dice;
use crate::gateway::Life;

/// Follows all buckets until the scene is over.
pub async fn follow(scene: Shared, reader: String, dice: Dice) {
    let mut next: BTreeMap<Bucket, u64> = BTreeMap::new();
    while !scene.over() {
        let buckets = scene.buckets();
        if buckets.is_empty() {
            sleep(dice.millis(20..250)).await;
            continue;
        }
        let bucket = *dice.one_of(&buckets);
        if scene.keyed(&bucket).is_some() && dice.chance(0.5) {
            keyed::look(&scene, &dice, bucket, &reader).await;
        } else if let Some(door) = door(&scene, &bucket, &dice) {
            let life = &door.0;
            let _open = life.open.one();
            let at = next.get(&bucket).copied().unwrap_or_default();
            let from = if at > 0 && dice.chance(0.2) { dice.pick(0..at) } else { at };
            let patience = if scene.calm { 3 * CALM_PATIENCE } else { patience(&dice) };
            let answer = tokio::select! {
                biased;
                () = life.link.died() => None,
                answer = read_on(&scene, &door, bucket, from, &reader, &dice) => answer,
                () = sleep(patience) => None,
            };
            // What a look back found is no progress, unless it went beyond.
            if let Some((end, _)) = answer {
                let at = next.entry(bucket).or_default();
                *at = (*at).max(end);
            }
        }
        sleep(dice.millis(20..250)).await;
    }
}

/// A gateway, and if it is asked by its route, with how much patience.
type Asked = (Life, Option<Duration>);

fn door(scene: &Scene, bucket: &Bucket, dice: &Dice) -> Option<Asked> {
    match scene.door(dice) {
        Some((life, patience)) => Some((life, Some(patience))),
        None => scene.gateway_for(bucket, dice).map(|life| (life, None)),
    }
}

/// Reads, and at the end waits now and then for a signal of newer rows. Where nothing fails it comes.
async fn read_on(
    scene: &Scene,
    asked: &Asked,
    bucket: Bucket,
    from: u64,
    reader: &str,
    dice: &Dice,
) -> Option<(u64, u64)> {
    if asked.1.is_none() || !dice.chance(0.2) {
        return read(scene, asked, bucket, from, reader, dice).await;
    }
    let life = &asked.0;
    let mut changes = life.route.changes(&bucket).await;
    let (next, end) = read(scene, asked, bucket, from, reader, dice).await?;
    if next < end || scene.draining() {
        return Some((next, end));
    }
    let patience = if scene.calm { CALM_PATIENCE } else { dice.millis(100..4_000) };
    tokio::select! {
        biased;
        () = changes.next() => scene.trace.count("readers woken"),
        () = sleep(patience) => {
            let acked = scene.checker.lock().acked_end_before(&bucket, patience / 2);
            if acked > end {
                let why = format!("rows up to {acked} were acked, of which it knows {end}");
                scene.refused(&bucket, life.link.name(), "a signal", &why);
            }
        }
    }
    Some((next, end))
}

/// How long a reader waits for an answer: now and then for longer than any pause, so that it sees what a stalled read comes to.
fn patience(dice: &Dice) -> Duration {
    if dice.chance(0.4) { Duration::from_secs(40) } else { dice.millis(1_000..9_000) }
}

/// Reads a bucket at a gateway from `from` on, once. Gives where the next read begins and the high watermark.
async fn read(
    scene: &Scene,
    (life, route): &Asked,
    bucket: Bucket,
    from: u64,
    reader: &str,
    dice: &Dice,
) -> Option<(u64, u64)> {
    life.link.running().await;
    let shard = match route {
        Some(_) => None,
        None => Some(life.host.shard_of(&bucket, Duration::from_millis(50)).await.ok()?),
    };
    let known = scene.checker.lock().known_end_before(&bucket, scene.staleness);
    let (table, of) = (scene.table(&bucket), scene.keyed(&bucket));
    let partition = scene.partition(&bucket);
    let request = LogRead {
        table: &table,
        bucket,
        partition: &partition,
        offset: Offset(from),
        columns: (0..table.schema().columns().len()).collect(),
        system: of.iter().map(|_| system::CHANGE_TYPE.to_owned()).collect(),
        filter: None,
        until: None,
        max_bytes: dice.pick(1..200_000) as usize,
        max_rows: usize::MAX,
    };
    let by = if route.is_some() { "by the route of" } else { "at" };
    let who = format!("{reader} {by} {}", life.link.name());
    let answer = match (&shard, route) {
        (Some(shard), _) => shard.read(&request).await,
        (None, patience) => {
            scene.trace.count("reads by routes");
            match life.route.read(&request, patience.unwrap_or_default()).await {
                Ok(answer) => Ok(answer),
                Err(RouteError::Said(error)) => Err(error),
                Err(RouteError::NotOpen(why)) => {
                    scene.refused(&bucket, &who, "a read", &why);
                    return None;
                }
            }
        }
    };
    if let Err(error) = &answer
        && route.is_some()
        && error.kind() == ErrorKind::Unavailable
        && !matches!(error, LogReadError::Moved(_) | LogReadError::Overloaded)
    {
        scene.refused(&bucket, &who, "a read", error);
        return None;
    }
    let mut checker = scene.checker.lock();
    let answer = match answer {
        Ok(answer) => answer,
        Err(LogReadError::NotOwned | LogReadError::Unavailable(_)) => return None,
        Err(LogReadError::Moved(_)) => {
            scene.trace.count("reads overtaken by deletions");
            return None;
        }
        // The log begins later by now.
        Err(LogReadError::OutOfRange { bounds, .. }) if from < bounds.log_start.0 => {
            checker.starts_at(bucket, bounds.log_start.0, &who);
            scene.trace.count("reads of trimmed rows");
            return Some((bounds.log_start.0, bounds.high_watermark.0));
        }
        // An owner whose session ended early does not know yet what its successor has acked.
        Err(LogReadError::OutOfRange { .. }) if scene.early_expiry => return None,
        Err(error) => {
            checker.violated_in(&bucket, "L4", format!("{who} cannot read {bucket} from {from} on: {error}"));
            return None;
        }
    };
    checker.starts_at(bucket, answer.bounds.log_start.0, &who);
    let rows = match &of {
        None => entries(&table, &partition, &answer),
        Some(of) => keyed::entries(of, &partition, &answer),
    };
    let rows = match rows {
        Ok(rows) => rows,
        Err(why) => {
            checker.violated_in(
                &bucket,
                "L4",
                format!("{who} read damaged rows of {bucket} from {from} on: {why}"),
            );
            return None;
        }
    };
    checker.read(bucket, from, &rows, &who);
    let (next, end) = (answer.next_offset.0, answer.bounds.high_watermark.0);
    if next != from + rows.len() as u64 || (next == from && from < end) {
        let what = format!("{who} read {} rows of {bucket} from {from}, and goes on at {next}", rows.len());
        checker.violated_in(&bucket, "L4", what);
    }
    if end < known {
        let what = format!("{who} sees {bucket} end at {end}; rows up to {known} were acked or seen before");
        checker.violated_in(&bucket, "K3", what);
    }
    checker.saw_end(&bucket, end);
    drop(checker);
    scene.trace.note(&who, format_args!("read {bucket} {from}..{next} of {end}"));
    Some((next, end))
}

/// Reads a bucket from its beginning to its end, and gives that end. For a world where nothing goes wrong any more.
pub async fn read_to_end(scene: &Scene, bucket: Bucket, dice: &Dice) -> u64 {
    let mut at = 0;
    loop {
        if let Some(asked) = door(scene, &bucket, dice)
            && let Some((next, end)) = read(scene, &asked, bucket, at, "last", dice).await
        {
            if next >= end {
                return end;
            }
            at = next;
            continue;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Scans the rows of a primary-key table's bucket, and asks how many there are, once nothing goes wrong any more.
pub async fn scan_all(scene: &Scene, bucket: Bucket, dice: &Dice) {
    while !keyed::scan(scene, dice, bucket, "last").await || !pages::count(scene, dice, bucket, "last").await
    {
        sleep(Duration::from_millis(100)).await;
    }
}
