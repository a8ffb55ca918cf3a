//! Debezium's change events as rows: `format=debezium` of `POST …/upsert`.
//!
//! A row is an envelope, `{"op", "before", "after", …}`, or one in `{"schema", "payload"}`. What it does:
//!
//! | `op` | |
//! | --- | --- |
//! | `c` create, `r` read, `u` update | writes `after` |
//! | `d` delete | deletes the row whose key is in `before`; nothing else of it is looked at |
//! | `t` truncate, `m` message | are no changes of rows, and rejected |
//!
//! `null`, the tombstone that follows a deletion, is no row. A value that did not change and that the database did not log
//! comes as a placeholder; such a row touches its other columns only, so each row has a set of columns that are absent.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use wadi_model::reject::preview;
use wadi_model::{DataType, Schema};

use super::column::{Fail, Fields, Misfit, Room};
use super::json::JsonRow;
use super::token::Json;
use super::{BodyError, BodyFormat, BodyLimits, Decoded, json, ndjson};

#[cfg(test)]
mod tests;

/// What Debezium writes for a value that did not change, if it is not told otherwise.
pub const UNAVAILABLE: &str = "__debezium_unavailable_value";

/// Most different sets of absent columns in one request. A table has few columns that are logged so.
const MAX_SETS: usize = 1000;

/// The rows of a body of envelopes.
#[derive(Debug)]
pub struct Envelopes {
    /// The rows; of deletions only the key counts, and absent columns are null or have their default.
    pub decoded: Decoded,
    /// Which of the good rows are deletions.
    pub deletes: Vec<bool>,
    /// Sets of absent columns, as positions in the schema; the first is empty.
    pub absent: Vec<Vec<usize>>,
    /// For each good row the place of its set in `absent`.
    pub of_rows: Vec<u16>,
    /// For each good row the line at which it begins.
    pub lines: Vec<u64>,
}

/// Reads a body of envelopes, which has been received and decompressed. `keys` are the positions of the key's columns in
/// `schema`, whose other columns may be null.
pub fn decode(
    format: BodyFormat,
    body: &[u8],
    schema: &Schema,
    keys: &[usize],
    placeholder: &str,
    limits: &BodyLimits,
) -> Result<Envelopes, BodyError> {
    let mut rows = Rows {
        schema,
        keys,
        placeholder,
        base64: BASE64_STANDARD.encode(placeholder),
        last: (false, 0),
        deletes: Vec::new(),
        absent: vec![Vec::new()],
        of_rows: Vec::new(),
        lines: Vec::new(),
    };
    let limits = &limits.capped();
    let decoded = match format {
        _ if body.is_empty() => return Err(BodyError::Empty { instead: format.without_rows() }),
        _ if body.len() > super::MAX_BYTES => {
            return Err(BodyError::DecodedTooLarge { limit: super::MAX_BYTES });
        }
        BodyFormat::Ndjson => ndjson::decode_rows(body, schema, limits, &mut rows)?,
        BodyFormat::Json => json::decode_rows(body, schema, limits, &mut rows)?,
        _ => {
            let given = "of this request (with format=debezium)".to_owned();
            let accepted = "application/x-ndjson, application/json".to_owned();
            return Err(BodyError::UnsupportedMediaType { given, accepted });
        }
    };
    let Rows { deletes, absent, of_rows, lines, .. } = rows;
    Ok(Envelopes { decoded, deletes, absent, of_rows, lines })
}

struct Rows<'s> {
    schema: &'s Schema,
    keys: &'s [usize],
    placeholder: &'s str,
    /// The placeholder as bytes are written.
    base64: String,
    /// Of the row that was read last: whether it is a deletion, and its set.
    last: (bool, u16),
    deletes: Vec<bool>,
    absent: Vec<Vec<usize>>,
    of_rows: Vec<u16>,
    lines: Vec<u64>,
}

impl JsonRow for Rows<'_> {
    const NULL_IS_NO_ROW: bool = true;

    fn read(&mut self, json: &mut Json<'_>, fields: &mut Fields, room: &mut Room) -> Result<(), Fail> {
        if json.peek() == Some(b'n') {
            json.word("null")?;
            return Err(Fail::NoRow);
        }
        let mut members = Members::of(json)?;
        if let (None, Some(payload)) = (&members.op, members.payload) {
            match payload.as_bytes().first() {
                Some(b'n') => return Err(Fail::NoRow),
                Some(b'{') => members = Members::of(&mut Json::new(payload))?,
                _ => return Err(misfit("payload", "an envelope", payload, None)),
            }
        }
        let (delete, name, image) = match members.op.as_deref() {
            Some("c" | "r" | "u") => (false, "after", members.after),
            Some("d") => (true, "before", members.before),
            other => return Err(no_change_of_a_row(other)),
        };
        let Some(image) = image.filter(|image| image.starts_with('{')) else {
            let hint = delete.then_some("the source must log the key of deleted rows (replica identity)");
            return Err(misfit(name, "the row", image.unwrap_or("nothing"), hint));
        };
        let (image, absent) = if delete { (self.key_of(image)?, Vec::new()) } else { self.present(image)? };
        self.last = (delete, self.set_of(absent)?);
        fields.push_object(&mut Json::new(&image), room)
    }

    fn taken(&mut self, line: u64) {
        self.lines.push(line);
        self.deletes.push(self.last.0);
        self.of_rows.push(self.last.1);
    }
}

