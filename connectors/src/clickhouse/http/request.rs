//! One request of the HTTP interface: its parameters, headers and body.
//!
//! Never: a body without a bound; a parameter that is ignored although it would change the answer.

use crate::clickhouse::engine::Session;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{HeaderMap, Request, Uri, body::Incoming, header};
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest body, as sent and again after decompression: an insert of the writer is under 20 MB, so this leaves room
/// for people's own loads; larger ones are sent in parts.
pub const BODY_BYTES_MAX: usize = 128 << 20;
/// All bodies held at one time, in KiB; beyond it requests are refused, because the engine shares the machine.
pub const BODIES_KIB_MAX: usize = 512 << 10;
/// Longest time that a body may take to come, so that a stuck sender does not hold memory for ever.
pub const BODY_WAIT_MAX: Duration = Duration::from_secs(60);
/// Parameters of the HTTP interface that change nothing here, and are no settings of the engine.
const WITHOUT_EFFECT: [&str; 12] = [
    "user",
    "password",
    "quota_key",
    "session_check",
    "session_timeout",
    "wait_end_of_query",
    "buffer_size",
    "enable_http_compression",
    "client_protocol_version",
    "cancel_http_readonly_queries_on_client_close",
    "send_progress_in_http_headers",
    "http_headers_progress_interval_ms",
];

/// Why a request is not passed to the engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("Code: 241. DB::Exception: Body larger than {BODY_BYTES_MAX} bytes; send it in parts.")]
    TooLarge,
    #[error("Code: 241. DB::Exception: Too many bytes in flight; try again.")]
    Busy,
    #[error("Code: 209. DB::Exception: The body did not come within {} s.", BODY_WAIT_MAX.as_secs())]
    Slow,
    #[error("Code: 210. DB::Exception: The body broke off: {0}")]
    BrokenOff(#[source] hyper::Error),
    #[error("Code: 271. DB::Exception: Cannot decompress: {0}.")]
    Compressed(&'static str),
    #[error("Code: 36. DB::Exception: Malformed multipart body.")]
    Multipart,
    #[error("Code: 48. DB::Exception: The embedded engine does not support {0} over HTTP.")]
    Unsupported(&'static str),
}

/// Why a body is not taken.
#[derive(Debug)]
pub(in crate::clickhouse) enum CollectError {
    /// It is beyond its bound.
    TooLarge,
    /// Together with others it is beyond the bound of all.
    Busy,
    /// It ended early.
    BrokenOff(hyper::Error),
}

impl From<CollectError> for RequestError {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::TooLarge => Self::TooLarge,
            CollectError::Busy => Self::Busy,
            CollectError::BrokenOff(error) => Self::BrokenOff(error),
        }
    }
}

/// A request, whole.
#[derive(Debug, Default)]
pub(super) struct StoreRequest {
    pub(super) query: String,
    pub(super) session: Session,
    pub(super) format: Option<String>,
    pub(super) query_id: Option<String>,
    pub(super) body: Bytes,
    decompress: bool,
    /// Holds the body's share of [`BODIES_KIB_MAX`].
    _share: Option<OwnedSemaphorePermit>,
}

impl StoreRequest {
    /// Reads a request to its end: an insert that breaks off must write nothing.
    pub(super) async fn read(request: Request<Incoming>, bodies: &Arc<Semaphore>) -> Result<Self, RequestError> {
        let mut read = Self::from_head(request.uri(), request.headers())?;
        let multipart = text(request.headers(), header::CONTENT_TYPE.as_str())
            .and_then(|content| content.strip_prefix("multipart/form-data; boundary="))
            .map(ToOwned::to_owned);
        let body = tokio::time::timeout(BODY_WAIT_MAX, collect(request.into_body(), bodies, BODY_BYTES_MAX));
        let (body, share) = body.await.map_err(|_| RequestError::Slow)??;
        read._share = share;
        match multipart {
            Some(boundary) => {
                for (name, value) in multipart_fields(&body, &boundary).ok_or(RequestError::Multipart)? {
                    read.add(&name, &value)?;
                }
            }
            None => read.body = body,
        }
        Ok(read)
    }

