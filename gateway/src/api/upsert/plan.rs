//! How the rows of a body become changes of a primary-key table.
//!
//! What each row is to do (write, delete, which columns) is found from the row and the schema alone, and rows that can never
//! be merged are rejected here: an owner takes or refuses a part as a whole.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt16Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema as ArrowSchema, UInt16Type};
use wadi_model::changelog::ChangeType;
use wadi_model::key::MAX_KEY_BYTES;
use wadi_model::merge::{TargetColumns, Verb};
use wadi_model::options::{DELETE_BEHAVIOR, DeleteBehavior};
use wadi_model::reject::{Rejects, RowError, preview};
use wadi_model::{Column, DataType, FieldId, Schema, Table, system};
use wadi_store::keyed::KeyedTable;
use wadi_store::shard::{Keyed, Targets};

use super::internal;
use crate::api::writing::Sorted;
use crate::body::Decoded;
use crate::problem::Problem;
use crate::targets;

/// Columns that rows touch, or why rows cannot touch them; `None` is all columns.
type TargetSet = Result<Option<Arc<TargetColumns>>, String>;

/// The place of the columns that are written in [`Plan::sets`].
const WRITES: u16 = 0;

/// The place of those that a `-D` deletes.
const DELETES: u16 = 1;

/// How the rows of a body become changes.
pub(super) struct Plan {
    keyed: Arc<KeyedTable>,
    /// Positions in the table of the columns that the rows have.
    columns: Vec<usize>,
    /// What the body is read as: those columns, and the change type if rows may carry one.
    schema: Schema,
    changes: bool,
    deletes: bool,
    sets: Vec<TargetSet>,
}

impl Plan {
    /// Rows are written, those columns of them that are named.
    pub(super) fn upsert(keyed: Arc<KeyedTable>, names: Option<&[String]>) -> Result<Plan, Problem> {
        let table = keyed.table();
        let all = 0..table.schema().columns().len();
        let Some(names) = names else {
            let columns: Vec<usize> = all.collect();
            let schema = read_as(table, &columns, false);
            let sets = vec![Ok(None), Ok(None)];
            return Ok(Plan { columns, schema, changes: false, deletes: false, sets, keyed });
        };
        let targets = target_columns(table, names, Verb::Upsert)?;
        let columns: Vec<usize> = all.filter(|i| targets.contains(*i)).collect();
        let schema = read_as(table, &columns, false);
        let deletes = TargetColumns::new(table, names.iter().map(String::as_str), Verb::Delete);
        let sets =
            vec![Ok(Some(Arc::new(targets))), deletes.map(|d| Some(Arc::new(d))).map_err(|e| e.to_string())];
        Ok(Plan { columns, schema, changes: false, deletes: false, sets, keyed })
    }

    /// The rows of keys are deleted, or those columns of them that are named.
    pub(super) fn delete(keyed: Arc<KeyedTable>, names: Option<&[String]>) -> Result<Plan, Problem> {
        let table = keyed.table();
        let targets =
            names.map(|names| target_columns(table, names, Verb::Delete)).transpose()?.map(Arc::new);
        let key = |id: &FieldId| table.schema().index_of_id(*id);
        let mut columns: Vec<usize> = table.primary_key.iter().filter_map(key).collect();
        columns.sort_unstable();
        let schema = read_as(table, &columns, false);
        Ok(Plan { columns, schema, changes: false, deletes: true, sets: vec![Ok(None), Ok(targets)], keyed })
    }

    /// Rows may say themselves whether they are written or deleted.
    pub(super) fn with_changes(self) -> Plan {
        Plan { schema: read_as(self.keyed.table(), &self.columns, true), changes: true, ..self }
    }

