//! The Rust client of Wadi's HTTP API: databases, tables, partitions, writes, lookups, log reads, tails and scans.
//!
//! Used by the command line and the benchmarks, and by gateways among themselves. What holds:
//! * A write is sent again only under a key (`Idempotency-Key`, or producer and sequence), so a retry never doubles
//!   rows. Without a given key the client makes one for each call.
//! * A call ends by its deadline: retries wait with full jitter, and as long as the server's `Retry-After` asks.
//! * Errors keep what the server said ([`Problem`]); [`ClientError::kind`] tells what to do about them.
//!
//! ```no_run
//! # async fn example(batch: arrow::array::RecordBatch) -> Result<(), Box<dyn std::error::Error>> {
//! use wadi_client::{Client, ClientOptions, WriteOptions};
//!
//! let client = Client::new("http://127.0.0.1:8080", ClientOptions::default())?;
//! let table = "nyc.flights".parse()?;
//! let answer = client.append_batch(&table, &batch, &WriteOptions::default()).await?;
//! println!("{} rows are durable", answer.rows);
//! # Ok(())
//! # }
//! ```

pub use admin::{AlterTable, ColumnDescription, DatabaseDescription, TableDescription, TableSummary};
pub use arrow_stream::{ArrowCompression, BatchStream, encode_stream};
pub use body::{Body, content_type};
pub use client::Client;
pub use error::{ClientError, Problem};
pub use lookup::LookupAnswer;
pub use options::ClientOptions;
pub use partitions::{NewPartition, PartitionDescription};
pub use read::{BucketOffset, LogAnswer, LogQuery, PartitionCount, RowCount, ScanPage, ScanQuery};
pub use tail::{Follow, TailGroup, TailQuery};
pub use write::{OnError, WriteAnswer, WriteKey, WriteOptions, WrittenRange};

mod admin;
mod arrow_stream;
mod body;
mod client;
mod error;
mod lookup;
mod options;
mod partitions;
mod read;
mod retry;
mod tail;
mod write;
