//! `wadi bench bill`: what rows cost in requests and in bytes written, until all is packed and merged, and what it costs to
//! keep them.
//!
//! A server of its own, with its compactor inside, takes a steady load. Then it is waited for until nothing is written any more. A *byte
//! accepted* is a byte of a log object, so 1 is what had to be written in any case; packs and the state come on top. Bytes of
//! rows before compression are told beside it.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::drive::Done;
use super::load::LoadArgs;
use super::packs::CALM;
use super::usage::{Before, Cost};
use crate::bench::requests::{Counts, Prices, Requests, quiet};
use crate::bench::server::{BenchPlace, ServerArgs};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Count what rows cost in requests and bytes written, until they are packed.
#[derive(Debug, Args)]
pub(crate) struct BillArgs {
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    prices: Prices,
    /// How old rows get before they are packed. Shorter than gateways' 10m, so that there are several rounds.
    #[arg(long, env = "WADI_PACK_INTERVAL", default_value = "20s", value_parser = humantime::parse_duration)]
    pack_interval: Duration,
    /// How long the idle server is watched at the end.
    #[arg(long, env = "WADI_IDLE", default_value = "3m", value_parser = humantime::parse_duration)]
    idle: Duration,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    seconds: f64,
    quiet_seconds: f64,
    requests: u64,
    rows: u64,
    raw_bytes: u64,
    accepted_bytes: u64,
    put_per_accepted: f64,
    put_per_raw: f64,
    dollars_per_raw_gb: f64,
    work: Counts,
    idle_seconds: f64,
    idle: Counts,
    dollars_per_idle_hour: f64,
    #[serde(flatten)]
    cost: Cost,
}

pub(super) async fn run(args: BillArgs, context: &Context) -> Result<(), Failure> {
    let place = BenchPlace::new(args.server)?;
    let interval = humantime::format_duration(args.pack_interval).to_string();
    let server = place.start(context, &["--pack-interval", &interval]).await?;
    let client = &server.client;
    let load = args.load.create(client).await?;
    let (before, usage) = (Counts::now(client).await?, Before::now(server.pid())?);
    context.remark("sending rows");
    let tally = load.run(client).await?;
    context.remark("waiting until all is packed and merged");
    let begun = Instant::now();
    let after = quiet(client, args.pack_interval + CALM).await?;
    let quiet_seconds = begun.elapsed().as_secs_f64();
    let cost = usage.cost();
    context.remark("watching the idle server");
    let begun = Instant::now();
    sleep(args.idle).await;
    let idle = Counts::now(client).await?.since(&after);
    let idle_seconds = begun.elapsed().as_secs_f64();
    server.kill().await?;
    let work = after.since(&before);
    // Of rows as they were sent: the server counts those of the changelog.
    let Done { rows, raw_bytes: raw, .. } = tally.done;
    let (all, accepted) = (work.all(), work.kind("log").put_bytes);
    let report = Report {
        seconds: tally.took.as_secs_f64(),
        quiet_seconds,
        requests: tally.requests,
        rows,
        raw_bytes: raw,
        accepted_bytes: accepted,
        put_per_accepted: ratio(all.put_bytes, accepted),
        put_per_raw: ratio(all.put_bytes, raw),
        dollars_per_raw_gb: args.prices.of(&all) / (raw.max(1) as f64 / 1e9),
        dollars_per_idle_hour: args.prices.of(&idle.all()) * 3600.0 / idle_seconds.max(1e-9),
        work,
        idle_seconds,
        idle,
        cost,
    };
    tell(context, &report, &args.prices)
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn tell(context: &Context, report: &Report, prices: &Prices) -> Result<(), Failure> {
    if context.json {
        return output::json(report);
    }
    let header = [
        "objects",
        "put MB",
        "per byte accepted",
        "PUTs",
        "GETs",
        "LISTs",
        "DELETEs",
        "$/GB raw",
        "idle $/h",
    ];
    let mut table = output::table(header);
    let row = |name: &str, work: &Requests, idle: &Requests| {
        [
            name.to_owned(),
            format!("{:.1}", work.put_bytes as f64 / 1e6),
            format!("{:.3}", ratio(work.put_bytes, report.accepted_bytes)),
            work.puts.to_string(),
            work.gets.to_string(),
            work.lists.to_string(),
            work.deletes.to_string(),
            format!("{:.6}", prices.of(work) / (report.raw_bytes.max(1) as f64 / 1e9)),
            format!("{:.6}", prices.of(idle) * 3600.0 / report.idle_seconds.max(1e-9)),
        ]
    };
    for (kind, requests) in &report.work.kinds {
        table.add_row(row(kind, requests, &report.idle.kind(kind)));
    }
    table.add_row(row("all", &report.work.all(), &report.idle.all()));
    output::line(table)?;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let idle = report.idle.all();
    let hourly = |count: u64| count as f64 * 3600.0 / report.idle_seconds.max(1e-9);
    let mut facts = vec![
        ("sent", format!("{} rows in {} requests, {:.0} s", report.rows, report.requests, report.seconds)),
        (
            "accepted",
            format!(
                "{:.1} MB of log objects, of {:.1} MB raw",
                megabytes(report.accepted_bytes),
                megabytes(report.raw_bytes)
            ),
        ),
        (
            "put",
            format!(
                "{:.2} bytes per byte accepted, {:.2} per raw byte",
                report.put_per_accepted, report.put_per_raw
            ),
        ),
        (
            "bill",
            format!(
                "${:.4} per GB raw, ${:.5} per idle hour",
                report.dollars_per_raw_gb, report.dollars_per_idle_hour
            ),
        ),
        (
            "idle",
            format!(
                "{:.0} PUTs, {:.0} GETs, {:.0} LISTs per hour, seen for {:.0} s",
                hourly(idle.puts),
                hourly(idle.gets),
                hourly(idle.lists),
                report.idle_seconds
            ),
        ),
    ];
    facts.extend(report.cost.facts(report.raw_bytes as f64 / 1e9));
    output::line(output::facts(&facts))
}
