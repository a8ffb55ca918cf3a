//! Why a command ends without having done what it should, in one or two lines.

use std::process::ExitCode;

use arrow::error::ArrowError;
use wadi_client::ClientError;

/// Rows at fault that are told one by one.
const SHOWN_ROWS: usize = 3;

/// A failure with what to do about it, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    exit: u8,
}

impl Failure {
    /// The command could not do it.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, exit: 1 }
    }

    /// The command was called wrongly.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, exit: 2 }
    }

    /// Nobody reads what the command writes (`| head`): it ends, and that is no fault.
    fn unread() -> Failure {
        Failure { message: String::new(), hint: None, exit: 0 }
    }

    /// Writing to stdout failed.
    pub(crate) fn output(error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::unread(),
            _ => Failure::new(format!("the output cannot be written: {error}")),
        }
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

    /// Tells it on stderr.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            eprintln!("error: {}", self.message);
        }
        if let Some(hint) = self.hint {
            eprintln!("  {hint}");
        }
        ExitCode::from(self.exit)
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
        let failure = Failure::new(error.to_string());
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
        let shown: Vec<String> = rows.iter().take(SHOWN_ROWS).map(|row| row.to_string()).collect();
        failure.hint(shown.join("\n  "))
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Failure {
        match &error {
            ArrowError::IoError(_, io) => Failure::output(io),
            _ => Failure::new(error.to_string()),
        }
    }
}
