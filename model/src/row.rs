//! Rows of primary-key tables as bytes, as the shard stores and merges them.
//!
//! ```text
//! row    = schema id u16 LE | null bits | fields
//! fields = the values that are not null, in schema order; null bits: one a column, lowest first, 1 is null, ceil(n/8) bytes
//! ```
//!
//! A field is the bytes of [`field`]; those whose type does not say where they end (`char`, `string`, `binary`,
//! `bytes`, `array`, `map`, `row`) have their length before them, as a [`crate::varint`]. Values inside others are
//! written likewise:
//!
//! | type | bytes after the length |
//! | --- | --- |
//! | `array` | number of elements (varint), null bits, elements |
//! | `map` | number of entries (varint), keys, null bits of the values, values |
//! | `row` | null bits, fields |
//!
//! There is one spelling of each value: lengths and numbers take their fewest bytes, unused null bits are 0, nothing
//! follows the last field. So equal rows are equal bytes, but for the floats (0.0 and -0.0, kinds of NaN), which are
//! kept as they came. What differs is [`DamagedRow`].
//!
//! [`RowCodec`] turns Arrow columns into rows and back, and takes single rows apart for merge engines; [`RowUpgrade`]
//! brings a row to a later schema version. Whether a column may be null is judged where rows come in, not here: rows
//! of a partial update have nulls in all columns that they do not name. docs/decisions/0006-stored-rows.md says why
//! rows look like this.

pub use codec::RowCodec;
pub use fault::{Damage, DamagedRow, RowFault};
pub use rows::Rows;
pub use upgrade::RowUpgrade;

pub(crate) use take::take_array;

use crate::ids::SchemaId;

mod codec;
mod fault;
pub mod field;
mod read;
mod rows;
mod take;
#[cfg(test)]
mod tests;
mod upgrade;
mod write;

/// The schema version that a stored row names; `None` if it is too short to name one.
pub fn schema_of(row: &[u8]) -> Option<SchemaId> {
    row.first_chunk().map(|id| SchemaId(u16::from_le_bytes(*id)))
}
