//! What clients do with primary-key tables: write, look up, scan.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Int32Type, Int64Type};
use bytes::Bytes;
use tokio::time::sleep;
use wadi_model::changelog::ChangeType;
use wadi_model::merge::{TargetColumns, Verb as TargetsFor};
use wadi_model::{Bucket, ErrorKind, Fault};
use wadi_store::shard::{Keyed, LogAnswer, LookupError, Piece, Shard, Targets};

use super::door::Door;
use super::rows::{GROUP, GROUP_COLUMN, PARTITION_COLUMN, fits_partition, n, name, position};
use super::{CALM_PATIENCE, KeyedScene, Scene, pages};
use crate::checker::Entry;
use crate::checker::keyed::{Image, Logged, Op, Seen, State, Verb};
use crate::clock::Dice;

/// Columns of the table but for the key: those that follow from an id, and the other one.
const ID_COLUMNS: [usize; 3] = [1, 2, 3];
const OTHER_COLUMN: usize = 4;
/// Where it is there: the ids that the server gives.
const AUTO_COLUMN: usize = 5;

/// Draws what a request of so many rows does. Where one row writes an id, the first one does: it names the request.
pub(super) fn ops(of: &KeyedScene, dice: &Dice, count: u64) -> Vec<Op> {
    let key = || dice.pick(0..of.keys) as i64;
    let kind = dice.pick(0..if of.has_ids() { 13 } else { 10 });
    let verb = |row: u64| match kind {
        // A probe, which must write something, has one row.
        0..5 if row > 0 && dice.chance(0.2) => Verb::Delete,
        0..5 => Verb::Put,
        5..7 => Verb::PutId,
        7..9 => Verb::PutOther,
        _ if count == 1 => Verb::Put,
        9 => Verb::Delete,
        _ => Verb::Ensure,
    };
    (0..count).map(|row| Op { key: key(), verb: verb(row) }).collect()
}

/// A request's rows, and what they do.
pub(super) struct KeyedRows {
    pub rows: RecordBatch,
    pub keyed: Keyed,
}

/// The rows of such a request.
pub(super) fn rows(of: &KeyedScene, partition: &str, ops: &[Op], first: i64) -> Result<KeyedRows, String> {
    let has = |verb: Verb| ops.iter().any(|op| op.verb == verb);
    let with_ids = has(Verb::Put) || has(Verb::PutId);
    let with_other = has(Verb::Put) || has(Verb::PutOther);
    let ids = || ops.iter().zip(first..).map(|(op, id)| (op.verb != Verb::Delete).then_some(id));
    let mut columns = vec![0];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(ops.iter().map(|op| op.key)))];
    if with_ids {
        columns.extend(ID_COLUMNS);
        arrays.push(Arc::new(Int64Array::from_iter(ids())));
        arrays.push(Arc::new(Int32Array::from_iter(ids().map(|id| id.map(n)))));
        arrays.push(Arc::new(StringArray::from_iter(ids().map(|id| id.map(name)))));
    }
    if with_other {
        columns.push(OTHER_COLUMN);
        arrays.push(Arc::new(Int64Array::from_iter(ids())));
    }
    let table = of.table.table();
    if let Some(at) = position(table, GROUP_COLUMN) {
        columns.push(at);
        arrays.push(Arc::new(Int64Array::from_iter_values(ops.iter().map(|op| op.key / GROUP))));
    }
    if let Some(at) = position(table, PARTITION_COLUMN) {
        columns.push(at);
        arrays.push(Arc::new(StringArray::from_iter_values(ops.iter().map(|_| partition))));
    }
    let schema = table.schema().arrow().project(&columns).map_err(|e| e.to_string())?;
    let rows = RecordBatch::try_new(Arc::new(schema), arrays).map_err(|e| e.to_string())?;
    let partial = has(Verb::PutId) || has(Verb::PutOther);
    let targets = partial.then(|| {
        let names = columns.iter().map(|i| table.schema().columns()[*i].name.as_str());
        TargetColumns::new(table, names, TargetsFor::Upsert).map(Targets::from).map_err(|e| e.to_string())
    });
    let deletes: BooleanBuffer = ops.iter().map(|op| op.verb == Verb::Delete).collect();
    let keyed = Keyed {
        if_absent: has(Verb::Ensure),
        table: of.table.clone(),
        columns: Some(columns.into()),
        deletes: has(Verb::Delete).then_some(deletes),
        targets: targets.transpose()?.unwrap_or_default(),
    };
    Ok(KeyedRows { rows, keyed })
}

