//! Prefix lookups: what a filtered map would say, from groups in memory and from the database, beside writes (K3, K6).

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, Int32Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Int32Type;
use proptest::prelude::*;
use wadi_model::ipc::Originals;
use wadi_model::{Table, TableId, TableSpec};

use super::*;
use crate::keyed::KeyedTable;

type Key = (i64, i64, i64);
type State = BTreeMap<Key, i32>;

/// A table of rows under owner and kind: `a bigint, b bigint, c bigint, n int`, with the bucket key `a`.
struct Grouped {
    world: World,
    table: Arc<KeyedTable>,
}

impl Grouped {
    fn new(cache: usize) -> Grouped {
        let world = World::with(|settings| settings.row_cache_bytes = cache);
        let spec = TableSpec {
            primary_key: ["a", "b", "c"].map(String::from).into(),
            bucket_key: vec!["a".into()],
            ..TableSpec::log("g", &[("a", "bigint"), ("b", "bigint"), ("c", "bigint"), ("n", "int")])
        };
        let table = Arc::new(Table::create(TableId(9), "a.g".parse().unwrap(), &spec, 0).unwrap());
        world.tables.lock().push(table.clone());
        Grouped { table: world.context.tables.of(&table).unwrap(), world }
    }

    fn bucket(&self) -> Bucket {
        self.table.table().bucket(0)
    }

    /// Rows to write; `None` deletes.
    fn part(&self, rows: &[(Key, Option<i32>)]) -> Part {
        let column = |of: fn(&Key) -> i64| {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(key, _)| of(key)))) as ArrayRef
        };
        let n = Arc::new(Int32Array::from_iter(rows.iter().map(|(_, n)| *n)));
        let arrays = vec![column(|k| k.0), column(|k| k.1), column(|k| k.2), n];
        Part {
            bucket: self.bucket(),
            schema: self.table.table().schema().id(),
            compression: LogCompression::Zstd { level: 1 },
            rows: RecordBatch::try_new(self.table.table().schema().arrow().clone(), arrays).unwrap(),
            originals: Originals::default(),
            stamp: None,
            keyed: Some(crate::shard::Keyed {
                table: self.table.clone(),
                columns: None,
                deletes: Some(rows.iter().map(|(_, n)| n.is_none()).collect::<BooleanBuffer>()),
                if_absent: false,
                targets: Targets::default(),
            }),
        }
    }

    fn encoded(&self, keys: &[Vec<i64>]) -> model_row::Rows {
        let width = keys[0].len();
        let column = |i| Arc::new(Int64Array::from_iter_values(keys.iter().map(|key| key[i]))) as ArrayRef;
        self.table.encode_keys(&(0..width).map(column).collect::<Vec<_>>(), keys.len()).unwrap()
    }

    async fn lookup(
        &self,
        shard: &Shard,
        prefixes: &[Vec<i64>],
        limit: Limit,
    ) -> Option<Vec<Vec<(Key, i32)>>> {
        let groups: Vec<_> = prefixes.iter().map(|prefix| prefix[..1].to_vec()).collect();
        let (groups, prefixes) = (self.encoded(&groups), self.encoded(prefixes));
        let found = shard.lookup_prefixes(&self.bucket(), &groups, &prefixes, limit).await.unwrap();
        Some(found?.iter().map(|rows| self.values(rows)).collect())
    }

    fn values(&self, rows: &[Bytes]) -> Vec<(Key, i32)> {
        let batch = self.table.decode(rows, &[0, 1, 2, 3]).unwrap();
        let key = |i: usize| batch.column(i).as_primitive::<Int64Type>();
        let n = batch.column(3).as_primitive::<Int32Type>();
        (0..rows.len()).map(|r| ((key(0).value(r), key(1).value(r), key(2).value(r)), n.value(r))).collect()
    }
}

const ANY: Limit = Limit { rows: 1 << 20, bytes: 1 << 30 };

fn under(state: &State, prefix: &[i64]) -> Vec<(Key, i32)> {
    let inside = |key: &Key| key.0 == prefix[0] && prefix.get(1).is_none_or(|b| key.1 == *b);
    state.iter().filter(|(key, _)| inside(key)).map(|(key, n)| (*key, *n)).collect()
}

fn write(state: &mut State, rows: &[(Key, Option<i32>)]) {
    for (key, n) in rows {
        match n {
            Some(n) => state.insert(*key, *n),
            None => state.remove(key),
        };
    }
}

