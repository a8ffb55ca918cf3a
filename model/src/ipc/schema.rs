//! The schema message of a stream that a client sent.
//!
//! Arrow's own conversion of a schema panics on types it does not know, and recurses as deep as it is told. This
//! one counts fields and levels first, and names the field that is wrong.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION,
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit, UnionFields, UnionMode,
};
use arrow_ipc as ipc;
use flatbuffers::{ForwardsUOffset, Vector};

use super::dictionaries::{Dictionaries, Ids};
use super::error::StreamError;

/// Bounds on a schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaLimits {
    /// Fields, nested ones counted.
    pub(super) fields: usize,
    /// Levels; a top-level column is at level 1.
    pub(super) depth: usize,
}

/// A schema and its dictionaries.
#[derive(Debug)]
pub(super) struct StreamSchema {
    pub(super) schema: SchemaRef,
    /// Dictionary ids of the fields; the children are the top-level columns.
    pub(super) ids: Ids,
    pub(super) dictionaries: Dictionaries,
}

/// Converts a verified schema.
pub(super) fn read_schema(
    schema: &ipc::Schema<'_>,
    limits: SchemaLimits,
) -> Result<StreamSchema, StreamError> {
    if schema.endianness() != ipc::Endianness::Little {
        return Err(StreamError::Schema("its data is big-endian; send little-endian data".to_owned()));
    }
    let mut reader =
        SchemaReader { limits, fields: 0, path: Vec::new(), dictionaries: Dictionaries::default() };
    let (fields, ids) = reader.fields(schema.fields())?;
    let metadata = metadata(schema.custom_metadata());
    Ok(StreamSchema {
        schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
        ids: Ids { id: None, children: ids },
        dictionaries: reader.dictionaries,
    })
}

type FieldVector<'a> = Option<Vector<'a, ForwardsUOffset<ipc::Field<'a>>>>;

fn metadata<'a>(pairs: Option<Vector<'a, ForwardsUOffset<ipc::KeyValue<'a>>>>) -> HashMap<String, String> {
    let pairs = pairs.into_iter().flatten();
    pairs.filter_map(|pair| Some((pair.key()?.to_owned(), pair.value()?.to_owned()))).collect()
}

struct SchemaReader {
    limits: SchemaLimits,
    /// Fields seen.
    fields: usize,
    /// Names from the top-level column to the field at hand.
    path: Vec<String>,
    dictionaries: Dictionaries,
}

impl SchemaReader {
    fn fields(&mut self, fields: FieldVector<'_>) -> Result<(Fields, Vec<Ids>), StreamError> {
        let len = fields.map_or(0, |fields| fields.len());
        self.fields += len;
        if self.fields > self.limits.fields {
            return Err(StreamError::TooManyFields { limit: self.limits.fields });
        }
        let read: Vec<(FieldRef, Ids)> =
            fields.into_iter().flatten().map(|field| self.field(&field)).collect::<Result<_, _>>()?;
        let (fields, ids): (Vec<FieldRef>, Vec<Ids>) = read.into_iter().unzip();
        Ok((fields.into(), ids))
    }

    fn field(&mut self, field: &ipc::Field<'_>) -> Result<(FieldRef, Ids), StreamError> {
        self.path.push(field.name().unwrap_or_default().to_owned());
        if self.path.len() > self.limits.depth {
            return Err(StreamError::TooDeep { field: self.path.join("."), limit: self.limits.depth });
        }
        let (children, ids) = self.fields(field.children())?;
        let mut ids = Ids { id: None, children: ids };
        let mut data_type = data_type(field, children).map_err(|problem| self.problem(problem))?;
        if let Some(encoding) = field.dictionary() {
            let key = key_type(&encoding).map_err(|problem| self.problem(problem))?;
            let declared = self.dictionaries.declare(encoding.id(), &data_type, ids.clone());
            declared.map_err(|problem| self.problem(problem))?;
            ids.id = Some(encoding.id());
            data_type = DataType::Dictionary(Box::new(key), Box::new(data_type));
        }
        let name = self.path.pop().unwrap_or_default();
        let read =
            Field::new(name, data_type, field.nullable()).with_metadata(metadata(field.custom_metadata()));
        Ok((Arc::new(read), ids))
    }

    fn problem(&self, problem: String) -> StreamError {
        StreamError::Field { field: self.path.join("."), problem }
    }
}

