//! Primary-key tables under torture: each key has one writer, which sends one request after the other until it is acked. So all
//! versions of a key are known in their order, and the changelog must have these and no others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::{Answer, Api, NDJSON, send};
use crate::load::{Tally, check_refusal};

/// Keys of one writer. Few, so that versions are many.
const KEYS: u64 = 40;

/// Between the keys of one writer and those of the next.
const APART: u64 = 1000;

const BUCKETS: u64 = 3;

/// Makes `k bigint, s bigint`; gives its path.
pub(super) async fn create(api: &Api, name: &str) -> String {
    crate::keyed::create(api, name, "k bigint not null, s bigint", "k", json!({ "buckets": BUCKETS })).await
}

/// One writer of some keys, and what it has done.
#[derive(Debug)]
pub(super) struct Writer {
    table: String,
    number: u64,
    random: StdRng,
    sequence: u64,
    /// What each key has become, one after the other: the sequence that put it, or nothing.
    versions: BTreeMap<u64, Vec<Option<u64>>>,
}

impl Writer {
    pub(super) fn new(table: &str, number: u64, seed: u64) -> Writer {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number));
        Writer { table: table.to_owned(), number, random, sequence: 0, versions: BTreeMap::new() }
    }

    /// Acked requests.
    pub(super) fn requests(&self) -> u64 {
        self.sequence
    }

    /// Writes until it is told to stop.
    pub(super) async fn write(
        mut self,
        api: Api,
        pause: Duration,
        stop: &AtomicBool,
        tally: Tally,
    ) -> Writer {
        while !stop.load(Ordering::Relaxed) {
            let delete = self.random.random_bool(0.25);
            let first = self.random.random_range(0..KEYS);
            let keys: Vec<u64> = (0..self.random.random_range(1..=8))
                .map(|n| self.number * APART + (first + 7 * n) % KEYS)
                .collect();
            let sent = Instant::now();
            let offsets = self.complete(&api, delete, &keys).await;
            tally.ack(sent);
            if self.random.random_bool(0.1) {
                // L3: a request that was acked is not done again, whoever owns its buckets by now.
                let again = self.complete(&api, delete, &keys).await;
                assert_eq!(again, offsets, "{} {} of writer {}", self.table, self.sequence, self.number);
            }
            for key in &keys {
                let versions = self.versions.entry(*key).or_default();
                let new = (!delete).then_some(self.sequence);
                // To delete what is not there is no change.
                if new.is_some() || versions.last().copied().flatten().is_some() {
                    versions.push(new);
                }
            }
            self.sequence += 1;
            match self.random.random_range(0..20) {
                0 => self.scan(&api).await,
                1..7 => self.look_up(&api, keys[0]).await,
                _ => {}
            }
            sleep(pause).await;
        }
        self
    }

    /// Sends a request until it is acked. Gives its offsets.
    async fn complete(&self, api: &Api, delete: bool, keys: &[u64]) -> Value {
        let verb = if delete { "delete" } else { "upsert" };
        let line = |key: &u64| match delete {
            true => format!("{}\n", json!({ "k": key })),
            false => format!("{}\n", json!({ "k": key, "s": self.sequence })),
        };
        let body: String = keys.iter().map(line).collect();
        loop {
            let request = api
                .request(Method::POST, &format!("{}/{verb}", self.table))
                .header("content-type", NDJSON)
                .header("wadi-producer-id", format!("writer-{}", self.number))
                .header("wadi-sequence", self.sequence)
                .body(body.clone());
            match send(request).await {
                Ok(answer) if answer.status == 200 => return answer.json()["offsets"].take(),
                Ok(answer) => check_refusal(&answer),
                Err(_) => {}
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks for rows of the table, if it can be answered now.
    async fn read(&self, api: &Api, what: &str) -> Option<Answer> {
        let answer = send(api.request(Method::GET, &format!("{}/{what}", self.table))).await.ok()?;
        if answer.status != 200 {
            check_refusal(&answer);
            return None;
        }
        Some(answer)
    }

    /// K3: a scan that begins after an ack sees the write. Nobody else writes to these keys.
    async fn scan(&self, api: &Api) {
        let Some(answer) = self.read(api, "scan").await else { return };
        let mut answered = answer.json();
        let rows = answered["rows"].as_array_mut().unwrap().drain(..);
        let own = self.number * APART..(self.number + 1) * APART;
        let rows = rows.map(|row| (row["k"].as_u64().unwrap(), row)).filter(|(key, _)| own.contains(key));
        let rows: BTreeMap<u64, Value> = rows.collect();
        let want = self.versions.keys().map(|key| (*key, self.row(*key))).filter(|(_, row)| !row.is_null());
        assert_eq!(rows, want.collect(), "{}: scan {}", self.table, served(&answer));
    }

    /// K3: a lookup that begins after an ack sees the write, whoever answers it.
    async fn look_up(&self, api: &Api, key: u64) {
        let Some(answer) = self.read(api, &format!("lookup?k={key}")).await else { return };
        assert_eq!(
            answer.json()["rows"],
            json!([self.row(key)]),
            "{} key {key}: {}",
            self.table,
            served(&answer)
        );
    }

    /// The row of a key as it must be.
    fn row(&self, key: u64) -> Value {
        let newest = self.versions.get(&key).and_then(|versions| versions.last().copied().flatten());
        newest.map_or(Value::Null, |s| json!({ "k": key, "s": s }))
    }
}

/// Which request it was, to be found in logs.
fn served(answer: &Answer) -> &str {
    answer.header("x-request-id")
}

/// K1, K2, L1, L3, L4: the changelog has each version of each key once and in order, and both it and the rows are what the writers know.
pub(super) async fn check(api: &Api, table: &str, writers: &[Writer]) {
    let writers: Vec<&Writer> = writers.iter().filter(|writer| writer.table == table).collect();
    let mut logs = Vec::new();
    for bucket in 0..BUCKETS {
        logs.push(api.log(table, bucket, "_change_type,k,s").await);
    }
    let at = format!("{table} at {}", api.url);
    judge(&at, &logs, api.scan(table, "").await, &writers);
}

/// Compares the changelog of each bucket and the rows with what the writers know.
fn judge(at: &str, logs: &[Vec<Value>], rows: Vec<Value>, writers: &[&Writer]) {
    let mut want: BTreeMap<u64, Vec<Option<u64>>> = BTreeMap::new();
    for writer in writers {
        want.extend(writer.versions.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (*k, v.clone())));
    }
    let mut found = BTreeMap::new();
    for (bucket, log) in logs.iter().enumerate() {
        walk(&format!("{at}, bucket {bucket}"), log, &mut found);
    }
    for (key, want) in &want {
        assert_eq!(found.get(key), Some(want), "{at}: versions of key {key}");
    }
    assert_eq!(found.len(), want.len(), "{at}: there are keys that nobody wrote");
    let count = rows.len();
    let rows: BTreeMap<u64, Value> = rows.into_iter().map(|row| (row["k"].as_u64().unwrap(), row)).collect();
    let keys = writers.iter().flat_map(|writer| writer.versions.keys().map(|key| (*key, writer.row(*key))));
    let want: BTreeMap<u64, Value> = keys.filter(|(_, row)| !row.is_null()).collect();
    assert_eq!(rows, want, "{at}: rows");
    assert_eq!(count, want.len(), "{at}: a row is there twice");
}

/// Walks along a changelog, and notes what each key becomes.
fn walk(at: &str, log: &[Value], found: &mut BTreeMap<u64, Vec<Option<u64>>>) {
    // The key of a -U that waits for its +U.
    let mut before = None;
    for (offset, row) in log.iter().enumerate() {
        assert_eq!(row["_offset"], offset, "{at} is not dense");
        let (key, s) = (row["k"].as_u64().unwrap(), row["s"].as_u64());
        let versions = found.entry(key).or_default();
        let last = versions.last().copied().flatten();
        let change = row["_change_type"].as_str().unwrap();
        match change {
            "+U" => assert_eq!(before.take(), Some(key), "{at}: {row} without -U"),
            other => assert_eq!(before, None, "{at}: {other} after -U: {row}"),
        }
        match change {
            "+I" => assert_eq!(last, None, "{at}: {row}"),
            "-U" | "-D" => assert!(last.is_some() && last == s, "{at}: {row} over {last:?}"),
            _ => {}
        }
        match change {
            "+I" | "+U" => versions.push(s),
            "-U" => before = Some(key),
            "-D" => versions.push(None),
            other => panic!("{at}: {other}"),
        }
    }
    assert_eq!(before, None, "{at} ends with -U");
}

#[test]
fn the_judge_sees_what_is_wrong() {
    let mut writer = Writer::new("t", 0, 0);
    writer.versions = BTreeMap::from([(1, vec![Some(0), Some(1), None, Some(2)]), (2, vec![Some(0), None])]);
    let row = |offset: u64, change: &str, k: u64, s: u64| json!({ "_offset": offset, "_change_type": change, "k": k, "s": s });
    let log =
        [("+I", 1, 0), ("+I", 2, 0), ("-U", 1, 0), ("+U", 1, 1), ("-D", 2, 0), ("-D", 1, 1), ("+I", 1, 2)];
    let log: Vec<Value> = (0..).zip(log).map(|(offset, (change, k, s))| row(offset, change, k, s)).collect();
    let rows = vec![json!({ "k": 1, "s": 2 })];
    let judged = |log: Vec<Value>, rows: Vec<Value>| {
        let judged = std::panic::AssertUnwindSafe(|| judge("t", &[log], rows, &[&writer]));
        std::panic::catch_unwind(judged).is_ok()
    };
    assert!(judged(log.clone(), rows.clone()));
    assert!(!judged(log.clone(), vec![]), "a row is lost");
    assert!(!judged(log.clone(), vec![json!({ "k": 1, "s": 1 })]), "a row is old");
    assert!(!judged(log.clone(), [rows.clone(), rows.clone()].concat()), "a row is there twice");
    for place in 0..log.len() {
        let mut other = log.clone();
        other.remove(place);
        (place..other.len()).for_each(|at| other[at]["_offset"] = at.into());
        assert!(!judged(other, rows.clone()), "a change is missing: {}", log[place]);
        let mut other = log.clone();
        other.insert(place, log[place].clone());
        (place..other.len()).for_each(|at| other[at]["_offset"] = at.into());
        assert!(!judged(other, rows.clone()), "a change is there twice: {}", log[place]);
        let mut other = log.clone();
        other[place]["s"] = 7.into();
        assert!(!judged(other, rows.clone()), "a change has another value: {}", log[place]);
    }
}
