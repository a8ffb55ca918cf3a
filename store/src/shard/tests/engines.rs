//! Every merge engine through a shard: random requests, restarts, crashes and flushes, against the plain model.
//!
//! After each step all lookups, prefix lookups and scans are those of the model (K1, K3, K4, K6), and the changelog says exactly
//! the model's changes, with the row before where it shows it (K1, K2). A new owner reads the whole of it once more.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, Int32Array, StringArray, UInt16Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat_batches;
use proptest::prelude::*;
use wadi_model::ipc::Originals;
use wadi_model::merge::plain::{self, Became, COLUMNS, Engine, Mask, Step, Value, Values};
use wadi_model::merge::{MergeFault, TargetColumns, Verb};
use wadi_model::options::DeleteBehavior;
use wadi_model::{Table, TableId, TableSpec};

use super::*;
use crate::keyed::KeyedTable;

/// A key: the bucket key, and a text.
type Key = (i64, &'static str);

const OWNERS: i64 = 4;
const TEXTS: [&str; 3] = ["", "a", "ab"];
const BUCKETS: u32 = 2;

fn bucket_of(key: Key) -> u32 {
    key.0 as u32 % BUCKETS
}

/// What is done to a shard.
#[derive(Clone, Debug)]
enum Act {
    /// Requests that are sent at once, each of rows for one bucket.
    Send(Vec<Request>),
    /// Time passes, so that groups are written, or memtables flushed.
    Wait(u64),
    /// The owner gives the shard up in good order.
    Release,
    /// The owner is not heard of any more.
    Crash,
}

#[derive(Clone, Debug)]
struct Request {
    bucket: u32,
    rows: Vec<(Key, Step)>,
    if_absent: bool,
}

/// What a table is like.
#[derive(Clone, Copy, Debug)]
struct Kind {
    engine: Engine,
    deletes: DeleteBehavior,
    wal: bool,
}

impl Kind {
    /// Whether a row is written without a look at what was there, unless that is known by chance.
    fn is_blind(self, step: &Step, if_absent: bool) -> bool {
        let whole = |mask: &Mask| mask.as_ref().is_none_or(|mask| mask.iter().all(|m| *m));
        let replaces = matches!(step, Step::Upsert(_, mask) if whole(mask));
        self.wal && self.engine == Engine::Default && replaces && !if_absent
    }
}

/// What the shard should hold, and say.
#[derive(Clone, Debug, Default)]
struct Expected {
    rows: BTreeMap<Key, Values>,
    log: BTreeMap<u32, Vec<(&'static str, Key, Values)>>,
}

impl Expected {
    fn apply(&mut self, kind: Kind, request: &Request) {
        let log = self.log.entry(request.bucket).or_default();
        for (key, step) in &request.rows {
            let before = self.rows.get(key).cloned();
            if request.if_absent && before.is_some() {
                continue;
            }
            match plain::merge(kind.engine, kind.deletes, before.as_ref(), step) {
                Became::Unchanged => {}
                Became::Row(row) => {
                    let change = match before {
                        Some(_) => "+U",
                        None if kind.is_blind(step, request.if_absent) => "+I or +U",
                        None => "+I",
                    };
                    log.extend(before.filter(|_| !kind.wal).map(|before| ("-U", *key, before)));
                    log.push((change, *key, row.clone()));
                    self.rows.insert(*key, row);
                }
                Became::Gone => {
                    log.extend(before.map(|before| ("-D", *key, before)));
                    self.rows.remove(key);
                }
            }
        }
    }
}

struct Proof {
    world: World,
    kind: Kind,
    table: Arc<KeyedTable>,
    expected: Expected,
}

impl Proof {
    fn new(kind: Kind, cache: usize, objects: u64) -> Proof {
        let world = World::with(|settings| {
            settings.row_cache_bytes = cache;
            settings.group_objects = objects as usize;
            settings.memtable_objects = objects;
        });
        let names: Vec<_> = COLUMNS.iter().map(|(name, column_type, _)| (*name, *column_type)).collect();
        let mut properties: BTreeMap<_, _> = kind.engine.properties(kind.deletes).into_iter().collect();
        properties.insert("table.changelog.image".into(), if kind.wal { "wal" } else { "full" }.into());
        let spec = TableSpec {
            primary_key: vec!["owner".into(), "text".into()],
            bucket_key: vec!["owner".into()],
            buckets: Some(BUCKETS),
            properties,
            ..TableSpec::log("kv", &[&[("owner", "bigint"), ("text", "string")], names.as_slice()].concat())
        };
        let table = Arc::new(Table::create(TableId(7), "a.kv".parse().unwrap(), &spec, 0).unwrap());
        world.tables.lock().push(table.clone());
        Proof { kind, table: world.context.tables.of(&table).unwrap(), world, expected: Expected::default() }
    }

    fn bucket(&self, number: u32) -> Bucket {
        self.table.table().bucket(number)
    }

    /// Rows as columns of the table.
    fn batch(&self, rows: &[(Key, &Values)]) -> RecordBatch {
        let owner = Int64Array::from_iter_values(rows.iter().map(|(key, _)| key.0));
        let text = StringArray::from_iter_values(rows.iter().map(|(key, _)| key.1));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(owner), Arc::new(text)];
        for (i, (_, column_type, _)) in COLUMNS.iter().enumerate() {
            let values = rows.iter().map(|(_, values)| values[i].as_ref());
            let whole = |value: &Value| if let Value::Whole(n) = value { *n } else { panic!("{value:?}") };
            let truth = |value: &Value| if let Value::Bool(b) = value { *b } else { panic!("{value:?}") };
            let text =
                |value: &Value| if let Value::Text(s) = value { s.clone() } else { panic!("{value:?}") };
            columns.push(match *column_type {
                "bigint" => Arc::new(values.map(|v| v.map(whole)).collect::<Int64Array>()),
                "int" => Arc::new(values.map(|v| v.map(|v| whole(v) as i32)).collect::<Int32Array>()),
                "boolean" => Arc::new(values.map(|v| v.map(truth)).collect::<BooleanArray>()),
                "string" => Arc::new(values.map(|v| v.map(text)).collect::<StringArray>()),
                "bytes" => Arc::new(values.map(|v| v.map(|v| v.bitmap().unwrap())).collect::<BinaryArray>()),
                other => panic!("{other}"),
            });
        }
        RecordBatch::try_new(self.table.table().schema().arrow().clone(), columns).unwrap()
    }

    fn part(&self, request: &Request) -> Part {
        let nothing: Values = vec![None; COLUMNS.len()];
        let row = |(key, step): &'_ (Key, Step)| match step {
            Step::Upsert(values, _) => (*key, values.clone()),
            Step::Delete(_) => (*key, nothing.clone()),
        };
        let rows: Vec<_> = request.rows.iter().map(row).collect();
        let rows: Vec<_> = rows.iter().map(|(key, values)| (*key, values)).collect();
        let mut sets: Vec<(Verb, Mask)> = Vec::new();
        let mut of_rows = Vec::new();
        for (_, step) in &request.rows {
            let set = match step {
                Step::Upsert(_, mask) => (Verb::Upsert, mask.clone()),
                Step::Delete(mask) => (Verb::Delete, mask.clone()),
            };
            let at = sets.iter().position(|s| *s == set).unwrap_or(sets.len());
            sets.extend((at == sets.len()).then_some(set));
            of_rows.push(at as u16);
        }
        let named = |mask: &Mask| {
            let named = mask.iter().flatten().enumerate().filter(|(_, m)| **m).map(|(i, _)| i);
            named.collect::<Vec<_>>()
        };
        let target = |(verb, mask): &(Verb, Mask)| {
            mask.as_ref().map(|_| {
                let names = named(mask).into_iter().map(|i| COLUMNS[i].0);
                let names = ["owner", "text"].into_iter().chain(names);
                TargetColumns::new(self.table.table(), names, *verb).unwrap()
            })
        };
        let batch = self.batch(&rows);
        // Requests whose rows are alike carry the columns that they touch, as the HTTP calls do.
        let (batch, columns, targets) = match sets.as_slice() {
            [(Verb::Delete, None)] => (batch.project(&[0, 1]).unwrap(), Some(vec![0, 1]), Targets::default()),
            [(_, None)] => (batch, None, Targets::default()),
            [(verb, mask)] => {
                let columns: Vec<_> = [0, 1].into_iter().chain(named(mask).iter().map(|i| i + 2)).collect();
                let target = target(&(*verb, mask.clone())).unwrap();
                (batch.project(&columns).unwrap(), Some(columns), target.into())
            }
            sets => {
                let sets = sets.iter().map(|set| target(set).map(Arc::new)).collect();
                (batch, None, Targets::by_row(sets, UInt16Array::from(of_rows)).unwrap())
            }
        };
        let deletes: Vec<bool> =
            request.rows.iter().map(|(_, step)| matches!(step, Step::Delete(_))).collect();
        Part {
            bucket: self.bucket(request.bucket),
            schema: self.table.table().schema().id(),
            compression: LogCompression::Zstd { level: 1 },
            rows: batch,
            originals: Originals::default(),
            stamp: None,
            keyed: Some(Keyed {
                table: self.table.clone(),
                columns: columns.map(Into::into),
                deletes: deletes.contains(&true).then(|| BooleanBuffer::from(deletes)),
                if_absent: request.if_absent,
                targets,
            }),
        }
    }

    /// Sends requests at once; they take effect in the order of their offsets.
    async fn send(&mut self, shard: &Shard, requests: &[Request]) {
        let appends = requests.iter().map(|request| shard.append(self.part(request)));
        let mut took: Vec<_> = futures::future::join_all(appends).await.into_iter().zip(requests).collect();
        // One that changed nothing shares the offset of the one after it.
        took.sort_by_key(|(appended, _)| appended.as_ref().map_or((0, 0), |a| (a.base_offset.0, a.rows)));
        for (appended, request) in took {
            let deletes = request.rows.iter().any(|(_, step)| matches!(step, Step::Delete(_)));
            if deletes && self.kind.deletes == DeleteBehavior::Disable {
                assert_eq!(appended, Err(AppendError::Merge(MergeFault::DeleteDisabled)));
                continue;
            }
            let said = || self.expected.log.get(&request.bucket).map_or(0, |log| log.len() as u64);
            let appended = appended.unwrap();
            assert_eq!(appended.base_offset.0, said(), "its rows follow those before");
            let before = said();
            self.expected.apply(self.kind, request);
            let after = self.expected.log[&request.bucket].len() as u64;
            assert_eq!(u64::from(appended.rows), after - before, "{request:?}");
        }
    }

    fn decode(&self, rows: &[Bytes]) -> RecordBatch {
        self.table.decode(rows, &(0..COLUMNS.len() + 2).collect::<Vec<_>>()).unwrap()
    }

    fn keys(&self, keys: &[Key]) -> model_row::Rows {
        let owner = Int64Array::from_iter_values(keys.iter().map(|key| key.0));
        let text = StringArray::from_iter_values(keys.iter().map(|key| key.1));
        self.table.encode_keys(&[Arc::new(owner) as ArrayRef, Arc::new(text)], keys.len()).unwrap()
    }

    async fn scan(&self, shard: &Shard, bucket: u32, prefix: &[u8]) -> RecordBatch {
        let mut scan = shard.scan_rows(&self.bucket(bucket), prefix).await.unwrap();
        let mut rows = Vec::new();
        loop {
            let page = scan.page(2, usize::MAX).await.unwrap();
            rows.extend(page.rows);
            if !page.more {
                return self.decode(&rows);
            }
        }
    }

    /// All rows of a snapshot, where each page begins anew behind the last key of the one before.
    async fn pages(&self, shard: &Shard, bucket: u32) -> RecordBatch {
        let snapshot = shard.snapshot_rows(&self.bucket(bucket)).unwrap();
        assert_eq!(snapshot.high_watermark(), shard.bounds(&self.bucket(bucket)).high_watermark);
        let (mut rows, mut last) = (Vec::new(), None::<Vec<u8>>);
        loop {
            let page = snapshot.scan_after(last.as_deref()).await.unwrap().page(2, usize::MAX).await.unwrap();
            if let Some(row) = page.rows.last() {
                let key = self.table.decode(std::slice::from_ref(row), &[0, 1]).unwrap();
                last = Some(self.table.encode_keys(key.columns(), 1).unwrap().get(0).to_vec());
            }
            rows.extend(page.rows);
            if !page.more {
                return self.decode(&rows);
            }
        }
    }

    fn has_updates(&self, bucket: u32) -> bool {
        self.expected.log.get(&bucket).is_some_and(|log| log.iter().any(|(change, ..)| change.contains("+U")))
    }

    /// The rows that the model has, in the order of their keys.
    fn rows(&self, which: impl Fn(Key) -> bool) -> RecordBatch {
        let rows: Vec<_> = self.expected.rows.iter().filter(|(key, _)| which(**key)).collect();
        self.batch(&rows.iter().map(|(key, values)| (**key, *values)).collect::<Vec<_>>())
    }

    async fn check_rows(&self, shard: &Shard) {
        for bucket in 0..BUCKETS {
            let keys: Vec<Key> = (0..OWNERS).flat_map(|owner| TEXTS.map(|text| (owner, text))).collect();
            let keys: Vec<Key> = keys.into_iter().filter(|key| bucket_of(*key) == bucket).collect();
            let found = shard.lookup(&self.bucket(bucket), &self.keys(&keys)).await.unwrap();
            let there: Vec<bool> = keys.iter().map(|key| self.expected.rows.contains_key(key)).collect();
            assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), there, "{keys:?}");
            let found: Vec<Bytes> = found.into_iter().flatten().collect();
            let all = self.rows(|key| bucket_of(key) == bucket);
            assert_eq!(self.decode(&found), all, "lookups");
            assert_eq!(self.scan(shard, bucket, &[]).await, all, "scan");
            assert_eq!(self.pages(shard, bucket).await, all, "pages");
            let (count, bounds) = shard.count_rows(&self.bucket(bucket));
            assert_eq!(bounds, shard.bounds(&self.bucket(bucket)));
            // Only where the changelog does not tell new rows from old ones there is no count.
            let tells = !(self.kind.wal && self.kind.engine == Engine::Default);
            assert!(count.is_some() || !tells && self.has_updates(bucket), "no count");
            assert!(
                count.is_none_or(|count| count == all.num_rows() as u64),
                "{count:?} of {}",
                all.num_rows()
            );
        }
        for owner in 0..OWNERS {
            let owners = [Arc::new(Int64Array::from(vec![owner])) as ArrayRef];
            let prefix = self.table.encode_keys(&owners, 1).unwrap();
            let found = self.scan(shard, bucket_of((owner, "")), prefix.get(0)).await;
            assert_eq!(found, self.rows(|key| key.0 == owner), "prefix lookup");
        }
    }

    /// The changelog of a bucket from an offset on is what the model says.
    async fn check_log(&self, shard: &Shard, bucket: u32, from: usize) {
        let said = self.expected.log.get(&bucket).map_or(&[][..], |log| &log[from..]);
        let columns: Vec<usize> = (0..COLUMNS.len() + 2).collect();
        let mut request = LogRead {
            table: self.table.table(),
            bucket: self.bucket(bucket),
            offset: Offset(from as u64),
            columns: columns.clone(),
            system: vec!["_change_type".into()],
            filter: None,
            partition: "",
            until: None,
            max_bytes: 64 << 20,
            max_rows: usize::MAX,
        };
        let (mut rows, mut changes) = (Vec::new(), Vec::new());
        loop {
            let answer = shard.read(&request).await.unwrap();
            for piece in answer.pieces {
                let Piece::Batch(batch) = piece else { panic!("system columns need decoding") };
                let types = batch.column(columns.len()).as_string::<i32>();
                changes.extend(types.iter().map(|change| change.unwrap().to_owned()));
                rows.push(batch.project(&columns).unwrap());
            }
            request.offset = answer.next_offset;
            if answer.next_offset >= answer.bounds.high_watermark {
                break;
            }
        }
        let wanted: Vec<_> = said.iter().map(|(change, ..)| *change).collect();
        let fits = |(found, wanted): (&String, &&str)| wanted.split(" or ").any(|w| w == found);
        let all_fit = changes.len() == wanted.len() && changes.iter().zip(&wanted).all(fits);
        assert!(all_fit, "changelog of bucket {bucket} from {from} on: {changes:?}, not {wanted:?}");
        let expected: Vec<_> = said.iter().map(|(_, key, values)| (*key, values)).collect();
        let rows = concat_batches(self.table.table().schema().arrow(), &rows).unwrap();
        assert_eq!(rows, self.batch(&expected), "changelog of bucket {bucket} from {from} on");
    }

    fn lengths(&self) -> Vec<usize> {
        (0..BUCKETS).map(|bucket| self.expected.log.get(&bucket).map_or(0, Vec::len)).collect()
    }

    async fn run(mut self, acts: Vec<Act>) {
        let mut shard = self.world.open().await;
        for act in acts {
            let mut from = self.lengths();
            match &act {
                Act::Send(requests) => self.send(&shard, requests).await,
                Act::Wait(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
                Act::Release | Act::Crash => {
                    if matches!(act, Act::Release) {
                        shard.release().await;
                    }
                    drop(shard);
                    shard = self.world.open().await;
                    from.fill(0);
                }
            }
            self.check_rows(&shard).await;
            for bucket in 0..BUCKETS {
                self.check_log(&shard, bucket, from[bucket as usize]).await;
            }
        }
    }
}

