//! `GET …/lookup` and `POST …/lookup`: rows of a primary-key table by their keys.
//!
//! All key columns find a row each, in the order of the keys, and `null` where there is none (in Arrow and CSV a row of
//! nulls). A beginning of the key that covers the bucket key finds all rows under it, in the order of their keys: a prefix
//! lookup. Which columns are given is seen from the rows: a key column that is null in all of them is not given. With
//! `insert_if_not_exists=true` keys without a row get one ([`insert`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::datatypes::Schema as ArrowSchema;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures::future::try_join_all;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use wadi_model::partition::Grouping;
use wadi_model::reject::RowError;
use wadi_model::row::Rows;
use wadi_model::{Bucket, Column, ErrorKind, FieldId, PartitionId, Schema, Table};
use wadi_store::keyed::KeyedTable;
use wadi_store::shard::{Limit, Piece};

use super::log::{AGAIN, answer_format};
use super::upsert::keyed_table;
use super::writing::{OnError, Received};
use crate::app::Gateway;
use crate::body::{self, AnswerFormat, BodyFormat, BodyLimits, Decoded};
use crate::problem::Problem;
use crate::request::{Parameters, RequestId, TablePath};
use crate::rows::{Selection, Writer};

mod insert;

/// How many rows there are: in Arrow and CSV a key without one is a row of nulls.
const FOUND: HeaderName = HeaderName::from_static("wadi-found");

/// Most keys of one request.
const MAX_KEYS: u64 = 100_000;

/// Most rows of an answer.
const MAX_ROWS: usize = 100_000;

/// What a row of an answer is counted with in the budget of reads, and what the rows of a prefix are.
const ROW_BYTES: usize = 1 << 10;
const GROUP_BYTES: usize = 16 << 10;

/// What any lookup is counted with.
const LEAST_BYTES: usize = 64 << 10;

/// Most bytes of stored rows in an answer.
const MAX_BYTES: usize = 64 << 20;

const FORMATS: [AnswerFormat; 4] =
    [AnswerFormat::Json, AnswerFormat::ArrowStream, AnswerFormat::Ndjson, AnswerFormat::Csv];

/// Finds rows by one key, whose columns are query parameters.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/lookup", tag = "rows",
    params(("database" = String, Path), ("table" = String, Path), ("columns" = Option<String>, Query, description = "Columns of the answer; all others are key columns with their values"),
        ("insert_if_not_exists" = Option<bool>, Query, description = "A key without a row gets one")),
    responses((status = 200, description = "The rows; null where a key has none; Wadi-Found tells how many there are")))]
pub async fn lookup_one(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let keyed = keyed_table(&gateway, &name)?;
    let format = answer_format(&headers, &FORMATS)?;
    let selection = Selection::of_keys(&mut parameters, keyed.table())?;
    let insert = insert::is_asked(&mut parameters)?;
    let by = By::of(keyed.table());
    let body = one_row(parameters, &by)?;
    let limits = BodyLimits { max_rows: 1, ..BodyLimits::default() };
    let decoded = body::decode(BodyFormat::Csv { header: true }, body.into(), &by.schema, &limits)?;
    if let Some(RowError { column, expected, got, .. }) = decoded.rejects.told().next() {
        let detail =
            format!("parameter \"{}\" is {got}; expected {expected}", column.as_deref().unwrap_or_default());
        return Err(Problem::new(ErrorKind::Rejected, "invalid_key", detail));
    }
    answer(&gateway, Question { keyed, by, selection, format, insert }, decoded).await
}

/// Finds rows by many keys, which are the rows of the body.
#[utoipa::path(post, path = "/v1/databases/{database}/tables/{table}/lookup", tag = "rows",
    params(("database" = String, Path), ("table" = String, Path), ("columns" = Option<String>, Query),
        ("insert_if_not_exists" = Option<bool>, Query, description = "Keys without a row get one")),
    request_body(content = Vec<u8>, content_type = "application/vnd.apache.arrow.stream",
        description = "The key columns of each row; also application/x-ndjson, application/json, text/csv, application/vnd.apache.parquet"),
    responses((status = 200, description = "The rows, in the order of the keys; null where a key has none; Wadi-Found tells how many there are")))]
pub async fn lookup_many(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    id: RequestId,
    mut parameters: Parameters,
    request: Request,
) -> Result<Response, Problem> {
    let keyed = keyed_table(&gateway, &name)?;
    let format = answer_format(request.headers(), &FORMATS)?;
    let selection = Selection::of_keys(&mut parameters, keyed.table())?;
    let insert = insert::is_asked(&mut parameters)?;
    parameters.finish()?;
    let by = By::of(keyed.table());
    let table = keyed.table().clone();
    let received = Received::take(&gateway, table, "lookup".into(), OnError::Fail, id, request).await?;
    let decoded = received.decode(&gateway, by.schema.clone(), Ok).await?;
    answer(&gateway, Question { keyed, by, selection, format, insert }, decoded).await
}

