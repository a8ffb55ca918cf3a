//! The way to the other gateways: what is asked, and what can be said when no answer comes.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wadi_model::ShardId;

/// What a gateway asks the owner of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// To append a part that was prepared.
    Append,
    /// To append several such parts, of shards of its own.
    AppendAll,
    /// For rows by their keys.
    Lookup,
    /// For all rows under prefixes.
    Prefixes,
    /// How buckets are: bounds and counts.
    States,
    /// Where rows from an offset on lie.
    Chunks,
    /// For the first offset of a time.
    OffsetAt,
    /// To answer when the shard has newer rows.
    Wait,
    /// To keep the rows of a bucket as they are now.
    Snapshot,
    /// For rows of such a snapshot.
    Page,
    /// To forget a snapshot.
    Forget,
}

impl Call {
    /// All calls.
    pub const ALL: [Call; 11] = [
        Call::Append,
        Call::AppendAll,
        Call::Lookup,
        Call::Prefixes,
        Call::States,
        Call::Chunks,
        Call::OffsetAt,
        Call::Wait,
        Call::Snapshot,
        Call::Page,
        Call::Forget,
    ];

    /// Its name in addresses, traces and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Call::Append => "append",
            Call::AppendAll => "append-all",
            Call::Lookup => "lookup",
            Call::Prefixes => "prefixes",
            Call::States => "states",
            Call::Chunks => "chunks",
            Call::OffsetAt => "offset-at",
            Call::Wait => "wait",
            Call::Snapshot => "snapshot",
            Call::Page => "page",
            Call::Forget => "forget",
        }
    }

    /// The call of this name.
    pub fn of_name(name: &str) -> Option<Call> {
        Call::ALL.into_iter().find(|call| call.name() == name)
    }
}

/// No answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unanswered {
    /// Whether it is certain that the call was not received.
    pub unsent: bool,
    /// What happened.
    pub why: String,
}

/// How the other gateways are reached.
#[async_trait]
pub trait Peers: std::fmt::Debug + Send + Sync {
    /// Asks the gateway at this address, and waits no longer than `patience`. The pieces of the message are sent one after the other.
    async fn ask(
        &self,
        address: &str,
        shard: ShardId,
        call: Call,
        message: Vec<Bytes>,
        patience: Duration,
    ) -> Result<Bytes, Unanswered>;
}

/// There are none: a cluster of one process.
#[derive(Clone, Copy, Debug)]
pub struct NoPeers;

#[async_trait]
impl Peers for NoPeers {
    async fn ask(
        &self,
        address: &str,
        _: ShardId,
        _: Call,
        _: Vec<Bytes>,
        _: Duration,
    ) -> Result<Bytes, Unanswered> {
        let why = format!("{address} is another process, and this cluster has one only");
        Err(Unanswered { unsent: true, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_calls_apart() {
        for call in Call::ALL {
            assert_eq!(Call::of_name(call.name()), Some(call));
        }
        assert_eq!(Call::of_name("trim"), None);
    }
}
