//! Scans that are read page by page, with time between the pages, and counts of rows.
//!
//! All pages show one point in time, which is when the scan began: whatever is written meanwhile. When the shard moves the scan ends.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array};
use tokio::time::sleep;
use wadi_model::Bucket;
use wadi_store::shard::LookupError;

use super::door::Door;
use super::keyed::{Saw, ask_for, decoded, internal};
use super::rows::GROUP;
use super::{KeyedScene, Scene};
use crate::checker::keyed::{Seen, State};
use crate::clock::Dice;
use crate::world::Flaw;

/// Longer than all pages take, even if the gateway stops for a while in between.
const PATIENCE: Duration = Duration::from_secs(40);

/// Scans a bucket in pages.
pub(super) async fn scan(scene: &Scene, dice: &Dice, bucket: Bucket, who: &str) {
    scene.trace.count("scans in pages");
    ask_for(scene, dice, bucket, who, PATIENCE, |door, of| async move {
        let answer = pages(scene, dice, &door, &of, bucket).await;
        scene.trace.count(match &answer {
            Ok(_) => "scans in pages that came to their end",
            Err(LookupError::NotOwned) => "scans in pages that a move ended",
            Err(_) => "scans in pages that failed",
        });
        answer
    })
    .await;
}

async fn pages(
    scene: &Scene,
    dice: &Dice,
    door: &Door,
    of: &KeyedScene,
    bucket: Bucket,
) -> Result<Saw, LookupError> {
    let partition = scene.partition(&bucket);
    let (mut snapshot, low) = door.snapshot(bucket).await?;
    // At once: what is written from now on is not in any page.
    let high = door.high(scene, bucket).await?;
    let page_rows = dice.pick(5..100) as usize;
    let (mut state, mut last) = (State::new(), None::<Vec<u8>>);
    loop {
        if scene.flaw == Some(Flaw::PagesOfManyTimes) {
            snapshot = door.snapshot(bucket).await?.0;
        }
        let mut scan = snapshot.scan_after(last.as_deref()).await?;
        let page = scan.page(page_rows, usize::MAX).await?;
        let rows = decoded(of, &partition, &page.rows).map_err(LookupError::Internal)?;
        if !scene.over() {
            sleep(dice.millis(0..1_500)).await;
            // The answer was lost on its way.
            if dice.chance(0.1) {
                continue;
            }
        }
        for (key, image) in rows {
            if state.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(LookupError::Internal(format!("a page gives key {key} out of order")));
            }
            state.insert(key, image);
        }
        if !page.more {
            return Ok(Saw { low, high, seen: vec![Seen::All(state)] });
        }
        last = state.last_key_value().map(|(key, _)| encoded(of, *key)).transpose()?;
    }
}

/// A key as the scan goes on behind it.
fn encoded(of: &KeyedScene, key: i64) -> Result<Vec<u8>, LookupError> {
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![key]))];
    if of.has_groups() {
        columns.insert(0, Arc::new(Int64Array::from(vec![key / GROUP])));
    }
    Ok(of.table.encode_keys(&columns, 1).map_err(internal)?.get(0).to_vec())
}

/// Asks how many rows a bucket has.
pub(super) async fn count(scene: &Scene, dice: &Dice, bucket: Bucket, who: &str) -> bool {
    ask_for(scene, dice, bucket, who, PATIENCE, |door, of| async move {
        let (count, high) = door.count(bucket).await?;
        let seen = match count {
            Some(count) => vec![Seen::Count(count)],
            // Where the row before is not shown, a new row may look like an old one.
            None if !of.is_counted() => Vec::new(),
            None => return Err(LookupError::Internal("its rows are not counted".into())),
        };
        if !seen.is_empty() {
            scene.trace.count("counts");
        }
        Ok(Saw { low: 0, high, seen })
    })
    .await
}