fn key_type(encoding: &ipc::DictionaryEncoding<'_>) -> Result<DataType, String> {
    match encoding.indexType() {
        // The format says: without a type, keys are int32.
        None => Ok(DataType::Int32),
        Some(int) => int_type(&int),
    }
}

fn int_type(int: &ipc::Int<'_>) -> Result<DataType, String> {
    Ok(match (int.bitWidth(), int.is_signed()) {
        (8, true) => DataType::Int8,
        (16, true) => DataType::Int16,
        (32, true) => DataType::Int32,
        (64, true) => DataType::Int64,
        (8, false) => DataType::UInt8,
        (16, false) => DataType::UInt16,
        (32, false) => DataType::UInt32,
        (64, false) => DataType::UInt64,
        (bits, _) => return Err(format!("there are no integers of {bits} bits")),
    })
}

/// The type of a field, without its dictionary.
fn data_type(field: &ipc::Field<'_>, children: Fields) -> Result<DataType, String> {
    let kind = field.type_type();
    let missing = || format!("its type {kind:?} has no parameters");
    Ok(match kind {
        ipc::Type::Null => DataType::Null,
        ipc::Type::Bool => DataType::Boolean,
        ipc::Type::Int => int_type(&field.type_as_int().ok_or_else(missing)?)?,
        ipc::Type::FloatingPoint => match field.type_as_floating_point().ok_or_else(missing)?.precision() {
            ipc::Precision::HALF => DataType::Float16,
            ipc::Precision::SINGLE => DataType::Float32,
            ipc::Precision::DOUBLE => DataType::Float64,
            other => return Err(format!("there are no floats of precision {other:?}")),
        },
        ipc::Type::Decimal => decimal(&field.type_as_decimal().ok_or_else(missing)?)?,
        ipc::Type::Utf8 => DataType::Utf8,
        ipc::Type::LargeUtf8 => DataType::LargeUtf8,
        ipc::Type::Utf8View => DataType::Utf8View,
        ipc::Type::Binary => DataType::Binary,
        ipc::Type::LargeBinary => DataType::LargeBinary,
        ipc::Type::BinaryView => DataType::BinaryView,
        ipc::Type::FixedSizeBinary => {
            let width = field.type_as_fixed_size_binary().ok_or_else(missing)?.byteWidth();
            DataType::FixedSizeBinary(not_negative("width", width)?)
        }
        ipc::Type::Date => match field.type_as_date().ok_or_else(missing)?.unit() {
            ipc::DateUnit::DAY => DataType::Date32,
            ipc::DateUnit::MILLISECOND => DataType::Date64,
            other => return Err(format!("there are no dates of unit {other:?}")),
        },
        ipc::Type::Time => time(&field.type_as_time().ok_or_else(missing)?)?,
        ipc::Type::Timestamp => {
            let timestamp = field.type_as_timestamp().ok_or_else(missing)?;
            DataType::Timestamp(time_unit(timestamp.unit())?, timestamp.timezone().map(Into::into))
        }
        ipc::Type::Duration => {
            DataType::Duration(time_unit(field.type_as_duration().ok_or_else(missing)?.unit())?)
        }
        ipc::Type::Interval => match field.type_as_interval().ok_or_else(missing)?.unit() {
            ipc::IntervalUnit::YEAR_MONTH => DataType::Interval(IntervalUnit::YearMonth),
            ipc::IntervalUnit::DAY_TIME => DataType::Interval(IntervalUnit::DayTime),
            ipc::IntervalUnit::MONTH_DAY_NANO => DataType::Interval(IntervalUnit::MonthDayNano),
            other => return Err(format!("there are no intervals of unit {other:?}")),
        },
        ipc::Type::List => DataType::List(only_child(&children)?),
        ipc::Type::LargeList => DataType::LargeList(only_child(&children)?),
        ipc::Type::ListView => DataType::ListView(only_child(&children)?),
        ipc::Type::LargeListView => DataType::LargeListView(only_child(&children)?),
        ipc::Type::FixedSizeList => {
            let size = field.type_as_fixed_size_list().ok_or_else(missing)?.listSize();
            DataType::FixedSizeList(only_child(&children)?, not_negative("size", size)?)
        }
        ipc::Type::Struct_ => DataType::Struct(children),
        ipc::Type::Map => map(&children, field.type_as_map().ok_or_else(missing)?.keysSorted())?,
        ipc::Type::RunEndEncoded => run_ends(&children)?,
        ipc::Type::Union => union(&field.type_as_union().ok_or_else(missing)?, children)?,
        other => return Err(format!("its type {other:?} is not known")),
    })
}

