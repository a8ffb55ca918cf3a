//! From a part of a primary-key table to changes of rows, and the changelog that says them.
//!
//! A part carries keys and rows as bytes, made outside the actor. The actor merges each with the newest state of its row:
//! one of its own on the way to durability, else what [`Rows`] knows, else what the loader read. Nothing here waits.
//!
//! The changelog is the truth: state is its fold (K1), since both come from the same [`Changes`], in one log object.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt8Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType as ArrowType, Field, Schema as ArrowSchema};
use bytes::{BufMut, Bytes, BytesMut};
use hashbrown::HashMap;
use wadi_model::changelog::ChangeType;
use wadi_model::merge::{Change, MergeScratch, Outcome};
use wadi_model::row::field;
use wadi_model::{Bucket, system};

use super::Shared;
use super::ids::NextIds;
use super::part::AppendError;
use super::rows::{Keep, Reads, Row, Rows};
use super::targets::Targets;
use crate::keyed::{KeyedTable, Life, RowError};
use crate::keys::row;

/// What a part of a primary-key table asks for.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The table, in the version of the part's rows.
    pub table: Arc<KeyedTable>,
    /// Positions in that version of the columns that the rows have; `None` is all of them.
    pub columns: Option<Arc<[usize]>>,
    /// Which rows are deletions; `None` is none of them.
    pub deletes: Option<BooleanBuffer>,
    /// The columns that each row touches.
    pub targets: Targets,
    /// Whether a row whose key is there already changes nothing.
    pub if_absent: bool,
}

impl Keyed {
    fn is_delete(&self, row: usize) -> bool {
        self.deletes.as_ref().is_some_and(|deletes| deletes.value(row))
    }

    /// Whether a row takes the place of whatever is stored.
    fn replaces(&self, row: usize) -> bool {
        let whole = || self.targets.of(row).is_none_or(|targets| targets.is_full());
        !self.if_absent && self.table.engine().replaces() && !self.is_delete(row) && whole()
    }

    /// Whether nobody needs to know what is stored for a row: it is replaced, and the changelog does not show it.
    fn is_blind(&self, row: usize) -> bool {
        !self.table.shows_before() && self.replaces(row)
    }
}

/// A part's keys and rows, as bytes.
#[derive(Debug)]
pub(crate) struct KeyedRows {
    pub keyed: Keyed,
    /// Keys of the database.
    pub keys: Vec<Bytes>,
    pub rows: wadi_model::row::Rows,
    /// What was read from the database for it.
    pub(super) reads: Option<Reads>,
}

impl KeyedRows {
    /// Keys and rows that were encoded elsewhere.
    pub(crate) fn of(
        bucket: &Bucket,
        keyed: Keyed,
        primary: &wadi_model::row::Rows,
        rows: wadi_model::row::Rows,
    ) -> KeyedRows {
        KeyedRows { keys: database_keys(bucket, primary), rows, keyed, reads: None }
    }

    /// The same once more, with nothing read.
    pub(super) fn again(&self) -> KeyedRows {
        KeyedRows { keyed: self.keyed.clone(), keys: self.keys.clone(), rows: self.rows.clone(), reads: None }
    }

    /// Encodes a part's rows. CPU work.
    pub(super) fn encode(
        bucket: &Bucket,
        keyed: Keyed,
        batch: &RecordBatch,
    ) -> Result<KeyedRows, AppendError> {
        let codec = keyed.table.newest();
        let all: Vec<usize>;
        let columns = match &keyed.columns {
            Some(columns) => columns,
            None => {
                all = (0..batch.num_columns()).collect();
                all.as_slice()
            }
        };
        let key = |position: usize| {
            let at = columns.iter().position(|c| *c == position);
            at.map(|at| batch.column(at).clone()).ok_or(RowError::NoKey)
        };
        let key_columns = keyed.table.table().key_columns();
        let key_columns: Vec<ArrayRef> = key_columns.into_iter().map(key).collect::<Result<_, _>>()?;
        let primary = keyed.table.encode_keys(&key_columns, batch.num_rows())?;
        let rows = codec
            .encode_columns(columns, batch.columns(), batch.num_rows())
            .map_err(AppendError::internal)?;
        Ok(KeyedRows::of(bucket, keyed, &primary, rows))
    }