    fn from_head(uri: &Uri, headers: &HeaderMap) -> Result<Self, RequestError> {
        let mut read = Self::default();
        if let Some(database) = text(headers, "x-clickhouse-database") {
            read.add("database", database)?;
        }
        read.format = text(headers, "x-clickhouse-format").map(ToOwned::to_owned);
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            read.add(&name, &value)?;
        }
        Ok(read)
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), RequestError> {
        match name {
            "query" => value.clone_into(&mut self.query),
            "database" if value.is_empty() || value == "default" => self.session.database = None,
            "database" => self.session.database = Some(quoted(value)),
            "default_format" => self.format = Some(value.to_owned()),
            "query_id" => self.query_id = Some(value.to_owned()),
            "decompress" => self.decompress = value == "1",
            "compress" if value == "1" => return Err(RequestError::Unsupported("compress=1")),
            "compress" => {}
            "session_id" => return Err(RequestError::Unsupported("session_id")),
            "role" => return Err(RequestError::Unsupported("role")),
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => match name.strip_prefix("param_") {
                Some(parameter) => self.session.parameters.push((parameter.to_owned(), value.to_owned())),
                None => self.session.settings.push((name.to_owned(), value.to_owned())),
            },
        }
        Ok(())
    }

    /// The body, decompressed if the request says that it is compressed.
    pub(super) fn data(&self) -> Result<Bytes, RequestError> {
        if self.decompress && !self.body.is_empty() {
            return super::block::decompress(&self.body, BODY_BYTES_MAX).map(Bytes::from);
        }
        Ok(self.body.clone())
    }
}

/// An identifier for use in SQL.
pub(in crate::clickhouse) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

pub(in crate::clickhouse) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Reads a body of at most `bytes_max`, with its share of the room for all of them, in KiB.
pub(in crate::clickhouse) async fn collect(
    mut body: Incoming,
    bodies: &Arc<Semaphore>,
    bytes_max: usize,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), CollectError> {
    let mut whole = BytesMut::new();
    let mut share: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame.map_err(CollectError::BrokenOff)?.into_data() else { continue };
        if whole.len().saturating_add(part.len()) > bytes_max {
            return Err(CollectError::TooLarge);
        }
        whole.extend_from_slice(&part);
        let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = whole.len().div_ceil(1 << 10).saturating_sub(held);
        let missing = u32::try_from(missing).map_err(|_| CollectError::TooLarge)?;
        let more = Arc::clone(bodies).try_acquire_many_owned(missing).map_err(|_| CollectError::Busy)?;
        match &mut share {
            Some(share) => share.merge(more),
            None => share = Some(more),
        }
    }
    Ok((whole.freeze(), share))
}

/// The fields of a form; `None` if it is none.
pub(in crate::clickhouse) fn multipart_fields(body: &[u8], boundary: &str) -> Option<Vec<(String, String)>> {
    let body = std::str::from_utf8(body).ok()?;
    // The line end belongs to the delimiter, so that a value may contain the boundary's text.
    let mark = format!("--{}", boundary.trim_matches('"'));
    let delimiter = format!("\r\n{mark}");
    let mut rest = body.strip_prefix(&mark)?;
    let mut fields = Vec::new();
    while let Some(part) = rest.strip_prefix("\r\n") {
        let (head, tail) = part.split_once("\r\n\r\n")?;
        let (value, next) = tail.split_once(&delimiter)?;
        let name = head.split("name=\"").nth(1)?.split('"').next()?;
        fields.push((name.to_owned(), value.to_owned()));
        rest = next;
    }
    rest.starts_with("--").then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(uri: &str) -> Result<StoreRequest, RequestError> {
        StoreRequest::from_head(&uri.parse().unwrap(), &HeaderMap::new())
    }

    #[test]
    fn parameters_settings_and_the_rest_are_told_apart() {
        let read =
            head("/?query=SELECT+1&database=a%60b&param_x=1%262&max_threads=2&user=u&default_format=TSV").unwrap();
        assert_eq!(read.query, "SELECT 1");
        assert_eq!(read.session.database.as_deref(), Some("`a\\`b`"));
        assert_eq!(read.session.parameters, [("x".to_owned(), "1&2".to_owned())]);
        assert_eq!(read.session.settings, [("max_threads".to_owned(), "2".to_owned())]);
        assert_eq!(read.format.as_deref(), Some("TSV"));
    }

    #[test]
    fn what_would_change_the_answer_but_is_missing_here_is_refused() {
        for uri in ["/?compress=1", "/?session_id=a", "/?role=a"] {
            assert!(matches!(head(uri), Err(RequestError::Unsupported(_))), "{uri}");
        }
    }

    #[test]
    fn multipart_fields_keep_their_line_ends() {
        let body = "--B\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT\r\n\r\n1 --B\r\n--B\r\n\
                    Content-Disposition: form-data; name=\"param_x\"\r\n\r\n\r\n--B--\r\n";
        let fields = multipart_fields(body.as_bytes(), "\"B\"").unwrap();
        let right = [("query".to_owned(), "SELECT\r\n\r\n1 --B".to_owned()), ("param_x".to_owned(), String::new())];
        assert_eq!(fields, right);
        for cut in 0..body.len() - 4 {
            assert_eq!(multipart_fields(&body.as_bytes()[..cut], "B"), None, "cut at {cut}");
        }
    }
}
