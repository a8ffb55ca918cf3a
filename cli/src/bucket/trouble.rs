//! What S3 says when it does not do what it is asked.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::{State, Step};

/// What a store answers that does not know a call.
const UNKNOWN_CALL: [&str; 3] = ["NotImplemented", "MethodNotAllowed", "XNotImplemented"];

/// Why something was not done.
#[derive(Debug)]
pub(super) struct Trouble {
    /// S3's word for it, if it has one.
    pub(super) code: String,
    pub(super) status: Option<u16>,
    message: String,
}

impl Trouble {
    pub(super) fn new(message: impl Into<String>) -> Trouble {
        Trouble { code: String::new(), status: None, message: message.into() }
    }

    /// An error of the store, with the permission that the call needs.
    pub(super) fn of<E>(error: SdkError<E, HttpResponse>, permission: &str) -> Trouble
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let status = error.raw_response().map(|response| response.status().as_u16());
        let code = error.code().unwrap_or_default().to_owned();
        let said = error.message().map(|message| format!(" ({message})")).unwrap_or_default();
        let mut message = match (status, code.as_str()) {
            // Nothing came: the causes say why.
            (None, _) => with_causes(&error),
            (Some(status), "") => format!("the store answered {status}"),
            (Some(status), code) => format!("the store answered {status}: {code}{said}"),
        };
        if status == Some(403) {
            message = format!("{message}; it needs {permission}");
        }
        Trouble { code, status, message }
    }

    pub(super) fn is(&self, codes: &[&str]) -> bool {
        codes.contains(&self.code.as_str())
    }

    fn is_unknown_call(&self) -> bool {
        matches!(self.status, Some(405 | 501)) || self.is(&UNKNOWN_CALL)
    }

    pub(super) fn step(self, step: &'static str) -> Step {
        let state = if self.is_unknown_call() { State::NotSupported } else { State::Failed };
        Step::new(step, state, self.message)
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}
