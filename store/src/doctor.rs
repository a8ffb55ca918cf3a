//! Whether an object store keeps the promises that Wadi stands on, and a meta store too.

use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::time::Instant;
use wadi_meta::{Compare, MetaStore, Txn, TxnOutcome};
use wadi_model::env::Env;

use crate::objects::told;

#[cfg(test)]
mod tests;

/// Writers that race for one name.
const RACERS: u8 = 4;

/// Requests of which the middle one tells the latency.
const SAMPLES: usize = 5;

/// What is written for it: about what a small flush has.
const SAMPLE_BYTES: usize = 16 << 10;

/// How far clocks may be apart: rows get their times from gateways, and what is old is judged by them. NTP is a thousand times better.
const MOST_SKEW: i64 = 60_000;

/// One examined promise.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Finding {
    /// What was examined.
    pub check: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// What was seen, and what to do about it.
    pub detail: String,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

/// Examines the store below `root`, in objects of its own that it takes away again.
pub async fn examine(objects: &dyn ObjectStore, root: &Path, env: &Env) -> Vec<Finding> {
    let below = Path::from(format!("{root}/doctor/{:032x}", env.unique()));
    let path = |name: &str| below.clone().join(name);
    let object = path("object");
    let mut findings = vec![
        timed("PUT", put(objects, &object)).await,
        timed("GET", get(objects, &object)).await,
        timed("LIST", list(objects, &below)).await,
    ];
    if findings.iter().all(|finding| !finding.ok) {
        // All else would say the same.
        return findings;
    }
    findings.extend([
        timed("clock", clock(objects, &object, env)).await,
        timed("DELETE", delete(objects, &object)).await,
        timed("create if absent", create_if_absent(objects, path("once"))).await,
        timed("one winner of a race", race(objects, path("race"))).await,
        timed("latency", latency(objects, path("latency"))).await,
    ]);
    findings
}

/// Examines a meta store, in a key of its own.
pub async fn examine_meta(meta: &dyn MetaStore, ttl: Duration) -> Vec<Finding> {
    vec![
        timed("meta store", transactions(meta)).await,
        timed("session", async {
            let session = meta.session(ttl).await.map_err(|e| e.to_string())?;
            session.hold().await.map_err(|e| e.to_string())?;
            session.close().await.map_err(|e| e.to_string())?;
            Ok(format!("a lease of {ttl:?} can be had and given back"))
        })
        .await,
    ]
}

async fn timed(check: &'static str, work: impl Future<Output = Result<String, String>>) -> Finding {
    let began = Instant::now();
    let limit = Duration::from_secs(30);
    let seen =
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err("no answer within 30 s".into()));
    let millis = began.elapsed().as_millis() as u64;
    let (ok, detail) = match seen {
        Ok(detail) => (true, detail),
        Err(detail) => (false, detail),
    };
    Finding { check, ok, detail, millis }
}

async fn put(objects: &dyn ObjectStore, path: &Path) -> Result<String, String> {
    objects.put(path, "wadi".into()).await.map_err(|e| told(&e))?;
    Ok("objects can be written".into())
}

/// Also where nothing could be written: the answer tells whether it may be asked for.
async fn get(objects: &dyn ObjectStore, path: &Path) -> Result<String, String> {
    match objects.get_range(path, 1..3).await {
        Ok(found) if found.as_ref() == b"ad" => Ok("ranges of objects can be read".into()),
        Ok(_) => Err("a ranged GET gave other bytes".into()),
        Err(Error::NotFound { .. }) => {
            Ok("objects may be read; there is none, as none could be written".into())
        }
        Err(error) => Err(told(&error)),
    }
}

async fn list(objects: &dyn ObjectStore, below: &Path) -> Result<String, String> {
    let found: Vec<_> = objects.list(Some(below)).try_collect().await.map_err(|e| told(&e))?;
    Ok(match found.len() {
        0 => "names may be listed; there is none, as none could be written".into(),
        _ => "names can be listed".into(),
    })
}

async fn delete(objects: &dyn ObjectStore, path: &Path) -> Result<String, String> {
    match objects.delete(path).await {
        Ok(()) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(told(&error)),
    }
    match objects.head(path).await {
        Err(Error::NotFound { .. }) => Ok("objects can be deleted".into()),
        Ok(_) => Err("an object was deleted and is still there".into()),
        Err(error) => Err(format!("whether the object is gone cannot be seen: {}", told(&error))),
    }
}

