//! Producers: requests with and without a stamp, tried again at any gateway until the outcome is known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wadi_model::ipc::Originals;
use wadi_model::options::LogCompression;
use wadi_model::{Bucket, ErrorKind};
use wadi_store::route::RouteError;
use wadi_store::shard::{AppendError, Appended, Part, Stamp};

use super::keyed::{self, KeyedRows};
use super::rows::rows;
use super::{CALM_PATIENCE, Scene, Shared, partitions};
use crate::checker::first_id;
use crate::clock::Dice;
use crate::gateway::Life;

/// How a producer marks its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With its id and a sequence number.
    Sequenced,
    /// Each with a key of its own.
    Keyed,
    /// Not at all: a retry is a new request.
    Bare,
}

/// What one try came to.
#[derive(Debug)]
enum Try {
    Acked(Appended),
    /// Nothing of it is or will be written.
    Nothing,
    /// It may be written, now or later.
    Doubt,
    /// It is too old to be judged.
    TooOld,
}

/// One of the workers of a producer: sends one request after the other until the scene drains, and then finishes its
/// last one. Workers of a producer share `sequence`.
pub async fn produce(scene: Shared, producer: String, kind: Kind, sequence: &AtomicU64, dice: Dice) {
    while !scene.draining() {
        let Some(bucket) = partitions::target(&scene, &dice).await else {
            sleep(dice.millis(1..300)).await;
            continue;
        };
        let number = sequence.fetch_add(1, Ordering::Relaxed);
        let rows = match dice.pick(0..20) {
            // Without caches each key is some requests, so that parts with keys are kept smaller.
            0 if scene.keyed(&bucket).is_some() => dice.pick(100..300),
            0 => dice.pick(500..3000),
            1..4 => dice.pick(20..200),
            _ => dice.pick(1..8),
        };
        let stamp = |producer: String, sequence, once| {
            Some(Stamp { producer: producer.into(), sequence, fingerprint: number + 1, once })
        };
        let stamp = match kind {
            Kind::Sequenced => stamp(producer.clone(), number, false),
            Kind::Keyed => stamp(format!("{producer}-{number}"), 0, true),
            Kind::Bare => None,
        };
        send_one(&scene, &dice, bucket, rows, stamp).await;
        sleep(dice.millis(1..300)).await;
    }
}

/// Sends one request until its outcome is known, or the client gives up. Without a stamp there is one try.
pub async fn send_one(scene: &Scene, dice: &Dice, bucket: Bucket, count: u64, stamp: Option<Stamp>) {
    let (request, part) = match part(scene, dice, bucket, count, stamp) {
        Ok(made) => made,
        Err(error) => return scene.checker.lock().violated("client", error),
    };
    let patience = if !scene.calm && dice.chance(0.1) { dice.pick(1..4) } else { u64::MAX };
    let (mut doubt, mut tries) = (false, 0);
    loop {
        if scene.is_gone(&bucket) {
            return;
        }
        let door = || match scene.door(dice) {
            Some((life, patience)) => Some((life, Some(patience))),
            None => scene.gateway_for(&bucket, dice).map(|life| (life, None)),
        };
        let Some(first) = door() else {
            sleep(dice.millis(50..300)).await;
            continue;
        };
        tries += 1;
        let outcome = if part.stamp.is_some() && !scene.calm && dice.chance(0.04) {
            let Some(other) = door() else { continue };
            let (one, two) = tokio::join!(
                attempt(scene, dice, &first, part.clone(), request),
                attempt(scene, dice, &other, part.clone(), request)
            );
            scene.trace.count("requests sent twice at once");
            worse(one, two)
        } else {
            attempt(scene, dice, &first, part.clone(), request).await
        };
        match outcome {
            Try::Acked(_) => {
                if scene.keyed(&bucket).is_some() && dice.chance(0.3) {
                    keyed::look_after(scene, dice, request, bucket).await;
                }
                return;
            }
            Try::Nothing => {}
            Try::Doubt => doubt = true,
            Try::TooOld => {
                scene.trace.count("sequence too old");
                break;
            }
        }
        if tries >= patience || part.stamp.is_none() {
            break;
        }
        sleep(dice.millis(20..400)).await;
    }
    if !doubt {
        scene.checker.lock().failed(request);
    }
}

/// A request that the checker knows of.
fn part(
    scene: &Scene,
    dice: &Dice,
    bucket: Bucket,
    count: u64,
    stamp: Option<Stamp>,
) -> Result<(u64, Part), String> {
    let (table, partition) = (scene.table(&bucket), scene.partition(&bucket));
    let compression =
        *dice.one_of(&[LogCompression::None, LogCompression::Lz4, LogCompression::Zstd { level: 1 }]);
    let (request, rows, keyed) = match scene.keyed(&bucket) {
        None => {
            let request = scene.checker.lock().begin(bucket, count);
            (request, rows(&table, &partition, first_id(request), count)?, None)
        }
        Some(of) => {
            let ops = keyed::ops(&of, dice, count);
            let request = scene.checker.lock().begin_keyed(bucket, ops.clone());
            let KeyedRows { rows, keyed } = keyed::rows(&of, &partition, &ops, first_id(request))?;
            (request, rows, Some(keyed))
        }
    };
    let (schema, originals) = (table.schema().id(), Originals::default());
    Ok((request, Part { bucket, schema, compression, rows, originals, stamp, keyed }))
}

