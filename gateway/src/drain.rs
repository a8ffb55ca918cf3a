//! Takes in what is left of a request's body before an error is answered.
//!
//! Most clients read an answer only when they have sent their body. If we answered and closed with bytes unread, the
//! system would reset the connection, and the client would see a broken connection instead of what was wrong. So
//! [`crate::app`] keeps a second handle on every body; when an error comes back, what is left is read and thrown away,
//! as far as it is little. A client that waits for `100 Continue` has sent nothing, and is answered at once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use http::header::EXPECT;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

/// Most bytes that are thrown away; who sends more loses the answer.
const MOST: u64 = 16 << 20;

/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The body that the handler reads. Both handles read the same one.
#[derive(Clone)]
struct Lent(Arc<Mutex<Body>>);

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}

/// A handle on what a handler leaves of a body.
pub(crate) struct Rest {
    body: Lent,
    waits: bool,
}

impl Rest {
    /// The rest of this request's body.
    pub(crate) fn of(request: &mut Request) -> Rest {
        let body = Lent(Arc::new(Mutex::new(std::mem::take(request.body_mut()))));
        *request.body_mut() = Body::new(body.clone());
        Rest { body, waits: request.headers().contains_key(EXPECT) }
    }

    /// Reads it, within limits.
    pub(crate) async fn drain(mut self) {
        if self.waits || self.body.size_hint().lower() > MOST {
            return;
        }
        let drained = async {
            let mut read = 0;
            while let Some(Ok(frame)) = self.body.frame().await {
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
                if read > MOST {
                    return;
                }
            }
        };
        // In time or not: the answer is the same.
        let _ = tokio::time::timeout(PATIENCE, drained).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pieces: usize) -> Request {
        let piece = || Ok::<_, std::io::Error>(Bytes::from(vec![0; 1 << 20]));
        Request::new(Body::from_stream(futures::stream::iter((0..pieces).map(move |_| piece()))))
    }

    #[tokio::test]
    async fn what_the_handler_leaves_is_read_up_to_a_limit() {
        for (pieces, ends) in [(0, true), (3, true), (40, false)] {
            let mut request = request(pieces);
            let rest = Rest::of(&mut request);
            let mut body = request.into_body();
            if pieces > 0 {
                body.frame().await.unwrap().unwrap();
            }
            let whole = rest.body.clone();
            drop(body);
            rest.drain().await;
            assert_eq!({ whole }.frame().await.is_none(), ends, "{pieces}");
        }
    }

    #[tokio::test]
    async fn a_client_that_waits_for_leave_to_send_is_not_waited_for() {
        let mut request =
            Request::new(Body::from_stream(futures::stream::pending::<std::io::Result<Bytes>>()));
        request.headers_mut().insert(EXPECT, http::HeaderValue::from_static("100-continue"));
        Rest::of(&mut request).drain().await;
    }
}
