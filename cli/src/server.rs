//! The one place where the command line starts a server.

use crate::config::ServerConfig;
use crate::failure::Failure;

/// Serves until the process is told to end (SIGTERM, Ctrl-C), then drains. The configuration has been validated and
/// logging runs.
pub(crate) async fn serve(config: ServerConfig) -> Result<(), Failure> {
    // The call of `wadi_gateway::serve` belongs here: open the object store at `config.object_store_url()`, the meta
    // store of `config.meta`, then serve on `config.listen`.
    Err(Failure::new(format!(
        "this build holds no server for {}; it is the client part only",
        config.object_store_url()?
    )))
}
