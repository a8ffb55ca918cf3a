//! The Arrow IPC codec: how the rows of one bucket become a chunk, and how Arrow bodies of requests are read.
//!
//! A stored chunk is one encapsulated `RecordBatch` message without its schema message: `FF FF FF FF`, the length
//! of the metadata (i32 LE), a flatbuffer padded so that the body starts at a multiple of 8, then the body. The
//! buffers of the body are compressed one by one; each is an i64 LE with its uncompressed length (-1: the rest is
//! raw) and the compressed bytes, padded to 8.
//!
//! * [`encode`] writes a chunk. The gateway and the compactor call it. [`encode_reusing`] does not compress again what
//!   came compressed.
//! * [`Layout`] reads the metadata of a chunk, and [`project`] makes the message of some of its columns out of it:
//!   both look at no buffer and decompress nothing, so a read of two columns moves the bytes of two columns.
//! * [`encode_small`] writes a chunk that is always read whole, as one frame without the message around its buffers;
//!   [`expand_small`] gives the message back.
//! * [`decode`] makes a [`RecordBatch`](arrow::array::RecordBatch) of a chunk.
//! * [`read_stream`] reads a whole Arrow IPC stream that a client sent.
//!
//! Invariants:
//! * No input makes this module panic, or allocate more than its length and the limit given by the caller.
//!   Every count, offset and length of the metadata is checked before Arrow sees the buffers, because Arrow's
//!   constructors assert and allocate on what they are told; Arrow then checks the values (offsets, UTF-8, keys).
//! * Buffers of a message lie in the order of the columns and do not overlap, so that the bytes of a column are
//!   one range.
//! * Chunks hold plain types only: no dictionary, view, list-view, run-end or union type.

mod compress;
mod decode;
mod dictionaries;
mod encode;
mod error;
mod frame;
mod header;
mod layout;
mod originals;
mod plain_size;
mod project;
mod schema;
mod shape;
mod small;
mod stream;
#[cfg(test)]
mod tests;

pub use compress::Codec;
pub use decode::decode;
pub use encode::{ColumnExtent, Encoded, encode, encode_reusing};
pub use error::{IpcError, StreamError};
pub use layout::{ColumnLayout, Layout};
pub use originals::Originals;
pub use project::{Projection, project, project_message};
pub use small::{SmallChunk, encode_small, expand_small};
pub use stream::{Limits, StreamBody, read_stream};

/// How the buffers of a chunk are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4 frames: half the CPU of zstd, about half its ratio.
    Lz4,
    /// zstd frames.
    Zstd {
        /// The level of zstd; it has the same ratio on columns at 1 as at 3, for half the CPU.
        level: i32,
    },
}

impl Compression {
    /// Whether buffers that a client compressed are as good as ours. Clients compress with zstd's level 1 or 3; who
    /// gives a table a higher level wants more than that.
    fn takes_originals(self) -> bool {
        matches!(self, Self::Zstd { level: ..=1 })
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self::Zstd { level: 1 }
    }
}