/// What is known after two tries at once.
fn worse(one: Try, two: Try) -> Try {
    match (one, two) {
        (acked @ Try::Acked(_), _) | (_, acked @ Try::Acked(_)) => acked,
        (Try::Doubt, _) | (_, Try::Doubt) => Try::Doubt,
        (old @ Try::TooOld, _) | (_, old @ Try::TooOld) => old,
        (Try::Nothing, Try::Nothing) => Try::Nothing,
    }
}

/// One try at a gateway: by its route if there is patience for that, else at the shard that is open there.
async fn attempt(
    scene: &Scene,
    dice: &Dice,
    (life, route): &(Life, Option<Duration>),
    part: Part,
    request: u64,
) -> Try {
    let who = life.link.name().to_owned();
    let timeout = if scene.calm { 3 * CALM_PATIENCE } else { dice.millis(1_000..9_000) };
    let _open = life.open.one();
    let bucket = part.bucket;
    let answer = async {
        match route {
            Some(patience) => ask_route(scene, life, part, request, *patience).await,
            None => ask(scene, life, part, request).await,
        }
    };
    let outcome = tokio::select! {
        biased;
        () = life.link.died() => None,
        outcome = answer => Some(outcome),
        () = sleep(timeout) => None,
    };
    let note = |what: &str| scene.trace.note(&who, format_args!("append {request} {what}"));
    let Some(outcome) = outcome else {
        note("no answer");
        if scene.calm {
            scene.refused(&bucket, &who, "an answer", &"it came not in time");
        }
        scene.trace.count("requests without an answer");
        return Try::Doubt;
    };
    match &outcome {
        Try::Acked(appended) => note(if appended.again { "acked again" } else { "acked" }),
        Try::Nothing => note("refused"),
        Try::Doubt => note("in doubt"),
        Try::TooOld => note("too old"),
    }
    outcome
}

/// The request at the gateway, and its way there and back.
async fn ask(scene: &Scene, life: &Life, part: Part, request: u64) -> Try {
    let way = Duration::from_millis(1);
    sleep(way).await;
    life.link.running().await;
    let Ok(shard) = life.host.shard_of(&part.bucket, Duration::from_millis(50)).await else {
        return Try::Nothing;
    };
    let bucket = part.bucket;
    let answer = shard.append(part).await;
    let outcome = match answer {
        Ok(appended) => {
            // No time passes between the decision and this line: the simulated clock stands while a task can run.
            let deadline = shard.claim().session().deadline();
            let mut checker = scene.checker.lock();
            if Instant::now() >= deadline {
                let token = shard.token();
                let what =
                    format!("request {request} was acked in {bucket} after the deadline of token {token}");
                checker.violated("F1", what);
            }
            checker.acked(request, appended.base_offset.0, u64::from(appended.rows), appended.again);
            drop(checker);
            Try::Acked(appended)
        }
        Err(error) => judge(scene, error, request, &bucket),
    };
    life.link.running().await;
    sleep(way).await;
    outcome
}

/// The same by the gateway's route. It may send the request again and again; still it is written once, also without a stamp (L3).
async fn ask_route(scene: &Scene, life: &Life, part: Part, request: u64, patience: Duration) -> Try {
    let way = Duration::from_millis(1);
    sleep(way).await;
    life.link.running().await;
    let (bucket, bare) = (part.bucket, part.stamp.is_none());
    let who = life.link.name();
    scene.trace.count("appends by routes");
    let outcome = match life.route.append(part, patience).await {
        Ok(appended) => {
            let (base, rows) = (appended.base_offset.0, u64::from(appended.rows));
            scene.checker.lock().acked(request, base, rows, appended.again);
            Try::Acked(appended)
        }
        Err(RouteError::NotOpen(why)) => {
            scene.refused(&bucket, who, "an append", &why);
            Try::Nothing
        }
        Err(RouteError::Said(
            error @ (AppendError::InFlight { .. } | AppendError::SequenceTooOld { .. }),
        )) if bare => {
            let what = format!("request {request}, which has no stamp, was refused by {who}: {error}");
            scene.checker.lock().violated_in(&bucket, "L3", what);
            Try::Doubt
        }
        Err(RouteError::Said(error)) => {
            // To be asked to wait is no refusal.
            if !matches!(error, AppendError::Overloaded) {
                scene.refused(&bucket, who, "an append", &error);
            }
            judge(scene, error, request, &bucket)
        }
    };
    life.link.running().await;
    sleep(way).await;
    outcome
}

/// What a client concludes from an error.
fn judge(scene: &Scene, error: AppendError, request: u64, bucket: &Bucket) -> Try {
    use wadi_model::Fault;
    match error {
        AppendError::OutcomeUnknown => Try::Doubt,
        AppendError::SequenceTooOld { .. } => Try::TooOld,
        AppendError::InFlight { .. } => {
            scene.trace.count("answered in flight");
            // An earlier try, or this one when it came twice.
            Try::Doubt
        }
        AppendError::Overloaded => {
            scene.trace.count("answered overloaded");
            Try::Nothing
        }
        // From the owner here, or as another gateway told it.
        error if error.code() == "ids_unavailable" => {
            scene.trace.count("answered without ids");
            Try::Nothing
        }
        AppendError::NotOwned | AppendError::Unreachable(_) => Try::Nothing,
        error if error.kind() == ErrorKind::Internal => {
            scene.trace.count("append failed inside");
            scene.trace.note("CLIENT", format_args!("append {request} failed inside: {error}"));
            Try::Nothing
        }
        error => {
            let what = format!("request {request} was refused: {error}");
            scene.checker.lock().violated_in(bucket, "L3", what);
            Try::Nothing
        }
    }
}
