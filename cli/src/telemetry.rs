//! What a server process tells of itself: its log on stderr and, if a receiver is named, traces, metrics and the log to it over
//! OTLP (gRPC).
//!
//! * Spans and log lines wait in the SDK's bounded queues and are sent by its threads; when a queue is full they are dropped. Metrics are read
//!   from the registry that `/metrics` shows, now and then ([`metrics`]). So a receiver that is slow or away costs nobody anything; the log
//!   says so once in a while ([`report`]).
//! * Without a receiver there is the log alone, and spans of traces ([`wadi_store::trace`]) cost a branch each.
//! * What the SDK's standard variables `OTEL_…` say is taken where the configuration says nothing (docs/observing.md).

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use prometheus_client::registry::Registry;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use wadi_model::env::Env;
use wadi_store::task::Owned;
use wadi_store::trace::TARGET;

use crate::config::{LogFormat, ServerConfig, ServerKind};
use crate::failure::Failure;
use crate::task::blocking;
use metrics::Sender;
use report::{Report, Reported};

mod metrics;
mod openmetrics;
mod report;

/// How long one message to the receiver may take.
const SENDING: Duration = Duration::from_secs(10);

/// How long the end of the process waits for the receiver: for spans and metrics, and then for the last lines of the log.
const LAST: Duration = Duration::from_secs(3);

/// What the SDK's exporters take their address from.
const STANDARD_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The log, and the export if there is one.
pub(crate) struct Telemetry {
    export: Option<Export>,
}

struct Export {
    traces: SdkTracerProvider,
    lines: SdkLoggerProvider,
    sender: Arc<Sender>,
    /// Sends metrics now and then, once there are some.
    metrics: Option<(Arc<Registry>, Owned)>,
}

/// Starts logging, and exporting, as configured. Called once, before the server starts.
pub(crate) fn start(kind: ServerKind, config: &ServerConfig) -> Result<Telemetry, Failure> {
    let filter = |more: &str| {
        let filter = EnvFilter::try_new(format!("{}{more}", config.log_level));
        filter.map_err(|e| Failure::usage(format!("log_level \"{}\" cannot be read: {e}", config.log_level)))
    };
    let failed = |e| Failure::new(format!("logging cannot be started: {e}"));
    let Some(endpoint) = endpoint(config) else {
        let builder = tracing_subscriber::fmt().with_env_filter(filter("")?).with_writer(std::io::stderr);
        let started = match config.log_format {
            LogFormat::Text => builder.try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
        started.map_err(|e| Failure::new(format!("logging cannot be started: {e}")))?;
        return Ok(Telemetry { export: None });
    };
    // The SDK would tell of every message that was not taken; `report` says what there is to say.
    let quiet = if config.log_level.contains("opentelemetry") { "" } else { ",opentelemetry=off" };
    // Lines about sending lines would never end.
    let exported = filter(",opentelemetry=off,tonic=off,h2=off,hyper=off,hyper_util=off,tower=off")?;
    let export = Export::to(&endpoint, kind, config)?;
    let tracer = export.traces.tracer("wadi");
    let spans = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(|about| about.is_span() && about.target() == TARGET));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let exported = OpenTelemetryTracingBridge::new(&export.lines).with_filter(exported);
    let registry = tracing_subscriber::registry().with(spans).with(exported);
    let filter = filter(quiet)?;
    match config.log_format {
        LogFormat::Text => registry.with(lines.with_filter(filter)).try_init().map_err(failed)?,
        LogFormat::Json => registry.with(lines.json().with_filter(filter)).try_init().map_err(failed)?,
    }
    tracing::info!(endpoint, "traces, metrics and this log are exported");
    Ok(Telemetry { export: Some(export) })
}

/// Where to export to, if anywhere.
fn endpoint(config: &ServerConfig) -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let given = config.otlp_endpoint.clone().or_else(|| variable(STANDARD_ENDPOINT))?;
    let disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    (!disabled).then_some(given)
}

