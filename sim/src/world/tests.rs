//! Some dozens of seeds. The tests that run them stand side by side so that they share the cores.

use crate::Summary;

use super::*;

const SCRIPT: Script = Script { trouble: Duration::from_secs(25), verbose: false, calm: false, flaw: None };

/// Runs seeds, none of which may violate anything.
fn run_all(seeds: std::ops::Range<u64>) -> Summary {
    let mut summary = Summary::default();
    for seed in seeds {
        let report = run(seed, SCRIPT).unwrap();
        assert!(report.violations.is_empty(), "{report}");
        summary.add(&report);
    }
    summary
}

/// What a set of seeds must have met, or it shows nothing.
fn assert_eventful(summary: &Summary) {
    for kind in [
        "503",
        "409",
        "lost reply",
        "late PUT",
        "hang",
        "crashes",
        "pauses",
        "cuts from objects",
        "cuts from meta",
        "meta unknown",
        "sessions ended early",
        "poisoned shards",
        "takeovers",
        "PUT met itself",
        "answered again",
        "requests failed",
        "requests without an answer",
        "looks by key",
        "files compacted",
        "rounds of packing",
        "objects deleted",
        "prefix lookups",
        "partitions made",
        "partitions dropped",
        "tables dropped",
        "databases swept",
        "rounds of trimming",
        "reads of trimmed rows",
        "scans in pages that came to their end",
        "counts",
        "appends by routes",
        "reads by routes",
        "looks by routes",
        "readers woken",
        "peer requests lost",
        "peer answers lost",
        "peer requests late",
        "peer requests received twice",
        "peer requests cut off",
        "gateways that left in good order",
        "gateways added",
        "clocks set",
    ] {
        assert!(summary.count(kind) > 0, "no {kind} in\n{summary}");
    }
}

#[test]
fn invariants_hold_in_the_first_dozen_seeds() {
    assert_eventful(&run_all(0..12));
}

#[test]
fn invariants_hold_in_the_second_dozen_seeds() {
    assert_eventful(&run_all(100..112));
}

/// A paused owner whose late PUT finds the next owner's fence is what fencing is for, and rare: not in each dozen.
#[test]
fn some_seed_has_a_put_that_meets_a_fence() {
    some_seed_has("PUT met a FENCE");
}

/// Deletion must not take what a stalled actor relies on; one that wakes up so late and goes on is rare too.
#[test]
fn some_seed_has_a_request_of_a_gateway_that_slept_too_long() {
    some_seed_has("F2: requests of gateways that slept longer than lease and grace");
}

#[test]
fn some_seed_has_a_gateway_that_could_not_write() {
    some_seed_has("gateways that knew that they could not write");
}

fn some_seed_has(event: &str) {
    let has = |seed| run_all(seed..seed + 1).count(event) > 0;
    assert!((200..300).any(has), "no {event} in a hundred seeds");
}

/// What is broken on purpose is found, by its name, in one of some seeds.
fn finds(flaw: Flaw, invariant: &str) {
    let broken = |seed| {
        let report = run(seed, Script { flaw: Some(flaw), ..SCRIPT }).unwrap();
        report.violations.iter().any(|violation| violation.invariant == invariant)
    };
    assert!((0..10).any(broken), "{flaw:?} was not found under {invariant}");
}

#[test]
fn rows_that_leave_too_early_or_too_late_are_found() {
    finds(Flaw::FastClock, "R1");
    finds(Flaw::NoRetention, "R1");
}

#[test]
fn objects_and_rows_that_are_left_or_lost_are_found() {
    finds(Flaw::NoDeletion, "T4");
    finds(Flaw::NoSweep, "T4");
    finds(Flaw::LosesPack, "T4");
}

#[test]
fn pages_that_do_not_show_one_time_are_found() {
    finds(Flaw::PagesOfManyTimes, "K1");
}

/// While gateways come, and go in good order, and nothing fails, nobody is refused anything whichever gateway is asked (V1).
#[test]
fn nothing_is_refused_while_shards_move() {
    let mut summary = Summary::default();
    for seed in 0..3 {
        let report = run(seed, Script { calm: true, trouble: Duration::from_secs(15), ..SCRIPT }).unwrap();
        assert!(report.violations.is_empty(), "{report}");
        summary.add(&report);
    }
    for kind in ["gateways that left in good order", "gateways added", "appends by routes", "readers woken"] {
        assert!(summary.count(kind) > 0, "no {kind} in\n{summary}");
    }
}

/// What is broken in the code itself is found, by whatever it breaks first. `make unit` runs it with the feature.
#[cfg(feature = "flaws")]
mod flaws {
    use wadi_store::flaws::Flaw as InCode;

    use super::*;

    fn found(flaw: InCode, invariants: &[&str]) {
        for seed in 0..200 {
            let report = run(seed, Script { flaw: Some(Flaw::Code(flaw)), ..SCRIPT }).unwrap();
            let found = report.violations.iter().find(|found| invariants.contains(&found.invariant));
            if let Some(found) = found {
                println!("{flaw:?}: seed {seed}, {}: {}", found.invariant, found.what);
                return;
            }
        }
        panic!("{flaw:?} was not found in 200 seeds");
    }

    #[test]
    fn acks_after_the_lease() {
        found(InCode::AcksLate, &["F1"]);
    }

    #[test]
    fn takeovers_without_a_fence() {
        found(InCode::SkipsFence, &["F1", "L1", "L2", "L3", "L4", "K1", "K2", "K3", "V1"]);
    }

    #[test]
    fn rows_that_are_read_before_they_are_durable() {
        found(InCode::ReadsEarly, &["F1", "L1", "L3", "L4", "K1", "K2", "K3", "V1"]);
    }

    #[test]
    fn deletions_of_what_the_database_does_not_have() {
        found(InCode::DeletesEarly, &["L1", "L4", "V1"]);
    }

    #[test]
    fn packs_that_do_not_hold_their_round() {
        found(InCode::TakesAnyPack, &["L1", "L4", "R1", "V1"]);
    }
}

/// Without tokio's seed (see `.cargo/config.toml`) a run cannot repeat itself.
#[cfg(tokio_unstable)]
#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed| run(seed, SCRIPT).unwrap().hash;
    for seed in [7, 8] {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(7), hash(8));
}
