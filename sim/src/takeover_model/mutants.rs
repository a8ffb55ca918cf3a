//! The table of mutants. `docs/takeover-model.md` shows it too, and a test keeps the two in step.

use super::V1;
use super::flaws::Flaw::*;
use super::flaws::Mutant;

/// All mutants, in the order of the protocol: lease, takeover, deletion, apply, PUT outcome, poison.
pub const MUTANTS: &[Mutant] = &[
    // Lease.
    Mutant::caught(
        "revoked-early",
        &[],
        &["K3"],
        "no flaw, but the claim ends before the deadline; the design accepts these stale reads",
    )
    .revoked()
    .claims(2),
    Mutant::caught("ack-past-deadline", &[NoAckDeadline], &["F1"], "an owner acks past its lease"),
    Mutant::caught("read-past-deadline", &[NoReadDeadline], &["K3"], "an owner answers reads past its lease"),
    Mutant::caught(
        "claim-not-checked",
        &[ClaimNotChecked],
        &["K3", "F1"],
        "a claim given back still answers while the session holds",
    ),
    Mutant::caught(
        "session-revives",
        &[SessionRevives],
        &["K3"],
        "a new session brings an old claim back to life",
    ),
    Mutant::survives(
        "no-lease-recheck",
        &[NoLeaseRecheck],
        "every ack and read checks the deadline anyway; it only spares a useless tenure",
        "serves after replay without looking at the lease again",
    )
    .rows(1),
    // Takeover.
    Mutant::caught("no-fence", &[NoFence], &["L1", "F2"], "a takeover writes no FENCE")
        .revoked()
        .rows(3)
        .claims(2)
        .slots(3),
    Mutant::caught(
        "no-fence-no-deadline",
        &[NoFence, NoAckDeadline],
        &["L1", "F2"],
        "no FENCE, and an owner acks past its lease",
    )
    .rows(3)
    .claims(2)
    .slots(3),
    Mutant::caught(
        "no-flushed-check",
        &[NoFlushedCheck],
        &["L4", "F2"],
        "the FENCE may lie in a slot deleted between manifest read and FENCE",
    ),
    Mutant::caught(
        "alarm-at-once",
        &[AlarmAtOnce],
        &["C1"],
        "a lower token behind a higher is corruption, even if the scan began too low",
    ),
    Mutant::caught(
        "token-unknown-at-base",
        &[AppliedIgnored, BaseIgnored],
        &["C1"],
        "a takeover asks neither `meta/applied` nor the object at `last_l0_seq` for a higher token",
    ),
    Mutant::survives(
        "applied-ignored",
        &[AppliedIgnored],
        "the object at `last_l0_seq` is kept and names the token too",
        "a takeover does not ask `meta/applied` for a higher token",
    ),
    Mutant::survives(
        "base-ignored",
        &[BaseIgnored],
        "`meta/applied` names the same token",
        "a takeover does not read the object at `last_l0_seq`",
    ),
    Mutant::caught(
        "higher-token-ignored",
        &[HigherIgnored],
        &["C1"],
        "a takeover goes on behind a higher token",
    ),
    Mutant::survives(
        "any-epoch",
        &[AnyEpoch],
        "it opens SlateDB over a later owner, who notices and takes over again: the epoch saves \
work, the log is safe without",
        "opens SlateDB without the expected epoch",
    ),
    Mutant::caught("replay-skips-missing", &[ReplaySkipsMissing], &["L4"], "a 404 in the replay is skipped")
        .revoked()
        .rows(1),
    Mutant::caught(
        "replay-trusts-names",
        &[ReplayTrustsNames],
        &["L4"],
        "the replay takes what lies in a slot now for what the scan met there",
    )
    .revoked()
    .rows(1),
    // Deletion.
    Mutant::caught("fence-deleted", &[FenceDeleted], &["R1"], "FENCEs are deleted as DATA is").slots(3),
    Mutant::caught(
        "fence-deleted-no-deadline",
        &[FenceDeleted, NoAckDeadline],
        &["F1", "F2", "L1"],
        "a writer stalls across the deletion of its slot, and acks past its lease",
    ),
    Mutant::caught(
        "fence-deleted-revoked",
        &[FenceDeleted],
        &["F2", "L1"],
        "a writer stalls across the deletion of its slot, and its claim ended early",
    )
    .revoked()
    .claims(2),
    Mutant::caught(
        "unflushed-deleted",
        &[UnflushedDeleted],
        &["L1"],
        "lists name what is applied, but not flushed",
    ),
    Mutant::caught("base-deleted", &[BaseDeleted], &[V1], "the object at `last_l0_seq` is deleted too")
        .with_liveness()
        .slots(3)
        .claims(2),
    // Apply.
    Mutant::caught("apply-before-durable", &[ApplyEarly], &["K1"], "SlateDB takes what is not confirmed"),
    // The outcome of a PUT.
    Mutant::caught("exists-is-failure", &[ExistsIsFailure], &["L2"], "AlreadyExists means failed")
        .resent()
        .slots(3)
        .claims(2),
    Mutant::caught("exists-is-success", &[ExistsIsSuccess], &["L1", "F2"], "AlreadyExists means done")
        .revoked()
        .claims(2),
    Mutant::caught(
        "foreign-is-failure",
        &[ForeignIsFailure],
        &["L2"],
        "a foreign object in the slot means failed",
    ),
    Mutant::caught("missing-is-failure", &[MissingIsFailure], &["L2"], "a 404 after a PUT means failed"),
    // Poison.
    Mutant::caught(
        "poison-is-failure",
        &[PoisonIsFailure],
        &["L2"],
        "out of budget means failed; the object lands late",
    ),
    Mutant::caught(
        "poison-skips-slot",
        &[PoisonSkipsSlot],
        &["L1"],
        "out of budget, the owner leaves the slot and goes on behind it",
    ),
    Mutant::caught(
        "poison-keeps-token",
        &[PoisonKeepsToken],
        &["C1"],
        "a poisoned claim takes over again under its old token; its own late object looks like corruption",
    )
    .slots(3),
    Mutant::survives(
        "poison-keeps-token-fenced",
        &[PoisonKeepsToken, EqualTokenIncluded],
        "the second FENCE ends the old PUT as another owner's would; a new token makes both easy \
to tell apart",
        "a poisoned claim keeps its token and takes its own late object over",
    )
    .slots(3)
    .claims(2),
    Mutant::caught(
        "poison-keeps-fence",
        &[PoisonKeepsToken, EqualTokenIncluded, PoisonKeepsFence],
        &["C1"],
        "a poisoned claim keeps its token and writes no second FENCE",
    )
    .slots(3),
    Mutant::survives(
        "poison-compares-tokens",
        &[PoisonKeepsToken, CompareTokens],
        "the old object can only lie where the second FENCE should, and the replay compares put ids there",
        "a poisoned claim keeps its token, and tokens are compared instead of put ids",
    )
    .claims(2),
];
