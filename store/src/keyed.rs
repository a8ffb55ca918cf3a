//! What a shard knows of a primary-key table: how its keys and rows are stored, and how rows merge.
//!
//! Made once for each version of a table and shared by its buckets. Replay needs it too, since the log holds columns and
//! the database rows; so the shard asks a [`TableSource`] for tables that it meets in the log.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::error::ArrowError;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use wadi_meta::catalog::Catalog;
use wadi_model::key::{KeyCodec, KeyFault};
use wadi_model::merge::MergeEngine;
use wadi_model::options::ChangelogImage;
use wadi_model::row::{self, DamagedRow, RowCodec, RowUpgrade, Rows};
use wadi_model::table::InvalidTable;
use wadi_model::{Bucket, DataType, SchemaId, Table, TableId};

pub(crate) use life::FOREVER;
pub use life::Life;

mod life;

/// Where tables come from: the catalog, or a fixture.
#[async_trait]
pub trait TableSource: std::fmt::Debug + Send + Sync {
    /// The table of this id with at least this schema version, also while it is being dropped. `None` if nothing of it is
    /// left, so that its rows need not be kept. An error if that cannot be known now.
    async fn table(&self, id: TableId, schema: SchemaId) -> Result<Option<Arc<Table>>, String>;

    /// The table of a bucket; `None` once it or the partition was dropped, for ever. An error if that cannot be known now.
    async fn kept(&self, bucket: &Bucket) -> Result<Option<Arc<Table>>, String>;
}

#[async_trait]
impl TableSource for Catalog {
    async fn table(&self, id: TableId, schema: SchemaId) -> Result<Option<Arc<Table>>, String> {
        self.table_by_id(id, schema).await.map_err(|e| e.to_string())
    }

    async fn kept(&self, bucket: &Bucket) -> Result<Option<Arc<Table>>, String> {
        Catalog::kept(self, bucket).await.map_err(|e| e.to_string())
    }
}

/// The primary-key tables that shards have met. Clones share them.
#[derive(Clone, Debug)]
pub struct KeyedTables {
    source: Arc<dyn TableSource>,
    known: Arc<RwLock<HashMap<TableId, Arc<KeyedTable>>>>,
}

impl KeyedTables {
    /// None known yet.
    pub fn new(source: Arc<dyn TableSource>) -> KeyedTables {
        KeyedTables { source, known: Arc::default() }
    }

    /// A table that the caller has.
    pub fn of(&self, table: &Arc<Table>) -> Result<Arc<KeyedTable>, InvalidTable> {
        if let Some(known) = self.known.read().get(&table.id)
            && (Arc::ptr_eq(&known.table, table) || *known.table == **table)
        {
            return Ok(known.clone());
        }
        let keyed = Arc::new(KeyedTable::new(table.clone())?);
        let mut all = self.known.write();
        // An older version, seen late, must not push a newer one out.
        let newer = |k: &Arc<KeyedTable>| k.table.schema().id() > table.schema().id();
        if !all.get(&table.id).is_some_and(newer) {
            all.insert(table.id, keyed.clone());
        }
        Ok(keyed)
    }

    /// Where they come from.
    pub fn source(&self) -> &Arc<dyn TableSource> {
        &self.source
    }

    /// A table that was met in the log; see [`TableSource::table`].
    pub async fn in_log(&self, id: TableId, schema: SchemaId) -> Result<Option<Arc<KeyedTable>>, String> {
        if let Some(known) = self.known.read().get(&id).filter(|k| k.codec(schema).is_some()) {
            return Ok(Some(known.clone()));
        }
        match self.source.table(id, schema).await? {
            Some(table) => self.of(&table).map(Some).map_err(|e| e.to_string()),
            None => Ok(None),
        }
    }
}

/// One version of a primary-key table.
#[derive(Debug)]
pub struct KeyedTable {
    table: Arc<Table>,
    codecs: BTreeMap<SchemaId, RowCodec>,
    /// From each older version to the newest.
    upgrades: BTreeMap<SchemaId, RowUpgrade>,
    keys: KeyCodec,
    engine: MergeEngine,
    auto: Option<AutoIncrement>,
}

/// The auto-increment column of a table.
#[derive(Clone, Debug)]
pub struct AutoIncrement {
    /// Its position in the newest schema.
    pub column: usize,
    /// Its name.
    pub name: Arc<str>,
    /// The highest id that fits its type.
    pub most: u64,
    /// How many ids a bucket takes at once.
    pub cache: u64,
}

impl AutoIncrement {
    fn of(table: &Table) -> Option<AutoIncrement> {
        let position = table.auto_increment_column()?;
        let column = &table.schema().columns()[position];
        let most = match column.data_type {
            DataType::Int => i32::MAX as u64,
            _ => i64::MAX as u64,
        };
        let cache = table.options.auto_increment_cache();
        Some(AutoIncrement { column: position, name: column.name.as_str().into(), most, cache })
    }
}

