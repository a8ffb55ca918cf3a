//! A stream of bytes cut into lines.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, Stream, StreamExt};

use crate::error::ClientError;

/// Longest line that is collected before its end has come.
const MAX_LINE: usize = 64 << 20;

/// Lines as they arrive, without their ends. Empty ones, which only keep the connection alive, are left out.
pub(super) struct LineStream {
    chunks: BoxStream<'static, Result<Bytes, ClientError>>,
    chunk: Bytes,
    /// The beginning of a line whose end has not come.
    begun: BytesMut,
    done: bool,
}

impl LineStream {
    pub(super) fn new(chunks: impl Stream<Item = Result<Bytes, ClientError>> + Send + 'static) -> LineStream {
        LineStream { chunks: chunks.boxed(), chunk: Bytes::new(), begun: BytesMut::new(), done: false }
    }

    /// The next whole line of what has arrived.
    fn next_line(&mut self) -> Option<Bytes> {
        while let Some(end) = self.chunk.iter().position(|b| *b == b'\n') {
            let mut line = self.chunk.split_to(end + 1);
            line.truncate(end);
            if !self.begun.is_empty() {
                self.begun.extend_from_slice(&line);
                line = self.begun.split().freeze();
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if !line.is_empty() {
                return Some(line);
            }
        }
        None
    }

    /// Keeps the unfinished line and takes the next bytes.
    fn accept(&mut self, chunk: Bytes) -> Result<(), ClientError> {
        if self.begun.len() + self.chunk.len() > MAX_LINE {
            return Err(ClientError::bad_answer(format!("a line is longer than {MAX_LINE} bytes")));
        }
        self.begun.extend_from_slice(&self.chunk);
        self.chunk = chunk;
        Ok(())
    }
}

impl Stream for LineStream {
    type Item = Result<Bytes, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.next_line() {
                return Poll::Ready(Some(Ok(line)));
            }
            if self.done {
                return Poll::Ready(None);
            }
            let outcome = match self.chunks.poll_next_unpin(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(chunk)) => chunk.and_then(|chunk| self.accept(chunk)),
                // A last line without its end is a cut-off one.
                Poll::Ready(None) => {
                    self.done = true;
                    continue;
                }
            };
            if let Err(error) = outcome {
                self.done = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &[u8], size: usize) -> Vec<Vec<u8>> {
        let chunks: Vec<_> = text.chunks(size).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let stream = LineStream::new(futures::stream::iter(chunks));
        futures::executor::block_on(stream.map(|line| line.unwrap().to_vec()).collect())
    }

    proptest! {
        #[test]
        fn lines_survive_any_cut_of_the_wire(rows in prop::collection::vec("[a-z]{0,9}", 0..20), size in 1usize..12) {
            let text: String = rows.iter().map(|r| format!("{r}\r\n")).collect();
            let want: Vec<Vec<u8>> =
                rows.iter().filter(|r| !r.is_empty()).map(|r| r.clone().into_bytes()).collect();
            prop_assert_eq!(lines(text.as_bytes(), size), want);
        }
    }

    #[test]
    fn a_line_without_end_is_not_given() {
        assert_eq!(lines(b"{\"a\":1}\n{\"a\":", 3), [b"{\"a\":1}".to_vec()]);
    }
}
