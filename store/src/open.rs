//! Scans that wait for their next page: a bounded number of them, each for a bounded time.
//!
//! Gateways keep them for clients, and owners of shards for other gateways.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::task;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// A scan ends when nobody has asked for a page in this time …
pub const IDLE: Duration = Duration::from_secs(600);

/// … or when it is so old …
const AGE: Duration = Duration::from_secs(3600);

/// … or this long after its last page, which may have been lost on its way.
const AFTER_END: Duration = Duration::from_secs(60);

/// Open scans, by their numbers. Each keeps files of its shards' databases from being removed.
#[derive(Debug)]
pub struct Open<T> {
    most: usize,
    inner: Arc<Mutex<HashMap<u128, Entry<T>>>>,
}

#[derive(Debug)]
struct Entry<T> {
    scan: Arc<T>,
    began: Instant,
    used: Instant,
    /// Whether its last page was answered.
    finished: bool,
}

impl<T> Entry<T> {
    fn ends(&self) -> Instant {
        let rest = if self.finished { AFTER_END } else { IDLE };
        (self.used + rest).min(self.began + AGE)
    }
}

impl<T: Send + Sync + 'static> Open<T> {
    /// None yet, and never more than so many.
    pub fn new(most: usize) -> Open<T> {
        Open { most, inner: Arc::default() }
    }

    /// Keeps a scan. False if too many are open.
    pub fn insert(&self, id: u128, scan: Arc<T>) -> bool {
        let mut scans = self.inner.lock();
        if scans.len() >= self.most {
            let oldest = scans.iter().filter(|(_, entry)| entry.finished).min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { return false };
            scans.remove(&oldest);
        }
        let now = Instant::now();
        scans.insert(id, Entry { scan, began: now, used: now, finished: false });
        drop(scans);
        task::spawn(expire(Arc::downgrade(&self.inner), id));
        true
    }

    /// A scan that is still open, for its next page.
    pub fn get(&self, id: u128) -> Option<Arc<T>> {
        let mut scans = self.inner.lock();
        let entry = scans.get_mut(&id).filter(|entry| Instant::now() < entry.ends())?;
        entry.used = Instant::now();
        Some(entry.scan.clone())
    }

    /// Notes that a page was answered, and whether it was the last one.
    pub fn answered(&self, id: u128, last: bool) {
        if let Some(entry) = self.inner.lock().get_mut(&id) {
            (entry.used, entry.finished) = (Instant::now(), last);
        }
    }

    /// Ends a scan.
    pub fn remove(&self, id: u128) {
        self.inner.lock().remove(&id);
    }

    /// What the open scans hold together.
    pub fn sum(&self, of: impl Fn(&T) -> usize) -> usize {
        self.inner.lock().values().map(|entry| of(&entry.scan)).sum()
    }
}

/// Ends a scan when its time is over.
async fn expire<T>(scans: Weak<Mutex<HashMap<u128, Entry<T>>>>, id: u128) {
    loop {
        let ends = {
            let Some(scans) = scans.upgrade() else { return };
            let mut scans = scans.lock();
            let Some(ends) = scans.get(&id).map(Entry::ends) else { return };
            if ends <= Instant::now() {
                scans.remove(&id);
                return;
            }
            ends
        };
        // An end that comes sooner, since the scan was finished, is seen on time too.
        sleep_until(ends.min(Instant::now() + AFTER_END)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const MOST: usize = 64;

    #[tokio::test(start_paused = true)]
    async fn scans_end_when_nobody_goes_on() {
        let open = Open::new(MOST);
        assert!(open.insert(1, Arc::new(())));
        sleep(IDLE - Duration::from_secs(1)).await;
        assert!(open.get(1).is_some());
        sleep(IDLE - Duration::from_secs(1)).await;
        assert!(open.get(1).is_some(), "it was used");
        let kept = Arc::downgrade(&open.get(1).unwrap());
        sleep(IDLE + Duration::from_secs(1)).await;
        assert!(open.get(1).is_none());
        assert!(kept.upgrade().is_none(), "nothing holds it any more");
    }

    #[tokio::test(start_paused = true)]
    async fn scans_end_after_an_hour() {
        let open = Open::new(MOST);
        assert!(open.insert(1, Arc::new(())));
        for _ in 0..59 {
            sleep(Duration::from_secs(60)).await;
            assert!(open.get(1).is_some());
        }
        sleep(Duration::from_secs(61)).await;
        assert!(open.get(1).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn only_finished_scans_make_room() {
        let open = Open::new(MOST);
        for id in 0..MOST as u128 {
            assert!(open.insert(id, Arc::new(())));
        }
        assert!(!open.insert(1000, Arc::new(())));
        open.answered(7, true);
        assert!(open.get(7).is_some(), "its last page may be asked for again");
        assert!(open.insert(1000, Arc::new(())));
        assert!(open.get(7).is_none());
        open.answered(8, true);
        sleep(2 * AFTER_END).await;
        assert!(open.get(8).is_none());
        assert!(open.get(9).is_some());
    }
}
