//! Giving a root to another meta store, or a meta store another root. An administrator does it, with all processes of the cluster
//! stopped.
//!
//! The generation rises with it, so that every fencing token of the new meta store is above all that were given before, whatever its
//! revisions are. Processes of the old side that live all the same lose each shard as soon as it is claimed anew; changes that they
//! still make to databases and tables are lost. Whether any live cannot be known from here: they may be where nobody reaches them.
//!
//! What a cluster knows of its tables is in the meta store alone. So one that knows nothing of the cluster is refused, unless the
//! metadata are in the root itself: those are copied.

use wadi_meta::{MetaStore, Txn};
use wadi_model::env::Env;

use super::{IdentityError, read, write};
use crate::cluster::{Cluster, MetaKind};
use crate::metadata::{self, MetadataError};
use crate::objects::Objects;

/// Up to which drop the databases of the shards were swept, under `sweeps/<shard>`: a revision of the meta store, which
/// means nothing in another one.
pub const SWEEPS: &str = "sweeps/";

/// What is copied at once: keys, and bytes.
const BATCH: (usize, usize) = (64, 512 << 10);

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The cluster as it was.
    pub before: Cluster,
    /// The cluster as it is now.
    pub now: Cluster,
    /// How many keys were copied from the metadata in the root.
    pub copied: usize,
}

/// Gives the root to `meta`, the etcd of the cluster's id. It can be done again if it was cut off.
pub async fn adopt(objects: &Objects, meta: &dyn MetaStore, env: &Env) -> Result<Adopted, MetadataError> {
    let refused = |why: &str| IdentityError::NotAdopted { root: objects.url.clone(), why: why.to_owned() };
    let before = Cluster::read(objects.store.as_ref(), &objects.root).await?;
    let before = before.ok_or_else(|| refused("there is no cluster at it"))?;
    let generation = before.next_generation().ok_or_else(|| refused("it was done too often"))?;
    let known = read(meta).await?;
    if known.is_some_and(|known| known.cluster != before.id) {
        return Err(refused("it knows another cluster by the same name").into());
    }
    let embedded = before.meta.as_ref().is_some_and(|bound| bound.kind == MetaKind::Embedded);
    let copied = match embedded {
        true => copy(objects, meta).await?,
        false if meta.list("").await?.entries.is_empty() => {
            let why = "it knows nothing of the cluster, and databases and tables stand in the meta store alone. Bring the \
                       keys of the one before there first (`etcdctl snapshot restore`, or `etcdctl make-mirror`)";
            return Err(refused(why).into());
        }
        false => 0,
    };
    for sweep in meta.list(SWEEPS).await?.entries {
        meta.txn(Txn::new().delete(sweep.key)).await?;
    }
    let now = Cluster { generation, ..before.clone() }.bound_to(MetaKind::Etcd, env);
    // In this order: a root never names a meta store that does not know it.
    write(meta, &now, &objects.url).await?;
    now.replace(&before, objects.store.as_ref(), &objects.root).await?;
    Ok(Adopted { before, now, copied })
}

/// Copies the metadata in the root, from which all sessions are gone once it is open. Whatever an earlier copy has left is replaced.
async fn copy(objects: &Objects, to: &dyn MetaStore) -> Result<usize, MetadataError> {
    for old in to.list("").await?.entries {
        to.txn(Txn::new().delete(old.key)).await?;
    }
    let from = metadata::embedded(objects).await?;
    let entries = from.list("").await?.entries;
    let (copied, mut txn, mut bytes) = (entries.len(), Txn::new(), 0);
    for entry in entries {
        if txn.ops.len() >= BATCH.0 || bytes + entry.value.len() > BATCH.1 && !txn.ops.is_empty() {
            to.txn(std::mem::take(&mut txn)).await?;
            bytes = 0;
        }
        bytes += entry.value.len();
        txn = txn.put(entry.key, entry.value);
    }
    to.txn(txn).await?;
    from.close().await?;
    Ok(copied)
}
