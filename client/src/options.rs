//! How a client behaves: its patience, its retries, what its Arrow bodies are compressed with.

use std::time::Duration;

use wadi_model::env::Env;

use crate::arrow_stream::ArrowCompression;

/// Settings of a [`crate::Client`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long one attempt may take, from sending to the last byte of the answer. Streams are bounded only until
    /// their first byte. A log read waits `wait_ms` longer.
    pub attempt_timeout: Duration,
    /// How long a call may take with all its attempts. An error that is met when no time is left is returned.
    pub deadline: Duration,
    /// Retry `n` waits a random time up to `first_backoff * 2^n`.
    pub first_backoff: Duration,
    /// The most that a retry waits, unless the server asks for more.
    pub max_backoff: Duration,
    /// How Arrow bodies are compressed.
    pub compression: ArrowCompression,
    /// `User-Agent`.
    pub user_agent: String,
    /// Where keys and jitter come from.
    pub env: Env,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_timeout: Duration::from_secs(5),
            // Longer than the server's own budget for one PUT and its takeover, so that the server, which knows
            // more, is the one who gives up.
            attempt_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(120),
            first_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            compression: ArrowCompression::Zstd,
            user_agent: concat!("wadi-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            env: Env::default(),
        }
    }
}
