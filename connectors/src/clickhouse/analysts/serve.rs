//! The listener: who is let in, whose turn it is, and the statement's way through the engine.
//!
//! Never: a wait without an end; a place that is free again before the engine is done with the statement.

use super::{
    AnalystOptions,
    answer::{self, Refusal},
    caller,
    quota::Quota,
    request::{self, AnalystRequest},
    statement,
};
use crate::clickhouse::{
    engine::{Engine, EngineError, Output},
    http::{accept, exception, ok, plain, result},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};

/// Open connections of analysts; beyond it new ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 64;
/// Format of an answer where neither statement nor request names one.
const FORMAT_DEFAULT: &str = "TabSeparated";

#[derive(Clone)]
struct Service {
    engine: Engine,
    options: Arc<AnalystOptions>,
    /// Places for statements that run.
    running: Arc<Semaphore>,
    /// Places for statements that run or wait.
    taken: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    quota: Arc<Mutex<Quota>>,
}

/// Serves until `stop` becomes true or its sender is gone.
pub(crate) async fn serve(engine: Engine, options: AnalystOptions, listener: TcpListener, stop: watch::Receiver<bool>) {
    let limits = &options.limits;
    let service = Service {
        engine,
        running: Arc::new(Semaphore::new(limits.statements)),
        taken: Arc::new(Semaphore::new(limits.statements.saturating_add(limits.waiting))),
        bodies: Arc::new(Semaphore::new(request::BODIES_KIB_MAX)),
        quota: Arc::default(),
        options: Arc::new(options),
    };
    accept(listener, CONNECTIONS_MAX, stop, move |request| handle(service.clone(), request)).await;
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
    match answered(service, request).await {
        Ok(response) => response,
        Err(refused) => {
            tracing::debug!(%refused, "an analyst's statement is refused");
            answer::refusal(&refused)
        }
    }
}

async fn answered(service: Service, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
    caller::check(&service.options, request.uri(), request.headers())?;
    let mut request = AnalystRequest::read(request, &service.options, &service.bodies).await?;
    let format = statement::judge(&request.sql)?.format;
    let default_format = request.default_format.take().unwrap_or_else(|| FORMAT_DEFAULT.to_owned());
    let format = format.map_or_else(|| default_format.clone(), ToOwned::to_owned);
    let query_id = request.query_id.take().unwrap_or_else(query_id);
    service.quota.lock().unwrap_or_else(PoisonError::into_inner).admit(&service.options.limits, Instant::now())?;
    let places = turn(&service).await?;
    let started = Instant::now();
    let limit = service.options.limits.result_bytes;
    let quota = Arc::clone(&service.quota);
    let run = move || {
        let ran = run(&service.engine, &request, &default_format, limit);
        drop(places);
        let bytes = ran.as_ref().map_or(0, |ran| ran.as_ref().map_or(0, |ran| ran.bytes));
        quota.lock().unwrap_or_else(PoisonError::into_inner).used(u64::try_from(bytes).unwrap_or(u64::MAX));
        ran
    };
    match tokio::task::spawn_blocking(run).await {
        Ok(Ok(Ok(ran))) => {
            let mut response = result(&format, Some(&query_id), ran.output, ran.bytes, started.elapsed());
            if let Some(encoding) = ran.encoding {
                response.headers_mut().insert(header::CONTENT_ENCODING, encoding);
            }
            Ok(response)
        }
        Ok(Ok(Err(refused))) => Err(refused),
        Ok(Err(error)) => Ok(exception(&error.to_string())),
        Err(error) => {
            Ok(exception(&format!("Code: 1001. DB::Exception: The statement failed: {error}. (STD_EXCEPTION)")))
        }
    }
}

/// Waits for a place, for as long as that is allowed. The statement keeps both places to its end, whether or not its
/// caller is still there.
async fn turn(service: &Service) -> Result<[OwnedSemaphorePermit; 2], Refusal> {
    let limits = &service.options.limits;
    let full = Refusal::Queue { statements: limits.statements, waiting: limits.waiting };
    let Ok(taken) = Arc::clone(&service.taken).try_acquire_owned() else { return Err(full) };
    let running = Arc::clone(&service.running).acquire_owned();
    match tokio::time::timeout(Duration::from_millis(limits.wait_ms), running).await {
        Ok(Ok(running)) => Ok([taken, running]),
        _ => Err(Refusal::Wait { wait_ms: limits.wait_ms, statements: limits.statements }),
    }
}

/// A statement's result as it is sent, and how large it was before it was compressed.
struct Ran {
    output: Output,
    bytes: usize,
    encoding: Option<header::HeaderValue>,
}

fn run(
    engine: &Engine,
    request: &AnalystRequest,
    default_format: &str,
    limit: u64,
) -> Result<Result<Ran, Refusal>, EngineError> {
    let mut output = engine.query(&request.session, &request.sql, default_format)?;
    let bytes = output.data.len();
    if u64::try_from(bytes).unwrap_or(u64::MAX) > limit {
        return Ok(Err(Refusal::Result { bytes, limit }));
    }
    let (data, encoding) = answer::encoded(std::mem::take(&mut output.data), request.encodings.as_deref());
    output.data = data;
    Ok(Ok(Ran { output, bytes, encoding }))
}

/// A name for a statement whose caller gave none; clients read it from the answer.
fn query_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("analyst-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
