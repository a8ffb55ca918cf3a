//! Scans of primary-key tables in pages, which survive a lost connection.
//!
//! A scan keeps a snapshot of the bucket that it is in; so a page is read from its token alone, and the same token gives the same
//! page again. Each bucket is seen as it was when the scan came to it, and the answer tells the high watermark of then: the log from
//! there on brings the rows up to date. Snapshots die with their shard's owner, so that after a move the answer is 410. The scan itself is kept by
//! the gateway that began it; another one that is asked for a page passes the request on.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use parking_lot::Mutex;
use serde_json::json;
use wadi_model::{ErrorKind, Offset, Table};
use wadi_store::keyed::KeyedTable;
use wadi_store::open::{IDLE, Open};
use wadi_store::route::Snapshot;
use wadi_store::shard::{LookupError, Piece};

use super::keyed::{Decoded, PAGE_BYTES, PAGE_ROWS, decode};
use super::token::{PageToken, Position};
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::places::{Place, Scope, states_of};
use crate::problem::Problem;
use crate::request::Parameters;
use crate::rows::{Selection, Writer};

const NEXT: HeaderName = HeaderName::from_static("wadi-next-page-token");
const MARKS: HeaderName = HeaderName::from_static("wadi-high-watermarks");

/// Rows of a page where the token alone is given, and the most there may be.
const USUAL_ROWS: u64 = 10_000;
const MOST_ROWS: u64 = 100_000;

/// Most buckets of a page, and of the header that tells their high watermarks.
const MOST_BUCKETS: usize = 64;

/// Bytes of changes that all open scans may hold in memory.
const HELD_BYTES: usize = 64 << 20;

/// Most scans that are open at once.
const MOST: usize = 64;

/// The open scans of a gateway.
#[derive(Debug)]
pub(crate) struct Scans(Open<Scan>);

impl Default for Scans {
    fn default() -> Scans {
        Scans(Open::new(MOST))
    }
}

/// What is asked for in pages.
pub(super) struct Asked {
    size: usize,
    token: Option<String>,
}

impl Asked {
    /// `page_size` and `page_token`, if there are any.
    pub(super) fn of(parameters: &mut Parameters) -> Result<Option<Asked>, Problem> {
        let token = parameters.text("page_token");
        let size = parameters.number("page_size", 0, MOST_ROWS)?;
        match (token, size) {
            (None, 0) => Ok(None),
            (token, 0) => Ok(Some(Asked { size: USUAL_ROWS as usize, token })),
            (token, size) => Ok(Some(Asked { size: size as usize, token })),
        }
    }

    /// Where the gateway answers that keeps the scan of the page, if it is another one that is there.
    pub(super) fn elsewhere(&self, gateway: &Gateway) -> Option<String> {
        let token = PageToken::read(self.token.as_deref()?)?;
        let is_it = |id: &String| token.gateway != number_of(gateway) && number(id) == token.gateway;
        gateway.host().gateways().into_iter().find(|(id, _)| is_it(id)).map(|(_, member)| member.address)
    }

    /// The page.
    pub(super) async fn answer(
        self,
        gateway: &Gateway,
        table: Arc<Table>,
        mut parameters: Parameters,
        format: AnswerFormat,
    ) -> Result<Response, Problem> {
        if !table.has_primary_key() {
            let detail = "pages are for primary-key tables; read a log table from an offset on: GET …/log";
            return Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail));
        }
        let open = &gateway.scans().0;
        let Some(word) = self.token else {
            let scan = Arc::new(Scan::of(gateway, table, &mut parameters)?);
            parameters.finish()?;
            let id = gateway.env().unique();
            let page = scan.page(gateway, Position::default(), self.size).await?;
            if page.next.is_some() && !open.insert(id, scan.clone()) {
                return Err(too_many());
            }
            return scan.respond(gateway, id, page, format);
        };
        for name in ["columns", "filter", "partition", "limit"] {
            if parameters.text(name).is_some() {
                let detail = format!(
                    "parameter \"{name}\" was said with the first page; leave it out beside page_token"
                );
                return Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail));
            }
        }
        parameters.finish()?;
        let Some(token) = PageToken::read(&word) else {
            let detail = "page_token is none; give the Wadi-Next-Page-Token (next_page_token in JSON) of a page as it came";
            return Err(Problem::new(ErrorKind::Invalid, "invalid_page_token", detail));
        };
        if token.table != table.id {
            return Err(expired(&format!(
                "page_token is of another table than the present \"{}\"",
                table.name
            )));
        }
        let rests = IDLE.as_secs() / 60;
        let unknown = || {
            expired(&format!(
                "no gateway knows this scan any more; it rested for {rests} minutes, is an hour old, or its gateway was restarted"
            ))
        };
        let scan = open.get(token.scan).ok_or_else(unknown)?;
        let page = match scan.page(gateway, token.position, self.size).await {
            Err(problem) if problem.code() == EXPIRED => {
                open.remove(token.scan);
                return Err(problem);
            }
            page => page?,
        };
        open.answered(token.scan, page.next.is_none());
        scan.respond(gateway, token.scan, page, format)
    }
}

