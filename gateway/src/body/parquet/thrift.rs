//! Walks Thrift's compact protocol without building anything.

/// How deep structs may nest; Parquet's own go to about 8.
const MAX_DEPTH: usize = 32;

/// Longest list. Row groups are numbered in 15 bits, and tables have at most 2000 columns.
const MAX_LIST: u64 = 1 << 16;

/// Kinds of values that are looked at.
pub(super) const I32: u8 = 5;
/// A struct.
pub(super) const STRUCT: u8 = 12;

/// A place in a Thrift text. All methods give `None` where it is damaged.
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    /// Reads `bytes` from their start.
    pub(super) fn new(bytes: &'a [u8]) -> Thrift<'a> {
        Thrift { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed number.
    pub(super) fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next field of a struct as kind and number, given the number before; number 0 at its end.
    pub(super) fn field(&mut self, before: i64) -> Option<(u8, i64)> {
        let head = self.byte()?;
        match (head & 0x0F, head >> 4) {
            (0, _) => Some((0, 0)),
            (kind, 0) => Some((kind, self.number()?)),
            (kind, delta) => Some((kind, before + i64::from(delta))),
        }
    }

    /// Goes over a value of a field.
    pub(super) fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            1 | 2 => {} // a boolean field is its own value
            3 => self.forward(1)?,
            4..=6 => {
                self.varint()?;
            }
            7 => self.forward(8)?,
            8 => {
                let length = self.varint()?;
                self.forward(length)?;
            }
            9 | 10 => self.skip_list(depth)?,
            STRUCT => {
                let mut number = 0;
                loop {
                    let (kind, next) = self.field(number)?;
                    if kind == 0 {
                        break;
                    }
                    number = next;
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return None, // Parquet has no maps
        }
        Some(())
    }

    fn skip_list(&mut self, depth: usize) -> Option<()> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        if length > MAX_LIST {
            return None;
        }
        for _ in 0..length {
            match head & 0x0F {
                1 | 2 => self.forward(1)?,
                kind => self.skip(kind, depth + 1)?,
            }
        }
        Some(())
    }

    fn forward(&mut self, bytes: u64) -> Option<()> {
        let left = self.bytes.len() - self.at;
        let bytes = usize::try_from(bytes).ok().filter(|b| *b <= left)?;
        self.at += bytes;
        Some(())
    }
}
