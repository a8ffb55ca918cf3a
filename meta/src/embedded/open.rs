//! Opening: fence whoever was here, read everything, outwait him, end all sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use slatedb::Db;
use slatedb::config::ScanOptions;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::clock::MetaClock;
use super::codec::{RECORD_KEY, Record, decode_entry};
use super::session::Proof;
use super::settings::settings;
use super::writer::{Command, Writer, failure};
use super::{EmbeddedOptions, Place};
use crate::state::{Entry, Shared, State};
use crate::task::{self, Task};
use crate::{MetaError, Revision};

/// An open database with its writer running.
pub(super) struct Opened {
    pub(super) shared: Arc<Shared>,
    pub(super) proof: Arc<Proof>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) writer: Task,
}

pub(super) async fn open(
    store: Arc<dyn ObjectStore>,
    options: &EmbeddedOptions,
) -> Result<Opened, MetaError> {
    let local = matches!(options.place, Place::Local { .. });
    let clock = Arc::new(MetaClock::new());
    let db = Db::builder(options.path.clone(), store)
        .with_settings(settings(local))
        .with_system_clock(Arc::clone(&clock) as _)
        // Everything is read once and then served from our own memory.
        .with_db_cache_disabled()
        .build()
        .await
        .map_err(|e| failure("opening the metadata database", e))?;
    let fenced = Instant::now();
    let content = read(&db).await?;
    clock.not_before(content.last_stamp_ms);
    if !local && !content.ttl.is_zero() {
        tracing::info!(wait = ?content.ttl, "the process before did not close the metadata: waiting for its sessions to run out");
        tokio::time::sleep_until(fenced + content.ttl).await;
    }

    let epoch = db.manifest().writer_epoch();
    let shared = Shared::new(State::loaded(content.entries, content.revision));
    let proof = Arc::new(if local { Proof::local() } else { Proof::remote(fenced) });
    let mut writer = Writer::new(db, epoch, options.ttl, Arc::clone(&shared), Arc::clone(&proof));
    writer.start().await?;
    // What happened before this start is not a history that a watch can go on from: nobody held a watch.
    shared.lock().compact();
    let (commands, inbox) = mpsc::unbounded_channel();
    let writer = task::spawn("meta-writer", writer.run(inbox));
    Ok(Opened { shared, proof, commands, writer })
}

/// All that is stored.
struct Content {
    entries: BTreeMap<String, Entry>,
    revision: Revision,
    /// How long the process before may still believe that it has the store; zero if it closed, or there was none.
    ttl: Duration,
    last_stamp_ms: i64,
}

async fn read(db: &Db) -> Result<Content, MetaError> {
    let failed = |e| failure("reading the metadata database", e);
    let ahead = ScanOptions { read_ahead_bytes: 4 << 20, max_fetch_tasks: 4, ..ScanOptions::default() };
    let mut rows = db.scan_with_options(.., &ahead).await.map_err(failed)?;
    let mut entries = BTreeMap::new();
    let mut record = None;
    let mut last_stamp_ms = 0;
    while let Some(row) = rows.next().await.map_err(failed)? {
        last_stamp_ms = last_stamp_ms.max(row.create_ts);
        if row.key == RECORD_KEY {
            record = Some(Record::decode(&row.value)?);
        } else {
            let entry = decode_entry(&row.key, &row.value)?;
            entries.insert(entry.kv.key.clone(), entry);
        }
    }
    match record {
        Some(record) => {
            Ok(Content { entries, revision: record.revision(), ttl: record.ttl(), last_stamp_ms })
        }
        None if entries.is_empty() => {
            Ok(Content { entries, revision: Revision(0), ttl: Duration::ZERO, last_stamp_ms })
        }
        None => Err(MetaError::internal("the metadata database has keys but no record of itself")),
    }
}
