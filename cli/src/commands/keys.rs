//! Keys on the command line: `column=value …`.

use wadi_client::{Body, content_type};

use super::table::property;

/// Reads one `column=value`.
pub(super) fn part(text: &str) -> Result<(String, String), String> {
    property(text).map_err(|_| "write it as column=value".to_owned())
}

/// One key as a body; the server reads the values by the columns' types.
pub(super) fn body(key: &[(String, String)]) -> Body {
    let quoted = |text: &String| format!("\"{}\"", text.replace('"', "\"\""));
    let names: Vec<String> = key.iter().map(|(name, _)| quoted(name)).collect();
    let values: Vec<String> = key.iter().map(|(_, value)| quoted(value)).collect();
    Body::new(content_type::CSV, format!("{}\n{}\n", names.join(","), values.join(",")))
}

/// A key as it is shown.
pub(super) fn shown(key: &[(String, String)]) -> String {
    key.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
