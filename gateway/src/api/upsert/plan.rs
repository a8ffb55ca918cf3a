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
use wadi_model::merge::{InvalidTargets, TargetColumns, Verb};
use wadi_model::options::{DELETE_BEHAVIOR, DeleteBehavior};
use wadi_model::reject::{Rejects, RowError, preview};
use wadi_model::{Column, DataType, FieldId, Schema, Table, system};
use wadi_store::keyed::KeyedTable;
use wadi_store::shard::{Keyed, Targets};

use super::internal;
use crate::api::writing::Sorted;
use crate::body::Decoded;
use crate::body::debezium::Envelopes;
use crate::problem::Problem;
use crate::targets;

/// Columns that rows touch, `None` is all; or what is wrong with rows that would touch these alone.
type TargetSet = Result<Option<Arc<TargetColumns>>, Box<RowError>>;

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
    reading: Reading,
    /// Whether all rows are deletions.
    deletes: bool,
    sets: Vec<TargetSet>,
}

/// What the rows of a body say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Values.
    Rows,
    /// In a column more, too, whether they are written or deleted.
    Changes,
    /// The same around the values.
    Events,
}

impl Plan {
    fn new(keyed: Arc<KeyedTable>, columns: Vec<usize>, sets: Vec<TargetSet>) -> Plan {
        let schema = read_as(keyed.table(), &columns, Reading::Rows);
        Plan { keyed, columns, schema, reading: Reading::Rows, deletes: false, sets }
    }

    /// Rows are written, those columns of them that are named.
    pub(super) fn upsert(keyed: Arc<KeyedTable>, names: Option<&[String]>) -> Result<Plan, Problem> {
        let table = keyed.table();
        let all = 0..table.schema().columns().len();
        let Some(names) = names else {
            let sets = vec![Ok(None), Ok(None)];
            return Ok(Plan::new(keyed, all.collect(), sets));
        };
        let targets = target_columns(table, names, Verb::Upsert)?;
        let columns: Vec<usize> = all.filter(|i| targets.contains(*i)).collect();
        let deletes = TargetColumns::new(table, names.iter().map(String::as_str), Verb::Delete);
        let refused = |why: InvalidTargets| RowError {
            column: Some(system::CHANGE_TYPE.to_owned()),
            expected: format!("columns that can be deleted: {why}"),
            got: "-D".to_owned(),
            ..RowError::default()
        };
        let deletes = deletes.map(|deletes| Some(Arc::new(deletes))).map_err(|why| Box::new(refused(why)));
        Ok(Plan::new(keyed, columns, vec![Ok(Some(Arc::new(targets))), deletes]))
    }

    /// The rows of keys are deleted, or those columns of them that are named.
    pub(super) fn delete(keyed: Arc<KeyedTable>, names: Option<&[String]>) -> Result<Plan, Problem> {
        let targets = names.map(|names| target_columns(keyed.table(), names, Verb::Delete)).transpose()?;
        let columns = key_of(keyed.table());
        let plan = Plan::new(keyed, columns, vec![Ok(None), Ok(targets.map(Arc::new))]);
        Ok(Plan { deletes: true, ..plan })
    }

    /// Rows may say themselves whether they are written or deleted.
    pub(super) fn with_changes(self) -> Plan {
        self.reading(Reading::Changes)
    }

    /// The rows are events of Debezium.
    pub(super) fn events(keyed: Arc<KeyedTable>) -> Result<Plan, Problem> {
        Ok(Plan::upsert(keyed, None)?.reading(Reading::Events))
    }

    fn reading(self, reading: Reading) -> Plan {
        Plan { schema: read_as(self.keyed.table(), &self.columns, reading), reading, ..self }
    }

    /// What the body is read as.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The positions of the key's columns in the table.
    pub(super) fn key(&self) -> Vec<usize> {
        key_of(self.keyed.table())
    }

