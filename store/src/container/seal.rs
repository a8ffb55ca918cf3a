//! Puts an object together from encoded chunks, without copying them.

use bytes::Bytes;
use prost::Message;

use super::{Chunk, Footer, HEADER_LEN, Header, HighWatermark, Trailer};

/// A complete object, as the pieces that a PUT takes.
#[derive(Clone, Debug)]
pub struct SealedObject {
    /// The header.
    pub header: Header,
    /// The decoded footer.
    pub footer: Footer,
    /// The encoded footer, which the index keeps too.
    pub footer_bytes: Bytes,
    /// The whole object in order.
    pub pieces: Vec<Bytes>,
    /// The chunks' bytes, in the order of the footer.
    pub chunks: Vec<Bytes>,
}

impl SealedObject {
    /// The object's size in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Whether it has no bytes, which no object has.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Puts an object together. Each chunk comes with its bytes, a multiple of 8; its place is filled in here. Chunks of
/// one bucket stand side by side, in the order of their offsets.
pub fn seal(header: Header, chunks: Vec<(Chunk, Bytes)>) -> SealedObject {
    let mut pieces = Vec::with_capacity(chunks.len() + 3);
    pieces.push(Bytes::copy_from_slice(&header.write()));
    let mut at = HEADER_LEN;
    let mut footer = Footer::default();
    let mut bodies = Vec::with_capacity(chunks.len());
    for (mut chunk, bytes) in chunks {
        debug_assert!(bytes.len() % 8 == 0, "a message is padded to 8 bytes");
        chunk.start = at as u32;
        chunk.len = bytes.len() as u32;
        at += bytes.len();
        let end = chunk.end().0;
        match footer.high_watermarks.last_mut() {
            Some(mark) if mark.bucket_id() == chunk.bucket_id() => mark.offset = end,
            _ => footer.high_watermarks.push(HighWatermark {
                table: chunk.table,
                partition: chunk.partition,
                bucket: chunk.bucket,
                offset: end,
            }),
        }
        footer.chunks.push(chunk);
        pieces.push(bytes.clone());
        bodies.push(bytes);
    }
    let footer_bytes = Bytes::from(footer.encode_to_vec());
    pieces.push(footer_bytes.clone());
    pieces.push(Bytes::copy_from_slice(&Trailer::write(&footer_bytes)));
    SealedObject { header, footer, footer_bytes, pieces, chunks: bodies }
}
