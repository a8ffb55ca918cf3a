//! Following a table: an endless stream over all its buckets.

use bytes::Bytes;
use futures::stream::{Stream, StreamExt};
use wadi_model::TableName;

use crate::arrow_stream::BatchStream;
use crate::body::content_type;
use crate::client::{Call, Client, broken, table_path};
use crate::error::ClientError;
use crate::read::column_list;

pub use follow::{Follow, TailGroup};

mod follow;
mod lines;

/// What to follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailQuery {
    /// `earliest`, `latest`, a time in RFC 3339, or a cursor. The server's default if none.
    pub from: Option<String>,
    /// Only this partition; all, and those that will be made, if none.
    pub partition: Option<String>,
    /// Only these columns, in this order; all if empty.
    pub columns: Vec<String>,
    /// Only rows for which this holds.
    pub filter: Option<String>,
    /// The stream ends after so many rows.
    pub limit: Option<u64>,
}

impl Client {
    /// Follows a table as batches. The stream ends at the limit, with the server or with an error.
    pub async fn tail(&self, table: &TableName, query: &TailQuery) -> Result<BatchStream, ClientError> {
        Ok(BatchStream::new(self.open_tail(table, query, content_type::ARROW).await?))
    }

    /// Follows a table as rows in JSON, over lost connections too: without gap or repeat.
    pub async fn follow(&self, table: &TableName, query: TailQuery) -> Result<Follow, ClientError> {
        Follow::open(self.clone(), table.clone(), query).await
    }

    async fn open_tail(
        &self,
        table: &TableName,
        query: &TailQuery,
        accept: &'static str,
    ) -> Result<impl Stream<Item = Result<Bytes, ClientError>> + Send + use<>, ClientError> {
        let call = Call::get(format!("{}/tail", table_path(table)))
            .accept(accept)
            .query_some("from", query.from.as_ref())
            .query_some("partition", query.partition.as_ref())
            .query_some("columns", column_list(&query.columns))
            .query_some("filter", query.filter.as_ref())
            .query_some("limit", query.limit);
        Ok(self.open(call).await?.bytes_stream().map(|chunk| chunk.map_err(broken)))
    }
}