impl KeyedTable {
    /// Prepares a table that has a primary key.
    pub fn new(table: Arc<Table>) -> Result<KeyedTable, InvalidTable> {
        let engine = MergeEngine::new(&table)?;
        let codecs: BTreeMap<SchemaId, RowCodec> =
            table.schemas.iter().map(|schema| (schema.id(), RowCodec::new(schema))).collect();
        let newest = RowCodec::new(table.schema());
        let older = codecs.iter().filter(|(id, _)| **id != table.schema().id());
        let upgrades = older.map(|(id, codec)| (*id, RowUpgrade::new(codec, &newest))).collect();
        let columns = table.schema().columns();
        let key_columns: Vec<_> = table.key_columns().into_iter().map(|i| &columns[i]).collect();
        let types: Vec<_> = key_columns.iter().map(|column| column.data_type.clone()).collect();
        if let Some(stray) = key_columns.iter().find(|column| !column.data_type.can_be_key()) {
            let (column, data_type) = (stray.name.clone(), stray.data_type.clone());
            return Err(InvalidTable::KeyType { role: "primary key", column, data_type });
        }
        let keys = KeyCodec::new(&types).expect("each type can be a key, as was just seen");
        let auto = AutoIncrement::of(&table);
        Ok(KeyedTable { table, codecs, upgrades, keys, engine, auto })
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// How rows merge.
    pub fn engine(&self) -> &MergeEngine {
        &self.engine
    }

    /// Its auto-increment column.
    pub fn auto_increment(&self) -> Option<&AutoIncrement> {
        self.auto.as_ref()
    }

    /// How long rows of a version live.
    pub fn life(&self, schema: SchemaId) -> Life {
        Life::of(self, schema)
    }

    /// Whether the changelog shows the row before an update.
    pub fn shows_before(&self) -> bool {
        self.table.options.changelog_image() == ChangelogImage::Full
    }

    /// The codec of rows of a version.
    pub fn codec(&self, schema: SchemaId) -> Option<&RowCodec> {
        self.codecs.get(&schema)
    }

    /// The codec of rows of the newest version.
    pub fn newest(&self) -> &RowCodec {
        // `new` makes one for each version of the table.
        self.codecs.get(&self.table.schema().id()).expect("the newest version has a codec")
    }

    /// A stored row under the newest version.
    pub fn current<'a>(&self, stored: &'a [u8]) -> Result<Cow<'a, [u8]>, RowError> {
        let version = row::schema_of(stored).ok_or(RowError::NoVersion)?;
        if version == self.table.schema().id() {
            return Ok(Cow::Borrowed(stored));
        }
        let upgrade = self.upgrades.get(&version).ok_or(RowError::UnknownVersion(version))?;
        let mut current = Vec::with_capacity(stored.len() + 16);
        upgrade.upgrade(stored, &mut current)?;
        Ok(Cow::Owned(current))
    }

    /// The keys of rows of a version, by their columns in this version.
    pub fn keys_of(&self, batch: &RecordBatch, schema: SchemaId) -> Result<Rows, RowError> {
        let schema = self.table.schema_of(schema).ok_or(RowError::UnknownVersion(schema))?;
        let position = |id| schema.index_of_id(id).ok_or(RowError::NoKey);
        let columns = self.table.key_fields().map(position).collect::<Result<Vec<_>, _>>()?;
        let columns: Vec<ArrayRef> = columns.into_iter().map(|i| batch.column(i).clone()).collect();
        self.encode_keys(&columns, batch.num_rows())
    }

    /// Keys, or beginnings of keys, from the first columns of the key in its order.
    pub fn encode_keys(&self, columns: &[ArrayRef], rows: usize) -> Result<Rows, RowError> {
        Ok(self.keys.encode(columns, rows)?)
    }

    /// The rows whose keys are longer than keys may be, from the columns of the key in its order.
    pub fn long_keys(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>, RowError> {
        Ok(self.keys.too_long(columns, rows)?)
    }

    /// Stored rows of any version as columns of the newest one: those at the wanted positions.
    pub fn decode(&self, rows: &[Bytes], wanted: &[usize]) -> Result<RecordBatch, RowError> {
        let current = rows.iter().map(|row| self.current(row)).collect::<Result<Vec<_>, _>>()?;
        let columns = self.newest().decode(current.iter().map(|row| row.as_ref()), wanted)?;
        let schema = self.table.schema().arrow().project(wanted)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
    }
}

/// Stored rows that cannot be read, or rows without a usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Too short to name its version.
    #[error("a stored row has no schema version")]
    NoVersion,
    /// A version that the table, as it is known here, does not have.
    #[error("schema version {0} is not known here yet")]
    UnknownVersion(SchemaId),
    /// A version without all key columns, which none has.
    #[error("a key column is missing")]
    NoKey,
    /// The bytes are not a row.
    #[error(transparent)]
    Damaged(#[from] DamagedRow),
    /// The columns do not make a batch: a null where the table has none, or no such position.
    #[error("stored rows do not fit their table: {0}")]
    Misfit(String),
    /// A key is null, or too long.
    #[error(transparent)]
    Key(#[from] KeyFault),
}

impl From<ArrowError> for RowError {
    fn from(error: ArrowError) -> RowError {
        RowError::Misfit(error.to_string())
    }
}
