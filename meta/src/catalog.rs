//! Databases, tables and partitions, on top of any [`MetaStore`].
//!
//! Each gateway holds the whole catalog in memory and follows it by a watch, so that a write of rows asks nobody. A
//! change waits until the watch has seen it: who changed a table sees the change at this gateway at once, others soon.
//!
//! | key | value |
//! | --- | --- |
//! | `catalog/databases/<database>` | [`Database`] |
//! | `catalog/tables/<database>.<table>` | [`Table`] |
//! | `catalog/dropped/<id>` | [`Table`], until nothing of it is left in the shards |
//! | `ids/table` | the last id that was given to a table or a partition |
//!
//! Partitions have [keys of their own](partitions).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use wadi_model::evolve::SchemaChange;
use wadi_model::table::TableState;
use wadi_model::{DatabaseName, SchemaId, Table, TableId, TableName, TableSpec, suggest};

use crate::{
    Change, Compare, KeyValue, MetaError, MetaErrorKind, MetaStore, Revision, Txn, TxnOutcome, WatchEvent,
    task,
};

use partitions::{AllPartitions, PARTITIONS};

pub use drops::{Dropped, Drops};
pub use error::CatalogError;
pub use forget::forget;
pub use partitions::{Asked, Partitions};

mod drops;
mod error;
mod forget;
mod kept;
mod partitions;
#[cfg(test)]
mod tests;

const PREFIX: &str = "catalog/";
const DATABASES: &str = "catalog/databases/";
const TABLES: &str = "catalog/tables/";
const DROPPED: &str = "catalog/dropped/";
const IDS: &str = "ids/table";

/// How often a change is tried again when others change the same thing, or its outcome is unknown.
const TRIES: usize = 20;

/// How long a change waits for the watch to see it.
const WATCH_PATIENCE: Duration = Duration::from_secs(5);

/// A database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Database {
    /// Its name.
    pub name: DatabaseName,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

/// The catalog as this process sees it. Clones are the same catalog.
#[derive(Clone, Debug)]
pub struct Catalog {
    meta: Arc<dyn MetaStore>,
    seen: Arc<Seen>,
    follower: Arc<task::Task>,
}

#[derive(Debug)]
struct Seen {
    content: RwLock<Content>,
    revision: watch::Sender<Revision>,
    /// One change of partitions at a time: many writes may need the same new partition at once.
    making: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Content {
    databases: BTreeMap<DatabaseName, Entry<Database>>,
    tables: BTreeMap<TableName, Entry<Table>>,
    partitions: AllPartitions,
    /// When a table was last made, changed or dropped.
    tables_changed: Revision,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    value: Arc<T>,
    modified: Revision,
}

impl Catalog {
    /// Reads the catalog and begins to follow it.
    pub async fn open(meta: Arc<dyn MetaStore>) -> Result<Catalog, MetaError> {
        let seen = Arc::new(Seen {
            content: RwLock::default(),
            revision: watch::Sender::new(Revision(0)),
            making: tokio::sync::Mutex::default(),
        });
        let listing = meta.list(PREFIX).await?;
        let revision = listing.revision;
        seen.reset(listing.entries, revision);
        let follower = task::spawn("catalog", follow(meta.clone(), seen.clone(), revision));
        Ok(Catalog { meta, seen, follower: Arc::new(follower) })
    }

    /// Moves with every change that this process sees.
    pub fn changes(&self) -> watch::Receiver<Revision> {
        self.seen.revision.subscribe()
    }

    /// When a table was last made, changed or dropped, and all tables.
    pub fn all_tables(&self) -> (Revision, Vec<Arc<Table>>) {
        let content = self.seen.content.read();
        (content.tables_changed, content.tables.values().map(|e| e.value.clone()).collect())
    }

    /// When a table was last made, changed or dropped.
    pub fn tables_changed(&self) -> Revision {
        self.seen.content.read().tables_changed
    }

    /// All databases.
    pub fn databases(&self) -> Vec<Arc<Database>> {
        self.seen.content.read().databases.values().map(|e| e.value.clone()).collect()
    }

    /// The tables of a database.
    pub fn tables(&self, database: &DatabaseName) -> Result<Vec<Arc<Table>>, CatalogError> {
        let content = self.seen.content.read();
        content.database(database)?;
        let tables = content.tables.iter().filter(|(name, _)| name.database() == database);
        Ok(tables.map(|(_, e)| e.value.clone()).collect())
    }

    /// A table.
    pub fn table(&self, name: &TableName) -> Result<Arc<Table>, CatalogError> {
        Ok(self.seen.content.read().table(name)?.value.clone())
    }

