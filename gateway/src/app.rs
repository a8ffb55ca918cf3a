//! The router, and what surrounds every call: ids, traces, error answers, panics.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::CONNECTION;
use http::{HeaderValue, Version};
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tower_http::catch_panic::CatchPanicLayer;
use wadi_meta::catalog::Catalog;
use wadi_model::ErrorKind;
use wadi_model::env::Env;
use wadi_store::context::Memory;
use wadi_store::host::Host;
use wadi_store::route::Route;
use wadi_store::secret::ClusterSecret;

use crate::api;
use crate::api::scan::Scans;
use crate::config::Limits;
use crate::drain::Rest;
use crate::everywhere;
use crate::forward::Forward;
use crate::internal;
use crate::metrics::GatewayMetrics;
use crate::problem::Problem;
use crate::reachable;
use crate::request::RequestId;
use crate::trace::{REQUEST_ID, Traced};

/// Where a table's calls are.
const TABLE: &str = "/v1/databases/{database}/tables/{table}";

/// What the calls work on. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    catalog: Catalog,
    route: Route,
    secret: ClusterSecret,
    limits: Limits,
    bodies: Memory,
    registry: Arc<Registry>,
    metrics: GatewayMetrics,
    scans: Scans,
    forward: Forward,
    /// Spreads requests without bucket key over the buckets.
    turn: AtomicU32,
}

impl Gateway {
    /// A gateway on a catalog and the way to all shards.
    pub(crate) fn new(
        catalog: Catalog,
        route: Route,
        secret: ClusterSecret,
        limits: Limits,
        registry: Arc<Registry>,
        metrics: GatewayMetrics,
    ) -> Gateway {
        let bodies = Memory::new(limits.bodies);
        let turn = AtomicU32::new(route.host().context().env.random() as u32);
        let scans = Scans::default();
        Gateway {
            inner: Arc::new(Inner {
                catalog,
                route,
                secret,
                limits,
                bodies,
                registry,
                metrics,
                scans,
                forward: Forward::default(),
                turn,
            }),
        }
    }

    /// Databases, tables and partitions.
    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    /// The shards of this process.
    pub fn host(&self) -> &Host {
        self.inner.route.host()
    }

    /// The way to all shards, wherever they are.
    pub fn route(&self) -> &Route {
        &self.inner.route
    }

    /// By which the cluster's own processes are known.
    pub fn secret(&self) -> &ClusterSecret {
        &self.inner.secret
    }

    /// Wall time and randomness.
    pub fn env(&self) -> &Env {
        &self.host().context().env
    }

    /// Limits of requests.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The budget of bodies that are received and decoded.
    pub fn bodies(&self) -> &Memory {
        &self.inner.bodies
    }

    /// Scans that are read in pages.
    pub(crate) fn scans(&self) -> &Scans {
        &self.inner.scans
    }

    /// For requests that only another gateway can answer.
    pub(crate) fn forward(&self) -> &Forward {
        &self.inner.forward
    }

    /// What is counted.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// The next turn of requests without bucket key.
    pub fn turn(&self) -> u32 {
        self.inner.turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}

/// The router of all calls.
pub fn router(gateway: Gateway) -> Router {
    let rows = Router::new()
        .route("/append", post(api::append::append))
        .route("/upsert", post(api::upsert::upsert))
        .route("/delete", post(api::upsert::delete))
        .route("/lookup", get(api::lookup::lookup_one).post(api::lookup::lookup_many))
        .route("/log", get(api::log::log))
        .route("/offsets", get(api::offsets::offsets))
        .route("/tail", get(api::tail::tail))
        .route("/scan", get(api::scan::scan))
        .route("/count", get(api::count::count));
    let catalog = Router::new()
        .route("/v1/databases", get(api::databases::list).post(api::databases::create))
        .route("/v1/databases/{database}", get(api::databases::show).delete(api::databases::drop_database))
        .route("/v1/databases/{database}/tables", get(api::tables::list).post(api::tables::create))
        .route(TABLE, get(api::tables::show).patch(api::tables::alter).delete(api::tables::drop_table))
        .route(
            &format!("{TABLE}/partitions"),
            get(api::partitions::list).post(api::partitions::create).delete(api::partitions::drop_partition),
        )
        .route_layer(middleware::from_fn_with_state(gateway.clone(), everywhere::acknowledge));
    Router::new()
        .merge(catalog)
        .nest(TABLE, rows)
        .route(everywhere::ROUTE, post(everywhere::answer))
        .route(reachable::ROUTE, post(reachable::answer))
        .nest("/internal/v1/shards/{shard}", internal::routes())
        .route("/v1/status", get(api::status::status))
        .route("/v1/drain", post(api::status::drain).delete(api::status::stay))
        .route("/health", get(api::status::health))
        .route("/ready", get(api::status::ready))
        .route("/metrics", get(api::status::metrics))
        .route("/openapi.json", get(api::openapi::document))
        .fallback(api::status::no_such_path)
        .method_not_allowed_fallback(api::status::no_such_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(gateway.clone(), surround))
        .with_state(gateway)
}

/// Gives each request its id, and each error answer the request's id.
async fn surround(State(gateway): State<Gateway>, mut request: Request, next: Next) -> Response {
    let (id, version, came) = (RequestId::of(request.headers(), &gateway), request.version(), Instant::now());
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    request.extensions_mut().insert(id.clone());
    let traced = Traced::begin(&id, &request);
    let rest = Rest::of(&mut request);
    let mut response = traced.around(next.run(request)).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        rest.drain().await;
        let headers = std::mem::take(response.headers_mut());
        response = traced.within(|| problem.respond(&id.0));
        for (name, value) in headers {
            if let Some(name) = name {
                response.headers_mut().entry(name).or_insert(value);
            }
        }
    }
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    if gateway.host().is_leaving() && version < Version::HTTP_2 {
        // The client's next request is to find another gateway, and not a connection that is just closed.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    gateway.inner.metrics.answered(&method, path, response.status(), came.elapsed());
    traced.answered(response)
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let what = panic.downcast_ref::<String>().cloned();
    let what = what.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
    tracing::error!(what, "a request panicked");
    let problem =
        Problem::new(ErrorKind::Internal, "internal", "a fault of the server; its log has the details");
    axum::response::IntoResponse::into_response(problem)
}
