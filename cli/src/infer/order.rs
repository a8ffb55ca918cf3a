//! The order in which the objects of an NDJSON text name their keys.

use std::collections::HashSet;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// The keys of the first `rows` objects, in the order of their first appearance. Lines that are no objects are passed
/// over: the inference itself tells what is wrong with them.
pub(super) fn of_keys(text: &[u8], rows: usize) -> Vec<String> {
    let mut keys = Keys::default();
    for line in text.split(|b| *b == b'\n').filter(|line| !line.is_empty()).take(rows) {
        let _ = serde_json::Deserializer::from_slice(line).deserialize_map(&mut keys);
    }
    keys.order
}

#[derive(Default)]
struct Keys {
    known: HashSet<String>,
    order: Vec<String>,
}

impl<'de> Visitor<'de> for &mut Keys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            if self.known.insert(key.clone()) {
                self.order.push(key);
            }
        }
        Ok(())
    }
}
