//! What SlateDB holds in memory for all shards together beside its cache of blocks, and who must bring it to the object store
//! when that is too much.
//!
//! Each shard's actor counts what it writes to its database and has not flushed yet. When the sum is above the budget the
//! largest is asked to flush, then the next one, until what nobody was asked for fits. A shard that has a full memtable of its
//! own is asked in any case. So many idle shards cost nothing, and a busy one may use what they leave.
//!
//! Who asked may still have to wait: the next groups are written only once there is [room](Memtables::room), so flushes that are slower than
//! the writes hold these up, and not the memory of the process.
//!
//! The bytes are our own count, taken when a group is written: the same run gives the same flushes. It is keys and values and
//! what each entry takes beside them ([`ENTRY_BYTES`]), which is more than the row where rows are small.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// What an entry takes in SlateDB's memtable beside its key and its value: a node of its skip list. By a heap profile.
pub(crate) const ENTRY_BYTES: usize = 192;

/// Rows that are read from the databases of all shards at once. Each may hold blocks, and indexes and filters of files that the
/// cache does not keep. With 30 ms for a GET they are some 8,000 rows a second.
const READS: u32 = 256;

/// The same on a local directory, where each asks threads for several files at once, and writes need threads too.
const LOCAL_READS: u32 = 64;

/// The budget of a process. Clones share it.
#[derive(Clone, Debug)]
pub struct Memtables(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// For all together.
    budget: usize,
    /// For each.
    most: usize,
    shards: Mutex<Shards>,
    /// Some memory was given back.
    freed: Notify,
    reads: Semaphore,
}

#[derive(Debug, Default)]
struct Shards {
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    /// Bytes that its flush in flight frees.
    leaving: usize,
    asked: bool,
    wake: Arc<Notify>,
}

/// The memtable of one open shard. It leaves the budget when it is dropped.
#[derive(Debug)]
pub(crate) struct Memtable {
    all: Memtables,
    id: u64,
    wake: Arc<Notify>,
}

impl Memtables {
    /// A budget of so many bytes for all shards, and the most that one may hold.
    pub fn new(budget: usize, most: usize) -> Memtables {
        let (freed, reads) = (Notify::new(), Semaphore::new(READS as usize));
        Memtables(Arc::new(Inner { budget, most, shards: Mutex::default(), freed, reads }))
    }

    /// Bytes that are not flushed.
    pub fn used(&self) -> usize {
        self.0.shards.lock().held.values().map(|held| held.bytes).sum()
    }

    /// Waits until no more than the budget is held. What is above it has been asked for, so it ends once those flushes have,
    /// or their shards.
    pub(crate) async fn room(&self) {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // Before the look, so that nothing is missed in between.
            freed.as_mut().enable();
            if self.used() <= self.0.budget {
                return;
            }
            freed.await;
        }
    }

    /// Waits until one more row may be read from a database, for as long as the permit lives. `None` never comes: nobody
    /// closes it.
    pub(crate) async fn read(&self, local: bool) -> Option<SemaphorePermit<'_>> {
        let share = if local { READS / LOCAL_READS } else { 1 };
        self.0.reads.acquire_many(share).await.ok()
    }

    /// A shard that was just opened, with what its replay wrote.
    pub(crate) fn join(&self, bytes: usize) -> Memtable {
        let wake = Arc::new(Notify::new());
        let mut shards = self.0.shards.lock();
        let id = shards.next;
        shards.next += 1;
        shards.held.insert(id, Held { bytes: 0, leaving: 0, asked: false, wake: wake.clone() });
        drop(shards);
        let memtable = Memtable { all: self.clone(), id, wake };
        memtable.wrote(bytes);
        memtable
    }
}

impl Memtable {
    /// Counts bytes that were written, and asks for flushes if it is too much now.
    pub(crate) fn wrote(&self, bytes: usize) {
        let mut shards = self.all.0.shards.lock();
        if let Some(own) = shards.held.get_mut(&self.id) {
            own.bytes += bytes;
            if own.bytes - own.leaving >= self.all.0.most {
                own.ask();
            }
        }
        loop {
            let staying = |held: &Held| if held.asked { 0 } else { held.bytes - held.leaving };
            let sum: usize = shards.held.values().map(staying).sum();
            // The first of equal ones, so that a run repeats itself.
            let largest = shards.held.values_mut().rev().max_by_key(|held| staying(held));
            match largest {
                Some(largest) if sum > self.all.0.budget && staying(largest) > 0 => largest.ask(),
                _ => return,
            }
        }
    }