    /// Says what each row is to do, and rejects those that cannot be merged whatever is stored.
    pub(super) fn sort_out(self, mut decoded: Decoded, now: i64) -> Result<Sorted, Problem> {
        let mut marks = Marks::new(decoded.batch.num_rows(), self.deletes);
        let mut rejects = Rejects::default();
        if self.reading == Reading::Changes {
            let changes = decoded.batch.remove_column(decoded.batch.num_columns() - 1);
            read_changes(changes.as_string(), &mut marks, &mut rejects);
        }
        rejects.extend(0, self.rejects(&decoded.batch, &marks)?);
        self.finish(decoded, marks, rejects, now)
    }

    /// [`Plan::sort_out`] for events of Debezium.
    pub(super) fn sort_out_events(mut self, events: Envelopes, now: i64) -> Result<Sorted, Problem> {
        let Envelopes { decoded, deletes, absent, of_rows, lines } = events;
        // The first set is empty: rows that lack nothing are written as all others are.
        self.sets.extend(absent.iter().skip(1).map(|absent| without(self.keyed.table(), absent)));
        let mut marks = Marks::new(decoded.batch.num_rows(), false);
        for (row, (delete, set)) in deletes.into_iter().zip(of_rows).enumerate() {
            match (delete, set) {
                (true, _) => marks.delete(row),
                (false, 0) => {}
                (false, set) => marks.sets[row] = DELETES + set,
            }
        }
        let mut rejects = self.rejects(&decoded.batch, &marks)?;
        rejects.tell_lines(|row| lines.get(row as usize).copied());
        self.finish(decoded, marks, rejects, now)
    }

    /// Rows that can never be merged.
    fn rejects(&self, batch: &RecordBatch, marks: &Marks) -> Result<Rejects, Problem> {
        let mut rejects = Rejects::default();
        self.check_sets(marks, &mut rejects);
        if self.reading != Reading::Rows {
            self.check_nulls(batch, marks, &mut rejects);
        }
        self.check_ids(batch, marks, &mut rejects);
        self.check_keys(batch, &mut rejects)?;
        let engine = self.keyed.engine();
        if engine.needs_check() && !self.deletes {
            rejects.extend(0, engine.check(batch));
        }
        Ok(rejects)
    }

    fn finish(
        self,
        mut decoded: Decoded,
        marks: Marks,
        rejects: Rejects,
        now: i64,
    ) -> Result<Sorted, Problem> {
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
        let keyed = Keyed { table: self.keyed, columns, deletes, targets, if_absent: false };
        Ok(Sorted { decoded, keyed: Some(keyed), grouping })
    }

    /// Rejects rows that may not do what they are to do.
    fn check_sets(&self, marks: &Marks, rejects: &mut Rejects) {
        let disabled = self.keyed.engine().deletes() == DeleteBehavior::Disable;
        if !disabled && self.sets.iter().all(Result::is_ok) {
            return;
        }
        for (row, set) in marks.sets.iter().enumerate() {
            match &self.sets[usize::from(*set)] {
                _ if marks.passed_over[row] => {}
                _ if disabled && marks.deletes[row] => rejects.add(row as u64, || RowError {
                    row: row as u64,
                    expected: format!("no deletions ({DELETE_BEHAVIOR} = disable)"),
                    got: "a deletion".to_owned(),
                    ..RowError::default()
                }),
                Err(why) => rejects.add(row as u64, || RowError { row: row as u64, ..(**why).clone() }),
                Ok(_) => {}
            }
        }
    }

