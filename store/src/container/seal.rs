//! Puts an object together from encoded chunks, without copying them.

use bytes::Bytes;

use super::footer::high_watermarks;
use super::{ALIGNMENT, Chunk, Footer, HEADER_LEN, Header, Trailer};

/// What lies between a chunk and the next aligned position.
static PADDING: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];

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

/// Puts an object together. Each chunk comes with its bytes; its place is filled in here. Chunks of one bucket stand
/// side by side, in the order of their offsets.
pub fn seal(header: Header, chunks: Vec<(Chunk, Bytes)>) -> SealedObject {
    let mut pieces = Vec::with_capacity(2 * chunks.len() + 3);
    pieces.push(Bytes::copy_from_slice(&header.write()));
    let mut at = HEADER_LEN;
    let mut footer = Footer { time: header.time, ..Footer::default() };
    let mut bodies = Vec::with_capacity(chunks.len());
    for (mut chunk, bytes) in chunks {
        chunk.start = at as u32;
        chunk.len = bytes.len() as u32;
        let padding = at.saturating_add(bytes.len()).next_multiple_of(ALIGNMENT as usize) - at - bytes.len();
        at += bytes.len() + padding;
        footer.chunks.push(chunk);
        pieces.push(bytes.clone());
        if padding > 0 {
            pieces.push(Bytes::from_static(&PADDING[..padding]));
        }
        bodies.push(bytes);
    }
    footer.high_watermarks = high_watermarks(&footer.chunks);
    let footer_bytes = footer.to_bytes();
    pieces.push(footer_bytes.clone());
    pieces.push(Bytes::copy_from_slice(&Trailer::write(&footer_bytes)));
    SealedObject { header, footer, footer_bytes, pieces, chunks: bodies }
}
