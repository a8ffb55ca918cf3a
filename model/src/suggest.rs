//! "Did you mean …?" for every name a user can mistype.

/// Longest name that is compared; longer ones are no slips, and comparing them takes long.
const MAX_GIVEN: usize = 2 * crate::name::MAX_NAME;

/// The candidate nearest to `given`, if one is near enough to be a likely slip.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > MAX_GIVEN {
        return None;
    }
    let lower = given.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&lower, &c.to_lowercase()), c))
        .filter(|(distance, c)| *distance <= (c.len().max(given.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// The end of an error message: `; did you mean "x"?` or nothing.
pub fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = ["carrier", "dep_delay", "origin"];
        assert_eq!(nearest("carier", names), Some("carrier"));
        assert_eq!(nearest("DEP_DELAY", names), Some("dep_delay"));
        assert_eq!(nearest("price", names), None);
    }
}