/// The store stamps each object with its own time, in whole seconds.
async fn clock(objects: &dyn ObjectStore, path: &Path, env: &Env) -> Result<String, String> {
    let before = env.now_millis();
    // Anew, as the time of the first one may be a while ago.
    objects
        .put(path, "wadi".into())
        .await
        .map_err(|e| format!("the store's time is not known: {}", told(&e)))?;
    let after = env.now_millis();
    let stamped =
        objects.head(path).await.map_err(|e| format!("the store's time is not known: {}", told(&e)))?;
    let stamp = stamped.last_modified.timestamp_millis();
    let skew = match stamp {
        ahead if ahead > after => ahead - after,
        behind if behind + 1000 < before => behind + 1000 - before,
        _ => 0,
    };
    let seconds = skew.unsigned_abs().div_ceil(1000);
    let side = if skew > 0 { "ahead of" } else { "behind" };
    match skew.abs() {
        0 => Ok("machine and store have the same time".into()),
        apart if apart <= MOST_SKEW => Ok(format!("the store is {seconds} s {side} this machine")),
        _ => Err(format!(
            "the store is {seconds} s {side} this machine. Times of rows, retention and deletion go by the machine's clock, and S3 \
            refuses requests that are 15 minutes off (RequestTimeTooSkewed): set the clock by NTP"
        )),
    }
}

async fn latency(objects: &dyn ObjectStore, path: Path) -> Result<String, String> {
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let began = Instant::now();
        objects.put(&path, vec![0; SAMPLE_BYTES].into()).await.map_err(|e| told(&e))?;
        puts.push(began.elapsed());
        let began = Instant::now();
        let read = async { objects.get(&path).await?.bytes().await };
        read.await.map_err(|e| told(&e))?;
        gets.push(began.elapsed());
    }
    let _ = objects.delete(&path).await;
    let middle = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times.get(SAMPLES / 2).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    Ok(format!(
        "PUT {:.1} ms, GET {:.1} ms (median of {SAMPLES}, 16 KiB); a write is acked in one PUT or two",
        middle(puts),
        middle(gets)
    ))
}

async fn transactions(meta: &dyn MetaStore) -> Result<String, String> {
    const KEY: &str = "doctor";
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let began = Instant::now();
        let put = Txn::new().put(KEY, "wadi");
        let put = meta.txn(put).await.map_err(|e| e.to_string())?;
        times.push(began.elapsed());
        let TxnOutcome::Committed(at) = put else {
            return Err("a transaction without a condition was refused".into());
        };
        let delete = Txn::new().when(Compare::modified(KEY, at)).delete(KEY);
        meta.txn(delete).await.map_err(|e| e.to_string())?;
    }
    times.sort_unstable();
    let middle = times.get(SAMPLES / 2).copied().unwrap_or_default().as_secs_f64() * 1000.0;
    Ok(format!("a transaction takes {middle:.1} ms (median of {SAMPLES})"))
}

async fn create(objects: &dyn ObjectStore, path: &Path, body: u8) -> Result<(), Error> {
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    objects.put_opts(path, vec![body].into(), create).await.map(drop)
}

const NOT_FENCED: &str =
    "this store overwrites objects that must only be created; Wadi would lose data on it";

async fn create_if_absent(objects: &dyn ObjectStore, path: Path) -> Result<String, String> {
    create(objects, &path, 1).await.map_err(|e| format!("the first create failed: {}", told(&e)))?;
    let second = create(objects, &path, 2).await;
    let found = objects.get(&path).await.map_err(|e| told(&e))?.bytes().await.map_err(|e| told(&e))?;
    let _ = objects.delete(&path).await;
    match second {
        Err(Error::AlreadyExists { .. }) if found.as_ref() == [1] => {
            Ok("the second create was refused".into())
        }
        Err(Error::AlreadyExists { .. }) | Ok(()) => Err(NOT_FENCED.into()),
        Err(error) => Err(format!("the second create failed in another way: {}", told(&error))),
    }
}

async fn race(objects: &dyn ObjectStore, path: Path) -> Result<String, String> {
    let tries = join_all((1..=RACERS).map(|body| create(objects, &path, body))).await;
    let winners: Vec<u8> =
        (1..=RACERS).zip(&tries).filter(|(_, t)| t.is_ok()).map(|(body, _)| body).collect();
    let found = async { objects.get(&path).await?.bytes().await };
    let found = match (found.await, tries.into_iter().find_map(Result::err)) {
        (Ok(found), _) => found,
        // Why nobody could write says more than that there is nothing.
        (Err(Error::NotFound { .. }), Some(error)) => return Err(format!("nobody won: {}", told(&error))),
        (Err(error), _) => return Err(told(&error)),
    };
    let _ = objects.delete(&path).await;
    match winners.as_slice() {
        [winner] if found.as_ref() == [*winner] => Ok(format!("one of {RACERS} writers won")),
        _ => Err(format!("{} of {RACERS} writers won; {NOT_FENCED}", winners.len())),
    }
}
