//! Producers that write with retries while servers fail, and the comparison of what was acked with what is there.
//!
//! A row says who made it: producer, sequence of the request, place in the request. So every row of the log is
//! recognised, and the named invariants can be checked: L1 (no acked row lost), L2 (nothing of what definitely failed), L3 (at most once), L4 (dense
//! offsets, the acked ones), L5 (a request is atomic per bucket), and the order of what a producer had acked that sends one
//! request after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::harness::{Answer, Api, NDJSON, send};

/// Values of the bucket key. Few, so that acked rows tell the bucket of every value.
const KEYS: u32 = 16;

/// The columns that the check reads.
const COLUMNS: &str = "p,s,i,k";

/// Makes tables of two buckets with a bucket key, so that most requests have rows in both. Gives their paths.
pub(crate) async fn create_tables(api: &Api, count: usize) -> Vec<String> {
    api.create_database().await;
    let mut tables = Vec::with_capacity(count);
    for number in 0..count {
        let columns: Vec<Value> = [("p", "string"), ("s", "bigint"), ("i", "int"), ("k", "int")]
            .into_iter()
            .map(|(name, kind)| json!({ "name": name, "type": format!("{kind} not null") }))
            .collect();
        let name = format!("load{number}");
        let spec = json!({ "name": name, "columns": columns, "bucket_key": ["k"], "buckets": 2 });
        tables.push(api.create_table(&spec).await);
    }
    tables
}

/// One request of a producer, and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) table: String,
    producer: String,
    sequence: u64,
    /// The bucket key of each row.
    keys: Vec<u32>,
    /// Bucket, first and last offset of each part, if it was acked.
    acked: Option<Vec<(u64, u64, u64)>>,
    /// Whether a try may have been written without our knowing.
    in_doubt: bool,
}

impl Write {
    pub(crate) fn new(table: &str, producer: &str, sequence: u64, random: &mut StdRng) -> Write {
        let rows = random.random_range(1..=20);
        let keys = (0..rows).map(|_| random.random_range(0..KEYS)).collect();
        Write {
            table: table.to_owned(),
            producer: producer.to_owned(),
            sequence,
            keys,
            acked: None,
            in_doubt: false,
        }
    }

    /// Sends it once. A 200 is noted.
    pub(crate) async fn send(&mut self, api: &Api) -> Result<Answer, reqwest::Error> {
        let line =
            |(i, k)| format!("{}\n", json!({ "p": self.producer, "s": self.sequence, "i": i, "k": k }));
        let body: String = self.keys.iter().enumerate().map(line).collect();
        let request = api
            .request(Method::POST, &format!("{}/append", self.table))
            .header("content-type", NDJSON)
            .body(body);
        // Every fifth request has a key of its own in place of a number.
        let request = match self.sequence % 5 {
            4 => request.header("idempotency-key", format!("{}-{}", self.producer, self.sequence)),
            _ => request.header("wadi-producer-id", &self.producer).header("wadi-sequence", self.sequence),
        };
        // Until the answer has come whole; also when this is given up half way.
        let in_doubt = std::mem::replace(&mut self.in_doubt, true);
        let answer = send(request).await?;
        if answer.status == 200 {
            self.acked = Some(ranges(&answer.json()));
        } else {
            self.in_doubt = in_doubt || !nothing_was_done(&answer);
        }
        Ok(answer)
    }

