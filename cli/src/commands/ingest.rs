//! `wadi ingest`: sends files to a table.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use wadi_client::{ArrowCompression, Client, OnError, TableDescription};
use wadi_model::TableName;
use wadi_model::env::Env;
use wadi_model::reject::RowError;

use crate::args::boolish;
use crate::bytesize::ByteSize;
use crate::context::Context;
use crate::failure::Failure;
use crate::format::FileFormat;
use crate::ingest::journal::{Begun, Journal, Origin};
use crate::ingest::progress::Progress;
use crate::ingest::send::{Intent, MAX_CONCURRENCY, Outcome, Sender};
use crate::ingest::source::{Source, SourceKind};
use crate::latency::Percentiles;
use crate::output;

/// How long a piece is tried before the run gives up. Long enough for a server's restart.
const PATIENCE: Duration = Duration::from_secs(300);

/// Rejected rows that the summary shows to people.
const SHOWN_REJECTS: usize = 5;

/// Send files to a table.
#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// database.table
    table: TableName,
    /// Files of rows; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The format, if a file's name does not tell.
    #[arg(long, env = "WADI_FORMAT", value_enum)]
    format: Option<FileFormat>,
    /// What happens to rows that do not fit the table: fail the request, skip them, or also store them in
    /// `<table>__rejected`.
    #[arg(long, env = "WADI_ON_ERROR", value_enum, default_value_t = OnErrorArg::Fail)]
    on_error: OnErrorArg,
    /// Into a primary-key table: a partial update, which touches these columns alone; files have these columns.
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Delete the rows whose keys the files have; with --columns these columns of them.
    #[arg(long, env = "WADI_DELETE", value_parser = boolish())]
    delete: bool,
    /// Requests under way at a time [default: 4; 1 into a primary-key table, where the last row of a key wins].
    #[arg(long, env = "WADI_CONCURRENCY", value_parser = clap::value_parser!(u16).range(1..=MAX_CONCURRENCY as i64))]
    concurrency: Option<u16>,
    /// About how many bytes of rows a request has, before compression.
    #[arg(long, env = "WADI_PIECE_SIZE", default_value_t = ByteSize::mib(8))]
    piece_size: ByteSize,
    /// How Parquet and Arrow rows are compressed on the way.
    #[arg(long, env = "WADI_COMPRESSION", value_enum, default_value_t = CompressionArg::Zstd)]
    compression: CompressionArg,
    /// Where the journals are that let an interrupted run continue.
    #[arg(long, env = "WADI_STATE", value_name = "DIR", default_value = ".wadi-ingest")]
    state: PathBuf,
    /// Send all rows anew, even those that earlier runs have sent.
    #[arg(long, env = "WADI_AGAIN", value_parser = boolish())]
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnErrorArg {
    Fail,
    Skip,
    Dlq,
}

/// How Arrow bodies are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionArg {
    /// Fewest bytes.
    Zstd,
    /// Least CPU.
    Lz4,
    /// Not at all.
    None,
}

impl From<CompressionArg> for ArrowCompression {
    fn from(arg: CompressionArg) -> ArrowCompression {
        match arg {
            CompressionArg::Zstd => ArrowCompression::Zstd,
            CompressionArg::Lz4 => ArrowCompression::Lz4,
            CompressionArg::None => ArrowCompression::None,
        }
    }
}

impl From<OnErrorArg> for OnError {
    fn from(arg: OnErrorArg) -> OnError {
        match arg {
            OnErrorArg::Fail => OnError::Fail,
            OnErrorArg::Skip => OnError::Skip,
            OnErrorArg::Dlq => OnError::Dlq,
        }
    }
}

/// What is told at the end.
#[derive(Debug, Serialize)]
struct Summary {
    table: String,
    rows: u64,
    rows_of_earlier_runs: u64,
    rejected: u64,
    rejects: Vec<RowError>,
    seconds: f64,
    rows_per_second: f64,
    raw_bytes: u64,
    wire_bytes: u64,
    mb_per_second: f64,
    ack: Percentiles,
    retries: u64,
    complete: bool,
}

