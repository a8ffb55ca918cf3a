//! How a compactor behaves, with the reason of each default.

use std::time::Duration;

/// Settings of a compactor.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time to live of its session, and so the longest time that nobody works on the shards of one that died.
    pub lease_ttl: Duration,
    /// Between two looks at a shard where nothing happens: each costs a request. Where something happens it looks more often.
    pub interval: Duration,
    /// Between two searches for files of a shard that nobody needs, while it changes. Each lists its files.
    pub collect: Duration,
    /// How long after a drop its rows are removed. Writes that were in flight have then reached the database, and many drops
    /// cost one rewrite.
    pub sweep_delay: Duration,
    /// Least time between two removals of dropped rows in one shard, since each rewrites all of its database.
    pub sweep_interval: Duration,
    /// Shards that are compacted at once: it bounds memory, at up to some 100 MiB for each busy one.
    pub at_once: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease_ttl: Duration::from_secs(10),
            interval: Duration::from_secs(60),
            collect: Duration::from_secs(600),
            sweep_delay: Duration::from_secs(600),
            sweep_interval: Duration::from_secs(3600),
            at_once: 8,
        }
    }
}