/// The columns by which rows can be found.
struct By {
    /// Partition columns, then the key in its order; all may be null, since a prefix lacks some.
    schema: Schema,
    /// How many of them are partition columns.
    partition: usize,
    /// Positions in `schema` of the bucket key.
    bucket_key: Vec<usize>,
}

impl By {
    fn of(table: &Table) -> By {
        let column = |id: FieldId| {
            let found = table.schema().index_of_id(id).map(|i| table.schema().columns()[i].clone());
            found.map(|column| Column { nullable: true, default: None, ..column })
        };
        let fields: Vec<FieldId> = table.partition_by.iter().copied().chain(table.key_fields()).collect();
        let at = |id: &FieldId| fields.iter().position(|field| field == id);
        let bucket_key = table.bucket_key.iter().filter_map(at).collect();
        let columns = fields.iter().filter_map(|id| column(*id)).collect();
        By {
            schema: Schema::new(table.schema().id(), columns),
            partition: table.partition_by.len(),
            bucket_key,
        }
    }

    fn name(&self, at: usize) -> &str {
        &self.schema.columns()[at].name
    }

    fn len(&self) -> usize {
        self.schema.columns().len()
    }

    /// The fewest columns, from the first on, that a prefix needs.
    fn least(&self) -> usize {
        self.bucket_key.iter().map(|at| at + 1).max().unwrap_or(self.partition).max(self.partition + 1)
    }

    /// How many columns are given, from the first on.
    fn given(&self, keys: &RecordBatch) -> Result<usize, Problem> {
        let absent = |at: usize| keys.column(at).null_count() == keys.num_rows();
        let given = (0..self.len()).take_while(|at| !absent(*at)).count();
        if given < self.least().min(self.len()) || (given..self.len()).any(|at| !absent(at)) {
            return Err(self.not_a_key(keys));
        }
        for at in 0..given {
            if let Some(row) = (0..keys.num_rows()).find(|row| keys.column(at).is_null(*row)) {
                let detail = format!(
                    "row {row} has no \"{}\", which other rows have; look up full keys and prefixes apart",
                    self.name(at)
                );
                return Err(Problem::new(ErrorKind::Rejected, "invalid_key", detail));
            }
        }
        Ok(given)
    }

    fn not_a_key(&self, keys: &RecordBatch) -> Problem {
        let list = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
        let given = (0..self.len()).filter(|at| keys.column(*at).null_count() < keys.num_rows());
        let given = list(&mut given.map(|at| self.name(at)));
        let prefixes =
            (self.least()..self.len()).map(|n| format!("({})", list(&mut (0..n).map(|at| self.name(at)))));
        let prefixes = prefixes.collect::<Vec<_>>().join(" or ");
        let or = match prefixes.is_empty() {
            true => "; prefixes cannot be looked up, as no shorter one covers the bucket key".to_owned(),
            false => format!(", or as a prefix {prefixes}"),
        };
        let all = list(&mut (0..self.len()).map(|at| self.name(at)));
        let detail =
            format!("({given}) is neither the key nor a prefix that can be looked up; give ({all}){or}");
        Problem::new(ErrorKind::Rejected, "invalid_key", detail)
    }
}

/// The query parameters as a CSV of one row.
fn one_row(parameters: Parameters, by: &By) -> Result<String, Problem> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    for (name, value) in parameters.rest() {
        let known = by.schema.columns().iter().any(|c| c.name == name);
        if !known {
            let keys = by.schema.columns().iter().map(|c| c.name.as_str());
            let hint = wadi_model::suggest::did_you_mean(wadi_model::suggest::nearest(&name, keys.clone()));
            let keys = keys.collect::<Vec<_>>().join(", ");
            let detail = format!("\"{name}\" is no key column{hint}; the key is ({keys})");
            return Err(Problem::new(ErrorKind::Invalid, "invalid_key", detail));
        }
        names.push(quoted(&name));
        values.push(quoted(&value));
    }
    if names.is_empty() {
        let keys = by.schema.columns().iter().map(|c| format!("{}=…", c.name)).collect::<Vec<_>>().join("&");
        return Err(Problem::new(
            ErrorKind::Invalid,
            "invalid_key",
            format!("give the key as parameters: ?{keys}"),
        ));
    }
    Ok(format!("{}\n{}\n", names.join(","), values.join(",")))
}