    /// Reads from the database what is not known of the part's rows.
    pub(super) async fn read(&mut self, shared: &Shared, keep: Keep) -> Result<(), AppendError> {
        let keys: Vec<Bytes> = self.needed().cloned().collect();
        // What was read before is given up only once the new reads are registered.
        let read = shared.rows.read(&shared.context, &shared.db, keys, keep);
        let reads = read.await.map_err(AppendError::not_read)?;
        self.reads = Some(reads);
        Ok(())
    }

    /// The keys whose rows must be known before the part can be merged.
    pub(super) fn needed(&self) -> impl Iterator<Item = &Bytes> {
        let needed = |(row, _): &(usize, &Bytes)| !self.keyed.is_blind(*row);
        self.keys.iter().enumerate().filter(needed).map(|(_, key)| key)
    }
}

/// Keys of the database in one buffer.
pub(super) fn database_keys(bucket: &Bucket, primary: &wadi_model::row::Rows) -> Vec<Bytes> {
    let head = row::key(bucket, &[]);
    let mut buffer = BytesMut::with_capacity(primary.iter().map(|key| head.len() + key.len()).sum());
    let mut ends = Vec::with_capacity(primary.len());
    for key in primary.iter() {
        buffer.put_slice(&head);
        buffer.put_slice(key);
        ends.push(buffer.len());
    }
    let buffer = buffer.freeze();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| buffer.slice(start..*end)).collect()
}

/// What a part does.
#[derive(Debug)]
pub(crate) struct Changes {
    table: Arc<KeyedTable>,
    /// The changelog, in order.
    log: Vec<(ChangeType, Bytes)>,
    /// The last state of each row that changed.
    pub last: Vec<(Bytes, Row)>,
    /// Bytes of the changelog's rows.
    pub bytes: usize,
}

impl Changes {
    /// How long the rows live.
    pub(super) fn life(&self) -> Life {
        self.table.life(self.table.table().schema().id())
    }

    /// Rows of the changelog.
    pub(super) fn len(&self) -> usize {
        self.log.len()
    }

    /// How many rows more there are; see [`KeyedTable::growth`].
    pub(super) fn growth(&self) -> Option<i64> {
        self.table.growth(self.log.iter().map(|(change, _)| *change))
    }

    /// The changelog as columns, the change type first. CPU work.
    pub(super) fn to_batch(&self) -> Result<RecordBatch, AppendError> {
        let codec = self.table.newest();
        let wanted: Vec<usize> = (0..codec.schema().columns().len()).collect();
        let rows = codec.decode(self.log.iter().map(|(_, row)| row.as_ref()), &wanted);
        let rows = rows.map_err(AppendError::internal)?;
        let types = UInt8Array::from_iter_values(self.log.iter().map(|(change, _)| *change as u8));
        let columns = std::iter::once(Arc::new(types) as ArrayRef).chain(rows);
        RecordBatch::try_new(Arc::new(stored_schema(codec.schema().arrow())), columns.collect())
            .map_err(AppendError::internal)
    }
}

/// The columns of a changelog chunk.
pub(crate) fn stored_schema(rows: &ArrowSchema) -> ArrowSchema {
    let change = Arc::new(Field::new(system::CHANGE_TYPE, ArrowType::UInt8, false));
    ArrowSchema::new(std::iter::once(change).chain(rows.fields().iter().cloned()).collect::<Vec<_>>())
}

/// Rows that are on their way to durability, newest state first of all.
#[derive(Debug, Default)]
pub(super) struct Pending(HashMap<Bytes, (u64, Row)>);

impl Pending {
    /// Forgets the rows of a part that is durable now, unless a later part has changed them again.
    pub(super) fn confirmed(&mut self, part: u64, changes: &[(Bytes, Row)]) {
        for (key, _) in changes {
            if self.0.get(key).is_some_and(|(by, _)| *by == part) {
                self.0.remove(key);
            }
        }
    }
}

