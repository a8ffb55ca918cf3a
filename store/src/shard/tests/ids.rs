//! Auto-increment columns: each id is given once, whatever happens, and a row keeps the one that it was inserted with.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::BooleanBuffer;
use proptest::prelude::*;
use wadi_model::{Table, TableId, TableSpec};

use super::*;
use crate::ids::IdSource;
use crate::keyed::KeyedTable;
use crate::shard::Keyed;

/// A table `k bigint, v string, id <auto-increment>`.
struct Dictionary {
    world: World,
    table: Arc<KeyedTable>,
}

impl Dictionary {
    fn new(world: World, id_type: &str, cache: u64) -> Dictionary {
        let spec = TableSpec {
            primary_key: vec!["k".into()],
            auto_increment: vec!["id".into()],
            properties: [("table.auto-increment.cache-size".into(), cache.to_string())].into(),
            ..TableSpec::log("d", &[("k", "bigint"), ("v", "string"), ("id", id_type)])
        };
        let table = Arc::new(Table::create(TableId(9), "a.d".parse().unwrap(), &spec, 0).unwrap());
        world.tables.lock().push(table.clone());
        Dictionary { table: world.context.tables.of(&table).unwrap(), world }
    }

    fn bucket(&self) -> Bucket {
        self.table.table().bucket(0)
    }

    fn part(&self, rows: &[(i64, &str)]) -> Part {
        let k: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
        let v: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)));
        let schema = self.table.table().schema();
        Part {
            bucket: self.bucket(),
            schema: schema.id(),
            compression: LogCompression::None,
            rows: RecordBatch::try_new(Arc::new(schema.arrow().project(&[0, 1]).unwrap()), vec![k, v])
                .unwrap(),
            originals: Default::default(),
            stamp: None,
            keyed: Some(Keyed {
                table: self.table.clone(),
                columns: Some([0, 1].into()),
                deletes: None,
                targets: Default::default(),
                if_absent: false,
            }),
        }
    }

    fn if_absent(&self, keys: &[i64]) -> Part {
        let mut part = self.part(&keys.iter().map(|key| (*key, "new")).collect::<Vec<_>>());
        part.keyed.as_mut().unwrap().if_absent = true;
        part
    }

    fn delete(&self, keys: &[i64]) -> Part {
        let mut part = self.part(&keys.iter().map(|key| (*key, "")).collect::<Vec<_>>());
        part.keyed.as_mut().unwrap().deletes = Some(BooleanBuffer::new_set(keys.len()));
        part
    }

    /// Value and id of each row.
    async fn rows(&self, shard: &Shard) -> BTreeMap<i64, (String, i64)> {
        let mut scan = shard.scan_rows(&self.bucket(), &[]).await.unwrap();
        let page = scan.page(usize::MAX, usize::MAX).await.unwrap();
        let batch = self.table.decode(&page.rows, &[0, 1, 2]).unwrap();
        let ids = arrow::compute::cast(batch.column(2), &arrow::datatypes::DataType::Int64).unwrap();
        let (k, id) = (batch.column(0).as_primitive::<Int64Type>(), ids.as_primitive::<Int64Type>());
        let v = batch.column(1).as_string::<i32>();
        let row = |i: usize| (k.value(i), (v.value(i).to_owned(), id.value(i)));
        (0..batch.num_rows()).map(row).collect()
    }
}

#[tokio::test]
async fn new_rows_get_ids_and_keep_them() {
    let of = Dictionary::new(World::new(), "bigint", 10);
    let shard = of.world.open().await;
    // The same key twice in one part is one new row.
    shard.append(of.part(&[(7, "a"), (5, "b"), (7, "c")])).await.unwrap();
    let row = |v: &str, id| (v.to_owned(), id);
    assert_eq!(of.rows(&shard).await, BTreeMap::from([(7, row("c", 1)), (5, row("b", 2))]));
    shard.append(of.part(&[(5, "d"), (6, "e")])).await.unwrap();
    shard.append(of.if_absent(&[7, 8])).await.unwrap();
    let all = BTreeMap::from([(5, row("d", 2)), (6, row("e", 3)), (7, row("c", 1)), (8, row("new", 4))]);
    assert_eq!(of.rows(&shard).await, all);
    // A row that is inserted anew is a new row.
    shard.append(of.delete(&[6])).await.unwrap();
    shard.append(of.part(&[(6, "f")])).await.unwrap();
    assert_eq!(of.rows(&shard).await[&6], row("f", 5));
    assert_eq!(shard.append(of.if_absent(&[5, 6])).await.unwrap().rows, 0);
}

