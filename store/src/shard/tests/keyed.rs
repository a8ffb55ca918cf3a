//! Primary-key tables: what a plain map would say, a shard says too, through restarts and in its changelog.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, Int32Array, StringArray, UInt16Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Int32Type;
use proptest::prelude::*;
use wadi_model::evolve::SchemaChange;
use wadi_model::ipc::Originals;
use wadi_model::merge::{TargetColumns, Verb};
use wadi_model::table::ColumnSpec;
use wadi_model::{Table, TableId, TableSpec};

use super::*;
use crate::keyed::KeyedTable;

/// A row of the test table: `k bigint, v string, n int`.
pub(super) type Value = (Option<String>, Option<i32>);
pub(super) type State = BTreeMap<i64, Value>;

/// What a row of a part does.
#[derive(Clone, Copy, Debug)]
enum Does {
    Upsert,
    UpdateN,
    UpdateV,
    Delete,
    EmptyN,
}

impl Does {
    fn to(self, map: &mut State, key: i64, n: i32) {
        match self {
            Does::Upsert => drop(map.insert(key, value("m", n))),
            Does::UpdateN => map.entry(key).or_default().1 = Some(n),
            Does::UpdateV => map.entry(key).or_default().0 = Some("m".into()),
            Does::Delete => drop(map.remove(&key)),
            Does::EmptyN => match map.get_mut(&key) {
                Some((None, _)) => drop(map.remove(&key)),
                Some(row) => row.1 = None,
                None => {}
            },
        }
    }
}

pub(super) struct Keyed {
    pub(super) world: World,
    table: Arc<KeyedTable>,
}

impl Keyed {
    fn new(properties: &[(&str, &str)]) -> Keyed {
        Keyed::on(World::new(), properties)
    }

    pub(super) fn on(world: World, properties: &[(&str, &str)]) -> Keyed {
        let spec = TableSpec {
            primary_key: vec!["k".into()],
            properties: properties.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            ..TableSpec::log("kv", &[("k", "bigint"), ("v", "string"), ("n", "int")])
        };
        let table = Arc::new(Table::create(TableId(7), "a.kv".parse().unwrap(), &spec, 0).unwrap());
        let mut keyed = Keyed { table: world.context.tables.of(&table).unwrap(), world };
        keyed.alter(table);
        keyed
    }

    fn alter(&mut self, table: Arc<Table>) {
        self.table = self.world.context.tables.of(&table).unwrap();
        self.world.tables.lock().push(table);
    }

    pub(super) fn bucket(&self) -> Bucket {
        self.table.table().bucket(0)
    }

    fn part(&self, columns: Vec<usize>, arrays: Vec<ArrayRef>, deletes: Option<Vec<bool>>) -> Part {
        let schema = self.table.table().schema().arrow().project(&columns).unwrap();
        Part {
            bucket: self.bucket(),
            schema: self.table.table().schema().id(),
            compression: LogCompression::Zstd { level: 1 },
            rows: RecordBatch::try_new(Arc::new(schema), arrays).unwrap(),
            originals: Originals::default(),
            stamp: None,
            keyed: Some(crate::shard::Keyed {
                table: self.table.clone(),
                columns: Some(columns.into()),
                deletes: deletes.map(BooleanBuffer::from),
                if_absent: false,
                targets: Targets::default(),
            }),
        }
    }

    pub(super) fn upsert(&self, rows: &[(i64, &str, i32)]) -> Part {
        let k = Int64Array::from_iter_values(rows.iter().map(|r| r.0));
        let v = StringArray::from_iter_values(rows.iter().map(|r| r.1));
        let n = Int32Array::from_iter_values(rows.iter().map(|r| r.2));
        self.part(vec![0, 1, 2], vec![Arc::new(k), Arc::new(v), Arc::new(n)], None)
    }

    /// A partial update of `n`.
    pub(super) fn update_n(&self, rows: &[(i64, i32)]) -> Part {
        let k = Int64Array::from_iter_values(rows.iter().map(|r| r.0));
        let n = Int32Array::from_iter_values(rows.iter().map(|r| r.1));
        let mut part = self.part(vec![0, 2], vec![Arc::new(k), Arc::new(n)], None);
        let targets = TargetColumns::new(self.table.table(), ["k", "n"], Verb::Upsert).unwrap();
        part.keyed.as_mut().unwrap().targets = targets.into();
        part
    }