/// The changelog of an answer that asked for all columns and the change type.
pub(super) fn entries(of: &KeyedScene, partition: &str, answer: &LogAnswer) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    for piece in &answer.pieces {
        let Piece::Batch(batch) = piece else { return Err("change types came undecoded".into()) };
        let changes = batch.column(batch.num_columns() - 1).as_string::<i32>();
        for (row, (key, image)) in images(of, partition, batch)?.into_iter().enumerate() {
            let said = changes.value(row);
            let change = ChangeType::ALL.into_iter().find(|change| change.as_str() == said);
            let change = change.ok_or_else(|| format!("{said} is no change type"))?;
            all.push(Entry::Change(Logged { change, key, image }));
        }
    }
    Ok(all)
}

/// Keys and rows of a batch of all columns.
fn images(of: &KeyedScene, partition: &str, batch: &RecordBatch) -> Result<Vec<(i64, Image)>, String> {
    fits_partition(of.table.table(), batch, partition)?;
    let long = |at: usize| batch.column(at).as_primitive::<Int64Type>();
    let (keys, ids, others) = (long(0), long(1), long(OTHER_COLUMN));
    let autos = of.has_ids().then(|| long(AUTO_COLUMN));
    let groups = position(of.table.table(), GROUP_COLUMN).map(long);
    let ns = batch.column(2).as_primitive::<Int32Type>();
    let names = batch.column(3).as_string::<i32>();
    let image = |row: usize| {
        let id = ids.is_valid(row).then(|| ids.value(row));
        let fits = match id {
            Some(id) => ns.value(row) == n(id) && names.value(row) == name(id),
            None => ns.is_null(row) && names.is_null(row),
        };
        if !fits {
            return Err(format!("row {id:?} has columns {:?} and {:?}", ns.value(row), names.value(row)));
        }
        if let Some(groups) = groups.filter(|groups| groups.value(row) != keys.value(row) / GROUP) {
            return Err(format!("key {} lies in group {}", keys.value(row), groups.value(row)));
        }
        let other = others.is_valid(row).then(|| others.value(row));
        let auto = autos.filter(|autos| autos.is_valid(row)).map(|autos| autos.value(row));
        Ok((keys.value(row), Image { id, other, auto }))
    };
    (0..batch.num_rows()).map(image).collect()
}

/// Looks for the rows that a request has just written.
pub(super) async fn look_after(scene: &Scene, dice: &Dice, request: u64, bucket: Bucket) {
    let keys = scene.checker.lock().keys_of(request, 5);
    look_up(scene, dice, bucket, keys, "writer").await;
}

/// A lookup or a scan.
pub(super) async fn look(scene: &Scene, dice: &Dice, bucket: Bucket, who: &str) {
    let Some(of) = scene.keyed(&bucket) else { return };
    let kind = dice.pick(0..20);
    if kind < 3 {
        scan(scene, dice, bucket, who).await;
        return;
    }
    if kind < 5 {
        return pages::scan(scene, dice, bucket, who).await;
    }
    if kind < 7 {
        pages::count(scene, dice, bucket, who).await;
        return;
    }
    if of.has_groups() && dice.chance(0.5) {
        return look_up_group(scene, dice, bucket, dice.pick(0..of.keys) as i64 / GROUP, who).await;
    }
    let keys = (0..dice.pick(1..6)).map(|_| dice.pick(0..of.keys) as i64).collect();
    look_up(scene, dice, bucket, keys, who).await;
}

