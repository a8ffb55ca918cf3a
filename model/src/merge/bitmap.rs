//! Unions of serialized Roaring bitmaps: of 32 bits in the portable format, of 64 bits in the portable treemap format.
//!
//! What is stored is always in normal form, whatever a writer sent: containers in their smallest form, no empty parts.
//! Reading is strict, since a bitmap comes from users: all of it must be
//! read, keys must ascend. A bitmap takes no more memory than a small multiple of its bytes: the library keeps runs as
//! runs, and each container was paid for by bytes that were there.

use roaring::{RoaringBitmap, RoaringTreemap};

use super::MAX_AGGREGATED;
use super::fold::FoldFault;

/// Which numbers a bitmap holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Bits32,
    Bits64,
}

impl Width {
    /// What a value should be, for people.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Width::Bits32 => "a Roaring bitmap of 32-bit numbers in the portable format",
            Width::Bits64 => "a Roaring bitmap of 64-bit numbers in the portable treemap format",
        }
    }
}

/// Whether the bytes are such a bitmap; else what is wrong with them.
pub(super) fn check(width: Width, bytes: &[u8]) -> Result<(), &'static str> {
    match width {
        Width::Bits32 => read32(bytes).map(drop),
        Width::Bits64 => read64(bytes).map(drop),
    }
}

/// Appends the same set in normal form.
pub(super) fn put_normal(width: Width, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    match width {
        Width::Bits32 => write32(read32(bytes)?, out),
        Width::Bits64 => write64(read64(bytes)?, out),
    }
    Ok(())
}

/// Appends the union of a stored and a new bitmap, in normal form.
pub(super) fn put_union(width: Width, stored: &[u8], new: &[u8], out: &mut Vec<u8>) -> Result<(), FoldFault> {
    match width {
        Width::Bits32 => {
            let new = read32(new).map_err(FoldFault::Bitmap)?;
            write32(read32(stored).map_err(|_| FoldFault::Damaged)? | new, out);
        }
        Width::Bits64 => {
            let new = read64(new).map_err(FoldFault::Bitmap)?;
            write64(read64(stored).map_err(|_| FoldFault::Damaged)? | new, out);
        }
    }
    Ok(())
}

fn read32(mut bytes: &[u8]) -> Result<RoaringBitmap, &'static str> {
    sized(bytes)?;
    let bitmap = take32(&mut bytes)?;
    if bytes.is_empty() { Ok(bitmap) } else { Err("bytes follow its end") }
}

fn take32(bytes: &mut &[u8]) -> Result<RoaringBitmap, &'static str> {
    RoaringBitmap::deserialize_from(bytes).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => "it ends too early",
        _ => "it is not in the portable format",
    })
}

/// The library's own reader lets a later part replace an earlier one of the same number; here that is a fault.
fn read64(mut bytes: &[u8]) -> Result<RoaringTreemap, &'static str> {
    sized(bytes)?;
    let early = "it ends too early";
    let parts = u64::from_le_bytes(*bytes.split_off(..8).and_then(|b| b.first_chunk()).ok_or(early)?);
    // Each part has its number and the two words of an empty bitmap at least.
    if parts > bytes.len() as u64 / 12 {
        return Err(early);
    }
    let mut last = None;
    let mut read = Vec::new();
    for _ in 0..parts {
        let number = u32::from_le_bytes(*bytes.split_off(..4).and_then(|b| b.first_chunk()).ok_or(early)?);
        if last.replace(number).is_some_and(|last| number <= last) {
            return Err("its parts do not ascend");
        }
        let part = take32(&mut bytes)?;
        // An empty part says nothing, and would stay in the bytes.
        if !part.is_empty() {
            read.push((number, part));
        }
    }
    if bytes.is_empty() { Ok(RoaringTreemap::from_bitmaps(read)) } else { Err("bytes follow its end") }
}

fn sized(bytes: &[u8]) -> Result<(), &'static str> {
    if bytes.len() > MAX_AGGREGATED { Err("it is longer than 8 MiB") } else { Ok(()) }
}

fn write32(mut bitmap: RoaringBitmap, out: &mut Vec<u8>) {
    bitmap.optimize();
    out.reserve(bitmap.serialized_size());
    bitmap.serialize_into(out).expect("writing to memory does not fail");
}

fn write64(mut bitmap: RoaringTreemap, out: &mut Vec<u8>) {
    bitmap.optimize();
    out.reserve(bitmap.serialized_size());
    bitmap.serialize_into(out).expect("writing to memory does not fail");
}
