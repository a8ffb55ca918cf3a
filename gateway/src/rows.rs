//! What reads have in common: which columns and rows are asked for, and how batches become an answer.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema as ArrowSchema, SchemaRef};
use bytes::Bytes;
use wadi_model::predicate::Predicate;
use wadi_model::suggest::{did_you_mean, nearest};
use wadi_model::{ErrorKind, Table, ipc, system};
use wadi_store::context::Share;
use wadi_store::shard::Piece;
use wadi_store::task::Cpu;

use crate::body::AnswerFormat;
use crate::body::write::{JsonRows, csv_header, csv_rows, end_of_stream, schema_message};
use crate::problem::Problem;
use crate::request::{Parameters, split_names};

/// A stored message is never decompressed to more than this.
const MAX_RAW: u64 = 512 << 20;

/// Which columns and rows a read asks for.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Positions in the newest schema.
    pub columns: Vec<usize>,
    /// System columns, behind the others.
    pub system: Vec<String>,
    /// Only rows that match. Of the log it may ask for system columns too.
    pub filter: Option<Arc<Predicate>>,
    /// The schema of the answer.
    pub schema: SchemaRef,
}

impl Selection {
    /// Reads `columns` and `filter` of a read of a table's rows as they are now. Of a primary-key table they are not rows
    /// of the log, so there are no system columns.
    pub fn of_rows(parameters: &mut Parameters, table: &Table) -> Result<Selection, Problem> {
        let selection = Selection::of(parameters, table, !table.has_primary_key(), false)?;
        match selection.system.first().filter(|_| table.has_primary_key()) {
            Some(name) => {
                let detail =
                    format!("\"{name}\" belongs to the log; the rows of a primary-key table do not have it");
                Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail))
            }
            None => Ok(selection),
        }
    }

    /// [`Selection::of_rows`] for a read by keys, which has no filter.
    pub fn of_keys(parameters: &mut Parameters, table: &Table) -> Result<Selection, Problem> {
        let selection = Selection::of_rows(parameters, table)?;
        if selection.filter.is_some() {
            let detail = "parameter \"filter\" is for scan, log and tail; here keys say which rows are found";
            return Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail));
        }
        Ok(selection)
    }

    /// Reads `columns` and `filter` of a read of the log. Without `columns` a changelog shows its change types too.
    pub fn of_log(parameters: &mut Parameters, table: &Table) -> Result<Selection, Problem> {
        Selection::of(parameters, table, true, table.has_primary_key())
    }

    fn of(
        parameters: &mut Parameters,
        table: &Table,
        rows_of_log: bool,
        changelog: bool,
    ) -> Result<Selection, Problem> {
        let schema = table.schema();
        let (mut columns, mut system) = (Vec::new(), Vec::new());
        match parameters.text("columns") {
            None => {
                columns = (0..schema.columns().len()).collect();
                // The rows of a changelog say little without what they mean.
                system.extend(changelog.then(|| system::CHANGE_TYPE.to_owned()));
            }
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
                let parsed = match rows_of_log {
                    true => Predicate::parse(&text, &system::beside(schema.arrow())),
                    false => Predicate::parse(&text, schema.arrow()),
                };
                let invalid = |text| Problem::new(ErrorKind::Invalid, "invalid_filter", text);
                Some(Arc::new(parsed.map_err(|e| invalid(e.to_string()))?))
            }
        };
        let own = columns.iter().map(|i| schema.arrow().field(*i).clone());
        let fields: Vec<Field> = own.chain(system.iter().filter_map(|name| system::field(name))).collect();
        Ok(Selection { columns, system, filter, schema: Arc::new(ArrowSchema::new(fields)) })
    }
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
            AnswerFormat::EventStream => {
                let rows = JsonRows::new(&batch)?;
                for row in 0..rows.len() {
                    out.extend_from_slice(b"data: ");
                    rows.write_row(row, &mut out);
                    out.extend_from_slice(b"\n\n");
                }
            }
            _ => JsonRows::new(&batch)?.write_lines(&mut out),
        }
        Ok(out.into())
    }

    /// `null` in the place of a row, in the formats that have it.
    pub fn null(&mut self) -> Bytes {
        match self.format {
            AnswerFormat::Json if std::mem::take(&mut self.first) => Bytes::from_static(b"null"),
            AnswerFormat::Json => Bytes::from_static(b",null"),
            _ => Bytes::from_static(b"null\n"),
        }
    }

    /// One piece on the CPU pool, for answers that are sent while they are made. The bytes hold the answer's share of
    /// the read budget until they are sent.
    pub async fn send(
        mut self,
        cpu: &Cpu,
        piece: Piece,
        share: Arc<Share>,
    ) -> Result<(Writer, Bytes), Problem> {
        let work = move || {
            let bytes = share.hold(self.piece(&piece)?);
            Ok((self, bytes))
        };
        cpu.run(work).await.unwrap_or_else(|| Err(internal("writing rows panicked")))
    }

    /// A piece as a batch.
    fn batch(&self, piece: &Piece) -> Result<RecordBatch, Problem> {
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