/// A gateway's id as a number.
fn number(gateway: &str) -> u64 {
    u64::from_str_radix(gateway, 16).unwrap_or_default()
}

/// This gateway's.
fn number_of(gateway: &Gateway) -> u64 {
    number(gateway.host().gateway())
}

const EXPIRED: &str = "scan_expired";

fn expired(why: &str) -> Problem {
    Problem::new(ErrorKind::Gone, EXPIRED, format!("{why}; begin the scan again, without page_token"))
}

fn too_many() -> Problem {
    let detail = format!(
        "{MOST} scans are open here, or they hold too much; read one to its end, or wait (one that nobody goes on with is closed \
         after {} minutes), or scan without page_size",
        IDLE.as_secs() / 60
    );
    Problem::new(ErrorKind::Overloaded, "too_many_scans", detail)
}

/// A scan, as its first page asked for it.
#[derive(Debug)]
struct Scan {
    keyed: Arc<KeyedTable>,
    selection: Arc<Selection>,
    places: Vec<Place>,
    limit: u64,
    kept: Mutex<Kept>,
}

/// What a scan needs for its next page, and to give its last page again.
#[derive(Debug, Default)]
struct Kept {
    /// Where the last page began.
    from: usize,
    /// Of that bucket, and those behind it.
    snapshots: BTreeMap<usize, Snapshot>,
}

impl Kept {
    fn forget_before(&mut self, from: usize) {
        self.from = self.from.max(from);
        self.snapshots.retain(|place, _| *place >= from);
    }
}

/// Some of its rows.
struct Page {
    batches: Vec<RecordBatch>,
    /// The high watermark of each bucket that it looked at.
    marks: Vec<Mark>,
    next: Option<Position>,
}

/// The high watermark of a bucket.
pub(super) struct Mark {
    partition: String,
    bucket: u32,
    high_watermark: Offset,
}

impl Mark {
    fn of(place: &Place, high_watermark: Offset) -> Mark {
        Mark { partition: place.partition_name().to_owned(), bucket: place.bucket.bucket, high_watermark }
    }
}

impl Scan {
    fn of(gateway: &Gateway, table: Arc<Table>, parameters: &mut Parameters) -> Result<Scan, Problem> {
        let selection = Arc::new(Selection::of_rows(parameters, &table)?);
        let limit = parameters.number("limit", u64::MAX, u64::MAX)?;
        let scope = Scope::of(gateway, &table, parameters.text("partition").as_deref())?;
        let keyed = gateway.host().context().tables.of(&table)?;
        let (places, kept) = (scope.places().collect(), Mutex::default());
        Ok(Scan { keyed, selection, places, limit, kept })
    }

    /// The snapshot of a bucket, taken when it is first needed.
    async fn snapshot(&self, gateway: &Gateway, position: &Position) -> Result<Snapshot, Problem> {
        let place = &self.places[position.place];
        place.check(gateway, self.keyed.table())?;
        let (known, is_past) = {
            let kept = self.kept.lock();
            (kept.snapshots.get(&position.place).cloned(), position.place < kept.from)
        };
        match (known, position.owner) {
            (Some(known), owner) if owner.is_none_or(|owner| owner == known.token()) => return Ok(known),
            (None, None) if !is_past => {}
            _ => return Err(expired("this page is not the last one that was given, nor the one before")),
        }
        let taken = gateway.route().snapshot(place.bucket, gateway.limits().patience).await?;
        if gateway.scans().0.sum(Scan::held) + taken.bytes() > HELD_BYTES {
            return Err(too_many());
        }
        // Another request for the same page may have been quicker.
        Ok(self.kept.lock().snapshots.entry(position.place).or_insert(taken).clone())
    }

    fn held(&self) -> usize {
        self.kept.lock().snapshots.values().map(|snapshot| snapshot.bytes()).sum()
    }

