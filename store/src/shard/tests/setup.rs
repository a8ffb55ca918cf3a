//! A world of one shard: its store, its clock, and claims of it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arrow::array::{AsArray, Int32Array, StringArray};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use wadi_meta::members::Members;
use wadi_meta::memory::MemoryStore;
use wadi_meta::{MetaStore, Revision};
use wadi_model::env::{Env, Source};
use wadi_model::ipc::{self, Originals};
use wadi_model::{SchemaId, ShardId, Table, TableId, TableSpec};

use super::*;
use crate::cluster::Cluster;
use crate::context::Memory;
use crate::database::MEMTABLE_BYTES;
use crate::host::{COMPACTORS, relieve};
use crate::ids::MetaIds;
use crate::keyed::{KeyedTables, TableSource};
use crate::memtables::Memtables;
use crate::metrics::StoreMetrics;
use crate::objects::Health;
use crate::segments::SegmentCache;
use crate::settings::Settings;
use crate::task::{self, Cpu};

pub(super) struct World {
    pub context: Context,
    pub table: Arc<Table>,
    pub meta: Arc<dyn MetaStore>,
    /// The primary-key tables that replay finds.
    pub tables: Arc<Mutex<Vec<Arc<Table>>>>,
    /// Those that were dropped for good.
    pub dropped: Arc<Mutex<BTreeSet<TableId>>>,
    clock: Arc<AtomicI64>,
    claims: AtomicU64,
}

struct TestSource {
    clock: Arc<AtomicI64>,
    random: AtomicU64,
}

impl Source for TestSource {
    fn now_millis(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
    }
}

/// Tables as the catalog would give them.
#[derive(Debug)]
struct Fixed(Arc<Mutex<Vec<Arc<Table>>>>, Arc<Mutex<BTreeSet<TableId>>>);

#[async_trait::async_trait]
impl TableSource for Fixed {
    async fn table(&self, id: TableId, schema: SchemaId) -> Result<Option<Arc<Table>>, String> {
        let tables = self.0.lock();
        Ok(tables.iter().rev().find(|t| t.id == id && t.schema_of(schema).is_some()).cloned())
    }

    async fn kept(&self, bucket: &Bucket) -> Result<Option<Arc<Table>>, String> {
        let dropped = self.1.lock().contains(&bucket.table);
        let table = self.0.lock().iter().rev().find(|t| t.id == bucket.table).cloned();
        Ok(table.filter(|_| !dropped))
    }
}

