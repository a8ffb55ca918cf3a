//! Commands: changes of a shard's state that are not rows, as chunks of log objects.
//!
//! A command changes the state of one bucket, whose id its chunk carries; the chunk has no rows. It says everything that is to
//! be known, so that who applies it reads nothing else. Later kinds get fields of their own; a reader that knows none of
//! those that are set must not go on, since it cannot tell what it would miss.

use bytes::Bytes;
use prost::Message;

use super::{Chunk, ChunkKind, Damaged, damaged};
use crate::keys::ids::IdRanges;

/// A change of a bucket's state.
#[derive(Clone, PartialEq, Message)]
pub struct Command {
    /// The ids that the bucket has left after the rows that the object brings.
    #[prost(message, optional, tag = "1")]
    pub ids: Option<IdRanges>,
}

impl Command {
    /// The chunk of the command, which stands before chunk `next` of its bucket.
    pub fn chunk(&self, next: &Chunk) -> (Chunk, Bytes) {
        let bytes = Bytes::from(self.encode_to_vec());
        let chunk = Chunk {
            table: next.table,
            partition: next.partition,
            bucket: next.bucket,
            kind: ChunkKind::Command as i32,
            base_offset: next.base_offset,
            crc: crc32c::crc32c(&bytes),
            raw_len: bytes.len() as u64,
            ..Chunk::default()
        };
        (chunk, bytes)
    }

    /// Reads the bytes of a command's chunk.
    pub fn read(bytes: &[u8]) -> Result<Command, Damaged> {
        let command = Command::decode(bytes).map_err(|e| Damaged(format!("a command: {e}")))?;
        if command == Command::default() {
            return damaged("a command is of a kind that is not known here");
        }
        Ok(command)
    }
}