/// How a merge ended.
#[derive(Debug)]
pub(super) enum Merged {
    /// The part has become changes, noted as pending under its number.
    Done(Changes),
    /// A row is not known any more; it must be read again. Nothing was noted.
    Unknown,
    /// The bucket has fewer ids than these, which the part needs. Nothing was noted.
    NeedsIds(u64),
    /// The part cannot be taken. Nothing was noted.
    Refused(AppendError),
}

/// What a merge is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The time: rows whose life is over are absent.
    pub now: i64,
    /// Bytes that the changelog may have.
    pub bytes: usize,
}

/// Merges a part as number `number` within `bounds`. New rows of a table with an auto-increment column
/// draw their ids from `ids`.
pub(super) fn merge(
    part: &KeyedRows,
    number: u64,
    pending: &mut Pending,
    rows: &Rows,
    ids: &mut NextIds,
    bounds: Bounds,
) -> Merged {
    let merged = Merging::new(part, pending, rows, ids, bounds.now).run(bounds.bytes);
    if let (Ok(Some(_)), Some(needed)) = (&merged, ids.needed()) {
        return Merged::NeedsIds(needed);
    }
    match merged {
        Ok(Some(changes)) => {
            for (key, row) in &changes.last {
                pending.0.insert(key.clone(), (number, row.clone()));
            }
            Merged::Done(changes)
        }
        Ok(None) => Merged::Unknown,
        Err(error) => Merged::Refused(error),
    }
}

struct Merging<'a> {
    part: &'a KeyedRows,
    pending: &'a Pending,
    known: Vec<Option<Row>>,
    read: HashMap<&'a [u8], Row>,
    /// Rows that this part has changed already.
    own: HashMap<&'a Bytes, Row>,
    ids: &'a mut NextIds,
    life: Life,
    now: i64,
    changes: Vec<(ChangeType, Bytes)>,
    bytes: usize,
}

impl<'a> Merging<'a> {
    fn new(
        part: &'a KeyedRows,
        pending: &'a Pending,
        rows: &Rows,
        ids: &'a mut NextIds,
        now: i64,
    ) -> Merging<'a> {
        Merging {
            ids,
            life: part.keyed.table.life(part.keyed.table.table().schema().id()),
            now,
            known: rows.known(&part.keys, now),
            read: part.reads.as_ref().map(|reads| reads.valid(now)).unwrap_or_default(),
            own: HashMap::with_capacity(part.keys.len()),
            changes: Vec::with_capacity(part.keys.len() * 2),
            bytes: 0,
            part,
            pending,
        }
    }

    fn stored(&self, row: usize) -> Option<Row> {
        let key = &self.part.keys[row];
        let own = self.own.get(key).or_else(|| self.pending.0.get(key).map(|(_, row)| row));
        // A row that is still on its way may be too old already, if it says so itself.
        let alive = |row: &Row| row.clone().filter(|row| self.life.end(row, self.now) > self.now);
        own.map(alive).or_else(|| self.known[row].clone()).or_else(|| self.read.get(key.as_ref()).cloned())
    }

    fn emit(&mut self, change: ChangeType, row: Bytes) {
        self.bytes += row.len();
        self.changes.push((change, row));
    }

    fn run(mut self, limit: usize) -> Result<Option<Changes>, AppendError> {
        let keyed = &self.part.keyed;
        let table = &keyed.table;
        let mut scratch = MergeScratch::default();
        for row in 0..self.part.keys.len() {
            let stored = match self.stored(row) {
                Some(stored) => stored.map(|row| current(table, row)).transpose()?,
                // Nobody asks what was there before: the row replaces it, whatever it was.
                None if keyed.is_blind(row) => {
                    self.put(row, None, ChangeType::UpdateAfter, self.part.rows.slice(row));
                    continue;
                }
                None => return Ok(None),
            };
            if keyed.if_absent && stored.is_some() {
                continue;
            }
            let change = if stored.is_some() { ChangeType::UpdateAfter } else { ChangeType::Insert };
            if keyed.replaces(row) {
                self.put(row, stored, change, self.part.rows.slice(row));
                continue;
            }
            let id = if stored.is_none() && !keyed.is_delete(row) { self.draw_id()? } else { None };
            match merged(self.part, row, stored.as_deref(), id, &mut scratch)? {
                Merge::Unchanged => {}
                Merge::Replace => self.put(row, stored, change, self.part.rows.slice(row)),
                Merge::Put(after) => self.put(row, stored, change, after),
                Merge::Delete => self.take(row, stored),
            }
            if self.bytes > limit {
                break;
            }
        }
        if self.bytes > limit {
            return Err(AppendError::TooLarge { bytes: self.bytes, limit });
        }
        // In the order of the part, so that a simulation repeats itself.
        let mut own = self.own;
        let last = self.part.keys.iter().filter_map(|key| Some((key.clone(), own.remove(key)?))).collect();
        Ok(Some(Changes { table: table.clone(), log: self.changes, last, bytes: self.bytes }))
    }

    /// The id of a new row, as the bytes of its field.
    fn draw_id(&mut self) -> Result<Option<Vec<u8>>, AppendError> {
        let Some(auto) = self.part.keyed.table.auto_increment() else { return Ok(None) };
        let id = self.ids.draw();
        if id > auto.most {
            let (column, most) = (auto.name.to_string(), auto.most);
            return Err(AppendError::IdsExhausted { column, most });
        }
        let mut field = Vec::new();
        field::put_int(&mut field, i128::from(id));
        Ok(Some(field))
    }

    fn put(&mut self, row: usize, before: Option<Bytes>, change: ChangeType, after: Bytes) {
        if let Some(before) = before.filter(|_| self.part.keyed.table.shows_before()) {
            self.emit(ChangeType::UpdateBefore, before);
        }
        self.own.insert(&self.part.keys[row], Some(after.clone()));
        self.emit(change, after);
    }

    fn take(&mut self, row: usize, before: Option<Bytes>) {
        self.own.insert(&self.part.keys[row], None);
        if let Some(before) = before {
            self.emit(ChangeType::Delete, before);
        }
    }
}

