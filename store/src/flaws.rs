//! Faults that are put into the code on purpose, so that the simulation can show that it finds them.
//!
//! Only with the feature `flaws`, which nothing but a test of the simulation turns on; else there is a constant here, and no fault. The switch is
//! the thread's, since a simulation runs on one.
#![cfg_attr(not(feature = "flaws"), allow(unreachable_pub, reason = "nobody outside can use it then"))]

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Acks are given although the lease has run out.
    AcksLate,
    /// A takeover goes on as if its FENCE were there, and it is not.
    SkipsFence,
    /// Rows are readable, and acked, before their object is durable.
    ReadsEarly,
    /// Log objects may be deleted that the durable database does not have.
    DeletesEarly,
    /// Packs are taken without a look at the rows that they hold.
    TakesAnyPack,
}

#[cfg(feature = "flaws")]
thread_local! {
    static NOW: std::cell::Cell<Option<Flaw>> = const { std::cell::Cell::new(None) };
}

/// Puts a fault into all that runs on this thread from now on, or takes it out.
#[cfg(feature = "flaws")]
pub fn set(flaw: Option<Flaw>) {
    NOW.set(flaw);
}

/// Whether the code has this fault.
#[cfg(feature = "flaws")]
pub(crate) fn has(flaw: Flaw) -> bool {
    NOW.get() == Some(flaw)
}

/// Whether the code has this fault. It has not.
#[cfg(not(feature = "flaws"))]
pub(crate) const fn has(_: Flaw) -> bool {
    false
}
