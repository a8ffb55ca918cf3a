//! What is said about formats that a later Wadi has written.

/// The version of this Wadi.
pub const WADI: &str = env!("CARGO_PKG_VERSION");

/// The message about `what` in a format that is not known here. `newest` is the newest one that is.
pub fn unknown_format(what: &str, found: impl std::fmt::Display, newest: u32) -> String {
    format!(
        "{what} has format {found}, which is not known here; this is Wadi {WADI}, which knows up to {newest}: upgrade"
    )
}
