//! Column defaults: a JSON scalar, read by the rules by which Arrow reads text of the column's type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};

use super::Column;
use crate::fault::{ErrorKind, Fault};

/// A default that is no value of its column's type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the default of column \"{column}\" is {value}, which is no {data_type}: {why}")]
pub struct InvalidDefault {
    column: String,
    value: String,
    data_type: String,
    why: String,
}

impl Fault for InvalidDefault {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid_default"
    }
}

/// The column's default as an array of one value; `None` without one (JSON `null` counts as none).
pub fn default_value(column: &Column) -> Result<Option<ArrayRef>, InvalidDefault> {
    let Some(value) = &column.default else {
        return Ok(None);
    };
    let invalid = |why: String| InvalidDefault {
        column: column.name.clone(),
        value: value.to_string(),
        data_type: column.data_type.to_string(),
        why,
    };
    let text = match value {
        serde_json::Value::Null => return Ok(None),
        serde_json::Value::String(s) => s.clone(),
        serde_json::Value::Bool(_) | serde_json::Value::Number(_) => value.to_string(),
        _ => {
            return Err(invalid("only text, numbers, true and false can be defaults".into()));
        }
    };
    let arrow = column.data_type.to_arrow();
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let value = cast_with_options(&texts, &arrow, &strict).map_err(|e| invalid(e.to_string()))?;
    if value.null_count() > 0 { Err(invalid("it cannot be read".into())) } else { Ok(Some(value)) }
}
