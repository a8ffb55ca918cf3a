//! What can be wrong with a message or a stream, told with its place.

use arrow::datatypes::DataType;

/// A message that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum IpcError {
    /// The encoder got a type that chunks do not hold.
    #[error("column `{column}` has type {data_type}, which chunks do not hold; cast it to a plain type")]
    NotStored {
        /// Path of the column, nested fields after a dot.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// The frame or the metadata of a message is wrong.
    #[error("bad Arrow message: {0}")]
    Message(String),
    /// The array of a column is wrong.
    #[error("bad Arrow message: column `{column}`: {problem}")]
    Column {
        /// Path of the column, nested fields after a dot.
        column: String,
        /// What is wrong.
        problem: String,
    },
    /// A buffer of a column is wrong.
    #[error("bad Arrow message: column `{column}`, {buffer} buffer: {problem}")]
    Buffer {
        /// Path of the column, nested fields after a dot.
        column: String,
        /// Which of its buffers: `validity`, `offsets`, `values` …
        buffer: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The data would be larger in memory than the caller allows.
    #[error("Arrow data of more than {limit} bytes uncompressed")]
    TooLarge {
        /// The limit of the caller, in bytes.
        limit: u64,
    },
    /// A projection names a column that the message does not have.
    #[error("no column {index}: the message has {columns} columns")]
    NoColumn {
        /// The index asked for.
        index: usize,
        /// Columns of the message.
        columns: usize,
    },
    /// A compressor failed while writing.
    #[error("cannot compress column `{column}`: {problem}")]
    Compress {
        /// Path of the column.
        column: String,
        /// What the compressor says.
        problem: String,
    },
}

impl IpcError {
    pub(super) fn message(problem: impl Into<String>) -> Self {
        Self::Message(problem.into())
    }
}

/// An Arrow IPC stream that cannot be read. Messages are counted from 1 (the schema), bytes from 0.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The body is an Arrow file.
    #[error("the body is an Arrow IPC file (magic ARROW1); send the Arrow IPC stream format instead")]
    FileFormat,
    /// The body has no message at all.
    #[error("the body is empty; an Arrow IPC stream starts with a schema message")]
    Empty,
    /// A message does not start with the continuation marker.
    #[error(
        "message {message} at byte {byte} does not start with FF FF FF FF; \
         send the Arrow IPC stream format of Arrow 0.15 or later"
    )]
    NoContinuation {
        /// Number of the message.
        message: usize,
        /// Where it starts.
        byte: usize,
    },
    /// The body ends inside a message.
    #[error(
        "the body ends inside message {message}, which starts at byte {byte}: its {part} needs {needed} bytes, {left} are left"
    )]
    Truncated {
        /// Number of the message.
        message: usize,
        /// Where it starts.
        byte: usize,
        /// `frame`, `metadata` or `body`.
        part: &'static str,
        /// Bytes that the part needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// There are bytes after the end-of-stream marker.
    #[error("{bytes} bytes follow the end-of-stream marker at byte {byte}; send one stream a body")]
    Trailing {
        /// Where the marker starts.
        byte: usize,
        /// How many bytes follow it.
        bytes: usize,
    },
    /// The first message is not a schema, or another one is.
    #[error("message {message} at byte {byte} is a {got}, not a {wanted}")]
    UnexpectedMessage {
        /// Number of the message.
        message: usize,
        /// Where it starts.
        byte: usize,
        /// What it is.
        got: String,
        /// What the stream needs here.
        wanted: &'static str,
    },
    /// The schema has more fields than allowed, nested ones counted.
    #[error("the schema has more than {limit} fields, nested ones counted")]
    TooManyFields {
        /// The limit.
        limit: usize,
    },
    /// The schema nests deeper than allowed.
    #[error("field `{field}` is nested deeper than {limit} levels")]
    TooDeep {
        /// Path of the field.
        field: String,
        /// The limit.
        limit: usize,
    },
    /// A field of the schema has no type that Arrow can hold.
    #[error("field `{field}` of the schema: {problem}")]
    Field {
        /// Path of the field.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// The schema message itself is wrong.
    #[error("the schema message is wrong: {0}")]
    Schema(String),
    /// The stream has more rows than allowed.
    #[error("the stream has more than {limit} rows")]
    TooManyRows {
        /// The limit.
        limit: usize,
    },
    /// A dictionary batch is for no field of the schema.
    #[error("message {message} at byte {byte}: dictionary {id} belongs to no field of the schema")]
    UnknownDictionary {
        /// Number of the message.
        message: usize,
        /// Where it starts.
        byte: usize,
        /// Id of the dictionary.
        id: i64,
    },
    /// A delta came before the dictionary it extends.
    #[error(
        "message {message} at byte {byte}: delta of dictionary {id}, which the stream has not sent before"
    )]
    DeltaWithoutBase {
        /// Number of the message.
        message: usize,
        /// Where it starts.
        byte: usize,
        /// Id of the dictionary.
        id: i64,
    },
    /// A message is wrong.
    #[error("message {message} at byte {byte}: {source}")]
    Message {
        /// Number of the message.
        message: usize,
        /// Where it starts.
        byte: usize,
        /// What is wrong.
        source: IpcError,
    },
}