    /// Waits until this process sees a table that another one has just made. Where it is known, or there is none, it waits for nothing.
    pub async fn meet(&self, name: &TableName) -> Result<(), CatalogError> {
        if self.table(name).is_ok() {
            return Ok(());
        }
        if let Some(found) = self.meta.get(&format!("{TABLES}{name}")).await? {
            self.wait_for(found.modified).await;
        }
        Ok(())
    }

    /// The table of this id, with at least this schema version, also while it is being dropped; `None` if nothing of it
    /// is left. What the watch has not seen yet is asked of the meta store.
    pub async fn table_by_id(
        &self,
        id: TableId,
        schema: SchemaId,
    ) -> Result<Option<Arc<Table>>, CatalogError> {
        let is_it = |table: &Table| table.id == id && table.schema_of(schema).is_some();
        if let Some(found) = self.seen.content.read().tables.values().find(|e| is_it(&e.value)) {
            return Ok(Some(found.value.clone()));
        }
        let mut stored = self.meta.list(TABLES).await?.entries;
        // Second, as a drop moves a table from there to here.
        stored.extend(self.meta.get(&format!("{DROPPED}{id}")).await?);
        for found in &stored {
            let table: Table = decode(found)?;
            if is_it(&table) {
                return Ok(Some(Arc::new(table)));
            }
            if table.id == id {
                let why = format!("it has no schema version {schema}, of which there are rows");
                return Err(CatalogError::Damaged { key: found.key.clone(), why });
            }
        }
        Ok(None)
    }

    /// A database.
    pub fn database(&self, name: &DatabaseName) -> Result<Arc<Database>, CatalogError> {
        Ok(self.seen.content.read().database(name)?.value.clone())
    }

    /// Makes a database. `created_at` is in milliseconds since 1970.
    pub async fn create_database(
        &self,
        name: &DatabaseName,
        comment: Option<String>,
        created_at: i64,
    ) -> Result<Arc<Database>, CatalogError> {
        let key = format!("{DATABASES}{name}");
        let database = Database { name: name.clone(), comment, created_at };
        let value = encode(&database)?;
        let txn = || Ok(Txn::new().when(Compare::absent(&key)).put(&key, value.clone()));
        match self.change(&key, txn).await? {
            Changed::Done | Changed::Unknown(Some(_)) => Ok(Arc::new(database)),
            Changed::Refused(_) | Changed::Unknown(None) => {
                Err(CatalogError::DatabaseExists { name: name.clone() })
            }
        }
    }

    /// Takes an empty database away.
    pub async fn drop_database(&self, name: &DatabaseName) -> Result<(), CatalogError> {
        self.database(name)?;
        let key = format!("{DATABASES}{name}");
        // Tables compare the database's revision when they are made, so none can come in between.
        let modified = self.seen.content.read().database(name)?.modified;
        let in_store = self.meta.list(&format!("{TABLES}{name}.")).await?.entries;
        if let Some(table) = in_store.first() {
            let tables = in_store.len();
            let table = table.key.trim_start_matches(TABLES).to_owned();
            return Err(CatalogError::DatabaseNotEmpty { name: name.clone(), tables, table });
        }
        let guard = format!("{DATABASES}{name}");
        let txn = || Ok(Txn::new().when(Compare::modified(&guard, modified)).delete(&key));
        match self.change(&key, txn).await? {
            Changed::Done | Changed::Unknown(None) => Ok(()),
            Changed::Refused(_) | Changed::Unknown(Some(_)) => Err(CatalogError::Contended),
        }
    }

    /// Makes a table.
    pub async fn create_table(
        &self,
        database: &DatabaseName,
        spec: &TableSpec,
        created_at: i64,
    ) -> Result<Arc<Table>, CatalogError> {
        let name = TableName::new(database.clone(), &spec.name)?;
        name.check_free()?;
        self.create_table_named(name, spec, created_at).await
    }

