//! Options that speak of one column: `fields.<column>.agg`, `fields.<column>.listagg.delimiter`, and those whose value
//! is a column's name. They follow the column when it is renamed or dropped.

use super::{InvalidOption, ROW_TTL_COLUMN, STATISTICS, TableOptions, VERSION_COLUMN};
use crate::merge::AggFunction;
use crate::suggest::did_you_mean;

/// What the names of a column's own options begin with.
pub(crate) const PREFIX: &str = "fields.";

/// Options whose value is the name of one column.
const NAMING: [&str; 3] = [VERSION_COLUMN, ROW_TTL_COLUMN, "table.auto-partition.key"];

/// What an option says of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Its aggregate function.
    Function,
    /// What stands between the texts of `listagg` or `string_agg`.
    Delimiter,
}

/// An option of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnOption<'a> {
    pub(crate) column: &'a str,
    pub(crate) setting: Setting,
}

/// Reads an option's name; `None` if it is none of a column's. Column names may hold dots.
pub(crate) fn parse(name: &str) -> Result<Option<ColumnOption<'_>>, InvalidOption> {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return Ok(None);
    };
    let settings = [
        (".agg", Setting::Function),
        (".listagg.delimiter", Setting::Delimiter),
        (".string_agg.delimiter", Setting::Delimiter),
        (".string-agg.delimiter", Setting::Delimiter),
    ];
    let found = settings
        .into_iter()
        .find_map(|(end, setting)| rest.strip_suffix(end).map(|column| ColumnOption { column, setting }));
    match found.filter(|option| !option.column.is_empty()) {
        Some(option) => Ok(Some(option)),
        None => {
            let nearest = Some(if name.ends_with("delimiter") {
                "fields.<column>.listagg.delimiter"
            } else {
                "fields.<column>.agg"
            });
            Err(InvalidOption::Unknown { name: name.to_owned(), nearest })
        }
    }
}

impl ColumnOption<'_> {
    /// The value in its normal spelling.
    pub(super) fn check(self, name: &str, value: &str) -> Result<String, InvalidOption> {
        let why = match self.setting {
            Setting::Delimiter if !value.is_empty() => return Ok(value.to_owned()),
            Setting::Delimiter => "a delimiter has one character at least".to_owned(),
            Setting::Function => match AggFunction::parse(value) {
                Ok(function) => return Ok(function.name().to_owned()),
                Err(None) => format!("write {}", AggFunction::ALL.map(AggFunction::name).join(" or ")),
                Err(nearest) => format!("no aggregate function has this name{}", did_you_mean(nearest)),
            },
        };
        Err(InvalidOption::Value { name: name.to_owned(), value: value.to_owned(), why })
    }
}

impl TableOptions {
    /// The options of single columns, with their names and values.
    pub(crate) fn of_columns(&self) -> impl Iterator<Item = (ColumnOption<'_>, &str, &str)> {
        // `check` let in no other name that begins so.
        self.0.iter().filter_map(|(name, value)| Some((parse(name).ok()??, name.as_str(), value.as_str())))
    }

    /// These options after a column got another name.
    pub(crate) fn with_column_renamed(&self, from: &str, to: &str) -> TableOptions {
        let renamed = |(name, value): (&String, &String)| {
            let name = match parse(name) {
                Ok(Some(option)) if option.column == from => {
                    format!("{PREFIX}{to}{}", &name[PREFIX.len() + from.len()..])
                }
                _ => name.clone(),
            };
            let value = match name.as_str() {
                STATISTICS => listed(value, |c| Some(if c == from { to } else { c })),
                name if NAMING.contains(&name) && value == from => to.to_owned(),
                _ => value.clone(),
            };
            (name, value)
        };
        TableOptions(self.0.iter().map(renamed).collect())
    }

    /// These options after a column was dropped. Those that cannot do without it are refused before.
    pub(crate) fn with_column_dropped(&self, column: &str) -> TableOptions {
        let kept = self
            .0
            .iter()
            .filter(|(name, _)| !matches!(parse(name), Ok(Some(option)) if option.column == column));
        let left = kept.map(|(name, value)| match name.as_str() {
            STATISTICS => (name.clone(), listed(value, |c| (c != column).then_some(c))),
            _ => (name.clone(), value.clone()),
        });
        // An empty list of columns would be none at all: then the default holds again.
        TableOptions(left.filter(|(name, value)| name != STATISTICS || !value.is_empty()).collect())
    }
}

/// A list of columns with some changed or taken away.
fn listed<'a>(list: &'a str, change: impl Fn(&'a str) -> Option<&'a str>) -> String {
    list.split(',').map(str::trim).filter_map(change).collect::<Vec<_>>().join(",")
}