    /// What the body is read as.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Says what each row is to do, and rejects those that cannot be merged whatever is stored.
    pub(super) fn sort_out(self, mut decoded: Decoded, now: i64) -> Result<Sorted, Problem> {
        let mut marks = Marks::new(decoded.batch.num_rows(), self.deletes);
        let mut rejects = Rejects::default();
        if self.changes {
            let changes = decoded.batch.remove_column(decoded.batch.num_columns() - 1);
            self.read_changes(changes.as_string(), &mut marks, &mut rejects);
            self.check_nulls(&decoded.batch, &marks, &mut rejects);
        }
        self.check_sets(&marks, &mut rejects);
        self.check_keys(&decoded.batch, &mut rejects)?;
        let engine = self.keyed.engine();
        if engine.needs_check() && !self.deletes {
            rejects.extend(0, engine.check(&decoded.batch));
        }
        decoded.batch = marks.beside(&decoded.batch)?;
        decoded.also_reject(rejects).map_err(internal)?;
        let table = self.keyed.table();
        let mut grouping = targets::assign(table, Some(&self.columns), &mut decoded, now)?;
        let (marks, kept) = Marks::taken_from(&mut decoded.batch)?;
        if let (Some(grouping), Some(kept)) = (&mut grouping, kept) {
            grouping.keep(&kept);
        }
        let columns = Some(self.columns.into());
        let targets = marks.targets(&self.sets).ok_or_else(|| internal("a row without target columns"))?;
        let deletes = marks.deletes.contains(&true).then(|| marks.deletes.into());
        let keyed = Keyed { table: self.keyed, columns, deletes, targets };
        Ok(Sorted { decoded, keyed: Some(keyed), grouping })
    }

    /// Notes what rows say of themselves.
    fn read_changes(&self, changes: &StringArray, marks: &mut Marks, rejects: &mut Rejects) {
        for (row, change) in changes.iter().enumerate() {
            let known = change.map(|text| ChangeType::ALL.into_iter().find(|change| change.as_str() == text));
            match (known, change) {
                (None | Some(Some(ChangeType::Insert | ChangeType::UpdateAfter)), _) => {}
                (Some(Some(ChangeType::UpdateBefore)), _) => marks.passed_over[row] = true,
                (Some(Some(ChangeType::Delete)), _) => marks.delete(row),
                // What a log table's rows say.
                (Some(None), Some("+A")) => {}
                (Some(None), other) => rejects.add(row as u64, || RowError {
                    row: row as u64,
                    column: Some(system::CHANGE_TYPE.to_owned()),
                    expected: "+I, +U, -U or -D".to_owned(),
                    got: preview(other.unwrap_or_default()),
                    ..RowError::default()
                }),
            }
        }
    }

    /// Rejects rows that lack what only a deletion may lack.
    fn check_nulls(&self, batch: &RecordBatch, marks: &Marks, rejects: &mut Rejects) {
        let columns = self.keyed.table().schema().columns();
        for (position, array) in self.columns.iter().zip(batch.columns()) {
            let column = &columns[*position];
            if column.nullable || array.null_count() == 0 {
                continue;
            }
            let lacks = |row: &usize| array.is_null(*row) && !marks.passed_over[*row] && !marks.deletes[*row];
            for row in (0..batch.num_rows()).filter(lacks) {
                rejects.add(row as u64, || RowError {
                    row: row as u64,
                    column: Some(column.name.clone()),
                    expected: format!("{} not null", column.data_type),
                    got: "null".to_owned(),
                    ..RowError::default()
                });
            }
        }
    }

    /// Rejects rows that may not do what they are to do.
    fn check_sets(&self, marks: &Marks, rejects: &mut Rejects) {
        let disabled = self.keyed.engine().deletes() == DeleteBehavior::Disable;
        if !disabled && self.sets.iter().all(Result::is_ok) {
            return;
        }
        for (row, set) in marks.sets.iter().enumerate() {
            let refused = |expected: String, got: &str| RowError {
                row: row as u64,
                column: Some(system::CHANGE_TYPE.to_owned()),
                expected,
                got: got.to_owned(),
                ..RowError::default()
            };
            match &self.sets[usize::from(*set)] {
                _ if marks.passed_over[row] => {}
                _ if disabled && marks.deletes[row] => {
                    rejects.add(row as u64, || {
                        refused(format!("no deletes ({DELETE_BEHAVIOR} = disable)"), "-D")
                    });
                }
                Err(why) => {
                    rejects.add(row as u64, || refused(format!("columns that can be deleted: {why}"), "-D"))
                }
                Ok(_) => {}
            }
        }
    }

