//! `wadi bench packs`: how many requests it takes to read a bucket from log objects, and from packs.
//!
//! A server of its own takes rows and does not pack them. It is started anew, so that its memory holds nothing, and one bucket is
//! read from its beginning to its end. Then it packs, is started anew, and the same is read again.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::load::{Load, LoadArgs};
use super::read;
use crate::bench::requests::{Counts, Prices, quiet};
use crate::bench::server::{BenchPlace, ServerArgs};
use crate::bytesize::ByteSize;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Longer than anybody waits here.
const NEVER: [&str; 2] = ["--pack-interval", "1day"];

/// As soon as rows are durable in the shard's database.
const AT_ONCE: [&str; 2] = ["--pack-interval", "1s"];

/// Memtables are flushed once a minute, and an idle compactor looks once a minute.
pub(super) const CALM: Duration = Duration::from_secs(130);

/// Count the requests that read a bucket, before and after it is packed.
#[derive(Debug, Args)]
pub(crate) struct PacksArgs {
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    prices: Prices,
    /// About how many bytes an answer has.
    #[arg(long, env = "WADI_ANSWER_SIZE", default_value_t = ByteSize::mib(8))]
    answer_size: ByteSize,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Serialize)]
struct Pass {
    rows: u64,
    wire_bytes: u64,
    dollars: f64,
    counts: Counts,
}

#[derive(Debug, Serialize)]
struct Report {
    log: Pass,
    packs: Pass,
    times_fewer_requests: f64,
}

pub(super) async fn run(args: PacksArgs, context: &Context) -> Result<(), Failure> {
    let place = BenchPlace::new(args.server)?;
    let server = place.start(context, &NEVER).await?;
    let load = args.load.create(&server.client).await?;
    context.remark("sending rows");
    load.run(&server.client).await?;
    server.kill().await?;
    let one = async || {
        let server = place.start(context, &NEVER).await?;
        let pass = pass(&server.client, &load, args.answer_size, &args.prices).await?;
        server.kill().await?;
        Ok::<_, Failure>(pass)
    };
    let log = one().await?;
    context.remark("waiting until all is packed and merged");
    let server = place.start(context, &AT_ONCE).await?;
    quiet(&server.client, CALM).await?;
    server.kill().await?;
    let packs = one().await?;
    if log.rows != packs.rows {
        return Err(Failure::new(format!("{} rows became {} by packing", log.rows, packs.rows)));
    }
    let report = Report { times_fewer_requests: log.gets() / packs.gets(), log, packs };
    tell(context, &report)
}

impl Pass {
    /// Requests of the read itself. Metadata and the lists of databases are looked at by others.
    fn gets(&self) -> f64 {
        let gets: u64 = ["log", "pack", "state"].iter().map(|kind| self.counts.kind(kind).gets).sum();
        gets.max(1) as f64
    }
}

/// Reads the first bucket that has rows.
async fn pass(
    client: &wadi_client::Client,
    load: &Load,
    answer_size: ByteSize,
    prices: &Prices,
) -> Result<Pass, Failure> {
    let table = load.first();
    let (from, to) = (client.offsets(table, "earliest").await?, client.offsets(table, "latest").await?);
    let ranges = read::ranges(from, &to);
    let Some((bucket, end)) = ranges.first() else {
        return Err(Failure::new(format!("{table} has no rows to read")));
    };
    let before = Counts::now(client).await?;
    let (rows, wire_bytes) = read::read(client, table, answer_size, bucket, *end, &[]).await?;
    let counts = Counts::now(client).await?.since(&before);
    Ok(Pass { rows, wire_bytes, dollars: prices.of(&counts.all()), counts })
}

fn tell(context: &Context, report: &Report) -> Result<(), Failure> {
    if context.json {
        return output::json(report);
    }
    let mut table =
        output::table(["bucket", "rows", "wire MB", "log GETs", "pack GETs", "state GETs", "got MB", "$"]);
    for (name, pass) in [("as log objects", &report.log), ("packed", &report.packs)] {
        let all = pass.counts.all();
        let (log, packs) = (pass.counts.kind("log").gets, pass.counts.kind("pack").gets);
        table.add_row([
            name.to_owned(),
            pass.rows.to_string(),
            format!("{:.1}", pass.wire_bytes as f64 / 1e6),
            log.to_string(),
            packs.to_string(),
            pass.counts.kind("state").gets.to_string(),
            format!("{:.1}", all.get_bytes as f64 / 1e6),
            format!("{:.6}", pass.dollars),
        ]);
    }
    output::line(table)?;
    output::line(format!("a packed bucket takes {:.1} times fewer requests", report.times_fewer_requests))
}
