//! What must hold between a table's keys, types and options.

use super::{InvalidTable, Table, unknown};
use crate::bucketing::BucketFunction;
use crate::ids::FieldId;
use crate::merge::{AggFunction, Aggregate, default_fits};
use crate::options::column::Setting;
use crate::options::{self, ChangelogImage, DeleteBehavior, MergeKind};
use crate::partition::AutoPartition;
use crate::schema::Column;
use crate::types::DataType;

#[cfg(test)]
mod tests;

/// Options that mean something for primary-key tables only.
const KEYED: [&str; 7] = [
    options::MERGE_ENGINE,
    options::VERSION_COLUMN,
    options::VERSIONED_DELETES,
    options::DELETE_BEHAVIOR,
    options::CHANGELOG_IMAGE,
    options::ROW_TTL,
    options::ROW_TTL_COLUMN,
];

fn conflict<T>(option: &'static str, why: &'static str) -> Result<T, InvalidTable> {
    Err(InvalidTable::Conflict { option, why })
}

impl Table {
    /// Checks the whole table. Called for each new version of it.
    pub(crate) fn check(&self) -> Result<(), InvalidTable> {
        let stray = |role, ids: &[FieldId], of: &'static str, within: &[FieldId]| {
            let stray = ids.iter().find(|id| !within.contains(id));
            match stray {
                Some(id) => {
                    Err(InvalidTable::KeyOutside { role, column: self.names_of(&[*id]).concat(), of })
                }
                None => Ok(()),
            }
        };
        if self.has_primary_key() {
            stray("partition key", &self.partition_by, "primary key", &self.primary_key)?;
            stray("bucket key", &self.bucket_key, "primary key", &self.primary_key)?;
            if self.primary_key.iter().all(|id| self.partition_by.contains(id)) {
                return Err(InvalidTable::KeyIsPartition);
            }
        }
        self.check_partition_types()?;
        if let Some(id) = self.bucket_key.iter().find(|id| self.partition_by.contains(id)) {
            return Err(InvalidTable::BucketKeyInPartition { column: self.names_of(&[*id]).concat() });
        }
        self.check_auto_increment()?;
        self.check_options()
    }

    fn check_auto_increment(&self) -> Result<(), InvalidTable> {
        let Some(column) = self.auto_increment.and_then(|id| self.column_of(id)) else {
            return Ok(());
        };
        let why = if !self.has_primary_key() {
            "only primary-key tables have one"
        } else if self.primary_key.contains(&column.id) {
            "it is part of the primary key"
        } else if !matches!(column.data_type, DataType::Int | DataType::BigInt) {
            "it must be int or bigint"
        } else if column.default.is_some() {
            "it has a default"
        } else {
            return Ok(());
        };
        Err(InvalidTable::AutoIncrement { column: column.name.clone(), why })
    }

    fn check_partition_types(&self) -> Result<(), InvalidTable> {
        for index in self.partition_columns() {
            let column = &self.schema().columns()[index];
            if matches!(column.data_type, DataType::Decimal { .. }) {
                let (column, data_type) = (column.name.clone(), column.data_type.clone());
                return Err(InvalidTable::PartitionType { column, data_type });
            }
        }
        Ok(())
    }

    fn check_options(&self) -> Result<(), InvalidTable> {
        AutoPartition::of(self)?;
        if let Some(option) = KEYED.into_iter().find(|o| self.options.get(o).is_some())
            && !self.has_primary_key()
        {
            return conflict(option, "it is for primary-key tables only");
        }
        self.check_statistics()?;
        if self.bucket_function() == BucketFunction::Iceberg {
            let column = self.bucket_columns().first().map(|i| &self.schema().columns()[*i]);
            if let Some(c) = column.filter(|c| !BucketFunction::Iceberg.takes(&c.data_type)) {
                return Err(InvalidTable::BucketKeyType {
                    column: c.name.clone(),
                    data_type: c.data_type.clone(),
                });
            }
        }
        self.check_merge_engine()?;
        self.check_row_ttl()?;
        self.aggregates().map(drop)
    }

    fn check_statistics(&self) -> Result<(), InvalidTable> {
        let Some(columns) = self.options.get(options::STATISTICS).filter(|c| c.trim() != "*") else {
            return Ok(());
        };
        let schema = self.schema();
        for name in columns.split(',').map(str::trim) {
            if schema.index_of(name).is_none() {
                return Err(unknown("statistics", name, schema.nearest(name)));
            }
        }
        Ok(())
    }

    fn check_merge_engine(&self) -> Result<(), InvalidTable> {
        let engine = self.options.merge_engine();
        let given = |option| self.options.get(option);
        if engine != MergeKind::Versioned {
            let versioned = [options::VERSION_COLUMN, options::VERSIONED_DELETES];
            if let Some(option) = versioned.into_iter().find(|o| given(o).is_some()) {
                return conflict(option, "it is for table.merge-engine = versioned only");
            }
        } else {
            self.version_column()?;
        }
        if let (Some(a), Some(b)) = (given(options::DELETE_BEHAVIOR), given(options::VERSIONED_DELETES))
            && a != b
        {
            return conflict(options::VERSIONED_DELETES, "table.delete.behavior says something else");
        }
        let deletes = self.options.delete_behavior();
        if deletes == DeleteBehavior::Allow && matches!(engine, MergeKind::FirstRow | MergeKind::Versioned) {
            let option = match given(options::DELETE_BEHAVIOR) {
                Some(_) => options::DELETE_BEHAVIOR,
                None => options::VERSIONED_DELETES,
            };
            return conflict(option, "first_row and versioned tables ignore or disable deletes");
        }
        if engine == MergeKind::Aggregation && self.options.changelog_image() == ChangelogImage::Wal {
            return conflict(options::CHANGELOG_IMAGE, "an aggregation table has the full changelog");
        }
        Ok(())
    }

    fn check_row_ttl(&self) -> Result<(), InvalidTable> {
        if self.options.row_ttl().is_some() && self.options.is_set(options::LAKE_ENABLED) {
            return conflict(options::ROW_TTL, "rows of a table that is kept in the lake do not expire");
        }
        let Some(name) = self.options.get(options::ROW_TTL_COLUMN) else {
            return Ok(());
        };
        let column = self.named(options::ROW_TTL_COLUMN, name)?;
        match column.data_type {
            DataType::BigInt | DataType::TimestampLtz(_) => Ok(()),
            _ => Err(misfit(
                options::ROW_TTL_COLUMN,
                column,
                "times are bigint (milliseconds) or timestamp_ltz",
            )),
        }
    }

    /// The position of the version column of a `versioned` table.
    pub(crate) fn version_column(&self) -> Result<usize, InvalidTable> {
        let Some(name) = self.options.get(options::VERSION_COLUMN) else {
            return conflict(
                options::MERGE_ENGINE,
                "versioned needs table.merge-engine.versioned.ver-column",
            );
        };
        let column = self.named(options::VERSION_COLUMN, name)?;
        use DataType::{BigInt, Int, Timestamp, TimestampLtz};
        match (&column.data_type, self.schema().index_of_id(column.id)) {
            (Int | BigInt | Timestamp(_) | TimestampLtz(_), Some(position)) => Ok(position),
            _ => {
                let why = "versions are int, bigint, timestamp or timestamp_ltz";
                Err(misfit(options::VERSION_COLUMN, column, why))
            }
        }
    }

    /// The aggregate function of each column, in the order of the newest schema: what `fields.<column>.…` say, else
    /// the default. They are checked, and refused on tables that are no aggregation tables.
    pub(crate) fn aggregates(&self) -> Result<Vec<Aggregate>, InvalidTable> {
        let schema = self.schema();
        let mut functions = vec![None; schema.columns().len()];
        let mut delimiters = vec![None; functions.len()];
        let wrong =
            |option: &str, why: String| Err(InvalidTable::ColumnOption { option: option.to_owned(), why });
        for (option, name, value) in self.options.of_columns() {
            if self.options.merge_engine() != MergeKind::Aggregation {
                return wrong(name, "it is for table.merge-engine = aggregation only".to_owned());
            }
            let column = self.named("aggregation", option.column)?;
            let position = schema.index_of_id(column.id).unwrap_or_default();
            if self.primary_key.contains(&column.id) {
                return wrong(name, format!("column \"{}\" is part of the primary key", column.name));
            }
            if self.auto_increment == Some(column.id) {
                return wrong(name, format!("column \"{}\" is the auto-increment column", column.name));
            }
            match option.setting {
                Setting::Function => functions[position] = Some((name, value)),
                Setting::Delimiter if delimiters[position].is_some() => {
                    return wrong(
                        name,
                        format!("the delimiter of column \"{}\" is given twice", column.name),
                    );
                }
                Setting::Delimiter => delimiters[position] = Some((name, value)),
            }
        }
        let mut aggregates = Vec::with_capacity(functions.len());
        for (i, column) in schema.columns().iter().enumerate() {
            let (function, delimiter) = (functions[i], delimiters[i]);
            let mut aggregate = Aggregate::default();
            if let Some((name, value)) = function {
                let Ok(function) = AggFunction::parse(value) else {
                    return wrong(name, format!("\"{value}\" is no aggregate function"));
                };
                if !function.takes(&column.data_type) {
                    let (column, of) = (&column.name, &column.data_type);
                    let takes = function.types();
                    return wrong(name, format!("column \"{column}\" is {of}, and {value} takes {takes}"));
                }
                if schema.default_of(i).is_some_and(|value| !default_fits(function, value)) {
                    return wrong(name, format!("the default of column \"{}\" is no bitmap", column.name));
                }
                aggregate.function = function;
            }
            if let Some((name, value)) = delimiter {
                if !matches!(aggregate.function, AggFunction::ListAgg | AggFunction::StringAgg) {
                    return wrong(name, format!("the function of column \"{}\" is not listagg", column.name));
                }
                aggregate.delimiter = value.to_owned();
            }
            aggregates.push(aggregate);
        }
        Ok(aggregates)
    }

    /// The column that an option names.
    fn named(&self, role: &'static str, name: &str) -> Result<&Column, InvalidTable> {
        let schema = self.schema();
        let column = schema.index_of(name).map(|i| &schema.columns()[i]);
        column.ok_or_else(|| unknown(role, name, schema.nearest(name)))
    }

    fn column_of(&self, id: FieldId) -> Option<&Column> {
        self.schema().index_of_id(id).map(|i| &self.schema().columns()[i])
    }
}

fn misfit(option: &str, column: &Column, why: &str) -> InvalidTable {
    let why = format!("column \"{}\" is {}; {why}", column.name, column.data_type);
    InvalidTable::ColumnOption { option: option.to_owned(), why }
}
