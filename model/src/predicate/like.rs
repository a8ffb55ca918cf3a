//! LIKE patterns: from any escape character to Arrow's backslash, and the text that every match starts with.

/// Rewrites a pattern for Arrow's kernels, whose escape character is the backslash.
///
/// An error says what is wrong with the pattern: nothing follows its last escape character.
pub(super) fn to_arrow_pattern(pattern: &str, escape: Option<char>) -> Result<String, &'static str> {
    let escape = escape.unwrap_or('\\');
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == escape {
            let literal = chars.next().ok_or("the LIKE pattern ends with its escape character")?;
            if matches!(literal, '%' | '_' | '\\') {
                out.push('\\');
            }
            out.push(literal);
        } else {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
        }
    }
    Ok(out)
}

/// The text before the first wildcard.
pub(super) fn literal_prefix(pattern: &str, escape: Option<char>) -> String {
    let escape = escape.unwrap_or('\\');
    let mut prefix = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            _ if c == escape => match chars.next() {
                Some(literal) => prefix.push(literal),
                None => break,
            },
            '%' | '_' => break,
            _ => prefix.push(c),
        }
    }
    prefix
}
