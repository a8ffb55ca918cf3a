//! A type for each id and unit, so that no bare number crosses a function's border.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A table, for ever: ids come from the meta store and are never used again, not even for a table that is
    /// dropped and created anew under the same name.
    TableId(u64)
);
id!(
    /// A partition of a table; 0 for a table without partitions.
    PartitionId(u64)
);
id!(
    /// A version of a table's schema, from 1.
    SchemaId(u16)
);
id!(
    /// A column, through renames, for ever.
    FieldId(u32)
);
id!(
    /// A shard, from 0 to the cluster's number of shards.
    ShardId(u32)
);
id!(
    /// A position in a shard's log, from 1; 0 stands before the first object.
    LogSeq(u64)
);
id!(
    /// A fencing token: the higher one is the later claim of a shard.
    Token(u64)
);
id!(
    /// A row's position in its bucket, dense from 0.
    Offset(u64)
);

impl PartitionId {
    /// The partition of tables that have none.
    pub const NONE: PartitionId = PartitionId(0);
}

impl LogSeq {
    /// The position after this one.
    pub fn next(self) -> LogSeq {
        LogSeq(self.0 + 1)
    }
}

/// One bucket of one table (or of one partition): the unit of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bucket {
    /// The table.
    pub table: TableId,
    /// The partition, [`PartitionId::NONE`] without partitions.
    pub partition: PartitionId,
    /// The bucket's number, from 0.
    pub bucket: u32,
}

impl Bucket {
    /// A bucket of a table without partitions.
    pub fn of(table: TableId, bucket: u32) -> Bucket {
        Bucket { table, partition: PartitionId::NONE, bucket }
    }

    /// The shard that holds this bucket in a cluster of `shards` shards. Fixed for the life of the cluster.
    pub fn shard(&self, shards: u32) -> ShardId {
        let mut ids = [0u8; 16];
        ids[..8].copy_from_slice(&self.table.0.to_be_bytes());
        ids[8..].copy_from_slice(&self.partition.0.to_be_bytes());
        let start = xxh3_64(&ids) % u64::from(shards.max(1));
        let shard = (start + u64::from(self.bucket)) % u64::from(shards.max(1));
        ShardId(shard as u32)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {} partition {} bucket {}", self.table, self.partition, self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_a_table_spread_over_all_shards() {
        let shards: std::collections::BTreeSet<_> =
            (0..32).map(|b| Bucket::of(TableId(7), b).shard(32)).collect();
        assert_eq!(shards.len(), 32);
    }

    /// The placement is part of the format: data of an existing cluster would be lost if it moved.
    #[test]
    fn placement_never_changes() {
        let shard = |table, bucket| Bucket::of(TableId(table), bucket).shard(32).0;
        assert_eq!([shard(1, 0), shard(1, 1), shard(2, 0), shard(1 << 40, 5)], [11, 12, 3, 13]);
    }
}
