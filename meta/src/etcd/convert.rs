//! Between our words and etcd's.

use bytes::Bytes;
use etcd_client::{
    Compare as EtcdCompare, CompareOp, PutOptions, ResponseHeader, TxnOp, TxnOpResponse, TxnResponse,
};
use tonic::Code;

use crate::{Compare, KeyValue, MetaError, MetaErrorKind, Op, Revision, SessionId, Txn, TxnOutcome};

/// Longest prefix of all keys; with it the largest transaction still fits etcd's request limit.
const MAX_PREFIX: usize = 256;

/// Puts the prefix of the cluster before keys, and takes it off.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Result<Self, MetaError> {
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() || prefix.len() > MAX_PREFIX {
            return Err(MetaError::invalid(format!(
                "the prefix {prefix:?} must have 1 to {MAX_PREFIX} bytes"
            )));
        }
        Ok(Self { prefix: format!("{prefix}/") })
    }

    pub(super) fn outer(&self, key: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_bytes()].concat()
    }

    pub(super) fn inner(&self, outer: &[u8]) -> Result<String, MetaError> {
        let key = outer.strip_prefix(self.prefix.as_bytes()).and_then(|key| std::str::from_utf8(key).ok());
        key.map(str::to_owned).ok_or_else(|| {
            MetaError::internal(format!(
                "etcd holds the key {:?}, which is not one of ours",
                String::from_utf8_lossy(outer)
            ))
        })
    }

    pub(super) fn key_value(&self, kv: &etcd_client::KeyValue) -> Result<KeyValue, MetaError> {
        Ok(KeyValue {
            key: self.inner(kv.key())?,
            value: Bytes::copy_from_slice(kv.value()),
            created: Revision(kv.create_revision().unsigned_abs()),
            modified: Revision(kv.mod_revision().unsigned_abs()),
        })
    }

    pub(super) fn txn(&self, txn: &Txn) -> etcd_client::Txn {
        let compares: Vec<EtcdCompare> = txn.compares.iter().map(|compare| self.compare(compare)).collect();
        let ops: Vec<TxnOp> = txn.ops.iter().map(|op| self.op(op)).collect();
        let current: Vec<TxnOp> =
            txn.compares.iter().map(|compare| TxnOp::get(self.outer(compare.key()), None)).collect();
        etcd_client::Txn::new().when(compares).and_then(ops).or_else(current)
    }

    fn compare(&self, compare: &Compare) -> EtcdCompare {
        let key = self.outer(compare.key());
        // A key that does not exist has revision 0.
        match compare {
            Compare::Absent { .. } => EtcdCompare::create_revision(key, CompareOp::Equal, 0),
            Compare::Present { .. } => EtcdCompare::create_revision(key, CompareOp::Greater, 0),
            Compare::Created { revision, .. } => {
                EtcdCompare::create_revision(key, CompareOp::Equal, stored(*revision))
            }
            Compare::Modified { revision, .. } => {
                EtcdCompare::mod_revision(key, CompareOp::Equal, stored(*revision))
            }
        }
    }

    fn op(&self, op: &Op) -> TxnOp {
        match op {
            Op::Put { key, value, session } => {
                let options = session.map(|id| PutOptions::new().with_lease(lease_of(id)));
                TxnOp::put(self.outer(key), value.to_vec(), options)
            }
            Op::Delete { key } => TxnOp::delete(self.outer(key), None),
        }
    }

    pub(super) fn outcome(&self, answer: &TxnResponse) -> Result<TxnOutcome, MetaError> {
        if answer.succeeded() {
            let revision = revision(answer.header())?;
            return Ok(TxnOutcome::Committed(Revision(revision.unsigned_abs())));
        }
        let current = answer.op_responses().into_iter().map(|response| match response {
            TxnOpResponse::Get(got) => got.kvs().first().map(|kv| self.key_value(kv)).transpose(),
            _ => Err(MetaError::internal("etcd answered a read with something else")),
        });
        Ok(TxnOutcome::Refused(current.collect::<Result<_, _>>()?))
    }
}