    /// Sends it until it is acked. Everything else than "try again" fails the test.
    pub(crate) async fn complete(&mut self, api: &Api) {
        while self.acked.is_none() {
            if let Ok(answer) = self.send(api).await
                && answer.status != 200
            {
                check_refusal(&answer);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn is_acked(&self) -> bool {
        self.acked.is_some()
    }

    fn row(&self, place: usize) -> Row {
        (self.producer.clone(), self.sequence, place as u64)
    }
}

/// Producer, sequence, place in the request.
pub(crate) type Row = (String, u64, u64);

fn ranges(answer: &Value) -> Vec<(u64, u64, u64)> {
    let number = |range: &Value, name: &str| range[name].as_u64().unwrap();
    let range = |r| (number(r, "bucket"), number(r, "base_offset"), number(r, "last_offset"));
    answer["offsets"].as_array().unwrap().iter().map(range).collect()
}

/// A write may be refused only in ways that a client answers by sending it again.
pub(crate) fn check_refusal(answer: &Answer) {
    let problem = answer.problem();
    let again = [429, 503].contains(&answer.status) && problem["retryable"] == true;
    let in_flight = answer.status == 409 && problem["code"] == "in_flight";
    assert!(again || in_flight, "{problem}");
}

/// Whether a refusal says that nothing was or will be written. One `in_flight` speaks of an earlier try.
fn nothing_was_done(answer: &Answer) -> bool {
    let problem = answer.problem();
    problem["side_effects"] == "none" && problem["code"] != "in_flight"
}

/// The acks of many producers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Acks>>);

#[derive(Debug, Default)]
struct Acks {
    count: u64,
    longest: Duration,
}

impl Tally {
    /// A request was acked that was sent at this time first.
    pub(crate) fn ack(&self, sent: Instant) {
        let mut acks = self.0.lock().unwrap();
        acks.count += 1;
        acks.longest = acks.longest.max(sent.elapsed());
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.lock().unwrap().count
    }

    /// The longest that a request took which was acked since the last look, with all its tries.
    pub(crate) fn take_longest(&self) -> Duration {
        std::mem::take(&mut self.0.lock().unwrap().longest)
    }
}

/// Producers that write until they are told to stop.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    /// Where the server is now.
    pub(crate) urls: watch::Receiver<String>,
    pub(crate) stop: &'a AtomicBool,
    /// How often, in percent, a request that failed is given up instead of sent again.
    pub(crate) give_up: u32,
    /// Between two requests.
    pub(crate) pause: Duration,
    pub(crate) tally: Tally,
}

impl<'a> Load<'a> {
    /// Producers that send everything again until it is acked.
    pub(crate) fn stubborn(urls: watch::Receiver<String>, stop: &'a AtomicBool) -> Load<'a> {
        Load { urls, stop, give_up: 0, pause: Duration::from_millis(20), tally: Tally::default() }
    }

    /// One producer on one table: one request after the other.
    pub(crate) async fn produce(&self, table: &str, producer: &str, seed: u64) -> Vec<Write> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut api = Api::new(&self.urls.borrow());
        let mut writes = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let mut write = Write::new(table, producer, writes.len() as u64, &mut random);
            let sent = Instant::now();
            while !write.is_acked() {
                api.url.clone_from(&self.urls.borrow());
                match write.send(&api).await {
                    Ok(answer) if answer.status == 200 => {
                        self.tally.ack(sent);
                        break;
                    }
                    Ok(answer) => check_refusal(&answer),
                    Err(_) => {}
                }
                if random.random_range(0..100) < self.give_up {
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
            writes.push(write);
            sleep(self.pause).await;
        }
        writes
    }
}

/// Bucket and offset of every row of a table.
pub(crate) type Places = BTreeMap<Row, (u64, u64)>;

/// Compares the log with what was sent and acked. Gives the place of each row, by table.
pub(crate) async fn check(api: &Api, writes: &[Write]) -> BTreeMap<String, Places> {
    assert!(writes.iter().any(Write::is_acked), "nothing was acked");
    let tables: BTreeSet<&str> = writes.iter().map(|w| w.table.as_str()).collect();
    let mut places = BTreeMap::new();
    for table in tables {
        let writes: Vec<&Write> = writes.iter().filter(|w| w.table == table).collect();
        let found = found(api, table).await;
        let sent: BTreeSet<Row> = writes.iter().flat_map(|w| (0..w.keys.len()).map(|i| w.row(i))).collect();
        let stray: Vec<_> = found.keys().filter(|row| !sent.contains(*row)).collect();
        assert!(stray.is_empty(), "{table} has rows that nobody sent: {stray:?}");
        check_acked(table, &writes, &found);
        check_order(table, &writes, &found);
        check_failed(table, &writes, &found);
        check_atomic(table, &writes, &found);
        places.insert(table.to_owned(), found);
    }
    places
}

/// Bucket and offset of every row. Offsets are dense, and no row is there twice.
async fn found(api: &Api, table: &str) -> Places {
    let mut found = BTreeMap::new();
    for bucket in 0..2 {
        for (want, row) in api.log(table, bucket, COLUMNS).await.into_iter().enumerate() {
            let number = |name: &str| row[name].as_u64().unwrap();
            let (producer, place) = (row["p"].as_str().unwrap().to_owned(), (number("s"), number("i")));
            assert_eq!(number("_offset"), want as u64, "{table} bucket {bucket} is not dense");
            let twice = found.insert((producer, place.0, place.1), (bucket, want as u64));
            assert_eq!(twice, None, "{table}: a row is there twice: {row}");
        }
    }
    found
}

/// L1, L4: the rows of an acked request are at the acked offsets.
fn check_acked(table: &str, writes: &[&Write], found: &Places) {
    for write in writes {
        let Some(acked) = &write.acked else { continue };
        let mut places: Vec<(u64, u64)> = Vec::new();
        for place in 0..write.keys.len() {
            let row = write.row(place);
            places.push(*found.get(&row).unwrap_or_else(|| panic!("{table}: acked row {row:?} is lost")));
        }
        places.sort_unstable();
        let mut told: Vec<_> =
            acked.iter().flat_map(|(b, from, to)| (*from..=*to).map(|o| (*b, o))).collect();
        told.sort_unstable();
        assert_eq!(places, told, "{table}: {} {} is elsewhere", write.producer, write.sequence);
    }
}

/// Each producer's acked rows are in the order in which they were sent. What it gave up while it was in doubt may come later: it is
/// still on its way somewhere.
fn check_order(table: &str, writes: &[&Write], found: &Places) {
    let acked = writes.iter().filter(|write| write.is_acked());
    let rows: BTreeSet<Row> = acked.flat_map(|w| (0..w.keys.len()).map(|place| w.row(place))).collect();
    let mut last: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for row in &rows {
        let (bucket, offset) = found[row];
        let before = last.insert((&row.0, bucket), offset);
        assert!(before < Some(offset), "{table} bucket {bucket}: {row:?} at {offset}, behind it {before:?}");
    }
}

/// L2: of a request all of whose tries were refused for certain, nothing is there.
fn check_failed(table: &str, writes: &[&Write], found: &Places) {
    for write in writes.iter().filter(|w| !w.is_acked() && !w.in_doubt) {
        for place in 0..write.keys.len() {
            let there = found.get(&write.row(place));
            assert_eq!(there, None, "{table}: {} {} failed and is there", write.producer, write.sequence);
        }
    }
}

/// L5: of a request that was not acked, a bucket has all rows or none.
fn check_atomic(table: &str, writes: &[&Write], found: &Places) {
    let mut bucket_of = BTreeMap::new();
    for write in writes {
        for (place, key) in write.keys.iter().enumerate() {
            if let Some((bucket, _)) = found.get(&write.row(place)) {
                assert_eq!(*bucket_of.entry(key).or_insert(*bucket), *bucket, "{table}: key {key}");
            }
        }
    }
    for write in writes.iter().filter(|w| !w.is_acked()) {
        for bucket in 0..2 {
            let own = write.keys.iter().enumerate().filter(|(_, key)| bucket_of.get(key) == Some(&bucket));
            let there: BTreeSet<bool> = own.map(|(i, _)| found.contains_key(&write.row(i))).collect();
            assert!(there.len() < 2, "{table}: bucket {bucket} has a part of {write:?}");
        }
    }
}
