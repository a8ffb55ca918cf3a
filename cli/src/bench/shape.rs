//! Rows for the benchmarks: web events as sites send them, or ten equal columns.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use clap::ValueEnum;
use wadi_model::TableSpec;

use super::random::Random;
use crate::failure::Failure;

/// Kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Web events: ids, times, texts of few and of many values, numbers. About 150 bytes a row.
    Events,
    /// Ten columns of random 64-bit numbers: 80 bytes a row that do not compress.
    Equal,
}

const EVENTS: [(&str, &str); 10] = [
    ("event_id", "bigint not null"),
    ("at", "timestamp(3) not null"),
    ("user_id", "bigint not null"),
    ("session", "string not null"),
    ("url", "string not null"),
    ("referrer", "string"),
    ("country", "string not null"),
    ("device", "string not null"),
    ("duration_ms", "int not null"),
    ("revenue", "double"),
];

const EQUAL: [&str; 10] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];

impl Shape {
    /// The table for the rows.
    pub(crate) fn table(self, name: &str, buckets: u32) -> TableSpec {
        let equal = EQUAL.map(|name| (name, "bigint not null"));
        let columns = if self == Shape::Events { EVENTS } else { equal };
        TableSpec { buckets: Some(buckets), ..TableSpec::log(name, &columns) }
    }

    /// A batch of rows. Another seed gives other rows.
    pub(crate) fn batch(self, rows: usize, seed: u64) -> Result<RecordBatch, Failure> {
        let mut random = Random::new(seed);
        let columns = match self {
            Shape::Events => events(rows, &mut random),
            Shape::Equal => EQUAL.map(|name| {
                let numbers = (0..rows).map(|_| random.next() as i64);
                (name, Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef, false)
            }),
        };
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    }
}

fn events(rows: usize, random: &mut Random) -> [(&'static str, ArrayRef, bool); 10] {
    const PATHS: [&str; 6] = ["home", "search", "product", "cart", "checkout", "account"];
    const COUNTRIES: [&str; 8] = ["de", "us", "fr", "jp", "br", "in", "gb", "nl"];
    const DEVICES: [&str; 3] = ["desktop", "phone", "tablet"];
    let first = random.next() as i64 >> 1;
    let begun = 1_767_225_600_000 + random.below(1 << 30) as i64;
    let ids = Int64Array::from_iter_values((0..rows as i64).map(|i| first.wrapping_add(i)));
    let times = (0..rows as i64).map(|i| begun + i / 8);
    let times = TimestampMillisecondArray::from_iter_values(times);
    let users: Vec<i64> = (0..rows).map(|_| random.below(50_000) as i64).collect();
    let sessions = StringArray::from_iter_values(users.iter().map(|u| {
        let session = (*u as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{session:016x}")
    }));
    let urls = StringArray::from_iter_values((0..rows).map(|_| {
        let path = PATHS[random.below(6) as usize];
        format!("https://shop.example.com/{path}/{}", random.below(20_000))
    }));
    let referrers = (0..rows)
        .map(|_| (random.below(3) > 0).then(|| format!("https://news.example.org/{}", random.below(500))));
    let referrers = StringArray::from_iter(referrers);
    let countries = StringArray::from_iter_values((0..rows).map(|_| COUNTRIES[random.below(8) as usize]));
    let devices = StringArray::from_iter_values((0..rows).map(|_| DEVICES[random.below(3) as usize]));
    let durations = Int32Array::from_iter_values((0..rows).map(|_| random.below(30_000) as i32));
    let revenue = (0..rows).map(|_| (random.below(20) == 0).then(|| random.below(50_000) as f64 / 100.0));
    let revenue = Float64Array::from_iter(revenue);
    [
        ("event_id", Arc::new(ids), false),
        ("at", Arc::new(times), false),
        ("user_id", Arc::new(Int64Array::from(users)), false),
        ("session", Arc::new(sessions), false),
        ("url", Arc::new(urls), false),
        ("referrer", Arc::new(referrers), true),
        ("country", Arc::new(countries), false),
        ("device", Arc::new(devices), false),
        ("duration_ms", Arc::new(durations), false),
        ("revenue", Arc::new(revenue), true),
    ]
}

#[cfg(test)]
mod tests {
    use wadi_model::batch::conform;
    use wadi_model::{Table, TableId};

    use super::*;

    #[test]
    fn rows_fit_their_table_exactly() {
        for shape in [Shape::Events, Shape::Equal] {
            let spec = shape.table("rows", 2);
            let table = Table::create(TableId(1), "bench.rows".parse().unwrap(), &spec, 0).unwrap();
            let batch = shape.batch(100, 7).unwrap();
            assert_eq!(batch.schema_ref(), table.schema().arrow());
            assert!(conform(&batch, table.schema()).unwrap().1.is_empty());
            assert_eq!(batch, shape.batch(100, 7).unwrap());
            assert_ne!(batch, shape.batch(100, 8).unwrap());
        }
    }
}