    /// Makes a table under a name that users cannot choose themselves.
    pub async fn create_table_named(
        &self,
        name: TableName,
        spec: &TableSpec,
        created_at: i64,
    ) -> Result<Arc<Table>, CatalogError> {
        let database_key = format!("{DATABASES}{}", name.database());
        let key = format!("{TABLES}{name}");
        // Judged before an id is spent on it.
        Table::create(TableId(0), name.clone(), spec, created_at)?;
        for _ in 0..TRIES {
            self.database(name.database())?;
            let last = self.meta.get(IDS).await?;
            let id = TableId(last.as_ref().map_or(Ok(0), decode::<u64>)? + 1);
            let table = Table::create(id, name.clone(), spec, created_at)?;
            let unchanged = match &last {
                Some(last) => Compare::modified(IDS, last.modified),
                None => Compare::absent(IDS),
            };
            let value = encode(&table)?;
            let database = self.meta.get(&database_key).await?;
            let database = database.ok_or_else(|| CatalogError::database_not_found(name.database(), None))?;
            let txn = || {
                Ok(Txn::new()
                    .when(Compare::absent(&key))
                    .when(Compare::modified(&database_key, database.modified))
                    .when(unchanged.clone())
                    .put(IDS, encode(&id.0)?)
                    // The database changes with it, so that it cannot be dropped at the same moment.
                    .put(&database_key, database.value.clone())
                    .put(&key, value.clone()))
            };
            match self.change(&key, txn).await? {
                Changed::Done => return Ok(Arc::new(table)),
                Changed::Unknown(Some(found)) if found.value == value => return Ok(Arc::new(table)),
                Changed::Refused(found) if found.first().is_some_and(Option::is_some) => {
                    return Err(CatalogError::TableExists { name });
                }
                // Somebody else took the id, or changed the database.
                Changed::Refused(_) | Changed::Unknown(_) => {}
            }
        }
        Err(CatalogError::Contended)
    }

    /// Changes a table's columns and options.
    pub async fn alter_table(
        &self,
        name: &TableName,
        changes: &[SchemaChange],
        options: &BTreeMap<String, Option<String>>,
    ) -> Result<Arc<Table>, CatalogError> {
        let key = format!("{TABLES}{name}");
        for _ in 0..TRIES {
            let Some(found) = self.meta.get(&key).await? else { return Err(self.table_not_found(name)) };
            let table: Table = decode(&found)?;
            let table = table.altered(changes, options)?;
            let value = encode(&table)?;
            let txn =
                || Ok(Txn::new().when(Compare::modified(&key, found.modified)).put(&key, value.clone()));
            match self.change(&key, txn).await? {
                Changed::Done => return Ok(Arc::new(table)),
                Changed::Unknown(Some(now)) if now.value == value => return Ok(Arc::new(table)),
                Changed::Refused(_) | Changed::Unknown(_) => {}
            }
        }
        Err(CatalogError::Contended)
    }

    /// Takes a table away from its users. Its rows go later.
    pub async fn drop_table(&self, name: &TableName) -> Result<(), CatalogError> {
        let key = format!("{TABLES}{name}");
        for _ in 0..TRIES {
            let Some(found) = self.meta.get(&key).await? else { return Err(self.table_not_found(name)) };
            let mut table: Table = decode(&found)?;
            table.state = TableState::Dropping;
            let dropped = format!("{DROPPED}{}", table.id);
            let value = encode(&table)?;
            let txn = || {
                let unchanged = Compare::modified(&key, found.modified);
                Ok(Txn::new().when(unchanged).put(&dropped, value.clone()).delete(&key))
            };
            match self.change(&key, txn).await? {
                Changed::Done | Changed::Unknown(None) => return Ok(()),
                Changed::Refused(_) | Changed::Unknown(Some(_)) => {}
            }
        }
        Err(CatalogError::Contended)
    }

    fn table_not_found(&self, name: &TableName) -> CatalogError {
        match self.table(name) {
            Err(error) => error,
            // The watch is behind.
            Ok(_) => CatalogError::TableNotFound { name: name.clone(), nearest: None },
        }
    }

