//! What surrounds a request so that it is found again: its id and its trace, in its log lines, its spans, and in what it asks others.
//!
//! A request has two spans. The one for the log is always there, so that each line says the request's id, and its trace's id if it
//! has one. The one for traces ([`wadi_store::trace`]) is there while somebody takes traces. Work that goes on in another task
//! takes both along ([`carry`]), and so does an answer that is read bit by bit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::{Frame, SizeHint};
use opentelemetry::trace::SpanContext;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};
use wadi_store::trace::{self, TARGET};

use crate::request::RequestId;

#[cfg(test)]
mod tests;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where the calls of the cluster's own processes are.
const INTERNAL: &str = "/internal/";

/// Those that are asked all the time, about the process and not about data.
const UNTRACED: [&str; 4] = ["/health", "/ready", "/metrics", "/openapi.json"];

/// Paths with longer names than there can be are cut.
const MAX_PATH: usize = 512;

tokio::task_local! {
    /// The request that the task is about.
    static REQUEST: Arc<About>;
}

/// What is known of a request wherever it is worked on.
#[derive(Debug)]
struct About {
    id: Option<HeaderValue>,
    came: Option<SpanContext>,
    log: Span,
}

/// A request that is being answered.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    about: Arc<About>,
    span: Span,
}

impl Traced {
    /// Begins the request's spans.
    pub(crate) fn begin(RequestId(id): &RequestId, request: &Request) -> Traced {
        let came = trace::came(request.headers());
        let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        // The names in a path that is known are those of databases and tables. What stands in another one nobody knows.
        let path = if route.is_empty() { "" } else { request.uri().path() };
        let path = &path[..path.floor_char_boundary(MAX_PATH)];
        let log = tracing::info_span!("request", request_id = id, method = %request.method(), path, trace_id = Empty);
        // What gateways ask by themselves, as followers do, begins no trace.
        let untraced = UNTRACED.contains(&route) || route.starts_with(INTERNAL) && came.is_none();
        let span =
            if untraced { Span::none() } else { log.in_scope(|| server_span(id, request, route, path)) };
        if let Some(trace_id) = trace::begin(&span, came.as_ref()) {
            log.record("trace_id", display(trace_id));
        }
        Traced { about: Arc::new(About { id: HeaderValue::from_str(id).ok(), came, log }), span }
    }

    /// Does a part of the request's work.
    pub(crate) async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        let work = work.instrument(self.span.clone()).instrument(self.about.log.clone());
        REQUEST.scope(self.about.clone(), work).await
    }

    /// Does a step of the request's work.
    pub(crate) fn within<T>(&self, step: impl FnOnce() -> T) -> T {
        REQUEST.sync_scope(self.about.clone(), || self.about.log.in_scope(|| self.span.in_scope(step)))
    }

    /// Notes the answer. The trace goes on for as long as its body does.
    pub(crate) fn answered(self, response: Response) -> Response {
        let status = response.status();
        if !self.span.is_disabled() {
            self.span.record("http.response.status_code", i64::from(status.as_u16()));
            if status.is_server_error() {
                self.span.record("otel.status_code", "ERROR");
            }
        }
        let whole = response.body().is_end_stream() || response.body().size_hint().exact().is_some();
        if whole {
            return response;
        }
        response.map(|body| Body::new(TracedBody { body, traced: self }))
    }
}

fn server_span(id: &str, request: &Request, route: &str, path: &str) -> Span {
    let method = request.method().as_str();
    let span = tracing::debug_span!(
        target: TARGET, "request", otel.name = Empty, otel.kind = "server", request_id = id, http.request.method = method,
        http.route = route, url.path = path, http.response.status_code = Empty, otel.status_code = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", display(format_args!("{method} {route}")));
    }
    span
}

/// An answer that is made while it is sent.
struct TracedBody {
    body: Body,
    traced: Traced,
}

impl HttpBody for TracedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let TracedBody { body, traced } = self.get_mut();
        traced.within(|| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Work of the current request that goes on in a task of its own.
pub(crate) fn carry<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let about = REQUEST.try_with(Arc::clone).ok();
    let work = work.in_current_span();
    async move {
        match about {
            Some(about) => REQUEST.scope(about.clone(), work.instrument(about.log.clone())).await,
            None => work.await,
        }
    }
}

/// What another gateway is told of the current request: its id, and where it is in its trace.
pub(crate) fn passed() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let about = REQUEST.try_with(Arc::clone).ok();
    trace::pass(&mut headers, about.as_ref().and_then(|about| about.came.as_ref()));
    if let Some(id) = about.and_then(|about| about.id.clone()) {
        headers.insert(REQUEST_ID, id);
    }
    headers
}
