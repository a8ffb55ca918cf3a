//! Appends JSON values to columns.

use std::borrow::Cow;

use wadi_model::reject::preview;

use super::super::text::{self, Unfit};
use super::super::token::Json;
use super::{Builder, Fail, Fields, Room, Values, twice};

/// Longest value that is shown as it is written.
const MAX_SHOWN: usize = 80;

impl Fields {
    /// Appends one object, whose names may stand in any order; fields that it does not have get their default or
    /// null.
    pub(in super::super) fn push_object(&mut self, json: &mut Json<'_>, room: &mut Room) -> Result<(), Fail> {
        json.need(b'{', "an object is expected here")?;
        self.begin(room)?;
        self.objects += 1;
        let mut named = 0;
        // Rows mostly name their columns in one order: the guess saves the look-up.
        let mut guess = 0;
        let mut more = !json.take(b'}');
        while more {
            let name = json.string()?;
            json.need(b':', "a colon is expected here")?;
            let index = match self.names.get(guess) {
                Some(guessed) if *guessed == name => guess,
                _ => *self.positions.get(name.as_ref()).ok_or_else(|| self.unknown(&name))?,
            };
            if self.seen[index] == self.objects {
                return Err(twice(&name));
            }
            self.seen[index] = self.objects;
            self.columns[index].push_json(json, room).map_err(|f| f.within(&name))?;
            named += 1;
            guess = index + 1;
            more = json.more(b'}')?;
        }
        if named < self.columns.len() {
            for index in 0..self.columns.len() {
                if self.seen[index] != self.objects {
                    self.push_absent(index)?;
                }
            }
        }
        Ok(())
    }
}

impl Builder {
    /// Appends the value that comes next.
    pub(super) fn push_json(&mut self, json: &mut Json<'_>, room: &mut Room) -> Result<(), Fail> {
        let first = json.peek();
        let start = json.at();
        let pushed = match first {
            Some(b'n') => {
                json.word("null")?;
                self.push_null()
            }
            Some(first) => {
                let pushed = self.values.push_json(first, json, room);
                if pushed.is_ok() {
                    self.nulls.append_non_null();
                }
                pushed
            }
            None => return Err(json.error("").into()),
        };
        pushed.map_err(|fail| match fail {
            Fail::Unfit(unfit) => {
                json.rewind(start);
                match shown(json) {
                    Ok(got) => self.misfit(unfit, got),
                    Err(fail) => fail,
                }
            }
            other => other,
        })
    }
}

/// The value that comes next, as it is shown in an error.
fn shown(json: &mut Json<'_>) -> Result<String, Fail> {
    let first = json.peek();
    let start = json.at();
    let raw = json.skip()?;
    Ok(match first {
        Some(b'"') => {
            json.rewind(start);
            preview(&json.string()?)
        }
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        _ if raw.len() > MAX_SHOWN => format!("{}…", &raw[..MAX_SHOWN]),
        _ => raw.to_owned(),
    })
}

fn number<'a>(first: u8, json: &mut Json<'a>) -> Result<&'a str, Fail> {
    match first {
        b'-' | b'0'..=b'9' => Ok(json.number()?),
        b'"' => Err(Unfit::Unquote.into()),
        _ => Err(Unfit::Form.into()),
    }
}

fn string<'a>(first: u8, json: &mut Json<'a>) -> Result<Cow<'a, str>, Fail> {
    match first {
        b'"' => Ok(json.string()?),
        b'-' | b'0'..=b'9' => Err(Unfit::Quote.into()),
        _ => Err(Unfit::Form.into()),
    }
}

