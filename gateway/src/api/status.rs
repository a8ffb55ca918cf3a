//! How the gateway is: for load balancers, for Prometheus, for people.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri, header};
use prometheus_client::encoding::text::encode;
use wadi_model::ErrorKind;

use crate::app::Gateway;
use crate::problem::Problem;

/// The process lives.
#[utoipa::path(get, path = "/health", tag = "operation", responses((status = 200, description = "Alive")))]
pub async fn health() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "status": "alive" }))
}

/// All shards can be reached from here: each is open here or at another gateway, and this one is not about to end.
#[utoipa::path(get, path = "/ready", tag = "operation",
    responses((status = 200, description = "Ready"), (status = 503, description = "Not yet")))]
pub async fn ready(State(gateway): State<Gateway>) -> Response {
    if gateway.host().is_ready() {
        return Json(serde_json::json!({ "status": "ready" })).into_response();
    }
    let status = if gateway.host().is_leaving() { "leaving" } else { "not ready" };
    let shards: Vec<_> =
        gateway.host().status().into_iter().filter(|s| !s.open && s.owner.is_none()).collect();
    let body = Json(serde_json::json!({ "status": status, "closed_shards": shards }));
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

/// Version, cluster and shards.
#[utoipa::path(get, path = "/v1/status", tag = "operation", responses((status = 200, description = "The state")))]
pub async fn status(State(gateway): State<Gateway>) -> Json<serde_json::Value> {
    let host = gateway.host();
    Json(serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cluster": host.cluster(),
        "gateway": host.gateway(),
        "gateways": host.gateways(),
        "ready": host.is_ready(),
        "unflushed_bytes": host.context().memory.used(),
        "object_store": host.context().health.illness(),
        "shards": host.status(),
    }))
}

/// Metrics in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, description = "OpenMetrics text")))]
pub async fn metrics(State(gateway): State<Gateway>) -> Response {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, gateway.registry());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Answers paths that do not exist.
pub async fn no_such_path(uri: Uri) -> Problem {
    let detail = format!("there is nothing at {}; /openapi.json lists all calls", uri.path());
    Problem::new(ErrorKind::NotFound, "path_not_found", detail)
}

/// Answers methods that a path does not have.
pub async fn no_such_method(method: Method, uri: Uri) -> Response {
    let detail = format!("{} does not take {method}; /openapi.json lists all calls", uri.path());
    Problem::new(ErrorKind::Invalid, "method_not_allowed", detail).into_response()
}
