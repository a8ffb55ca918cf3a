use std::sync::Arc;

use object_store::memory::InMemory;
use wadi_meta::memory::MemoryStore;
use wadi_model::env::Source;

use super::*;

fn not_ok(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().filter(|f| !f.ok).map(|f| f.check).collect()
}

#[tokio::test]
async fn a_good_store_passes_and_is_left_clean() {
    let store = InMemory::new();
    let findings = examine(&store, &Path::from("w"), &Env::default()).await;
    assert!(not_ok(&findings).is_empty(), "{findings:?}");
    assert!(store.list(None).try_collect::<Vec<_>>().await.unwrap().is_empty());
}

/// A clock that is off by so many milliseconds.
struct Off(i64);

impl Source for Off {
    fn now_millis(&self) -> i64 {
        Env::default().now_millis() + self.0
    }
    fn random(&self) -> u64 {
        Env::default().random()
    }
}

#[tokio::test]
async fn a_clock_that_is_off_is_told() {
    for (off, side) in [(3_600_000, "behind this machine"), (-3_600_000, "ahead of this machine")] {
        let findings = examine(&InMemory::new(), &Path::from("w"), &Env::new(Off(off))).await;
        assert_eq!(not_ok(&findings), ["clock"], "{findings:?}");
        let clock = findings.iter().find(|f| !f.ok).unwrap();
        for part in [side, "15 minutes", "RequestTimeTooSkewed", "NTP"] {
            assert!(clock.detail.contains(part), "{part} is missing in {}", clock.detail);
        }
    }
    let findings = examine(&InMemory::new(), &Path::from("w"), &Env::new(Off(5_000))).await;
    assert!(not_ok(&findings).is_empty(), "{findings:?}");
}

#[tokio::test(start_paused = true)]
async fn a_good_meta_store_passes_and_is_left_clean() {
    let meta = Arc::new(MemoryStore::new());
    let findings = examine_meta(meta.as_ref(), Duration::from_secs(10)).await;
    assert!(not_ok(&findings).is_empty(), "{findings:?}");
    assert!(meta.list("").await.unwrap().entries.is_empty());
}
