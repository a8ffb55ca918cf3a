//! Opening the meta store of a cluster, as every process of it does: only together with the root that it belongs to
//! ([`crate::identity`]).

use std::sync::Arc;
use std::time::Duration;

use wadi_meta::embedded::{EmbeddedOptions, EmbeddedStore, Place};
use wadi_meta::etcd::{EtcdOptions, EtcdStore, EtcdTls};
use wadi_meta::{MetaError, MetaStore};
use wadi_model::env::Env;

use crate::cluster::{Cluster, ClusterError, MetaKind};
use crate::identity::{self, IdentityError};
use crate::objects::{Illness, Objects};

/// Where metadata lives.
#[derive(Clone, Debug)]
pub enum MetaConfig {
    /// In the object store itself, for one process.
    Embedded,
    /// In etcd, for clusters.
    Etcd {
        /// The servers.
        endpoints: Vec<String>,
        /// How they are known, if they are `https://`.
        tls: EtcdTls,
    },
}

/// Why metadata cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MetadataError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("the meta store cannot be used: {0}")]
    Meta(#[from] MetaError),
    #[error("the metadata in the root cannot be opened: {0}")]
    Refused(Illness),
}

/// A meta store and its cluster.
pub type Opened = (Arc<dyn MetaStore>, Cluster);

/// Opens the meta store, and the cluster; a new one gets so many shards.
pub async fn open(
    config: &MetaConfig,
    objects: &Objects,
    shards: u32,
    env: &Env,
) -> Result<Opened, MetadataError> {
    match config {
        MetaConfig::Embedded => open_embedded(objects, shards, env).await,
        MetaConfig::Etcd { endpoints, tls } => loop {
            if let Some(cluster) = Cluster::read(objects.store.as_ref(), &objects.root).await? {
                return join(endpoints, tls, cluster, objects, env).await;
            }
            identity::check_empty(objects).await?;
            let fresh = Cluster::fresh(shards, env).bound_to(MetaKind::Etcd, env);
            let meta = etcd(endpoints, tls, &fresh.id).await?;
            if let Some(cluster) = identity::found(meta.as_ref(), &fresh, objects).await? {
                return Ok((meta, cluster));
            }
        },
    }
}

/// Opens the meta store of a cluster that is there, in etcd.
pub async fn join(
    endpoints: &[String],
    tls: &EtcdTls,
    cluster: Cluster,
    objects: &Objects,
    env: &Env,
) -> Result<Opened, MetadataError> {
    let meta = etcd(endpoints, tls, &cluster.id).await?;
    let cluster = identity::check(meta.as_ref(), MetaKind::Etcd, cluster, objects, env).await?;
    Ok((meta, cluster))
}

async fn open_embedded(objects: &Objects, shards: u32, env: &Env) -> Result<Opened, MetadataError> {
    let (store, root) = (objects.store.as_ref(), &objects.root);
    match Cluster::read(store, root).await? {
        // In this order: whoever made it had metadata first.
        Some(cluster) => {
            let held = identity::holds(objects, "meta").await?;
            identity::check_embedded(&cluster, held, &objects.url)?;
        }
        None => identity::check_empty(objects).await?,
    }
    // Before the cluster is made, as it locks the directory.
    let meta = unless_refused(objects, embedded(objects)).await?;
    // One that was cut off before it had made its cluster has left no more than its name.
    let made = match Cluster::read(store, root).await? {
        None if meta.list("").await?.entries.iter().any(|entry| entry.key != identity::KEY) => {
            return Err(IdentityError::NoCluster { root: objects.url.clone(), left: "metadata" }.into());
        }
        None => {
            let fresh = Cluster::fresh(shards, env).bound_to(MetaKind::Embedded, env);
            identity::found(meta.as_ref(), &fresh, objects).await?
        }
        there => there,
    };
    let made = match made {
        Some(made) => made,
        // Another process, with another meta store, made it just now.
        None => Cluster::read(store, root)
            .await?
            .ok_or_else(|| IdentityError::NoCluster { root: objects.url.clone(), left: "metadata" })?,
    };
    let cluster = identity::check(meta.as_ref(), MetaKind::Embedded, made, objects, env).await?;
    Ok((meta, cluster))
}

/// What the object store goes on refusing for two of these is not waited for: a database would for ever, and without a word.
const LOOK: Duration = Duration::from_secs(5);

async fn unless_refused<T>(
    objects: &Objects,
    opening: impl Future<Output = Result<T, MetaError>>,
) -> Result<T, MetadataError> {
    let mut opening = std::pin::pin!(opening);
    let mut refused = false;
    loop {
        tokio::select! {
            biased;
            opened = &mut opening => return Ok(opened?),
            () = tokio::time::sleep(LOOK) => {}
        }
        let Some(illness) = objects.health.illness() else { continue };
        tracing::warn!(%illness, "the metadata in the root are not open yet");
        if illness.refused && refused {
            return Err(MetadataError::Refused(illness));
        }
        refused = illness.refused;
    }
}

/// Opens the metadata in a root. Whoever had it before ends, or keeps this one out.
pub async fn embedded(objects: &Objects) -> Result<Arc<dyn MetaStore>, MetaError> {
    let path = format!("{}/meta", objects.root);
    let place = match &objects.directory {
        Some(root) => Place::Local { root: root.clone() },
        None => Place::Remote,
    };
    let options = EmbeddedOptions::new(path.trim_start_matches('/'), place);
    Ok(Arc::new(EmbeddedStore::open(objects.store.clone(), options).await?))
}

/// Connects to the metadata of a cluster of this id in etcd.
pub async fn etcd(
    endpoints: &[String],
    tls: &EtcdTls,
    cluster: &str,
) -> Result<Arc<dyn MetaStore>, MetaError> {
    // Clusters may share etcd; their roots may have the same name in different buckets.
    let options = EtcdOptions::new(endpoints.to_vec(), format!("wadi/{cluster}/"));
    let options = EtcdOptions { tls: tls.clone(), ..options };
    Ok(Arc::new(EtcdStore::connect(options).await?))
}
