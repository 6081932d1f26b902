//! One request of an analyst's client: its parameters, headers and statement.
//!
//! Never: a body without a bound; a parameter passed over that would change the answer.

use super::{AnalystOptions, limits};
use crate::clickhouse::{
    engine::Session,
    http::request::{CollectError, collect, multipart_fields, quoted, text},
};
use bytes::Bytes;
use hyper::{HeaderMap, Request, Uri, body::Incoming, header};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Longest statement, with all its parameters; the engine's own bound of a statement is set to the same.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
/// All bodies at one time, KiB.
pub(super) const BODIES_KIB_MAX: usize = 16 << 10;
/// Longest time that a body may take to come.
const BODY_WAIT_MAX: Duration = Duration::from_secs(20);
/// Parameters of one statement.
const PARAMETERS_MAX: usize = 1_000;

/// Parameters that change nothing of an answer here. A session would hold temporary tables and settings, and neither can
/// be made here; so every statement has one of its own.
const WITHOUT_EFFECT: [&str; 15] = [
    "user",
    "password",
    "quota_key",
    "session_id",
    "session_check",
    "session_timeout",
    "wait_end_of_query",
    "buffer_size",
    "client_protocol_version",
    "cancel_http_readonly_queries_on_client_close",
    "send_progress_in_http_headers",
    "http_headers_progress_interval_ms",
    "add_http_cors_header",
    "log_queries",
    "http_response_buffer_size",
];