async fn look_up(scene: &Scene, dice: &Dice, bucket: Bucket, keys: Vec<i64>, who: &str) {
    let partition = scene.partition(&bucket);
    ask(scene, dice, bucket, who, |door, of| async move {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(keys.clone()))];
        if of.has_groups() {
            let groups = keys.iter().map(|key| key / GROUP);
            columns.insert(0, Arc::new(Int64Array::from_iter_values(groups)));
        }
        let encoded = of.table.encode_keys(&columns, keys.len()).map_err(internal)?;
        let found = door.lookup(bucket, &encoded).await?;
        let high = door.high(scene, bucket).await?;
        let mut seen = Vec::with_capacity(keys.len());
        for (key, row) in keys.into_iter().zip(found) {
            let image =
                row.map(|row| decoded(&of, &partition, &[row])).transpose().map_err(LookupError::Internal)?;
            let image = image.and_then(|rows| rows.first().copied());
            if let Some((other, _)) = image.filter(|(found, _)| *found != key) {
                return Err(LookupError::Internal(format!("key {key} found the row of key {other}")));
            }
            seen.push(Seen::Key(key, image.map(|(_, image)| image)));
        }
        Ok(Saw { low: 0, high, seen })
    })
    .await;
}

/// Scans all rows, page by page. Whether it came to an end.
pub(super) async fn scan(scene: &Scene, dice: &Dice, bucket: Bucket, who: &str) -> bool {
    let (page_rows, partition) = (dice.pick(1..500) as usize, scene.partition(&bucket));
    ask(scene, dice, bucket, who, |door, of| async move {
        if let Door::Owner(shard) = &door {
            let (high, state) = rows_from(shard, &of, &partition, bucket, &[], page_rows).await?;
            return Ok(Saw { low: 0, high, seen: vec![Seen::All(state)] });
        }
        let (snapshot, low) = door.snapshot(bucket).await?;
        let high = door.high(scene, bucket).await?;
        let (mut scan, mut state) = (snapshot.scan_after(None).await?, State::new());
        loop {
            let page = scan.page(page_rows, usize::MAX).await?;
            add_rows(&of, &partition, &page.rows, &mut state)?;
            if !page.more {
                return Ok(Saw { low, high, seen: vec![Seen::All(state)] });
            }
        }
    })
    .await
}

/// A prefix lookup: the rows of a group of keys.
async fn look_up_group(scene: &Scene, dice: &Dice, bucket: Bucket, group: i64, who: &str) {
    let (page_rows, partition) = (dice.pick(1..2 * GROUP as u64) as usize, scene.partition(&bucket));
    scene.trace.count("prefix lookups");
    ask(scene, dice, bucket, who, |door, of| async move {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![group]));
        let prefix = of.table.encode_keys(&[column], 1).map_err(internal)?;
        let (high, rows) = match &door {
            Door::Owner(shard) if dice.chance(0.7) => {
                rows_from(shard, &of, &partition, bucket, prefix.get(0), page_rows).await?
            }
            _ => {
                let (found, mut state) = (door.group(bucket, &prefix).await?, State::new());
                add_rows(&of, &partition, &found, &mut state)?;
                (door.high(scene, bucket).await?, state)
            }
        };
        Ok(Saw { low: 0, high, seen: vec![Seen::Group(group * GROUP..(group + 1) * GROUP, rows)] })
    })
    .await;
}

/// The high watermark, and the rows whose key begins so, page by page.
async fn rows_from(
    shard: &Shard,
    of: &KeyedScene,
    partition: &str,
    bucket: Bucket,
    prefix: &[u8],
    page_rows: usize,
) -> Result<(u64, State), LookupError> {
    let mut scan = shard.scan_rows(&bucket, prefix).await?;
    let high = shard.bounds(&bucket).high_watermark.0;
    let mut state = State::new();
    loop {
        let page = scan.page(page_rows, usize::MAX).await?;
        add_rows(of, partition, &page.rows, &mut state)?;
        if !page.more {
            return Ok((high, state));
        }
    }
}

