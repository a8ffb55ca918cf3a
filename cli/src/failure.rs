//! Why a command ends without having done what it should: in one or two lines for people, as one JSON document with
//! `--json`. Both go to stderr; stdout may already hold rows.

use std::io::Write;
use std::process::ExitCode;

use arrow::error::ArrowError;
use serde::Serialize;
use wadi_client::{ClientError, Problem};
use wadi_model::reject::RowError;

/// Rows at fault that are told one by one.
const SHOWN_ROWS: usize = 3;

/// A failure with what to do about it, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    exit: u8,
    /// A stable name in snake_case.
    code: String,
    /// What the server said.
    problem: Option<Box<Problem>>,
}

/// A failure as JSON: the members of the server's problem documents, as far as they are known, and the hint.
#[derive(Serialize)]
struct Document<'a> {
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side_effects: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [RowError],
}

impl Failure {
    /// The command could not do it.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, exit: 1, code: "failed".to_owned(), problem: None }
    }

    /// The command was called wrongly.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: 2, code: "usage".to_owned(), ..Failure::new(message) }
    }

    /// Nobody reads what the command writes (`| head`): it ends, and that is no fault.
    fn unread() -> Failure {
        Failure { exit: 0, ..Failure::new("") }
    }

    /// Writing to stdout failed.
    pub(crate) fn output(error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::unread(),
            _ => Failure::new(format!("the output cannot be written: {error}")),
        }
    }

    /// Tells it in other words.
    pub(crate) fn say(mut self, message: impl Into<String>) -> Failure {
        self.message = message.into();
        self
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a second thing to do about it.
    pub(crate) fn also(mut self, hint: &str) -> Failure {
        self.hint = Some(self.hint.map_or_else(|| hint.to_owned(), |first| format!("{first}\n  {hint}")));
        self
    }

    /// The message in front of which is told what was tried.
    pub(crate) fn while_doing(mut self, what: &str) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// With the rows at fault where they are in a file, instead of in the request.
    pub(crate) fn rows(mut self, rows: Vec<RowError>) -> Failure {
        if let Some(problem) = &mut self.problem {
            problem.errors = rows;
        }
        self
    }

    /// Tells it on stderr.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let text = match (json, &self.hint) {
            _ if self.message.is_empty() => String::new(),
            (true, _) => self.document() + "\n",
            (false, Some(hint)) => format!("error: {}\n  {hint}\n", self.message),
            (false, None) => format!("error: {}\n", self.message),
        };
        // If nobody reads it, the exit code still tells.
        let _ = std::io::stderr().write_all(text.as_bytes());
        ExitCode::from(self.exit)
    }

    fn document(&self) -> String {
        let problem = self.problem.as_deref();
        let document = Document {
            code: &self.code,
            detail: &self.message,
            hint: self.hint.as_deref(),
            status: problem.map(|p| p.status),
            request_id: problem.and_then(|p| p.request_id.as_deref()),
            retryable: problem.map(|p| p.retryable),
            side_effects: problem.and_then(|p| p.side_effects.as_deref()),
            errors: problem.map(|p| p.errors.as_slice()).unwrap_or_default(),
        };
        // Strings and numbers always become JSON.
        serde_json::to_string(&document).unwrap_or_default()
    }
}

/// The stable name of an error that did not come from the server.
fn code_of(error: &ClientError) -> &'static str {
    match error {
        ClientError::Unreachable { .. } => "unreachable",
        ClientError::Broken { .. } | ClientError::Ended => "connection_lost",
        ClientError::TimedOut { .. } => "timed_out",
        ClientError::GaveUp { source, .. } => code_of(source),
        _ => "failed",
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let problem = error.problem().cloned();
        let code = problem.as_ref().map_or_else(|| code_of(&error).to_owned(), |p| p.code.clone());
        let failure = Failure { code, problem: problem.map(Box::new), ..Failure::new(error.to_string()) };
        let unreachable = match &error {
            ClientError::GaveUp { source, .. } => matches!(**source, ClientError::Unreachable { .. }),
            error => matches!(error, ClientError::Unreachable { .. }),
        };
        if unreachable {
            return failure.hint("start a server with `wadi dev`, or name one with --url or WADI_URL");
        }
        let rows = error.problem().map(|p| p.errors.as_slice()).unwrap_or_default();
        if rows.is_empty() {
            return failure;
        }
        failure.hint(shown(rows))
    }
}

/// The first rows at fault, a line each.
pub(crate) fn shown(rows: &[RowError]) -> String {
    rows.iter().take(SHOWN_ROWS).map(|row| row.to_string()).collect::<Vec<_>>().join("\n  ")
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Failure {
        match &error {
            ArrowError::IoError(_, io) => Failure::output(io),
            _ => Failure::new(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_keeps_its_members_in_json() {
        let problem = Problem {
            status: 409,
            code: "in_flight".into(),
            detail: "wait".into(),
            request_id: Some("r1".into()),
            retryable: true,
            side_effects: Some("none".into()),
            ..Problem::default()
        };
        let failure = Failure::from(ClientError::Problem(Box::new(problem))).while_doing("a.csv").hint("h");
        let document: serde_json::Value = serde_json::from_str(&failure.document()).unwrap();
        let want = serde_json::json!({
            "code": "in_flight", "detail": "a.csv: wait (409 in_flight, request r1)", "hint": "h", "status": 409,
            "request_id": "r1", "retryable": true, "side_effects": "none"
        });
        assert_eq!(document, want);
    }
}
