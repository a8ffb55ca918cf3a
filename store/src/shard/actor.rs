//! The actor: the one place where a shard's order is made.
//!
//! It never waits for storage. Flushes, loads and database writes run as tasks and come back as commands.
//!
//! | step | what holds after it |
//! | --- | --- |
//! | append | the part has offsets in the open object; nothing is readable |
//! | flush due | one object is on its way; no other PUT of the shard is |
//! | flushed, durable, claim live | published, remembered, acked, in that order (F1, L1, L4) |
//! | flushed, anything else | poisoned: parts of the object are in doubt, later ones definitely not written (L2) |
//!
//! After poison nothing of this shard is acked or read any more; the host gives the claim back and claims anew.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use wadi_model::{Bucket, LogSeq, Offset};

use super::encode::{Payload, Prepared};
use super::flush::{Flushed, flush};
use super::group::Group;
use super::ids::Ids;
use super::merging::{Bounds, Merged, Pending, merge};
use super::open::{OpenObject, OpenObjects, Order, Reply, Slot};
use super::part::{AppendError, Appended};
use super::producers::{Lifetimes, ProducerKey, Producers, Verdict};
use super::{COMMANDS, Ended, Progress, Shard, Shared};
use crate::container::{Header, Kind};
use crate::context::Share;
use crate::database;
use crate::keyed::Life;
use crate::keys::ids::IdRanges;
use crate::keys::producer::ProducerEntry;
use crate::memtables::Memtable;
use crate::task;
use waiting::{Parked, id_cache};

mod confirm;
mod waiting;

/// How long a shard's database may take to close.
const CLOSING: Duration = Duration::from_secs(5);

/// What the actor is told.
#[derive(Debug)]
pub(super) enum Command {
    /// A part wants to be appended.
    Append { part: Box<Prepared>, share: Share, reply: Reply },
    /// The shard's state is to be changed.
    Order(Order),
    /// A flush has ended.
    Flushed(Box<Flushed>),
    /// A producer was loaded, or could not be.
    Loaded { key: ProducerKey, entry: Result<Option<ProducerEntry>, String> },
    /// Ids were taken for a bucket, or could not be.
    Ids { bucket: Bucket, range: Result<Range<u64>, String> },
    /// A group was written, or could not be.
    GroupWritten(Result<LogSeq, String>),
    /// The memtable was flushed up to a position, or could not be.
    MemtableFlushed(Result<LogSeq, String>),
    /// The shard is to be given up in good order.
    Release,
    /// The shard is to be given up at once.
    Abandon(&'static str),
}

/// Where the log and the database stand when the actor begins.
#[derive(Debug)]
pub(super) struct Start {
    /// The next log position.
    pub next_seq: LogSeq,
    /// The database is the fold of the log up to here.
    pub applied: LogSeq,
    /// The database is durable up to here.
    pub flushed: LogSeq,
    /// Bytes that the replay wrote, not flushed yet.
    pub replayed_bytes: usize,
    /// The highest `_timestamp` so far.
    pub time: i64,
    /// The next offset of each bucket.
    pub next_offsets: BTreeMap<Bucket, Offset>,
    /// The ids that buckets have.
    pub ids: BTreeMap<Bucket, IdRanges>,
}

struct Actor {
    shared: Arc<Shared>,
    own: mpsc::WeakSender<Command>,
    next_seq: LogSeq,
    next_offsets: BTreeMap<Bucket, Offset>,
    time: i64,
    open: OpenObjects,
    put_in_flight: bool,
    last_flush: Option<Instant>,
    /// A moving mean of a chunk's size, which decides the linger.
    mean_chunk: usize,
    producers: Producers<Parked>,
    ids: Ids<Parked>,
    /// The number of the next part.
    next_part: u64,
    pending: Pending,
    group: Group,
    group_in_flight: bool,
    /// Bytes of the group in flight.
    group_memory: usize,
    memtable: Memtable,
    applied: LogSeq,
    flushed: LogSeq,
    memtable_in_flight: bool,
    /// When the oldest write that is only in the memtable was made.
    unflushed_since: Option<Instant>,
    releasing: bool,
}

/// Starts the actor of a shard that was just taken over.
pub(super) fn start(shared: Arc<Shared>, start: Start) -> Shard {
    let (commands, inbox) = mpsc::channel(COMMANDS);
    let settings = &shared.context.settings;
    let lifetimes = Lifetimes { producer: settings.producer_ttl, key: settings.key_ttl };
    let actor = Actor {
        own: commands.downgrade(),
        next_seq: start.next_seq,
        next_offsets: start.next_offsets,
        time: start.time,
        open: OpenObjects::default(),
        put_in_flight: false,
        last_flush: None,
        mean_chunk: usize::MAX,
        producers: Producers::new(lifetimes),
        ids: Ids::new(start.ids),
        next_part: 0,
        pending: Pending::default(),
        group: Group::new(),
        group_in_flight: false,
        group_memory: 0,
        memtable: shared.context.memtables.join(start.replayed_bytes),
        applied: start.applied,
        flushed: start.flushed,
        memtable_in_flight: false,
        unflushed_since: (start.applied > start.flushed).then(Instant::now),
        releasing: false,
        shared: shared.clone(),
    };
    task::spawn(actor.run(inbox));
    Shard { shared, commands }
}

impl Actor {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let ended = loop {
            let wake = self.next_timer();
            let step = tokio::select! {
                biased;
                command = inbox.recv() => match command {
                    Some(command) => self.step(command),
                    None => break Ended::Poisoned("all its handles are gone".into()),
                },
                () = sleep_until(wake) => Ok(()),
                () = self.memtable.asked() => Ok(()),
            };
            match step.and_then(|()| self.timers()) {
                Ok(false) => {}
                Ok(true) => break Ended::Released,
                Err(why) => break Ended::Poisoned(why),
            }
        };
        self.end(ended, inbox);
    }