    /// Rejects rows that lack what only a deletion may lack.
    fn check_nulls(&self, batch: &RecordBatch, marks: &Marks, rejects: &mut Rejects) {
        let columns = self.keyed.table().schema().columns();
        for (position, array) in self.columns.iter().zip(batch.columns()) {
            let column = &columns[*position];
            let comes_by_itself = self.keyed.table().auto_increment == Some(column.id);
            if column.nullable || comes_by_itself || array.null_count() == 0 {
                continue;
            }
            let touches = |row: usize| match &self.sets[usize::from(marks.sets[row])] {
                Ok(Some(targets)) => targets.contains(*position),
                _ => true,
            };
            let writes = |row: usize| !marks.passed_over[row] && !marks.deletes[row] && touches(row);
            for row in (0..batch.num_rows()).filter(|row| array.is_null(*row) && writes(*row)) {
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

    /// Rejects rows that bring a value for the auto-increment column.
    fn check_ids(&self, batch: &RecordBatch, marks: &Marks, rejects: &mut Rejects) {
        let Some(auto) = self.keyed.auto_increment() else { return };
        let Some(at) = self.columns.iter().position(|position| *position == auto.column) else { return };
        let array = batch.column(at);
        let writes = |row: usize| !marks.passed_over[row] && !marks.deletes[row];
        for row in (0..batch.num_rows()).filter(|row| array.is_valid(*row) && writes(*row)) {
            rejects.add(row as u64, || RowError {
                row: row as u64,
                column: Some(auto.name.to_string()),
                expected: "nothing: it is the auto-increment column".to_owned(),
                got: "a value".to_owned(),
                hint: Some("leave the column out, its values come from the server".to_owned()),
                ..RowError::default()
            });
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

/// Notes what rows say of themselves.
fn read_changes(changes: &StringArray, marks: &mut Marks, rejects: &mut Rejects) {
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
        let sets: Vec<_> = sets.iter().map(|set| set.clone().unwrap_or(None)).collect();
        if sets.iter().all(Option::is_none) {
            return Some(Targets::default());
        }
        Targets::by_row(sets, self.sets.clone().into())
    }
}

fn target_columns(table: &Table, names: &[String], verb: Verb) -> Result<TargetColumns, Problem> {
    Ok(TargetColumns::new(table, names.iter().map(String::as_str), verb)?)
}

/// The columns of rows that lack some.
fn without(table: &Table, absent: &[usize]) -> TargetSet {
    let columns = table.schema().columns().iter().enumerate();
    let named = columns.filter(|(i, c)| !absent.contains(i) && table.auto_increment != Some(c.id));
    let targets = TargetColumns::new(table, named.map(|(_, column)| column.name.as_str()), Verb::Upsert);
    let refused = |why: InvalidTargets| {
        let (column, hint) = match why {
            InvalidTargets::MissingNotNull { column } => {
                let hint =
                    "give the column a default, or let the source log whole rows (replica identity full)";
                (Some(column), hint.to_owned())
            }
            why => (None, why.to_string()),
        };
        let (expected, got) = ("the value", "the mark of a value that did not change");
        RowError {
            column,
            expected: expected.into(),
            got: got.into(),
            hint: Some(hint),
            ..RowError::default()
        }
    };
    targets.map(|targets| Some(Arc::new(targets))).map_err(|why| Box::new(refused(why)))
}

/// The positions of the key's columns in the table.
fn key_of(table: &Table) -> Vec<usize> {
    let position = |id: &FieldId| table.schema().index_of_id(*id);
    let mut key: Vec<usize> = table.primary_key.iter().filter_map(position).collect();
    key.sort_unstable();
    key
}

/// The schema by which a body is read. Where rows may be deletions, only keys are needed in every row.
fn read_as(table: &Table, columns: &[usize], reading: Reading) -> Schema {
    let of_table = columns.iter().map(|i| {
        let column = table.schema().columns()[*i].clone();
        let key = table.primary_key.contains(&column.id);
        let comes_by_itself = table.auto_increment == Some(column.id);
        let nullable = column.nullable || comes_by_itself || (reading != Reading::Rows && !key);
        Column { nullable, ..column }
    });
    let change = (reading == Reading::Changes).then(|| Column {
        id: FieldId(u32::MAX),
        name: system::CHANGE_TYPE.to_owned(),
        data_type: DataType::String,
        nullable: true,
        comment: None,
        default: None,
    });
    Schema::new(table.schema().id(), of_table.chain(change).collect())
}