impl Export {
    fn to(endpoint: &str, kind: ServerKind, config: &ServerConfig) -> Result<Export, Failure> {
        let wrong = |e: &dyn std::fmt::Display| {
            Failure::usage(format!("otlp_endpoint \"{endpoint}\" cannot be used: {e}"))
                .hint("write http://host:4317, the address of an OTLP receiver that takes gRPC")
        };
        if endpoint.contains('@') {
            // It is logged, and credentials in it would not be sent anyway.
            return Err(Failure::usage("otlp_endpoint has credentials in it").hint(
                "give the receiver's token in OTEL_EXPORTER_OTLP_HEADERS, as in authorization=Bearer%20…",
            ));
        }
        let channel = channel(endpoint).map_err(|e| wrong(&e))?;
        let spans = SpanExporter::builder().with_tonic().with_channel(channel.clone());
        let spans = spans.build().map_err(|e| wrong(&e))?;
        let spans = Reported { exporter: spans, report: Report::new("spans", endpoint) };
        let lines = LogExporter::builder().with_tonic().with_channel(channel.clone());
        let lines = lines.build().map_err(|e| wrong(&e))?;
        let lines = Reported { exporter: lines, report: Report::new("log lines", endpoint) };
        let resource = resource(kind);
        let lines =
            SdkLoggerProvider::builder().with_resource(resource.clone()).with_batch_exporter(lines).build();
        let mut traces =
            SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(spans);
        if std::env::var("OTEL_TRACES_SAMPLER").is_err() {
            let some = Sampler::TraceIdRatioBased(config.trace_sample_ratio);
            traces = traces.with_sampler(Sampler::ParentBased(Box::new(some)));
        }
        let sender =
            Sender::new(channel, &resource, Report::new("metrics", endpoint)).map_err(|e| wrong(&e))?;
        Ok(Export { traces: traces.build(), lines, sender: Arc::new(sender), metrics: None })
    }
}

/// A connection that is made when it is needed, and again when it was lost.
fn channel(endpoint: &str) -> Result<Channel, tonic::transport::Error> {
    let secure = endpoint.starts_with("https://");
    let mut endpoint = Endpoint::from_shared(endpoint.to_owned())?.timeout(SENDING).connect_timeout(SENDING);
    if secure {
        endpoint = endpoint.tls_config(ClientTlsConfig::new().with_enabled_roots())?;
    }
    Ok(endpoint.connect_lazy())
}

/// Who tells: what the standard variables say, or a name for each kind of process; and an id of its own.
fn resource(kind: ServerKind) -> Resource {
    let name = match kind {
        ServerKind::Dev => "wadi-dev",
        ServerKind::Gateway => "wadi-gateway",
        ServerKind::Compactor => "wadi-compactor",
    };
    let given = Resource::builder().build();
    let mut ours = Vec::new();
    let mut set = |key: &'static str, value: String, unset: &dyn Fn(&str) -> bool| {
        let given = given.get(&key.into()).map(|value| value.to_string());
        if given.is_none_or(|given| unset(&given)) {
            ours.push(KeyValue::new(key, value));
        }
    };
    set("service.name", name.to_owned(), &|given| given.starts_with("unknown_service"));
    set("service.version", env!("CARGO_PKG_VERSION").to_owned(), &|_| false);
    set("service.instance.id", format!("{:032x}", Env::default().unique()), &|_| false);
    Resource::builder().with_attributes(ours).build()
}

impl Telemetry {
    /// Exports what a server counts from now on, if anything is exported.
    pub(crate) fn watch(&mut self, registry: &Arc<Registry>) {
        if let Some(export) = &mut self.export {
            let (sender, registry) = (export.sender.clone(), registry.clone());
            let task = Owned::spawn(metrics::send_now_and_then(sender, registry.clone()));
            export.metrics = Some((registry, task));
        }
    }

    /// Sends what waits, for as long as that may take at the end of a process.
    pub(crate) async fn stop(self) {
        let Some(Export { traces, lines, sender, metrics }) = self.export else { return };
        let last = async {
            if let Some((registry, task)) = metrics {
                drop(task);
                // What it could not deliver has been reported.
                let _ = tokio::time::timeout(LAST, sender.send(&registry)).await;
            }
        };
        let flushed =
            blocking(move || traces.shutdown_with_timeout(LAST).map_err(|e| Failure::new(e.to_string())));
        let (flushed, ()) = futures::join!(flushed, last);
        if let Err(error) = flushed {
            tracing::warn!(%error, "the last spans were not delivered");
        }
        // What it could not deliver stands on stderr.
        let _ = blocking(move || lines.shutdown_with_timeout(LAST).map_err(|e| Failure::new(e.to_string())))
            .await;
    }
}
