//! What can go wrong in a call, and what the server said about it.

use std::time::Duration;

use arrow::error::ArrowError;
use http::StatusCode;
use serde::Deserialize;
use wadi_model::ErrorKind;
use wadi_model::reject::RowError;

/// An `application/problem+json` answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A stable name in snake_case.
    pub code: String,
    /// The code in words.
    pub title: String,
    /// The thing, the place and the fix.
    pub detail: String,
    /// The same id as in the server's log.
    pub request_id: Option<String>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// `none`, `partial` or `unknown`.
    pub side_effects: Option<String>,
    /// The rows that are at fault, the first of them.
    pub errors: Vec<RowError>,
    /// How many rows are.
    pub errors_total: Option<u64>,
}

impl Problem {
    /// Reads an error answer. One that is no problem+json (a proxy's) keeps the beginning of its text.
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Problem {
        let parsed = serde_json::from_slice::<Problem>(body).ok().filter(|p| !p.code.is_empty());
        let mut problem = parsed.unwrap_or_else(|| {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            Problem {
                code: "http_error".to_owned(),
                title: status.canonical_reason().unwrap_or("unknown status").to_owned(),
                detail: text.trim().to_owned(),
                // Gateways between us and the server answer these when they do not reach it.
                retryable: matches!(status.as_u16(), 429 | 502 | 503 | 504),
                ..Problem::default()
            }
        });
        problem.status = status.as_u16();
        problem
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match (self.status, self.side_effects.as_deref()) {
            (503, Some("partial" | "unknown")) => ErrorKind::OutcomeUnknown,
            (404, _) => ErrorKind::NotFound,
            (409 | 412, _) => ErrorKind::Conflict,
            (410, _) => ErrorKind::Gone,
            (413, _) => ErrorKind::TooLarge,
            (415, _) => ErrorKind::UnsupportedMedia,
            (422, _) => ErrorKind::Rejected,
            (429, _) => ErrorKind::Overloaded,
            (501, _) => ErrorKind::NotSupported,
            (502..=504, _) => ErrorKind::Unavailable,
            (400..=499, _) => ErrorKind::Invalid,
            _ => ErrorKind::Internal,
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = if self.detail.is_empty() { &self.title } else { &self.detail };
        write!(f, "{text} ({} {}", self.status, self.code)?;
        match &self.request_id {
            Some(id) => write!(f, ", request {id})"),
            None => f.write_str(")"),
        }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server's address cannot be used.
    #[error("\"{url}\" is no address of a server: {why}; write it as http://host:port")]
    BadUrl {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server refused or failed.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No connection was made, so nothing was sent.
    #[error("cannot connect to {url}: {}", root_cause(.source))]
    Unreachable {
        /// The server.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The connection broke. What was sent may or may not have been done.
    #[error("the connection to the server broke: {}", root_cause(.source))]
    Broken {
        /// Why.
        source: reqwest::Error,
    },
    /// No answer in time. What was sent may or may not have been done.
    #[error("no answer within {:.1} s", .after.as_secs_f64())]
    TimedOut {
        /// How long the attempt waited.
        after: Duration,
    },
    /// The server ended a stream that was to go on.
    #[error("the server has ended the stream")]
    Ended,
    /// The answer is not what the API promises.
    #[error("the server's answer cannot be read: {why}")]
    BadAnswer {
        /// What is wrong with it.
        why: String,
    },
    /// The rows cannot be written as Arrow.
    #[error("the rows cannot be encoded: {0}")]
    Encode(ArrowError),
    /// A key that cannot be a header's value.
    #[error("the key \"{key}\" cannot be sent; use up to 64 visible ASCII characters")]
    BadKey {
        /// As given.
        key: String,
    },
    /// Retries did not help in the given time.
    #[error("after {attempts} attempts in {:.1} s: {source}", .after.as_secs_f64())]
    GaveUp {
        /// How often the request was sent.
        attempts: u32,
        /// How long the call took.
        after: Duration,
        /// The last error.
        source: Box<ClientError>,
    },
}

impl ClientError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ClientError::BadUrl { .. } | ClientError::BadKey { .. } | ClientError::Encode(_) => {
                ErrorKind::Invalid
            }
            ClientError::Problem(problem) => problem.kind(),
            ClientError::Unreachable { .. } | ClientError::Ended => ErrorKind::Unavailable,
            ClientError::Broken { .. } | ClientError::TimedOut { .. } => ErrorKind::OutcomeUnknown,
            ClientError::BadAnswer { .. } => ErrorKind::Internal,
            ClientError::GaveUp { source, .. } => source.kind(),
        }
    }

    /// What the server said, if it was the server that said it.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Problem(problem) => Some(problem),
            ClientError::GaveUp { source, .. } => source.problem(),
            _ => None,
        }
    }

    /// The stable name of the server's answer.
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|p| p.code.as_str())
    }

    pub(crate) fn bad_answer(why: impl ToString) -> ClientError {
        ClientError::BadAnswer { why: why.to_string() }
    }
}

/// The innermost reason: reqwest's own text only says that sending failed.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
