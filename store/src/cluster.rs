//! The cluster's identity, in the object `CLUSTER` at its root.
//!
//! Created once by whoever starts first. The number of shards is fixed with it: the place of every bucket depends on
//! it. The generation is part of every fencing token and is raised when a root moves to another meta store, which the object
//! names too ([`crate::identity`]).

use std::fmt;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use serde::{Deserialize, Serialize};
use wadi_meta::Revision;
use wadi_model::Token;
use wadi_model::env::Env;

use crate::versions::unknown_format;

#[cfg(test)]
mod tests;

/// The version of all formats below the root.
const FORMAT: u32 = 1;

/// Tokens are made of so many bits of the meta store's revision, below the generation.
const REVISION_BITS: u32 = 48;

/// The generation has the rest of a token's bits.
const MOST_GENERATIONS: u64 = 1 << (64 - REVISION_BITS);

/// What a root is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Chosen by chance.
    pub id: String,
    /// The version of all formats below the root.
    pub format: u32,
    /// How many shards there are, for ever.
    pub shards: u32,
    /// Raised when the root moves to another meta store.
    pub generation: u64,
    /// The meta store that gives its fencing tokens. `None` in roots of the first days, until their next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaId>,
}

/// The meta store of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaId {
    /// Where it keeps things.
    pub kind: MetaKind,
    /// Chosen by chance when a cluster is bound to it; it stands in the meta store too.
    pub id: String,
}

/// Where a meta store keeps things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetaKind {
    /// In the root itself.
    Embedded,
    /// In etcd.
    Etcd,
}

impl fmt::Display for MetaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MetaKind::Embedded => "embedded",
            MetaKind::Etcd => "etcd",
        })
    }
}

impl fmt::Display for MetaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// A root that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The store did not answer as it should.
    #[error("the object store cannot be used at \"{path}\": {source}")]
    Store {
        /// The object.
        path: Path,
        /// Why.
        source: object_store::Error,
    },
    /// The object is no description of a cluster.
    #[error("\"{path}\" does not describe a Wadi cluster: {why}")]
    Unreadable {
        /// The object.
        path: Path,
        /// Why.
        why: String,
    },
    /// A later Wadi has made it.
    #[error("{0}")]
    Format(String),
}

/// What every format has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl Cluster {
    /// A new one with so many shards, which belongs to no meta store yet.
    pub fn fresh(shards: u32, env: &Env) -> Cluster {
        let id = format!("{:032x}", env.unique());
        Cluster { id, format: FORMAT, shards: shards.max(1), generation: 1, meta: None }
    }

    /// Given to a meta store that is its own from now on.
    #[must_use]
    pub fn bound_to(mut self, kind: MetaKind, env: &Env) -> Cluster {
        self.meta = Some(MetaId { kind, id: format!("{:032x}", env.unique()) });
        self
    }

    /// Makes it the cluster at a root, unless there is one. Gives the one that is there then.
    pub async fn create(&self, objects: &dyn ObjectStore, root: &Path) -> Result<Cluster, ClusterError> {
        let path = path(root);
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        // Whoever loses the race reads what the other one made.
        match objects.put_opts(&path, self.to_json(&path)?.into(), create).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(source) => return Err(ClusterError::Store { path, source }),
        }
        let why = "it was there a moment ago and is gone".to_owned();
        Cluster::read(objects, root).await?.ok_or(ClusterError::Unreadable { path, why })
    }

    /// Puts it in the place of `before` at a root. Fails if something else is there; on a directory nobody looks, as that
    /// knows no conditional update.
    pub async fn replace(
        &self,
        before: &Cluster,
        objects: &dyn ObjectStore,
        root: &Path,
    ) -> Result<(), ClusterError> {
        let path = path(root);
        let failed = |source| ClusterError::Store { path: path.clone(), source };
        let found = objects.get(&path).await.map_err(failed)?;
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        if parse(&path, &found.bytes().await.map_err(failed)?)? != *before {
            let why = "it was changed by another process just now; try again".to_owned();
            return Err(ClusterError::Unreadable { path, why });
        }
        let json = self.to_json(&path)?;
        let update = PutOptions { mode: PutMode::Update(version), ..PutOptions::default() };
        match objects.put_opts(&path, json.clone().into(), update).await {
            Err(object_store::Error::NotImplemented { .. }) => {
                objects.put(&path, json.into()).await.map(drop).map_err(failed)
            }
            outcome => outcome.map(drop).map_err(failed),
        }
    }

    /// Reads the cluster at a root; `None` if nobody has made it yet.
    pub async fn read(objects: &dyn ObjectStore, root: &Path) -> Result<Option<Cluster>, ClusterError> {
        let path = path(root);
        let failed = |source| ClusterError::Store { path: path.clone(), source };
        let stored = match objects.get(&path).await {
            Ok(stored) => stored.bytes().await.map_err(failed)?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        parse(&path, &stored).map(Some)
    }

    fn to_json(&self, path: &Path) -> Result<Vec<u8>, ClusterError> {
        let unreadable =
            |e: serde_json::Error| ClusterError::Unreadable { path: path.clone(), why: e.to_string() };
        serde_json::to_vec_pretty(self).map_err(unreadable)
    }

    /// The generation after this one, if there is one.
    pub fn next_generation(&self) -> Option<u64> {
        Some(self.generation + 1).filter(|next| *next < MOST_GENERATIONS)
    }

    /// The fencing token of a claim that the meta store committed at `revision`.
    pub fn token(&self, revision: Revision) -> Token {
        Token(self.generation << REVISION_BITS | revision.0 & ((1 << REVISION_BITS) - 1))
    }
}

fn path(root: &Path) -> Path {
    Path::from(format!("{root}/CLUSTER"))
}

fn parse(path: &Path, stored: &[u8]) -> Result<Cluster, ClusterError> {
    let unreadable = |why: String| ClusterError::Unreadable { path: path.clone(), why };
    // First, as the rest may be anything in a later format.
    let AnyFormat { format } = serde_json::from_slice(stored).map_err(|e| unreadable(e.to_string()))?;
    if format > FORMAT {
        return Err(ClusterError::Format(unknown_format(&format!("the root of \"{path}\""), format, FORMAT)));
    }
    let cluster: Cluster = serde_json::from_slice(stored).map_err(|e| unreadable(e.to_string()))?;
    if format == 0 || cluster.shards == 0 || cluster.generation >= MOST_GENERATIONS {
        return Err(unreadable("its numbers cannot be".to_owned()));
    }
    Ok(cluster)
}
