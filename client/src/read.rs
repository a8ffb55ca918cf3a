//! Reading: a bucket's log by offset, offsets, scans.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use wadi_model::TableName;

use crate::arrow_stream::{BatchStream, decode_all};
use crate::body::content_type;
use crate::client::{Call, Client, broken, table_path};
use crate::error::ClientError;

/// A read of one bucket's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// The bucket's number.
    pub bucket: u32,
    /// The partition's name, in partitioned tables.
    pub partition: Option<String>,
    /// The first offset wanted.
    pub offset: u64,
    /// Only these columns, in this order; all if empty. System columns can be asked for.
    pub columns: Vec<String>,
    /// Only rows for which this holds.
    pub filter: Option<String>,
    /// About how many bytes the answer may have.
    pub max_bytes: Option<u64>,
    /// How many rows the answer may have.
    pub max_rows: Option<u64>,
    /// How long the server waits for rows if there are none yet, in milliseconds.
    pub wait_ms: Option<u64>,
}

/// Rows of one bucket.
#[derive(Clone, Debug)]
pub struct LogAnswer {
    /// The columns.
    pub schema: Option<SchemaRef>,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Where the next read begins.
    pub next_offset: u64,
    /// The first offset that is not readable yet.
    pub high_watermark: u64,
    /// The first offset that is still kept.
    pub log_start: u64,
    /// Bytes of the answer on the wire.
    pub body_bytes: u64,
}

/// An offset of one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketOffset {
    /// The partition's name; empty in tables without partitions.
    #[serde(default)]
    pub partition: String,
    /// The bucket's number.
    pub bucket: u32,
    /// The offset asked for.
    pub offset: u64,
}

/// A scan of all rows there are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanQuery {
    /// Only this partition; all if none.
    pub partition: Option<String>,
    /// Only these columns, in this order; all if empty.
    pub columns: Vec<String>,
    /// Only rows for which this holds.
    pub filter: Option<String>,
    /// At most so many rows.
    pub limit: Option<u64>,
}

/// A page of a scan.
#[derive(Clone, Debug)]
pub struct ScanPage {
    /// The columns.
    pub schema: Option<SchemaRef>,
    /// The rows; a page may have none although others follow.
    pub batches: Vec<RecordBatch>,
    /// Where the next page begins; none behind the last one.
    pub next: Option<String>,
}

/// How many rows a table has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCount {
    /// The rows.
    pub rows: u64,
    /// Whether rows whose time to live is over may be among them.
    pub upper_bound: bool,
    /// The rows of each partition, in partitioned tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionCount>,
}

/// How many rows a partition has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionCount {
    /// Its name.
    pub partition: String,
    /// The rows.
    pub rows: u64,
}

#[derive(Deserialize)]
struct Offsets {
    offsets: Vec<BucketOffset>,
}

impl LogAnswer {
    /// Rows in all batches.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|b| b.num_rows() as u64).sum()
    }
}

impl Client {
    /// Reads a bucket's log from an offset.
    pub async fn log(&self, table: &TableName, query: &LogQuery) -> Result<LogAnswer, ClientError> {
        let mut call = Call::get(format!("{}/log", table_path(table)))
            .accept(content_type::ARROW)
            .query("bucket", query.bucket)
            .query("offset", query.offset)
            .query_some("partition", query.partition.as_ref())
            .query_some("columns", column_list(&query.columns))
            .query_some("filter", query.filter.as_ref())
            .query_some("max_bytes", query.max_bytes)
            .query_some("max_rows", query.max_rows)
            .query_some("wait_ms", query.wait_ms);
        call.patience = Duration::from_millis(query.wait_ms.unwrap_or(0));
        let answer = self.call(call).await?;
        let number = |name: &str| {
            answer.number(name).ok_or_else(|| ClientError::bad_answer(format!("header {name} is missing")))
        };
        let next_offset = number("wadi-next-offset")?;
        let high_watermark = number("wadi-high-watermark")?;
        let log_start = number("wadi-log-start")?;
        let body_bytes = answer.body.len() as u64;
        let (schema, batches) = decode_all(answer.body)?;
        Ok(LogAnswer { schema, batches, next_offset, high_watermark, log_start, body_bytes })
    }

    /// The offsets of every bucket at `earliest`, `latest` or a time in RFC 3339.
    pub async fn offsets(&self, table: &TableName, at: &str) -> Result<Vec<BucketOffset>, ClientError> {
        let call = Call::get(format!("{}/offsets", table_path(table))).query("at", at);
        Ok(self.call(call).await?.json::<Offsets>()?.offsets)
    }

    /// All rows there are now. What fails after the first byte is an error of the stream, and is not retried.
    pub async fn scan(&self, table: &TableName, query: &ScanQuery) -> Result<BatchStream, ClientError> {
        let call = Call::get(format!("{}/scan", table_path(table)))
            .accept(content_type::ARROW)
            .query_some("columns", column_list(&query.columns))
            .query_some("filter", query.filter.as_ref())
            .query_some("partition", query.partition.as_ref())
            .query_some("limit", query.limit);
        let chunks = self.open(call).await?.bytes_stream();
        Ok(BatchStream::new(chunks.map(|chunk| chunk.map_err(broken))))
    }

    /// A page of the rows of a primary-key table: the first one, or the one that begins at `from`. A page whose answer is lost is
    /// asked for again, so a long scan survives lost connections; if the shard moves meanwhile, the error is of kind `Gone`.
    pub async fn scan_page(
        &self,
        table: &TableName,
        query: &ScanQuery,
        from: Option<&str>,
        page_size: u64,
    ) -> Result<ScanPage, ClientError> {
        let call = Call::get(format!("{}/scan", table_path(table)))
            .accept(content_type::ARROW)
            .query("page_size", page_size);
        let call = match from {
            Some(from) => call.query("page_token", from),
            None => call
                .query_some("columns", column_list(&query.columns))
                .query_some("filter", query.filter.as_ref())
                .query_some("partition", query.partition.as_ref())
                .query_some("limit", query.limit),
        };
        let answer = self.call(call).await?;
        let next = answer.headers.get("wadi-next-page-token").and_then(|next| next.to_str().ok());
        let next = next.map(str::to_owned);
        let (schema, batches) = decode_all(answer.body)?;
        Ok(ScanPage { schema, batches, next })
    }

    /// How many rows a table or one of its partitions has.
    pub async fn count(&self, table: &TableName, partition: Option<&str>) -> Result<RowCount, ClientError> {
        let call = Call::get(format!("{}/count", table_path(table))).query_some("partition", partition);
        self.call(call).await?.json()
    }
}

/// Column names with commas between; names that a comma would break stand in double quotes.
pub(crate) fn column_list(columns: &[String]) -> Option<String> {
    let quoted = |name: &String| {
        let plain = !name.contains([',', '"']) && name.trim() == name;
        if plain { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
    };
    (!columns.is_empty()).then(|| columns.iter().map(quoted).collect::<Vec<_>>().join(","))
}
