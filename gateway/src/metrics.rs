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
    method: &'static str,
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
        // Anybody can make up methods, as many as they like.
        let method = match *method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        let labels = Labels { method, path: path.to_owned(), status };
        self.request_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn clients_cannot_make_more_and_more_series() {
        let mut registry = Registry::default();
        let metrics = GatewayMetrics::new(&mut registry);
        for n in 0..100 {
            let method = Method::from_bytes(format!("MADE-UP-{n}").as_bytes()).unwrap();
            metrics.answered(&method, "/health", StatusCode::METHOD_NOT_ALLOWED, Duration::ZERO);
        }
        metrics.answered(&Method::GET, "/health", StatusCode::OK, Duration::ZERO);
        let mut shown = String::new();
        encode(&mut shown, &registry).unwrap();
        let counts: Vec<&str> = shown.lines().filter(|line| line.contains("_count")).collect();
        let other =
            "wadi_gateway_request_seconds_count{method=\"other\",path=\"/health\",status=\"4xx\"} 100";
        assert!(counts.len() == 2 && counts.contains(&other), "{shown}");
    }
}
