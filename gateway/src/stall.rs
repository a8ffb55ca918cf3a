//! Connections whose clients take nothing any more are cut off.
//!
//! An answer holds its share of the read budget until the client has it. A client that stops reading and keeps its
//! connection would hold it for ever, and a handful of them would end all reads. So a connection on which no byte could
//! be written for a while ends with an error, and everything that it holds with it. Waiting for rows is no stall: there is
//! nothing to be written then.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A listener whose connections may stall for so long.
#[derive(Debug)]
pub(crate) struct Impatient<L> {
    pub(crate) listener: L,
    pub(crate) limit: Duration,
}

impl<L: Listener> Listener for Impatient<L> {
    type Io = Watched<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (io, address) = self.listener.accept().await;
        (Watched { io, limit: self.limit, stalled: None }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that is watched.
#[derive(Debug)]
pub(crate) struct Watched<Io> {
    io: Io,
    limit: Duration,
    /// Runs while a write waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<Io> Watched<Io> {
    /// A write's result, unless writes have waited for too long.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        let message = format!("the client has taken nothing for {limit:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Watched<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Watched<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, pieces);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_off() {
        let (ours, theirs) = duplex(64);
        let mut connection = Watched { io: ours, limit: LIMIT, stalled: None };
        let began = tokio::time::Instant::now();
        let error = connection.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), LIMIT);
        drop(theirs);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_and_a_silent_server_are_not() {
        let (ours, mut theirs) = duplex(64);
        let mut connection = Watched { io: ours, limit: LIMIT, stalled: None };
        let read = async {
            let mut byte = [0; 16];
            for _ in 0..16 {
                tokio::time::sleep(LIMIT / 2).await;
                theirs.read_exact(&mut byte).await.unwrap();
            }
        };
        let write = async {
            connection.write_all(&[0; 128]).await.unwrap();
            tokio::time::sleep(LIMIT * 10).await;
            connection.write_all(&[0; 128]).await.unwrap();
        };
        tokio::join!(read, write);
    }
}