fn request(engine: Engine) -> impl Strategy<Value = Request> {
    let key = move |bucket: u32| {
        let owner =
            (0..OWNERS / i64::from(BUCKETS)).prop_map(move |n| n * i64::from(BUCKETS) + i64::from(bucket));
        (owner, proptest::sample::select(&TEXTS[..]))
    };
    let upsert = |mask: Mask| plain::values().prop_map(move |values| Step::Upsert(values, mask.clone()));
    (0..BUCKETS).prop_flat_map(move |bucket| {
        let rows = move |step: BoxedStrategy<Step>| proptest::collection::vec((key(bucket), step), 1..6);
        let plain = move |rows| Request { bucket, rows, if_absent: false };
        let alike = plain::mask(engine).prop_flat_map(move |mask| rows(upsert(mask).boxed()));
        let delete = plain::mask(engine).prop_flat_map(move |mask| rows(Just(Step::Delete(mask)).boxed()));
        prop_oneof![
            3 => alike.prop_map(plain),
            1 => delete.prop_map(plain),
            2 => rows(plain::step(engine).boxed()).prop_map(plain),
            1 => rows(upsert(None).boxed()).prop_map(move |rows| Request { bucket, rows, if_absent: true }),
        ]
    })
}

fn act(engine: Engine) -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => proptest::collection::vec(request(engine), 1..2).prop_map(Act::Send),
        2 => proptest::collection::vec(request(engine), 2..5).prop_map(Act::Send),
        1 => prop_oneof![Just(2), Just(70)].prop_map(Act::Wait),
        1 => Just(Act::Release),
        1 => Just(Act::Crash),
    ]
}

