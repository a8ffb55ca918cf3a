//! Scans of primary-key tables: each bucket as it was at one point in time, when its turn came.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::{filter_record_batch, prep_null_mask_filter};
use async_stream::try_stream;
use bytes::Bytes;
use futures::Stream;
use wadi_model::{ErrorKind, Table};
use wadi_store::keyed::KeyedTable;
use wadi_store::shard::{Piece, RowPage, RowScan};

use super::BrokenOff;
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::places::{Place, Scope};
use crate::problem::Problem;
use crate::rows::{Selection, Writer};

/// Most rows that are decoded at once.
const PAGE_ROWS: usize = 16 << 10;

/// Most stored bytes of them.
const PAGE_BYTES: usize = 4 << 20;

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
                    let decoded = gateway.host().context().cpu.run(move || decode(&keyed, &selection, page)).await;
                    let panicked = || Err(Problem::new(ErrorKind::Internal, "internal", "decoding rows panicked"));
                    let rows = decoded.unwrap_or_else(panicked).map_err(BrokenOff::of)?;
                    let rows = rows.slice(0, rows.num_rows().min(usize::try_from(left).unwrap_or(usize::MAX)));
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

async fn begin(gateway: &Gateway, place: &Place) -> Result<RowScan, Problem> {
    let shard = gateway.host().shard_of(&place.bucket, gateway.limits().patience).await?;
    Ok(shard.scan_rows(&place.bucket, &[]).await?)
}

/// The selected columns of the rows that match.
fn decode(keyed: &KeyedTable, selection: &Selection, page: RowPage) -> Result<RecordBatch, Problem> {
    let internal =
        |error: &dyn std::fmt::Display| Problem::new(ErrorKind::Internal, "internal", error.to_string());
    let Some(filter) = &selection.filter else {
        return keyed.decode(&page.rows, &selection.columns).map_err(|e| internal(&e));
    };
    let schema = keyed.table().schema();
    let mut columns = selection.columns.clone();
    let needed = filter.columns().iter().filter_map(|name| schema.index_of(name)).collect::<Vec<_>>();
    columns.extend(needed.iter().filter(|i| !selection.columns.contains(i)));
    let rows = keyed.decode(&page.rows, &columns).map_err(|e| internal(&e))?;
    let place = |i: &usize| columns.iter().position(|c| c == i);
    let of_filter: Vec<usize> = needed.iter().filter_map(place).collect();
    let mask = rows.project(&of_filter).map_err(|e| internal(&e))?;
    let mask = filter.evaluate(&mask).map_err(|e| internal(&e))?;
    // A row whose condition is null does not match.
    let mask = if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask };
    let wanted: Vec<usize> = (0..selection.columns.len()).collect();
    let rows = rows.project(&wanted).map_err(|e| internal(&e))?;
    filter_record_batch(&rows, &mask).map_err(|e| internal(&e))
}
