//! A listener that can be closed before its connections are.
//!
//! A gateway that leaves first lets nobody new in, so that a balancer goes elsewhere, while it still answers on the connections that
//! there are: each answer asks the client to close. Only then those that are left are closed. Were both done at once, a request that
//! is just arriving would find its connection closed, and its client could not know whether it was done.

use std::io;
use std::net::SocketAddr;

use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A listener, until it is told to close.
#[derive(Debug)]
pub(crate) struct Closable {
    address: SocketAddr,
    listener: Option<TcpListener>,
    close: watch::Receiver<bool>,
}

impl Closable {
    /// Listens until `close` is true.
    pub(crate) fn new(listener: TcpListener, close: watch::Receiver<bool>) -> io::Result<Closable> {
        Ok(Closable { address: listener.local_addr()?, listener: Some(listener), close })
    }
}

impl Listener for Closable {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        if let Some(listener) = &mut self.listener {
            tokio::select! {
                // Who has been let in by the system is served.
                biased;
                accepted = Listener::accept(listener) => {
                    // Answers are written in pieces; none is to wait until the one before it is acknowledged. If it cannot
                    // be set the connection works all the same.
                    let _ = accepted.0.set_nodelay(true);
                    return accepted;
                }
                _ = self.close.wait_for(|close| *close) => {}
            }
        }
        self.listener = None;
        std::future::pending().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_came_before_is_served_and_who_comes_after_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let close = watch::Sender::new(false);
        let mut closable = Closable::new(listener, close.subscribe()).unwrap();
        let address = closable.local_addr().unwrap();
        let before = TcpStream::connect(address).await.unwrap();
        close.send_replace(true);
        let (io, peer) = closable.accept().await;
        assert!(io.nodelay().unwrap());
        assert_eq!(peer, before.local_addr().unwrap());
        let none = tokio::time::timeout(std::time::Duration::from_millis(50), closable.accept()).await;
        assert!(none.is_err());
        assert!(TcpStream::connect(address).await.is_err());
    }
}