    /// Rejects rows whose keys are too long.
    fn check_keys(&self, batch: &RecordBatch, rejects: &mut Rejects) -> Result<(), Problem> {
        let table = self.keyed.table();
        let key = table.key_columns();
        let of_batch = |position: &usize| self.columns.iter().position(|c| c == position);
        let columns: Vec<ArrayRef> =
            key.iter().filter_map(of_batch).map(|at| batch.column(at).clone()).collect();
        for row in self.keyed.long_keys(&columns, batch.num_rows()).map_err(internal)? {
            rejects.add(row as u64, || RowError {
                row: row as u64,
                line: None,
                column: Some(table.names_of(&table.primary_key).join(", ")),
                expected: format!("a key of at most {MAX_KEY_BYTES} bytes"),
                got: "a longer one".to_owned(),
                hint: Some("texts and bytes take nine bytes for eight in keys".to_owned()),
            });
        }
        Ok(())
    }
}

/// What each row of a batch is to do.
struct Marks {
    deletes: Vec<bool>,
    /// Rows that say how it was before, and do nothing.
    passed_over: Vec<bool>,
    /// The places of their columns in [`Plan::sets`].
    sets: Vec<u16>,
}

impl Marks {
    fn new(rows: usize, deletes: bool) -> Marks {
        let sets = vec![if deletes { DELETES } else { WRITES }; rows];
        Marks { deletes: vec![deletes; rows], passed_over: vec![false; rows], sets }
    }

    fn delete(&mut self, row: usize) {
        self.deletes[row] = true;
        self.sets[row] = DELETES;
    }

    /// The batch with the marks as its last columns, so that rows which are left out take theirs with them.
    fn beside(self, batch: &RecordBatch) -> Result<RecordBatch, Problem> {
        let marks: [(&str, ArrayRef); 3] = [
            ("delete", Arc::new(BooleanArray::from(self.deletes))),
            ("passed over", Arc::new(BooleanArray::from(self.passed_over))),
            ("set", Arc::new(UInt16Array::from(self.sets))),
        ];
        let mut fields = batch.schema_ref().fields().to_vec();
        fields.extend(
            marks.iter().map(|(name, mark)| Arc::new(Field::new(*name, mark.data_type().clone(), false))),
        );
        let columns = batch.columns().iter().cloned().chain(marks.into_iter().map(|(_, mark)| mark));
        RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns.collect()).map_err(internal)
    }

    /// Takes the marks off a batch, and the rows that do nothing out of it. If there were any, tells which rows are left.
    fn taken_from(batch: &mut RecordBatch) -> Result<(Marks, Option<BooleanBuffer>), Problem> {
        let passed_over = batch.column(batch.num_columns() - 2).as_boolean().clone();
        let kept = (passed_over.true_count() > 0).then(|| !passed_over.values());
        if let Some(kept) = &kept {
            let keep = BooleanArray::new(kept.clone(), None);
            *batch = filter_record_batch(batch, &keep).map_err(internal)?;
        }
        let mut take = || batch.remove_column(batch.num_columns() - 1);
        let (sets, passed_over, deletes) = (take(), take(), take());
        let bools = |array: &ArrayRef| array.as_boolean().values().iter().collect::<Vec<bool>>();
        let marks = Marks {
            deletes: bools(&deletes),
            passed_over: bools(&passed_over),
            sets: sets.as_primitive::<UInt16Type>().values().to_vec(),
        };
        Ok((marks, kept))
    }

    /// The columns that each row touches. Rows of sets that cannot be have been rejected.
    fn targets(&self, sets: &[TargetSet]) -> Option<Targets> {
        let sets: Vec<_> = sets.iter().map(|set| set.clone().unwrap_or_default()).collect();
        if sets.iter().all(Option::is_none) {
            return Some(Targets::default());
        }
        Targets::by_row(sets, self.sets.clone().into())
    }
}

fn target_columns(table: &Table, names: &[String], verb: Verb) -> Result<TargetColumns, Problem> {
    Ok(TargetColumns::new(table, names.iter().map(String::as_str), verb)?)
}

/// The schema by which a body is read. With change types, only keys are needed in every row: deletions may lack the rest.
fn read_as(table: &Table, columns: &[usize], changes: bool) -> Schema {
    let of_table = columns.iter().map(|i| {
        let column = table.schema().columns()[*i].clone();
        let key = table.primary_key.contains(&column.id);
        Column { nullable: column.nullable || (changes && !key), ..column }
    });
    let change = changes.then(|| Column {
        id: FieldId(u32::MAX),
        name: system::CHANGE_TYPE.to_owned(),
        data_type: DataType::String,
        nullable: true,
        comment: None,
        default: None,
    });
    Schema::new(table.schema().id(), of_table.chain(change).collect())
}
