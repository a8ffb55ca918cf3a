//! The internal API: what compactors and other gateways ask the owners of shards. Only the cluster's own processes may, by its secret.
//!
//! `POST /internal/v1/shards/{shard}/…`. Compactors speak JSON; their calls are those of [`wadi_store::owners::Owners`], and what they
//! say is said there. All of them say the version of the calls ([`wadi_store::versions`]). Gateways send messages that [`wadi_store::route`] writes and reads, one address for each [`Call`].

use std::convert::Infallible;

use axum::body::to_bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Request, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use futures::stream;
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::request::Parts;
use wadi_meta::catalog::Dropped;
use wadi_model::{ErrorKind, LogSeq, ShardId};
use wadi_store::owners::Owners;
use wadi_store::route::Call;
use wadi_store::shard::{Deletable, PackError, Round};
use wadi_store::stored::PackName;
use wadi_store::versions::{INTERNAL_HEADER, check_internal};

use crate::app::Gateway;
use crate::problem::Problem;

/// A part of the largest size fits, whatever its rows are.
const MAX_MESSAGE: usize = 128 << 20;

/// A list of 10,000 objects fits well.
const MAX_BODY: usize = 8 << 20;

/// The routes, below `/internal/v1/shards/{shard}`.
pub(crate) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/next-round", post(next_round))
        .route("/commit-packs", post(commit_packs))
        .route("/trim", post(trim))
        .route("/deletable", post(deletable))
        .route("/note-deleted", post(note_deleted))
        .route("/known-packs", post(known_packs))
        .route("/unpacked-bytes", post(unpacked_bytes))
        .route("/remains", post(remains))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .route("/{call}", post(of_gateway))
}

/// Answers another gateway. The answer says itself what went wrong, so that its status is always 200.
async fn of_gateway(
    _: Own,
    State(gateway): State<Gateway>,
    Path((shard, call)): Path<(u32, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::of_name(&call).ok_or_else(|| {
        let detail = format!("there is no call \"{call}\"; gateways of other versions may have it");
        Problem::new(ErrorKind::NotFound, "path_not_found", detail)
    })?;
    let message = to_bytes(request.into_body(), MAX_MESSAGE).await;
    let message = message.map_err(|e| {
        Problem::new(ErrorKind::Invalid, "bad_request", format!("the message was cut off: {e}"))
    })?;
    let pieces = gateway.route().answer(ShardId(shard), call, message).await;
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let mut response = Response::new(axum::body::Body::from_stream(stream::iter(
        pieces.into_iter().map(Ok::<_, Infallible>),
    )));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response)
}

/// Proof that one of the cluster's own processes asks, and in words that are understood here.
pub(crate) struct Own;

impl FromRequestParts<Gateway> for Own {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<Own, Problem> {
        let given = parts.headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        if gateway.secret().is_in(given) {
            let version = parts.headers.get(INTERNAL_HEADER).and_then(|value| value.to_str().ok());
            let other = |detail| Problem::new(ErrorKind::Unavailable, "other_version", detail);
            return check_internal(version).map(|()| Own).map_err(other);
        }
        // As if there were nothing, so that nobody learns what there is.
        let detail = format!("there is nothing at {}; /openapi.json lists all calls", parts.uri.path());
        Err(Problem::new(ErrorKind::NotFound, "path_not_found", detail))
    }
}

type Body<T> = Result<Json<T>, JsonRejection>;
type Answer<T> = Result<Json<T>, Problem>;

fn said<T>(body: Body<T>) -> Result<T, Problem> {
    let wrong = |e: JsonRejection| Problem::new(ErrorKind::Invalid, "bad_request", e.body_text());
    body.map(|Json(said)| said).map_err(wrong)
}

fn answer<T>(done: Result<T, PackError>) -> Answer<T> {
    done.map(Json).map_err(Problem::from)
}

async fn next_round(_: Own, State(gateway): State<Gateway>, Path(shard): Path<u32>) -> Answer<Option<Round>> {
    answer(gateway.host().next_round(ShardId(shard)).await)
}

async fn commit_packs(
    _: Own,
    State(gateway): State<Gateway>,
    Path(shard): Path<u32>,
    body: Body<(Round, Vec<PackName>)>,
) -> Answer<()> {
    let (round, packs) = said(body)?;
    answer(gateway.host().commit_packs(ShardId(shard), round, packs).await)
}

async fn trim(_: Own, State(gateway): State<Gateway>, Path(shard): Path<u32>) -> Answer<usize> {
    answer(gateway.host().trim(ShardId(shard)).await)
}

async fn deletable(
    _: Own,
    State(gateway): State<Gateway>,
    Path(shard): Path<u32>,
    body: Body<LogSeq>,
) -> Answer<Deletable> {
    let after = said(body)?;
    answer(gateway.host().deletable(ShardId(shard), after).await)
}

async fn note_deleted(
    _: Own,
    State(gateway): State<Gateway>,
    Path(shard): Path<u32>,
    body: Body<Deletable>,
) -> Answer<()> {
    let gone = said(body)?;
    answer(gateway.host().note_deleted(ShardId(shard), gone).await)
}

async fn known_packs(
    _: Own,
    State(gateway): State<Gateway>,
    Path(shard): Path<u32>,
    body: Body<Vec<PackName>>,
) -> Answer<Vec<PackName>> {
    let packs = said(body)?;
    answer(gateway.host().known_packs(ShardId(shard), packs).await)
}

async fn unpacked_bytes(_: Own, State(gateway): State<Gateway>, Path(shard): Path<u32>) -> Answer<u64> {
    answer(gateway.host().unpacked_bytes(ShardId(shard)).await)
}

async fn remains(
    _: Own,
    State(gateway): State<Gateway>,
    Path(shard): Path<u32>,
    body: Body<Vec<Dropped>>,
) -> Answer<Vec<Dropped>> {
    let dropped = said(body)?;
    answer(gateway.host().remains(ShardId(shard), dropped).await)
}