impl World {
    pub(super) fn new() -> World {
        World::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut Settings)) -> World {
        World::on(Arc::new(InMemory::new()), change)
    }

    pub(super) fn on(objects: Arc<dyn ObjectStore>, change: impl FnOnce(&mut Settings)) -> World {
        let mut settings = Settings { linger: Duration::from_millis(1), ..Settings::local() };
        change(&mut settings);
        let clock = Arc::new(AtomicI64::new(1_000));
        let tables = Arc::new(Mutex::new(Vec::new()));
        let dropped = Arc::new(Mutex::new(BTreeSet::new()));
        let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
        let context = Context {
            objects,
            health: Health::default(),
            root: Path::from("w"),
            env: Env::new(TestSource { clock: clock.clone(), random: AtomicU64::new(1) }),
            cpu: Cpu::inline(),
            memory: Memory::new(settings.unflushed_bytes),
            reads: Memory::new(64 << 20),
            memtables: Memtables::new(settings.memtable_bytes, MEMTABLE_BYTES),
            segments: SegmentCache::new(64 << 20),
            block_cache: None,
            tables: KeyedTables::new(Arc::new(Fixed(tables.clone(), dropped.clone()))),
            ids: Arc::new(MetaIds::new(meta.clone(), Env::default())),
            metrics: StoreMetrics::new(&mut Registry::default()),
            local: false,
            settings: Arc::new(settings),
        };
        let spec = TableSpec::log("t", &[("id", "bigint"), ("n", "int"), ("name", "string")]);
        let table = Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap();
        World { context, tables, dropped, table: Arc::new(table), meta, clock, claims: AtomicU64::new(1) }
    }

    pub(super) fn set_time(&self, millis: i64) {
        self.clock.store(millis, Ordering::SeqCst);
    }

    /// A new claim of the shard, in a session of its own.
    pub(super) async fn claim(&self) -> Claim {
        let session = self.meta.session(Duration::from_secs(10)).await.unwrap();
        let cluster = Cluster { id: String::new(), format: 1, shards: 1, generation: 1, meta: None };
        let revision = Revision(self.claims.fetch_add(1, Ordering::SeqCst));
        Claim::new(ShardId(0), cluster.token(revision), session)
    }

    /// Takes the shard over, as the next gateway would.
    pub(super) async fn open(&self) -> Shard {
        let shard = take_over(&self.context, &self.claim().await).await.unwrap();
        // As its host would: a database that nobody compacts is full after some dozens of flushes.
        let compactors = Members::follow(self.meta.clone(), COMPACTORS);
        let relief = relieve(self.context.clone(), ShardId(0), shard.database().clone(), compactors);
        drop(task::spawn(relief));
        shard
    }

    pub(super) fn bucket(&self, number: u32) -> Bucket {
        self.table.bucket(number)
    }

    pub(super) fn part(&self, bucket: u32, ids: Range<i64>) -> Part {
        Part {
            bucket: self.bucket(bucket),
            schema: self.table.schema().id(),
            compression: LogCompression::Zstd { level: 1 },
            rows: rows(ids),
            originals: Originals::default(),
            stamp: None,
            keyed: None,
        }
    }

    pub(super) fn stamped(&self, bucket: u32, ids: Range<i64>, producer: &str, sequence: u64) -> Part {
        let stamp = Stamp { producer: producer.into(), sequence, fingerprint: sequence, once: false };
        Part { stamp: Some(stamp), ..self.part(bucket, ids) }
    }

    pub(super) fn request(&self, bucket: u32, offset: Offset) -> LogRead<'_> {
        LogRead {
            table: &self.table,
            bucket: self.bucket(bucket),
            partition: "",
            offset,
            columns: vec![0, 1, 2],
            system: Vec::new(),
            filter: None,
            until: None,
            max_bytes: 64 << 20,
            max_rows: usize::MAX,
        }
    }

    pub(super) async fn try_read(
        &self,
        shard: &Shard,
        bucket: u32,
        offset: u64,
    ) -> Result<Vec<i64>, LogReadError> {
        let request = self.request(bucket, Offset(offset));
        let answer = shard.read(&request).await?;
        Ok(ids(self, &answer, &request.columns))
    }

    pub(super) async fn read(&self, shard: &Shard, bucket: u32, offset: u64) -> Vec<i64> {
        self.try_read(shard, bucket, offset).await.unwrap()
    }

    /// Reads to the end, in as many answers as it takes.
    pub(super) async fn read_all(&self, shard: &Shard, bucket: u32, offset: u64) -> Vec<i64> {
        let mut request = self.request(bucket, Offset(offset));
        let mut all = Vec::new();
        loop {
            let answer = shard.read(&request).await.unwrap();
            all.extend(ids(self, &answer, &request.columns));
            if answer.next_offset >= answer.bounds.high_watermark {
                return all;
            }
            assert!(answer.next_offset > request.offset, "a read must move on");
            request.offset = answer.next_offset;
        }
    }
}

/// Rows whose first column counts, and whose others follow from it.
pub(super) fn rows(ids: Range<i64>) -> RecordBatch {
    let n: Int32Array = ids.clone().map(|i| Some((i * 7) as i32)).collect();
    let name: StringArray = ids.clone().map(|i| Some(format!("name {}", i * 31 % 1009))).collect();
    let id = Int64Array::from_iter_values(ids);
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(id) as _, true),
        ("n", Arc::new(n) as _, true),
        ("name", Arc::new(name) as _, true),
    ])
    .unwrap()
}

/// The first column of an answer that asked for `columns`.
pub(super) fn ids(world: &World, answer: &LogAnswer, columns: &[usize]) -> Vec<i64> {
    let schema = Arc::new(world.table.schema().arrow().project(columns).unwrap());
    let batch = |piece: &Piece| match piece {
        Piece::Batch(batch) => batch.clone(),
        Piece::Message { message, .. } => ipc::decode(message, &schema, 1 << 30).unwrap(),
    };
    let batches = answer.pieces.iter().map(batch);
    batches.flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}
