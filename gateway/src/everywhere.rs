//! What a gateway acknowledges of the catalog is known at all of them.
//!
//! Each gateway follows the catalog by a watch, some milliseconds behind. A client behind a load balancer changes a table at one gateway
//! and writes to the next one, which must not judge the rows by the old columns, nor put them into the table that was just dropped. So a
//! change is acknowledged when all gateways have seen it: they are asked, and answer when their watch is there.
//!
//! A gateway that does not answer in time holds nobody up for longer: it is gone, or has lost its way to the metadata, and then its
//! lease too.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::future::join_all;
use http::StatusCode;
use tokio::time::timeout;
use wadi_meta::Revision;
use wadi_model::ErrorKind;

use crate::app::Gateway;
use crate::internal::Own;
use crate::problem::Problem;

/// How long a change waits for gateways that do not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a gateway answers when its catalog has come to a revision.
pub(crate) const ROUTE: &str = "/internal/v1/catalog/{revision}";

/// Around the calls that change the catalog.
pub(crate) async fn acknowledge(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let changes = !request.method().is_safe();
    let response = next.run(request).await;
    if changes && response.status().is_success() {
        seen(&gateway).await;
    }
    response
}

/// Waits until all other gateways know of the catalog what this one does, or [`PATIENCE`] is over.
pub(crate) async fn seen(gateway: &Gateway) {
    let revision = *gateway.catalog().changes().borrow();
    let mut others = gateway.host().gateways();
    others.remove(gateway.host().gateway());
    let ask = |(id, member): (String, wadi_store::host::Member)| async move {
        let path = ROUTE.replace("{revision}", &revision.0.to_string());
        let asked = gateway.forward().ask(&member.address, &path, gateway.secret());
        match timeout(PATIENCE, asked).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(gateway = id, error, "it may not know of a change yet"),
            Err(_) => tracing::warn!(gateway = id, "it did not say in time that it knows of a change"),
        }
    };
    join_all(others.into_iter().map(ask)).await;
}

/// Answers another gateway when this one's catalog has come to a revision.
pub(crate) async fn answer(
    _: Own,
    State(gateway): State<Gateway>,
    Path(revision): Path<u64>,
) -> Result<StatusCode, Problem> {
    let mut changes = gateway.catalog().changes();
    match timeout(PATIENCE, changes.wait_for(|seen| *seen >= Revision(revision))).await {
        Ok(Ok(_)) => Ok(StatusCode::NO_CONTENT),
        _ => Err(Problem::new(
            ErrorKind::Unavailable,
            "catalog_behind",
            format!("the catalog of this gateway has not come to revision {revision} yet"),
        )),
    }
}
