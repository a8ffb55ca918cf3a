//! Which meta store a root belongs to, and which root a meta store: that no two clusters meet on one root.
//!
//! Fencing tokens are made of the meta store's revisions. Two meta stores on one root would give tokens that mean nothing to each
//! other; and whoever has no catalog would give the ids of tables a second time. So each names the other, and nobody starts
//! unless they agree:
//!
//! * the root's `CLUSTER` holds the id of the [meta store](crate::cluster::MetaId),
//! * the meta store holds, under [`KEY`], the ids of the cluster and of itself, and where the root is.
//!
//! **The meta store is written first.** So a root that names a meta store which does not know it was never that store's: it is
//! refused, and nobody needs to guess whether a start was cut off in between. What such a start leaves is a key that no root
//! names. In etcd the keys of a cluster stand below its id, so that of a start which lost a race disturbs nobody, and is taken away.
//!
//! A root is known by its URL without the endpoint, since one bucket is reached in many ways. With embedded metadata
//! it is not compared: what is copied or moved takes its metadata along.

use serde::{Deserialize, Serialize};
use wadi_meta::{MetaStore, Txn};
use wadi_model::env::Env;

use crate::cluster::{Cluster, ClusterError, MetaId, MetaKind};
use crate::metadata::MetadataError;
use crate::objects::Objects;

pub use adopt::{Adopted, SWEEPS, adopt};

mod adopt;
#[cfg(test)]
mod tests;

/// Where the meta store says whose it is.
pub const KEY: &str = "cluster/identity";

/// What a meta store says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The cluster.
    pub cluster: String,
    /// The meta store.
    pub meta: MetaId,
    /// The cluster's root.
    pub root: String,
}

/// A root and a meta store that do not belong together.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The root belongs to another meta store.
    #[error(
        "the root {root} holds cluster {cluster}, whose metadata is in {bound}; {here}. Two meta stores on one root would \
        destroy it. Start with the meta store of the cluster, or choose a root of your own"
    )]
    OtherMeta {
        /// The root.
        root: String,
        /// The cluster at the root.
        cluster: String,
        /// The meta store that the root names.
        bound: String,
        /// What the meta store is that was tried.
        here: String,
    },
    /// The meta store belongs to another root.
    #[error(
        "the meta store {meta} says that cluster {cluster} is at {known}; {root} has the same id, so it is a copy of it. Two roots with \
        one meta store would destroy each other. Start with {known}; if the cluster has moved and nothing uses the old place \
        any more, `wadi admin adopt` makes {root} its root"
    )]
    OtherRoot {
        /// The meta store.
        meta: MetaId,
        /// The cluster.
        cluster: String,
        /// Where the meta store knows the cluster.
        known: String,
        /// The root that was tried.
        root: String,
    },
    /// There are data of a cluster, but its description is gone.
    #[error(
        "the root {root} has {left} of a cluster, but the object CLUSTER is missing; a new cluster there would mix with what is left. \
        Bring the object back (a bucket with versioning has it), or choose an empty root"
    )]
    NoCluster {
        /// The root.
        root: String,
        /// What is left of it.
        left: &'static str,
    },
    /// A root that cannot be given to a meta store.
    #[error("the root {root} cannot be given to this meta store: {why}")]
    NotAdopted {
        /// The root.
        root: String,
        /// Why.
        why: String,
    },
    /// What the meta store holds cannot be read.
    #[error("the meta store's \"{KEY}\" cannot be read: {0}")]
    Unreadable(String),
}

/// What the meta store says of itself; `None` if it says nothing yet.
pub async fn read(meta: &dyn MetaStore) -> Result<Option<Identity>, MetadataError> {
    let Some(found) = meta.get(KEY).await? else { return Ok(None) };
    let read = serde_json::from_slice(&found.value);
    read.map(Some).map_err(|e| IdentityError::Unreadable(e.to_string()).into())
}

/// Makes the meta store that of a cluster.
pub async fn write(meta: &dyn MetaStore, cluster: &Cluster, root: &str) -> Result<(), MetadataError> {
    let Some(id) = cluster.meta.clone() else {
        return Err(IdentityError::Unreadable("the cluster names no meta store".into()).into());
    };
    let identity = Identity { cluster: cluster.id.clone(), meta: id, root: root.to_owned() };
    let json = serde_json::to_vec(&identity).map_err(|e| IdentityError::Unreadable(e.to_string()))?;
    meta.txn(Txn::new().put(KEY, json)).await?;
    Ok(())
}

/// Makes a cluster at a root where there is none, with a meta store that is empty. `None` if another process was faster.
pub(crate) async fn found(
    meta: &dyn MetaStore,
    fresh: &Cluster,
    objects: &Objects,
) -> Result<Option<Cluster>, MetadataError> {
    write(meta, fresh, &objects.url).await?;
    let made = fresh.create(objects.store.as_ref(), &objects.root).await?;
    if made == *fresh {
        return Ok(Some(made));
    }
    // Nobody will ever ask for it.
    forget(meta).await;
    Ok(None)
}

