//! Transactions: compare some keys, then change some keys, all or nothing.
//!
//! The limits are those of an etcd server with default settings, and hold for every store, so that what works in
//! `wadi dev` works in a cluster.

use std::collections::HashSet;

use bytes::Bytes;

use crate::{KeyValue, MetaError, Revision, SessionId};

/// Longest key, in bytes.
pub const MAX_KEY: usize = 1024;
/// Largest value, in bytes.
pub const MAX_VALUE: usize = 1 << 20;
/// Most compares, and most changes, of one transaction (etcd's `--max-txn-ops`).
pub const MAX_OPS: usize = 128;
/// Most bytes of keys and values in one transaction; etcd's default request limit is 1.5 MiB with everything around them.
pub const MAX_TXN_BYTES: usize = (1 << 20) + (1 << 18);

/// What must hold for a transaction to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The key does not exist.
    Absent {
        /// The key.
        key: String,
    },
    /// The key exists, whatever it holds.
    Present {
        /// The key.
        key: String,
    },
    /// The key exists since exactly this revision: nobody deleted and made it again.
    Created {
        /// The key.
        key: String,
        /// The revision that made it.
        revision: Revision,
    },
    /// The key was last put at exactly this revision: nobody changed it.
    Modified {
        /// The key.
        key: String,
        /// The revision of the last put.
        revision: Revision,
    },
}

impl Compare {
    /// The key does not exist.
    pub fn absent(key: impl Into<String>) -> Self {
        Self::Absent { key: key.into() }
    }

    /// The key exists.
    pub fn present(key: impl Into<String>) -> Self {
        Self::Present { key: key.into() }
    }

    /// The key exists since exactly `revision`.
    pub fn created(key: impl Into<String>, revision: Revision) -> Self {
        Self::Created { key: key.into(), revision }
    }

    /// The key was last put at exactly `revision`.
    pub fn modified(key: impl Into<String>, revision: Revision) -> Self {
        Self::Modified { key: key.into(), revision }
    }

    /// The key that is compared.
    pub fn key(&self) -> &str {
        match self {
            Self::Absent { key }
            | Self::Present { key }
            | Self::Created { key, .. }
            | Self::Modified { key, .. } => key,
        }
    }

    /// Whether it holds for what the key holds now.
    pub(crate) fn holds(&self, current: Option<&KeyValue>) -> bool {
        match self {
            Self::Absent { .. } => current.is_none(),
            Self::Present { .. } => current.is_some(),
            Self::Created { revision, .. } => current.is_some_and(|kv| kv.created == *revision),
            Self::Modified { revision, .. } => current.is_some_and(|kv| kv.modified == *revision),
        }
    }
}

/// One change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Makes the key or replaces its value.
    Put {
        /// The key.
        key: String,
        /// The new value.
        value: Bytes,
        /// The session that the key ends with, if any. A put without one unties the key from an earlier session.
        session: Option<SessionId>,
    },
    /// Removes the key; nothing happens if there is none.
    Delete {
        /// The key.
        key: String,
    },
}

impl Op {
    /// The key that is changed.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// A transaction: if every compare holds, all changes are made at one revision; else none.
///
/// ```
/// use wadi_meta::{Compare, Revision, Txn};
///
/// let claim = Txn::new().when(Compare::absent("shard/7/owner")).put("shard/7/owner", "gateway-1");
/// let release = Txn::new().when(Compare::created("shard/7/owner", Revision(41))).delete("shard/7/owner");
/// # let _ = (claim, release);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must hold.
    pub compares: Vec<Compare>,
    /// What is then changed; no key twice.
    pub ops: Vec<Op>,
}

impl Txn {
    /// A transaction that compares and changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, compare: Compare) -> Self {
        self.compares.push(compare);
        self
    }

    /// Adds a put that outlives every session.
    #[must_use]
    pub fn put(mut self, key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.ops.push(Op::Put { key: key.into(), value: value.into(), session: None });
        self
    }

    /// Adds a put of a key that ends with `session`.
    #[must_use]
    pub fn put_in(mut self, session: SessionId, key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.ops.push(Op::Put { key: key.into(), value: value.into(), session: Some(session) });
        self
    }

    /// Adds a delete.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.ops.push(Op::Delete { key: key.into() });
        self
    }

    /// Checks the limits, before anything is sent or stored.
    pub(crate) fn validate(&self) -> Result<(), MetaError> {
        if self.compares.len() > MAX_OPS || self.ops.len() > MAX_OPS {
            return Err(MetaError::invalid(format!(
                "a transaction has {} compares and {} changes; at most {MAX_OPS} of each are allowed",
                self.compares.len(),
                self.ops.len()
            )));
        }
        let mut bytes = 0;
        for compare in &self.compares {
            validate_key(compare.key())?;
            // A refused transaction reads the compared keys, so etcd is sent each of them twice.
            bytes += 2 * compare.key().len();
        }
        let mut changed = HashSet::new();
        for op in &self.ops {
            validate_key(op.key())?;
            if !changed.insert(op.key()) {
                return Err(MetaError::invalid(format!(
                    "key {:?} is changed twice in one transaction",
                    op.key()
                )));
            }
            bytes += op.key().len();
            if let Op::Put { key, value, .. } = op {
                if value.len() > MAX_VALUE {
                    return Err(MetaError::invalid(format!(
                        "the value of key {key:?} has {} bytes; at most {MAX_VALUE} are allowed",
                        value.len()
                    )));
                }
                bytes += value.len();
            }
        }
        if bytes > MAX_TXN_BYTES {
            return Err(MetaError::invalid(format!(
                "a transaction has {bytes} bytes of keys and values; at most {MAX_TXN_BYTES} are allowed"
            )));
        }
        Ok(())
    }
}

/// Checks the length of a key.
pub(crate) fn validate_key(key: &str) -> Result<(), MetaError> {
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(MetaError::invalid(format!(
            "a key has {} bytes; it must have 1 to {MAX_KEY}",
            key.len()
        )));
    }
    Ok(())
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Every compare held and every change was made, at this revision. If there was nothing to change (no put, and
    /// deletes of absent keys only), the revision of the store.
    Committed(Revision),
    /// A compare did not hold and nothing was changed. What the compared keys held at that moment, in the order of the
    /// compares.
    Refused(Vec<Option<KeyValue>>),
}
