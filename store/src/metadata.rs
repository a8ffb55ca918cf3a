//! Opening the meta store of a cluster, as every process of it does.

use std::sync::Arc;

use wadi_meta::embedded::{EmbeddedOptions, EmbeddedStore, Place};
use wadi_meta::etcd::{EtcdOptions, EtcdStore, EtcdTls};
use wadi_meta::{MetaError, MetaStore};
use wadi_model::env::Env;

use crate::cluster::{Cluster, ClusterError};
use crate::objects::Objects;

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
    #[error("the meta store cannot be used: {0}")]
    Meta(#[from] MetaError),
}

/// Opens the meta store, and the cluster; a new one gets so many shards.
pub async fn open(
    config: &MetaConfig,
    objects: &Objects,
    shards: u32,
    env: &Env,
) -> Result<(Arc<dyn MetaStore>, Cluster), MetadataError> {
    let cluster = Cluster::open(objects.store.as_ref(), &objects.root, shards, env);
    match config {
        MetaConfig::Etcd { endpoints, tls } => {
            let cluster = cluster.await?;
            Ok((etcd(endpoints, tls, &cluster).await?, cluster))
        }
        MetaConfig::Embedded => {
            let path = format!("{}/meta", objects.root);
            let place = match &objects.directory {
                Some(root) => Place::Local { root: root.clone() },
                None => Place::Remote,
            };
            let options = EmbeddedOptions::new(path.trim_start_matches('/'), place);
            // First, as it locks the directory.
            let meta = EmbeddedStore::open(objects.store.clone(), options).await?;
            Ok((Arc::new(meta), cluster.await?))
        }
    }
}

/// Connects to the metadata of a cluster in etcd.
pub async fn etcd(
    endpoints: &[String],
    tls: &EtcdTls,
    cluster: &Cluster,
) -> Result<Arc<dyn MetaStore>, MetaError> {
    // Clusters may share etcd; their roots may have the same name in different buckets.
    let options = EtcdOptions::new(endpoints.to_vec(), format!("wadi/{}/", cluster.id));
    let options = EtcdOptions { tls: tls.clone(), ..options };
    Ok(Arc::new(EtcdStore::connect(options).await?))
}
