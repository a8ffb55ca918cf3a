//! A proxy in front of an S3 server: notes every request, and answers 503 to all of them, or loses its answers, when it is
//! told to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use tokio::net::TcpListener;

/// Larger than any object of a test.
const MAX_BODY: usize = 256 << 20;

/// What S3 says when it wants to be asked less.
const SLOW_DOWN: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>SlowDown</Code>\
    <Message>Please reduce your request rate.</Message></Error>";

/// What S3 says when it does not know itself what it has done.
const INTERNAL_ERROR: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>InternalError</Code>\
    <Message>We encountered an internal error. Please try again.</Message></Error>";

/// A proxy on loopback. It ends with the test's runtime.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    url: String,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    upstream: String,
    http: reqwest::Client,
    refusing: AtomicBool,
    losing: AtomicBool,
    /// Method, path and query of each request since the last look.
    seen: Mutex<Vec<String>>,
}

impl Proxy {
    /// Stands in front of `upstream`.
    pub(crate) async fn of(upstream: &str) -> Proxy {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let inner = Arc::new(Inner {
            upstream: upstream.to_owned(),
            http,
            refusing: AtomicBool::new(false),
            losing: AtomicBool::new(false),
            seen: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass).with_state(inner.clone());
        #[allow(clippy::disallowed_methods, reason = "the proxy of a test")]
        tokio::spawn(async { axum::serve(listener, router).await });
        Proxy { url, inner }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Answers 503 to everything from now on, or nothing more.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.inner.refusing.store(refuse, Ordering::SeqCst);
    }

    /// Does from now on what it is asked and says 500 all the same, or not any more.
    pub(crate) fn lose_answers(&self, lose: bool) {
        self.inner.losing.store(lose, Ordering::SeqCst);
    }

    /// The requests since the last look.
    pub(crate) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.seen.lock().unwrap())
    }
}

async fn pass(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    inner.seen.lock().unwrap().push(format!("{} {target}", parts.method));
    let body = to_bytes(body, MAX_BODY).await.unwrap_or_default();
    if inner.refusing.load(Ordering::SeqCst) {
        return (StatusCode::SERVICE_UNAVAILABLE, SLOW_DOWN).into_response();
    }
    let request = inner.http.request(parts.method, format!("{}{target}", inner.upstream));
    let answer = async move {
        let answer = request.headers(passed_on(parts.headers)).body(body).send().await?;
        let (status, headers) = (answer.status(), passed_on(answer.headers().clone()));
        Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
    };
    // It is done even if who asked has gone meanwhile, as servers do it.
    #[allow(clippy::disallowed_methods, reason = "the proxy of a test")]
    let answer = tokio::spawn(answer).await.unwrap();
    match answer {
        Ok(_) if inner.losing.load(Ordering::SeqCst) => {
            (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR).into_response()
        }
        Ok((status, headers, body)) => {
            let mut response = Response::new(Body::from(body));
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            response
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// The headers without those that concern one connection.
pub(crate) fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}