    /// The rows from a position on. A page reads a bounded number of bytes, so with a filter it may have few rows, or none.
    async fn page(&self, gateway: &Gateway, from: Position, size: usize) -> Result<Page, Problem> {
        // Whoever asks for this page has the one before.
        self.kept.lock().forget_before(from.place);
        let mut page = Page { batches: Vec::new(), marks: Vec::new(), next: None };
        let (mut at, mut rows, mut bytes) = (from, 0, 0);
        while at.place < self.places.len() && at.given < self.limit {
            if rows == size || bytes >= PAGE_BYTES || page.marks.len() == MOST_BUCKETS {
                page.next = Some(at);
                break;
            }
            let snapshot = self.snapshot(gateway, &at).await?;
            page.marks.push(Mark::of(&self.places[at.place], snapshot.high_watermark()));
            at.owner = Some(snapshot.token());
            let mut scan = snapshot.scan_after(at.after.as_deref()).await.map_err(moved)?;
            let mut more = true;
            while more && rows < size && bytes < PAGE_BYTES && at.given < self.limit {
                let left = usize::try_from(self.limit - at.given).unwrap_or(usize::MAX).min(size - rows);
                let most = if self.selection.filter.is_some() { PAGE_ROWS } else { PAGE_ROWS.min(left) };
                // The rows as they are stored, and as columns.
                let _share = gateway.host().context().reads.take(2 * PAGE_BYTES).await;
                let stored = scan.page(most, PAGE_BYTES - bytes).await.map_err(moved)?;
                bytes += stored.rows.iter().map(Bytes::len).sum::<usize>();
                let Decoded { rows: found, used } = self.decoded(gateway, stored.rows.clone(), left).await?;
                rows += found.num_rows();
                at.given += found.num_rows() as u64;
                more = stored.more || used < stored.rows.len();
                if let Some(last) = used.checked_sub(1).and_then(|last| stored.rows.get(last)) {
                    at.after = Some(self.key_of(last)?);
                }
                if found.num_rows() > 0 {
                    page.batches.push(found);
                }
                if used < stored.rows.len() {
                    break;
                }
            }
            if !more {
                at = Position { place: at.place + 1, owner: None, given: at.given, after: None };
            }
        }
        Ok(page)
    }

    async fn decoded(&self, gateway: &Gateway, stored: Vec<Bytes>, limit: usize) -> Result<Decoded, Problem> {
        let (keyed, selection) = (self.keyed.clone(), self.selection.clone());
        let work = move || decode(&keyed, &selection, &stored, limit);
        gateway
            .host()
            .context()
            .cpu
            .run(work)
            .await
            .unwrap_or_else(|| Err(internal("decoding rows panicked")))
    }

    /// The encoded primary key of a stored row.
    fn key_of(&self, row: &Bytes) -> Result<Vec<u8>, Problem> {
        let columns = self.keyed.table().key_columns();
        let key = self.keyed.decode(std::slice::from_ref(row), &columns).map_err(internal)?;
        Ok(self.keyed.encode_keys(key.columns(), 1).map_err(internal)?.get(0).to_vec())
    }

    fn respond(
        &self,
        gateway: &Gateway,
        scan: u128,
        page: Page,
        format: AnswerFormat,
    ) -> Result<Response, Problem> {
        let (table, gateway) = (self.keyed.table().id, number_of(gateway));
        let next = page.next.map(|position| PageToken { table, gateway, scan, position }.write());
        let mut writer = Writer::new(format, &self.selection.schema);
        let mut body = Vec::from(writer.begin()?);
        for batch in page.batches {
            body.extend(writer.piece(&Piece::Batch(batch))?);
        }
        if format == AnswerFormat::Json {
            let next = serde_json::to_string(&next).map_err(internal)?;
            body.extend(
                format!("],\"next_page_token\":{next},\"high_watermarks\":{}}}\n", told(&page.marks))
                    .into_bytes(),
            );
        } else {
            body.extend(writer.end(&[]));
        }
        let mut response = Response::new(Body::from(body));
        let content_type = HeaderValue::from_static(format.content_type());
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        if let Some(next) = next {
            response.headers_mut().insert(NEXT, HeaderValue::try_from(next).map_err(internal)?);
        }
        tell_marks(&mut response, &page.marks);
        Ok(response)
    }
}

fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorKind::Internal, "internal", error.to_string())
}

fn moved(error: LookupError) -> Problem {
    match error {
        LookupError::NotOwned => {
            expired("the shard of these rows has moved, and its snapshot with its owner is gone")
        }
        error => error.into(),
    }
}

/// High watermarks as JSON, in ASCII so that they fit a header.
fn told(marks: &[Mark]) -> String {
    let one = |mark: &Mark| json!({ "partition": mark.partition, "bucket": mark.bucket, "high_watermark": mark.high_watermark });
    let text = serde_json::Value::from(marks.iter().map(one).collect::<Vec<_>>()).to_string();
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            let mut units = [0; 2];
            ascii.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    ascii
}

/// Tells high watermarks in a header.
pub(super) fn tell_marks(response: &mut Response, marks: &[Mark]) {
    if let Ok(value) = HeaderValue::try_from(told(marks))
        && !marks.is_empty()
    {
        response.headers_mut().insert(MARKS, value);
    }
}

/// The high watermarks of buckets that a stream will read later; none if they are too many for a header.
pub(super) async fn marks_of(gateway: &Gateway, scope: &Scope) -> Result<Vec<Mark>, Problem> {
    let mut marks = Vec::new();
    if scope.bucket_count() > MOST_BUCKETS {
        return Ok(marks);
    }
    for (place, state) in states_of(gateway, scope).await? {
        marks.push(Mark::of(&place, state.bounds.high_watermark));
    }
    Ok(marks)
}