pub(crate) async fn run(args: IngestArgs, context: &Context) -> Result<(), Failure> {
    let sources = args.files.iter().map(|path| Source::new(path, args.format));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    if args.piece_size < ByteSize(1) || args.piece_size > ByteSize::mib(32) {
        return Err(Failure::usage(format!("--piece-size {} is not from 1 to 32MiB", args.piece_size)));
    }
    let client = context.client_with(PATIENCE, args.compression.into())?;
    // Asked with less patience: a server that is not there is told at once.
    let table = context.client()?.table(&args.table).await?;
    let intent = intent(&args, &table)?;
    let (stop, stopped) = watch::channel(false);
    let run = Run { args: &args, context, client: client.clone(), table, intent, stopped };
    let begun = Instant::now();
    let outcome = tokio::select! {
        outcome = run.all(&sources) => outcome?,
        failure = interrupted(&stop, context) => return Err(failure),
    };
    let summary = summary(&args.table, outcome, begun.elapsed(), client.retries());
    report(context, &summary)?;
    if summary.complete {
        Ok(())
    } else {
        Err(Failure::new("stopped before the end").hint("the same command continues from here"))
    }
}

/// What the rows are for, by the kind of the table.
fn intent(args: &IngestArgs, table: &TableDescription) -> Result<Intent, Failure> {
    match (!table.primary_key.is_empty(), args.delete) {
        (true, false) => Ok(Intent::Upsert(args.columns.clone())),
        (true, true) => Ok(Intent::Delete(args.columns.clone())),
        (false, false) if args.columns.is_empty() => Ok(Intent::Append),
        (false, _) => {
            let message = format!("{} is a log table: rows are appended to it, whole, and stay", args.table);
            Err(Failure::usage(message).hint("--columns and --delete are for tables with a primary key"))
        }
    }
}

/// Waits for Ctrl-C: the first ends the run when what is under way is acked, the second at once.
async fn interrupted(stop: &watch::Sender<bool>, context: &Context) -> Failure {
    if tokio::signal::ctrl_c().await.is_err() {
        return std::future::pending().await;
    }
    stop.send_replace(true);
    context.remark("stopping when the requests under way are acked; Ctrl-C again stops at once");
    let _ = tokio::signal::ctrl_c().await;
    Failure::new("stopped at once").hint("the same command continues from here, and doubles no row")
}

struct Run<'a> {
    args: &'a IngestArgs,
    context: &'a Context,
    client: Client,
    table: TableDescription,
    intent: Intent,
    stopped: watch::Receiver<bool>,
}