fn prove(engine: Engine, cases: u32) {
    let deletes = proptest::sample::select(engine.delete_behaviors());
    // Aggregation shows the row before.
    let images: &[bool] = if engine == Engine::Aggregation { &[false] } else { &[false, true] };
    let kind = (deletes, proptest::sample::select(images)).prop_map(move |(deletes, wal)| Kind {
        engine,
        deletes,
        wal,
    });
    let cache = prop_oneof![Just(0usize), Just(3_000), Just(1 << 20)];
    let objects = prop_oneof![Just(1u64), Just(4), Just(512)];
    let histories = (kind, cache, objects, proptest::collection::vec(act(engine), 1..20));
    let config = ProptestConfig { cases, source_file: Some(file!()), ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let run = |(kind, cache, objects, acts): (Kind, usize, u64, Vec<Act>)| {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async move { Proof::new(kind, cache, objects).run(acts).await });
        Ok(())
    };
    if let Err(why) = runner.run(&histories, run) {
        panic!("{why}");
    }
}

#[test]
fn the_default_engine_through_a_shard() {
    prove(Engine::Default, 64);
}

#[test]
fn first_row_through_a_shard() {
    prove(Engine::FirstRow, 32);
}

#[test]
fn versioned_through_a_shard() {
    prove(Engine::Versioned, 32);
}

#[test]
fn aggregation_through_a_shard() {
    prove(Engine::Aggregation, 64);
}
