//! Many rows, or keys, in one buffer.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// Byte strings one after the other. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    bytes: Bytes,
    ends: Arc<[u32]>,
}

impl Rows {
    /// Rows that end where `ends` say, which do not fall and end where `bytes` do.
    pub(crate) fn new(bytes: Vec<u8>, ends: Vec<u32>) -> Rows {
        Rows { bytes: bytes.into(), ends: ends.into() }
    }

    /// Rows of which the bytes and the ends came from elsewhere; `None` if the ends fall, or do not end where `bytes` do.
    pub fn of_parts(bytes: Bytes, ends: Vec<u32>) -> Option<Rows> {
        let last = ends.last().copied().unwrap_or(0) as usize;
        (ends.is_sorted() && last == bytes.len()).then(|| Rows { bytes, ends: ends.into() })
    }

    /// Where each ends.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all of them.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn range(&self, row: usize) -> Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[row] as usize
    }

    /// The bytes of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.range(row)]
    }

    /// The bytes of a row as a share of the buffer, which stays as a whole as long as one share does.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn slice(&self, row: usize) -> Bytes {
        self.bytes.slice(self.range(row))
    }

    /// All of them in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_fit_are_no_rows() {
        let bytes = Bytes::from_static(b"abcd");
        let rows = Rows::of_parts(bytes.clone(), vec![1, 1, 4]).unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bcd"]);
        assert_eq!(Rows::of_parts(Bytes::new(), vec![]).unwrap().len(), 0);
        for ends in [vec![], vec![3], vec![2, 1, 4], vec![4, 5]] {
            assert_eq!(Rows::of_parts(bytes.clone(), ends), None);
        }
    }
}
