//! What every client command gets: the connection, and how to answer.

use std::io::Write;
use std::time::Duration;

use wadi_client::{ArrowCompression, Client, ClientOptions};

use crate::args::Global;
use crate::failure::Failure;

/// The global flags, and clients made from them.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// JSON instead of tables.
    pub(crate) json: bool,
    /// No progress and no remarks.
    pub(crate) quiet: bool,
    url: String,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Context {
        Context { json: global.json, quiet: global.quiet, url: global.url.clone() }
    }

    /// The same for another server.
    pub(crate) fn at(&self, url: &str) -> Context {
        Context { url: url.to_owned(), ..self.clone() }
    }

    /// A client for someone who waits at a terminal: it retries, but not for long.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.client_with(Duration::from_secs(5), ArrowCompression::default())
    }

    /// A client that has the given patience.
    pub(crate) fn client_with(
        &self,
        deadline: Duration,
        compression: ArrowCompression,
    ) -> Result<Client, Failure> {
        let user_agent = concat!("wadi/", env!("CARGO_PKG_VERSION")).to_owned();
        let options = ClientOptions { deadline, compression, user_agent, ..ClientOptions::default() };
        Client::new(&self.url, options).map_err(|e| Failure::usage(e.to_string()))
    }

    /// Says something that is not the result.
    pub(crate) fn remark(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            // Nobody has to read it.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}