fn not_negative(what: &str, value: i32) -> Result<i32, String> {
    if value < 0 { Err(format!("its {what} is {value}")) } else { Ok(value) }
}

fn only_child(children: &Fields) -> Result<FieldRef, String> {
    match &children[..] {
        [child] => Ok(Arc::clone(child)),
        _ => Err(format!("a list has one child, this has {}", children.len())),
    }
}

fn decimal(decimal: &ipc::Decimal<'_>) -> Result<DataType, String> {
    let (bits, precision, scale) = (decimal.bitWidth(), decimal.precision(), decimal.scale());
    let (max, make): (u8, fn(u8, i8) -> DataType) = match bits {
        32 => (DECIMAL32_MAX_PRECISION, DataType::Decimal32),
        64 => (DECIMAL64_MAX_PRECISION, DataType::Decimal64),
        128 => (DECIMAL128_MAX_PRECISION, DataType::Decimal128),
        256 => (DECIMAL256_MAX_PRECISION, DataType::Decimal256),
        _ => return Err(format!("there are no decimals of {bits} bits")),
    };
    let in_range =
        (1..=i32::from(max)).contains(&precision) && (-i32::from(max)..=precision).contains(&scale);
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if in_range => Ok(make(precision, scale)),
        _ => Err(format!("decimal({precision}, {scale}) does not fit into {bits} bits")),
    }
}

fn time_unit(unit: ipc::TimeUnit) -> Result<TimeUnit, String> {
    Ok(match unit {
        ipc::TimeUnit::SECOND => TimeUnit::Second,
        ipc::TimeUnit::MILLISECOND => TimeUnit::Millisecond,
        ipc::TimeUnit::MICROSECOND => TimeUnit::Microsecond,
        ipc::TimeUnit::NANOSECOND => TimeUnit::Nanosecond,
        other => return Err(format!("there is no time unit {other:?}")),
    })
}

fn time(time: &ipc::Time<'_>) -> Result<DataType, String> {
    let unit = time_unit(time.unit())?;
    match (time.bitWidth(), unit) {
        (32, TimeUnit::Second | TimeUnit::Millisecond) => Ok(DataType::Time32(unit)),
        (64, TimeUnit::Microsecond | TimeUnit::Nanosecond) => Ok(DataType::Time64(unit)),
        (bits, unit) => Err(format!("there are no times of {bits} bits in {unit:?}")),
    }
}

fn map(children: &Fields, keys_sorted: bool) -> Result<DataType, String> {
    let entries = only_child(children)?;
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => Ok(DataType::Map(entries, keys_sorted)),
        other => Err(format!("the entries of a map are a struct of key and value, not {other}")),
    }
}

fn run_ends(children: &Fields) -> Result<DataType, String> {
    let [ends, values] = &children[..] else {
        return Err(format!("runs have two children, these have {}", children.len()));
    };
    if !ends.data_type().is_run_ends_type() || ends.is_nullable() {
        return Err(format!("run ends are int16, int32 or int64 without nulls, not {}", ends.data_type()));
    }
    Ok(DataType::RunEndEncoded(Arc::clone(ends), Arc::clone(values)))
}

fn union(union: &ipc::Union<'_>, children: Fields) -> Result<DataType, String> {
    let mode = match union.mode() {
        ipc::UnionMode::Dense => UnionMode::Dense,
        ipc::UnionMode::Sparse => UnionMode::Sparse,
        other => return Err(format!("there are no unions of mode {other:?}")),
    };
    if children.is_empty() {
        return Err("a union has at least one child".to_owned());
    }
    let ids: Vec<i32> = match union.typeIds() {
        Some(ids) => ids.iter().collect(),
        None => (0..children.len()).map(|id| i32::try_from(id).unwrap_or(i32::MAX)).collect(),
    };
    let ids: Vec<i8> = ids
        .into_iter()
        .map(|id| i8::try_from(id).map_err(|_| format!("a type id of its union is {id}; 0 to 127 are known")))
        .collect::<Result<_, _>>()?;
    let fields = UnionFields::try_new(ids, children.iter().cloned()).map_err(|error| error.to_string())?;
    Ok(DataType::Union(fields, mode))
}
