//! Keys as bytes that sort as the keys do.
//!
//! Columns stand one after the other, without separators, because each says itself where it ends:
//!
//! | type | bytes |
//! | --- | --- |
//! | `boolean` | 0 or 1 |
//! | `tinyint` … `bigint`, `date`, `time`, `timestamp`, `timestamp_ltz` | big endian in the width of Arrow's type, sign bit flipped; days, or ticks of the column's own unit |
//! | `decimal` | 16 bytes likewise, of the unscaled number |
//! | `float`, `double` | big endian; negative numbers with all bits flipped, others with the sign bit flipped; -0.0 is 0.0, and there is one NaN, above all numbers |
//! | `char`, `string`, `binary`, `bytes` | groups of eight bytes, the last filled up with zeros, and a byte after each: 9 if more groups follow, else how many bytes of the group count |
//!
//! Keys are never null. What follows:
//!
//! * Bytes compare as the tuples of values do, text by its bytes.
//! * The key of the first columns is a prefix of the whole key, and of no key with other values in them: prefix lookup
//!   is a scan from the prefix to [`prefix_end`].
//! * Equal values are equal bytes, and each key has one spelling.
//!
//! The bytes depend on a column's width and unit, so a column of a primary key is never widened
//! (see [`crate::evolve`]). Golden vectors keep the format; it is ours, since stored keys outlive every library.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType as ArrowType;

pub use fault::{DamagedKey, KeyFault};

use crate::columns::{Builder, View};
use crate::row::{Damage, Rows};
use crate::types::DataType;

mod fault;
mod read;
#[cfg(test)]
mod tests;
mod write;

/// Most bytes of a key. The store writes a few before it, and its keys end at 64 KiB.
pub const MAX_KEY_BYTES: usize = 64 * 1024 - 64;

/// Writes and reads the keys of one table. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KeyCodec {
    types: Arc<[ArrowType]>,
}

impl KeyCodec {
    /// A codec for keys of columns of these types.
    pub fn new(types: &[DataType]) -> Result<KeyCodec, KeyFault> {
        if let Some(column) = types.iter().position(|data_type| !data_type.can_be_key()) {
            return Err(KeyFault::Unsupported { column, data_type: types[column].clone() });
        }
        Ok(KeyCodec { types: types.iter().map(DataType::to_arrow).collect() })
    }

    /// The keys of the rows, whose key columns are given in key order. With the first columns alone the result is the
    /// prefixes that their keys share.
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Rows, KeyFault> {
        let views = self.views(columns, rows)?;
        let mut out = Vec::with_capacity(rows.saturating_mul(16 * views.len()));
        let mut ends = Vec::with_capacity(rows);
        for row in 0..rows {
            let most = out.len() + MAX_KEY_BYTES;
            let fits = views.iter().all(|view| write::put(view.values(), row, most, &mut out));
            if !fits || out.len() > most {
                return Err(KeyFault::TooLong { row });
            }
            ends.push(u32::try_from(out.len()).map_err(|_| KeyFault::TooLarge)?);
        }
        out.shrink_to_fit();
        Ok(Rows::new(out, ends))
    }

    /// The rows whose keys would be longer than [`MAX_KEY_BYTES`].
    pub fn too_long(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>, KeyFault> {
        let views = self.views(columns, rows)?;
        let length = |row| views.iter().map(|view| write::length(view.values(), row)).sum::<usize>();
        Ok((0..rows).filter(|row| length(*row) > MAX_KEY_BYTES).collect())
    }

    fn views(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<View>, KeyFault> {
        if columns.len() > self.types.len() {
            return Err(KeyFault::Columns { given: columns.len(), columns: self.types.len() });
        }
        let mut views = Vec::with_capacity(columns.len());
        for (column, (array, expected)) in columns.iter().zip(self.types.iter()).enumerate() {
            if array.len() != rows {
                return Err(KeyFault::Length { column, rows, got: array.len() });
            }
            let view = View::new(array).filter(|_| array.data_type() == expected);
            let view = view.ok_or_else(|| KeyFault::Type {
                column,
                expected: expected.clone(),
                got: array.data_type().clone(),
            })?;
            if let Some(row) = view.first_null() {
                return Err(KeyFault::Null { column, row });
            }
            views.push(view);
        }
        Ok(views)
    }

    /// The columns of whole keys, in key order.
    pub fn decode<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, DamagedKey> {
        let keys = keys.into_iter();
        let builder = |data_type| {
            Builder::new(data_type, keys.size_hint().0).expect("`new` takes only types of tables")
        };
        let mut builders: Vec<Builder> = self.types.iter().map(builder).collect();
        let mut text = Vec::new();
        for (key, bytes) in keys.enumerate() {
            let damaged = |column, damage| DamagedKey { key, column, damage };
            let mut rest = bytes;
            for (i, builder) in builders.iter_mut().enumerate() {
                read::append(builder, &mut rest, &mut text).map_err(|damage| damaged(Some(i), damage))?;
            }
            if !rest.is_empty() {
                return Err(damaged(None, Damage::Trailing { bytes: rest.len() }));
            }
        }
        Ok(builders.into_iter().zip(self.types.iter()).map(|(b, data_type)| b.finish(data_type)).collect())
    }
}

/// The smallest byte string above all that begin with `prefix`; `None` if nothing is above them.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