#[tokio::test]
async fn the_next_owner_goes_on_where_the_log_ends() {
    for cache in [1, 3, 1000] {
        // Whether ids come from the database or from the log behind it.
        for memtable_objects in [1, 1000] {
            let world = World::with(|settings| {
                settings.memtable_objects = memtable_objects;
                settings.group_objects = 1;
            });
            let of = Dictionary::new(world, "int", cache);
            for owner in 0..6 {
                let shard = of.world.open().await;
                for n in 0..5 {
                    shard.append(of.part(&[(owner * 10 + n, "x"), (0, "again")])).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let shard = of.world.open().await;
            let ids: BTreeSet<i64> = of.rows(&shard).await.values().map(|(_, id)| *id).collect();
            assert_eq!(ids.len(), 30, "each row has an id of its own");
            let gaps = ids.last().unwrap() - 30;
            // What was taken ahead and never used is lost, nothing else.
            assert!(gaps <= 6 * cache as i64, "cache {cache}: {ids:?}");
        }
    }
}

#[tokio::test]
async fn parts_may_need_more_ids_than_are_taken_at_once() {
    let of = Dictionary::new(World::new(), "bigint", 2);
    let shard = of.world.open().await;
    let parts: Vec<Part> =
        (0..10).map(|n| of.part(&(0..=n).map(|k| (n * 100 + k, "x")).collect::<Vec<_>>())).collect();
    let appends = futures::future::join_all(parts.into_iter().map(|part| shard.append(part)));
    for appended in tokio::time::timeout(Duration::from_secs(60), appends).await.unwrap() {
        appended.unwrap();
    }
    let ids: BTreeSet<i64> = of.rows(&shard).await.values().map(|(_, id)| *id).collect();
    assert_eq!(ids.len(), 55);
}

#[tokio::test]
async fn clients_that_ask_for_the_same_keys_at_once_get_the_same_rows() {
    let of = Dictionary::new(World::new(), "bigint", 5);
    let shard = of.world.open().await;
    for round in 0..10 {
        let keys: Vec<i64> = (round..round + 4).collect();
        let asks = futures::future::join_all((0..5).map(|_| shard.append(of.if_absent(&keys)))).await;
        assert!(asks.into_iter().all(|ask| ask.is_ok()));
    }
    let ids: BTreeSet<i64> = of.rows(&shard).await.values().map(|(_, id)| *id).collect();
    assert_eq!(ids, (1..14).collect(), "dense, as nobody died");
}

#[tokio::test]
async fn ids_that_do_not_fit_the_column_are_refused() {
    let of = Dictionary::new(World::new(), "int", 10);
    of.world.context.ids.take(TableId(9), i32::MAX as u64 - 2).await.unwrap();
    let shard = of.world.open().await;
    shard.append(of.part(&[(1, "a"), (2, "b")])).await.unwrap();
    let refused = shard.append(of.part(&[(1, "c"), (3, "d")])).await;
    assert!(matches!(refused, Err(AppendError::IdsExhausted { most, .. }) if most == i32::MAX as u64));
    shard.append(of.part(&[(1, "c")])).await.unwrap();
    let rows = of.rows(&shard).await;
    assert_eq!((rows.len(), &*rows[&1].0, rows[&2].1), (2, "c", i64::from(i32::MAX)));
}

/// Gives nothing, or endless ids.
#[derive(Debug, Default)]
struct Moody {
    willing: AtomicBool,
    next: std::sync::atomic::AtomicU64,
}

#[async_trait::async_trait]
impl IdSource for Moody {
    async fn take(&self, _: TableId, count: u64) -> Result<Range<u64>, String> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let start = self.next.fetch_add(count, Ordering::SeqCst);
        if self.willing.load(Ordering::SeqCst) { Ok(start..start + count) } else { Err("not now".into()) }
    }
}

#[tokio::test]
async fn without_ids_new_rows_are_refused_and_others_are_not() {
    let mut world = World::new();
    let source = Arc::new(Moody::default());
    world.context.ids = source.clone();
    let of = Dictionary::new(world, "bigint", 2);
    let shard = of.world.open().await;
    let part = of.part(&[(1, "a"), (2, "b")]);
    let stamp = Stamp { producer: "p".into(), sequence: 1, fingerprint: 1, once: false };
    let stamped = Part { stamp: Some(stamp), ..part };
    assert_eq!(shard.append(stamped.clone()).await, Err(AppendError::NoIds("not now".into())));
    source.willing.store(true, Ordering::SeqCst);
    // Nothing was written and nothing remembered.
    assert!(!shard.append(stamped.clone()).await.unwrap().again);
    source.willing.store(false, Ordering::SeqCst);
    assert!(shard.append(stamped).await.unwrap().again);
    shard.append(of.part(&[(2, "c")])).await.unwrap();
    assert!(matches!(shard.append(of.part(&[(3, "c")])).await, Err(AppendError::NoIds(_))));
}

#[tokio::test]
async fn a_release_answers_what_waits_for_ids() {
    #[derive(Debug)]
    struct Never;
    #[async_trait::async_trait]
    impl IdSource for Never {
        async fn take(&self, _: TableId, _: u64) -> Result<Range<u64>, String> {
            std::future::pending().await
        }
    }
    let mut world = World::new();
    world.context.ids = Arc::new(Never);
    let of = Dictionary::new(world, "bigint", 2);
    let shard = of.world.open().await;
    let append = shard.append(of.part(&[(1, "a")]));
    let (appended, ()) = tokio::join!(append, async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        shard.release().await;
    });
    assert_eq!(appended, Err(AppendError::NotOwned));
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Upsert(Vec<i64>),
    IfAbsent(Vec<i64>),
    Delete(Vec<i64>),
    /// Several parts at once.
    Together(Vec<i64>),
    Takeover,
}

