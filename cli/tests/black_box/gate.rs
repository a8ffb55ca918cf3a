//! A proxy that a test looks through: each request is shown to a function, which lets it pass, changes its head, or answers it.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};
use tokio::net::TcpListener;

use crate::proxy::passed_on;

/// Larger than any body of a test.
const MAX_BODY: usize = 256 << 20;

/// Says what becomes of a request: `None` lets it pass.
type Keeper = dyn Fn(&mut Parts) -> Option<Response> + Send + Sync;

struct Inner {
    upstream: Arc<OnceLock<String>>,
    http: reqwest::Client,
    keeper: Box<Keeper>,
}

/// Opens a gate in front of `upstream`. Gives its URL; it ends with the test's runtime.
pub(crate) async fn gate(
    upstream: &str,
    keeper: impl Fn(&mut Parts) -> Option<Response> + Send + Sync + 'static,
) -> String {
    gate_to(Arc::new(OnceLock::from(upstream.to_owned())), keeper).await
}

/// The same in front of a server that is not there yet.
pub(crate) async fn gate_to(
    upstream: Arc<OnceLock<String>>,
    keeper: impl Fn(&mut Parts) -> Option<Response> + Send + Sync + 'static,
) -> String {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let inner = Inner { upstream, http, keeper: Box::new(keeper) };
    serve(Router::new().fallback(pass).with_state(Arc::new(inner))).await
}

/// Serves on a port of its own, until the test's runtime ends.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "a server of a test")]
    tokio::spawn(async { axum::serve(listener, router).await });
    url
}

/// An error answer of S3.
pub(crate) fn s3_error(status: StatusCode, code: &str, more: &str) -> Response {
    let document = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>said by the gate</Message>{more}</Error>"
    );
    (status, [(header::CONTENT_TYPE, "application/xml")], document).into_response()
}

async fn pass(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await.unwrap_or_default();
    if let Some(answer) = (inner.keeper)(&mut parts) {
        return answer;
    }
    let target = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    let upstream = inner.upstream.get().map_or("", String::as_str);
    let request = inner.http.request(parts.method, format!("{upstream}{target}"));
    let answer = async {
        let answer = request.headers(passed_on(parts.headers)).body(body).send().await?;
        let (status, headers) = (answer.status(), passed_on(answer.headers().clone()));
        Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
    };
    match answer.await {
        Ok((status, headers, body)) => {
            let mut response = Response::new(Body::from(body));
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            response
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
