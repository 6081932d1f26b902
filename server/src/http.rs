//! HTTP: health, metrics, instruments, books, and the upgrade of terminals.
//!
//! Never: a number as a float; prices, quantities and sequences are text.

mod audit;
mod body;
mod books;
mod format;
mod numbers;
mod pairs;
mod reads;
mod stored;
mod views;
mod wish;

pub use numbers::HttpNumbers;
pub use reads::Reads;
pub use stored::{StoreReads, StoredAnswer, StoredError};

use crate::{
    audit::AuditNumbers,
    batches::BatchNumbers,
    checkpoint::CheckpointView,
    legs::LegRow,
    metrics::{self, Numbers},
    run::unix_ns,
    socket::{self, Admission, Place, check_upgrade},
    source::SourceControl,
    tape::{TapeEnded, TapeHandle},
    upkeep::UpkeepNumbers,
};
use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use connectors::clickhouse::{SinkView, StoreState};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use market::Directory;
use serde::Serialize;
use serde_json::json;
use socket2::SockRef;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::net::{TcpListener, TcpStream};

/// What the handlers share.
#[derive(Clone)]
pub struct Shared {
    /// The tape.
    pub tape: TapeHandle,
    /// Instruments.
    pub directory: Arc<Directory>,
    /// Places for terminals.
    pub admission: Arc<Admission>,
    /// The source's numbers.
    pub source: SourceControl,
    /// The store's numbers, if there is a store.
    pub store: Option<Arc<SinkView>>,
    /// The batch stream's numbers, if there is one.
    pub batches: Option<Arc<BatchNumbers>>,
    /// The store's upkeep, if there is a store.
    pub upkeep: Option<Arc<UpkeepNumbers>>,
    /// What readers of books share.
    pub reads: Arc<Reads>,
    /// The audits' numbers, if there are audits.
    pub audit: Option<Arc<AuditNumbers>>,
    /// What is known of the checkpoints.
    pub checkpoints: Arc<CheckpointView>,
    /// Everything is up.
    pub ready: Arc<AtomicBool>,
    /// How far the frontier may lag while we call ourselves ready.
    pub lag_max: Duration,
    /// Whether the data are simulated or replayed.
    pub simulated: bool,
}

/// What the kernel may hold for one socket: by default it is megabytes, minutes of frames that nobody reads, before the
/// outbox notices.
const SEND_BUFFER_BYTES: usize = 16 << 10;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a terminal that finds no place is told to wait, seconds.
const RETRY_AFTER_S: u64 = 2;

/// All routes.
pub fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/instruments", get(instruments))
        .route("/v1/legs", get(legs))
        .route("/v1/batches", get(batches))
        .route("/v1/views", get(views::views))
        .route("/v1/views/{view}", get(views::view))
        .route("/v1/views/{view}/{*pair}", get(views::of_pair))
        .route("/v1/books/{*instrument}", get(books::books))
        .route("/v1/pairs/{*rest}", get(pairs::pairs))
        .route("/v1/audit", get(audit::audit))
        .route("/v1/stream", get(stream))
        .fallback(|| async { failure(StatusCode::NOT_FOUND, "no such path") })
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared.reads), numbers::count))
        .with_state(shared)
}

/// Serves connections until `until` resolves. A connection must have sent its request's head within `head_max`.
pub async fn serve(listener: TcpListener, router: Router, head_max: Duration, until: impl Future<Output = ()>) {
    let mut until = std::pin::pin!(until);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut until => return,
        };
        match accepted {
            Ok((socket, _)) => {
                tokio::spawn(connection(socket, router.clone(), head_max));
            }
            Err(error) => {
                // Out of file descriptors, for instance: those that are open must get time to close.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, router: Router, head_max: Duration) {
    let tuned = socket.set_nodelay(true).and_then(|()| SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES));
    if let Err(error) = tuned {
        tracing::debug!(%error, "the socket keeps its defaults");
    }
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_max)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router))
        .with_upgrades();
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// An error as JSON.
fn failure(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "error": text }))).into_response()
}

fn ended(_: TapeEnded) -> Response {
    failure(StatusCode::SERVICE_UNAVAILABLE, "the server is ending")
}

async fn index(State(shared): State<Shared>) -> String {
    let kind = if shared.simulated { "simulated or replayed data" } else { "live data" };
    format!(
        "{}, {kind}\n\n\
         /v1/stream              WebSocket, subprotocol {}\n\
         /v1/instruments         all instruments\n\
         /v1/legs                connections to venues: who is first, by how much\n\
         /v1/batches             the batch stream: where it stands, what is missing\n\
         /v1/audit               the last audit of the store, and what audits found\n\
         /v1/books/VENUE/SYMBOL  one book, e.g. /v1/books/binance_spot/BTCUSDT?depth=10 (%3C %3E for < >)\n\
         /v1/views               standing views; /v1/views/VIEW of all pairs, /v1/views/VIEW/ASSET/ASSET of one\n\
         \x20 …/changes?since=V     what of it changed since version V; both also with source=store\n\
         /v1/pairs/A/B/book      the books of a pair, and …/changes\n\
         /metrics                Prometheus\n\
         /healthz /readyz        liveness and readiness\n",
        crate::BUILD,
        wire::SUBPROTOCOL
    )
}

