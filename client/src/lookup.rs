//! Finding rows of primary-key tables by their keys.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use http::Method;
use wadi_model::TableName;

use crate::arrow_stream::decode_all;
use crate::body::{Body, content_type};
use crate::client::{Call, Client, table_path};
use crate::error::ClientError;
use crate::read::column_list;
use crate::retry::Repeat;

/// The rows of keys.
#[derive(Clone, Debug)]
pub struct LookupAnswer {
    /// The columns.
    pub schema: Option<SchemaRef>,
    /// For whole keys a row for each, in their order, and null in all columns where there is none; for prefixes all rows
    /// under the first, then all under the second, each in the order of their keys.
    pub batches: Vec<RecordBatch>,
    /// How many rows there are.
    pub found: u64,
}

impl Client {
    /// Finds the rows of the keys in a body: whole keys, or prefixes of them that cover the bucket key. Asks for these
    /// columns, or for all if there are none.
    pub async fn lookup(
        &self,
        table: &TableName,
        columns: &[String],
        keys: Body,
    ) -> Result<LookupAnswer, ClientError> {
        self.find(table, columns, keys, None).await
    }

    /// [`Client::lookup`] of whole keys, where those without a row get one: the defaults in the other columns, and the next id in
    /// an auto-increment column. All who ask for a key get the same row.
    pub async fn lookup_or_insert(
        &self,
        table: &TableName,
        columns: &[String],
        keys: Body,
    ) -> Result<LookupAnswer, ClientError> {
        self.find(table, columns, keys, Some("true".to_owned())).await
    }

    async fn find(
        &self,
        table: &TableName,
        columns: &[String],
        keys: Body,
        insert: Option<String>,
    ) -> Result<LookupAnswer, ClientError> {
        let path = format!("{}/lookup", table_path(table));
        // Rows that a first try has inserted are found by the next one.
        let call = Call::new(Method::POST, path, Repeat::Safe).body(keys).accept(content_type::ARROW);
        let call = call.query_some("columns", column_list(columns));
        let answer = self.call(call.query_some("insert_if_not_exists", insert)).await?;
        let found = answer.number("wadi-found");
        let found = found.ok_or_else(|| ClientError::bad_answer("header wadi-found is missing"))?;
        let (schema, batches) = decode_all(answer.body)?;
        Ok(LookupAnswer { schema, batches, found })
    }

    /// [`Client::lookup`] for the keys in a batch, whose columns are key columns.
    pub async fn lookup_batch(
        &self,
        table: &TableName,
        columns: &[String],
        keys: &RecordBatch,
    ) -> Result<LookupAnswer, ClientError> {
        let body = Body::arrow(std::slice::from_ref(keys), self.options().compression)?;
        self.lookup(table, columns, body).await
    }
}
