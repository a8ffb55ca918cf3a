//! Owners in other processes, asked through their gateways' internal API.
//!
//! Who owns a shard stands in the meta store; so does the secret by which a gateway knows the cluster's own processes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wadi_meta::MetaStore;
use wadi_meta::catalog::Dropped;
use wadi_model::{LogSeq, ShardId};
use wadi_store::host::{Owner, owner_key};
use wadi_store::owners::Owners;
use wadi_store::secret::ClusterSecret;
use wadi_store::shard::{Deletable, PackError, Round};
use wadi_store::stored::PackName;
use wadi_store::trace;
use wadi_store::versions::{INTERNAL, INTERNAL_HEADER};

/// How long an owner may take to answer. A commit reads the packs' footers, and is one PUT.
const PATIENCE: Duration = Duration::from_secs(60);

/// The owners that the meta store names.
#[derive(Debug)]
pub struct RemoteOwners {
    meta: Arc<dyn MetaStore>,
    secret: ClusterSecret,
    http: reqwest::Client,
}

/// What is read of an error answer.
#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
}

impl RemoteOwners {
    /// The owners of a cluster.
    pub fn new(meta: Arc<dyn MetaStore>, secret: ClusterSecret) -> RemoteOwners {
        // Gateways are in the cluster's own network. What can fail there is TLS, which is not used.
        let http = reqwest::Client::builder().no_proxy().build().unwrap_or_default();
        RemoteOwners { meta, secret, http }
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        shard: ShardId,
        what: &str,
        body: &impl Serialize,
    ) -> Result<A, PackError> {
        let found = self.meta.get(&owner_key(shard)).await;
        let found = found.map_err(|e| PackError::Unavailable(e.to_string()))?.ok_or(PackError::NotOwned)?;
        let owner: Owner = serde_json::from_slice(&found.value)
            .map_err(|e| PackError::Internal(format!("who owns shard {shard} cannot be read: {e}")))?;
        let url = format!("{}/internal/v1/shards/{shard}/{what}", owner.address);
        let unreachable =
            |e: reqwest::Error| PackError::Unavailable(format!("gateway {}: {e}", owner.address));
        let mut headers = HeaderMap::new();
        trace::pass(&mut headers, None);
        let call = self
            .http
            .post(&url)
            .headers(headers)
            .header(AUTHORIZATION, self.secret.bearer())
            .header(INTERNAL_HEADER, INTERNAL)
            .timeout(PATIENCE);
        let answer = call.json(body).send().await.map_err(unreachable)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(unreachable)?;
        if status.is_success() {
            let wrong = |e| PackError::Internal(format!("{url} answered something else: {e}"));
            return serde_json::from_slice(&body).map_err(wrong);
        }
        Err(match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => PackError::of_code(&problem.code, problem.detail),
            Err(_) => PackError::Unavailable(format!("{url} answered {status}")),
        })
    }
}

#[async_trait]
impl Owners for RemoteOwners {
    async fn next_round(&self, shard: ShardId) -> Result<Option<Round>, PackError> {
        self.ask(shard, "next-round", &()).await
    }

    async fn commit_packs(
        &self,
        shard: ShardId,
        round: Round,
        packs: Vec<PackName>,
    ) -> Result<(), PackError> {
        self.ask(shard, "commit-packs", &(round, packs)).await
    }

    async fn trim(&self, shard: ShardId) -> Result<usize, PackError> {
        self.ask(shard, "trim", &()).await
    }

    async fn deletable(&self, shard: ShardId, after: LogSeq) -> Result<Deletable, PackError> {
        self.ask(shard, "deletable", &after).await
    }

    async fn note_deleted(&self, shard: ShardId, gone: Deletable) -> Result<(), PackError> {
        self.ask(shard, "note-deleted", &gone).await
    }

    async fn known_packs(&self, shard: ShardId, packs: Vec<PackName>) -> Result<Vec<PackName>, PackError> {
        self.ask(shard, "known-packs", &packs).await
    }

    async fn unpacked_bytes(&self, shard: ShardId) -> Result<u64, PackError> {
        self.ask(shard, "unpacked-bytes", &()).await
    }

    async fn remains(&self, shard: ShardId, dropped: Vec<Dropped>) -> Result<Vec<Dropped>, PackError> {
        self.ask(shard, "remains", &dropped).await
    }
}