impl Values {
    /// Appends the value that comes next and begins with `first`; it is not `null`.
    fn push_json(&mut self, first: u8, json: &mut Json<'_>, room: &mut Room) -> Result<(), Fail> {
        match self {
            Values::Boolean(v) => match first {
                b't' => {
                    json.word("true")?;
                    v.append(true);
                }
                b'f' => {
                    json.word("false")?;
                    v.append(false);
                }
                b'"' => return Err(Unfit::Unquote.into()),
                _ => return Err(Unfit::Form.into()),
            },
            Values::TinyInt(v) => v.push(text::integer(number(first, json)?)?),
            Values::SmallInt(v) => v.push(text::integer(number(first, json)?)?),
            Values::Int(v) => v.push(text::integer(number(first, json)?)?),
            Values::BigInt(v) => v.push(text::integer(number(first, json)?)?),
            Values::Float(v) => v.push(text::float(number(first, json)?)?),
            Values::Double(v) => v.push(text::float(number(first, json)?)?),
            Values::Decimal { values, precision, scale } => {
                let text = if first == b'"' { json.string()? } else { number(first, json)?.into() };
                values.push(text::decimal(&text, *precision, *scale)?);
            }
            Values::Timestamp { values, unit, .. } if matches!(first, b'-' | b'0'..=b'9') => {
                values.push(text::epoch(text::integer(json.number()?)?, *unit)?);
            }
            Values::Array { ends, item } => {
                if first != b'[' {
                    return Err(Unfit::Form.into());
                }
                let mut end = ends[ends.len() - 1];
                json.need(b'[', "")?;
                let mut more = !json.take(b']');
                let mut index = 0;
                while more {
                    room.take(item.footprint)?;
                    item.push_json(json, room).map_err(|f| f.at(index))?;
                    index += 1;
                    more = json.more(b']')?;
                }
                // A body has fewer elements than bytes, and fewer than 2^31 of those.
                end += index as i32;
                ends.push(end);
            }
            Values::Map { ends, entries } => {
                let count = match first {
                    b'{' => entries.push_map_object(json, room)?,
                    b'[' => entries.push_map_entries(json, room)?,
                    _ => return Err(Unfit::Form.into()),
                };
                ends.push(ends[ends.len() - 1] + count as i32);
            }
            Values::Row(fields) => {
                if first != b'{' {
                    return Err(Unfit::Form.into());
                }
                fields.push_object(json, room)?;
            }
            // All others are written as strings.
            Values::Text(_)
            | Values::Bytes(_)
            | Values::Fixed { .. }
            | Values::Date(_)
            | Values::Time32 { .. }
            | Values::Time64 { .. }
            | Values::Timestamp { .. } => self.push_plain(&string(first, json)?)?,
        }
        Ok(())
    }
}

/// Entries of a map: two fields, key and value.
impl Fields {
    /// Appends the fields of an object as entries and says how many they are.
    fn push_map_object(&mut self, json: &mut Json<'_>, room: &mut Room) -> Result<usize, Fail> {
        let [keys, values] = &mut self.columns[..] else {
            return Err(Unfit::Form.into());
        };
        json.need(b'{', "an object is expected here")?;
        let mut names = Vec::new();
        let mut more = !json.take(b'}');
        while more {
            room.take(self.footprint)?;
            let name = json.string()?;
            json.need(b':', "a colon is expected here")?;
            keys.push_key(&name, room).map_err(|f| f.within(&format!("[{name}]")))?;
            values.push_json(json, room).map_err(|f| f.within(&format!("[{name}]")))?;
            names.push(name);
            more = json.more(b'}')?;
        }
        let count = names.len();
        names.sort_unstable();
        match names.windows(2).find(|w| w[0] == w[1]) {
            Some(same) => Err(twice(&same[0])),
            None => Ok(count),
        }
    }

    /// Appends an array of `{"key": …, "value": …}`, which is how maps are written whose keys are no scalars.
    fn push_map_entries(&mut self, json: &mut Json<'_>, room: &mut Room) -> Result<usize, Fail> {
        json.need(b'[', "an array is expected here")?;
        let mut count = 0;
        let mut more = !json.take(b']');
        while more {
            self.push_object(json, room).map_err(|f| f.at(count))?;
            count += 1;
            more = json.more(b']')?;
        }
        Ok(count)
    }
}
