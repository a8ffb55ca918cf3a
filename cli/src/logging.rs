//! The log of a server process, on stderr.

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, ServerConfig};
use crate::failure::Failure;

/// Starts logging as configured. Called once, before the server starts.
pub(crate) fn start(config: &ServerConfig) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&config.log_level)
        .map_err(|e| Failure::usage(format!("log_level \"{}\" cannot be read: {e}", config.log_level)))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match config.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|e| Failure::new(format!("logging cannot be started: {e}")))
}
