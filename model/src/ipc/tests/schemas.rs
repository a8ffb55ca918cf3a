//! Schemas that Arrow would panic on, or that are too large.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc as ipc;
use arrow_ipc::convert::IpcSchemaEncoder;
use bytes::Bytes;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use crate::ipc::{Limits, StreamError, read_stream};

/// Puts a finished flatbuffer into a frame.
fn framed(flatbuffer: &[u8]) -> Bytes {
    let mut message = vec![0xFF; 4];
    message.extend_from_slice(&(flatbuffer.len() as i32).to_le_bytes());
    message.extend_from_slice(flatbuffer);
    Bytes::from(message)
}

fn schema_message(fbb: &mut FlatBufferBuilder<'_>, schema: WIPOffset<UnionWIPOffset>) -> Bytes {
    let args = ipc::MessageArgs {
        version: ipc::MetadataVersion::V5,
        header_type: ipc::MessageHeader::Schema,
        header: Some(schema),
        ..Default::default()
    };
    let message = ipc::Message::create(fbb, &args);
    fbb.finish(message, None);
    framed(fbb.finished_data())
}

fn read_fields(fields: Vec<Field>) -> Result<Schema, StreamError> {
    let mut fbb = FlatBufferBuilder::new();
    let mut tracker = ipc::writer::DictionaryTracker::new(false);
    let mut encoder = IpcSchemaEncoder::new().with_dictionary_tracker(&mut tracker);
    let schema = encoder.schema_to_fb_offset(&mut fbb, &Schema::new(fields));
    let message = schema_message(&mut fbb, schema.as_union_value());
    read_stream(message, &Limits::default()).map(|body| body.schema.as_ref().clone())
}

/// Reads a schema with one field of a type that Arrow itself would not write.
fn read_field(
    kind: ipc::Type,
    children: usize,
    make: impl FnOnce(&mut FlatBufferBuilder<'_>) -> WIPOffset<UnionWIPOffset>,
) -> StreamError {
    let mut fbb = FlatBufferBuilder::new();
    let name = fbb.create_string("odd");
    let bool_type = ipc::Bool::create(&mut fbb, &ipc::BoolArgs {}).as_union_value();
    let child = |fbb: &mut FlatBufferBuilder<'_>| {
        let args =
            ipc::FieldArgs { type_type: ipc::Type::Bool, type_: Some(bool_type), ..Default::default() };
        WIPOffset::new(ipc::Field::create(fbb, &args).value())
    };
    let children: Vec<WIPOffset<ipc::Field<'_>>> = (0..children).map(|_| child(&mut fbb)).collect();
    let children = fbb.create_vector(&children);
    let made = make(&mut fbb);
    let args = ipc::FieldArgs {
        name: Some(name),
        type_type: kind,
        type_: Some(made),
        children: Some(children),
        ..Default::default()
    };
    let field = ipc::Field::create(&mut fbb, &args);
    let fields = fbb.create_vector(&[field]);
    let schema =
        ipc::Schema::create(&mut fbb, &ipc::SchemaArgs { fields: Some(fields), ..Default::default() });
    let message = schema_message(&mut fbb, schema.as_union_value());
    read_stream(message, &Limits::default()).unwrap_err()
}

