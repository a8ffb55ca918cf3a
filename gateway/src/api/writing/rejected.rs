//! `on_error=dlq`: rejected rows go into the table `<table>__rejected`, before the good ones are written.
//!
//! The table is made when it is first needed. It takes the request's stamp too, so a retry adds its rejects once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use wadi_model::ipc::Originals;
use wadi_model::reject::RowError;
use wadi_model::{ErrorKind, Fault, Table, TableSpec};
use wadi_store::shard::Stamp;

use crate::app::Gateway;
use crate::body::{BodyFormat, Decoded};
use crate::problem::Problem;
use crate::write::Rows;

/// Longest raw line that is kept.
const MAX_RAW: usize = 64 << 10;

/// The rejected rows of a request.
pub(super) struct Rejected<'a> {
    pub decoded: &'a Decoded,
    pub body: &'a Bytes,
    pub format: BodyFormat,
    pub request_id: &'a str,
}

impl Rejected<'_> {
    /// Writes them.
    pub(super) async fn write(
        &self,
        gateway: &Gateway,
        table: &Table,
        stamp: Option<Stamp>,
    ) -> Result<(), Problem> {
        let rejected = open_table(gateway, table).await?;
        let rows = self.rows(rejected.schema().arrow())?;
        let rows = Rows { batch: rows, originals: Originals::default(), keyed: None };
        crate::write::write(gateway, &rejected, rows, None, stamp).await.map(drop)
    }

    fn rows(&self, schema: &SchemaRef) -> Result<RecordBatch, Problem> {
        let told: Vec<Option<&RowError>> = {
            let mut told = self.decoded.rejects.told().peekable();
            let next = |row: u64| told.next_if(|e| e.row == row);
            self.decoded.rejects.rows().map(next).collect()
        };
        let lines = self.lines(&told);
        let text = |of: fn(&RowError) -> Option<&str>| -> ArrayRef {
            Arc::new(told.iter().map(|e| e.and_then(of)).collect::<StringArray>())
        };
        let raw = told.iter().map(|e| e.and_then(|e| e.line).and_then(|l| lines.get(&l)));
        let raw: StringArray =
            raw.map(|l| l.map(|l| String::from_utf8_lossy(&l[..l.len().min(MAX_RAW)]))).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![self.request_id; told.len()])),
            Arc::new(self.decoded.rejects.rows().map(|row| Some(row as i64)).collect::<Int64Array>()),
            Arc::new(told.iter().map(|e| e.and_then(|e| e.line).map(|l| l as i64)).collect::<Int64Array>()),
            text(|e| e.column.as_deref()),
            text(|e| Some(&e.expected)),
            text(|e| Some(&e.got)),
            text(|e| e.hint.as_deref()),
            Arc::new(raw),
        ];
        RecordBatch::try_new(schema.clone(), columns)
            .map_err(|e| Problem::new(ErrorKind::Internal, "internal", e.to_string()))
    }

    /// The lines that the told faults name, by number, of a body that has lines.
    fn lines(&self, told: &[Option<&RowError>]) -> BTreeMap<u64, &[u8]> {
        let wanted: BTreeSet<u64> = told.iter().filter_map(|e| e.and_then(|e| e.line)).collect();
        let (Some(last), true) = (wanted.last(), self.format.has_lines()) else { return BTreeMap::new() };
        let lines = (1..=*last).zip(self.body.split(|b| *b == b'\n'));
        lines.filter(|(number, _)| wanted.contains(number)).collect()
    }
}

async fn open_table(gateway: &Gateway, table: &Table) -> Result<Arc<Table>, Problem> {
    let name = table.name.rejected_of();
    if let Ok(found) = gateway.catalog().table(&name) {
        return Ok(found);
    }
    let columns = [
        ("request_id", "string not null"),
        ("row", "bigint not null"),
        ("line", "bigint"),
        ("column", "string"),
        ("expected", "string"),
        ("got", "string"),
        ("hint", "string"),
        ("raw", "string"),
    ];
    let spec = TableSpec {
        comment: Some(format!("rows that {} rejected", table.name)),
        ..TableSpec::log(name.table(), &columns)
    };
    match gateway.catalog().create_table_named(name.clone(), &spec, gateway.env().now_millis()).await {
        Ok(made) => Ok(made),
        // Another request made it at the same time.
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(gateway.catalog().table(&name)?),
        Err(error) => Err(error.into()),
    }
}
