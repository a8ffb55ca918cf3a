//! The cluster's secret: by it a gateway knows a request of the cluster's own processes.
//!
//! It stands in the meta store, so whoever may read that is one of them. The first process that needs it makes it.

use std::fmt;
use std::hint::black_box;

use wadi_meta::{Compare, MetaError, MetaStore, Txn, TxnOutcome};
use wadi_model::env::Env;

/// Where it stands.
const KEY: &str = "cluster/secret";

/// The secret. Never shown.
#[derive(Clone)]
pub struct ClusterSecret(String);

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret")
    }
}

impl ClusterSecret {
    /// The secret of a cluster.
    ///
    /// # Errors
    ///
    /// If the meta store does not answer.
    pub async fn of(meta: &dyn MetaStore, env: &Env) -> Result<ClusterSecret, MetaError> {
        loop {
            if let Some(found) = meta.get(KEY).await? {
                return Ok(ClusterSecret(String::from_utf8_lossy(&found.value).into_owned()));
            }
            let secret = format!("{:032x}{:032x}", env.unique(), env.unique());
            let make = Txn::new().when(Compare::absent(KEY)).put(KEY, secret.clone());
            // Whatever else comes of it, the next look tells.
            if let TxnOutcome::Committed(_) = meta.txn(make).await? {
                return Ok(ClusterSecret(secret));
            }
        }
    }

    /// The value of the `Authorization` header that carries it.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether an `Authorization` header carries it. Takes as long for any two of one length.
    pub fn is_in(&self, authorization: &[u8]) -> bool {
        let wanted = self.bearer();
        let differ =
            wanted.as_bytes().iter().zip(authorization).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        wanted.len() == authorization.len() && differ == 0
    }
}

#[cfg(test)]
mod tests {
    use wadi_meta::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn all_processes_have_the_same_and_nobody_else_has() {
        let meta = MemoryStore::new();
        let env = Env::default();
        let (a, b) =
            (ClusterSecret::of(&meta, &env).await.unwrap(), ClusterSecret::of(&meta, &env).await.unwrap());
        assert!(a.is_in(b.bearer().as_bytes()));
        for other in ["", "Bearer ", "Bearer 0", &a.bearer()[..40], &format!("{}0", a.bearer())] {
            assert!(!a.is_in(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{a:?}"), "ClusterSecret");
    }
}
