//! Appends values that are written as plain text: CSV fields, JSON strings, keys of maps.

use wadi_model::reject::preview;

use super::super::text::{self, Unfit};
use super::super::token::Json;
use super::{Builder, Fail, Fields, Room, Values};

/// A field of a CSV record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Cell<'a> {
    /// Nothing between two commas: null.
    Absent,
    /// What stands there, without its quotes. Two quotes with nothing between are the empty text.
    Text(&'a str),
}

impl Fields {
    /// Appends a CSV field to the column at `index`.
    pub(in super::super) fn push_cell(
        &mut self,
        index: usize,
        cell: Cell<'_>,
        room: &mut Room,
    ) -> Result<(), Fail> {
        let column = &mut self.columns[index];
        let pushed = match cell {
            Cell::Absent => column.push_null().map_err(|fail| match fail {
                Fail::Unfit(unfit) => column.misfit(unfit, "an empty field".to_owned()),
                other => other,
            }),
            Cell::Text(text) => column.push_text(text, room),
        };
        pushed.map_err(|f| f.within(&self.names[index]))
    }
}

impl Builder {
    /// Appends the value of a text; values of nested types are written as JSON.
    fn push_text(&mut self, text: &str, room: &mut Room) -> Result<(), Fail> {
        let pushed = match &mut self.values {
            Values::Array { .. } | Values::Map { .. } | Values::Row(_) => self.push_json_text(text, room),
            values => values.push_plain(text).map_err(Fail::from).map(|()| self.nulls.append_non_null()),
        };
        pushed.map_err(|fail| match fail {
            Fail::Unfit(unfit) => self.misfit(unfit, preview(text)),
            other => other,
        })
    }

    fn push_json_text(&mut self, text: &str, room: &mut Room) -> Result<(), Fail> {
        let mut json = Json::new(text);
        let pushed = self.push_json(&mut json, room);
        match pushed.and_then(|()| Ok(json.end("nothing more is expected here")?)) {
            // The place is one inside of the field: the field is what does not fit.
            Err(Fail::Syntax(_)) => Err(Unfit::Form.into()),
            other => other,
        }
    }

    /// Appends a map's key, which the name of a JSON field spells.
    pub(super) fn push_key(&mut self, text: &str, room: &mut Room) -> Result<(), Fail> {
        self.push_text(text, room)
    }
}

impl Values {
    /// Appends the value of a text; of nested types none is written so.
    pub(super) fn push_plain(&mut self, text: &str) -> Result<(), Unfit> {
        match self {
            Values::Boolean(v) => v.append(text::boolean(text)?),
            Values::TinyInt(v) => v.push(text::integer(text)?),
            Values::SmallInt(v) => v.push(text::integer(text)?),
            Values::Int(v) => v.push(text::integer(text)?),
            Values::BigInt(v) => v.push(text::integer(text)?),
            Values::Float(v) => v.push(text::float(text)?),
            Values::Double(v) => v.push(text::float(text)?),
            Values::Decimal { values, precision, scale } => {
                values.push(text::decimal(text, *precision, *scale)?);
            }
            Values::Text(v) => v.push(text.as_bytes()),
            Values::Bytes(v) => {
                text::base64(text, &mut v.data)?;
                v.close();
            }
            Values::Fixed { data, width } => {
                let before = data.len();
                text::base64(text, data)?;
                if data.len() - before != *width {
                    return Err(Unfit::Length);
                }
            }
            Values::Date(v) => v.push(text::date(text)?),
            // Both units count less than 2^31 in a day.
            Values::Time32 { values, unit } => values.push(text::time(text, *unit)? as i32),
            Values::Time64 { values, unit } => values.push(text::time(text, *unit)?),
            Values::Timestamp { values, unit, zoned } => {
                let ticks = match text::integer(text) {
                    Ok(ticks) => text::epoch(ticks, *unit)?,
                    Err(_) => text::timestamp(text, *unit, *zoned)?,
                };
                values.push(ticks);
            }
            Values::Array { .. } | Values::Map { .. } | Values::Row(_) => return Err(Unfit::Form),
        }
        Ok(())
    }
}
