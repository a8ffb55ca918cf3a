//! Parts that cannot be taken yet: their rows, their producer or their ids have to come first.
//!
//! What is missing is fetched by a task, which sends a command; then the part begins anew, as if it had just come.

use std::ops::Range;

use wadi_model::Bucket;

use super::{Actor, Command, tell};
use crate::context::Share;
use crate::keys::producer::{self, ProducerEntry};
use crate::shard::encode::{Payload, Prepared};
use crate::shard::merging::KeyedRows;
use crate::shard::open::Reply;
use crate::shard::part::AppendError;
use crate::shard::producers::ProducerKey;
use crate::shard::rows::Keep;
use crate::task;

/// A part that waits for its producer to be loaded, or for ids.
#[derive(Debug)]
pub(super) struct Parked {
    pub part: Prepared,
    pub share: Share,
    pub reply: Reply,
}

impl Actor {
    /// Reads a part's rows again, which were written or forgotten since they were read, and begins anew with it. This time it
    /// keeps all of them itself: more rows than the cache holds would drive each other out for ever.
    pub(super) fn read_again(&self, mut part: Prepared, share: Share, reply: Reply) {
        let (own, shared) = (self.own.clone(), self.shared.clone());
        task::spawn(async move {
            if let Payload::Keyed(keyed) = &mut part.payload
                && let Err(error) = keyed.read(&shared, Keep::All).await
            {
                return drop(reply.send(Err(error)));
            }
            tell(&own, Command::Append { part: Box::new(part), share, reply }).await;
        });
    }

    /// Takes ids for a bucket if it is time to, `cache` at once.
    pub(super) fn take_ids(&mut self, bucket: Bucket, cache: u64) {
        let Some(count) = self.ids.due(bucket, cache) else { return };
        let (own, source) = (self.own.clone(), self.shared.context.ids.clone());
        task::spawn(async move {
            let range = source.take(bucket.table, count).await;
            tell(&own, Command::Ids { bucket, range }).await;
        });
    }

    /// Takes the ids that something waits for, now that those before are durable.
    pub(super) fn take_waited_for(&mut self, bucket: Bucket) {
        let cache = self.ids.first_waiting(&bucket).and_then(|parked| match &parked.part.payload {
            Payload::Keyed(keyed) => Some(id_cache(keyed)),
            _ => None,
        });
        if let Some(cache) = cache {
            self.take_ids(bucket, cache);
        }
    }

    pub(super) fn ids_taken(&mut self, bucket: Bucket, range: Result<Range<u64>, String>) {
        let (range, failed) = match range {
            Ok(range) => (Some(range), None),
            Err(why) => (None, Some(why)),
        };
        for Parked { part, share, reply } in self.ids.taken(bucket, range) {
            match &failed {
                None => self.append(part, share, reply),
                Some(why) => drop(reply.send(Err(AppendError::NoIds(why.clone())))),
            }
        }
    }

    pub(super) fn load(&self, key: ProducerKey) {
        let (own, shared) = (self.own.clone(), self.shared.clone());
        task::spawn(async move {
            let stored = shared.db.get(producer::key(&key.0, &key.1)).await;
            let entry = match stored {
                Ok(None) => Ok(None),
                Ok(Some(value)) => producer::decode(&value).map(Some).map_err(|e| e.to_string()),
                Err(error) => Err(error.to_string()),
            };
            tell(&own, Command::Loaded { key, entry }).await;
        });
    }

    pub(super) fn loaded(&mut self, key: ProducerKey, entry: Result<Option<ProducerEntry>, String>) {
        match entry {
            Ok(entry) => {
                for Parked { part, share, reply } in self.producers.loaded(key, entry) {
                    self.append(part, share, reply);
                }
            }
            Err(why) => {
                for parked in self.producers.load_failed(&key) {
                    drop(parked.reply.send(Err(AppendError::Internal(why.clone()))));
                }
            }
        }
    }
}

/// How many ids a bucket of the table takes at once.
pub(super) fn id_cache(keyed: &KeyedRows) -> u64 {
    keyed.keyed.table.auto_increment().map_or(1, |auto| auto.cache)
}