/// Why a request is not passed to the engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error(
        "Code: 241. DB::Exception: A statement of more than {BODY_BYTES_MAX} bytes is not taken here. (MEMORY_LIMIT_EXCEEDED)"
    )]
    TooLarge,
    #[error("Code: 202. DB::Exception: Too many statements are arriving; try again. (TOO_MANY_SIMULTANEOUS_QUERIES)")]
    Busy,
    #[error("Code: 209. DB::Exception: The statement did not come within {} s. (SOCKET_TIMEOUT)", BODY_WAIT_MAX.as_secs())]
    Slow,
    #[error("Code: 210. DB::Exception: The statement broke off: {0}. (NETWORK_ERROR)")]
    BrokenOff(#[source] hyper::Error),
    #[error("Code: 36. DB::Exception: Malformed multipart body. (BAD_ARGUMENTS)")]
    Multipart,
    #[error("Code: 36. DB::Exception: More than {PARAMETERS_MAX} parameters. (BAD_ARGUMENTS)")]
    Parameters,
    #[error("Code: 48. DB::Exception: {0} is not supported here. (NOT_IMPLEMENTED)")]
    Unsupported(&'static str),
    #[error(transparent)]
    Setting(#[from] limits::SettingError),
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
pub(super) struct AnalystRequest {
    pub(super) sql: Vec<u8>,
    pub(super) session: Session,
    pub(super) default_format: Option<String>,
    pub(super) query_id: Option<String>,
    /// The caller wants the answer compressed, in one of these ways.
    pub(super) encodings: Option<String>,
    query: String,
}

impl AnalystRequest {
    pub(super) async fn read(
        request: Request<Incoming>,
        options: &AnalystOptions,
        bodies: &Arc<Semaphore>,
    ) -> Result<Self, RequestError> {
        let mut read = Self::from_head(request.uri(), request.headers())?;
        let multipart = text(request.headers(), header::CONTENT_TYPE.as_str())
            .and_then(|content| content.strip_prefix("multipart/form-data; boundary="))
            .map(ToOwned::to_owned);
        let body = tokio::time::timeout(BODY_WAIT_MAX, collect(request.into_body(), bodies, BODY_BYTES_MAX));
        let (body, _share) = body.await.map_err(|_| RequestError::Slow)??;
        match multipart {
            Some(boundary) => {
                for (name, value) in multipart_fields(&body, &boundary).ok_or(RequestError::Multipart)? {
                    read.add(&name, &value)?;
                }
                read.join(&Bytes::new());
            }
            None => read.join(&body),
        }
        read.session.database.get_or_insert_with(|| quoted(&options.database));
        let wishes = std::mem::take(&mut read.session.settings);
        read.session.settings = limits::settings(&options.limits, wishes)?;
        Ok(read)
    }

    fn from_head(uri: &Uri, headers: &HeaderMap) -> Result<Self, RequestError> {
        let mut read = Self::default();
        if text(headers, header::CONTENT_ENCODING.as_str()).is_some_and(|encoding| encoding != "identity") {
            return Err(RequestError::Unsupported("A compressed statement"));
        }
        if let Some(database) = text(headers, "x-clickhouse-database") {
            read.add("database", database)?;
        }
        read.default_format = text(headers, "x-clickhouse-format").map(ToOwned::to_owned);
        let mut compressed = false;
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if name == "enable_http_compression" {
                compressed = value == "1";
            } else {
                read.add(&name, &value)?;
            }
        }
        if compressed {
            read.encodings = text(headers, header::ACCEPT_ENCODING.as_str()).map(ToOwned::to_owned);
        }
        Ok(read)
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), RequestError> {
        match name {
            "query" => value.clone_into(&mut self.query),
            "database" if value.is_empty() || value == "default" => self.session.database = None,
            "database" => self.session.database = Some(quoted(value)),
            "default_format" => self.default_format = Some(value.to_owned()),
            "query_id" => self.query_id = Some(value.to_owned()),
            "compress" | "decompress" if value == "0" => {}
            "compress" => return Err(RequestError::Unsupported("compress=1 (use Accept-Encoding)")),
            "decompress" => return Err(RequestError::Unsupported("decompress=1")),
            "role" => return Err(RequestError::Unsupported("role")),
            "stacktrace" if value == "0" => {}
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => match name.strip_prefix("param_") {
                Some(parameter) => self.session.parameters.push((parameter.to_owned(), value.to_owned())),
                None => self.session.settings.push((name.to_owned(), value.to_owned())),
            },
        }
        let session = &self.session;
        if session.parameters.len() + session.settings.len() > PARAMETERS_MAX {
            return Err(RequestError::Parameters);
        }
        Ok(())
    }

    /// The statement is in the URL, in the body, or begins in the one and goes on in the other.
    fn join(&mut self, body: &Bytes) {
        let query = std::mem::take(&mut self.query);
        self.sql = query.trim_end().as_bytes().to_vec();
        if !self.sql.is_empty() && !body.is_empty() {
            self.sql.push(b'\n');
        }
        self.sql.extend_from_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(uri: &str, headers: &[(&'static str, &'static str)]) -> Result<AnalystRequest, RequestError> {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<header::HeaderName>().unwrap(), header::HeaderValue::from_static(value))
        });
        AnalystRequest::from_head(&uri.parse().unwrap(), &headers.collect())
    }

    #[test]
    fn what_clients_send_is_told_apart() {
        let uri = "/?session_id=a&client_protocol_version=5&wait_end_of_query=1&param_x=1&max_threads=1&database=d&query_id=q";
        let mut read = head(uri, &[]).unwrap();
        assert_eq!(read.session.parameters, [("x".to_owned(), "1".to_owned())]);
        assert_eq!(read.session.settings, [("max_threads".to_owned(), "1".to_owned())]);
        assert_eq!((read.session.database.as_deref(), read.query_id.as_deref()), (Some("`d`"), Some("q")));
        read.query = "SELECT ".to_owned();
        read.join(&Bytes::from_static(b"1"));
        assert_eq!(read.sql, b"SELECT\n1");
    }

    #[test]
    fn an_answer_is_compressed_where_both_ask_for_it() {
        let accept = [("accept-encoding", "gzip, zstd")];
        assert_eq!(head("/", &accept).unwrap().encodings, None);
        assert_eq!(head("/?enable_http_compression=0", &accept).unwrap().encodings, None);
        assert_eq!(head("/?enable_http_compression=1", &accept).unwrap().encodings.as_deref(), Some("gzip, zstd"));
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        for uri in ["/?compress=1", "/?decompress=1", "/?role=a"] {
            assert!(matches!(head(uri, &[]), Err(RequestError::Unsupported(_))), "{uri}");
        }
        assert!(matches!(head("/", &[("content-encoding", "gzip")]), Err(RequestError::Unsupported(_))));
        let many = (0..=PARAMETERS_MAX).map(|at| format!("param_a{at}=1")).collect::<Vec<_>>().join("&");
        assert!(matches!(head(&format!("/?{many}"), &[]), Err(RequestError::Parameters)));
    }
}