/// Alive; a store that does not take what comes is told, and is no reason for a restart: terminals are served.
async fn health(State(shared): State<Shared>) -> String {
    match shared.store.as_ref().map(|view| view.state()) {
        None | Some(StoreState::Ready) => "ok\n".to_owned(),
        Some(state) => format!("ok, the store is {}\n", state.name()),
    }
}

async fn ready(State(shared): State<Shared>) -> Response {
    let stats = match shared.tape.stats().await {
        Ok(stats) => stats,
        Err(error) => return ended(error),
    };
    let lagging = u128::from(stats.frontier_lag_ms) > shared.lag_max.as_millis();
    let ready = shared.ready.load(Relaxed) && !lagging;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let states: serde_json::Map<_, _> = market::FeedState::ALL
        .iter()
        .zip(stats.states)
        .map(|(state, count)| (state.name().to_owned(), json!(count)))
        .collect();
    let body = json!({
        "ready": ready,
        "frontier_lag_ms": stats.frontier_lag_ms,
        "instruments": states,
        "store": shared.store.is_some(),
        "store_state": shared.store.as_ref().map(|view| view.state().name()),
    });
    (status, Json(body)).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let tape = match shared.tape.stats().await {
        Ok(tape) => tape,
        Err(error) => return ended(error),
    };
    let counters = shared.store.as_ref().map(|view| (view.counters(), view.waits()));
    let store = counters.as_ref().map(|(counters, waits)| (counters, *waits));
    let checkpoints = (&*shared.checkpoints, unix_ns());
    let (source, http, batches) = (shared.source.numbers(), &*shared.reads, shared.batches.as_deref());
    let (upkeep, audit) = (shared.upkeep.as_deref(), shared.audit.as_deref());
    match metrics::text(Numbers { tape: &tape, source, store, upkeep, batches, audit, checkpoints, http }) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

#[derive(Serialize)]
struct Listed {
    instrument: String,
    venue: &'static str,
    symbol: String,
    asset_0: String,
    asset_1: String,
    pair: Option<String>,
}

async fn instruments(State(shared): State<Shared>) -> Json<Vec<Listed>> {
    let listed = |instrument: Arc<market::Instrument>| Listed {
        instrument: instrument.text.to_string(),
        venue: instrument.venue.name(),
        symbol: instrument.symbol.to_string(),
        asset_0: instrument.asset_0.to_string(),
        asset_1: instrument.asset_1.to_string(),
        pair: shared.directory.pair(instrument.pair).map(|pair| pair.text.to_string()),
    };
    Json(shared.directory.instruments_from(0).into_iter().map(listed).collect())
}

/// What each connection to a venue brought; leads in microseconds.
async fn legs(State(shared): State<Shared>) -> Response {
    let stats = match shared.tape.stats().await {
        Ok(stats) => stats,
        Err(error) => return ended(error),
    };
    let quantiles = |leads: &[(f64, u64)]| -> serde_json::Map<_, _> {
        leads.iter().map(|(quantile, lead_us)| (quantile.to_string(), json!(lead_us))).collect()
    };
    let row = |row: &LegRow| {
        let values = row.values().into_iter().map(|(name, count)| (name.to_owned(), json!(count)));
        let mut fields: serde_json::Map<_, _> = values.collect();
        fields.insert("venue".to_owned(), json!(row.venue.name()));
        fields.insert("leg".to_owned(), json!(row.leg));
        fields.insert("lead_us_sum".to_owned(), json!(row.lead_us_sum()));
        fields.insert("lead_us".to_owned(), quantiles(&row.lead_us).into());
        fields
    };
    Json(stats.legs.iter().map(row).collect::<Vec<_>>()).into_response()
}

/// Where the batch stream stands, and what it counted.
async fn batches(State(shared): State<Shared>) -> Response {
    let Some(numbers) = &shared.batches else {
        return failure(StatusCode::NOT_FOUND, "no batch stream is configured");
    };
    let counts: serde_json::Map<_, _> =
        numbers.values().into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    Json(json!({ "state": numbers.state(), "counts": counts })).into_response()
}

async fn stream(State(shared): State<Shared>, mut request: Request) -> Response {
    let accept = match check_upgrade(&request) {
        Ok(accept) => accept,
        Err(refused) => return failure(StatusCode::BAD_REQUEST, &refused.to_string()),
    };
    let Some(place) = shared.admission.admit() else {
        let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, "all places are taken");
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        return response;
    };
    tokio::spawn(upgrade(hyper::upgrade::on(&mut request), place, shared.tape));
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept)
        .header(header::SEC_WEBSOCKET_PROTOCOL, wire::SUBPROTOCOL);
    response.body(Body::empty()).unwrap_or_else(|_| failure(StatusCode::INTERNAL_SERVER_ERROR, "no answer"))
}

async fn upgrade(upgraded: hyper::upgrade::OnUpgrade, place: Place, tape: TapeHandle) {
    match upgraded.await {
        Ok(upgraded) => socket::serve(upgraded, place, tape).await,
        Err(error) => tracing::debug!(%error, "upgrade given up"),
    }
}
