//! Where a tail goes on: the next offset of each bucket, as one opaque word.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use wadi_model::{ErrorKind, Offset, Table, TableId, varint};

use crate::problem::Problem;

/// What cursors begin with, so that they are not taken for times.
const PREFIX: &str = "c1.";

/// Longest cursor that is read, in characters.
const LONGEST: usize = 16 << 10;

/// The next offset of each bucket of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub table: TableId,
    pub offsets: Vec<Offset>,
}

impl Cursor {
    /// The cursor as a word.
    pub(super) fn write(&self) -> String {
        let mut bytes = Vec::with_capacity(8 + self.offsets.len() * 3);
        for number in std::iter::once(self.table.0).chain(self.offsets.iter().map(|o| o.0)) {
            varint::put(&mut bytes, number);
        }
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a word; `None` if it is no cursor.
    pub(super) fn read(word: &str) -> Option<Cursor> {
        let word = word.strip_prefix(PREFIX).filter(|w| w.len() <= LONGEST)?;
        let bytes = URL_SAFE_NO_PAD.decode(word).ok()?;
        let mut rest = bytes.as_slice();
        let table = TableId(varint::take(&mut rest)?);
        let mut offsets = Vec::new();
        while !rest.is_empty() {
            offsets.push(Offset(varint::take(&mut rest)?));
        }
        Some(Cursor { table, offsets })
    }

    /// The cursor, if it belongs to this table. Buckets that it does not know begin at their start.
    pub(super) fn checked(mut self, table: &Table) -> Result<Cursor, Problem> {
        if self.table != table.id || self.offsets.len() > table.buckets as usize {
            let detail = format!(
                "this cursor belongs to another table than the present \"{}\"; begin anew",
                table.name
            );
            return Err(Problem::new(ErrorKind::Gone, "cursor_gone", detail));
        }
        self.offsets.resize(table.buckets as usize, Offset(0));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cursors_read_back(table in any::<u64>(), offsets in proptest::collection::vec(any::<u64>(), 0..20)) {
            let cursor = Cursor { table: TableId(table), offsets: offsets.into_iter().map(Offset).collect() };
            prop_assert_eq!(Cursor::read(&cursor.write()), Some(cursor));
        }

        #[test]
        fn hostile_words_never_panic(word in "(c1\\.)?[ -~]{0,60}") {
            let _ = Cursor::read(&word);
        }
    }
}