#[test]
fn types_that_do_not_exist_are_named() {
    let errors = [
        read_field(ipc::Type::Int, 0, |fbb| {
            ipc::Int::create(fbb, &ipc::IntArgs { bitWidth: 24, is_signed: true }).as_union_value()
        }),
        read_field(ipc::Type::Decimal, 0, |fbb| {
            let args = ipc::DecimalArgs { precision: 300, scale: 2, bitWidth: 128 };
            ipc::Decimal::create(fbb, &args).as_union_value()
        }),
        read_field(ipc::Type::Decimal, 0, |fbb| {
            let args = ipc::DecimalArgs { precision: 10, scale: 2_000, bitWidth: 128 };
            ipc::Decimal::create(fbb, &args).as_union_value()
        }),
        read_field(ipc::Type::Time, 0, |fbb| {
            let args = ipc::TimeArgs { unit: ipc::TimeUnit::NANOSECOND, bitWidth: 32 };
            ipc::Time::create(fbb, &args).as_union_value()
        }),
        read_field(ipc::Type::FixedSizeBinary, 0, |fbb| {
            ipc::FixedSizeBinary::create(fbb, &ipc::FixedSizeBinaryArgs { byteWidth: -1 }).as_union_value()
        }),
        read_field(ipc::Type::FixedSizeList, 1, |fbb| {
            ipc::FixedSizeList::create(fbb, &ipc::FixedSizeListArgs { listSize: -1 }).as_union_value()
        }),
        read_field(ipc::Type::List, 0, |fbb| ipc::List::create(fbb, &ipc::ListArgs {}).as_union_value()),
        read_field(ipc::Type::List, 2, |fbb| ipc::List::create(fbb, &ipc::ListArgs {}).as_union_value()),
        read_field(ipc::Type::Map, 1, |fbb| {
            ipc::Map::create(fbb, &ipc::MapArgs { keysSorted: false }).as_union_value()
        }),
        read_field(ipc::Type::RunEndEncoded, 2, |fbb| {
            ipc::RunEndEncoded::create(fbb, &ipc::RunEndEncodedArgs {}).as_union_value()
        }),
        read_field(ipc::Type::Union, 0, |fbb| {
            ipc::Union::create(fbb, &ipc::UnionArgs { mode: ipc::UnionMode::Dense, typeIds: None })
                .as_union_value()
        }),
        read_field(ipc::Type::Union, 200, |fbb| {
            ipc::Union::create(fbb, &ipc::UnionArgs { mode: ipc::UnionMode::Dense, typeIds: None })
                .as_union_value()
        }),
        read_field(ipc::Type::Union, 2, |fbb| {
            let ids = fbb.create_vector(&[1_i32, 1]);
            let args = ipc::UnionArgs { mode: ipc::UnionMode::Sparse, typeIds: Some(ids) };
            ipc::Union::create(fbb, &args).as_union_value()
        }),
        read_field(ipc::Type::Union, 2, |fbb| {
            let ids = fbb.create_vector(&[1_i32, 300]);
            let args = ipc::UnionArgs { mode: ipc::UnionMode::Sparse, typeIds: Some(ids) };
            ipc::Union::create(fbb, &args).as_union_value()
        }),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        assert!(matches!(&error, StreamError::Field { field, .. } if field == "odd"), "{index}: {error}");
    }
}

fn nested(levels: usize) -> Field {
    (1..levels).fold(Field::new("leaf", DataType::Int64, true), |field, _| {
        Field::new("list", DataType::List(Arc::new(field)), true)
    })
}

#[test]
fn nesting_is_limited() {
    assert!(read_fields(vec![nested(16)]).is_ok());
    assert!(matches!(read_fields(vec![nested(17)]), Err(StreamError::TooDeep { limit: 16, .. })));
    assert!(read_fields(vec![nested(1_000)]).is_err());
}

#[test]
fn fields_are_limited() {
    let columns = |n: usize| (0..n).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
    assert!(read_fields(columns(4_096)).is_ok());
    assert!(matches!(read_fields(columns(4_097)), Err(StreamError::TooManyFields { limit: 4_096 })));
    assert!(matches!(read_fields(columns(100_000)), Err(StreamError::TooManyFields { limit: 4_096 })));
    let inner: Vec<Field> = columns(4_096);
    let row = Field::new("row", DataType::Struct(inner.into()), true);
    assert!(matches!(read_fields(vec![row]), Err(StreamError::TooManyFields { .. })));
}

#[test]
fn big_endian_data_is_refused() {
    let mut fbb = FlatBufferBuilder::new();
    let fields = fbb.create_vector::<WIPOffset<ipc::Field<'_>>>(&[]);
    let args =
        ipc::SchemaArgs { endianness: ipc::Endianness::Big, fields: Some(fields), ..Default::default() };
    let schema = ipc::Schema::create(&mut fbb, &args);
    let message = schema_message(&mut fbb, schema.as_union_value());
    assert!(matches!(read_stream(message, &Limits::default()), Err(StreamError::Schema(_))));
}