#[tokio::test]
async fn a_large_group_is_scanned_each_time() {
    let grouped = Grouped::new(1 << 20);
    let shard = grouped.world.open().await;
    let rows: Vec<_> = (0..1_500).map(|i| ((1, i % 3, i), Some(i as i32))).collect();
    shard.append(grouped.part(&rows)).await.unwrap();
    let mut state = State::new();
    write(&mut state, &rows);
    for _ in 0..2 {
        let found = grouped.lookup(&shard, &[vec![1], vec![2]], ANY).await.unwrap();
        assert_eq!(found, [under(&state, &[1]), Vec::new()]);
        let found = grouped.lookup(&shard, &[vec![1, 2], vec![1, 9]], ANY).await.unwrap();
        assert_eq!(found, [under(&state, &[1, 2]), Vec::new()]);
    }
}

#[tokio::test]
async fn answers_are_bounded_whether_warm_or_not() {
    let grouped = Grouped::new(1 << 20);
    let shard = grouped.world.open().await;
    let rows: Vec<_> = (0..10).map(|i| ((i / 5, 0, i), Some(1))).collect();
    shard.append(grouped.part(&rows)).await.unwrap();
    for _ in 0..2 {
        let nine = Limit { rows: 9, ..ANY };
        assert_eq!(grouped.lookup(&shard, &[vec![0], vec![1]], nine).await, None);
        assert_eq!(grouped.lookup(&shard, &[vec![0]], Limit { bytes: 10, ..ANY }).await, None);
        let all = grouped.lookup(&shard, &[vec![0], vec![1]], Limit { rows: 10, ..ANY }).await;
        assert_eq!(all.unwrap().concat().len(), 10);
    }
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(Key, Option<i32>)>),
    /// A write, and lookups that begin beside it.
    Race(Vec<(Key, Option<i32>)>, Vec<i64>),
    Wait,
    Takeover,
}

fn step() -> impl Strategy<Value = Step> {
    let key = (0..3i64, 0..2i64, 0..3i64);
    let rows = || proptest::collection::vec((key.clone(), any::<Option<i32>>()), 1..6);
    prop_oneof![
        3 => rows().prop_map(Step::Write),
        3 => (rows(), proptest::collection::vec(0..3i64, 1..6)).prop_map(|(rows, of)| Step::Race(rows, of)),
        1 => Just(Step::Wait),
        1 => Just(Step::Takeover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Prefix lookups, through takeovers and with caches of any size, find what a filter over a map finds.
    #[test]
    fn prefixes_find_what_a_filter_finds(steps in proptest::collection::vec(step(), 1..25), cache in prop_oneof![Just(0usize), Just(900), Just(2_000), Just(1 << 20)]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let grouped = Grouped::new(cache);
            let mut shard = grouped.world.open().await;
            let mut state = State::new();
            for step in steps {
                match step {
                    Step::Write(rows) => {
                        shard.append(grouped.part(&rows)).await.unwrap();
                        write(&mut state, &rows);
                    }
                    Step::Race(rows, of) => {
                        let before = state.clone();
                        write(&mut state, &rows);
                        let look = |(i, a): (usize, i64)| {
                            let (grouped, shard) = (&grouped, &shard);
                            async move {
                                for _ in 0..i * 7 {
                                    tokio::task::yield_now().await;
                                }
                                (a, grouped.lookup(shard, &[vec![a]], ANY).await.unwrap().remove(0))
                            }
                        };
                        let looks = futures::future::join_all(of.into_iter().enumerate().map(look));
                        let (written, looks) = futures::join!(shard.append(grouped.part(&rows)), looks);
                        written.unwrap();
                        for (a, found) in looks {
                            // The part is one step (L5): before it or after it, nothing between.
                            let (old, new) = (under(&before, &[a]), under(&state, &[a]));
                            assert!(found == old || found == new, "{found:?} is neither {old:?} nor {new:?}");
                        }
                    }
                    Step::Wait => tokio::time::sleep(Duration::from_secs(2)).await,
                    Step::Takeover => shard = grouped.world.open().await,
                }
                let prefixes: Vec<_> = (0..3).map(|a| vec![a]).collect();
                let expected: Vec<_> = prefixes.iter().map(|prefix| under(&state, prefix)).collect();
                assert_eq!(grouped.lookup(&shard, &prefixes, ANY).await.unwrap(), expected);
                let longer: Vec<_> = (0..3).flat_map(|a| [vec![a, 0], vec![a, 1]]).collect();
                let expected: Vec<_> = longer.iter().map(|prefix| under(&state, prefix)).collect();
                assert_eq!(grouped.lookup(&shard, &longer, ANY).await.unwrap(), expected);
            }
        });
    }
}