/// What is asked of keys.
struct Question {
    keyed: Arc<KeyedTable>,
    by: By,
    selection: Selection,
    format: AnswerFormat,
    /// Whether keys without a row get one.
    insert: bool,
}

async fn answer(gateway: &Gateway, question: Question, decoded: Decoded) -> Result<Response, Problem> {
    let Question { keyed, by, selection, format, insert } = question;
    if let Some(first) = decoded.rejects.told().next() {
        let told = decoded.rejects.told().cloned().collect();
        let problem =
            Problem::new(ErrorKind::Rejected, "invalid_key", format!("a key cannot be read: {first}"));
        return Err(problem.rows(told, decoded.rejects.count()));
    }
    let keys = decoded.batch;
    if keys.num_rows() as u64 > MAX_KEYS {
        let detail = format!("{} keys are more than the {MAX_KEYS} of one lookup", keys.num_rows());
        return Err(Problem::new(ErrorKind::TooLarge, "too_many_keys", detail));
    }
    let given = if keys.num_rows() == 0 { by.len() } else { by.given(&keys)? };
    if insert {
        insert::check(keyed.table(), &by, given)?;
    }
    // What the rows will take is not known before; most are small.
    let each = if given == by.len() { ROW_BYTES } else { GROUP_BYTES };
    let held = keys.num_rows().saturating_mul(each).clamp(LEAST_BYTES, MAX_BYTES);
    let _share = gateway.host().context().reads.take(held).await;
    let found = match keys.num_rows() {
        0 => Vec::new(),
        _ if insert => {
            let rows = insert::points_or_insert(gateway, &keyed, &by, &keys).await?;
            rows.into_iter().map(Some).collect()
        }
        _ => {
            let parts = parts(gateway, &keyed, &by, &keys, given)?;
            if given == by.len() {
                points(gateway, parts, keys.num_rows()).await?
            } else {
                prefixes(gateway, parts, keys.num_rows()).await?.into_iter().map(Some).collect()
            }
        }
    };
    let count = found.iter().flatten().count() as u64;
    let body = {
        let work = move || write(&keyed, &found, &selection, format);
        let written = gateway.host().context().cpu.run(work).await;
        written.unwrap_or_else(|| {
            Err(Problem::new(ErrorKind::Internal, "internal", "writing the answer panicked"))
        })?
    };
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response.headers_mut().insert(FOUND, HeaderValue::from(count));
    Ok(response)
}

/// The keys of one bucket.
struct Part {
    /// Which rows of the request they are.
    rows: Vec<usize>,
    asked: Asked,
}

/// What a bucket is asked for.
#[derive(Clone)]
struct Asked {
    bucket: Bucket,
    /// Keys or prefixes, encoded, in the order of the part's rows.
    keys: Rows,
    /// Their bucket keys, encoded.
    groups: Rows,
}

fn parts(
    gateway: &Gateway,
    keyed: &KeyedTable,
    by: &By,
    keys: &RecordBatch,
    given: usize,
) -> Result<Vec<Part>, Problem> {
    let table = keyed.table();
    let partitions = partitions_of(gateway, table, &keys.columns()[..by.partition])?;
    let buckets = match table.buckets {
        1 => vec![0; keys.num_rows()],
        buckets => table.bucket_function().buckets_of(keys, &by.bucket_key, buckets)?,
    };
    let mut rows: BTreeMap<Bucket, Vec<usize>> = BTreeMap::new();
    for (row, bucket) in buckets.into_iter().enumerate() {
        // What is in no partition that exists is not there.
        let Some(partition) = partitions.as_ref().map_or(Some(PartitionId::NONE), |of_rows| of_rows[row])
        else {
            continue;
        };
        rows.entry(Bucket { table: table.id, partition, bucket }).or_default().push(row);
    }
    let part = |(bucket, rows): (Bucket, Vec<usize>)| {
        let take = UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32));
        let column = |at: usize| arrow::compute::take(keys.column(at), &take, None).map_err(internal);
        let columns: Vec<ArrayRef> = (by.partition..given).map(column).collect::<Result<_, _>>()?;
        let encode = |columns: &[ArrayRef]| {
            let encoded = keyed.encode_keys(columns, rows.len());
            encoded.map_err(|e| Problem::new(ErrorKind::Rejected, "invalid_key", e.to_string()))
        };
        let keys = encode(&columns)?;
        // Only prefixes are looked up by the groups of their bucket key.
        let least = by.least() - by.partition;
        let groups =
            if given < by.len() && least < columns.len() { encode(&columns[..least])? } else { keys.clone() };
        Ok(Part { rows, asked: Asked { bucket, keys, groups } })
    };
    rows.into_iter().map(part).collect()
}

