//! Traces: which spans there are, and how a trace goes from one process to the next.
//!
//! * Spans of traces have the target [`TARGET`] and the level DEBUG. The process decides whether somebody takes them; while nobody does,
//!   each costs a branch. They carry numbers, calls and names of databases and tables, and nothing else of what users send.
//! * [`came`] reads the W3C headers `traceparent` and `tracestate` of a request. Whatever else stands there is passed over: no request
//!   fails because of them. [`begin`] makes a span continue such a trace, and [`pass`] writes the headers of a question to another process.
//! * A process that exports no traces passes on what came, so that the trace is whole again behind it.

use std::ops::Range;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

#[cfg(test)]
mod tests;

/// The target of spans that belong to traces.
pub const TARGET: &str = "wadi_trace";

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Longer ones are not taken: the standard asks for no more.
const MAX_TRACESTATE: usize = 512;

/// The place in a trace from which a request came, if its headers say one.
pub fn came(headers: &HeaderMap) -> Option<SpanContext> {
    let (trace, span, flags) = parent(headers.get(TRACEPARENT)?.to_str().ok()?)?;
    let state = headers.get(TRACESTATE).and_then(|state| state.to_str().ok());
    let state = state.filter(|state| state.len() <= MAX_TRACESTATE);
    let state = state.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    let context = SpanContext::new(trace, span, flags, true, state);
    context.is_valid().then_some(context)
}

/// Reads `00-<32 hex>-<16 hex>-<2 hex>`. Later versions may say more behind it.
fn parent(text: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let hex = |place: Range<usize>| {
        let digits = text.get(place)?;
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        digits.bytes().all(lower).then_some(digits)
    };
    let dash = |place: usize| text.as_bytes().get(place) == Some(&b'-');
    let version = hex(0..2)?;
    let ends = text.len() == 55 || version != "00" && dash(55);
    if version == "ff" || !ends || !dash(2) || !dash(35) || !dash(52) {
        return None;
    }
    let flags = u8::from_str_radix(hex(53..55)?, 16).ok()?;
    Some((
        TraceId::from_hex(hex(3..35)?).ok()?,
        SpanId::from_hex(hex(36..52)?).ok()?,
        TraceFlags::new(flags) & TraceFlags::SAMPLED,
    ))
}

/// Makes a span that has just been made a part of the trace that came, if one did, and tells the trace's id.
pub fn begin(span: &Span, came: Option<&SpanContext>) -> Option<TraceId> {
    if let Some(came) = came
        && !span.is_disabled()
    {
        // It fails where nobody takes spans, which changes nothing.
        let _ = span.set_parent(Context::new().with_remote_span_context(came.clone()));
    }
    here(span).or_else(|| came.cloned()).map(|context| context.trace_id())
}

/// Writes where we are in a trace into the headers of a question: at the current span, or where the request came from.
pub fn pass(headers: &mut HeaderMap, came: Option<&SpanContext>) {
    let Some(context) = here(&Span::current()).or_else(|| came.cloned()) else { return };
    let flags = context.trace_flags().to_u8();
    let parent = format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id());
    let mut set = |name, value: &str| {
        // Both are of letters, digits and signs that headers may have.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(TRACEPARENT, &parent);
    let state = context.trace_state().header();
    if !state.is_empty() {
        set(TRACESTATE, &state);
    }
}

/// The place of a span in its trace, if somebody takes spans.
fn here(span: &Span) -> Option<SpanContext> {
    let context = span.context().span().span_context().clone();
    context.is_valid().then_some(context)
}

/// The stages of a part in its shard, one after the other, as spans of the request that brought it.
#[derive(Debug)]
pub(crate) struct Stages {
    of: Span,
    now: Span,
}

impl Stages {
    /// Before the first one.
    pub(crate) fn none() -> Stages {
        Stages { of: Span::none(), now: Span::none() }
    }

    /// It waits for the PUT of its object.
    pub(crate) fn queued(shard: u32) -> Stages {
        let now = tracing::debug_span!(target: TARGET, "queue", shard = i64::from(shard));
        let of = if now.is_disabled() { Span::none() } else { Span::current() };
        Stages { of, now }
    }

    /// The PUT begins. It ends with this value.
    pub(crate) fn put(&mut self, seq: u64) {
        if !self.now.is_disabled() {
            self.now = tracing::debug_span!(target: TARGET, parent: &self.of, "put", seq = i64::try_from(seq).unwrap_or(i64::MAX));
        }
    }
}
