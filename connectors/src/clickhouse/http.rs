//! ClickHouse's HTTP interface over the embedded engine, for the official client and for curl, on loopback only.
//!
//! Never: a socket beyond loopback (the engine reads any file for any caller); authentication.

mod block;
pub(super) mod request;
mod statement;

pub use request::{BODIES_KIB_MAX, BODY_BYTES_MAX, BODY_WAIT_MAX};

use super::engine::{Engine, EngineError, Output};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use request::{RequestError, StoreRequest};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};

/// Statements that run at one time; the engine spreads each over all cores by itself.
pub const STATEMENTS_MAX: usize = 8;
/// Open connections; beyond it new ones wait in the listener's queue.
pub const CONNECTIONS_MAX: usize = 256;
/// Longest wait for a request's head.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long running requests may go on after the stop was asked for.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long a connection without a running request may take to send the rest of its last answer.
const FLUSH_MAX: Duration = Duration::from_millis(100);

#[derive(Clone)]
struct Service {
    engine: Engine,
    statements: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

/// Serves until `stop` becomes true or its sender is gone, then lets running requests end.
pub(crate) async fn serve(engine: Engine, listener: TcpListener, stop: watch::Receiver<bool>) {
    let service = Service {
        engine,
        statements: Arc::new(Semaphore::new(STATEMENTS_MAX)),
        bodies: Arc::new(Semaphore::new(BODIES_KIB_MAX)),
    };
    accept(listener, CONNECTIONS_MAX, stop, move |request| handle(service.clone(), request)).await;
}

/// Takes connections and has their requests answered, until `stop` becomes true or its sender is gone; then lets running
/// requests end.
pub(super) async fn accept<F>(
    listener: TcpListener,
    connections_max: usize,
    mut stop: watch::Receiver<bool>,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            accepted = listener.accept(), if connections.len() < connections_max => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection(answer.clone(), socket, stop.clone()));
                }
                Err(error) => {
                    // Out of descriptors, mostly: they come back as connections end.
                    tracing::warn!(%error, "cannot accept a connection to the store");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests were cut off at the stop of the store");
    }
}

/// Ends when the stop is asked for, or can no longer be asked for.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stopped| *stopped).await.is_err() {
        tracing::debug!("the owner of the engine is gone");
    }
}

async fn connection<F>(
    handle: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    socket: TcpStream,
    mut stop: watch::Receiver<bool>,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "a store connection ended at once");
        return;
    }
    let busy = Arc::new(AtomicBool::new(false));
    let answering = Arc::clone(&busy);
    let answer = service_fn(move |request| {
        let (handled, answering) = (handle(request), Arc::clone(&answering));
        async move {
            answering.store(true, Ordering::Relaxed);
            let response = handled.await;
            answering.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT_MAX);
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(socket), answer));
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stopped(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            // A connection that has not sent a request yet would wait for its first one.
            let rest = if busy.load(Ordering::Relaxed) { DRAIN_MAX } else { FLUSH_MAX };
            tokio::time::timeout(rest, serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a store connection broke off");
    }
}

async fn handle(service: Service, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let get = request.method() == Method::GET;
    match (request.uri().path(), get) {
        ("/ping" | "/replicas_status", true) => return ok(),
        ("/", true) if request.uri().query().is_none() => return ok(),
        ("/", _) if get || request.method() == Method::POST => {}
        ("/", _) => return plain(StatusCode::METHOD_NOT_ALLOWED, "GET or POST\n"),
        _ => return plain(StatusCode::NOT_FOUND, "There is no handle for this path.\n"),
    }
    let mut request = match StoreRequest::read(request, &service.bodies).await {
        Ok(request) => request,
        Err(error) => return refusal(&error),
    };
    if get && !request.session.settings.iter().any(|(name, _)| name == "readonly") {
        // As servers do: a link that is followed must change nothing.
        request.session.settings.push(("readonly".to_owned(), "2".to_owned()));
    }
    let Ok(_running) = service.statements.acquire().await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "closed\n");
    };
    let engine = service.engine.clone();
    let started = Instant::now();
    let query_id = request.query_id.take();
    match tokio::task::spawn_blocking(move || run(&engine, &request)).await {
        Ok(Ok((format, output))) => {
            let bytes = output.data.len();
            result(&format, query_id.as_deref(), output, bytes, started.elapsed())
        }
        Ok(Err(Failure::Request(error))) => refusal(&error),
        Ok(Err(Failure::Engine(error))) => exception(&error.to_string()),
        Err(error) => exception(&format!("Code: 1001. The request failed: {error}")),
    }
}

