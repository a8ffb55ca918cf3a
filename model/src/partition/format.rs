//! Formats of time in partition names, as patterns of Java's `DateTimeFormatter`: `yyyyMMdd`, `yyyy-MM-dd`, `yyyy'Q'Q`.
//!
//! A format holds exactly the fields of its unit, from the largest to the smallest, each of fixed width. So names sort
//! by time, and each name says one period.

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};

use super::auto::{Period, TimeUnit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year,
    Quarter,
    Month,
    Day,
    Hour,
}

impl Field {
    const fn width(self) -> usize {
        match self {
            Field::Year => 4,
            Field::Quarter => 1,
            Field::Month | Field::Day | Field::Hour => 2,
        }
    }

    fn of(letter: char, count: usize) -> Option<Field> {
        match (letter, count) {
            ('y', 4) => Some(Field::Year),
            ('Q', 1) => Some(Field::Quarter),
            ('M', 2) => Some(Field::Month),
            ('d', 2) => Some(Field::Day),
            ('H', 2) => Some(Field::Hour),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Field(Field),
    Literal(String),
}

/// A format for one unit of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeFormat {
    pattern: String,
    unit: TimeUnit,
    parts: Vec<Part>,
}

/// The pattern of a unit, if none is given.
pub(super) const fn default_pattern(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Hour => "yyyyMMddHH",
        TimeUnit::Day => "yyyyMMdd",
        TimeUnit::Month => "yyyyMM",
        TimeUnit::Quarter => "yyyyQ",
        TimeUnit::Year => "yyyy",
    }
}

const fn fields_of(unit: TimeUnit) -> &'static [Field] {
    match unit {
        TimeUnit::Hour => &[Field::Year, Field::Month, Field::Day, Field::Hour],
        TimeUnit::Day => &[Field::Year, Field::Month, Field::Day],
        TimeUnit::Month => &[Field::Year, Field::Month],
        TimeUnit::Quarter => &[Field::Year, Field::Quarter],
        TimeUnit::Year => &[Field::Year],
    }
}

impl TimeFormat {
    /// Reads a pattern; the error says what is wrong.
    pub(super) fn read(pattern: &str, unit: TimeUnit) -> Result<TimeFormat, String> {
        if pattern.len() > 64 {
            return Err("it is longer than 64 characters".to_owned());
        }
        let mut parts = Vec::new();
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '-' | '_' | '0'..='9' => literal(&mut parts, c),
                '\'' => loop {
                    match rest.next() {
                        Some('\'') => break,
                        Some(c) if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') => {
                            literal(&mut parts, c);
                        }
                        Some(c) => return Err(format!("\"{}\" cannot stand in a name", c.escape_debug())),
                        None => return Err("a quotation mark has no end".to_owned()),
                    }
                },
                letter if letter.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while rest.next_if_eq(&letter).is_some() {
                        count += 1;
                    }
                    let field = Field::of(letter, count).ok_or_else(|| {
                        let given: String = std::iter::repeat_n(letter, count).collect();
                        format!("\"{given}\" is not known; fields are yyyy, Q, MM, dd, HH, letters stand in quotation marks")
                    })?;
                    parts.push(Part::Field(field));
                }
                other => return Err(format!("\"{}\" cannot stand in a name", other.escape_debug())),
            }
        }
        let fields = parts.iter().filter_map(|p| if let Part::Field(f) = p { Some(*f) } else { None });
        if !fields.eq(fields_of(unit).iter().copied()) {
            return Err(format!(
                "a format for {} has exactly the fields of \"{}\", in this order",
                unit.as_str(),
                default_pattern(unit)
            ));
        }
        Ok(TimeFormat { pattern: pattern.to_owned(), unit, parts })
    }

    /// The pattern.
    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The width, if names of this format are whole numbers.
    pub(super) fn digits(&self) -> Option<usize> {
        let width = |part: &Part| match part {
            Part::Field(field) => Some(field.width()),
            Part::Literal(text) => text.bytes().all(|b| b.is_ascii_digit()).then_some(text.len()),
        };
        self.parts.iter().map(width).sum()
    }

    /// The name of the period in which clocks show `at`.
    pub(super) fn write(&self, at: NaiveDateTime) -> String {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Field(Field::Year) => name.push_str(&format!("{:04}", at.year())),
                Part::Field(Field::Quarter) => name.push_str(&format!("{}", at.month0() / 3 + 1)),
                Part::Field(Field::Month) => name.push_str(&format!("{:02}", at.month())),
                Part::Field(Field::Day) => name.push_str(&format!("{:02}", at.day())),
                Part::Field(Field::Hour) => name.push_str(&format!("{:02}", at.hour())),
                Part::Literal(text) => name.push_str(text),
            }
        }
        name
    }

    /// The period that a name says; `None` if it says none.
    pub(super) fn period(&self, name: &str) -> Option<Period> {
        let (mut year, mut month, mut day, mut hour) = (0, 1, 1, 0);
        let mut rest = name;
        for part in &self.parts {
            match part {
                Part::Literal(text) => rest = rest.strip_prefix(text.as_str())?,
                Part::Field(field) => {
                    let (digits, behind) = rest.split_at_checked(field.width())?;
                    if !digits.bytes().all(|b| b.is_ascii_digit()) {
                        return None;
                    }
                    let number: u32 = digits.parse().ok()?;
                    rest = behind;
                    match field {
                        Field::Year => year = number as i32,
                        Field::Quarter if (1..=4).contains(&number) => month = number * 3 - 2,
                        Field::Quarter => return None,
                        Field::Month => month = number,
                        Field::Day => day = number,
                        Field::Hour => hour = number,
                    }
                }
            }
        }
        let at = NaiveDate::from_ymd_opt(year, month, day)?.and_hms_opt(hour, 0, 0)?;
        (rest.is_empty() && year > 0).then(|| Period::of(at, self.unit))
    }
}

fn literal(parts: &mut Vec<Part>, c: char) {
    match parts.last_mut() {
        Some(Part::Literal(text)) => text.push(c),
        _ => parts.push(Part::Literal(c.to_string())),
    }
}
