//! How the gateway is: for load balancers, for Prometheus, for people.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri, header};
use prometheus_client::encoding::text::encode;
use serde::Serialize;
use wadi_model::ErrorKind;

use crate::app::Gateway;
use crate::problem::Problem;
use crate::request::Parameters;

/// The process lives.
#[utoipa::path(get, path = "/health", tag = "operation", responses((status = 200, description = "Alive")))]
pub async fn health() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "status": "alive" }))
}

/// All shards can be reached from here: each is open here or at another gateway. This one is not about to end, and is not the one
/// that cannot write while others can.
#[utoipa::path(get, path = "/ready", tag = "operation",
    responses((status = 200, description = "Ready"), (status = 503, description = "Not yet")))]
pub async fn ready(State(gateway): State<Gateway>) -> Response {
    if gateway.host().is_ready() {
        return Json(serde_json::json!({ "status": "ready" })).into_response();
    }
    let unwell = gateway.host().unwell();
    let status = match (gateway.host().is_leaving(), &unwell) {
        (true, _) => "leaving",
        (false, Some(_)) => "unwell",
        (false, None) => "not ready",
    };
    let shards: Vec<_> =
        gateway.host().status().into_iter().filter(|s| !s.open && s.owner.is_none()).collect();
    let body = Json(serde_json::json!({ "status": status, "unwell": unwell, "closed_shards": shards }));
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

/// What became of the shards of a gateway that is to be drained.
#[derive(Debug, Serialize)]
pub struct Drained {
    /// Shards that no other gateway has: nobody is there to take them, or time was too short.
    shards: usize,
}

/// Gives the shards of this gateway to the others, as before its end. It answers as before, and `/ready` says that it leaves.
#[utoipa::path(post, path = "/v1/drain", tag = "operation",
    params(("wait_ms" = Option<u64>, Query, description = "Wait so long until the shards are given; default 10,000")),
    responses((status = 200, description = "{shards}: how many no other gateway has")))]
pub async fn drain(
    State(gateway): State<Gateway>,
    mut parameters: Parameters,
) -> Result<Json<Drained>, Problem> {
    let wait = parameters.number("wait_ms", 10_000, gateway.limits().wait.as_millis() as u64)?;
    parameters.finish()?;
    let shards = gateway.host().leave(Duration::from_millis(wait)).await;
    Ok(Json(Drained { shards }))
}

/// Takes a drain back: the gateway gets shards again.
#[utoipa::path(delete, path = "/v1/drain", tag = "operation", responses((status = 204, description = "It stays")))]
pub async fn stay(State(gateway): State<Gateway>) -> StatusCode {
    gateway.host().stay();
    StatusCode::NO_CONTENT
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
