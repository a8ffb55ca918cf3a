//! Errors as answers: RFC 9457 `application/problem+json`, made in one place from what an error says of itself.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use wadi_model::reject::RowError;
use wadi_model::{ErrorKind, Fault};

/// What a failed request has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffects {
    /// Nothing.
    #[default]
    None,
    /// A part of it, which the answer names.
    Partial,
    /// Nobody can tell yet; the same key finds out.
    Unknown,
}

/// An error answer. Boxed, since it travels in every `Result` of the handlers.
#[derive(Clone, Debug)]
pub struct Problem(Box<Members>);

#[derive(Clone, Debug, Serialize)]
struct Members {
    /// Where the error is explained.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    code: String,
    request_id: String,
    retryable: bool,
    side_effects: SideEffects,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<RowError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_total: Option<u64>,
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    retry_after: Option<u32>,
}

/// The HTTP status of an error kind.
fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Gone => StatusCode::GONE,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorKind::Rejected => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::NotSupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl Problem {
    /// A problem by kind, code and message.
    pub fn new(kind: ErrorKind, code: &str, detail: impl Into<String>) -> Problem {
        let status = match code {
            "not_acceptable" => StatusCode::NOT_ACCEPTABLE,
            "method_not_allowed" => StatusCode::METHOD_NOT_ALLOWED,
            "other_version" => StatusCode::UPGRADE_REQUIRED,
            _ => status_of(kind),
        };
        let side_effects =
            if kind == ErrorKind::OutcomeUnknown { SideEffects::Unknown } else { SideEffects::None };
        Problem(Box::new(Members {
            kind: format!("https://wadi.dev/problems/{code}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            request_id: String::new(),
            retryable: kind.is_retryable(),
            side_effects,
            errors: Vec::new(),
            errors_total: None,
            more: serde_json::Map::new(),
            retry_after: kind.is_retryable().then_some(1),
        }))
    }

    /// With what the request has done.
    pub fn side_effects(mut self, side_effects: SideEffects) -> Problem {
        self.0.side_effects = side_effects;
        self
    }

    /// With a part that is done, if nothing worse is said already.
    pub fn at_least_partial(mut self) -> Problem {
        if self.0.side_effects == SideEffects::None {
            self.0.side_effects = SideEffects::Partial;
        }
        self
    }

    /// With rejected rows.
    pub fn rows(mut self, told: Vec<RowError>, total: u64) -> Problem {
        (self.0.errors, self.0.errors_total) = (told, Some(total));
        self
    }

    /// With one more member.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Problem {
        self.0.more.insert(name.to_owned(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// Whether sending the same again may still do it, or find that it was done.
    pub fn is_unfinished(&self) -> bool {
        self.0.retryable && self.0.status == StatusCode::SERVICE_UNAVAILABLE.as_u16()
    }

    /// The answer to a request of this id.
    pub fn respond(self, request_id: &str) -> Response {
        let mut members = *self.0;
        members.request_id = request_id.to_owned();
        let status = StatusCode::from_u16(members.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(request_id, code = members.code, detail = members.detail, "request failed");
        }
        let retry_after = members.retry_after;
        let body = serde_json::to_vec(&members).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl<F: Fault> From<F> for Problem {
    fn from(fault: F) -> Problem {
        Problem::new(fault.kind(), fault.code(), fault.to_string())
    }
}

/// The request's id is not known where an error arises; the outermost layer puts it in (see [`crate::app`]).
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