fn step() -> impl Strategy<Value = Step> {
    let keys = || proptest::collection::vec(0..12i64, 1..6);
    prop_oneof![
        3 => keys().prop_map(Step::Upsert),
        3 => keys().prop_map(Step::IfAbsent),
        2 => keys().prop_map(Step::Delete),
        2 => keys().prop_map(Step::Together),
        1 => Just(Step::Takeover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A row's id stays as long as the row does, and no row ever gets one that another has or had.
    #[test]
    fn ids_are_given_once(steps in proptest::collection::vec(step(), 1..25), cache in 1..6u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let of = Dictionary::new(World::with(|settings| settings.row_cache_bytes = 0), "int", cache);
            let mut shard = of.world.open().await;
            let (mut before, mut given) = (BTreeMap::new(), BTreeSet::new());
            for step in steps {
                let named = |keys: &[i64]| keys.iter().map(|key| (*key, "u")).collect::<Vec<_>>();
                let mut gone = Vec::new();
                match step {
                    Step::Upsert(keys) => assert!(shard.append(of.part(&named(&keys))).await.is_ok()),
                    Step::IfAbsent(keys) => assert!(shard.append(of.if_absent(&keys)).await.is_ok()),
                    Step::Delete(keys) => {
                        shard.append(of.delete(&keys)).await.unwrap();
                        gone = keys;
                    }
                    Step::Together(keys) => {
                        let appends = keys.iter().map(|key| shard.append(of.part(&[(*key, "t")])));
                        assert!(futures::future::join_all(appends).await.iter().all(Result::is_ok));
                    }
                    Step::Takeover => shard = of.world.open().await,
                }
                before.retain(|key, _| !gone.contains(key));
                let now: BTreeMap<i64, i64> = of.rows(&shard).await.into_iter().map(|(key, (_, id))| (key, id)).collect();
                for (key, id) in &now {
                    match before.get(key) {
                        Some(had) => assert_eq!(had, id, "key {key}"),
                        None => assert!(given.insert(*id), "key {key} got id {id}, which was given before"),
                    }
                }
                before = now;
            }
        });
    }
}
