//! Takes a body from the network: all of it or nothing, decompressed, within limits.
//!
//! Both sizes are capped while the bytes come in, so a body that grows a thousandfold is dropped at the limit. A
//! client that goes away in the middle leaves an error, never half a body.

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use super::BodyError;

#[cfg(test)]
mod tests;

/// Largest window of a zstd stream, as the power of two that HTTP agrees on (RFC 9659: 8 MiB).
const ZSTD_WINDOW_LOG: u32 = 23;

/// How much is decompressed at once.
const STEP: usize = 64 << 10;

/// Memory that a declared length makes us reserve before any byte has come.
const RESERVE: usize = 1 << 20;

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
    #[error("{0}")]
    Lost(String),
}

/// Takes a whole body.
pub async fn receive(body: Body, encoding: Encoding, limits: ReceiveLimits) -> Result<Received, BodyError> {
    let declared = HttpBody::size_hint(&body).exact().unwrap_or(0);
    if declared > limits.max_sent as u64 {
        return Err(BodyError::SentTooLarge { limit: limits.max_sent });
    }
    let mut sent = 0;
    let counted = body.into_data_stream().map(|piece| match piece {
        Ok(bytes) => {
            sent += bytes.len();
            if sent > limits.max_sent { Err(Broken::TooLarge.into()) } else { Ok(bytes) }
        }
        Err(error) => Err(Broken::Lost(error.to_string()).into()),
    });
    let bytes = match encoding {
        Encoding::Identity => {
            let limit = limits.max_sent.min(limits.max_decoded);
            collect(counted, (declared as usize).min(RESERVE), limit).await
        }
        Encoding::Gzip => {
            let mut decoder = GzipDecoder::new(StreamReader::new(counted));
            decoder.multiple_members(true);
            read(decoder, limits.max_decoded).await
        }
        Encoding::Zstd => {
            let window = DParameter::window_log_max(ZSTD_WINDOW_LOG);
            let mut decoder = ZstdDecoder::with_params(StreamReader::new(counted), &[window]);
            decoder.multiple_members(true);
            read(decoder, limits.max_decoded).await
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
    reserve: usize,
    limit: usize,
) -> std::io::Result<Option<Bytes>> {
    let mut pieces = std::pin::pin!(pieces);
    let Some(first) = pieces.next().await.transpose()? else {
        return Ok(Some(Bytes::new()));
    };
    let Some(second) = pieces.next().await.transpose()? else {
        return Ok(Some(first).filter(|f| f.len() <= limit));
    };
    let mut whole = BytesMut::with_capacity(reserve.max(first.len() + second.len()));
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&second);
    while let Some(piece) = pieces.next().await.transpose()? {
        if whole.len() + piece.len() > limit {
            return Ok(None);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(Some(whole.freeze()).filter(|w| w.len() <= limit))
}

/// All that a decoder gives; `None` if it is longer than `limit`.
async fn read(decoder: impl AsyncRead, limit: usize) -> std::io::Result<Option<Bytes>> {
    let mut decoder = std::pin::pin!(decoder.take(limit as u64 + 1));
    let mut whole = BytesMut::new();
    loop {
        whole.reserve(STEP);
        if decoder.read_buf(&mut whole).await? == 0 {
            return Ok(Some(whole.freeze()));
        }
        if whole.len() > limit {
            return Ok(None);
        }
    }
}
