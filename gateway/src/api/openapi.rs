//! The API's description, made from the handlers.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::{append, count, databases, log, lookup, offsets, partitions, scan, status, tables, tail, upsert};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Wadi",
        description = "Streaming storage for real-time analytics: tables over HTTP and Arrow."
    ),
    paths(
        databases::list,
        databases::create,
        databases::show,
        databases::drop_database,
        tables::list,
        tables::create,
        tables::show,
        tables::alter,
        tables::drop_table,
        partitions::list,
        partitions::create,
        partitions::drop_partition,
        append::append,
        upsert::upsert,
        upsert::delete,
        lookup::lookup_one,
        lookup::lookup_many,
        log::log,
        offsets::offsets,
        tail::tail,
        scan::scan,
        count::count,
        status::status,
        status::drain,
        status::stay,
        status::health,
        status::ready,
        status::metrics,
    ),
    components(schemas(databases::CreateDatabase))
)]
struct Api;

/// The document.
pub async fn document() -> Json<Document> {
    Json(Api::openapi())
}