async fn forget(meta: &dyn MetaStore) {
    if let Err(error) = meta.txn(Txn::new().delete(KEY)).await {
        tracing::debug!(%error, "the name of a cluster that was not made stays in the meta store");
    }
}

/// Refuses a root that has no `CLUSTER`, but data.
pub(crate) async fn check_empty(objects: &Objects) -> Result<(), MetadataError> {
    if !holds(objects, "shard").await?
        || Cluster::read(objects.store.as_ref(), &objects.root).await?.is_some()
    {
        // Another process may have made it since it was looked for, and shards too.
        return Ok(());
    }
    Err(IdentityError::NoCluster { root: objects.url.clone(), left: "shards" }.into())
}

/// Whether there is an object below this name in the root.
pub(crate) async fn holds(objects: &Objects, below: &str) -> Result<bool, ClusterError> {
    use futures::StreamExt;
    let path = objects.root.clone().join(below);
    let first = objects.store.list(Some(&path)).next().await;
    first.transpose().map(|found| found.is_some()).map_err(|source| ClusterError::Store { path, source })
}

/// Refuses a meta store that is not the cluster's. A root of the first days, which names none, is bound to the one that knows
/// something.
pub(crate) async fn check(
    meta: &dyn MetaStore,
    kind: MetaKind,
    cluster: Cluster,
    objects: &Objects,
    env: &Env,
) -> Result<Cluster, MetadataError> {
    match agree(meta, kind, &cluster, objects).await? {
        true => Ok(cluster),
        false => bind(meta, kind, &cluster, objects, env).await,
    }
}

/// Whether a meta store and a root belong together; an error if they do not. False if the root names none, and this one knows
/// something of it: then it is to be bound.
pub async fn agree(
    meta: &dyn MetaStore,
    kind: MetaKind,
    cluster: &Cluster,
    objects: &Objects,
) -> Result<bool, MetadataError> {
    let other = |bound: String, here: String| IdentityError::OtherMeta {
        root: objects.url.clone(),
        cluster: cluster.id.clone(),
        bound,
        here,
    };
    let nothing = || format!("the {kind} given here knows nothing of it");
    let (identity, bound) = match (read(meta).await?, &cluster.meta) {
        (Some(identity), Some(bound)) => (identity, bound),
        (None, Some(bound)) => return Err(other(bound.to_string(), nothing()).into()),
        (_, None) if meta.list("").await?.entries.is_empty() => {
            return Err(other("another meta store".to_owned(), nothing()).into());
        }
        (_, None) => return Ok(false),
    };
    if identity.meta != *bound || identity.cluster != cluster.id {
        let here = format!("the one given here is {} of cluster {}", identity.meta, identity.cluster);
        return Err(other(bound.to_string(), here).into());
    }
    if kind != MetaKind::Embedded && identity.root != objects.url {
        let (meta, known, root) = (identity.meta, identity.root, objects.url.clone());
        return Err(IdentityError::OtherRoot { meta, cluster: cluster.id.clone(), known, root }.into());
    }
    Ok(true)
}

/// Binds a root that names no meta store to the one in which its cluster's keys stand.
async fn bind(
    meta: &dyn MetaStore,
    kind: MetaKind,
    cluster: &Cluster,
    objects: &Objects,
    env: &Env,
) -> Result<Cluster, MetadataError> {
    let bound = match read(meta).await? {
        // A start that was cut off, or one at the same time.
        Some(identity) => Cluster { meta: Some(identity.meta), ..cluster.clone() },
        None => {
            let bound = cluster.clone().bound_to(kind, env);
            write(meta, &bound, &objects.url).await?;
            bound
        }
    };
    bound.replace(cluster, objects.store.as_ref(), &objects.root).await?;
    tracing::info!(root = objects.url, cluster = bound.id, "the root is bound to its meta store");
    Ok(bound)
}

/// The same for metadata in the root itself, before anything is written there. `held` says whether there is any.
pub(crate) fn check_embedded(cluster: &Cluster, held: bool, root: &str) -> Result<(), IdentityError> {
    let other = |bound: String, here: &str| IdentityError::OtherMeta {
        root: root.to_owned(),
        cluster: cluster.id.clone(),
        bound,
        here: here.to_owned(),
    };
    match &cluster.meta {
        Some(bound) if bound.kind != MetaKind::Embedded => {
            Err(other(bound.to_string(), "it was to be started with embedded metadata"))
        }
        Some(bound) if !held => Err(other(
            format!("{bound}, in the root's directory meta"),
            "that is gone, and with it the tables: bring it back (a bucket with versioning has it)",
        )),
        None if !held => {
            Err(other("another meta store".into(), "it was to be started with embedded metadata"))
        }
        _ => Ok(()),
    }
}
