//! How a request says who it is, so that sending it again does no harm.

use http::HeaderMap;
use wadi_model::ErrorKind;
use wadi_store::shard::Stamp;
use xxhash_rust::xxh3::Xxh3;

use super::OnError;
use crate::problem::Problem;

/// Longest producer id, in bytes.
const MAX_PRODUCER: usize = 64;

/// Longest idempotency key, in bytes.
const MAX_KEY: usize = 255;

/// The mark that the client put on a request.
#[derive(Debug, PartialEq)]
pub(super) enum Mark {
    /// `Idempotency-Key`.
    Key(String),
    /// `Wadi-Producer-Id` and `Wadi-Sequence`.
    Producer(String, u64),
}

impl Mark {
    /// Reads the headers.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Mark>, Problem> {
        let text = |name: &'static str| -> Result<Option<String>, Problem> {
            let Some(value) = headers.get(name) else { return Ok(None) };
            let text =
                value.to_str().map_err(|_| invalid(format!("header {name} has characters beyond ASCII")))?;
            Ok(Some(text.trim().to_owned()))
        };
        let key = text("idempotency-key")?;
        let producer = text("wadi-producer-id")?;
        let sequence = text("wadi-sequence")?;
        match (key, producer, sequence) {
            (None, None, None) => Ok(None),
            (Some(key), None, None) => {
                // The draft standard has it as a quoted string; most clients send it bare.
                let key =
                    key.strip_prefix('"').and_then(|k| k.strip_suffix('"')).map(str::to_owned).unwrap_or(key);
                check("Idempotency-Key", &key, MAX_KEY)?;
                Ok(Some(Mark::Key(key)))
            }
            (None, Some(producer), Some(sequence)) => {
                check("Wadi-Producer-Id", &producer, MAX_PRODUCER)?;
                let number = sequence.parse().map_err(|_| {
                    invalid(format!(
                        "header Wadi-Sequence is \"{sequence}\"; it numbers requests: 0, 1, 2, …"
                    ))
                })?;
                Ok(Some(Mark::Producer(producer, number)))
            }
            (None, Some(_), None) | (None, None, Some(_)) => {
                Err(invalid("Wadi-Producer-Id and Wadi-Sequence must be sent together".to_owned()))
            }
            (Some(_), ..) => {
                Err(invalid("send either Idempotency-Key, or Wadi-Producer-Id with Wadi-Sequence".to_owned()))
            }
        }
    }

    /// The stamp of a request that says `fingerprint`.
    pub(super) fn stamp(self, fingerprint: u64) -> Stamp {
        match self {
            Mark::Key(key) => crate::write::stamp(&key, 0, fingerprint, true),
            Mark::Producer(producer, sequence) => {
                crate::write::stamp(&producer, sequence, fingerprint, false)
            }
        }
    }
}

fn invalid(detail: String) -> Problem {
    Problem::new(ErrorKind::Invalid, "invalid_header", detail)
}

fn check(name: &str, value: &str, longest: usize) -> Result<(), Problem> {
    if value.is_empty() || value.len() > longest {
        return Err(invalid(format!(
            "header {name} has {} characters; it may have 1 to {longest}",
            value.len()
        )));
    }
    Ok(())
}

/// A hash of what a request says: the same for a retry, another one for other content.
pub(super) fn fingerprint(verb: &str, on_error: OnError, body: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(verb.as_bytes());
    hash.update(&[0, on_error as u8]);
    hash.update(body);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(headers: &[(&'static str, &str)]) -> Result<Option<Mark>, Problem> {
        let headers = headers
            .iter()
            .map(|(n, v)| (http::HeaderName::from_static(n), http::HeaderValue::from_str(v).unwrap()));
        Mark::of(&headers.collect())
    }

    #[test]
    fn marks_are_read() {
        assert_eq!(mark(&[]).unwrap(), None);
        assert_eq!(mark(&[("idempotency-key", "\"abc\"")]).unwrap(), Some(Mark::Key("abc".into())));
        let producer = mark(&[("wadi-producer-id", "p"), ("wadi-sequence", "7")]).unwrap();
        assert_eq!(producer, Some(Mark::Producer("p".into(), 7)));
    }

    #[test]
    fn half_and_double_marks_are_refused() {
        assert!(mark(&[("wadi-producer-id", "p")]).is_err());
        assert!(mark(&[("wadi-sequence", "1")]).is_err());
        assert!(mark(&[("wadi-producer-id", "p"), ("wadi-sequence", "-1")]).is_err());
        assert!(
            mark(&[("idempotency-key", "k"), ("wadi-producer-id", "p"), ("wadi-sequence", "1")]).is_err()
        );
        assert!(mark(&[("idempotency-key", "")]).is_err());
        assert!(mark(&[("wadi-producer-id", &"x".repeat(65)), ("wadi-sequence", "1")]).is_err());
    }

    #[test]
    fn the_fingerprint_tells_requests_apart() {
        let base = fingerprint("append", OnError::Fail, b"abc");
        assert_eq!(base, fingerprint("append", OnError::Fail, b"abc"));
        assert_ne!(base, fingerprint("append", OnError::Skip, b"abc"));
        assert_ne!(base, fingerprint("append", OnError::Fail, b"abd"));
    }
}
