//! The base protocol holds, and the mutants do not.

use super::object::{FENCE, LogObject};
use super::*;

fn explore(bounds: Bounds) -> Outcome {
    Search::new(Takeover::base(bounds), 1).all()
}

#[test]
fn log_object_keeps_row_token_and_attempt() {
    for (row, token, attempt) in (0..4).flat_map(|r| (1..8).flat_map(move |t| (0..8).map(move |a| (r, t, a))))
    {
        let object = LogObject::new(row, token, attempt);
        assert_eq!((object.row(), object.token(), object.is_missing()), (row, token, false));
        assert_eq!((object.is_fence(), object.is_data()), (row == FENCE, row != FENCE));
        assert_eq!(
            object == LogObject::new(row, token, 0),
            attempt == 0,
            "the attempt is part of the put id"
        );
    }
}

#[test]
fn base_holds_everything_and_meets_every_situation() {
    let outcome = explore(Bounds::SMALL);
    assert_eq!(outcome.violated, [""; 0]);
    let mut all = SOMETIMES;
    all.sort_unstable();
    assert_eq!(outcome.met, all);
}

#[test]
fn base_holds_when_puts_are_sent_twice() {
    let outcome = explore(Bounds { claimants: 2, tokens: 2, slots: 4, sends: 2, ..Bounds::SMALL });
    assert_eq!(outcome.violated, [""; 0]);
}

#[test]
fn early_revocation_costs_nothing_but_stale_reads() {
    let outcome = explore(Bounds { rows: 1, early_revocations: 1, ..Bounds::SMALL });
    assert_eq!(outcome.violated, ["K3"]);
}

#[test]
fn base_heals_from_every_world() {
    let outcome = explore(Bounds { slots: 3, liveness: true, ..Bounds::SMALL });
    assert_eq!(outcome.violated, [""; 0]);
}

#[test]
fn names_of_mutants_are_unique() {
    for mutant in MUTANTS {
        assert_eq!(MUTANTS.iter().filter(|other| other.name == mutant.name).count(), 1, "{}", mutant.name);
    }
}

#[test]
fn page_has_the_table_of_mutants() {
    let page = include_str!("../../../docs/takeover-model.md");
    for mutant in MUTANTS {
        let caught = match mutant.expect {
            Expect::Caught(by) => by.join(", "),
            Expect::Survives(why) => format!("not: {why}"),
        };
        let row = format!("| `{}` | {} | {caught} |", mutant.name, mutant.wrong);
        assert!(page.lines().any(|line| line == row), "missing in docs/takeover-model.md: {row}");
    }
}

fn check(mutant: &Mutant) {
    let search = Search::new(Takeover::mutant(mutant), 1);
    match mutant.expect {
        Expect::Caught(by) => {
            let outcome = search.until(by);
            for property in by {
                assert!(
                    outcome.violated.contains(property),
                    "{}: {property} not in {outcome:?}",
                    mutant.name
                );
            }
        }
        Expect::Survives(_) => {
            let outcome = search.all();
            assert!(outcome.violated.is_empty(), "{}: now caught: {outcome:?}", mutant.name);
        }
    }
}

fn check_named(names: &[&str]) {
    for name in names {
        check(Mutant::named(name).expect("a name of the table"));
    }
}

const KILLERS: [&[&str]; 4] = [
    &["fence-deleted", "fence-deleted-no-deadline", "fence-deleted-revoked"],
    &["no-flushed-check"],
    &["ack-past-deadline", "read-past-deadline"],
    &["poison-is-failure", "poison-skips-slot", "poison-keeps-token"],
];

#[test]
fn writer_that_stalls_across_log_deletion_is_caught() {
    check_named(KILLERS[0]);
}

#[test]
fn object_deleted_between_manifest_read_and_fence_is_caught() {
    check_named(KILLERS[1]);
}

#[test]
fn owner_that_serves_past_its_lease_is_caught() {
    check_named(KILLERS[2]);
}

#[test]
fn object_of_a_poisoned_shard_that_lands_late_is_caught() {
    check_named(KILLERS[3]);
}

#[test]
fn other_mutants_end_as_the_table_says() {
    let is_killer = |mutant: &Mutant| KILLERS.concat().contains(&mutant.name);
    MUTANTS.iter().filter(|mutant| !is_killer(mutant)).for_each(check);
}
