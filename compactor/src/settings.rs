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
    /// Between two questions to a shard's owner whether there is something to pack. They cost the object store nothing.
    pub pack_interval: Duration,
    /// Between two questions to a shard's owner whether rows have expired, or belong to dropped tables.
    pub retention_interval: Duration,
    /// So long after its owner has named it an object is deleted. Readers follow what the index said for up to an hour.
    pub grace: Duration,
    /// Between two searches for packs that no owner took. Each lists the shard's packs.
    pub orphan_interval: Duration,
    /// How long after a drop its rows are removed. Writes that were in flight have then reached the database, and many drops
    /// cost one rewrite.
    pub sweep_delay: Duration,
    /// Least time between two removals of dropped rows in one shard, since each rewrites all of its database.
    pub sweep_interval: Duration,
    /// How long a drop is known before the catalog may forget it, once nothing is left of it. Far longer than any write is under way.
    pub forget_delay: Duration,
    /// Between two questions to all owners whether something is left of drops that old. Each reads what they know of all log objects and packs. Longer
    /// than a PUT may take.
    pub forget_interval: Duration,
    /// Shards that are compacted at once: it bounds memory, at up to some 100 MiB for each busy one.
    pub at_once: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease_ttl: Duration::from_secs(10),
            interval: Duration::from_secs(60),
            collect: Duration::from_secs(600),
            pack_interval: Duration::from_secs(5),
            retention_interval: Duration::from_secs(60),
            grace: Duration::from_secs(2 * 3600),
            orphan_interval: Duration::from_secs(24 * 3600),
            sweep_delay: Duration::from_secs(600),
            sweep_interval: Duration::from_secs(3600),
            forget_delay: Duration::from_secs(24 * 3600),
            forget_interval: Duration::from_secs(3600),
            at_once: 8,
        }
    }
}