enum Failure {
    Request(RequestError),
    Engine(EngineError),
}

/// Runs one request on a thread where blocking is allowed; gives the format of the result too.
fn run(engine: &Engine, request: &StoreRequest) -> Result<(String, Output), Failure> {
    let data = request.data().map_err(Failure::Request)?;
    let format = request.format.as_deref().unwrap_or("TabSeparated").to_owned();
    // The statement is in the URL, in the body, or begins in the one and goes on in the other.
    let sql = if request.query.is_empty() {
        data
    } else {
        // Blanks at the end would be taken for the beginning of the data.
        let query = request.query.trim_end();
        let mut joined = BytesMut::with_capacity(query.len() + 1 + data.len());
        joined.put(query.as_bytes());
        joined.put_u8(b'\n');
        joined.put(data);
        joined.freeze()
    };
    let session = &request.session;
    let output = match statement::split_insert(&sql, session.database.as_deref()) {
        Some(insert) if session.parameters.is_empty() => {
            engine.insert(&session.settings, &insert.head, insert.format, insert.rest)
        }
        _ => engine.query(session, &sql, &format),
    };
    Ok((format, output.map_err(Failure::Engine)?))
}

/// The answer to a ping.
pub(super) fn ok() -> Response<Full<Bytes>> {
    plain(StatusCode::OK, "Ok.\n")
}

pub(super) fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=UTF-8"));
    response
}

fn refusal(error: &RequestError) -> Response<Full<Bytes>> {
    let mut response = exception(&error.to_string());
    *response.status_mut() = match error {
        RequestError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RequestError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        RequestError::Slow => StatusCode::REQUEST_TIMEOUT,
        RequestError::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
        RequestError::BrokenOff(_) | RequestError::Compressed(_) | RequestError::Multipart => StatusCode::BAD_REQUEST,
    };
    response
}

/// Code of a text without one: what ClickHouse calls UNKNOWN_EXCEPTION.
const CODE_UNKNOWN: u32 = 1_002;

/// `Code: 60. DB::Exception: …` as a status and the header that clients read.
pub(super) fn exception(text: &str) -> Response<Full<Bytes>> {
    let digits = text.split("Code: ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let code = digits.and_then(|digits| digits.parse().ok()).unwrap_or(CODE_UNKNOWN);
    let status = match code {
        60 | 81 => StatusCode::NOT_FOUND,
        6 | 26 | 27 | 36 | 41 | 47 | 53 | 62 | 115 => StatusCode::BAD_REQUEST,
        159 => StatusCode::REQUEST_TIMEOUT,
        164 | 452 | 497 | 516 => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = plain(status, format!("{text}\n"));
    response.headers_mut().insert("x-clickhouse-exception-code", code.into());
    response
}

/// A result; `bytes` is its size before it was compressed.
pub(super) fn result(
    format: &str,
    query_id: Option<&str>,
    output: Output,
    bytes: usize,
    took: Duration,
) -> Response<Full<Bytes>> {
    let summary = format!(
        r#"{{"read_rows":"{}","read_bytes":"{}","written_rows":"{}","written_bytes":"{}","total_rows_to_read":"0","result_rows":"{}","result_bytes":"{}","elapsed_ns":"{}"}}"#,
        output.read_rows,
        output.read_bytes,
        output.written_rows,
        output.written_bytes,
        output.result_rows,
        bytes,
        took.as_nanos()
    );
    let mut response = Response::new(Full::new(Bytes::from(output.data)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(format)));
    headers.insert("x-clickhouse-timezone", HeaderValue::from_static("UTC"));
    set(headers, "x-clickhouse-format", format);
    set(headers, "x-clickhouse-summary", &summary);
    if let Some(query_id) = query_id {
        set(headers, "x-clickhouse-query-id", query_id);
    }
    response
}

/// Sets a header whose text came with the request; one that cannot stand in a header is left out.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn content_type(format: &str) -> &'static str {
    match format {
        "JSON" | "JSONCompact" | "JSONStrings" => "application/json; charset=UTF-8",
        "JSONEachRow" | "JSONLines" => "application/x-ndjson; charset=UTF-8",
        "TabSeparated" | "TSV" => "text/tab-separated-values; charset=UTF-8",
        "CSV" => "text/csv; charset=UTF-8",
        "Pretty" | "PrettyCompact" | "Vertical" => "text/plain; charset=UTF-8",
        _ => "application/octet-stream",
    }
}
