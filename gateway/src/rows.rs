//! What reads have in common: which columns and rows are asked for, and how batches become an answer.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema as ArrowSchema, SchemaRef};
use bytes::Bytes;
use wadi_model::predicate::Predicate;
use wadi_model::suggest::{did_you_mean, nearest};
use wadi_model::{ErrorKind, Table, ipc, system};
use wadi_store::shard::Piece;

use crate::body::AnswerFormat;
use crate::body::write::{JsonRows, csv_header, csv_rows, end_of_stream, schema_message};
use crate::problem::Problem;
use crate::request::Parameters;

/// A stored message is never decompressed to more than this.
const MAX_RAW: u64 = 512 << 20;

/// Which columns and rows a read asks for.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Positions in the newest schema.
    pub columns: Vec<usize>,
    /// System columns, behind the others.
    pub system: Vec<String>,
    /// Only rows that match. May ask for system columns too.
    pub filter: Option<Predicate>,
    /// The schema of the answer.
    pub schema: SchemaRef,
}

impl Selection {
    /// Reads `columns` and `filter`.
    pub fn of(parameters: &mut Parameters, table: &Table) -> Result<Selection, Problem> {
        let schema = table.schema();
        let (mut columns, mut system) = (Vec::new(), Vec::new());
        match parameters.text("columns") {
            None => columns = (0..schema.columns().len()).collect(),
            Some(names) => {
                for name in split_names(&names) {
                    let name = name.as_str();
                    match schema.index_of(name) {
                        Some(i) if !columns.contains(&i) => columns.push(i),
                        None if system::ALL.contains(&name) && !system.iter().any(|s| s == name) => {
                            system.push(name.to_owned());
                        }
                        None if !system::ALL.contains(&name) => return Err(unknown_column(table, name)),
                        _ => {
                            let detail = format!("column \"{name}\" stands twice in \"columns\"");
                            return Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail));
                        }
                    }
                }
            }
        }
        let filter = match parameters.text("filter") {
            None => None,
            Some(text) => {
                let parsed = Predicate::parse(&text, &system::beside(schema.arrow()));
                Some(parsed.map_err(|e| Problem::new(ErrorKind::Invalid, "invalid_filter", e.to_string()))?)
            }
        };
        let own = columns.iter().map(|i| schema.arrow().field(*i).clone());
        let fields: Vec<Field> = own.chain(system.iter().filter_map(|name| system::field(name))).collect();
        Ok(Selection { columns, system, filter, schema: Arc::new(ArrowSchema::new(fields)) })
    }
}

/// The names of a list with commas; one with a comma in itself stands in double quotes, which are doubled inside it.
fn split_names(list: &str) -> Vec<String> {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = list.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => name.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(std::mem::take(&mut name)),
            c => name.push(c),
        }
    }
    names.push(name);
    names.into_iter().map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()
}

fn unknown_column(table: &Table, name: &str) -> Problem {
    let own = table.schema().columns().iter().map(|c| c.name.as_str());
    let hint = did_you_mean(nearest(name, own.chain(system::ALL)));
    let detail = format!("table \"{}\" has no column \"{name}\"{hint}", table.name);
    Problem::new(ErrorKind::Invalid, "unknown_column", detail)
}

/// Turns pieces of an answer into bytes of one format, piece by piece.
pub struct Writer {
    format: AnswerFormat,
    schema: SchemaRef,
    first: bool,
}

fn internal(error: impl ToString) -> Problem {
    Problem::new(ErrorKind::Internal, "internal", error.to_string())
}

impl Writer {
    /// A writer of answers in this format.
    pub fn new(format: AnswerFormat, schema: &SchemaRef) -> Writer {
        Writer { format, schema: schema.clone(), first: true }
    }

    /// What stands before all rows.
    pub fn begin(&self) -> Result<Bytes, Problem> {
        match self.format {
            AnswerFormat::ArrowStream => schema_message(&self.schema).map_err(internal),
            AnswerFormat::Csv => {
                let mut out = Vec::new();
                csv_header(&self.schema, &mut out);
                Ok(out.into())
            }
            AnswerFormat::Json => Ok(Bytes::from_static(b"{\"rows\":[")),
            _ => Ok(Bytes::new()),
        }
    }

    /// One piece.
    pub fn piece(&mut self, piece: &Piece) -> Result<Bytes, Problem> {
        if self.format == AnswerFormat::ArrowStream {
            return match piece {
                Piece::Message { message, .. } => Ok(message.clone()),
                Piece::Batch(batch) => {
                    Ok(ipc::encode(batch, ipc::Compression::Lz4).map_err(internal)?.message)
                }
            };
        }
        let batch = self.batch(piece)?;
        let mut out = Vec::new();
        match self.format {
            AnswerFormat::Json => JsonRows::new(&batch)?.write_elements(&mut self.first, &mut out),
            AnswerFormat::Csv => csv_rows(&batch, &mut out)?,
            _ => JsonRows::new(&batch)?.write_lines(&mut out),
        }
        Ok(out.into())
    }

    /// A piece as a batch.
    pub fn batch(&self, piece: &Piece) -> Result<RecordBatch, Problem> {
        match piece {
            Piece::Batch(batch) => Ok(batch.clone()),
            Piece::Message { message, .. } => ipc::decode(message, &self.schema, MAX_RAW).map_err(internal),
        }
    }

    /// What stands behind all rows; in JSON with `more` members.
    pub fn end(&self, more: &[(&str, u64)]) -> Bytes {
        match self.format {
            AnswerFormat::ArrowStream => end_of_stream(),
            AnswerFormat::Json => {
                let more: String = more.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
                format!("]{more}}}\n").into()
            }
            _ => Bytes::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split_names;

    #[test]
    fn names_with_commas_are_quoted() {
        assert_eq!(split_names("a, b,,c"), ["a", "b", "c"]);
        assert_eq!(split_names(r#"a,"b,""c""",d"#), ["a", r#"b,"c""#, "d"]);
        assert!(split_names("").is_empty());
    }
}