    /// Does a transaction and waits until the watch has seen it.
    async fn change(
        &self,
        key: &str,
        txn: impl FnOnce() -> Result<Txn, CatalogError>,
    ) -> Result<Changed, CatalogError> {
        match self.meta.txn(txn()?).await {
            Ok(TxnOutcome::Committed(revision)) => {
                self.wait_for(revision).await;
                Ok(Changed::Done)
            }
            Ok(TxnOutcome::Refused(found)) => Ok(Changed::Refused(found)),
            Err(error) if error.kind() == MetaErrorKind::Unknown => {
                let now = self.meta.get(key).await?;
                if let Some(now) = &now {
                    self.wait_for(now.modified).await;
                }
                Ok(Changed::Unknown(now))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn wait_for(&self, revision: Revision) {
        let mut seen = self.seen.revision.subscribe();
        // The change is done; that this gateway sees it a little later is no reason to say otherwise.
        let _ = tokio::time::timeout(WATCH_PATIENCE, seen.wait_for(|seen| *seen >= revision)).await;
        let _ = &self.follower;
    }
}

/// What became of a change.
enum Changed {
    Done,
    /// With what the compared keys hold.
    Refused(Vec<Option<KeyValue>>),
    /// With what the key holds now.
    Unknown(Option<KeyValue>),
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, CatalogError> {
    serde_json::to_vec(value)
        .map_err(|e| CatalogError::Damaged { key: "a new value".into(), why: e.to_string() })
}

fn decode<T: for<'a> Deserialize<'a>>(found: &KeyValue) -> Result<T, CatalogError> {
    serde_json::from_slice(&found.value)
        .map_err(|e| CatalogError::Damaged { key: found.key.clone(), why: e.to_string() })
}

impl Content {
    fn database(&self, name: &DatabaseName) -> Result<&Entry<Database>, CatalogError> {
        self.databases.get(name).ok_or_else(|| {
            let names = self.databases.keys().map(DatabaseName::as_str);
            CatalogError::database_not_found(name, suggest::nearest(name.as_str(), names))
        })
    }

    fn table(&self, name: &TableName) -> Result<&Entry<Table>, CatalogError> {
        if let Some(found) = self.tables.get(name) {
            return Ok(found);
        }
        self.database(name.database())?;
        let names = self.tables.keys().filter(|t| t.database() == name.database()).map(TableName::table);
        let nearest = suggest::nearest(name.table(), names);
        let nearest = nearest.map(|table| format!("{}.{table}", name.database()));
        Err(CatalogError::TableNotFound { name: name.clone(), nearest })
    }

    fn put(&mut self, found: &KeyValue) {
        let modified = found.modified;
        let taken = if found.key.starts_with(DATABASES) {
            decode(found).map(|value: Database| {
                let name = value.name.clone();
                self.databases.insert(name, Entry { value: Arc::new(value), modified });
            })
        } else if found.key.starts_with(TABLES) {
            decode(found).map(|value: Table| {
                let name = value.name.clone();
                self.tables.insert(name, Entry { value: Arc::new(value), modified });
                self.tables_changed = self.tables_changed.max(modified);
            })
        } else if found.key.starts_with(PARTITIONS) {
            self.partitions.put(found)
        } else {
            Ok(())
        };
        if let Err(error) = taken {
            tracing::error!(key = found.key, %error, "a catalog entry cannot be read and is left out");
        }
    }

    fn delete(&mut self, key: &str, revision: Revision) {
        if let Some(Ok(name)) = key.strip_prefix(DATABASES).map(str::parse) {
            self.databases.remove::<DatabaseName>(&name);
        }
        if let Some(name) = key.strip_prefix(TABLES) {
            self.tables.retain(|table, _| table.to_string() != name);
            self.tables_changed = revision;
            self.forget_partitions();
        }
        if let Some(rest) = key.strip_prefix(PARTITIONS) {
            self.partitions.delete(rest);
        }
    }

    /// Partitions go with their table.
    fn forget_partitions(&mut self) {
        let ids: BTreeSet<TableId> = self.tables.values().map(|e| e.value.id).collect();
        self.partitions.keep(|table| ids.contains(&table));
    }
}

impl Seen {
    fn reset(&self, entries: Vec<KeyValue>, revision: Revision) {
        let mut content = Content::default();
        entries.iter().for_each(|entry| content.put(entry));
        content.forget_partitions();
        content.tables_changed = revision;
        *self.content.write() = content;
        self.revision.send_replace(revision);
    }

    fn take(&self, event: WatchEvent) {
        let revision = event.revision();
        match event {
            WatchEvent::Reset(listing) => self.reset(listing.entries, revision),
            WatchEvent::Changes { changes, .. } => {
                let mut content = self.content.write();
                for change in &changes {
                    match change {
                        Change::Put(found) => content.put(found),
                        Change::Delete { key } => content.delete(key, revision),
                    }
                }
                drop(content);
                self.revision.send_replace(revision);
            }
        }
    }
}

/// Follows the catalog for ever. A watch that ends is begun anew where it was.
async fn follow(meta: Arc<dyn MetaStore>, seen: Arc<Seen>, mut revision: Revision) {
    loop {
        match meta.watch(PREFIX, revision).await {
            Ok(mut watch) => {
                while let Ok(event) = watch.next().await {
                    revision = event.revision();
                    seen.take(event);
                }
            }
            Err(error) if matches!(error.kind(), MetaErrorKind::Closed | MetaErrorKind::Fenced) => return,
            Err(error) => tracing::warn!(%error, "the catalog cannot be followed; trying again"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
