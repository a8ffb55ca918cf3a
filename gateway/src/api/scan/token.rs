//! Where a scan goes on: a word that means something to the gateway alone.
//!
//! After the prefix, base64 of the table, the gateway, the scan, the token of the owner whose snapshot the place was found in, the bucket's place in
//! the scan, how many rows were given, and the key behind which the next page begins. Whoever makes one up reaches no other
//! scan than one whose number he knows, and no other rows than its own.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use wadi_model::{TableId, Token, varint};

const PREFIX: &str = "s2.";

/// Longest word that is read, in characters.
const LONGEST: usize = 16 << 10;

/// Where a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageToken {
    pub table: TableId,
    /// The gateway that keeps the scan.
    pub gateway: u64,
    pub scan: u128,
    pub position: Position,
}

/// A place in the rows of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The place of the bucket among those of the scan.
    pub place: usize,
    /// The owner whose snapshot of the bucket is read; none before it is begun.
    pub owner: Option<Token>,
    /// Rows that were given before.
    pub given: u64,
    /// The encoded primary key behind which it goes on.
    pub after: Option<Vec<u8>>,
}

impl PageToken {
    /// The token as a word.
    pub(super) fn write(&self) -> String {
        let Position { place, owner, given, after } = &self.position;
        let mut bytes = Vec::with_capacity(64);
        varint::put(&mut bytes, self.table.0);
        bytes.extend_from_slice(&self.gateway.to_le_bytes());
        bytes.extend_from_slice(&self.scan.to_le_bytes());
        varint::put(&mut bytes, owner.map_or(0, |owner| owner.0));
        varint::put(&mut bytes, *place as u64);
        varint::put(&mut bytes, *given);
        if let Some(after) = after {
            bytes.push(1);
            bytes.extend_from_slice(after);
        }
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a word; `None` if it is no token.
    pub(super) fn read(word: &str) -> Option<PageToken> {
        let word = word.strip_prefix(PREFIX).filter(|word| word.len() <= LONGEST)?;
        let bytes = URL_SAFE_NO_PAD.decode(word).ok()?;
        let mut rest = bytes.as_slice();
        let table = TableId(varint::take(&mut rest)?);
        let gateway = u64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?);
        let scan = u128::from_le_bytes(*rest.split_off(..16)?.first_chunk()?);
        let owner: u64 = varint::take(&mut rest)?;
        let place = usize::try_from(varint::take(&mut rest)?).ok()?;
        let given = varint::take(&mut rest)?;
        let after = match rest.split_first() {
            None => None,
            Some((1, key)) => Some(key.to_vec()),
            Some(_) => return None,
        };
        let owner = (owner > 0).then_some(Token(owner));
        Some(PageToken { table, gateway, scan, position: Position { place, owner, given, after } })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tokens_read_back(
            numbers in any::<[u64; 3]>(),
            scan in any::<u128>(),
            place in any::<usize>(),
            after in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        ) {
            let [table, owner, given] = numbers;
            let owner = (owner > 0).then_some(Token(owner));
            let position = Position { place, owner, given, after };
            let token = PageToken { table: TableId(table), gateway: table ^ 7, scan, position };
            prop_assert_eq!(PageToken::read(&token.write()), Some(token));
        }

        #[test]
        fn hostile_words_never_panic(word in "(s2\\.)?[ -~]{0,60}") {
            let _ = PageToken::read(&word);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = PageToken::read(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)));
        }
    }
}
