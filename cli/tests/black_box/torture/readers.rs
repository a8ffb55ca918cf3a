//! Readers that follow a log table through all faults: one by its tail with cursors, others by long polls. What they see must be dense
//! at once, and at the end what everybody else sees.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::harness::{Api, send};
use crate::load::{Places, Row, check_refusal};

/// The rows of each bucket, in order.
pub(super) type Followed = BTreeMap<u64, Vec<Row>>;

/// How many rows each bucket of some tables has, as soon as it is known.
pub(super) type Ends = watch::Receiver<Option<BTreeMap<String, BTreeMap<u64, u64>>>>;

/// A tail gives a sign of life more often than this.
const SILENCE: Duration = Duration::from_secs(25);

const COLUMNS: &str = "p,s,i,_bucket,_offset";

const BUCKETS: u64 = 2;

/// Where tables of which nobody writes any more end.
pub(super) async fn ends(api: &Api, tables: &[String]) -> BTreeMap<String, BTreeMap<u64, u64>> {
    let mut ends = BTreeMap::new();
    for table in tables {
        let mut of_table = BTreeMap::new();
        for bucket in 0..BUCKETS {
            let answer = api.get(&format!("{table}/log?bucket={bucket}&max_rows=1")).await.expect(200);
            of_table.insert(bucket, answer.header("wadi-high-watermark").parse().unwrap());
        }
        ends.insert(table.clone(), of_table);
    }
    ends
}

fn is_complete(table: &str, followed: &Followed, ends: &Ends) -> bool {
    let seen = |bucket: &u64| followed.get(bucket).map_or(0, |rows| rows.len() as u64);
    ends.borrow().as_ref().is_some_and(|ends| ends[table].iter().all(|(bucket, end)| seen(bucket) == *end))
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name} of {row}"))
}

fn identity(row: &Value) -> Row {
    (row["p"].as_str().unwrap().to_owned(), number(row, "s"), number(row, "i"))
}

fn note(table: &str, followed: &mut Followed, row: &Value) {
    let rows = followed.entry(number(row, "_bucket")).or_default();
    assert_eq!(
        number(row, "_offset"),
        rows.len() as u64,
        "{table}: a reader sees a gap or a row again: {row}"
    );
    rows.push(identity(row));
}

/// Follows a table from its beginning, over all connections that break.
pub(super) async fn tail(api: &Api, table: &str, mut ends: Ends) -> Followed {
    let mut followed = Followed::new();
    let mut cursor: Option<String> = None;
    while !is_complete(table, &followed, &ends) {
        let mut request = api
            .request(Method::GET, &format!("{table}/tail?from=earliest&columns={COLUMNS}"))
            .header("accept", "text/event-stream");
        if let Some(cursor) = &cursor {
            request = request.header("last-event-id", cursor);
        }
        if let Ok(Ok(mut response)) = timeout(SILENCE, request.send()).await
            && response.status() == 200
        {
            let (mut text, mut rows) = (String::new(), Vec::new());
            while let Ok(Ok(Some(piece))) = tokio::select! {
                piece = timeout(SILENCE, response.chunk()) => piece,
                _ = ends.changed() => Ok(Ok(Some(bytes::Bytes::new()))),
            } {
                text.push_str(std::str::from_utf8(&piece).unwrap());
                let end = text.rfind('\n').map_or(0, |end| end + 1);
                let rest = text.split_off(end);
                for line in std::mem::replace(&mut text, rest).lines() {
                    if let Some(row) = line.strip_prefix("data: ").filter(|row| row.starts_with('{')) {
                        rows.push(serde_json::from_str::<Value>(row).unwrap());
                    }
                    // What came without its cursor comes again.
                    if let Some(told) = line.strip_prefix("id: ") {
                        cursor = Some(told.to_owned());
                        rows.drain(..).for_each(|row| note(table, &mut followed, &row));
                    }
                }
                if is_complete(table, &followed, &ends) {
                    break;
                }
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
    followed
}

/// Follows all buckets of a table by long polls.
pub(super) async fn poll(api: &Api, table: &str, ends: Ends) -> Followed {
    let buckets = (0..BUCKETS).map(|bucket| poll_bucket(api, table, bucket, ends.clone()));
    join_all(buckets).await.into_iter().flatten().collect()
}

async fn poll_bucket(api: &Api, table: &str, bucket: u64, ends: Ends) -> Followed {
    let mut random = StdRng::seed_from_u64(bucket);
    let mut followed = Followed::from([(bucket, Vec::new())]);
    let is_done = |followed: &Followed| {
        ends.borrow().as_ref().is_some_and(|ends| ends[table][&bucket] == followed[&bucket].len() as u64)
    };
    while !is_done(&followed) {
        let known = followed[&bucket].len();
        // Now and then what was seen long ago, which may lie elsewhere by now.
        let offset = if random.random_bool(0.2) { random.random_range(0..=known) } else { known };
        let path = format!(
            "{table}/log?bucket={bucket}&offset={offset}&columns={COLUMNS}&max_rows=500&wait_ms=1000"
        );
        match send(api.request(Method::GET, &path)).await {
            Ok(answer) if answer.status == 200 => {
                let answer = answer.json();
                let rows = answer["rows"].as_array().unwrap();
                for (row, at) in rows.iter().zip(offset..) {
                    match followed[&bucket].get(at) {
                        None => note(table, &mut followed, row),
                        Some(before) => assert_eq!(*before, identity(row), "{table} bucket {bucket}: {row}"),
                    }
                }
                assert_eq!(answer["next_offset"], offset + rows.len(), "{table} bucket {bucket}");
            }
            Ok(answer) => check_refusal(&answer),
            Err(_) => {}
        }
        sleep(Duration::from_millis(20)).await;
    }
    followed
}

/// L4: all readers agree.
pub(super) fn compare(table: &str, followed: &Followed, places: &Places) {
    let count: usize = followed.values().map(Vec::len).sum();
    assert_eq!(count, places.len(), "{table}: rows that a reader saw");
    for (bucket, rows) in followed {
        for (offset, row) in rows.iter().enumerate() {
            assert_eq!(places.get(row), Some(&(*bucket, offset as u64)), "{table}: a reader saw {row:?}");
        }
    }
}
