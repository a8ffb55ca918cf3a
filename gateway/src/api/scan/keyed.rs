//! Scans of primary-key tables: each bucket as it was at one point in time, when its turn came.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::{filter_record_batch, prep_null_mask_filter};
use async_stream::try_stream;
use bytes::Bytes;
use futures::Stream;
use wadi_model::{ErrorKind, Table};
use wadi_store::keyed::{KeyedTable, RowError};
use wadi_store::route::Scan;
use wadi_store::shard::Piece;

use super::BrokenOff;
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::places::{Place, Scope};
use crate::problem::Problem;
use crate::rows::{Selection, Writer};

/// Most rows that are decoded at once.
pub(super) const PAGE_ROWS: usize = 16 << 10;

/// Most stored bytes of them.
pub(super) const PAGE_BYTES: usize = 4 << 20;

/// The rows of a table, as they were when the scan began.
pub(super) struct Rows {
    gateway: Gateway,
    keyed: Arc<KeyedTable>,
    selection: Arc<Selection>,
    scope: Scope,
    limit: u64,
    format: AnswerFormat,
}

impl Rows {
    pub(super) fn of(
        gateway: Gateway,
        table: Arc<Table>,
        scope: Scope,
        selection: Selection,
        limit: u64,
        format: AnswerFormat,
    ) -> Result<Rows, Problem> {
        let keyed = gateway.host().context().tables.of(&table)?;
        Ok(Rows { gateway, keyed, selection: Arc::new(selection), scope, limit, format })
    }

    pub(super) fn stream(self) -> impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static {
        let Rows { gateway, keyed, selection, scope, limit, format } = self;
        try_stream! {
            let mut writer = Writer::new(format, &selection.schema);
            yield writer.begin().map_err(BrokenOff::of)?;
            let mut left = limit;
            for place in scope.places() {
                let mut scan = begin(&gateway, &place).await.map_err(BrokenOff::of)?;
                let mut more = left > 0;
                while more && left > 0 {
                    let most = if selection.filter.is_some() { PAGE_ROWS } else { PAGE_ROWS.min(left as usize) };
                    // The rows as they are stored, and as columns.
                    let _share = gateway.host().context().reads.take(2 * PAGE_BYTES).await;
                    let page = scan.page(most, PAGE_BYTES).await.map_err(|e| BrokenOff::of(e.into()))?;
                    more = page.more;
                    let (keyed, selection) = (keyed.clone(), selection.clone());
                    let limit = usize::try_from(left).unwrap_or(usize::MAX);
                    let work = move || decode(&keyed, &selection, &page.rows, limit);
                    let decoded = gateway.host().context().cpu.run(work).await;
                    let panicked = || Err(Problem::new(ErrorKind::Internal, "internal", "decoding rows panicked"));
                    let Decoded { rows, .. } = decoded.unwrap_or_else(panicked).map_err(BrokenOff::of)?;
                    left -= rows.num_rows() as u64;
                    if rows.num_rows() > 0 {
                        yield writer.piece(&Piece::Batch(rows)).map_err(BrokenOff::of)?;
                    }
                }
            }
            yield writer.end(&[]);
        }
    }
}

async fn begin(gateway: &Gateway, place: &Place) -> Result<Scan, Problem> {
    let snapshot = gateway.route().snapshot(place.bucket, gateway.limits().patience).await?;
    Ok(snapshot.scan_after(None).await?)
}

/// Rows of an answer.
pub(super) struct Decoded {
    /// The selected columns of the rows that match.
    pub rows: RecordBatch,
    /// How many stored rows they were found among.
    pub used: usize,
}

/// The selected columns of the first stored rows that match, at most so many.
pub(super) fn decode(
    keyed: &KeyedTable,
    selection: &Selection,
    stored: &[Bytes],
    limit: usize,
) -> Result<Decoded, Problem> {
    let internal =
        |error: &dyn std::fmt::Display| Problem::new(ErrorKind::Internal, "internal", error.to_string());
    let unreadable = |error: RowError| match error {
        RowError::UnknownVersion(_) => {
            let detail = "the table was altered while the scan went on; begin it again";
            Problem::new(ErrorKind::Gone, "scan_expired", detail)
        }
        error => internal(&error),
    };
    let Some(filter) = &selection.filter else {
        let used = stored.len().min(limit);
        let rows = keyed.decode(&stored[..used], &selection.columns).map_err(unreadable)?;
        return Ok(Decoded { rows, used });
    };
    let schema = keyed.table().schema();
    let mut columns = selection.columns.clone();
    let needed = filter.columns().iter().filter_map(|name| schema.index_of(name)).collect::<Vec<_>>();
    columns.extend(needed.iter().filter(|i| !selection.columns.contains(i)));
    let rows = keyed.decode(stored, &columns).map_err(unreadable)?;
    let place = |i: &usize| columns.iter().position(|c| c == i);
    let of_filter: Vec<usize> = needed.iter().filter_map(place).collect();
    let mask = rows.project(&of_filter).map_err(|e| internal(&e))?;
    let mask = filter.evaluate(&mask).map_err(|e| internal(&e))?;
    // A row whose condition is null does not match.
    let mask = if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask };
    let last = mask.values().set_indices().nth(limit.saturating_sub(1));
    let used = last.map_or(stored.len(), |last| last + 1);
    let wanted: Vec<usize> = (0..selection.columns.len()).collect();
    let rows = rows.project(&wanted).map_err(|e| internal(&e))?.slice(0, used);
    let rows = filter_record_batch(&rows, &mask.slice(0, used)).map_err(|e| internal(&e))?;
    Ok(Decoded { rows, used })
}
