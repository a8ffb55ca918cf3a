//! The connection to a server: builds requests, sends them with retries, sorts answers from errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use reqwest::{Response, Url};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use wadi_model::TableName;

use crate::body::Body;
use crate::error::{ClientError, Problem};
use crate::options::ClientOptions;
use crate::retry::{Repeat, Retry};

/// Longest error answer that is read.
const MAX_PROBLEM: usize = 1 << 20;

/// A client of one server. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    base: Url,
    options: ClientOptions,
    retries: AtomicU64,
}

/// One request, before it is sent.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Body>,
    pub(crate) repeat: Repeat,
    /// How much longer than usual an attempt may take.
    pub(crate) patience: Duration,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) attempts: u32,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path, Repeat::Safe)
    }

    pub(crate) fn new(method: Method, path: impl Into<String>, repeat: Repeat) -> Call {
        Call {
            method,
            path: path.into(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: None,
            repeat,
            patience: Duration::ZERO,
        }
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl ToString) -> Call {
        self.query.push((name, value.to_string()));
        self
    }

    pub(crate) fn query_some(self, name: &'static str, value: Option<impl ToString>) -> Call {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    pub(crate) fn accept(mut self, content_type: &'static str) -> Call {
        self.headers.insert(header::ACCEPT, header::HeaderValue::from_static(content_type));
        self
    }

    pub(crate) fn body(mut self, body: Body) -> Call {
        self.body = Some(body);
        self
    }
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(ClientError::bad_answer)
    }

    /// A header that holds a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.trim().parse().ok()
    }
}

impl Client {
    /// A client of the server at `url` (`http://host:port`). Nothing is sent yet.
    ///
    /// Proxies of the environment are not used: the bodies are large and the servers are near.
    pub fn new(url: &str, options: ClientOptions) -> Result<Client, ClientError> {
        let bad = |why: String| ClientError::BadUrl { url: url.to_owned(), why };
        let base = Url::parse(url).map_err(|e| bad(e.to_string()))?;
        if base.scheme() != "http" || !base.has_host() {
            return Err(bad("only http is spoken".to_owned()));
        }
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(options.connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(&options.user_agent)
            .build()
            .map_err(|e| bad(e.to_string()))?;
        let inner = Inner { http, base, options, retries: AtomicU64::new(0) };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        self.inner.base.as_str().trim_end_matches('/')
    }

    /// How many requests this client has sent again, over all calls so far.
    pub fn retries(&self) -> u64 {
        self.inner.retries.load(Ordering::Relaxed)
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    /// Sends a call until it is answered, and reads the answer whole.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, ClientError> {
        let mut retry = Retry::new(self.options(), call.repeat);
        loop {
            let limit = self.options().attempt_timeout.saturating_add(call.patience);
            let attempt = async {
                let response = self.send(&call).await?;
                let headers = response.headers().clone();
                let body = response.bytes().await.map_err(|e| Failed::from(broken(e)))?;
                Ok(Answer { headers, body, attempts: retry.attempts() })
            };
            match timeout(limit, attempt).await.unwrap_or_else(|_| Err(timed_out(limit))) {
                Ok(answer) => return Ok(answer),
                Err(failed) => self.again(&mut retry, failed).await?,
            }
        }
    }

    /// Sends a call until it is answered, and gives the answer when it has begun.
    pub(crate) async fn open(&self, call: Call) -> Result<Response, ClientError> {
        let mut retry = Retry::new(self.options(), call.repeat);
        let limit = self.options().attempt_timeout.saturating_add(call.patience);
        loop {
            match timeout(limit, self.send(&call)).await.unwrap_or_else(|_| Err(timed_out(limit))) {
                Ok(response) => return Ok(response),
                Err(failed) => self.again(&mut retry, failed).await?,
            }
        }
    }

    /// Sends a call once.
    pub(crate) async fn once(&self, call: Call) -> Result<Answer, ClientError> {
        let limit = self.options().attempt_timeout;
        let attempt = async {
            let response = self.send(&call).await.map_err(|failed| failed.error)?;
            let headers = response.headers().clone();
            let body = response.bytes().await.map_err(broken)?;
            Ok(Answer { headers, body, attempts: 1 })
        };
        timeout(limit, attempt).await.unwrap_or_else(|_| Err(ClientError::TimedOut { after: limit }))
    }

    async fn again(&self, retry: &mut Retry<'_>, failed: Failed) -> Result<(), ClientError> {
        retry.wait(failed.error, failed.retry_after).await?;
        self.inner.retries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn send(&self, call: &Call) -> Result<Response, Failed> {
        let inner = &self.inner;
        let mut url = inner.base.clone();
        url.set_path(&format!("{}{}", inner.base.path().trim_end_matches('/'), call.path));
        let mut request = inner.http.request(call.method.clone(), url).headers(call.headers.clone());
        if !call.query.is_empty() {
            request = request.query(&call.query);
        }
        if let Some(body) = &call.body {
            request = request.header(header::CONTENT_TYPE, body.content_type);
            if let Some(encoding) = body.encoding {
                request = request.header(header::CONTENT_ENCODING, encoding);
            }
            request = request.body(body.bytes.clone());
        }
        let response = request.send().await.map_err(|e| self.not_sent(e))?;
        if response.status().is_success() { Ok(response) } else { Err(problem(response).await) }
    }

    fn not_sent(&self, error: reqwest::Error) -> ClientError {
        if error.is_connect() {
            ClientError::Unreachable { url: self.url().to_owned(), source: error }
        } else {
            broken(error)
        }
    }
}

/// A failed attempt, and how long the server asks to wait before the next.
struct Failed {
    error: ClientError,
    retry_after: Option<Duration>,
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Failed {
        Failed { error, retry_after: None }
    }
}

pub(crate) fn broken(source: reqwest::Error) -> ClientError {
    ClientError::Broken { source }
}

fn timed_out(after: Duration) -> Failed {
    ClientError::TimedOut { after }.into()
}

async fn problem(mut response: Response) -> Failed {
    let status = response.status();
    let seconds =
        response.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok());
    let mut body = Vec::new();
    // A broken connection here hides only details: the status has already been told.
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > MAX_PROBLEM {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    let error = ClientError::Problem(Box::new(Problem::read(status, &body)));
    Failed { error, retry_after: seconds.map(Duration::from_secs) }
}

/// The path of a table; its names hold nothing that must be escaped.
pub(crate) fn table_path(table: &TableName) -> String {
    format!("/v1/databases/{}/tables/{}", table.database(), table.table())
}