/// A revision to compare with. Revision 0 exists in no store, but to etcd it means an absent key: -1 means none at all.
fn stored(revision: Revision) -> i64 {
    i64::try_from(revision.0).ok().filter(|revision| *revision > 0).unwrap_or(-1)
}

/// The etcd lease of a session.
pub(super) fn lease_of(id: SessionId) -> i64 {
    id.0.cast_signed()
}

/// The session of an etcd lease.
pub(super) fn session_of(lease: i64) -> SessionId {
    SessionId(lease.cast_unsigned())
}

pub(super) fn revision(header: Option<&ResponseHeader>) -> Result<i64, MetaError> {
    header
        .map(ResponseHeader::revision)
        .ok_or_else(|| MetaError::internal("etcd answered without a revision"))
}

/// The first key after all that start with `prefix`, which is not empty and not all 0xff.
pub(super) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// An error of a request that changes nothing, or may be done twice.
pub(super) fn error(error: etcd_client::Error) -> MetaError {
    let kind = match &error {
        etcd_client::Error::GRpcStatus(status) => {
            refused(status.code()).unwrap_or(MetaErrorKind::Unavailable)
        }
        etcd_client::Error::InvalidArgs(_)
        | etcd_client::Error::InvalidUri(_)
        | etcd_client::Error::InvalidMetadataValue(_)
        | etcd_client::Error::EndpointError(_) => MetaErrorKind::Invalid,
        _ => MetaErrorKind::Unavailable,
    };
    MetaError::new(kind, "etcd").with_source(error)
}

/// An error of a transaction: unless etcd says that it refused it, nobody knows whether it was done.
pub(super) fn txn_error(error: etcd_client::Error) -> MetaError {
    let kind = match &error {
        etcd_client::Error::GRpcStatus(status) => refused(status.code()),
        _ => None,
    };
    MetaError::new(kind.unwrap_or(MetaErrorKind::Unknown), "etcd transaction").with_source(error)
}

/// What it means if etcd refused a request before doing anything. `None` if the code does not say so.
fn refused(code: Code) -> Option<MetaErrorKind> {
    match code {
        // The only thing that we name and that may be missing is a lease.
        Code::NotFound => Some(MetaErrorKind::SessionLost),
        // Too many requests, or the database is full.
        Code::ResourceExhausted => Some(MetaErrorKind::Unavailable),
        Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::Unimplemented => Some(MetaErrorKind::Invalid),
        Code::DataLoss => Some(MetaErrorKind::Internal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_put_on_and_taken_off() {
        let keys = Keys::new("/wadi/prod//").unwrap();
        assert_eq!(keys.outer("a/b"), b"/wadi/prod/a/b");
        assert_eq!(keys.inner(b"/wadi/prod/a/b").unwrap(), "a/b");
        assert!(keys.inner(b"/wadi/other").is_err());
        assert!(keys.inner(b"/wadi/prod/\xff").is_err());
        assert!(Keys::new("/").is_err());
        assert!(Keys::new(&"x".repeat(257)).is_err());
    }

    #[test]
    fn the_end_of_a_prefix_is_the_first_key_after_it() {
        assert_eq!(prefix_end(b"a/"), b"a0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
    }

    #[test]
    fn a_transaction_without_a_clear_answer_is_unknown() {
        let of = |code| txn_error(etcd_client::Error::GRpcStatus(tonic::Status::new(code, ""))).kind();
        for code in [
            Code::Unavailable,
            Code::DeadlineExceeded,
            Code::Cancelled,
            Code::Unknown,
            Code::Internal,
            Code::Aborted,
        ] {
            assert_eq!(of(code), MetaErrorKind::Unknown, "{code:?}");
        }
        assert_eq!(of(Code::NotFound), MetaErrorKind::SessionLost);
        assert_eq!(of(Code::ResourceExhausted), MetaErrorKind::Unavailable);
        assert_eq!(of(Code::InvalidArgument), MetaErrorKind::Invalid);
    }

    #[test]
    fn a_revision_that_cannot_exist_matches_nothing() {
        assert_eq!(stored(Revision(0)), -1);
        assert_eq!(stored(Revision(u64::MAX)), -1);
        assert_eq!(stored(Revision(5)), 5);
    }
}
