//! Keys that lie in the map that orders them, so that looking for a place in it follows no pointers.

use std::borrow::Borrow;
use std::cmp::Ordering;

use bytes::Bytes;

/// Most bytes of a key that lies in its map: those of a few numbers behind the bucket.
const INLINE: usize = 46;

/// A key of the database.
#[derive(Clone, Debug)]
pub(in crate::shard) enum Key {
    Inline { len: u8, bytes: [u8; INLINE] },
    Long(Bytes),
}

impl From<&Bytes> for Key {
    fn from(key: &Bytes) -> Key {
        match u8::try_from(key.len()) {
            Ok(len) if key.len() <= INLINE => {
                let mut bytes = [0; INLINE];
                bytes[..key.len()].copy_from_slice(key);
                Key::Inline { len, bytes }
            }
            _ => Key::Long(key.clone()),
        }
    }
}

impl Key {
    fn as_slice(&self) -> &[u8] {
        match self {
            Key::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Key::Long(key) => key,
        }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        match self {
            Key::Inline { .. } => Bytes::copy_from_slice(self.as_slice()),
            Key::Long(key) => key.clone(),
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_sort_and_read_back_as_their_bytes(
            a in proptest::collection::vec(0u8..3, 0..60), b in proptest::collection::vec(0u8..3, 0..60), cut in 0usize..60,
        ) {
            // Keys with a beginning in common too.
            let b = [&a[..cut.min(a.len())], b.as_slice()].concat();
            let (a, b) = (Bytes::from(a), Bytes::from(b));
            let (of_a, of_b) = (Key::from(&a), Key::from(&b));
            prop_assert_eq!(of_a.cmp(&of_b), a.cmp(&b));
            prop_assert_eq!(of_a == of_b, a == b);
            prop_assert_eq!(of_a.to_bytes(), a);
        }
    }
}
