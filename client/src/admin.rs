//! Databases, tables, and how the server is.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wadi_model::evolve::SchemaChange;
use wadi_model::{DatabaseName, TableName, TableSpec};

use crate::body::{Body, content_type};
use crate::client::{Call, Client, table_path};
use crate::error::ClientError;
use crate::retry::Repeat;

/// A database, as the server describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatabaseDescription {
    /// The name.
    pub name: String,
    /// What else the server tells.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A table in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSummary {
    /// The table's own name.
    pub name: String,
    /// What else the server tells.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A column, as the server describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnDescription {
    /// The name.
    pub name: String,
    /// The type's spelling, with `not null` where it holds.
    #[serde(rename = "type")]
    pub column_type: String,
    /// What else the server tells: `comment`, `default`, …
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A table, as the server describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableDescription {
    /// Never used again, not for a table of the same name either.
    pub id: u64,
    /// The table's own name.
    pub name: String,
    /// The columns in their order.
    pub columns: Vec<ColumnDescription>,
    /// Empty in log tables.
    #[serde(default)]
    pub primary_key: Vec<String>,
    /// The columns whose hash chooses the bucket.
    #[serde(default)]
    pub bucket_key: Vec<String>,
    /// Buckets of the table, or of each partition.
    pub buckets: u32,
    /// Empty without partitions.
    #[serde(default)]
    pub partition_by: Vec<String>,
    /// The column whose values the server hands out, if any.
    #[serde(default)]
    pub auto_increment: Vec<String>,
    /// How rows of one key merge; `None` in log tables.
    #[serde(default)]
    pub merge_engine: Option<String>,
    /// Options and the user's own properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// What else the server tells: `comment`, `created_at`, statistics, …
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A change of a table: columns and options, all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlterTable {
    /// Changes of columns, in this order, as one new schema version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SchemaChange>,
    /// Options to set, or with `None` to take away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Option<String>>,
}

#[derive(Deserialize)]
struct Databases {
    databases: Vec<DatabaseDescription>,
}

#[derive(Deserialize)]
struct Tables {
    tables: Vec<TableSummary>,
}

impl Client {
    /// All databases.
    pub async fn databases(&self) -> Result<Vec<DatabaseDescription>, ClientError> {
        Ok(self.call(Call::get("/v1/databases")).await?.json::<Databases>()?.databases)
    }

    /// Creates a database.
    pub async fn create_database(&self, name: &DatabaseName) -> Result<(), ClientError> {
        let call = change(Method::POST, "/v1/databases".to_owned());
        self.call(call.body(json_body(&json!({ "name": name.as_str() }))?)).await?;
        Ok(())
    }

    /// Drops a database.
    pub async fn drop_database(&self, name: &DatabaseName) -> Result<(), ClientError> {
        self.call(change(Method::DELETE, format!("/v1/databases/{name}"))).await?;
        Ok(())
    }

    /// The tables of a database.
    pub async fn tables(&self, database: &DatabaseName) -> Result<Vec<TableSummary>, ClientError> {
        let call = Call::get(format!("/v1/databases/{database}/tables"));
        Ok(self.call(call).await?.json::<Tables>()?.tables)
    }

    /// Creates a table.
    pub async fn create_table(
        &self,
        database: &DatabaseName,
        spec: &TableSpec,
    ) -> Result<TableDescription, ClientError> {
        let call = change(Method::POST, format!("/v1/databases/{database}/tables"));
        self.call(call.body(json_body(spec)?)).await?.json()
    }

    /// Describes a table.
    pub async fn table(&self, table: &TableName) -> Result<TableDescription, ClientError> {
        self.call(Call::get(table_path(table))).await?.json()
    }

    /// Changes a table.
    pub async fn alter_table(
        &self,
        table: &TableName,
        alter: &AlterTable,
    ) -> Result<TableDescription, ClientError> {
        let call = change(Method::PATCH, table_path(table));
        self.call(call.body(json_body(alter)?)).await?.json()
    }

    /// Drops a table.
    pub async fn drop_table(&self, table: &TableName) -> Result<(), ClientError> {
        self.call(change(Method::DELETE, table_path(table))).await?;
        Ok(())
    }

    /// The server's metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let answer = self.call(Call::get("/metrics")).await?;
        String::from_utf8(answer.body.into()).map_err(ClientError::bad_answer)
    }

    /// What the server tells about itself: version, shards, owners, lag.
    pub async fn status(&self) -> Result<Value, ClientError> {
        self.call(Call::get("/v1/status")).await?.json()
    }

    /// Has a gateway give its shards to the others, and says how many none of them has after at most `wait`.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn drain(&self, wait: Duration) -> Result<u64, ClientError> {
        #[derive(Deserialize)]
        struct Drained {
            shards: u64,
        }
        let call = Call::new(Method::POST, "/v1/drain", Repeat::Safe).query("wait_ms", wait.as_millis());
        Ok(self.call(call).await?.json::<Drained>()?.shards)
    }

    /// Takes a drain back.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn stay(&self) -> Result<(), ClientError> {
        self.call(Call::new(Method::DELETE, "/v1/drain", Repeat::Safe)).await.map(drop)
    }

    /// Whether the process answers. Asked once, without retries.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.once(Call::get("/health")).await.map(|_| ())
    }

    /// Whether the server takes work now. Asked once, without retries.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.once(Call::get("/ready")).await.map(|_| ())
    }
}

/// A change without a key: a second one might meet another state than the first.
pub(crate) fn change(method: Method, path: String) -> Call {
    Call::new(method, path, Repeat::IfNothingWasDone)
}

pub(crate) fn json_body(value: &impl Serialize) -> Result<Body, ClientError> {
    let bytes = serde_json::to_vec(value).map_err(|e| {
        // Only a map with keys that are no text could fail, and none of the requests holds one.
        ClientError::BadAnswer { why: format!("the request cannot be written: {e}") }
    })?;
    Ok(Body::new(content_type::JSON, bytes))
}
