//! Partitions of tables.

use std::collections::BTreeMap;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wadi_model::TableName;

use crate::admin::{change, json_body};
use crate::client::{Call, Client, table_path};
use crate::error::ClientError;

/// A partition, as the server describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionDescription {
    /// The values with `$` between them.
    pub name: String,
    /// The values by partition column, as they are spelled in names.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Never used again, not for a partition of the same name either.
    pub id: u64,
    /// What else the server tells.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A partition to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewPartition {
    /// By its name.
    Name(String),
    /// By the values of its columns, as they are spelled in names.
    Values(BTreeMap<String, String>),
}

#[derive(Deserialize)]
struct Partitions {
    partitions: Vec<PartitionDescription>,
}

impl Client {
    /// The partitions of a table, by name.
    pub async fn partitions(&self, table: &TableName) -> Result<Vec<PartitionDescription>, ClientError> {
        Ok(self.call(Call::get(path(table))).await?.json::<Partitions>()?.partitions)
    }

    /// Makes a partition.
    pub async fn create_partition(
        &self,
        table: &TableName,
        partition: &NewPartition,
    ) -> Result<PartitionDescription, ClientError> {
        self.call(change(Method::POST, path(table)).body(json_body(partition)?)).await?.json()
    }

    /// Drops a partition with its rows.
    pub async fn drop_partition(&self, table: &TableName, name: &str) -> Result<(), ClientError> {
        self.call(change(Method::DELETE, path(table)).query("partition", name)).await?;
        Ok(())
    }
}

fn path(table: &TableName) -> String {
    format!("{}/partitions", table_path(table))
}
