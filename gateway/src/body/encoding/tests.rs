use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use wadi_model::Fault;

use super::*;

const LIMITS: ReceiveLimits = ReceiveLimits { max_sent: 1 << 20, max_decoded: 4 << 20 };

async fn compressed(encoding: Encoding, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Identity => out.extend_from_slice(data),
        Encoding::Gzip => {
            GzipEncoder::new(data).read_to_end(&mut out).await.unwrap();
        }
        Encoding::Zstd => {
            ZstdEncoder::new(data).read_to_end(&mut out).await.unwrap();
        }
    }
    out
}

/// A body that comes in pieces of so many bytes, and may break off with an error.
fn body(data: &[u8], piece: usize, broken: bool) -> Body {
    let mut pieces: Vec<Result<Bytes, std::io::Error>> =
        data.chunks(piece).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
    if broken {
        pieces.push(Err(std::io::Error::other("connection reset")));
    }
    Body::from_stream(futures::stream::iter(pieces))
}

const ALL: [Encoding; 3] = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd];

#[tokio::test]
async fn bodies_come_in_whole_in_any_pieces() {
    let data: Vec<u8> = (0..200_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
    for encoding in ALL {
        let sent = compressed(encoding, &data).await;
        for piece in [1000, 1 << 20] {
            let received =
                receive(body(&sent, piece, false), encoding, LIMITS, &mut Room::boundless()).await.unwrap();
            assert!(received.bytes == data, "{encoding:?}");
            assert_eq!(received.sent, sent.len() as u64);
        }
        let mut twice = sent.clone();
        twice.extend_from_slice(&sent);
        let limits = ReceiveLimits { max_sent: 4 << 20, ..LIMITS };
        let received =
            receive(body(&twice, 5000, false), encoding, limits, &mut Room::boundless()).await.unwrap();
        assert_eq!(received.bytes.len(), 2 * data.len(), "members of {encoding:?} follow each other");
    }
    assert_eq!(
        receive(Body::empty(), Encoding::Identity, LIMITS, &mut Room::boundless()).await.unwrap().bytes.len(),
        0
    );
}

#[tokio::test]
async fn bombs_stop_at_the_limit() {
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let bomb = compressed(encoding, &vec![0; 64 << 20]).await;
        assert!(bomb.len() < 1 << 20);
        let error =
            receive(body(&bomb, 4096, false), encoding, LIMITS, &mut Room::boundless()).await.unwrap_err();
        assert_eq!(error, BodyError::DecodedTooLarge { limit: 4 << 20 });
        assert_eq!(error.code(), "body_too_large");
    }
    let exact = compressed(Encoding::Gzip, &vec![0; 4 << 20]).await;
    assert_eq!(
        receive(body(&exact, 4096, false), Encoding::Gzip, LIMITS, &mut Room::boundless())
            .await
            .unwrap()
            .bytes
            .len(),
        4 << 20
    );
}

#[tokio::test]
async fn too_much_as_sent_is_refused_before_and_while_it_comes() {
    let large = vec![7; (1 << 20) + 1];
    let declared = receive(Body::from(large.clone()), Encoding::Identity, LIMITS, &mut Room::boundless())
        .await
        .unwrap_err();
    assert_eq!(declared, BodyError::SentTooLarge { limit: 1 << 20 });
    for encoding in ALL {
        let noise: Vec<u8> = (0..300_000u64)
            .flat_map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17).to_le_bytes())
            .collect();
        let sent = compressed(encoding, &noise).await;
        let error =
            receive(body(&sent, 4096, false), encoding, LIMITS, &mut Room::boundless()).await.unwrap_err();
        assert_eq!(error, BodyError::SentTooLarge { limit: 1 << 20 }, "{encoding:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_an_error() {
    let data = vec![b'x'; 100_000];
    for encoding in ALL {
        let sent = compressed(encoding, &data).await;
        let error =
            receive(body(&sent[..sent.len() / 2], 10, true), encoding, LIMITS, &mut Room::boundless())
                .await
                .unwrap_err();
        assert_eq!(error.code(), "incomplete_body", "{encoding:?}: {error}");
    }
}

#[tokio::test]
async fn damaged_streams_are_told() {
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let sent = compressed(encoding, b"some rows").await;
        let cut =
            receive(body(&sent[..sent.len() - 3], 100, false), encoding, LIMITS, &mut Room::boundless())
                .await
                .unwrap_err();
        assert_eq!(cut.code(), "bad_encoding", "{encoding:?}");
        let mut garbage = sent.clone();
        garbage.extend_from_slice(b"garbage");
        let behind =
            receive(body(&garbage, 100, false), encoding, LIMITS, &mut Room::boundless()).await.unwrap_err();
        assert_eq!(behind.code(), "bad_encoding", "{encoding:?}");
        let plain = receive(body(b"{\"a\":1}", 100, false), encoding, LIMITS, &mut Room::boundless())
            .await
            .unwrap_err();
        assert_eq!(plain.code(), "bad_encoding", "{encoding:?}");
    }
}

#[test]
fn encodings_in_a_row_and_unknown_ones_are_refused() {
    assert_eq!(Encoding::of(None), Ok(Encoding::Identity));
    assert_eq!(Encoding::of(Some("GZIP")), Ok(Encoding::Gzip));
    assert_eq!(Encoding::of(Some("zstd")), Ok(Encoding::Zstd));
    for given in ["gzip, gzip", "gzip, zstd", "br", "deflate"] {
        assert_eq!(Encoding::of(Some(given)).unwrap_err().code(), "unsupported_encoding");
    }
}
