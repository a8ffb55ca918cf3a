//! The options of primary-key tables, typed.

use std::time::Duration;

use super::{
    AUTO_INCREMENT_CACHE, CHANGELOG_IMAGE, DELETE_BEHAVIOR, MERGE_ENGINE, ROW_TTL, ROW_TTL_COLUMN,
    TableOptions, VERSIONED_DELETES,
};

/// How a row and the stored row of its key become one (see [`crate::merge`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// The newest row wins.
    LastRow,
    /// The oldest row stays.
    FirstRow,
    /// The row of the highest version wins.
    Versioned,
    /// Column by column, by functions.
    Aggregation,
}

impl MergeKind {
    /// Its name in options; `default` for the one that has none there.
    pub fn name(self) -> &'static str {
        match self {
            MergeKind::LastRow => "default",
            MergeKind::FirstRow => "first_row",
            MergeKind::Versioned => "versioned",
            MergeKind::Aggregation => "aggregation",
        }
    }
}

/// What deletes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteBehavior {
    /// They delete.
    Allow,
    /// Nothing.
    Ignore,
    /// They fail, and with them their request.
    Disable,
}

/// What the changelog says of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangelogImage {
    /// The row before (`-U`) and the row after (`+U`).
    Full,
    /// The row after only.
    Wal,
}

impl TableOptions {
    /// The merge engine. Default: the newest row wins.
    pub fn merge_engine(&self) -> MergeKind {
        match self.get(MERGE_ENGINE) {
            Some("first_row") => MergeKind::FirstRow,
            Some("versioned") => MergeKind::Versioned,
            Some("aggregation") => MergeKind::Aggregation,
            _ => MergeKind::LastRow,
        }
    }

    /// What deletes do. Default: they delete; with a merge engine they are ignored.
    pub fn delete_behavior(&self) -> DeleteBehavior {
        match self.get(DELETE_BEHAVIOR).or_else(|| self.get(VERSIONED_DELETES)) {
            Some("allow") => DeleteBehavior::Allow,
            Some("ignore") => DeleteBehavior::Ignore,
            Some("disable") => DeleteBehavior::Disable,
            _ if self.merge_engine() == MergeKind::LastRow => DeleteBehavior::Allow,
            _ => DeleteBehavior::Ignore,
        }
    }

    /// What the changelog says of an update. Default full.
    pub fn changelog_image(&self) -> ChangelogImage {
        match self.get(CHANGELOG_IMAGE) {
            Some("wal") => ChangelogImage::Wal,
            _ => ChangelogImage::Full,
        }
    }

    /// How many ids of the auto-increment column a bucket takes at once. Default 100,000.
    pub fn auto_increment_cache(&self) -> u64 {
        self.get(AUTO_INCREMENT_CACHE).and_then(|size| size.parse().ok()).unwrap_or(100_000)
    }

    /// How long rows live; `None` is for ever.
    pub fn row_ttl(&self) -> Option<Duration> {
        self.get(ROW_TTL).and_then(super::parse_duration).filter(|ttl| !ttl.is_zero())
    }

    /// The column at whose time a row's life begins; `None` is the time of its write.
    pub fn row_ttl_column(&self) -> Option<&str> {
        self.get(ROW_TTL_COLUMN)
    }
}
