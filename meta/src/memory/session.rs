//! The memory store as the holder of a session reaches it.

use std::time::Duration;

use async_trait::async_trait;

use super::Server;
use crate::session::LeaseServer;
use crate::{MetaError, SessionId};

#[async_trait]
impl LeaseServer for Server {
    async fn prove(&self, id: SessionId, _: Duration) -> Result<bool, MetaError> {
        self.keep_alive(id).ok_or_else(|| MetaError::unavailable("no proof of life of this session arrives"))
    }

    async fn end(&self, id: SessionId) -> Result<(), MetaError> {
        self.end_session(id);
        Ok(())
    }
}
