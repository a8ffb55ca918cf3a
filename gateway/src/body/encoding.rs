//! Takes a body from the network: all of it or nothing, decompressed, within limits.
//!
//! Both sizes are capped while the bytes come in, so a body that grows a thousandfold is dropped at the limit. A
//! client that goes away in the middle leaves an error, never half a body.

use std::time::Duration;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use futures::stream::unfold;
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;
use wadi_store::context::{Memory, Share};

use super::BodyError;

#[cfg(test)]
mod tests;

/// Largest window of a zstd stream, as the power of two that HTTP agrees on (RFC 9659: 8 MiB).
const ZSTD_WINDOW_LOG: u32 = 23;

/// Silence after which a body is given up, so that it holds no memory for ever.
const SILENCE: Duration = Duration::from_secs(30);

/// Room is taken in such steps.
const ROOM_STEP: usize = 1 << 20;

/// How much is decompressed at once.
const STEP: usize = 64 << 10;

/// Memory that a declared length makes us reserve before any byte has come.
const RESERVE: usize = 1 << 20;

/// A declared length is believed up to so many times what has come. Memory that is reserved but not written takes no
/// room, and memory that need not move is written once.
const BELIEVED: usize = 16;

/// How the body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    Identity,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Encoding {
    /// Reads a `Content-Encoding`. Several in a row are refused.
    pub fn of(header: Option<&str>) -> Result<Encoding, BodyError> {
        let given = header.unwrap_or("identity").trim();
        match given.to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Encoding::Identity),
            "gzip" | "x-gzip" => Ok(Encoding::Gzip),
            "zstd" => Ok(Encoding::Zstd),
            _ => {
                let given = given.chars().take(100).flat_map(char::escape_debug).collect();
                Err(BodyError::UnsupportedEncoding { given })
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Encoding::Identity => "identity",
            Encoding::Gzip => "gzip",
            Encoding::Zstd => "zstd",
        }
    }
}

/// How large a body may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveLimits {
    /// Most bytes as they are sent.
    pub max_sent: usize,
    /// Most bytes once decompressed.
    pub max_decoded: usize,
}

/// A body that has come in whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The bytes, decompressed.
    pub bytes: Bytes,
    /// How many were sent.
    pub sent: u64,
}

/// An error of the stream of bytes, on its way through the decoder.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the body is too large")]
    TooLarge,
    #[error("too much comes in at once")]
    NoRoom,
    #[error("{0}")]
    Lost(String),
}

/// The memory that a body takes while it comes in, as far as a budget has it.
#[derive(Debug)]
pub struct Room<'a> {
    budget: Option<&'a Memory>,
    shares: Vec<Share>,
    taken: usize,
    used: usize,
}

impl<'a> Room<'a> {
    /// Room as far as the budget goes.
    pub fn within(budget: &'a Memory) -> Room<'a> {
        Room { budget: Some(budget), shares: Vec::new(), taken: 0, used: 0 }
    }

    /// Takes so many bytes more. False if the budget has them not.
    pub fn grow(&mut self, bytes: usize) -> bool {
        self.used += bytes;
        let Some(budget) = self.budget.filter(|_| self.used > self.taken) else { return true };
        let step = (self.used - self.taken).next_multiple_of(ROOM_STEP);
        let Some(share) = budget.try_take(step) else { return false };
        self.taken += step;
        self.shares.push(share);
        true
    }

    /// The shares, which are given back when they are dropped.
    pub fn into_shares(self) -> Vec<Share> {
        self.shares
    }

    fn take(&mut self, bytes: usize) -> Result<(), Broken> {
        if self.grow(bytes) { Ok(()) } else { Err(Broken::NoRoom) }
    }

    #[cfg(test)]
    fn boundless() -> Room<'a> {
        Room { budget: None, shares: Vec::new(), taken: 0, used: 0 }
    }
}