    /// A part whose rows each touch columns of their own.
    fn mixed(&self, rows: &[(i64, i32, Does)]) -> Part {
        let k = Int64Array::from_iter_values(rows.iter().map(|r| r.0));
        let v = StringArray::from_iter_values(rows.iter().map(|_| "m"));
        let n = Int32Array::from_iter_values(rows.iter().map(|r| r.1));
        let deletes = rows.iter().map(|r| matches!(r.2, Does::Delete | Does::EmptyN)).collect();
        let mut part = self.part(vec![0, 1, 2], vec![Arc::new(k), Arc::new(v), Arc::new(n)], Some(deletes));
        let set = |names: &[&str], verb| {
            let names = names.iter().copied();
            Some(Arc::new(TargetColumns::new(self.table.table(), names, verb).unwrap()))
        };
        let (upsert, delete) = (Verb::Upsert, Verb::Delete);
        let sets =
            vec![None, set(&["k", "n"], upsert), set(&["k", "v"], upsert), None, set(&["k", "n"], delete)];
        let of_rows = UInt16Array::from_iter_values(rows.iter().map(|r| r.2 as u16));
        part.keyed.as_mut().unwrap().targets = Targets::by_row(sets, of_rows).unwrap();
        part
    }

    pub(super) fn delete(&self, keys: &[i64]) -> Part {
        let k = Int64Array::from(keys.to_vec());
        self.part(vec![0], vec![Arc::new(k)], Some(vec![true; keys.len()]))
    }

    pub(super) fn keys(&self, keys: &[i64]) -> model_row::Rows {
        self.table.encode_keys(&[Arc::new(Int64Array::from(keys.to_vec())) as ArrayRef], keys.len()).unwrap()
    }

    pub(super) fn values(&self, rows: &[Bytes]) -> Vec<(i64, Value)> {
        let batch = self.table.decode(rows, &[0, 1, 2]).unwrap();
        let (k, v, n) = (
            batch.column(0).as_primitive::<Int64Type>(),
            batch.column(1).as_string::<i32>(),
            batch.column(2).as_primitive::<Int32Type>(),
        );
        let value =
            |i: usize| (k.value(i), (v.iter().nth(i).unwrap().map(str::to_owned), n.iter().nth(i).unwrap()));
        (0..batch.num_rows()).map(value).collect()
    }

    pub(super) async fn lookup(&self, shard: &Shard, keys: &[i64]) -> Vec<Option<Value>> {
        let rows = shard.lookup(&self.bucket(), &self.keys(keys)).await.unwrap();
        rows.into_iter().map(|row| row.map(|row| self.values(&[row]).remove(0).1)).collect()
    }

    /// All rows, page by page.
    pub(super) async fn state(&self, shard: &Shard) -> State {
        let mut scan = shard.scan_rows(&self.bucket(), &[]).await.unwrap();
        let mut state = Vec::new();
        loop {
            let page = scan.page(3, usize::MAX).await.unwrap();
            state.extend(self.values(&page.rows));
            if !page.more {
                assert!(state.is_sorted_by(|a, b| a.0 < b.0), "in the order of keys, each once");
                return state.into_iter().collect();
            }
        }
    }

