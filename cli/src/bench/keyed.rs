//! Rows with keys for the benchmarks: about 100 bytes each, whose key is a number, or an owner and a number.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::error::ArrowError;
use clap::Args;
use wadi_model::TableSpec;

use super::random::Random;

const COLUMNS: [(&str, &str); 7] = [
    ("owner", "bigint not null"),
    ("id", "bigint not null"),
    ("status", "string not null"),
    ("name", "string not null"),
    ("amount", "double"),
    ("updated", "timestamp(3) not null"),
    ("note", "string"),
];

/// Which keys there are.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Keys {
    /// How many keys there are.
    #[arg(long, env = "WADI_KEYS", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    keys: u64,
    /// Rows that share an owner. Above 1 the key is (owner, id) and the bucket key the owner, so that prefixes can be looked
    /// up.
    #[arg(long, env = "WADI_GROUP", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    group: u64,
}

impl Keys {
    /// How many keys there are.
    pub(crate) fn count(&self) -> u64 {
        self.keys
    }

    /// How many owners have them.
    pub(crate) fn owners(&self) -> u64 {
        self.keys.div_ceil(self.group)
    }

    /// Whether rows are found by their owner too.
    pub(crate) fn grouped(&self) -> bool {
        self.group > 1
    }

    /// The table for the rows.
    pub(crate) fn table(&self, name: &str, buckets: u32) -> TableSpec {
        let (primary_key, bucket_key) = match self.grouped() {
            true => (vec!["owner".to_owned(), "id".to_owned()], vec!["owner".to_owned()]),
            false => (vec!["id".to_owned()], Vec::new()),
        };
        TableSpec { buckets: Some(buckets), primary_key, bucket_key, ..TableSpec::log(name, &COLUMNS) }
    }

    /// Rows of these keys, whose other columns follow from the seed.
    pub(crate) fn rows(&self, ids: &[u64], seed: u64) -> Result<RecordBatch, ArrowError> {
        const STATUSES: [&str; 4] = ["created", "pending", "shipped", "settled"];
        let mut random = Random::new(seed);
        let owners = Int64Array::from_iter_values(ids.iter().map(|id| (id / self.group) as i64));
        let numbers = Int64Array::from_iter_values(ids.iter().map(|id| *id as i64));
        let statuses = StringArray::from_iter_values(ids.iter().map(|_| STATUSES[random.below(4) as usize]));
        let names = StringArray::from_iter_values(ids.iter().map(|_| format!("{:016x}", random.next())));
        let amounts = Float64Array::from_iter_values(ids.iter().map(|_| random.below(1 << 20) as f64 / 64.0));
        let begun = 1_767_225_600_000 + random.below(1 << 30) as i64;
        let updated = TimestampMillisecondArray::from_iter_values((0..ids.len() as i64).map(|i| begun + i));
        let notes = ids
            .iter()
            .map(|_| format!("order {:08x} of line {:08x}", random.below(1 << 32), random.below(1 << 32)));
        let notes = StringArray::from_iter_values(notes);
        let columns: [(&str, ArrayRef, bool); 7] = [
            ("owner", Arc::new(owners), false),
            ("id", Arc::new(numbers), false),
            ("status", Arc::new(statuses), false),
            ("name", Arc::new(names), false),
            ("amount", Arc::new(amounts), true),
            ("updated", Arc::new(updated), false),
            ("note", Arc::new(notes), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns)
    }

    /// Keys to be looked up: whole ones, or with `prefix` random owners.
    pub(crate) fn asked(&self, count: usize, prefix: bool, seed: u64) -> Result<RecordBatch, ArrowError> {
        let mut random = Random::new(seed);
        let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        if prefix {
            let owners = (0..count).map(|_| random.below(self.owners()) as i64).collect();
            return RecordBatch::try_from_iter([("owner", column(owners))]);
        }
        let ids = self.random(count, seed);
        let numbers = ("id", column(ids.iter().map(|id| *id as i64).collect()));
        let owners = ("owner", column(ids.iter().map(|id| (id / self.group) as i64).collect()));
        let columns = if self.grouped() { vec![owners, numbers] } else { vec![numbers] };
        RecordBatch::try_from_iter(columns)
    }

    /// Random numbers of keys.
    pub(crate) fn random(&self, count: usize, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        (0..count).map(|_| random.below(self.keys)).collect()
    }
}

#[cfg(test)]
mod tests {
    use wadi_model::batch::conform;
    use wadi_model::{Table, TableId};

    use super::*;
    use crate::ingest::piece::raw_bytes;

    #[test]
    fn rows_fit_their_table_and_have_about_a_hundred_bytes() {
        for group in [1, 10] {
            let keys = Keys { keys: 1000, group };
            let spec = keys.table("rows", 2);
            let table = Table::create(TableId(1), "bench.rows".parse().unwrap(), &spec, 0).unwrap();
            let batch = keys.rows(&keys.random(100, 7), 7).unwrap();
            assert_eq!(batch.schema_ref(), table.schema().arrow());
            assert!(conform(&batch, table.schema()).unwrap().1.is_empty());
            assert!((9_500..10_500).contains(&raw_bytes(&batch)), "{}", raw_bytes(&batch));
        }
    }

    #[test]
    fn keys_are_asked_for_as_they_were_written() {
        let keys = Keys { keys: 1000, group: 10 };
        let rows = keys.rows(&keys.random(50, 3), 9).unwrap();
        assert_eq!(keys.asked(50, false, 3).unwrap(), rows.project(&[0, 1]).unwrap());
        assert_eq!(keys.asked(50, true, 3).unwrap().num_columns(), 1);
    }
}
