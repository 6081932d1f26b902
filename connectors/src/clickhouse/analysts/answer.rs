//! Answers to analysts' clients, compressed as they wish.
//!
//! Never: an error without ClickHouse's code.

use super::{caller::Stranger, quota::QuotaExceeded, request::RequestError, statement::Refused};
use crate::clickhouse::http::exception;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use std::io::{self, Write};

/// Shorter answers are sent as they are.
const COMPRESSED_BYTES_MIN: usize = 1_024;
/// The fastest level that is worth its while between two processes of one machine.
const ZSTD_LEVEL: i32 = 1;

/// Why a statement was not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Stranger(#[from] Stranger),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Statement(#[from] Refused),
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    #[error(
        "Code: 202. DB::Exception: Too many simultaneous queries of analysts: {statements} run and {waiting} wait. (TOO_MANY_SIMULTANEOUS_QUERIES)"
    )]
    Queue { statements: usize, waiting: usize },
    #[error(
        "Code: 202. DB::Exception: No place for the statement within {wait_ms} ms: {statements} others run. (TOO_MANY_SIMULTANEOUS_QUERIES)"
    )]
    Wait { wait_ms: u64, statements: usize },
    #[error(
        "Code: 396. DB::Exception: Limit for result exceeded, max bytes: {limit}, as written: {bytes}. Aggregate, limit or ask in parts. (TOO_MANY_ROWS_OR_BYTES)"
    )]
    Result { bytes: usize, limit: u64 },
}

/// The refusal as ClickHouse would say it.
pub(super) fn refusal(refused: &Refusal) -> Response<Full<Bytes>> {
    let mut response = exception(&refused.to_string());
    let status = match refused {
        Refusal::Quota(_) => Some(StatusCode::TOO_MANY_REQUESTS),
        Refusal::Queue { .. } | Refusal::Wait { .. } | Refusal::Request(RequestError::Busy) => {
            Some(StatusCode::SERVICE_UNAVAILABLE)
        }
        Refusal::Request(RequestError::TooLarge) => Some(StatusCode::PAYLOAD_TOO_LARGE),
        Refusal::Request(RequestError::Slow) => Some(StatusCode::REQUEST_TIMEOUT),
        Refusal::Request(RequestError::Unsupported(_)) => Some(StatusCode::NOT_IMPLEMENTED),
        Refusal::Request(_) => Some(StatusCode::BAD_REQUEST),
        Refusal::Stranger(_) => Some(StatusCode::FORBIDDEN),
        Refusal::Statement(_) | Refusal::Result { .. } => None,
    };
    if let Some(status) = status {
        *response.status_mut() = status;
    }
    if let Refusal::Quota(exceeded) = refused {
        response.headers_mut().insert(header::RETRY_AFTER, exceeded.seconds_left.into());
    }
    response
}

/// The way that an answer is compressed, of those that the caller takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Zstd,
    Gzip,
}

impl Encoding {
    /// The first of ours that is among theirs; none for those that take neither, which may be sent plain answers.
    pub(super) fn choose(accepted: &str) -> Option<Self> {
        let takes = |name: &str| {
            accepted.split(',').any(|one| {
                let (encoding, weight) = one.split_once(';').unwrap_or((one, ""));
                encoding.trim().eq_ignore_ascii_case(name) && !matches!(weight.trim(), "q=0" | "q=0.0")
            })
        };
        [(Self::Zstd, "zstd"), (Self::Gzip, "gzip")].into_iter().find_map(|(way, name)| takes(name).then_some(way))
    }

    fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        })
    }

    fn compress(self, data: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Zstd => zstd::bulk::compress(data, ZSTD_LEVEL),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(data)?;
                encoder.finish()
            }
        }
    }
}

/// Data as it is sent, with the way that it was compressed.
pub(super) fn encoded(data: Vec<u8>, accepted: Option<&str>) -> (Vec<u8>, Option<HeaderValue>) {
    let way = accepted.and_then(Encoding::choose).filter(|_| data.len() >= COMPRESSED_BYTES_MIN);
    let compressed = way.and_then(|way| Some((way.compress(&data).ok()?, way.name())));
    match compressed {
        Some((compressed, name)) => (compressed, Some(name)),
        None => (data, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_one_that_is_taken() {
        for (accepted, way) in [
            ("lz4,zstd", Some(Encoding::Zstd)),
            ("gzip, deflate, br", Some(Encoding::Gzip)),
            ("GZIP;q=0.5", Some(Encoding::Gzip)),
            ("zstd;q=0, gzip", Some(Encoding::Gzip)),
            ("lz4", None),
            ("", None),
        ] {
            assert_eq!(Encoding::choose(accepted), way, "{accepted}");
        }
    }

    #[test]
    fn long_answers_are_compressed_and_short_ones_are_not() {
        let long = vec![b'a'; COMPRESSED_BYTES_MIN];
        let (zstd, name) = encoded(long.clone(), Some("zstd"));
        assert_eq!(name.unwrap(), "zstd");
        assert_eq!(zstd::bulk::decompress(&zstd, 10_000).unwrap(), long);
        let (gzip, name) = encoded(long.clone(), Some("gzip"));
        assert_eq!(name.unwrap(), "gzip");
        assert!(gzip.len() < 100);
        assert_eq!(encoded(b"a".to_vec(), Some("zstd")), (b"a".to_vec(), None));
        assert_eq!(encoded(long.clone(), Some("lz4")), (long, None));
    }

    #[test]
    fn refusals_have_the_engine_s_codes() {
        let of = |refused: Refusal| {
            let response = refusal(&refused);
            (response.status().as_u16(), response.headers()["x-clickhouse-exception-code"].to_str().unwrap().to_owned())
        };
        assert_eq!(of(Refused::Empty.into()), (400, "62".to_owned()));
        assert_eq!(of(Refused::Beyond("file".into()).into()), (403, "497".to_owned()));
        assert_eq!(of(Refused::Writes("DROP".into()).into()), (403, "164".to_owned()));
        assert_eq!(of(Stranger::Credentials("x".into()).into()), (403, "516".to_owned()));
        assert_eq!(of(Refusal::Queue { statements: 2, waiting: 1 }), (503, "202".to_owned()));
        assert_eq!(of(Refusal::Result { bytes: 2, limit: 1 }), (500, "396".to_owned()));
        assert_eq!(of(RequestError::TooLarge.into()), (413, "241".to_owned()));
    }
}
