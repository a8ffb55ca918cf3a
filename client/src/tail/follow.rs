//! A tail that goes on over lost connections.
//!
//! The server's events are rows and cursors. Rows are given when the cursor behind them has come, so that a connection
//! that breaks between the two leaves nothing given that the next connection brings again.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::{sleep, timeout};
use wadi_model::TableName;

use super::TailQuery;
use super::lines::LineStream;
use crate::body::content_type;
use crate::client::Client;
use crate::error::ClientError;

/// The server gives a sign of life more often than this; without one, the connection has died unseen.
const SILENCE: Duration = Duration::from_secs(60);

/// Connections in a row that may break without having brought anything.
const FRUITLESS: u32 = 10;

/// Bytes of rows that are collected until their cursor comes; the server reads far less at once.
const MAX_GROUP: usize = 512 << 20;

/// Rows that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailGroup {
    /// JSON objects. May be none, where rows that do not match were passed over.
    pub rows: Vec<Bytes>,
    /// Where the stream goes on behind them: a `from` of later queries.
    pub cursor: String,
}

/// A table that is followed.
pub struct Follow {
    client: Client,
    table: TableName,
    /// `from` and `limit` are those of the next connection.
    query: TailQuery,
    lines: Option<LineStream>,
    fruitless: u32,
    lost: u64,
}

impl Follow {
    pub(super) async fn open(
        client: Client,
        table: TableName,
        query: TailQuery,
    ) -> Result<Follow, ClientError> {
        let mut follow = Follow { client, table, query, lines: None, fruitless: 0, lost: 0 };
        follow.connect().await?;
        Ok(follow)
    }

    /// Makes later connections with this client, which may have more patience than the one that made the first.
    #[must_use]
    pub fn reconnecting_with(mut self, client: Client) -> Follow {
        self.client = client;
        self
    }

    /// Connections lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The next rows; `None` at the limit.
    ///
    /// # Errors
    ///
    /// What the server says when it is asked to go on; or that it cannot be reached within the client's deadline. The
    /// last cursor that was given stays good.
    pub async fn next(&mut self) -> Result<Option<TailGroup>, ClientError> {
        while self.query.limit != Some(0) {
            match self.next_of_connection().await {
                Ok(group) => {
                    self.query.from = Some(group.cursor.clone());
                    self.query.limit =
                        self.query.limit.map(|left| left.saturating_sub(group.rows.len() as u64));
                    if !group.rows.is_empty() {
                        self.fruitless = 0;
                    }
                    return Ok(Some(group));
                }
                Err(error) => {
                    self.lines = None;
                    self.lost += 1;
                    self.fruitless += 1;
                    if self.fruitless > FRUITLESS
                        || !matches!(
                            error,
                            ClientError::Broken { .. } | ClientError::TimedOut { .. } | ClientError::Ended
                        )
                    {
                        return Err(error);
                    }
                    tracing::debug!(%error, "a tail goes on with a new connection");
                    self.pause().await;
                    self.connect().await?;
                }
            }
        }
        Ok(None)
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let chunks = self.client.open_tail(&self.table, &self.query, content_type::EVENTS).await?;
        self.lines = Some(LineStream::new(chunks));
        Ok(())
    }

    /// Before a connection that follows one without fruit.
    async fn pause(&self) {
        let options = self.client.options();
        let doubled = 1u32.checked_shl(self.fruitless - 1).unwrap_or(u32::MAX);
        sleep(options.first_backoff.saturating_mul(doubled).min(options.max_backoff)).await;
    }

    async fn next_of_connection(&mut self) -> Result<TailGroup, ClientError> {
        let Some(lines) = &mut self.lines else { return Err(ClientError::Ended) };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            let line = timeout(SILENCE, lines.next()).await;
            let line = line.map_err(|_| ClientError::TimedOut { after: SILENCE })?;
            let line = line.ok_or(ClientError::Ended)??;
            if let Some(cursor) = line.strip_prefix(b"id: ") {
                let cursor = String::from_utf8(cursor.to_vec()).map_err(ClientError::bad_answer)?;
                return Ok(TailGroup { rows, cursor });
            }
            if let Some(row) = line.strip_prefix(b"data: ") {
                bytes += row.len();
                if bytes > MAX_GROUP {
                    return Err(ClientError::bad_answer("a tail without cursors"));
                }
                rows.push(line.slice_ref(row));
            }
        }
    }
}
