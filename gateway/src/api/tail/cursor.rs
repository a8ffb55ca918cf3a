//! Where a tail goes on: the next offset of each bucket of each partition, as one opaque word.
//!
//! After the prefix, base64 of numbers of variable length: the table, then for each partition (0 in tables without
//! partitions) its id, the number of its buckets, and their offsets.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use wadi_model::{Offset, PartitionId, TableId, varint};

/// What cursors begin with, so that they are not taken for times.
const PREFIX: &str = "c2.";

/// What cursors began with before there were partitions: the table and the offsets, nothing else.
const OLD_PREFIX: &str = "c1.";

/// Longest cursor that is read, in characters.
const LONGEST: usize = 16 << 10;

/// The next offsets of a table's buckets, by partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub table: TableId,
    pub partitions: BTreeMap<PartitionId, Vec<Offset>>,
}

impl Cursor {
    /// The cursor as a word.
    pub(super) fn write(&self) -> String {
        let mut bytes = Vec::with_capacity(64);
        varint::put(&mut bytes, self.table.0);
        for (partition, offsets) in &self.partitions {
            varint::put(&mut bytes, partition.0);
            varint::put(&mut bytes, offsets.len() as u64);
            offsets.iter().for_each(|offset| varint::put(&mut bytes, offset.0));
        }
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a word; `None` if it is no cursor.
    pub(super) fn read(word: &str) -> Option<Cursor> {
        let old = word.strip_prefix(OLD_PREFIX);
        let word = old.or_else(|| word.strip_prefix(PREFIX)).filter(|w| w.len() <= LONGEST)?;
        let bytes = URL_SAFE_NO_PAD.decode(word).ok()?;
        let mut rest = bytes.as_slice();
        let table = TableId(varint::take(&mut rest)?);
        let mut partitions = BTreeMap::new();
        if old.is_some() {
            let mut offsets = Vec::new();
            while !rest.is_empty() {
                offsets.push(Offset(varint::take(&mut rest)?));
            }
            partitions.insert(PartitionId::NONE, offsets);
        }
        while !rest.is_empty() {
            let partition = PartitionId(varint::take(&mut rest)?);
            let buckets: u64 = varint::take(&mut rest)?;
            // No more than there are bytes: each offset takes one at least.
            let buckets = usize::try_from(buckets).ok().filter(|n| *n <= rest.len())?;
            let offsets = (0..buckets).map(|_| varint::take(&mut rest).map(Offset));
            if partitions.insert(partition, offsets.collect::<Option<_>>()?).is_some() {
                return None;
            }
        }
        Some(Cursor { table, partitions })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cursors_read_back(table in any::<u64>(), partitions in proptest::collection::btree_map(any::<u64>(), proptest::collection::vec(any::<u64>(), 0..9), 0..5)) {
            let line = |(id, offsets): (u64, Vec<u64>)| (PartitionId(id), offsets.into_iter().map(Offset).collect());
            let cursor = Cursor { table: TableId(table), partitions: partitions.into_iter().map(line).collect() };
            prop_assert_eq!(Cursor::read(&cursor.write()), Some(cursor));
        }

        #[test]
        fn hostile_words_never_panic(word in "(c[12]\\.)?[ -~]{0,60}") {
            let _ = Cursor::read(&word);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Cursor::read(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)));
        }
    }

    #[test]
    fn older_cursors_are_read() {
        let mut bytes = Vec::new();
        for number in [7u64, 300, 0] {
            varint::put(&mut bytes, number);
        }
        let cursor = Cursor::read(&format!("c1.{}", URL_SAFE_NO_PAD.encode(bytes))).unwrap();
        assert_eq!(cursor.table, TableId(7));
        assert_eq!(cursor.partitions, [(PartitionId::NONE, vec![Offset(300), Offset(0)])].into());
    }
}
