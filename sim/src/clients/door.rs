//! How a client reaches the rows of a bucket: through the route of any gateway, or at the owner itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wadi_model::Bucket;
use wadi_model::row::Rows;
use wadi_store::route::{Route, RouteError, Scan, Snapshot};
use wadi_store::shard::{Limit, LookupError, RowPage, RowScan, RowSnapshot, Shard};

use super::Scene;

/// More than any bucket has.
const ALL: Limit = Limit { rows: 1 << 20, bytes: 1 << 30 };

/// The way to the rows of a bucket.
#[derive(Clone, Debug)]
pub(super) enum Door {
    /// Its owner.
    Owner(Shard),
    /// Any gateway, which is to find the owner in this time.
    Any(Route, Duration),
}

/// Rows at one point in time.
pub(super) enum Snap {
    Owner(Arc<RowSnapshot>),
    Any(Snapshot),
}

/// A pass over them.
pub(super) enum Pass {
    Owner(Box<RowScan>),
    Any(Scan),
}

fn said(error: RouteError<LookupError>) -> LookupError {
    match error {
        RouteError::NotOpen(_) => LookupError::NotOwned,
        RouteError::Said(error) => error,
    }
}

impl Door {
    pub(super) async fn lookup(
        &self,
        bucket: Bucket,
        keys: &Rows,
    ) -> Result<Vec<Option<Bytes>>, LookupError> {
        match self {
            Door::Owner(shard) => shard.lookup(&bucket, keys).await,
            Door::Any(route, patience) => route.lookup(bucket, keys, *patience).await.map_err(said),
        }
    }

    /// All rows under the only one of `prefixes`.
    pub(super) async fn group(&self, bucket: Bucket, prefixes: &Rows) -> Result<Vec<Bytes>, LookupError> {
        let found = match self {
            Door::Owner(shard) => shard.lookup_prefixes(&bucket, prefixes, prefixes, ALL).await?,
            Door::Any(route, patience) => {
                let found = route.lookup_prefixes(bucket, prefixes, prefixes, ALL, *patience);
                found.await.map_err(said)?
            }
        };
        let too_many = || LookupError::Internal("a group has more rows than any bucket".into());
        let mut found = found.ok_or_else(too_many)?;
        found.pop().ok_or_else(|| LookupError::Internal("a prefix has no answer".into()))
    }

    /// A high watermark that is not below what was seen before this call.
    pub(super) async fn high(&self, scene: &Scene, bucket: Bucket) -> Result<u64, LookupError> {
        match self {
            Door::Owner(shard) => Ok(shard.bounds(&bucket).high_watermark.0),
            Door::Any(route, patience) => {
                let state = route.state(&bucket, *patience).await.map_err(said)?;
                // An owner that does not know yet that its session ended early may answer after another one did.
                Ok(state.bounds.high_watermark.0.max(scene.highest(&bucket)))
            }
        }
    }

    /// How many rows there are, if that is known, and the high watermark.
    pub(super) async fn count(&self, bucket: Bucket) -> Result<(Option<u64>, u64), LookupError> {
        match self {
            Door::Owner(shard) => {
                let (count, bounds) = shard.count_rows(&bucket);
                Ok((count, bounds.high_watermark.0))
            }
            Door::Any(route, patience) => {
                let state = route.state(&bucket, *patience).await.map_err(said)?;
                Ok((state.count, state.bounds.high_watermark.0))
            }
        }
    }

    /// The rows as they are now, and an offset up to which all changes are in them.
    pub(super) async fn snapshot(&self, bucket: Bucket) -> Result<(Snap, u64), LookupError> {
        match self {
            Door::Owner(shard) => {
                let snapshot = shard.snapshot_rows(&bucket)?;
                let high = snapshot.high_watermark().0;
                Ok((Snap::Owner(Arc::new(snapshot)), high))
            }
            Door::Any(route, patience) => {
                let snapshot = route.snapshot(bucket, *patience).await.map_err(said)?;
                let high = snapshot.high_watermark().0;
                Ok((Snap::Any(snapshot), high))
            }
        }
    }
}

impl Snap {
    pub(super) async fn scan_after(&self, key: Option<&[u8]>) -> Result<Pass, LookupError> {
        match self {
            Snap::Owner(snapshot) => Ok(Pass::Owner(Box::new(snapshot.scan_after(key).await?))),
            Snap::Any(snapshot) => Ok(Pass::Any(snapshot.scan_after(key).await?)),
        }
    }
}

impl Pass {
    pub(super) async fn page(&mut self, max_rows: usize, max_bytes: usize) -> Result<RowPage, LookupError> {
        match self {
            Pass::Owner(scan) => scan.page(max_rows, max_bytes).await,
            Pass::Any(scan) => scan.page(max_rows, max_bytes).await,
        }
    }
}

impl Scene {
    /// The highest watermark that any gateway has of a bucket.
    fn highest(&self, bucket: &Bucket) -> u64 {
        let shard = bucket.shard(self.shards);
        let lives = self.gateways.iter().filter_map(|gateway| gateway.life());
        let open = lives.filter_map(|life| life.host.open_shard(shard));
        open.map(|shard| shard.bounds(bucket).high_watermark.0).max().unwrap_or_default()
    }
}
