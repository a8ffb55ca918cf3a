//! Metrics to an OTLP receiver: what `/metrics` shows, read now and then and sent as it is, cumulative.
//!
//! There is one set of counters, the registry of `prometheus-client`; the SDK's own instruments are not used. The names are the same
//! here and there, but for counters' `_total`, which receivers add themselves.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource;
use opentelemetry_sdk::Resource;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::Channel;
use tonic::{Request, Status};
use wadi_model::env::Env;

use super::openmetrics::{self, Family, Kind, Labels};
use super::report::Report;

#[cfg(test)]
mod tests;

/// Between two looks at the registry, unless `OTEL_METRIC_EXPORT_INTERVAL` says another one.
const INTERVAL: Duration = Duration::from_secs(60);

/// The least of it: a variable of 0 must not keep a core busy.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// Why metrics cannot be sent at all.
#[derive(Debug, thiserror::Error)]
#[error("OTEL_EXPORTER_OTLP_HEADERS is no list of headers, as in name=value,name=value")]
pub(super) struct BadHeaders;

/// Sends metrics to a receiver.
#[derive(Debug)]
pub(super) struct Sender {
    client: MetricsServiceClient<Channel>,
    headers: MetadataMap,
    resource: resource::v1::Resource,
    report: Report,
    env: Env,
    /// When the counters were at zero, in nanoseconds since 1970.
    began: u64,
}

/// Sends metrics for as long as the process lives.
pub(super) async fn send_now_and_then(sender: Arc<Sender>, registry: Arc<Registry>) {
    let given = std::env::var("OTEL_METRIC_EXPORT_INTERVAL").ok().and_then(|millis| millis.parse().ok());
    let interval = given.map_or(INTERVAL, Duration::from_millis).max(LEAST_INTERVAL);
    loop {
        tokio::time::sleep(interval).await;
        sender.send(&registry).await;
    }
}

impl Sender {
    pub(super) fn new(channel: Channel, resource: &Resource, report: Report) -> Result<Sender, BadHeaders> {
        let headers = std::env::var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let attributes = resource.iter().map(|(name, value)| text(name.as_str(), value.to_string()));
        let resource = resource::v1::Resource { attributes: attributes.collect(), ..Default::default() };
        let env = Env::default();
        let (client, began) = (MetricsServiceClient::new(channel), nanos(&env));
        Ok(Sender { client, headers: headers_of(&headers)?, resource, report, env, began })
    }

    /// Sends the metrics as they are now.
    pub(super) async fn send(&self, registry: &Registry) {
        let mut shown = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut shown, registry);
        let times = Times { began: self.began, now: nanos(&self.env) };
        let metrics: Vec<Metric> =
            openmetrics::read(&shown).into_iter().map(|family| metric(family, times)).collect();
        let count = metrics.len();
        let scope = InstrumentationScope { name: "wadi".to_owned(), ..Default::default() };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..Default::default() }];
        let resource = Some(self.resource.clone());
        let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..Default::default() }];
        let mut request = Request::new(ExportMetricsServiceRequest { resource_metrics });
        *request.metadata_mut() = self.headers.clone();
        let answer = self.client.clone().export(request).await;
        let refused = |answer: tonic::Response<_>| match answer.into_inner() {
            opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse {
                partial_success: Some(partial),
            } if partial.rejected_data_points > 0 => Err(Status::invalid_argument(partial.error_message)),
            _ => Ok(()),
        };
        self.report.note(&answer.and_then(refused).map_err(|status| told(&status)), count);
    }
}

/// What went wrong, with its causes.
fn told(status: &Status) -> String {
    let mut told = format!("{:?}: {}", status.code(), status.message());
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}

fn nanos(env: &Env) -> u64 {
    u64::try_from(env.now_millis()).unwrap_or_default().saturating_mul(1_000_000)
}

/// Headers as the standard variable has them: `name=value,name=value`, the values percent-encoded.
fn headers_of(list: &str) -> Result<MetadataMap, BadHeaders> {
    let mut headers = MetadataMap::new();
    for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(BadHeaders)?;
        let name = AsciiMetadataKey::from_str(&name.trim().to_ascii_lowercase()).map_err(|_| BadHeaders)?;
        let mut value = AsciiMetadataValue::from_str(&plain(value.trim())?).map_err(|_| BadHeaders)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn plain(encoded: &str) -> Result<String, BadHeaders> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                let digit = |b: &u8| char::from(*b).to_digit(16).ok_or(BadHeaders);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = behind;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).map_err(|_| BadHeaders)
}

fn text(key: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: key.to_owned(), value, ..Default::default() }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| text(name, value.clone())).collect()
}

/// Since when counters count, and when they were read; in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Times {
    began: u64,
    now: u64,
}

fn metric(family: Family, times: Times) -> Metric {
    let Family { name, help: description, unit, kind, samples } = family;
    let temporality = AggregationTemporality::Cumulative as i32;
    let data = match kind {
        Kind::Histogram => {
            let points = openmetrics::histograms(samples).into_iter();
            let data_points = points.map(|(labels, histogram)| histogram_point(&labels, histogram, times));
            metric::Data::Histogram(Histogram {
                data_points: data_points.collect(),
                aggregation_temporality: temporality,
            })
        }
        Kind::Counter | Kind::Gauge => {
            let counted: BTreeMap<Labels, f64> =
                samples.into_iter().map(|sample| (sample.labels, sample.value)).collect();
            let point = |(labels, value): (&Labels, &f64)| number_point(labels, *value, kind, times);
            let data_points = counted.iter().map(point).collect();
            match kind {
                Kind::Counter => metric::Data::Sum(Sum {
                    data_points,
                    aggregation_temporality: temporality,
                    is_monotonic: true,
                }),
                _ => metric::Data::Gauge(Gauge { data_points }),
            }
        }
    };
    let unit = match unit.as_str() {
        "seconds" => "s".to_owned(),
        "bytes" => "By".to_owned(),
        _ => unit,
    };
    Metric { name, description, unit, data: Some(data), ..Default::default() }
}

fn number_point(labels: &Labels, value: f64, kind: Kind, times: Times) -> NumberDataPoint {
    // Whole numbers up to 2^53 are exact in both.
    let value = match value.fract() == 0.0 && value.abs() < 9e15 {
        true => number_data_point::Value::AsInt(value as i64),
        false => number_data_point::Value::AsDouble(value),
    };
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: if kind == Kind::Counter { times.began } else { 0 },
        time_unix_nano: times.now,
        value: Some(value),
        ..Default::default()
    }
}

fn histogram_point(labels: &Labels, histogram: openmetrics::Histogram, times: Times) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.began,
        time_unix_nano: times.now,
        count: histogram.count,
        sum: Some(histogram.sum),
        bucket_counts: histogram.counts,
        explicit_bounds: histogram.bounds,
        ..Default::default()
    }
}
