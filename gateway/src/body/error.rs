//! What can be wrong with a body as a whole. Faults of single rows are [`wadi_model::reject::RowError`]s.

use wadi_model::batch::ShapeError;
use wadi_model::{ErrorKind, Fault};

/// A body that is refused as a whole; nothing of it is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum BodyError {
    #[error("the body is empty; a request without rows is written as {instead}")]
    Empty { instead: &'static str },
    #[error("Content-Type {given} is not read here; send one of {accepted}")]
    UnsupportedMediaType { given: String, accepted: String },
    #[error("charset \"{given}\" is not read here; send text as UTF-8")]
    UnsupportedCharset { given: String },
    #[error("nothing that \"Accept: {given}\" asks for can be answered; ask for one of {offered}")]
    NotAcceptable { given: String, offered: String },
    #[error(
        "Content-Encoding \"{given}\" is not read here; send zstd, gzip or identity, and only one of them"
    )]
    UnsupportedEncoding { given: String },
    #[error("the body has more than {limit} bytes as sent; send the rows in several requests")]
    SentTooLarge { limit: usize },
    #[error("the body has more than {limit} bytes once decompressed; send the rows in several requests")]
    DecodedTooLarge { limit: usize },
    #[error("the rows of the body take more than {limit} bytes in memory; send them in several requests")]
    BatchTooLarge { limit: usize },
    #[error("the body has more than {limit} rows; send them in several requests")]
    TooManyRows { limit: u64 },
    #[error("too many requests bring rows at once; send it again in a moment")]
    Overloaded,
    #[error("the body broke off before its end: {why}; nothing of it was taken")]
    Incomplete { why: String },
    #[error("the body is no valid {encoding} stream: {why}")]
    BadEncoding { encoding: &'static str, why: String },
    #[error("the body is no valid JSON at line {line}, character {column}: {why}")]
    BadJson { line: u64, column: u64, why: String },
    #[error("the body is no valid CSV at line {line}: {why}")]
    BadCsv { line: u64, why: String },
    #[error("the body is no valid Arrow stream: {why}")]
    BadArrow { why: String },
    #[error("the body is no valid Parquet file: {why}")]
    BadParquet { why: String },
    #[error("the Parquet file cannot be read here: {why}")]
    UnsupportedParquet { why: String },
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error("the rows could not be put together: {why}")]
    Internal { why: String },
}

impl Fault for BodyError {
    fn kind(&self) -> ErrorKind {
        use BodyError::*;
        match self {
            UnsupportedMediaType { .. }
            | UnsupportedCharset { .. }
            | NotAcceptable { .. }
            | UnsupportedEncoding { .. }
            | UnsupportedParquet { .. } => ErrorKind::UnsupportedMedia,
            SentTooLarge { .. } | DecodedTooLarge { .. } | BatchTooLarge { .. } | TooManyRows { .. } => {
                ErrorKind::TooLarge
            }
            Overloaded => ErrorKind::Overloaded,
            Empty { .. }
            | Incomplete { .. }
            | BadEncoding { .. }
            | BadJson { .. }
            | BadCsv { .. }
            | BadArrow { .. }
            | BadParquet { .. } => ErrorKind::Invalid,
            Shape(shape) => shape.kind(),
            Internal { .. } => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &str {
        use BodyError::*;
        match self {
            Empty { .. } => "empty_body",
            UnsupportedMediaType { .. } => "unsupported_media_type",
            UnsupportedCharset { .. } => "unsupported_charset",
            NotAcceptable { .. } => "not_acceptable",
            UnsupportedEncoding { .. } => "unsupported_encoding",
            SentTooLarge { .. } | DecodedTooLarge { .. } | BatchTooLarge { .. } => "body_too_large",
            TooManyRows { .. } => "too_many_rows",
            Overloaded => "overloaded",
            Incomplete { .. } => "incomplete_body",
            BadEncoding { .. } => "bad_encoding",
            BadJson { .. } => "bad_json",
            BadCsv { .. } => "bad_csv",
            BadArrow { .. } => "bad_arrow",
            BadParquet { .. } => "bad_parquet",
            UnsupportedParquet { .. } => "unsupported_parquet",
            Shape(shape) => shape.code(),
            Internal { .. } => "internal",
        }
    }
}

impl From<arrow::error::ArrowError> for BodyError {
    fn from(error: arrow::error::ArrowError) -> BodyError {
        BodyError::Internal { why: error.to_string() }
    }
}