/// What becomes of one row.
enum Merge {
    Unchanged,
    Replace,
    Put(Bytes),
    Delete,
}

/// What becomes of a row of the part. A new row of a table with an auto-increment column comes with its id.
fn merged(
    part: &KeyedRows,
    row: usize,
    stored: Option<&[u8]>,
    id: Option<Vec<u8>>,
    scratch: &mut MergeScratch,
) -> Result<Merge, AppendError> {
    let keyed = &part.keyed;
    let codec = keyed.table.newest();
    let split = |row| {
        let mut fields = Vec::new();
        codec.split(row, &mut fields).map(|()| fields).map_err(AppendError::internal)
    };
    let (stored, mut fields) = (stored.map(split).transpose()?, split(part.rows.get(row))?);
    let auto = keyed.table.auto_increment().zip(id.as_deref());
    if let Some((auto, id)) = auto {
        fields[auto.column] = Some(id);
    }
    let joined = |fields: &[Option<&[u8]>]| {
        let mut bytes = Vec::new();
        codec.join(fields, &mut bytes);
        Merge::Put(bytes.into())
    };
    let targets = keyed.targets.of(row);
    let change = match keyed.is_delete(row) {
        true => Change::Delete { targets },
        false => Change::Upsert { fields: &fields, targets },
    };
    Ok(match keyed.table.engine().merge(stored.as_deref(), change, scratch).map_err(AppendError::Merge)? {
        Outcome::Unchanged => Merge::Unchanged,
        // The row came without its id.
        Outcome::Replace if auto.is_some() => joined(&fields),
        Outcome::Replace => Merge::Replace,
        Outcome::Put(row) => joined(&row.fields().collect::<Vec<_>>()),
        Outcome::Delete => Merge::Delete,
    })
}

/// A stored row under the part's version.
fn current(table: &KeyedTable, stored: Bytes) -> Result<Bytes, AppendError> {
    match table.current(&stored)? {
        Cow::Borrowed(_) => Ok(stored),
        Cow::Owned(row) => Ok(row.into()),
    }
}