/// Adds rows that came in the order of their keys.
fn add_rows(of: &KeyedScene, partition: &str, rows: &[Bytes], state: &mut State) -> Result<(), LookupError> {
    for (key, image) in decoded(of, partition, rows).map_err(LookupError::Internal)? {
        if state.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(LookupError::Internal(format!("a scan gives key {key} out of order")));
        }
        state.insert(key, image);
    }
    Ok(())
}

/// What was seen, and between which offsets.
pub(super) struct Saw {
    pub low: u64,
    pub high: u64,
    pub seen: Vec<Seen>,
}

pub(super) fn decoded(of: &KeyedScene, partition: &str, rows: &[Bytes]) -> Result<Vec<(i64, Image)>, String> {
    let all: Vec<usize> = (0..of.table.table().schema().columns().len()).collect();
    images(of, partition, &of.table.decode(rows, &all).map_err(|e| e.to_string())?)
}

pub(super) fn internal(error: impl std::fmt::Display) -> LookupError {
    LookupError::Internal(error.to_string())
}

/// Asks a gateway, once, and tells the checker what was seen. Whether there was an answer.
async fn ask<F: Future<Output = Result<Saw, LookupError>>>(
    scene: &Scene,
    dice: &Dice,
    bucket: Bucket,
    who: &str,
    question: impl FnOnce(Door, KeyedScene) -> F,
) -> bool {
    ask_for(scene, dice, bucket, who, dice.millis(1_000..9_000), question).await
}

/// The same, with so much patience.
pub(super) async fn ask_for<F: Future<Output = Result<Saw, LookupError>>>(
    scene: &Scene,
    dice: &Dice,
    bucket: Bucket,
    who: &str,
    patience: Duration,
    question: impl FnOnce(Door, KeyedScene) -> F,
) -> bool {
    let Some(of) = scene.keyed(&bucket) else { return false };
    let (life, route) = match scene.door(dice) {
        Some((life, patience)) => (life, Some(patience)),
        None => match scene.gateway_for(&bucket, dice) {
            Some(life) => (life, None),
            None => return false,
        },
    };
    let patience = if scene.calm { 3 * CALM_PATIENCE } else { patience };
    let by = if route.is_some() { "by the route of" } else { "at" };
    let who = format!("{who} {by} {}", life.link.name());
    let _open = life.open.one();
    let answer = async {
        life.link.running().await;
        let door = match route {
            Some(patience) => {
                scene.trace.count("looks by routes");
                Door::Any(life.route.clone(), patience)
            }
            None => Door::Owner(life.host.shard_of(&bucket, Duration::from_millis(50)).await.ok()?),
        };
        let low = scene.checker.lock().known_end_before(&bucket, scene.staleness);
        Some((low, question(door, of).await))
    };
    let answer = tokio::select! {
        biased;
        () = life.link.died() => None,
        answer = answer => answer,
        () = sleep(patience) => None,
    };
    let Some((low, answer)) = answer else { return false };
    match answer {
        Ok(Saw { low: least, high, seen }) => {
            let low = low.max(least);
            scene.trace.note(&who, format_args!("looked at {bucket} {low}..={high}: {}", summary(&seen)));
            let mut checker = scene.checker.lock();
            for seen in seen {
                // A count comes with the very offset at which it was right.
                let low = if matches!(seen, Seen::Count(_)) { low.max(high) } else { low };
                checker.looked(bucket, (low, high), seen, &who);
            }
            true
        }
        Err(error) if error.kind() == ErrorKind::Internal => {
            let what = format!("{who} cannot look at rows of {bucket}: {error}");
            scene.checker.lock().violated_in(&bucket, "K1", what);
            false
        }
        Err(error) => {
            // A scan ends when its shard moves; all else is looked for again.
            if route.is_some() && !matches!(error, LookupError::NotOwned) {
                scene.refused(&bucket, &who, "a look", &error);
            }
            false
        }
    }
}

fn summary(seen: &[Seen]) -> String {
    match seen {
        [Seen::Group(_, state) | Seen::All(state)] => format!("{} rows", state.len()),
        seen => format!("{seen:?}"),
    }
}
