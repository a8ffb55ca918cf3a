//! Whether rows are still needed: those of a table or partition that was dropped are not.

use std::sync::Arc;

use wadi_model::{Bucket, Partition, PartitionId, Table};

use super::partitions::PARTITIONS;
use super::{Catalog, CatalogError, TABLES, decode};

impl Catalog {
    /// The table of a bucket, `None` once it or the partition was dropped. Ids are never used again, so what is gone is gone for ever. What
    /// the watch has not seen is asked of the meta store.
    pub async fn kept(&self, bucket: &Bucket) -> Result<Option<Arc<Table>>, CatalogError> {
        if let Some(table) = self.kept_as_seen(bucket) {
            return Ok(Some(table));
        }
        let mut table = None;
        for found in &self.meta.list(TABLES).await?.entries {
            let stored: Table = decode(found)?;
            if stored.id == bucket.table {
                table = Some(Arc::new(stored));
            }
        }
        let Some(table) = table else { return Ok(None) };
        if bucket.partition == PartitionId::NONE {
            return Ok(Some(table));
        }
        for found in &self.meta.list(&format!("{PARTITIONS}{}/", bucket.table)).await?.entries {
            if decode::<Partition>(found)?.id == bucket.partition {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// The table of a bucket as far as this process has seen. A drop that it has not seen yet is found later.
    fn kept_as_seen(&self, bucket: &Bucket) -> Option<Arc<Table>> {
        let content = self.seen.content.read();
        let table = content.tables.values().find(|entry| entry.value.id == bucket.table)?;
        let partitions = content.partitions.of(bucket.table);
        let kept = bucket.partition == PartitionId::NONE || partitions.of_id(bucket.partition).is_some();
        kept.then(|| table.value.clone())
    }
}
