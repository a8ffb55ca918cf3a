//! Compression of single buffers. The contexts live as long as one message.

use std::io::{BufRead, Cursor, Write};

use arrow::buffer::Buffer;
use arrow_ipc::CompressionType;
use zstd::zstd_safe;

use super::Compression;

/// Buffers below this stay raw: a frame costs more than it saves.
const MIN_COMPRESSED: usize = 256;
/// The uncompressed length that says "the rest is raw".
const RAW: i64 = -1;
/// Bytes of the uncompressed length before each compressed buffer.
pub(super) const LENGTH_PREFIX: usize = 8;

/// Appends buffers to a body.
pub(super) enum Compressor {
    None,
    Lz4,
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    pub(super) fn new(compression: Compression) -> std::io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::None,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd { level } => Self::Zstd(zstd::bulk::Compressor::new(level)?),
        })
    }

    /// What the metadata of the message says about its buffers.
    pub(super) fn codec(&self) -> Option<CompressionType> {
        match self {
            Self::None => None,
            Self::Lz4 => Some(CompressionType::LZ4_FRAME),
            Self::Zstd(_) => Some(CompressionType::ZSTD),
        }
    }

    /// Appends one buffer to `out`, without padding. An empty buffer has no bytes, also no length.
    pub(super) fn append(&mut self, plain: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        if plain.is_empty() {
            return Ok(());
        }
        if matches!(self, Self::None) {
            out.extend_from_slice(plain);
            return Ok(());
        }
        let start = out.len();
        if plain.len() >= MIN_COMPRESSED {
            let length = i64::try_from(plain.len()).expect("no allocation is larger than i64::MAX");
            out.extend_from_slice(&length.to_le_bytes());
            self.append_frame(plain, out)?;
            if out.len() - start < plain.len() + LENGTH_PREFIX {
                return Ok(());
            }
            out.truncate(start);
        }
        out.extend_from_slice(&RAW.to_le_bytes());
        out.extend_from_slice(plain);
        Ok(())
    }

    /// Appends one frame, whether it saves anything or not; without compression the bytes as they are.
    pub(super) fn append_frame(&mut self, plain: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        match self {
            Self::None => {
                out.extend_from_slice(plain);
                Ok(())
            }
            Self::Lz4 => append_lz4(plain, out),
            Self::Zstd(compressor) => append_zstd(compressor, plain, out),
        }
    }
}

fn append_lz4(plain: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
    encoder.write_all(plain)?;
    encoder.finish().map_err(std::io::Error::other)?;
    Ok(())
}

fn append_zstd(
    compressor: &mut zstd::bulk::Compressor<'static>,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    out.reserve(zstd_safe::compress_bound(plain.len()));
    let position = out.len() as u64;
    let mut cursor = Cursor::new(std::mem::take(out));
    cursor.set_position(position);
    let result = compressor.compress_to_buffer(plain, &mut cursor);
    *out = cursor.into_inner();
    result.map(drop)
}

/// The codecs of Arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// LZ4 frames.
    Lz4,
    /// zstd frames.
    Zstd,
}

impl Codec {
    pub(super) fn compression_type(self) -> CompressionType {
        match self {
            Self::Lz4 => CompressionType::LZ4_FRAME,
            Self::Zstd => CompressionType::ZSTD,
        }
    }

    /// Whether a buffer that a client compressed may be stored as it came. It must be what we would have written: not
    /// so small that it stays raw, smaller than raw, and one frame that says its length, without a dictionary, and
    /// with a window that every reader allows. The frame was decompressed, so the rest of it is sound.
    pub(super) fn storable(self, frame: &[u8], length: usize) -> bool {
        const MAGIC: [u8; 4] = zstd_safe::MAGICNUMBER.to_le_bytes();
        const DICTIONARY: u8 = 0b11;
        const SINGLE_SEGMENT: u8 = 1 << 5;
        // The exponent of the window's size, counted from 1 KiB: below 8 MiB.
        const WINDOW_END: u8 = 13;
        let Some([magic @ .., descriptor, window]) = frame.first_chunk::<6>() else { return false };
        self == Self::Zstd
            && (MIN_COMPRESSED.max(frame.len() + 1)..).contains(&length)
            && *magic == MAGIC
            && descriptor & DICTIONARY == 0
            && (descriptor & SINGLE_SEGMENT != 0 || window >> 3 < WINDOW_END)
            && zstd_safe::get_frame_content_size(frame).is_ok_and(|said| said == Some(length as u64))
            && zstd_safe::find_frame_compressed_size(frame).is_ok_and(|whole| whole == frame.len())
    }

    /// The most bytes that a frame of `compressed` bytes can hold: a match of LZ4 adds at most 255 bytes for each
    /// of its own, a block of zstd at most 128 KiB for its four.
    fn max_plain(self, compressed: usize) -> usize {
        match self {
            Self::Lz4 => compressed.saturating_mul(256),
            Self::Zstd => compressed.saturating_mul(128 * 1024 / 4),
        }
    }
}

/// What a compressed buffer says about itself.
pub(super) enum Length {
    /// The bytes after the length are the buffer.
    Raw,
    /// So many bytes after decompression.
    Plain(usize),
}

/// Reads the length before a buffer.
pub(super) fn uncompressed_len(buffer: &[u8]) -> Result<Length, String> {
    let Some(length) = buffer.first_chunk::<LENGTH_PREFIX>() else {
        return Err(format!("its {} bytes are too few for the uncompressed length", buffer.len()));
    };
    match i64::from_le_bytes(*length) {
        RAW => Ok(Length::Raw),
        length => usize::try_from(length)
            .map(Length::Plain)
            .map_err(|_| format!("its uncompressed length is {length}")),
    }
}

/// Decompresses buffers of one message.
#[derive(Default)]
pub(super) struct Decompressor {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    /// Decompresses a frame to exactly `length` bytes. The caller has checked `length` against its limit.
    pub(super) fn decompress(&mut self, codec: Codec, frame: &[u8], length: usize) -> Result<Buffer, String> {
        if length > codec.max_plain(frame.len()) {
            return Err(format!("{} bytes cannot decompress to {length}", frame.len()));
        }
        let plain = match codec {
            Codec::Lz4 => decompress_lz4(frame, length),
            Codec::Zstd => self.decompress_zstd(frame, length),
        };
        let plain = plain.map_err(|error| format!("it does not decompress: {error}"))?;
        if plain.len() != length {
            return Err(format!("it decompresses to {} bytes, not to {length}", plain.len()));
        }
        Ok(Buffer::from_vec(plain))
    }

    fn decompress_zstd(&mut self, frame: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
        let decompressor = match &mut self.zstd {
            Some(decompressor) => decompressor,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress(frame, length)
    }
}

fn decompress_lz4(frame: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    let mut decoder = lz4_flex::frame::FrameDecoder::new(frame);
    let mut plain = Vec::with_capacity(length);
    loop {
        // One byte too many says as much as all that follow.
        let room = length.saturating_add(1) - plain.len();
        let part = decoder.fill_buf()?;
        let part = &part[..part.len().min(room)];
        if part.is_empty() {
            return Ok(plain);
        }
        plain.extend_from_slice(part);
        let taken = part.len();
        decoder.consume(taken);
    }
}
