//! The cluster's identity, in the object `CLUSTER` at its root.
//!
//! Created once by whoever starts first. The number of shards is fixed with it: the place of every bucket depends on
//! it. The generation is part of every fencing token and is raised when a root moves to another meta store.

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use wadi_meta::Revision;
use wadi_model::Token;
use wadi_model::env::Env;

/// The version of all formats below the root.
const FORMAT: u32 = 1;

/// Tokens are made of so many bits of the meta store's revision, below the generation.
const REVISION_BITS: u32 = 48;

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
}

impl Cluster {
    /// Reads the cluster at a root, or makes a new one with so many shards.
    pub async fn open(
        objects: &dyn ObjectStore,
        root: &Path,
        shards: u32,
        env: &Env,
    ) -> Result<Cluster, ClusterError> {
        let path = Path::from(format!("{root}/CLUSTER"));
        let failed = |source| ClusterError::Store { path: path.clone(), source };
        let unreadable = |why: String| ClusterError::Unreadable { path: path.clone(), why };
        let fresh = Cluster {
            id: format!("{:032x}", env.unique()),
            format: FORMAT,
            shards: shards.max(1),
            generation: 1,
        };
        let json = serde_json::to_vec_pretty(&fresh).map_err(|e| unreadable(e.to_string()))?;
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        if let Some(cluster) = Cluster::read(objects, root).await? {
            return Ok(cluster);
        }
        // Whoever loses the race reads what the other one made.
        match objects.put_opts(&path, json.into(), create).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(source) => return Err(failed(source)),
        }
        let gone = || unreadable("it was there a moment ago and is gone".to_owned());
        Cluster::read(objects, root).await?.ok_or_else(gone)
    }

    /// Reads the cluster at a root; `None` if nobody has made it yet.
    pub async fn read(objects: &dyn ObjectStore, root: &Path) -> Result<Option<Cluster>, ClusterError> {
        let path = Path::from(format!("{root}/CLUSTER"));
        let failed = |source| ClusterError::Store { path: path.clone(), source };
        let unreadable = |why: String| ClusterError::Unreadable { path: path.clone(), why };
        let stored = match objects.get(&path).await {
            Ok(stored) => stored.bytes().await.map_err(failed)?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let cluster: Cluster = serde_json::from_slice(&stored).map_err(|e| unreadable(e.to_string()))?;
        if cluster.format != FORMAT || cluster.shards == 0 || cluster.generation >> 16 != 0 {
            return Err(unreadable(format!(
                "format {} is not known here; format {FORMAT} is",
                cluster.format
            )));
        }
        Ok(Some(cluster))
    }

    /// The fencing token of a claim that the meta store committed at `revision`.
    pub fn token(&self, revision: Revision) -> Token {
        Token(self.generation << REVISION_BITS | revision.0 & ((1 << REVISION_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn the_first_start_decides_the_number_of_shards() {
        let (store, root, env) = (InMemory::new(), Path::from("w"), Env::default());
        let first = Cluster::open(&store, &root, 4, &env).await.unwrap();
        let again = Cluster::open(&store, &root, 32, &env).await.unwrap();
        assert_eq!(first, again);
        assert_eq!(again.shards, 4);
    }

    #[tokio::test]
    async fn a_foreign_object_is_refused() {
        let (store, root) = (InMemory::new(), Path::from("w"));
        store.put(&Path::from("w/CLUSTER"), "hello".into()).await.unwrap();
        let error = Cluster::open(&store, &root, 4, &Env::default()).await.unwrap_err();
        assert!(matches!(error, ClusterError::Unreadable { .. }));
    }

    #[test]
    fn tokens_grow_with_generation_and_revision() {
        let cluster = |generation| Cluster { id: String::new(), format: FORMAT, shards: 1, generation };
        assert!(cluster(1).token(Revision(2)) > cluster(1).token(Revision(1)));
        assert!(cluster(2).token(Revision(1)) > cluster(1).token(Revision(1 << 47)));
    }
}