/// The pieces of a body; an error if none comes for a while.
fn punctual<E: std::fmt::Display>(
    pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> impl Stream<Item = Result<Bytes, String>> {
    unfold(Some(pieces), |pieces| async {
        let mut pieces = pieces?;
        match tokio::time::timeout(SILENCE, pieces.next()).await {
            Ok(Some(Ok(bytes))) => Some((Ok(bytes), Some(pieces))),
            Ok(Some(Err(error))) => Some((Err(error.to_string()), None)),
            Ok(None) => None,
            Err(_) => Some((Err(format!("nothing came for {SILENCE:?}")), None)),
        }
    })
}

/// Takes a whole body.
pub async fn receive(
    body: Body,
    encoding: Encoding,
    limits: ReceiveLimits,
    room: &mut Room<'_>,
) -> Result<Received, BodyError> {
    let declared = HttpBody::size_hint(&body).exact().unwrap_or(0);
    if declared > limits.max_sent as u64 {
        return Err(BodyError::SentTooLarge { limit: limits.max_sent });
    }
    let mut sent = 0;
    let counted = punctual(body.into_data_stream()).map(|piece| match piece {
        Ok(bytes) => {
            sent += bytes.len();
            if sent > limits.max_sent { Err(Broken::TooLarge.into()) } else { Ok(bytes) }
        }
        Err(why) => Err(Broken::Lost(why).into()),
    });
    let counted = std::pin::pin!(counted);
    let bytes = match encoding {
        Encoding::Identity => {
            let limit = limits.max_sent.min(limits.max_decoded);
            collect(counted, declared.min(limit as u64) as usize, limit, room).await
        }
        Encoding::Gzip => {
            let mut decoder = GzipDecoder::new(StreamReader::new(counted));
            decoder.multiple_members(true);
            read(decoder, limits.max_decoded, room).await
        }
        Encoding::Zstd => {
            let window = DParameter::window_log_max(ZSTD_WINDOW_LOG);
            let mut decoder = ZstdDecoder::with_params(StreamReader::new(counted), &[window]);
            decoder.multiple_members(true);
            read(decoder, limits.max_decoded, room).await
        }
    };
    match bytes {
        Ok(Some(bytes)) => Ok(Received { bytes, sent: sent as u64 }),
        Ok(None) => Err(BodyError::DecodedTooLarge { limit: limits.max_decoded }),
        Err(error) => Err(told(error, encoding, limits)),
    }
}

impl From<Broken> for std::io::Error {
    fn from(broken: Broken) -> std::io::Error {
        std::io::Error::other(broken)
    }
}

fn told(error: std::io::Error, encoding: Encoding, limits: ReceiveLimits) -> BodyError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Broken>()) {
        Some(Broken::TooLarge) => BodyError::SentTooLarge { limit: limits.max_sent },
        Some(Broken::NoRoom) => BodyError::Overloaded,
        Some(Broken::Lost(why)) => BodyError::Incomplete { why: why.clone() },
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            BodyError::BadEncoding { encoding: encoding.name(), why: "it ends too early".to_owned() }
        }
        None => BodyError::BadEncoding { encoding: encoding.name(), why: error.to_string() },
    }
}

/// All pieces as one; `None` if they are longer than `limit`. A body of one piece is not copied.
async fn collect(
    pieces: impl Stream<Item = std::io::Result<Bytes>>,
    declared: usize,
    limit: usize,
    room: &mut Room<'_>,
) -> std::io::Result<Option<Bytes>> {
    let mut pieces = std::pin::pin!(pieces);
    let Some(first) = pieces.next().await.transpose()? else {
        return Ok(Some(Bytes::new()));
    };
    room.take(first.len())?;
    let Some(second) = pieces.next().await.transpose()? else {
        return Ok(Some(first).filter(|f| f.len() <= limit));
    };
    let mut whole = BytesMut::with_capacity(declared.min(RESERVE).max(first.len()));
    whole.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(piece) = next {
        let come = whole.len() + piece.len();
        if come > limit {
            return Ok(None);
        }
        room.take(piece.len())?;
        if come > whole.capacity() {
            let believed = declared.min(come.saturating_mul(BELIEVED));
            whole.reserve(believed.max(come) - whole.len());
        }
        whole.extend_from_slice(&piece);
        next = pieces.next().await.transpose()?;
    }
    Ok(Some(whole.freeze()))
}

/// All that a decoder gives; `None` if it is longer than `limit`.
async fn read(decoder: impl AsyncRead, limit: usize, room: &mut Room<'_>) -> std::io::Result<Option<Bytes>> {
    let mut decoder = std::pin::pin!(decoder.take(limit as u64 + 1));
    let mut whole = BytesMut::new();
    loop {
        whole.reserve(STEP);
        let came = decoder.read_buf(&mut whole).await?;
        if came == 0 {
            return Ok(Some(whole.freeze()));
        }
        room.take(came)?;
        if whole.len() > limit {
            return Ok(None);
        }
    }
}
