//! How a gateway's shards behave, with the reason of each default.

use std::path::PathBuf;
use std::time::Duration;

/// A setting that does not fit, alone or with another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {name} is {value}: {why}")]
pub struct InvalidSetting {
    /// The setting.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What must hold.
    pub why: &'static str,
}

/// Settings of all shards of one process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Least time between the beginnings of two flushes of a shard. It bounds the bill: at most `1 / linger` PUTs per
    /// second and shard. An idle shard does not wait for it.
    pub linger: Duration,
    /// The linger while chunks are so small that an object's fixed costs outweigh its rows.
    pub linger_small: Duration,
    /// Below this mean size of a chunk, `linger_small` holds.
    pub small_chunk: usize,
    /// Bytes that wait for a flush without waiting for the linger.
    pub flush_bytes: usize,
    /// Most raw bytes of one log object, and so of one part.
    pub object_bytes: usize,
    /// A part of this size is a chunk of its own and is encoded before it waits; smaller ones of a bucket share one.
    pub own_chunk_bytes: usize,
    /// How long a log object's PUT may take with all its retries. Below the lease's time to live, so that an owner
    /// knows the outcome while it still may ack.
    pub put_budget: Duration,
    /// Raw bytes accepted and not yet acked, over all shards of the process; beyond it appends get 429.
    pub unflushed_bytes: usize,
    /// Bytes of the newest log objects that are kept in memory for readers at the tail, over all shards.
    pub tail_bytes: usize,
    /// Bytes of older log data kept in memory.
    pub segment_cache_bytes: usize,
    /// Bytes of SlateDB blocks kept in memory.
    pub block_cache_bytes: usize,
    /// Bytes of rows of primary-key tables kept in memory, over all shards.
    pub row_cache_bytes: usize,
    /// Where older log data and SlateDB blocks are kept on a local disk too; `None` keeps them in memory alone.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of that disk.
    pub cache_disk_bytes: usize,
    /// A group of state changes is written to SlateDB after so many log objects …
    pub group_objects: usize,
    /// … or after this time …
    pub group_interval: Duration,
    /// … or when its changes have this size.
    pub group_bytes: usize,
    /// Bytes that SlateDB holds in memory for all shards; beyond it the largest memtable is flushed first.
    pub memtable_bytes: usize,
    /// SlateDB's memtable is flushed after so many log objects, so that a takeover replays no more …
    pub memtable_objects: u64,
    /// … or after this time.
    pub memtable_interval: Duration,
    /// The log is turned into packs when so many stored bytes of it are not …
    pub pack_bytes: u64,
    /// … or so many objects …
    pub pack_objects: usize,
    /// … or when the oldest of them is so old. A compactor holds a round in memory, so `pack_bytes` bounds that.
    pub pack_interval: Duration,
    /// Time to live of the gateway's session, and so the longest time that a dead owner holds its shards.
    pub lease_ttl: Duration,
    /// A gateway whose writes have failed for so long gives its shards to others. Longer than an object store's usual bad moments, and
    /// than a write may take.
    pub unwell_after: Duration,
    /// Producers are forgotten after this silence.
    pub producer_ttl: Duration,
    /// Idempotency keys are forgotten after this time.
    pub key_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        const MIB: usize = 1 << 20;
        Settings {
            linger: Duration::from_millis(50),
            linger_small: Duration::from_millis(250),
            small_chunk: 4 << 10,
            flush_bytes: 4 * MIB,
            object_bytes: 32 * MIB,
            own_chunk_bytes: 256 << 10,
            put_budget: Duration::from_secs(5),
            unflushed_bytes: 128 * MIB,
            tail_bytes: 64 * MIB,
            segment_cache_bytes: 64 * MIB,
            block_cache_bytes: 64 * MIB,
            row_cache_bytes: 64 * MIB,
            cache_dir: None,
            cache_disk_bytes: 0,
            group_objects: 64,
            group_interval: Duration::from_secs(1),
            group_bytes: 8 * MIB,
            memtable_bytes: 512 * MIB,
            memtable_objects: 512,
            memtable_interval: Duration::from_secs(60),
            pack_bytes: 128 << 20,
            pack_objects: 2048,
            pack_interval: Duration::from_secs(600),
            lease_ttl: Duration::from_secs(10),
            unwell_after: Duration::from_secs(30),
            producer_ttl: Duration::from_secs(7 * 24 * 3600),
            key_ttl: Duration::from_secs(24 * 3600),
        }
    }
}

impl Settings {
    /// The defaults for a local directory, where a PUT takes milliseconds and costs nothing.
    pub fn local() -> Settings {
        let (linger, linger_small) = (Duration::from_millis(5), Duration::from_millis(25));
        Settings { linger, linger_small, ..Settings::default() }
    }

    /// Checks the settings against each other.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let check = |holds: bool, name, value: String, why| {
            if holds { Ok(()) } else { Err(InvalidSetting { name, value, why }) }
        };
        let (budget, ttl) = (self.put_budget, self.lease_ttl);
        check(budget < ttl, "put_budget", format!("{budget:?}"), "it must be below lease_ttl")?;
        let (small, linger) = (self.linger_small, self.linger);
        check(small >= linger, "linger_small", format!("{small:?}"), "it must not be below linger")?;
        check(
            self.flush_bytes <= self.object_bytes,
            "flush_bytes",
            self.flush_bytes.to_string(),
            "it must not be above object_bytes",
        )?;
        check(
            self.object_bytes <= self.unflushed_bytes,
            "unflushed_bytes",
            self.unflushed_bytes.to_string(),
            "one whole object (object_bytes) must fit into it",
        )?;
        check(
            self.object_bytes <= 256 << 20,
            "object_bytes",
            self.object_bytes.to_string(),
            "positions inside an object have 32 bits; 256 MiB is the most",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fit_together() {
        Settings::default().validate().unwrap();
        Settings::local().validate().unwrap();
    }

    #[test]
    fn settings_that_contradict_are_refused() {
        let settings = Settings { put_budget: Duration::from_secs(10), ..Settings::default() };
        assert_eq!(settings.validate().unwrap_err().name, "put_budget");
        let settings = Settings { unflushed_bytes: 1, ..Settings::default() };
        assert_eq!(settings.validate().unwrap_err().name, "unflushed_bytes");
    }
}