    /// Takes one command. An error poisons the shard.
    fn step(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Append { part, share, reply } => self.append(*part, share, reply),
            Command::Order(order) if self.releasing => {
                drop(order.reply.send(Err(AppendError::NotOwned)));
            }
            Command::Order(order) => self.open.order(order),
            Command::Flushed(flushed) => return self.flushed(*flushed),
            Command::Loaded { key, entry } => self.loaded(key, entry),
            Command::Ids { bucket, range } => self.ids_taken(bucket, range),
            Command::GroupWritten(written) => {
                self.group_in_flight = false;
                self.applied = written?;
                self.shared.view.applied(self.applied);
                self.shared.rows.applied(self.applied);
                self.note_progress();
                self.producers.trim(self.applied);
                self.memtable.wrote(self.group_memory);
                self.unflushed_since.get_or_insert_with(Instant::now);
            }
            Command::MemtableFlushed(flushed) => {
                self.memtable_in_flight = false;
                self.flushed = flushed?;
                self.shared.packs.write().flushed(self.flushed);
                self.note_progress();
                self.memtable.flushed();
                self.unflushed_since = (self.applied > self.flushed).then(Instant::now);
            }
            Command::Release => self.releasing = true,
            Command::Abandon(why) => return Err(why.to_owned()),
        }
        Ok(())
    }

    // ---- appending

    fn append(&mut self, part: Prepared, share: Share, reply: Reply) {
        let answer = |reply: Reply, answer| drop(reply.send(answer));
        if self.releasing {
            return answer(reply, Err(AppendError::NotOwned));
        }
        let settings = &self.shared.context.settings;
        let behind =
            self.group.objects() >= 4 * settings.group_objects || self.group.bytes() >= settings.group_bytes;
        if self.group_in_flight && behind {
            // SlateDB does not keep up; what is confirmed must not pile up in memory.
            return answer(reply, Err(AppendError::Overloaded));
        }
        let Some(stamp) = &part.stamp else { return self.take(part, share, reply) };
        let (producer, sequence) = (stamp.producer.clone(), stamp.sequence);
        match self.producers.judge(part.bucket, stamp, self.shared.context.env.now_millis()) {
            Verdict::New => self.take(part, share, reply),
            Verdict::Seen(seen) => answer(reply, self.seen(seen)),
            Verdict::InFlight => answer(reply, Err(AppendError::InFlight { producer, sequence })),
            Verdict::Reused => answer(reply, Err(AppendError::KeyReused { producer, sequence })),
            Verdict::TooOld => answer(reply, Err(AppendError::SequenceTooOld { producer, sequence })),
            Verdict::Load { first } => {
                let (bucket, stamp) = (part.bucket, stamp.clone());
                if first {
                    self.load(stamp.key(bucket));
                }
                self.producers.wait(bucket, &stamp, Parked { part, share, reply });
            }
        }
    }

    /// The answer to a request that is durable already. It is an ack like any other, so the claim must hold.
    fn seen(&self, seen: crate::keys::producer::SeenRequest) -> Result<Appended, AppendError> {
        if !self.shared.claim.is_live() {
            return Err(AppendError::NotOwned);
        }
        let base_offset = Offset(seen.base_offset);
        let (queued, put) = (Duration::ZERO, Duration::ZERO);
        Ok(Appended { base_offset, rows: seen.rows, again: true, queued, put })
    }

    /// Merges a part of a primary-key table, and gives a part its offsets.
    fn take(&mut self, mut part: Prepared, share: Share, reply: Reply) {
        let number = self.next_part;
        let (mut changed, mut life, mut left, mut grown) = (Vec::new(), Life::Endless, None, Some(0));
        if let Payload::Keyed(keyed) = &part.payload {
            let context = &self.shared.context;
            let now = self.time.max(context.env.now_millis());
            let bounds = Bounds { now, bytes: context.settings.object_bytes };
            let mut ids = self.ids.next(&part.bucket);
            match merge(keyed, number, &mut self.pending, &self.shared.rows, &mut ids, bounds) {
                Merged::Done(mut changes) => {
                    (changed, life) = (std::mem::take(&mut changes.last), changes.life());
                    grown = changes.growth();
                    if ids.drawn() > 0 {
                        let cache = id_cache(keyed);
                        left = Some(self.ids.use_up(part.bucket, ids.drawn()));
                        self.take_ids(part.bucket, cache);
                    }
                    // A changelog has at most two rows for each row of the part, which has less than 2^31 (see `prepare`).
                    part.rows = changes.len() as u32;
                    part.raw_bytes = part.raw_bytes.max(changes.bytes);
                    part.payload = Payload::Changes(changes);
                }
                Merged::Unknown => return self.read_again(part, share, reply),
                Merged::NeedsIds(needed) => {
                    let (bucket, cache) = (part.bucket, id_cache(keyed));
                    self.ids.wait(bucket, needed, Parked { part, share, reply });
                    return self.take_ids(bucket, cache);
                }
                Merged::Refused(error) => return drop(reply.send(Err(error))),
            }
        }
        self.next_part += 1;
        if let Some(stamp) = &part.stamp {
            self.producers.begin(part.bucket, stamp);
        }
        let next = self.next_offsets.entry(part.bucket).or_default();
        let base_offset = *next;
        next.0 += u64::from(part.rows);
        let arrived = Instant::now();
        let slot = Slot { part, base_offset, arrived, reply, share, number, changed, life, grown, ids: left };
        self.open.push(slot, self.shared.context.settings.object_bytes);
    }

    // ---- flushing

    fn linger(&self) -> Duration {
        let settings = &self.shared.context.settings;
        if self.mean_chunk < settings.small_chunk { settings.linger_small } else { settings.linger }
    }

    /// When the open object is to be flushed, if not `now`; `None` while it cannot be.
    fn flush_due(&self, now: Instant) -> Option<Instant> {
        if self.put_in_flight || self.open.is_empty() {
            return None;
        }
        let full =
            self.open.is_full() || self.open.waiting_bytes() >= self.shared.context.settings.flush_bytes;
        match self.last_flush {
            Some(last) if !full && !self.releasing => Some(last + self.linger()),
            _ => Some(now),
        }
    }

    fn flush(&mut self) {
        let Some(open) = self.open.take() else { return };
        let seq = self.next_seq;
        self.time = self.time.max(self.shared.context.env.now_millis());
        let header = Header {
            kind: Kind::Data,
            shard: self.shared.claim.shard(),
            seq,
            last: seq,
            token: self.shared.claim.token(),
            put_id: self.shared.context.env.unique(),
            time: self.time,
        };
        self.put_in_flight = true;
        self.last_flush = Some(Instant::now());
        let (own, shared) = (self.own.clone(), self.shared.clone());
        task::spawn(async move {
            let flushed = flush(&shared, header, open).await;
            tell(&own, Command::Flushed(Box::new(flushed))).await;
        });
    }

    // ---- the database

    /// Tells those who plan how far the database is.
    fn note_progress(&self) {
        self.shared.progress.send_replace(Progress { applied: self.applied, flushed: self.flushed });
    }

    fn group_due(&self, now: Instant) -> Option<Instant> {
        if self.group_in_flight || self.group.is_empty() {
            return None;
        }
        let settings = &self.shared.context.settings;
        let full =
            self.group.objects() >= settings.group_objects || self.group.bytes() >= settings.group_bytes;
        Some(if full || self.releasing { now } else { self.group.began() + settings.group_interval })
    }

    fn write_group(&mut self) {
        let settings = &self.shared.context.settings;
        let lifetimes = Lifetimes { producer: settings.producer_ttl, key: settings.key_ttl };
        let group = std::mem::replace(&mut self.group, Group::new());
        self.group_memory = group.memory();
        let Some((write, seq)) = group.into_write(self.producers.take_dirty(), lifetimes) else { return };
        self.group_in_flight = true;
        let (own, shared) = (self.own.clone(), self.shared.clone());
        task::spawn(async move {
            shared.context.memtables.room().await;
            let written = database::write(&shared.db, write, seq).await;
            tell(&own, Command::GroupWritten(written.map(|()| seq).map_err(|e| e.to_string()))).await;
        });
    }

    fn memtable_due(&self, now: Instant) -> Option<Instant> {
        let later_groups = self.group_in_flight || !self.group.is_empty();
        // A group that waits for room may wait for this very flush.
        if self.memtable_in_flight || self.releasing && later_groups && !self.memtable.is_asked() {
            return None;
        }
        let since = self.unflushed_since?;
        let settings = &self.shared.context.settings;
        let many = self.applied.0 - self.flushed.0 >= settings.memtable_objects;
        let now_due = many || self.releasing || self.memtable.is_asked();
        Some(if now_due { now } else { since + settings.memtable_interval })
    }

    fn flush_memtable(&mut self) {
        self.memtable_in_flight = true;
        self.memtable.flush_begins();
        let (own, shared, seq) = (self.own.clone(), self.shared.clone(), self.applied);
        task::spawn(async move {
            let flushed = database::flush(&shared.db).await;
            tell(&own, Command::MemtableFlushed(flushed.map(|()| seq).map_err(|e| e.to_string()))).await;
        });
    }

    // ---- time and end

    fn next_timer(&self) -> Option<Instant> {
        let now = Instant::now();
        [self.flush_due(now), self.group_due(now), self.memtable_due(now)].into_iter().flatten().min()
    }

    /// Does what is due. True when a release is complete.
    fn timers(&mut self) -> Result<bool, String> {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.flush_due(now)) {
            self.flush();
        }
        if due(self.group_due(now)) {
            self.write_group();
        }
        if due(self.memtable_due(now)) {
            self.flush_memtable();
        }
        self.shared.context.metrics.unflushed_bytes.set(self.shared.context.memory.used() as i64);
        let idle =
            self.open.is_empty() && !self.put_in_flight && self.group.is_empty() && !self.group_in_flight;
        Ok(self.releasing && idle && !self.memtable_in_flight && self.unflushed_since.is_none())
    }

    /// Answers everybody who still waits, tells that the shard ended, and closes the database.
    fn end(mut self, ended: Ended, mut inbox: mpsc::Receiver<Command>) {
        self.shared.claim.give_up();
        if let Ended::Poisoned(why) = &ended {
            self.shared.context.metrics.poisoned.inc();
            tracing::warn!(shard = %self.shared.claim.shard(), token = %self.shared.claim.token(), why, "shard given up");
        }
        for OpenObject { slots, orders, .. } in self.open.take_all() {
            refuse(slots, orders, &AppendError::NotOwned);
        }
        for parked in self.producers.take_waiting().chain(self.ids.take_waiting()) {
            drop(parked.reply.send(Err(AppendError::NotOwned)));
        }
        let shared = self.shared.clone();
        task::spawn(async move {
            inbox.close();
            while let Some(command) = inbox.recv().await {
                match command {
                    Command::Append { reply, .. } => drop(reply.send(Err(AppendError::NotOwned))),
                    Command::Order(order) => refuse([], [order], &AppendError::NotOwned),
                    Command::Flushed(flushed) => {
                        refuse(flushed.slots, flushed.orders, &AppendError::OutcomeUnknown)
                    }
                    _ => {}
                }
            }
            // Whoever waits for a poisoned shard's end must not wait for the object store.
            let released = ended == Ended::Released;
            if !released {
                shared.ended.send_replace(Some(ended.clone()));
            }
            // A fenced or broken database fails to close, which changes nothing: its log is what counts.
            match tokio::time::timeout(CLOSING, shared.db.close()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a shard database did not close cleanly"),
                Err(_) => tracing::debug!("a shard database did not close in time"),
            }
            if released {
                shared.ended.send_replace(Some(ended));
            }
        });
    }
}

fn refuse(
    slots: impl IntoIterator<Item = Slot>,
    orders: impl IntoIterator<Item = Order>,
    error: &AppendError,
) {
    for slot in slots {
        drop(slot.reply.send(Err(error.clone())));
    }
    for order in orders {
        drop(order.reply.send(Err(error.clone())));
    }
}

/// Sends a command to the actor, if it still lives.
async fn tell(own: &mpsc::WeakSender<Command>, command: Command) {
    if let Some(own) = own.upgrade() {
        // An actor that ends meanwhile has answered for everything itself.
        let _ = own.send(command).await;
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
