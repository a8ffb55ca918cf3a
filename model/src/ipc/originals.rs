//! Compressed buffers as a client sent them, to be stored as they came.
//!
//! Compression is most of the work of an append, and a client that sends buffers as tables store them has done it
//! already. [`read_stream`](super::read_stream) decompresses and checks every buffer, and remembers beside the plain
//! buffer the compressed one; [`encode_reusing`](super::encode_reusing) writes the compressed one where it meets the
//! same plain buffer again.
//!
//! A buffer is known by its address and length. It is held here, so its address is its own for as long as it can be
//! asked for, and a shared buffer does not change. Whatever changes values makes other buffers, which are not found.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::buffer::Buffer;

/// Compressed buffers, found by the plain ones. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Originals(Arc<BTreeMap<Key, Original>>);

/// Address and length of a plain buffer.
type Key = (usize, usize);

#[derive(Debug, Clone, PartialEq)]
struct Original {
    /// Held so that its address belongs to no other buffer.
    plain: Buffer,
    /// The uncompressed length, then a zstd frame.
    stored: Buffer,
}

impl Originals {
    /// The compressed form of a plain buffer.
    pub(super) fn of(&self, plain: &[u8]) -> Option<&[u8]> {
        self.0.get(&key(plain)).map(|original| original.stored.as_slice())
    }
}

/// Collects what a stream brings.
#[derive(Debug, Default)]
pub(super) struct Collected(BTreeMap<Key, Original>);

impl Collected {
    /// Remembers that `plain` came as `stored`, its uncompressed length and one zstd frame.
    pub(super) fn add(&mut self, plain: &Buffer, stored: Buffer) {
        self.0.insert(key(plain), Original { plain: plain.clone(), stored });
    }

    pub(super) fn finish(self) -> Originals {
        Originals(Arc::new(self.0))
    }
}

fn key(plain: &[u8]) -> Key {
    (plain.as_ptr().addr(), plain.len())
}
