//! Stored rows of one schema version as rows of a later one.
//!
//! It does to a row what [`crate::batch::read_as`] does to a batch: columns keep their field ids, new ones get their
//! default or null, dropped ones go, widened ones are converted. Most conversions change no byte, because fields are
//! written by value and not by width.

use super::codec::{At, RowCodec};
use super::fault::{Damage, DamagedRow};
use super::field;
use crate::schema::Column;
use crate::types::DataType;

/// Brings rows of one schema version of a table to another one.
#[derive(Clone, Debug)]
pub struct RowUpgrade {
    from: RowCodec,
    to: RowCodec,
    steps: Vec<Step>,
}

/// Where the value of a column comes from.
#[derive(Clone, Debug)]
enum Step {
    /// The column at this position of the older version.
    Of(usize, Conversion),
    /// The field of the default, or null.
    Default(Option<Vec<u8>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    /// The same bytes.
    None,
    /// From the one byte of a `tinyint` to a longer integer.
    Tiny,
    /// From `float` to `double`.
    Double,
    /// From ticks to so many times more of them; what does not fit is null.
    Finer { times: i64, most: i64 },
    /// The type was not widened, so there is no conversion that loses nothing.
    Refused,
}

impl RowUpgrade {
    /// Plans the way from one schema version to another of the same table.
    pub fn new(from: &RowCodec, to: &RowCodec) -> RowUpgrade {
        let step = |(i, column): (usize, &Column)| match from.schema().index_of_id(column.id) {
            Some(source) => {
                let before = &from.schema().columns()[source].data_type;
                Step::Of(source, conversion(before, &column.data_type))
            }
            None => Step::Default(to.default_field(i)),
        };
        let steps = to.schema().columns().iter().enumerate().map(step).collect();
        RowUpgrade { from: from.clone(), to: to.clone(), steps }
    }

    /// Appends a row of the older version as one of the later version.
    pub fn upgrade(&self, row: &[u8], out: &mut Vec<u8>) -> Result<(), DamagedRow> {
        let mut old = Vec::new();
        self.from.split(row, &mut old)?;
        // Converted fields one after the other, and for each its column and where it ends.
        let mut converted = Vec::new();
        let mut ends = Vec::new();
        let mut fields: Vec<Option<&[u8]>> = Vec::with_capacity(self.steps.len());
        for (i, step) in self.steps.iter().enumerate() {
            fields.push(match step {
                Step::Of(source, Conversion::None) => old[*source],
                Step::Default(field) => field.as_deref(),
                Step::Of(source, conversion) => {
                    if let Some(field) = old[*source] {
                        let widened = conversion
                            .apply(field, &mut converted)
                            .map_err(|damage| self.from.damaged(0, At { column: Some(*source), damage }))?;
                        widened.then(|| ends.push((i, converted.len())));
                    }
                    None
                }
            });
        }
        let mut start = 0;
        for (i, end) in ends {
            fields[i] = Some(&converted[start..end]);
            start = end;
        }
        self.to.join(&fields, out);
        Ok(())
    }
}

impl Conversion {
    /// Appends the field in its new type; false if it has no value there.
    fn apply(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Damage> {
        match self {
            Conversion::None => out.extend_from_slice(bytes),
            Conversion::Tiny => field::put_int(out, field::tiny(bytes).ok_or(Damage::Length)?.into()),
            Conversion::Double => {
                let float = field::float(bytes).ok_or(Damage::Length)?;
                out.extend_from_slice(&f64::from(float).to_le_bytes());
            }
            Conversion::Finer { times, most } => {
                let ticks = field::int(bytes).and_then(|ticks| i64::try_from(ticks).ok());
                let ticks = ticks.ok_or(Damage::Number)?;
                match ticks.checked_mul(times).filter(|finer| (-most - 1..=most).contains(finer)) {
                    Some(finer) => field::put_int(out, finer.into()),
                    None => return Ok(false),
                }
            }
            Conversion::Refused => return Err(Damage::NotWider),
        }
        Ok(true)
    }
}

fn conversion(from: &DataType, to: &DataType) -> Conversion {
    use DataType::*;
    match (from, to) {
        _ if !from.widens_to(to) => Conversion::Refused,
        (TinyInt, SmallInt | Int | BigInt) => Conversion::Tiny,
        (Float, Double) => Conversion::Double,
        (Time(p), Time(q)) => finer(*p, *q, if *q <= 3 { i32::MAX.into() } else { i64::MAX }),
        (Timestamp(p), Timestamp(q)) | (TimestampLtz(p), TimestampLtz(q)) => finer(*p, *q, i64::MAX),
        // Integers, decimals of one scale, text and bytes are written alike in all their types.
        _ => Conversion::None,
    }
}

fn finer(from: u8, to: u8, most: i64) -> Conversion {
    // Ticks are of whole, thousandth, millionth … seconds.
    let thousands = |digits: u8| digits.min(9).div_ceil(3);
    match thousands(to) - thousands(from) {
        0 => Conversion::None,
        thousands => Conversion::Finer { times: 1000_i64.pow(thousands.into()), most },
    }
}
