//! Reads the SQL spelling of types, and of column lists (`a int not null, b string comment 'x'`).

use std::str::FromStr;

use super::{DataType, InvalidType, MAX_DEPTH, Nested};

/// A field's name, in back quotes where it would not be read as one word.
pub(super) fn quoted(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

impl FromStr for DataType {
    type Err = InvalidType;

    fn from_str(text: &str) -> Result<DataType, InvalidType> {
        let mut reader = Reader::new(text);
        let nested = reader.nested(0)?;
        reader.end()?;
        if !nested.nullable {
            return Err(reader.error("\"not null\" belongs to the column, not to its type"));
        }
        Ok(nested.data_type)
    }
}

impl FromStr for Nested {
    type Err = InvalidType;

    /// Reads a type with an optional `not null`.
    fn from_str(text: &str) -> Result<Nested, InvalidType> {
        let mut reader = Reader::new(text);
        let nested = reader.nested(0)?;
        reader.end()?;
        Ok(nested)
    }
}

/// Names and types.
type Columns = Vec<(String, Nested)>;

/// Reads a column list as a user types it: `id bigint not null, name string, tags array<string>`.
pub fn parse_columns(text: &str) -> Result<Columns, InvalidType> {
    let mut reader = Reader::new(text);
    let fields = reader.fields(0)?;
    reader.end()?;
    Ok(fields)
}

/// Reads a column list that may say the primary key at its end: `a int, b string, primary key (a)`. Without one the key is
/// empty.
pub fn parse_table(text: &str) -> Result<(Columns, Vec<String>), InvalidType> {
    let mut reader = Reader::new(text);
    let fields = reader.fields(0)?;
    let mut key = Vec::new();
    if reader.take_primary_key() {
        while key.is_empty() || reader.take(',') {
            key.push(reader.name()?);
        }
        reader.need(')')?;
    }
    reader.end()?;
    Ok((fields, key))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, why: impl Into<String>) -> InvalidType {
        let at = self.text[..self.at].chars().count() + 1;
        InvalidType { text: self.text.chars().take(200).collect(), at, why: why.into() }
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Takes `symbol` if it comes next.
    fn take(&mut self, symbol: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len_utf8();
        }
        found
    }

    fn need(&mut self, symbol: char) -> Result<(), InvalidType> {
        if self.take(symbol) { Ok(()) } else { Err(self.error(format!("\"{symbol}\" is missing"))) }
    }

    fn end(&mut self) -> Result<(), InvalidType> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("nothing more is expected here")) }
    }

    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes `word` if it comes next, in any case.
    fn take_word(&mut self, word: &str) -> bool {
        let before = self.at;
        let found = self.word().eq_ignore_ascii_case(word);
        if !found {
            self.at = before;
        }
        found
    }

    /// Takes `primary key (`, with a comma before it or not.
    fn take_primary_key(&mut self) -> bool {
        let before = self.at;
        self.take(',');
        let found = self.take_word("primary") && self.take_word("key") && self.take('(');
        if !found {
            self.at = before;
        }
        found
    }

    fn name(&mut self) -> Result<String, InvalidType> {
        self.skip_space();
        for quote in ['`', '"'] {
            if self.take(quote) {
                return self.quoted_name(quote);
            }
        }
        match self.word() {
            "" => Err(self.error("a name is missing")),
            name => Ok(name.to_owned()),
        }
    }

    fn quoted_name(&mut self, quote: char) -> Result<String, InvalidType> {
        let mut name = String::new();
        loop {
            let Some(end) = self.rest().find(quote) else {
                return Err(self.error(format!("the closing {quote} is missing")));
            };
            name.push_str(&self.rest()[..end]);
            self.at += end + 1;
            if !self.rest().starts_with(quote) {
                return Ok(name);
            }
            name.push(quote);
            self.at += 1;
        }
    }

    fn nested(&mut self, depth: usize) -> Result<Nested, InvalidType> {
        let data_type = self.data_type(depth)?;
        let nullable = if self.take_word("not") {
            if !self.take_word("null") {
                return Err(self.error("\"null\" is missing after \"not\""));
            }
            false
        } else {
            self.take_word("null");
            true
        };
        Ok(Nested { data_type, nullable })
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<(String, Nested)>, InvalidType> {
        let mut fields: Vec<(String, Nested)> = Vec::new();
        loop {
            let name = self.name()?;
            if fields.iter().any(|(n, _)| *n == name) {
                return Err(self.error(format!("the name \"{name}\" stands here twice")));
            }
            let nested = self.nested(depth)?;
            fields.push((name, nested));
            let before = self.at;
            if !self.take(',') {
                return Ok(fields);
            }
            if depth == 0 && self.take_primary_key() {
                self.at = before;
                return Ok(fields);
            }
        }
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType, InvalidType> {
        if depth > MAX_DEPTH {
            return Err(self.error(format!("types nest at most {MAX_DEPTH} deep")));
        }
        let before = self.at;
        let word = self.word().to_ascii_lowercase();
        Ok(match word.as_str() {
            "boolean" | "bool" => DataType::Boolean,
            "tinyint" => DataType::TinyInt,
            "smallint" => DataType::SmallInt,
            "int" | "integer" => DataType::Int,
            "bigint" | "long" => DataType::BigInt,
            "float" | "real" => DataType::Float,
            "double" => DataType::Double,
            "decimal" | "numeric" => self.decimal()?,
            "char" => DataType::Char(self.number(1, 1, 1 << 20)?),
            "string" | "text" | "varchar" => {
                self.skip_space();
                if self.rest().starts_with('(') {
                    return Err(self.error(format!("a {word} has no length here; write string")));
                }
                DataType::String
            }
            "binary" => DataType::Binary(self.number(1, 1, 1 << 20)?),
            "bytes" => DataType::Bytes,
            "date" => DataType::Date,
            "time" => DataType::Time(self.number(0, 0, 9)? as u8),
            "timestamp" => DataType::Timestamp(self.number(6, 0, 9)? as u8),
            "timestamp_ltz" => DataType::TimestampLtz(self.number(6, 0, 9)? as u8),
            "array" => {
                self.need('<')?;
                let item = self.nested(depth + 1)?;
                self.need('>')?;
                DataType::Array(Box::new(item))
            }
            "map" => {
                self.need('<')?;
                // Keys are never null, said or not.
                let key = self.nested(depth + 1)?.data_type;
                self.need(',')?;
                let value = self.nested(depth + 1)?;
                self.need('>')?;
                DataType::Map(Box::new(key), Box::new(value))
            }
            "row" | "struct" => {
                self.need('<')?;
                let fields = self.fields(depth + 1)?;
                self.need('>')?;
                DataType::Row(fields)
            }
            _ => {
                self.at = before;
                self.skip_space();
                return Err(self.error(format!(
                    "\"{word}\" is no type; types are boolean, tinyint, smallint, int, bigint, float, double, \
                     decimal(p,s), char(n), string, binary(n), bytes, date, time(p), timestamp(p), \
                     timestamp_ltz(p), array<t>, map<k,v>, row<a t, …>"
                )));
            }
        })
    }

    /// An optional `(n)`.
    fn number(&mut self, default: u32, min: u32, max: u32) -> Result<u32, InvalidType> {
        if !self.take('(') {
            return Ok(default);
        }
        let n = self.integer(min, max)?;
        self.need(')')?;
        Ok(n)
    }

    fn integer(&mut self, min: u32, max: u32) -> Result<u32, InvalidType> {
        let n: Option<u32> = self.word().parse().ok();
        n.filter(|n| (min..=max).contains(n))
            .ok_or_else(|| self.error(format!("a number from {min} to {max} is expected here")))
    }

    fn decimal(&mut self) -> Result<DataType, InvalidType> {
        if !self.take('(') {
            return Ok(DataType::Decimal { precision: 10, scale: 0 });
        }
        let precision = self.integer(1, 38)?;
        let scale = if self.take(',') { self.integer(0, precision)? } else { 0 };
        self.need(')')?;
        Ok(DataType::Decimal { precision: precision as u8, scale: scale as u8 })
    }
}
