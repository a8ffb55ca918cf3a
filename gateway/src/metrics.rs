//! What a gateway counts of its requests.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Which requests, and how they were answered. Paths are those of the API, without anybody's names in them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    method: String,
    path: String,
    status: &'static str,
}

/// Measures of all requests of a gateway. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct GatewayMetrics {
    request_seconds: Family<Labels, Histogram, fn() -> Histogram>,
}

impl GatewayMetrics {
    /// Metrics that are shown in `registry` under `wadi_gateway_…`.
    pub(crate) fn new(registry: &mut Registry) -> GatewayMetrics {
        let latency: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 14));
        let request_seconds = Family::new_with_constructor(latency);
        let about = "From a request's head to the head of its answer";
        let gateway = registry.sub_registry_with_prefix("wadi_gateway");
        gateway.register_with_unit("request", about, Unit::Seconds, request_seconds.clone());
        GatewayMetrics { request_seconds }
    }

    /// Counts a request that was answered. `path` is that of the API that it met, if it met one.
    pub(crate) fn answered(&self, method: &Method, path: &str, status: StatusCode, took: Duration) {
        let status = match status.as_u16() {
            429 => "429",
            500.. => "5xx",
            400.. => "4xx",
            300.. => "3xx",
            _ => "2xx",
        };
        // Anybody can write anything there.
        let method = if path.is_empty() { "" } else { method.as_str() };
        let labels = Labels { method: method.to_owned(), path: path.to_owned(), status };
        self.request_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