/// The partition of each row, if there is one of its name; `None` for a table without partitions.
fn partitions_of(
    gateway: &Gateway,
    table: &Table,
    columns: &[ArrayRef],
) -> Result<Option<Vec<Option<PartitionId>>>, Problem> {
    if columns.is_empty() {
        return Ok(None);
    }
    let mut grouping = Grouping::of(table, columns, None)?;
    if let Some(first) = grouping.take_rejects().told().next() {
        let detail = format!("a key names no partition: {first}");
        return Err(Problem::new(ErrorKind::Rejected, "invalid_key", detail));
    }
    let known = gateway.catalog().partitions(table.id);
    let of_names: Vec<Option<PartitionId>> =
        grouping.names().iter().map(|name| known.named(name).map(|partition| partition.id)).collect();
    Ok(Some(grouping.of_rows().iter().map(|name| of_names[*name as usize]).collect()))
}

async fn points(gateway: &Gateway, parts: Vec<Part>, count: usize) -> Result<Vec<Option<Bytes>>, Problem> {
    let mut looked = Vec::with_capacity(parts.len());
    for part in &parts {
        let Asked { bucket, keys, .. } = &part.asked;
        looked.push(gateway.route().lookup(*bucket, keys, gateway.limits().patience));
    }
    let answers = try_join_all(looked).await?;
    let mut found = vec![None; count];
    for (part, rows) in parts.iter().zip(answers) {
        for (row, stored) in part.rows.iter().zip(rows) {
            found[*row] = stored;
        }
    }
    // A key may be asked for many times, and its row is written each time.
    if found.iter().flatten().map(Bytes::len).sum::<usize>() > MAX_BYTES {
        let detail =
            format!("the rows of these keys have more than {} MiB; look up fewer at once", MAX_BYTES >> 20);
        return Err(Problem::new(ErrorKind::TooLarge, "too_many_rows", detail));
    }
    Ok(found)
}

async fn prefixes(gateway: &Gateway, parts: Vec<Part>, count: usize) -> Result<Vec<Bytes>, Problem> {
    let limit = Limit { rows: MAX_ROWS, bytes: MAX_BYTES };
    let mut looked = Vec::with_capacity(parts.len());
    for part in &parts {
        let Asked { bucket, keys, groups } = &part.asked;
        looked.push(gateway.route().lookup_prefixes(*bucket, groups, keys, limit, gateway.limits().patience));
    }
    let answers = try_join_all(looked).await?;
    let mut found: Vec<Vec<Bytes>> = vec![Vec::new(); count];
    for (part, groups) in parts.iter().zip(answers) {
        let groups = groups.ok_or_else(|| {
            let detail = format!(
                "more than {MAX_ROWS} rows or {} MiB are under these prefixes; look up fewer of them at once, or scan with a filter",
                MAX_BYTES >> 20
            );
            Problem::new(ErrorKind::TooLarge, "too_many_rows", detail)
        })?;
        for (row, group) in part.rows.iter().zip(groups) {
            found[*row] = group;
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// The rows in the order found; `None` is a key without a row.
fn write(
    keyed: &KeyedTable,
    found: &[Option<Bytes>],
    selection: &Selection,
    format: AnswerFormat,
) -> Result<Bytes, Problem> {
    let stored: Vec<Bytes> = found.iter().flatten().cloned().collect();
    let rows = keyed.decode(&stored, &selection.columns).map_err(internal)?;
    // Where a key has no row its place is null, in all columns if the format knows no other way.
    let fields = rows.schema_ref().fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let rows = RecordBatch::try_new(schema.clone(), rows.columns().to_vec()).map_err(internal)?;
    let mut writer = Writer::new(format, &schema);
    let mut out = Vec::from(writer.begin()?);
    if matches!(format, AnswerFormat::Json | AnswerFormat::Ndjson) {
        let mut next = 0;
        for run in found.chunk_by(|a, b| a.is_some() == b.is_some()) {
            if run[0].is_some() {
                out.extend(writer.piece(&Piece::Batch(rows.slice(next, run.len())))?);
                next += run.len();
            } else {
                run.iter().for_each(|_| out.extend(writer.null()));
            }
        }
    } else {
        let mut next = 0;
        let places = found.iter().map(|row| {
            row.as_ref().map(|_| {
                next += 1;
                next - 1
            })
        });
        let places: UInt32Array = places.collect();
        let all = arrow::compute::take_record_batch(&rows, &places).map_err(internal)?;
        out.extend(writer.piece(&Piece::Batch(all))?);
    }
    out.extend(writer.end(&[]));
    Ok(out.into())
}

fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorKind::Internal, "internal", error.to_string())
}