    /// The changelog: change type, key and value.
    pub(super) async fn changelog(&self, shard: &Shard) -> Vec<(String, i64, Value)> {
        let mut request = LogRead {
            table: self.table.table(),
            bucket: self.bucket(),
            offset: Offset(0),
            columns: vec![0, 1, 2],
            system: vec!["_change_type".into(), "_offset".into()],
            filter: None,
            partition: "",
            until: None,
            max_bytes: 64 << 20,
            max_rows: usize::MAX,
        };
        let mut log = Vec::new();
        loop {
            let answer = shard.read(&request).await.unwrap();
            for piece in &answer.pieces {
                let Piece::Batch(batch) = piece else { panic!("system columns need decoding") };
                let (k, v) =
                    (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
                let (n, change) =
                    (batch.column(2).as_primitive::<Int32Type>(), batch.column(3).as_string::<i32>());
                let offset = batch.column(4).as_primitive::<Int64Type>();
                for i in 0..batch.num_rows() {
                    assert_eq!(offset.value(i), log.len() as i64, "offsets are dense (L4)");
                    let value = (v.iter().nth(i).unwrap().map(str::to_owned), n.iter().nth(i).unwrap());
                    log.push((change.value(i).to_owned(), k.value(i), value));
                }
            }
            if answer.next_offset >= answer.bounds.high_watermark {
                return log;
            }
            request.offset = answer.next_offset;
        }
    }
}

/// The state that a changelog says, which must be consistent in itself (K1, K2).
fn fold(log: &[(String, i64, Value)]) -> State {
    let mut state = State::new();
    for (change, key, value) in log {
        match change.as_str() {
            "+I" => assert_eq!(state.insert(*key, value.clone()), None, "+I of a row that is there"),
            "-U" => assert_eq!(state.get(key), Some(value), "-U is the row before"),
            "+U" => assert!(state.insert(*key, value.clone()).is_some(), "+U of a row that is not there"),
            "-D" => assert_eq!(state.remove(key).as_ref(), Some(value), "-D is the row before"),
            other => panic!("{other} is no change type"),
        }
    }
    state
}

/// The state that a changelog without the rows before says (K1).
fn fold_of_wal(log: &[(String, i64, Value)]) -> State {
    let mut state = State::new();
    for (change, key, value) in log {
        match change.as_str() {
            "+I" | "+U" => drop(state.insert(*key, value.clone())),
            "-D" => assert_eq!(state.remove(key).as_ref(), Some(value), "-D is the row before"),
            other => panic!("{other} is not in it"),
        }
    }
    state
}

pub(super) fn value(v: &str, n: i32) -> Value {
    (Some(v.into()), Some(n))
}

#[tokio::test]
async fn the_changelog_shows_each_step() {
    let keyed = Keyed::new(&[]);
    let shard = keyed.world.open().await;
    // The same key twice in one part: the last one wins, and both are shown.
    let appended = shard.append(keyed.upsert(&[(1, "a", 1), (2, "b", 2), (1, "c", 3)])).await.unwrap();
    assert_eq!((appended.base_offset, appended.rows), (Offset(0), 4));
    assert_eq!(keyed.lookup(&shard, &[1, 2, 3]).await, [Some(value("c", 3)), Some(value("b", 2)), None]);
    shard.append(keyed.update_n(&[(2, 9), (3, 7)])).await.unwrap();
    shard.append(keyed.delete(&[1, 5])).await.unwrap();
    let log = keyed.changelog(&shard).await;
    let said: Vec<_> = log.iter().map(|(c, k, v)| (c.as_str(), *k, v.clone())).collect();
    let expected = [
        ("+I", 1, value("a", 1)),
        ("+I", 2, value("b", 2)),
        ("-U", 1, value("a", 1)),
        ("+U", 1, value("c", 3)),
        ("-U", 2, value("b", 2)),
        ("+U", 2, value("b", 9)),
        ("+I", 3, (None, Some(7))),
        ("-D", 1, value("c", 3)),
    ];
    assert_eq!(said, expected);
    assert_eq!(fold(&log), keyed.state(&shard).await);
}

#[tokio::test]
async fn a_new_owner_has_the_rows() {
    let keyed = Keyed::new(&[]);
    let shard = keyed.world.open().await;
    for round in 0..20 {
        shard.append(keyed.upsert(&[(round % 7, "x", round as i32), (round, "y", 1)])).await.unwrap();
        shard.append(keyed.delete(&[round / 2])).await.unwrap();
    }
    let before = keyed.state(&shard).await;
    let next = keyed.world.open().await;
    assert_eq!(keyed.state(&next).await, before);
    assert_eq!(fold(&keyed.changelog(&next).await), before);
    next.append(keyed.upsert(&[(100, "z", 1)])).await.unwrap();
    assert_eq!(keyed.lookup(&next, &[100]).await, [Some(value("z", 1))]);
}

#[tokio::test]
async fn a_request_that_changes_nothing_is_remembered() {
    let keyed = Keyed::new(&[]);
    let shard = keyed.world.open().await;
    let stamp = Stamp { producer: "p".into(), sequence: 1, fingerprint: 1, once: false };
    let nothing = Part { stamp: Some(stamp.clone()), ..keyed.delete(&[1]) };
    let first = shard.append(nothing.clone()).await.unwrap();
    assert_eq!((first.rows, first.again), (0, false));
    shard.append(keyed.upsert(&[(1, "a", 1)])).await.unwrap();
    assert!(shard.append(nothing.clone()).await.unwrap().again);
    let next = keyed.world.open().await;
    assert!(next.append(nothing).await.unwrap().again, "a retry must not delete the later row");
    assert_eq!(keyed.lookup(&next, &[1]).await, [Some(value("a", 1))]);
}

#[tokio::test]
async fn rows_are_read_under_a_later_version() {
    let mut keyed = Keyed::new(&[]);
    let shard = keyed.world.open().await;
    shard.append(keyed.upsert(&[(1, "a", 1)])).await.unwrap();
    let added =
        ColumnSpec { name: "m".into(), column_type: "int".into(), comment: None, default: Some(5.into()) };
    let changes = [SchemaChange::AddColumn(added), SchemaChange::DropColumn { name: "v".into() }];
    let before = keyed.upsert(&[(2, "late", 2)]);
    keyed.alter(Arc::new(keyed.table.table().evolved(&changes).unwrap()));
    let rows = shard.lookup(&keyed.bucket(), &keyed.keys(&[1])).await.unwrap();
    let batch = keyed.table.decode(&[rows[0].clone().unwrap()], &[0, 1, 2]).unwrap();
    assert_eq!(batch.column(2).as_primitive::<Int32Type>().values().to_vec(), [5]);
    // A part of the version before still fits where nobody has written the new one …
    shard.append(before.clone()).await.unwrap();
    let k: ArrayRef = Arc::new(Int64Array::from(vec![2]));
    let n: ArrayRef = Arc::new(Int32Array::from(vec![3]));
    shard.append(keyed.part(vec![0, 1, 2], vec![k, n.clone(), n], None)).await.unwrap();
    // … and is refused, not guessed, where somebody has.
    assert!(matches!(shard.append(before).await, Err(AppendError::SchemaBehind { .. })));
    let next = keyed.world.open().await;
    assert_eq!(
        next.lookup(&keyed.bucket(), &keyed.keys(&[1, 2, 3])).await.unwrap().iter().flatten().count(),
        2
    );
}

#[tokio::test]
async fn the_wal_image_leaves_the_row_before_out() {
    let keyed = Keyed::new(&[("table.changelog.image", "wal")]);
    let shard = keyed.world.open().await;
    shard.append(keyed.upsert(&[(1, "a", 1)])).await.unwrap();
    shard.append(keyed.upsert(&[(1, "b", 2)])).await.unwrap();
    shard.append(keyed.update_n(&[(1, 3)])).await.unwrap();
    shard.append(keyed.delete(&[1])).await.unwrap();
    let log = keyed.changelog(&shard).await;
    let said: Vec<_> = log.iter().map(|(c, _, v)| (c.as_str(), v.clone())).collect();
    let known = [("+U", value("b", 2)), ("+U", value("b", 3)), ("-D", value("b", 3))];
    assert_eq!(said[1..], known);
    assert!(keyed.state(&shard).await.is_empty());
}

#[test]
fn a_row_without_a_set_of_columns_is_refused() {
    let by_row = |sets: usize, of_rows: Vec<Option<u16>>| Targets::by_row(vec![None; sets], of_rows.into());
    assert!(by_row(2, vec![Some(0), Some(1)]).is_some());
    assert!(by_row(2, vec![Some(0), Some(2)]).is_none());
    assert!(by_row(2, vec![None]).is_none());
    assert!(by_row(0, Vec::new()).is_none());
}

#[tokio::test]
async fn a_small_cache_changes_nothing() {
    let keyed = Keyed::on(World::with(|settings| settings.row_cache_bytes = 0), &[]);
    let shard = keyed.world.open().await;
    for round in 0..50 {
        shard.append(keyed.upsert(&[(round % 5, "x", round as i32)])).await.unwrap();
        assert_eq!(keyed.lookup(&shard, &[round % 5]).await, [Some(value("x", round as i32))]);
    }
    assert_eq!(fold(&keyed.changelog(&shard).await), keyed.state(&shard).await);
}

#[tokio::test]
async fn a_part_may_be_larger_than_the_cache() {
    let keyed = Keyed::on(World::with(|settings| settings.row_cache_bytes = 3_000), &[]);
    let shard = keyed.world.open().await;
    for round in 0..3 {
        let rows: Vec<_> = (0..200).map(|k| (k, "x", round)).collect();
        let append = tokio::time::timeout(Duration::from_secs(60), shard.append(keyed.upsert(&rows)));
        append.await.expect("rows that drive each other out of the cache must not do so for ever").unwrap();
    }
    assert_eq!(keyed.state(&shard).await.len(), 200);
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Upsert(Vec<(i64, i32)>),
    UpdateN(Vec<(i64, i32)>),
    Delete(Vec<i64>),
    /// Several parts at once, which meet in one object.
    Together(Vec<(i64, i32)>),
    /// Rows of one part that touch different columns.
    Mixed(Vec<(i64, i32, Does)>),
    Takeover,
}

fn step() -> impl Strategy<Value = Step> {
    let rows = || proptest::collection::vec((0..12i64, any::<i32>()), 1..6);
    let does = prop_oneof![
        2 => Just(Does::Upsert), 1 => Just(Does::UpdateN), 1 => Just(Does::UpdateV), 1 => Just(Does::Delete),
        1 => Just(Does::EmptyN)
    ];
    let mixed = proptest::collection::vec((0..6i64, any::<i32>(), does), 1..12);
    prop_oneof![
        3 => mixed.prop_map(Step::Mixed),
        3 => rows().prop_map(Step::Upsert),
        3 => rows().prop_map(Step::UpdateN),
        2 => proptest::collection::vec(0..12i64, 1..5).prop_map(Step::Delete),
        2 => rows().prop_map(Step::Together),
        1 => Just(Step::Takeover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A shard, through takeovers and with caches of any size, does what a map does (K1 to K4).
    #[test]
    fn a_shard_is_a_map(steps in proptest::collection::vec(step(), 1..25), cache in prop_oneof![Just(0usize), Just(2_000), Just(1 << 20)], wal in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let keyed = Keyed::on(World::with(|settings| settings.row_cache_bytes = cache), &[("table.changelog.image", if wal { "wal" } else { "full" })]);
            let mut shard = keyed.world.open().await;
            let mut map = State::new();
            for step in steps {
                match step {
                    Step::Upsert(rows) => {
                        let rows: Vec<_> = rows.iter().map(|(k, n)| (*k, "u", *n)).collect();
                        shard.append(keyed.upsert(&rows)).await.unwrap();
                        map.extend(rows.into_iter().map(|(k, v, n)| (k, value(v, n))));
                    }
                    Step::UpdateN(rows) => {
                        shard.append(keyed.update_n(&rows)).await.unwrap();
                        for (k, n) in rows {
                            map.entry(k).or_default().1 = Some(n);
                        }
                    }
                    Step::Delete(keys) => {
                        shard.append(keyed.delete(&keys)).await.unwrap();
                        map.retain(|k, _| !keys.contains(k));
                    }
                    Step::Together(rows) => {
                        let parts: Vec<_> = rows.iter().map(|(k, n)| keyed.upsert(&[(*k, "t", *n)])).collect();
                        let appends = parts.into_iter().map(|part| shard.append(part));
                        let offsets = futures::future::join_all(appends).await;
                        // Their order is that of their offsets.
                        let mut order: Vec<_> = offsets.into_iter().map(|a| a.unwrap().base_offset).zip(&rows).collect();
                        order.sort_by_key(|(offset, _)| *offset);
                        map.extend(order.into_iter().map(|(_, (k, n))| (*k, value("t", *n))));
                    }
                    Step::Mixed(rows) => {
                        shard.append(keyed.mixed(&rows)).await.unwrap();
                        rows.into_iter().for_each(|(k, n, does)| does.to(&mut map, k, n));
                    }
                    Step::Takeover => shard = keyed.world.open().await,
                }
                let keys: Vec<i64> = (0..12).collect();
                let expected: Vec<_> = keys.iter().map(|k| map.get(k).cloned()).collect();
                assert_eq!(keyed.lookup(&shard, &keys).await, expected);
            }
            assert_eq!(keyed.state(&shard).await, map);
            let log = keyed.changelog(&shard).await;
            let folded = if wal { fold_of_wal(&log) } else { fold(&log) };
            assert_eq!(folded, map);
        });
    }
}
