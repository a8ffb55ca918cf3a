//! Writing: appends to log tables, upserts and deletes of primary-key tables.

use arrow::array::RecordBatch;
use http::{HeaderName, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use wadi_model::TableName;
use wadi_model::reject::RowError;

use crate::body::Body;
use crate::client::{Call, Client, table_path};
use crate::error::ClientError;
use crate::read::column_list;
use crate::retry::Repeat;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PRODUCER_ID: HeaderName = HeaderName::from_static("wadi-producer-id");
const SEQUENCE: HeaderName = HeaderName::from_static("wadi-sequence");

/// How the server knows a write again, so that a retry does not write twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WriteKey {
    /// A key that the client makes for this call: safe for the retries inside the call.
    #[default]
    Generated,
    /// The caller's key (up to 64 visible characters): safe for calls that the caller repeats within 24 h.
    Idempotency(String),
    /// A producer and the number of this request on this table: the server remembers the last 64 of each bucket.
    Producer {
        /// Chosen by the caller; up to 64 bytes.
        id: String,
        /// Counts requests, not rows.
        sequence: u64,
    },
}

/// What happens to rows that do not fit the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// One bad row, and nothing of the request is written.
    #[default]
    Fail,
    /// Bad rows are left out and reported.
    Skip,
    /// Bad rows are reported and stored in `<table>__rejected`.
    Dlq,
}

/// How a write is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// How the server knows it again.
    pub key: WriteKey,
    /// What happens to bad rows.
    pub on_error: OnError,
}

/// What a write did. All of it is durable and readable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteAnswer {
    /// The same id as in the server's log.
    pub request_id: String,
    /// Rows written.
    pub rows: u64,
    /// Where they are.
    pub offsets: Vec<WrittenRange>,
    /// The first of the rows that were left out.
    pub rejected: Vec<RowError>,
    /// How many rows were left out.
    pub rejected_rows: u64,
    /// How often the request was sent.
    #[serde(skip)]
    pub attempts: u32,
}

/// Rows of one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrittenRange {
    /// The partition's name; empty in tables without partitions.
    pub partition: String,
    /// The bucket's number.
    pub bucket: u32,
    /// Offset of the first row.
    pub base_offset: u64,
    /// Offset of the last row.
    pub last_offset: u64,
}

impl OnError {
    /// The spelling of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            OnError::Fail => "fail",
            OnError::Skip => "skip",
            OnError::Dlq => "dlq",
        }
    }
}

impl Client {
    /// Appends the rows of a body to a log table. Returns when they are durable.
    pub async fn append(
        &self,
        table: &TableName,
        body: Body,
        options: &WriteOptions,
    ) -> Result<WriteAnswer, ClientError> {
        self.write("append", table, &[], body, options).await
    }

    /// Appends a batch as Arrow. Encoding costs CPU in this task: of large batches make the [`Body`] elsewhere.
    pub async fn append_batch(
        &self,
        table: &TableName,
        batch: &RecordBatch,
        options: &WriteOptions,
    ) -> Result<WriteAnswer, ClientError> {
        let body = Body::arrow(std::slice::from_ref(batch), self.options().compression)?;
        self.append(table, body, options).await
    }

    /// Inserts or updates rows of a primary-key table; with `columns` a partial update, which touches these alone.
    /// Returns when they are durable.
    pub async fn upsert(
        &self,
        table: &TableName,
        columns: &[String],
        body: Body,
        options: &WriteOptions,
    ) -> Result<WriteAnswer, ClientError> {
        self.write("upsert", table, columns, body, options).await
    }

    /// Deletes rows of a primary-key table by their keys; with `columns` these become null, and a row goes when nothing
    /// but its key is left. Returns when that is durable.
    pub async fn delete(
        &self,
        table: &TableName,
        columns: &[String],
        body: Body,
        options: &WriteOptions,
    ) -> Result<WriteAnswer, ClientError> {
        self.write("delete", table, columns, body, options).await
    }

    async fn write(
        &self,
        verb: &str,
        table: &TableName,
        columns: &[String],
        body: Body,
        options: &WriteOptions,
    ) -> Result<WriteAnswer, ClientError> {
        let path = format!("{}/{verb}", table_path(table));
        let mut call = Call::new(Method::POST, path, Repeat::Safe).body(body);
        call = call.query_some("columns", column_list(columns));
        if options.on_error != OnError::Fail {
            call = call.query("on_error", options.on_error.as_str());
        }
        match &options.key {
            WriteKey::Generated => {
                let key = format!("\"{:032x}\"", self.options().env.unique());
                call.headers.insert(IDEMPOTENCY_KEY, header(&key)?);
            }
            WriteKey::Idempotency(key) => {
                let quoted = key.replace('\\', "\\\\").replace('"', "\\\"");
                call.headers.insert(IDEMPOTENCY_KEY, header(&format!("\"{quoted}\""))?);
            }
            WriteKey::Producer { id, sequence } => {
                call.headers.insert(PRODUCER_ID, header(id)?);
                call.headers.insert(SEQUENCE, HeaderValue::from(*sequence));
            }
        }
        let answer = self.call(call).await?;
        let mut written: WriteAnswer = answer.json()?;
        written.attempts = answer.attempts;
        Ok(written)
    }
}

fn header(value: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::from_str(value).map_err(|_| ClientError::BadKey { key: value.escape_debug().to_string() })
}
