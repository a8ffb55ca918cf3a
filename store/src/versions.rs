//! What is said about formats that a later Wadi has written, and the version of what processes of a cluster say to each other.
//!
//! Gateways and compactors of two versions of the internal calls refuse each other before a call is read: the caller tries again, and
//! says why it has to. Stored formats are another matter, each has its own version.

/// The version of this Wadi.
pub const WADI: &str = env!("CARGO_PKG_VERSION");

/// The version of the internal calls: their names, their messages, and what they mean. Raised with each change that the other side
/// would misread.
pub const INTERNAL: u32 = 1;

/// The header of internal calls that says it.
pub const INTERNAL_HEADER: &str = "wadi-internal-version";

/// The message about `what` in a format that is not known here. `newest` is the newest one that is.
pub fn unknown_format(what: &str, found: impl std::fmt::Display, newest: u32) -> String {
    format!(
        "{what} has format {found}, which is not known here; this is Wadi {WADI}, which knows up to {newest}: upgrade"
    )
}

/// Whether a process that speaks the version of this header's value is understood; if not, what is to be said.
pub fn check_internal(header: Option<&str>) -> Result<(), String> {
    if header == Some(INTERNAL.to_string().as_str()) {
        return Ok(());
    }
    let theirs = header.map_or_else(|| "no version".to_owned(), |theirs| format!("version {theirs:?}"));
    Err(format!(
        "the calling process speaks {theirs} of the internal calls, and this one, Wadi {WADI}, version {INTERNAL}; nothing was done. \
        Bring all processes of the cluster to one version"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_version_understands_itself_and_no_other() {
        assert_eq!(check_internal(Some("1")), Ok(()));
        for other in [None, Some(""), Some("2"), Some("01"), Some("1 ")] {
            let told = check_internal(other).unwrap_err();
            assert!(told.contains(WADI) && told.contains("nothing was done"), "{told}");
        }
    }
}
