//! Groups rows by partition.
//!
//! The values of the partition columns become comparable bytes, many rows at once; rows that follow one another mostly have
//! the same, so a row costs one comparison. Names are made once for each distinct value.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::error::ArrowError;
use arrow::row::{Row, RowConverter, SortField};

use super::{AutoPartition, MAX_PARTITIONS, SEPARATOR, value};
use crate::fault::{ErrorKind, Fault};
use crate::name::MAX_NAME;
use crate::reject::{Rejects, RowError, preview};
use crate::schema::Column;
use crate::table::Table;

/// The rows of one request have more partitions than a table may have.
#[derive(Debug, thiserror::Error)]
pub enum TooManyPartitions {
    /// Too many.
    #[error(
        "the rows have more than {MAX_PARTITIONS} partitions, and no table has more; \
        partition by fewer values, or send rows of fewer partitions"
    )]
    Rows,
    /// The columns could not be compared.
    #[error("the rows could not be grouped: {0}")]
    Arrow(#[from] ArrowError),
}

impl Fault for TooManyPartitions {
    fn kind(&self) -> ErrorKind {
        match self {
            TooManyPartitions::Rows => ErrorKind::Rejected,
            TooManyPartitions::Arrow(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            TooManyPartitions::Rows => "too_many_partitions",
            TooManyPartitions::Arrow(_) => "internal",
        }
    }
}

/// The partitions of rows.
#[derive(Clone, Debug)]
pub struct Grouping {
    names: Vec<String>,
    /// For each row the place of its name, or [`NONE`].
    of_rows: Vec<u32>,
    /// Rows without a partition, by their position in the batch.
    pub rejects: Rejects,
}

/// Rows whose values are made comparable at once.
const STEP: usize = 8192;

/// The group of rejected rows.
const NONE: u32 = u32::MAX;

/// What is known of the partition columns.
struct Key<'a> {
    columns: Vec<(&'a Column, &'a ArrayRef)>,
    auto: Option<AutoPartition>,
    now: Option<i64>,
}

impl Grouping {
    /// Groups rows by their partition columns, given in the order of the key. With `now` (milliseconds since 1970), rows
    /// whose partition is expired are rejected, too.
    pub fn of(table: &Table, columns: &[ArrayRef], now: Option<i64>) -> Result<Grouping, TooManyPartitions> {
        let known = table.partition_columns().into_iter().map(|i| &table.schema().columns()[i]);
        // What a table's options say is checked when it is made and altered.
        let auto = AutoPartition::of(table).ok().flatten();
        let key = Key { columns: known.zip(columns).collect(), auto, now };
        key.group(columns.first().map_or(0, |column| column.len()))
    }

    /// The place of each row's name in [`Grouping::names`]. Only for rows that are not rejected.
    pub fn of_rows(&self) -> &[u32] {
        &self.of_rows
    }

    /// Takes the rejected rows out; what is left is the grouping of the others.
    pub fn take_rejects(&mut self) -> Rejects {
        if !self.rejects.is_empty() {
            self.of_rows.retain(|group| *group != NONE);
        }
        std::mem::take(&mut self.rejects)
    }

    /// Leaves rows out, which have a `false` here.
    pub fn keep(&mut self, keep: &BooleanBuffer) {
        let mut keep = keep.iter();
        self.of_rows.retain(|_| keep.next().unwrap_or(false));
    }

    /// The names that occur.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// What has been found so far.
struct Found {
    grouping: Grouping,
    /// Groups by comparable bytes. Values without a name are not kept: there may be as many as rows.
    by_values: HashMap<Box<[u8]>, u32>,
    by_name: HashMap<String, u32>,
}

impl Found {
    fn group(
        &mut self,
        values: &[u8],
        name: impl FnOnce() -> Result<String, RowError>,
    ) -> Result<u32, TooManyPartitions> {
        if let Some(group) = self.by_values.get(values) {
            return Ok(*group);
        }
        let Ok(name) = name() else { return Ok(NONE) };
        let names = &mut self.grouping.names;
        let group = *self.by_name.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as u32 - 1
        });
        if names.len() > MAX_PARTITIONS {
            return Err(TooManyPartitions::Rows);
        }
        // The many values that are NaN have one name.
        if self.by_values.len() <= MAX_PARTITIONS {
            self.by_values.insert(values.into(), group);
        }
        Ok(group)
    }
}

impl Key<'_> {
    fn group(&self, count: usize) -> Result<Grouping, TooManyPartitions> {
        let fields = self.columns.iter().map(|(_, array)| SortField::new(array.data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        let mut found = Found {
            grouping: Grouping {
                names: Vec::new(),
                of_rows: Vec::with_capacity(count),
                rejects: Rejects::default(),
            },
            by_values: HashMap::new(),
            by_name: HashMap::new(),
        };
        // Step by step: the bytes take more room than the columns.
        for from in (0..count).step_by(STEP) {
            let slice = |(_, array): &(&Column, &ArrayRef)| array.slice(from, STEP.min(count - from));
            let rows = converter.convert_columns(&self.columns.iter().map(slice).collect::<Vec<_>>())?;
            let mut last: Option<(Row<'_>, u32)> = None;
            for (row, values) in (from..).zip(rows.iter()) {
                let group = match last {
                    Some((same, group)) if same == values => group,
                    _ => found.group(values.as_ref(), || self.name(row))?,
                };
                if group == NONE {
                    found.grouping.rejects.add(row as u64, || self.name(row).err().unwrap_or_default());
                }
                found.grouping.of_rows.push(group);
                last = Some((values, group));
            }
        }
        Ok(found.grouping)
    }

    /// The name of a row's partition.
    fn name(&self, row: usize) -> Result<String, RowError> {
        let number = row as u64;
        let mut name = String::new();
        for (i, (column, array)) in self.columns.iter().enumerate() {
            let error = |expected: String, got: String, hint: Option<&str>| RowError {
                row: number,
                line: None,
                column: Some(column.name.clone()),
                expected,
                got,
                hint: hint.map(str::to_owned),
            };
            if array.is_null(row) {
                let hint = "rows of a partitioned table need a value in each partition column";
                return Err(error(
                    format!("a {} that names a partition", column.data_type),
                    "null".to_owned(),
                    Some(hint),
                ));
            }
            let spelled = value::spell(&column.data_type, array, row)
                .map_err(|expected| error(expected, shown(array, row), None))?;
            if let Some(auto) = self.auto.as_ref().filter(|auto| auto.position() == i) {
                auto.judge(&spelled, self.now).map_err(|e| e.row_error(number, &column.name, &spelled))?;
            }
            if i > 0 {
                name.push(SEPARATOR);
            }
            name.push_str(&spelled);
            if name.len() > MAX_NAME {
                let expected = format!("values that make a name of at most {MAX_NAME} characters");
                return Err(error(expected, preview(&name), None));
            }
        }
        Ok(name)
    }
}

/// A value as an error shows it.
fn shown(array: &ArrayRef, row: usize) -> String {
    let text = arrow::util::display::array_value_to_string(array, row);
    preview(&text.unwrap_or_else(|_| "a value that cannot be shown".to_owned()))
}
