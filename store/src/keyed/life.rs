//! How long rows live (`table.kv.row.ttl`).
//!
//! A row's end is a time that follows from the log alone: from the `_timestamp` of its write, or from its time column. So a
//! replay gives rows the same ends, whenever it happens. The end is stored with the row, and who reads the row compares it with
//! the clock; the changelog says nothing of it.

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use wadi_model::SchemaId;
use wadi_model::row::{RowCodec, field};

use super::KeyedTable;

/// The end of a row that lives for ever.
pub(crate) const FOREVER: i64 = i64::MAX;

/// How long the rows of one version of a table live.
#[derive(Clone, Debug)]
pub enum Life {
    /// For ever.
    Endless,
    /// So many milliseconds from their write.
    FromWrite(i64),
    /// So many milliseconds from the time that they say.
    FromColumn {
        /// How long.
        millis: i64,
        /// The rows' codec.
        codec: RowCodec,
        /// The position of the time column.
        column: usize,
        /// The unit of its values.
        unit: TimeUnit,
    },
}

impl Life {
    pub(super) fn of(table: &KeyedTable, schema: SchemaId) -> Life {
        let options = &table.table.options;
        let Some(ttl) = options.row_ttl() else { return Life::Endless };
        let millis = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let Some(name) = options.row_ttl_column() else { return Life::FromWrite(millis) };
        let newest = table.table.schema();
        let id = newest.index_of(name).map(|at| newest.columns()[at].id);
        let found = id.zip(table.codec(schema)).and_then(|(id, codec)| {
            let column = codec.schema().index_of_id(id)?;
            let unit = match codec.schema().arrow().field(column).data_type() {
                ArrowType::Timestamp(unit, _) => *unit,
                _ => TimeUnit::Millisecond,
            };
            Some(Life::FromColumn { millis, codec: codec.clone(), column, unit })
        });
        // The column is there in each version: it is named when the table is made, and cannot be dropped.
        found.unwrap_or(Life::Endless)
    }

    /// The time, in milliseconds since 1970, until which a row lives that was written at `time`.
    pub fn end(&self, row: &[u8], time: i64) -> i64 {
        match self {
            Life::Endless => FOREVER,
            Life::FromWrite(millis) => time.saturating_add(*millis),
            Life::FromColumn { millis, codec, column, unit } => {
                let mut fields = Vec::new();
                let said = codec.split(row, &mut fields).ok().and_then(|()| field::int(fields[*column]?));
                // A row that does not say when it began has no end.
                said.map_or(FOREVER, |said| millis_of(said, *unit).saturating_add(*millis))
            }
        }
    }
}

fn millis_of(ticks: i128, unit: TimeUnit) -> i64 {
    let millis = match unit {
        TimeUnit::Second => ticks.saturating_mul(1000),
        TimeUnit::Millisecond => ticks,
        TimeUnit::Microsecond => ticks.div_euclid(1000),
        TimeUnit::Nanosecond => ticks.div_euclid(1_000_000),
    };
    // Whole numbers of columns have 64 bits; only seconds can exceed them.
    i64::try_from(millis).unwrap_or(if millis < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray, TimestampSecondArray};
    use wadi_model::{Table, TableId, TableSpec};

    use super::*;

    fn end(time_type: &str, values: ArrayRef, properties: &[(&str, &str)]) -> i64 {
        let spec = TableSpec {
            primary_key: vec!["k".into()],
            properties: properties.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            ..TableSpec::log("t", &[("k", "bigint"), ("at", time_type)])
        };
        let table = Arc::new(Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap());
        let keyed = KeyedTable::new(table).unwrap();
        let keys = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
        let rows = keyed.newest().encode_columns(&[0, 1], &[keys, values], 1).unwrap();
        keyed.life(keyed.table().schema().id()).end(rows.get(0), 5_000)
    }

    #[test]
    fn a_row_ends_by_its_write_or_by_what_it_says() {
        let ttl = ("table.kv.row.ttl", "1s");
        let column = ("table.kv.row.ttl.time-column", "at");
        let number = |value: Option<i64>| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        assert_eq!(end("bigint", number(Some(7)), &[]), FOREVER);
        assert_eq!(
            end("bigint", number(Some(7)), &[column]),
            FOREVER,
            "without a TTL the column says nothing"
        );
        assert_eq!(end("bigint", number(Some(7)), &[ttl]), 6_000);
        assert_eq!(end("bigint", number(Some(7)), &[ttl, column]), 1_007);
        assert_eq!(end("bigint", number(None), &[ttl, column]), FOREVER);
        assert_eq!(end("bigint", number(Some(i64::MAX - 1)), &[ttl, column]), FOREVER);
        assert_eq!(end("bigint", number(Some(i64::MIN)), &[ttl, column]), i64::MIN + 1_000);
        let micros = Arc::new(TimestampMicrosecondArray::from(vec![-1]).with_timezone("UTC"));
        assert_eq!(end("timestamp_ltz(6)", micros, &[ttl, column]), 999);
        let seconds = Arc::new(TimestampSecondArray::from(vec![i64::MAX]).with_timezone("UTC"));
        assert_eq!(end("timestamp_ltz(0)", seconds, &[ttl, column]), FOREVER);
    }
}
