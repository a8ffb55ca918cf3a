//! The store of a cluster: keys under one prefix of an etcd cluster, version 3.4 or later.
//!
//! A call is one etcd request with a bounded time (a list may be several, all at the revision of the first). Every read is
//! linearizable, and every request demands that the member which answers it sees a leader. Nothing is tried twice here,
//! but for watches, which go on by themselves: whoever made a transaction knows better what to do after `Unknown`.
//!
//! A revision is etcd's. It grows also with what others keep in the same etcd, so revisions of ours may have gaps.
//!
//! An etcd lease makes a session, see [`session`]; the events of one etcd watch make a [`Watch`], see [`watch`].

mod convert;
mod session;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Certificate, Client, ConnectOptions, GetOptions, Identity, KvClient, TlsOptions};
use tokio::time::Instant;

use crate::session::validate_ttl;
use crate::txn::validate_key;
use crate::{
    KeyValue, Listing, MetaError, MetaErrorKind, MetaStore, Revision, Session, Txn, TxnOutcome, Watch,
};
use convert::Keys;

/// Keys per request of a list: with the largest values, an answer stays under [`MAX_MESSAGE`].
const PAGE: i64 = 128;
/// Largest answer that is accepted: what a transaction of the most compares may answer, and a page of a list.
const MAX_MESSAGE: usize = 160 << 20;
/// How often a connection with open calls is checked, and how long the answer may take. etcd hangs up on whoever checks
/// more often than every 5 s.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// Where the etcd cluster is, and which part of it is ours.
#[derive(Clone)]
pub struct EtcdOptions {
    /// URLs of the members, all `http://` or all `https://`: `https://10.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// What all keys start with; a `/` is put at its end.
    pub prefix: String,
    /// Name and password, if etcd asks for them.
    pub user: Option<(String, String)>,
    /// How members with `https://` are known.
    pub tls: EtcdTls,
    /// The longest that a request may take.
    pub timeout: Duration,
}

/// Who is trusted over TLS, and who we are. All in PEM.
#[derive(Clone, Default)]
pub struct EtcdTls {
    /// Certificates of those who sign the members' certificates; the system's if none.
    pub ca: Option<Vec<u8>>,
    /// Our certificate and its key, if etcd asks for them.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl EtcdOptions {
    /// Without a user, with the system's certificates, and with a request timeout of 5 s.
    pub fn new(endpoints: Vec<String>, prefix: impl Into<String>) -> Self {
        let (user, tls, timeout) = (None, EtcdTls::default(), Duration::from_secs(5));
        Self { endpoints, prefix: prefix.into(), user, tls, timeout }
    }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password is not for logs.
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// A [`MetaStore`] on etcd.
pub struct EtcdStore {
    etcd: Arc<Etcd>,
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("keys", &self.etcd.keys).finish_non_exhaustive()
    }
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is not for logs.
        let (ca, identity) = (self.ca.is_some(), self.identity.is_some());
        f.debug_struct("EtcdTls").field("ca", &ca).field("identity", &identity).finish()
    }
}

impl EtcdTls {
    fn config(&self) -> TlsOptions {
        let config = match &self.ca {
            Some(ca) => TlsOptions::new().ca_certificate(Certificate::from_pem(ca)),
            None => TlsOptions::new().with_native_roots(),
        };
        match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}

impl EtcdStore {
    /// Connects, and asks for one key to see that the cluster answers.
    ///
    /// # Errors
    ///
    /// `Invalid` if an option is wrong or access is denied; `Unavailable` if no member answers in time.
    pub async fn connect(options: EtcdOptions) -> Result<Self, MetaError> {
        let keys = Keys::new(&options.prefix)?;
        let mut connect = ConnectOptions::new()
            .with_require_leader(true)
            .with_connect_timeout(options.timeout)
            .with_keep_alive(PING.0, PING.1)
            .with_tcp_keepalive(PING.0);
        if let Some((name, password)) = &options.user {
            connect = connect.with_user(name, password).with_auto_token_refresh(true);
        }
        if options.endpoints.iter().any(|e| e.starts_with("https://")) {
            connect = connect.with_tls(options.tls.config());
        }
        let unreachable = |e: MetaError| {
            MetaError::new(e.kind(), format!("connecting to etcd at {}", options.endpoints.join(", ")))
                .with_source(e)
        };
        let client = within(options.timeout, Client::connect(&options.endpoints, Some(connect)))
            .await
            .map_err(unreachable)?;
        let etcd = Arc::new(Etcd { client, keys, timeout: options.timeout });
        let store = Self { etcd };
        store.get("-").await.map_err(unreachable)?;
        Ok(store)
    }
}

#[async_trait]
impl MetaStore for EtcdStore {
    async fn get(&self, key: &str) -> Result<Option<KeyValue>, MetaError> {
        validate_key(key)?;
        let mut kv = self.etcd.kv();
        let answer = within(self.etcd.timeout, kv.get(self.etcd.keys.outer(key), None)).await?;
        answer.kvs().first().map(|kv| self.etcd.keys.key_value(kv)).transpose()
    }

    async fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
        self.etcd.list(prefix).await
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, MetaError> {
        txn.validate()?;
        let request = self.etcd.keys.txn(&txn);
        let mut kv = self.etcd.kv();
        let answer = match tokio::time::timeout(self.etcd.timeout, kv.txn(request)).await {
            Ok(answer) => answer.map_err(convert::txn_error)?,
            Err(_) => return Err(MetaError::unknown("etcd did not answer a transaction in time")),
        };
        self.etcd.keys.outcome(&answer)
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError> {
        Ok(watch::start(Arc::clone(&self.etcd), prefix, after))
    }

    async fn session(&self, ttl: Duration) -> Result<Arc<dyn Session>, MetaError> {
        validate_ttl(ttl)?;
        Ok(session::start(&self.etcd, ttl).await?)
    }

    async fn close(&self) -> Result<(), MetaError> {
        Ok(())
    }
}

/// What the store, its watches and its sessions share.
struct Etcd {
    client: Client,
    keys: Keys,
    timeout: Duration,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Etcd {
    fn kv(&self) -> KvClient {
        self.client.kv_client().max_decoding_message_size(MAX_MESSAGE)
    }

    async fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
        let end = convert::prefix_end(&self.keys.outer(prefix));
        let mut from = self.keys.outer(prefix);
        let mut entries = Vec::new();
        let mut revision = None;
        loop {
            let mut options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
            if let Some(revision) = revision {
                options = options.with_revision(revision);
            }
            let answer = within(self.timeout, self.kv().get(from, Some(options))).await?;
            let at = *revision.get_or_insert(convert::revision(answer.header())?);
            for kv in answer.kvs() {
                entries.push(self.keys.key_value(kv)?);
            }
            match answer.kvs().last() {
                Some(last) if answer.more() => from = [last.key(), b"\0"].concat(),
                _ => {
                    return Ok(Listing { entries, revision: Revision(at.unsigned_abs()) });
                }
            }
        }
    }
}

/// Waits for a request that changes nothing, or may be done twice.
async fn within<T>(
    timeout: Duration,
    request: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, MetaError> {
    let start = Instant::now();
    match tokio::time::timeout(timeout, request).await {
        Ok(answer) => answer.map_err(convert::error),
        Err(_) => Err(MetaError::new(
            MetaErrorKind::Unavailable,
            format!("etcd did not answer within {:?}", start.elapsed()),
        )),
    }
}
