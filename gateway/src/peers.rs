//! Other gateways over HTTP/2, on connections that are kept.

use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use wadi_model::ShardId;
use wadi_store::route::{Call, Peers, Unanswered};
use wadi_store::secret::ClusterSecret;
use wadi_store::versions::{INTERNAL, INTERNAL_HEADER};

use crate::trace;

/// How long a connection may take to be made. A process that is gone refuses at once; one that cannot be reached says nothing.
const CONNECT: Duration = Duration::from_secs(2);

/// A connection on which nothing comes for so long is asked whether it lives, and given up if it does not say so.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// What may be on its way on one stream and on one connection before the receiver has taken it: a part of the largest size.
const WINDOW: u32 = 32 << 20;

/// The other gateways of a cluster.
#[derive(Debug)]
pub(crate) struct HttpPeers {
    secret: ClusterSecret,
    http: reqwest::Client,
}

impl HttpPeers {
    /// Those that know the cluster's secret.
    ///
    /// # Errors
    ///
    /// If HTTP cannot be spoken at all.
    pub(crate) fn new(secret: ClusterSecret) -> Result<HttpPeers, reqwest::Error> {
        let http = reqwest::Client::builder()
            // They are in the cluster's own network, whatever leads out of it.
            .no_proxy()
            .http2_prior_knowledge()
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(2 * WINDOW)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE)
            .connect_timeout(CONNECT)
            .build()?;
        Ok(HttpPeers { secret, http })
    }
}

#[async_trait]
impl Peers for HttpPeers {
    async fn ask(
        &self,
        address: &str,
        shard: ShardId,
        call: Call,
        message: Vec<Bytes>,
        patience: Duration,
    ) -> Result<Bytes, Unanswered> {
        let url = format!("{address}/internal/v1/shards/{shard}/{}", call.name());
        let length: usize = message.iter().map(Bytes::len).sum();
        let body = reqwest::Body::wrap_stream(stream::iter(message.into_iter().map(Ok::<_, Infallible>)));
        let asked = self.http.post(&url).headers(trace::passed()).header(AUTHORIZATION, self.secret.bearer());
        let asked = asked.header(INTERNAL_HEADER, INTERNAL);
        let asked = asked.header(CONTENT_LENGTH, length).timeout(patience).body(body).send();
        let unsent = |e: reqwest::Error| Unanswered { unsent: e.is_connect(), why: told(&e) };
        let answer = asked.await.map_err(unsent)?;
        let status = answer.status();
        let unanswered = |e: reqwest::Error| Unanswered { unsent: false, why: told(&e) };
        let bytes = answer.bytes().await.map_err(unanswered)?;
        if status.is_success() {
            return Ok(bytes);
        }
        // It was refused before anything was done: another secret, or another version.
        let unsent = status.is_client_error();
        Err(Unanswered { unsent, why: format!("{address} answered {status}: {}", said(&bytes)) })
    }
}

/// What an answer that refuses says, in words if it has some.
fn said(answer: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Problem {
        detail: String,
    }
    let cut = &answer[..answer.len().min(300)];
    let words = serde_json::from_slice::<Problem>(answer).map(|problem| problem.detail);
    words.unwrap_or_else(|_| String::from_utf8_lossy(cut).into_owned())
}

/// An error with its causes, which say what has happened.
fn told(error: &reqwest::Error) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}
