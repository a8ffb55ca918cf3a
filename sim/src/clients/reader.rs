//! Readers: each follows all buckets from their beginning at whichever gateway has them, and looks back now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;
use wadi_model::{Bucket, Offset, system};
use wadi_store::shard::{LogRead, LogReadError};

use super::rows::entries;
use super::{Scene, Shared, keyed, pages};
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
        } else if let Some(life) = scene.gateway_for(&bucket, &dice) {
            let at = next.get(&bucket).copied().unwrap_or_default();
            let from = if at > 0 && dice.chance(0.2) { dice.pick(0..at) } else { at };
            let answer = tokio::select! {
                biased;
                () = life.link.died() => None,
                answer = read(&scene, &life, bucket, from, &reader, &dice) => answer,
                () = sleep(patience(&dice)) => None,
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

/// How long a reader waits for an answer: now and then for longer than any pause, so that it sees what a stalled read comes to.
fn patience(dice: &Dice) -> Duration {
    if dice.chance(0.4) { Duration::from_secs(40) } else { dice.millis(1_000..9_000) }
}

/// Reads a bucket at `life` from `from` on, once. Gives where the next read begins and the high watermark.
async fn read(
    scene: &Scene,
    life: &Life,
    bucket: Bucket,
    from: u64,
    reader: &str,
    dice: &Dice,
) -> Option<(u64, u64)> {
    life.link.running().await;
    let shard = life.host.shard_of(&bucket, Duration::from_millis(50)).await.ok()?;
    let acked = scene.checker.lock().acked_end(&bucket);
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
    let who = format!("{reader} at {}", life.link.name());
    let answer = shard.read(&request).await;
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
    if end < acked && !scene.early_expiry {
        let what = format!("{who} sees {bucket} end at {end}; rows up to {acked} were acked before");
        checker.violated_in(&bucket, "K3", what);
    }
    drop(checker);
    scene.trace.note(&who, format_args!("read {bucket} {from}..{next} of {end}"));
    Some((next, end))
}

/// Reads a bucket from its beginning to its end, and gives that end. For a world where nothing goes wrong any more.
pub async fn read_to_end(scene: &Scene, bucket: Bucket, dice: &Dice) -> u64 {
    let mut at = 0;
    loop {
        if let Some(life) = scene.gateway_for(&bucket, dice)
            && let Some((next, end)) = read(scene, &life, bucket, at, "last", dice).await
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