impl Run<'_> {
    async fn all(&self, sources: &[Source]) -> Result<Outcome, Failure> {
        let mut all = Outcome::default();
        for source in sources {
            if *self.stopped.borrow() {
                all.stopped = true;
                break;
            }
            let one = self.one(source).await;
            all.merge(one.map_err(|failure| failure.while_doing(&source.name()))?);
        }
        Ok(all)
    }

    async fn one(&self, source: &Source) -> Result<Outcome, Failure> {
        let begun = self.journal(source)?;
        if let Some(remark) = begun.as_ref().and_then(|begun| begun.remark.as_ref()) {
            self.context.remark(format!("{}: {remark}", source.name()));
        }
        if let Some(begun) = begun.as_ref().filter(|begun| begun.done) {
            self.context
                .remark(format!("{}: all rows were sent before; --again sends them anew", source.name()));
            let rows = begun.acked.values().map(|a| a.rows).sum();
            let rejected = begun.acked.values().map(|a| a.rejected).sum();
            return Ok(Outcome { rows, rows_before: rows, rejected, ..Outcome::default() });
        }
        let (producer, acked, ends, journal) = match begun {
            Some(begun) => (begun.producer, begun.acked, begun.ends, Some(begun.journal)),
            // Nobody can continue this run, so its name only has to be its own.
            None => {
                (format!("ingest-{:032x}", Env::default().unique()), Default::default(), Vec::new(), None)
            }
        };
        if !acked.is_empty() {
            self.context.remark(format!(
                "{}: continues behind {} acked requests",
                source.name(),
                acked.len()
            ));
        }
        let opened = source.open(self.args.piece_size.0, &ends)?;
        let quiet = self.context.quiet || self.context.json;
        let mut progress = Progress::new(self.client.clone(), source.name(), opened.units, quiet);
        let sender = Sender {
            client: self.client.clone(),
            table: self.args.table.clone(),
            intent: self.intent.clone(),
            producer,
            on_error: self.args.on_error.into(),
            compression: self.args.compression.into(),
            concurrency: usize::from(self.args.concurrency.unwrap_or(match self.intent {
                Intent::Append => 4,
                // Two requests under way may be merged in either order.
                Intent::Upsert(_) | Intent::Delete(_) => 1,
            })),
            stop: self.stopped.clone(),
        };
        let outcome = sender.send(opened.pieces, acked, journal, &mut progress).await;
        progress.end();
        outcome.map_err(|failure| match source.kind {
            SourceKind::Input => failure,
            SourceKind::File(_) => failure.also("the same command continues from here, and doubles no row"),
        })
    }

    /// The journal of a file; standard input has none.
    fn journal(&self, source: &Source) -> Result<Option<Begun>, Failure> {
        let SourceKind::File(file) = &source.kind else { return Ok(None) };
        let origin = Origin {
            table: self.args.table.to_string(),
            table_id: self.table.id,
            table_created: self.table.rest.get("created_at").map(|v| v.to_string()).unwrap_or_default(),
            file: file.path.clone(),
            bytes: file.state.bytes,
            hash: file.state.hash,
            format: source.format,
            piece_bytes: self.args.piece_size.0,
            intent: self.intent.to_string(),
            again: 0,
        };
        let again = self.args.again.then(|| Env::default().random() | 1);
        Journal::open(&self.args.state, origin, file.state, again).map(Some)
    }
}

fn summary(table: &TableName, mut outcome: Outcome, took: Duration, retries: u64) -> Summary {
    let seconds = took.as_secs_f64();
    let sent = outcome.rows - outcome.rows_before;
    Summary {
        table: table.to_string(),
        rows: outcome.rows,
        rows_of_earlier_runs: outcome.rows_before,
        rejected: outcome.rejected,
        seconds,
        rows_per_second: sent as f64 / seconds.max(1e-6),
        raw_bytes: outcome.raw_bytes,
        wire_bytes: outcome.wire_bytes,
        mb_per_second: outcome.raw_bytes as f64 / 1e6 / seconds.max(1e-6),
        ack: outcome.latencies.percentiles(),
        retries,
        complete: !outcome.stopped,
        rejects: outcome.rejects,
    }
}

fn report(context: &Context, summary: &Summary) -> Result<(), Failure> {
    if context.json {
        return output::json(summary);
    }
    let mut facts = vec![("table", summary.table.clone()), ("rows", summary.rows.to_string())];
    if summary.rows_of_earlier_runs > 0 {
        facts.push(("of earlier runs", summary.rows_of_earlier_runs.to_string()));
    }
    let (raw, wire) = (summary.raw_bytes as f64 / 1e6, summary.wire_bytes as f64 / 1e6);
    facts.extend([
        ("rejected", summary.rejected.to_string()),
        ("time", format!("{:.2} s", summary.seconds)),
        ("speed", format!("{:.0} rows/s, {:.1} MB/s", summary.rows_per_second, summary.mb_per_second)),
        ("bytes", format!("{raw:.1} MB, {wire:.1} MB on the wire")),
        ("ack", format!("p50 {:.1} ms, p99 {:.1} ms", summary.ack.p50_ms, summary.ack.p99_ms)),
        ("retries", summary.retries.to_string()),
    ]);
    output::line(output::facts(&facts))?;
    for reject in summary.rejects.iter().take(SHOWN_REJECTS) {
        output::line(format!("  {reject}"))?;
    }
    Ok(())
}
