//! Whether an object store keeps the promises that Wadi stands on.

use std::time::Duration;

use futures::future::join_all;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::time::Instant;
use wadi_model::env::Env;

/// Writers that race for one name.
const RACERS: u8 = 4;

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
    let path = |name: &str| Path::from(format!("{root}/doctor/{:032x}/{name}", env.unique()));
    vec![
        timed("write and read", write_and_read(objects, path("object"))).await,
        timed("create if absent", create_if_absent(objects, path("once"))).await,
        timed("one winner of a race", race(objects, path("race"))).await,
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

async fn write_and_read(objects: &dyn ObjectStore, path: Path) -> Result<String, String> {
    let failed = |step: &str, e: Error| format!("{step}: {e}; check bucket, credentials and permissions");
    objects.put(&path, "wadi".into()).await.map_err(|e| failed("PUT", e))?;
    let found = objects.get_range(&path, 1..3).await.map_err(|e| failed("ranged GET", e))?;
    objects.delete(&path).await.map_err(|e| failed("DELETE", e))?;
    if found.as_ref() == b"ad" {
        Ok("PUT, ranged GET and DELETE work".into())
    } else {
        Err("ranged GET gave other bytes".into())
    }
}

async fn create(objects: &dyn ObjectStore, path: &Path, body: u8) -> Result<(), Error> {
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    objects.put_opts(path, vec![body].into(), create).await.map(drop)
}

const NOT_FENCED: &str =
    "this store overwrites objects that must only be created; Wadi would lose data on it";

async fn create_if_absent(objects: &dyn ObjectStore, path: Path) -> Result<String, String> {
    create(objects, &path, 1).await.map_err(|e| format!("the first create failed: {e}"))?;
    let second = create(objects, &path, 2).await;
    let found =
        objects.get(&path).await.map_err(|e| e.to_string())?.bytes().await.map_err(|e| e.to_string())?;
    let _ = objects.delete(&path).await;
    match second {
        Err(Error::AlreadyExists { .. }) if found.as_ref() == [1] => {
            Ok("the second create was refused".into())
        }
        Err(Error::AlreadyExists { .. }) | Ok(()) => Err(NOT_FENCED.into()),
        Err(error) => Err(format!("the second create failed in another way: {error}")),
    }
}

async fn race(objects: &dyn ObjectStore, path: Path) -> Result<String, String> {
    let tries = join_all((1..=RACERS).map(|body| create(objects, &path, body))).await;
    let winners: Vec<u8> =
        (1..=RACERS).zip(&tries).filter(|(_, t)| t.is_ok()).map(|(body, _)| body).collect();
    let found =
        objects.get(&path).await.map_err(|e| e.to_string())?.bytes().await.map_err(|e| e.to_string())?;
    let _ = objects.delete(&path).await;
    match winners.as_slice() {
        [winner] if found.as_ref() == [*winner] => Ok(format!("one of {RACERS} writers won")),
        _ => Err(format!("{} of {RACERS} writers won; {NOT_FENCED}", winners.len())),
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn a_good_store_passes_and_is_left_clean() {
        use futures::TryStreamExt;
        let store = InMemory::new();
        let findings = examine(&store, &Path::from("w"), &Env::default()).await;
        assert!(findings.iter().all(|f| f.ok), "{findings:?}");
        assert!(store.list(None).try_collect::<Vec<_>>().await.unwrap().is_empty());
    }
}