    /// Whether it is to be flushed.
    pub(crate) fn is_asked(&self) -> bool {
        self.all.0.shards.lock().held.get(&self.id).is_some_and(|held| held.asked)
    }

    /// Waits until it is asked for a flush.
    pub(crate) async fn asked(&self) {
        self.wake.notified().await;
    }

    /// A flush begins, of everything written so far.
    pub(crate) fn flush_begins(&self) {
        if let Some(own) = self.all.0.shards.lock().held.get_mut(&self.id) {
            own.asked = false;
            own.leaving = own.bytes;
        }
    }

    /// That flush is done.
    pub(crate) fn flushed(&self) {
        if let Some(own) = self.all.0.shards.lock().held.get_mut(&self.id) {
            own.bytes -= std::mem::take(&mut own.leaving);
        }
        self.all.0.freed.notify_waiters();
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.all.0.shards.lock().held.remove(&self.id);
        self.all.0.freed.notify_waiters();
    }
}

impl Held {
    fn ask(&mut self) {
        self.asked = true;
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(shards: &[Memtable]) -> Vec<bool> {
        shards.iter().map(Memtable::is_asked).collect()
    }

    #[test]
    fn the_largest_is_flushed_first_and_no_more_than_needed() {
        let all = Memtables::new(100, 1000);
        let shards = [all.join(0), all.join(0), all.join(0)];
        shards[0].wrote(30);
        shards[1].wrote(50);
        shards[2].wrote(20);
        assert_eq!(asked(&shards), [false; 3]);
        shards[2].wrote(1);
        assert_eq!(asked(&shards), [false, true, false]);
        // What is about to leave does not count again.
        shards[0].wrote(40);
        assert_eq!(asked(&shards), [false, true, false]);
        shards[1].flush_begins();
        shards[1].wrote(5);
        assert_eq!(asked(&shards), [false, false, false]);
        assert_eq!(all.used(), 146);
        shards[1].flushed();
        assert_eq!(all.used(), 96);
        shards[0].wrote(90);
        assert_eq!(asked(&shards), [true, false, false]);
    }

    #[test]
    fn one_that_is_full_alone_is_flushed() {
        let all = Memtables::new(1000, 32);
        let shards = [all.join(31), all.join(0)];
        assert_eq!(asked(&shards), [false, false]);
        shards[0].wrote(1);
        assert_eq!(asked(&shards), [true, false]);
        shards[0].flush_begins();
        shards[0].wrote(31);
        assert_eq!(asked(&shards), [false, false]);
    }

    #[test]
    fn a_shard_that_is_gone_takes_nothing() {
        let all = Memtables::new(100, 1000);
        let first = all.join(90);
        drop(all.join(90));
        assert_eq!(all.used(), 90);
        first.wrote(10);
        assert!(first.is_asked(), "two were too much, and the first of equal ones was asked");
    }

    #[tokio::test]
    async fn who_writes_waits_for_room() {
        let all = Memtables::new(100, 1000);
        let (first, second) = (all.join(60), all.join(0));
        all.room().await;
        second.wrote(41);
        assert_eq!(asked(&[first, second][..1]), [true]);
        let (first, second) = (all.join(60), all.join(60));
        assert!(first.is_asked());
        first.flush_begins();
        let room = all.room();
        tokio::pin!(room);
        assert!(futures::poll!(&mut room).is_pending());
        first.flushed();
        room.await;
        second.wrote(50);
        assert!(second.is_asked());
        let room = all.room();
        tokio::pin!(room);
        assert!(futures::poll!(&mut room).is_pending());
        drop(second);
        room.await;
    }

    #[tokio::test]
    async fn who_is_asked_wakes_up() {
        let all = Memtables::new(10, 1000);
        let (idle, busy) = (all.join(9), all.join(0));
        busy.wrote(2);
        idle.asked().await;
        assert!(!busy.is_asked());
    }
}