impl Rows<'_> {
    /// The members of a row that belong to the key.
    fn key_of<'a>(&self, image: &'a str) -> Result<Cow<'a, str>, Fail> {
        let is_key = |name: &str| self.schema.index_of(name).is_some_and(|i| self.keys.contains(&i));
        kept(image, |name, _| is_key(name)).map(Cow::Owned)
    }

    /// The members of a row that are no placeholders, and the columns of those that are.
    fn present<'a>(&self, image: &'a str) -> Result<(Cow<'a, str>, Vec<usize>), Fail> {
        let has = |text: &str| memchr::memmem::find(image.as_bytes(), text.as_bytes()).is_some();
        if !has(self.placeholder) && !has(&self.base64) {
            return Ok((Cow::Borrowed(image), Vec::new()));
        }
        let mut absent = Vec::new();
        let image = kept(image, |name, value| match self.schema.index_of(name) {
            // A key is never absent: there the placeholder is a value, and hardly one that fits.
            Some(i) if !self.keys.contains(&i) && self.is_placeholder(i, value) => {
                absent.push(i);
                false
            }
            _ => true,
        })?;
        absent.sort_unstable();
        absent.dedup();
        Ok((Cow::Owned(image), absent))
    }

    fn is_placeholder(&self, column: usize, value: &str) -> bool {
        let mut json = Json::new(value);
        // Arrays hold it as their only element.
        json.take(b'[');
        let Ok(text) = json.string() else { return false };
        match self.schema.columns()[column].data_type {
            DataType::Bytes | DataType::Binary(_) => *text == self.base64 || text == self.placeholder,
            _ => text == self.placeholder,
        }
    }

    fn set_of(&mut self, absent: Vec<usize>) -> Result<u16, Fail> {
        let known = self.absent.iter().position(|set| *set == absent);
        let set = known.unwrap_or(self.absent.len());
        if set >= MAX_SETS {
            let expected = format!("at most {MAX_SETS} different sets of unchanged columns in one request");
            return Err(Fail::Value(Box::new(Misfit::of("", &expected, "one more".to_owned(), None))));
        }
        if known.is_none() {
            self.absent.push(absent);
        }
        Ok(set as u16)
    }
}

/// What matters of an envelope, as it is written.
#[derive(Default)]
struct Members<'a> {
    op: Option<Cow<'a, str>>,
    before: Option<&'a str>,
    after: Option<&'a str>,
    payload: Option<&'a str>,
}

impl<'a> Members<'a> {
    fn of(json: &mut Json<'a>) -> Result<Members<'a>, Fail> {
        let mut members = Members::default();
        each_member(json, |name, value| match name {
            "op" => {
                let mut json = Json::new(value);
                members.op = Some(json.string().unwrap_or(Cow::Borrowed(value)));
            }
            "before" => members.before = Some(value),
            "after" => members.after = Some(value),
            "payload" => members.payload = Some(value),
            _ => {}
        })?;
        Ok(members)
    }
}

/// Goes over an object; tells each name and its value as it is written.
fn each_member<'a>(json: &mut Json<'a>, mut tell: impl FnMut(&str, &'a str)) -> Result<(), Fail> {
    json.need(b'{', "an object is expected here")?;
    let mut more = !json.take(b'}');
    while more {
        let name = json.string()?;
        json.need(b':', "a colon is expected here")?;
        tell(&name, json.skip()?);
        more = json.more(b'}')?;
    }
    Ok(())
}

/// An object with some of its members.
fn kept(object: &str, mut keep: impl FnMut(&str, &str) -> bool) -> Result<String, Fail> {
    let mut text = String::with_capacity(object.len());
    each_member(&mut Json::new(object), |name, value| {
        if keep(name, value) {
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(&serde_json::Value::from(name).to_string());
            text.push(':');
            text.push_str(value);
        }
    })?;
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    Ok(text)
}

fn no_change_of_a_row(op: Option<&str>) -> Fail {
    let hint = match op {
        Some("t") => "a truncation names no rows: delete them by their keys, or make the table anew",
        Some("m") => "messages are no rows: leave them out",
        Some(_) => "see Debezium's documentation of \"op\"",
        None => "a row is an envelope with op, before and after, alone or as \"payload\"",
    };
    let got = op.map_or_else(|| "nothing".to_owned(), preview);
    Fail::Value(Box::new(Misfit::of("op", "c, r, u or d", got, Some(hint.to_owned()))))
}

fn misfit(path: &str, expected: &str, got: &str, hint: Option<&str>) -> Fail {
    let got: String = got.chars().take(80).collect();
    Fail::Value(Box::new(Misfit::of(path, expected, got, hint.map(str::to_owned))))
}
