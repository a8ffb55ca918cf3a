//! `wadi tail`: rows as they arrive, a JSON object a line.
//!
//! A lost connection is made again and goes on where the rows on stdout end, without gap or repeat. With `--cursor-file`
//! so does a later run. The file is written behind the rows: after a crash between the two, the rows of one group (what
//! the server read at once) come again.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use wadi_client::{Follow, TailGroup, TailQuery};
use wadi_model::TableName;

use crate::context::Context;
use crate::failure::Failure;

/// Follow a table: print rows as they arrive.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// database.table
    table: TableName,
    /// Where to begin: earliest, latest, a time (2026-01-31T12:00:00Z), or a cursor.
    #[arg(long, env = "WADI_FROM", default_value = "latest")]
    from: String,
    /// Only this partition, in partitioned tables.
    #[arg(long, env = "WADI_PARTITION")]
    partition: Option<String>,
    /// Keep the cursor behind the rows printed in this file. If it exists, the run begins there and not at --from.
    #[arg(long, env = "WADI_CURSOR_FILE", value_name = "FILE")]
    cursor_file: Option<PathBuf>,
    /// Only these columns, with commas between; system columns such as `_offset` can be asked for.
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Only rows for which this holds; system columns can be used, `_timestamp >= '2026-01-31T12:00:00Z'`.
    #[arg(long, env = "WADI_FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// End after so many rows.
    #[arg(long, env = "WADI_LIMIT")]
    limit: Option<u64>,
    /// How long to try when the connection is lost.
    #[arg(long, env = "WADI_RECONNECT", value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    reconnect: Duration,
}

pub(crate) async fn run(args: TailArgs, context: &Context) -> Result<(), Failure> {
    let kept = args.cursor_file.as_deref().map(read_cursor).transpose()?.flatten();
    let query = TailQuery {
        from: Some(kept.unwrap_or(args.from)),
        partition: args.partition,
        columns: args.columns,
        filter: args.filter,
        limit: args.limit,
    };
    // The first connection is made with less patience: a server that is not there is told at once.
    let follow = context.client()?.follow(&args.table, query).await?;
    let mut tail = Tail {
        follow: follow.reconnecting_with(context.client_with(args.reconnect, Default::default())?),
        cursor_file: args.cursor_file,
        cursor: None,
    };
    let ended = tokio::select! {
        ended = tail.print(context) => ended,
        // How people end what has no end.
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    if let Some(cursor) = &tail.cursor {
        context.remark(format!("cursor: {cursor}"));
    }
    ended
}

struct Tail {
    follow: Follow,
    cursor_file: Option<PathBuf>,
    /// Behind the rows that were printed.
    cursor: Option<String>,
}

impl Tail {
    async fn print(&mut self, context: &Context) -> Result<(), Failure> {
        let mut lost = 0;
        while let Some(group) = self.follow.next().await? {
            if self.follow.lost() > lost {
                lost = self.follow.lost();
                context.remark("the connection was lost; going on from where it was");
            }
            print(&group)?;
            if self.cursor.as_ref() != Some(&group.cursor) {
                if let Some(path) = &self.cursor_file {
                    write_cursor(path, &group.cursor)?;
                }
                self.cursor = Some(group.cursor);
            }
        }
        Ok(())
    }
}

fn print(group: &TailGroup) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let mut write = || {
        for row in &group.rows {
            out.write_all(row)?;
            out.write_all(b"\n")?;
        }
        // Stdout keeps a terminal's lines flowing by itself; a pipe's reader waits for each row, too.
        out.flush()
    };
    write().map_err(|e| Failure::output(&e))
}

fn read_cursor(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => {
            Err(Failure::new(format!("the cursor file {} is empty", path.display()))
                .hint("remove it to begin at --from"))
        }
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unusable(path, &e)),
    }
}

/// Replaces the file as a whole, so that it never holds half a cursor.
fn write_cursor(path: &Path, cursor: &str) -> Result<(), Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let write = || {
        std::fs::write(&new, format!("{cursor}\n"))?;
        std::fs::rename(&new, path)
    };
    write().map_err(|e| unusable(path, &e))
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("the cursor file {} cannot be used: {error}", path.display()))
}
