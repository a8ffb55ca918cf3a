//! What gateways send each other: a head in JSON, and sections of bytes behind it that are neither escaped nor copied.
//!
//! ```text
//! u32 LE   length of the head
//! head     {"head": …, "sections": [length, …]}
//! padding  to a multiple of 64
//! sections each padded to a multiple of 64, so that columns in them are aligned
//! ```
//! Both sides are of one cluster, but nothing of a message is believed: lengths are checked, and what is in the sections is checked by
//! whoever reads them.

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Heads and sections begin at multiples of this.
const ALIGNMENT: usize = 64;

/// Most sections of a message.
const MOST_SECTIONS: usize = 1 << 16;

#[derive(Serialize, Deserialize)]
struct Envelope<H> {
    head: H,
    sections: Vec<usize>,
}

/// A message that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message between gateways is damaged: {0}")]
pub(super) struct Malformed(pub String);

fn padding(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT) - len
}

/// The pieces of a message, to be sent one after the other.
pub(super) fn write(head: &impl Serialize, sections: Vec<Bytes>) -> Vec<Bytes> {
    let envelope = Envelope { head, sections: sections.iter().map(Bytes::len).collect() };
    // Heads are plain structures; those that JSON cannot hold are not sent.
    let head = serde_json::to_vec(&envelope).unwrap_or_default();
    let mut first = BytesMut::with_capacity(4 + head.len() + ALIGNMENT);
    first.extend_from_slice(&(head.len() as u32).to_le_bytes());
    first.extend_from_slice(&head);
    first.resize(first.len() + padding(first.len()), 0);
    let mut pieces = vec![first.freeze()];
    for section in sections {
        let pad = padding(section.len());
        pieces.push(section);
        if pad > 0 {
            pieces.push(Bytes::from_static(&[0; ALIGNMENT][..pad]));
        }
    }
    pieces
}

/// The head and the sections of a message.
pub(super) fn read<H: DeserializeOwned>(message: &Bytes) -> Result<(H, Vec<Bytes>), Malformed> {
    let malformed = |what: &str| Malformed(what.to_owned());
    let (len, rest) = message.split_first_chunk::<4>().ok_or_else(|| malformed("it has no head"))?;
    let len = u32::from_le_bytes(*len) as usize;
    let head = rest.get(..len).ok_or_else(|| malformed("its head is cut off"))?;
    let envelope: Envelope<H> = serde_json::from_slice(head).map_err(|e| Malformed(e.to_string()))?;
    if envelope.sections.len() > MOST_SECTIONS {
        return Err(malformed("it has too many sections"));
    }
    let mut at = 4 + len + padding(4 + len);
    let mut sections = Vec::with_capacity(envelope.sections.len());
    for len in envelope.sections {
        let end = at.checked_add(len).filter(|end| *end <= message.len());
        let end = end.ok_or_else(|| malformed("a section is cut off"))?;
        sections.push(message.slice(at..end));
        at = end + padding(len);
    }
    Ok((envelope.head, sections))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(pieces: &[Bytes]) -> Bytes {
        pieces.concat().into()
    }

    proptest! {
        #[test]
        fn messages_read_back(
            head in "\\PC{0,40}", sections in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..5)
        ) {
            let sections: Vec<Bytes> = sections.into_iter().map(Bytes::from).collect();
            let message = whole(&write(&head, sections.clone()));
            prop_assert_eq!(message.len() % ALIGNMENT, 0);
            prop_assert_eq!(read::<String>(&message).unwrap(), (head, sections));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in any::<usize>()) {
            let _ = read::<String>(&bytes.clone().into());
            let message = whole(&write(&"head", vec![bytes.into()]));
            let _ = read::<String>(&message.slice(..cut % message.len()));
        }
    }

    #[test]
    fn sections_that_are_not_there_are_noticed() {
        let message = whole(&write(&1, vec![Bytes::from_static(&[7; 100])]));
        assert!(read::<u8>(&message.slice(..message.len() - 64)).is_err());
        let text = br#"{"head":1,"sections":[18446744073709551615]}"#;
        let huge = [&(text.len() as u32).to_le_bytes()[..], text, &[0; 100]].concat();
        assert!(read::<u8>(&huge.into()).is_err());
        assert!(read::<u8>(&Bytes::new()).is_err());
    }
}
