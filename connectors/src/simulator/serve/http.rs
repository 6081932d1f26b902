//! The one HTTP server: REST of the venues, upgrades to their WebSockets, and the control paths.
//!
//! Never: a panic for what a request holds; a body without a bound.

use super::{
    Shared,
    binance::{self, Streams},
    bus::Subscriptions,
    control,
    kraken_spot::{Channels, Kraken},
    socket,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use market::Venue;
use socket2::SockRef;
use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// A fault is a few hundred bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// What the kernel may hold for one socket, so that a connection that does not read is noticed at its bound.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// A connection must have sent its request's head within this time.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Unix time, nanoseconds.
pub(super) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Unix time, milliseconds.
pub(super) fn unix_ms() -> u64 {
    unix_ns() / 1_000_000
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    content_type: &'static str,
    body: String,
}

impl Reply {
    pub(super) const fn json(status: u16, body: String) -> Self {
        Self { status, headers: Vec::new(), content_type: "application/json;charset=UTF-8", body }
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), content_type: "text/plain; charset=utf-8", body: body.to_owned() }
    }

    pub(super) fn not_found() -> Self {
        Self::text(404, "not found\n")
    }

    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value));
        self
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// Accepts connections until the server ends. Each holds a clone of `alive` for as long as it lives.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, alive: mpsc::Sender<()>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((socket, _)) => {
                tokio::spawn(connection(socket, Arc::clone(&shared), alive.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, shared: Arc<Shared>, alive: mpsc::Sender<()>) {
    let tuned = socket.set_nodelay(true).and_then(|()| SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES));
    if let Err(error) = tuned {
        tracing::debug!(%error, "the socket keeps its defaults");
    }
    let mut stop = shared.stop.subscribe();
    let service = service_fn(|request| {
        let (shared, alive) = (Arc::clone(&shared), alive.clone());
        async move { Ok::<_, Infallible>(answer(request, &shared, alive).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "connection ended");
            }
        }
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn answer(request: Request<Incoming>, shared: &Arc<Shared>, alive: mpsc::Sender<()>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    if let Some((venue, rest)) = below(&path, &binance::VENUES) {
        return match binance_streams(rest, &query) {
            Some(streams) => upgrade(request, venue, Subscriptions::Binance(streams), shared, alive),
            None => binance_rest(&request, venue, rest, &query, shared).into_response(),
        };
    }
    if let Some(rest) = path.strip_prefix("/kraken_spot") {
        return match rest {
            "/v2" | "/v2/" => {
                upgrade(request, Venue::KrakenSpot, Subscriptions::Kraken(Channels::default()), shared, alive)
            }
            _ => kraken_rest(&request, rest, &query, shared).into_response(),
        };
    }
    if let Some((venue, rest)) = below(&path, &super::dialect::SPOKEN) {
        let opened = shared.world().hall(venue).and_then(|hall| hall.dialect().open(rest, &query));
        return match opened {
            Some(session) => upgrade(request, venue, Subscriptions::Hall(session), shared, alive),
            None => hall_rest(&request, venue, rest, &query, shared).into_response(),
        };
    }
    let method = request.method().clone();
    let body = match Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Reply::text(413, "the body is too large, or broke off\n").into_response(),
    };
    control::answer(&method, &path, &body, shared).into_response()
}

/// The venue in a path, if it is one of these, and what follows it.
fn below<'a>(path: &'a str, venues: &[Venue]) -> Option<(Venue, &'a str)> {
    let path = path.strip_prefix('/')?;
    let (name, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    let venue = venues.iter().copied().find(|venue| venue.name() == name)?;
    Some((venue, rest))
}

/// The streams in a path that is one of Binance's WebSockets.
fn binance_streams(path: &str, query: &str) -> Option<Streams> {
    match path {
        "/stream" | "/stream/" => {
            let mut parameters = form_urlencoded::parse(query.as_bytes());
            let streams = parameters.find(|(name, _)| name == "streams").map(|(_, streams)| streams);
            let names: Vec<&str> =
                streams.as_deref().unwrap_or_default().split('/').filter(|name| !name.is_empty()).collect();
            Some(Streams::new(true, &names))
        }
        "/ws" => Some(Streams::new(false, &[])),
        _ => {
            let names = path.strip_prefix("/ws/")?;
            Some(Streams::new(false, &names.split('/').filter(|name| !name.is_empty()).collect::<Vec<_>>()))
        }
    }
}

fn binance_rest(request: &Request<Incoming>, venue: Venue, path: &str, query: &str, shared: &Shared) -> Reply {
    if request.method() != Method::GET {
        return Reply::text(405, "GET is meant\n");
    }
    match shared.world().binance_mut(venue) {
        Some((binance, bus)) => binance.get(path, query, bus),
        None => Reply::not_found(),
    }
}

fn kraken_rest(request: &Request<Incoming>, path: &str, query: &str, shared: &Shared) -> Reply {
    if !matches!(*request.method(), Method::GET | Method::POST) {
        return Reply::text(405, "GET is meant\n");
    }
    let world = &mut *shared.world();
    match &mut world.kraken {
        Some(kraken) => kraken.get(path, query, &mut world.bus),
        None => Reply::not_found(),
    }
}

fn hall_rest(request: &Request<Incoming>, venue: Venue, path: &str, query: &str, shared: &Shared) -> Reply {
    if request.method() != Method::GET {
        return Reply::text(405, "GET is meant\n");
    }
    match shared.world().hall_mut(venue) {
        Some((hall, bus)) => hall.get(path, query, bus),
        None => Reply::not_found(),
    }
}

/// Turns a request into a connection of a venue, or refuses it.
fn upgrade(
    request: Request<Incoming>,
    venue: Venue,
    subscriptions: Subscriptions,
    shared: &Arc<Shared>,
    alive: mpsc::Sender<()>,
) -> Response<Full<Bytes>> {
    let Some(accept) = accept_key(&request) else {
        return Reply::text(400, "a WebSocket upgrade is expected here\n").into_response();
    };
    {
        let mut world = shared.world();
        if !world.serves(venue) {
            return Reply::not_found().into_response();
        }
        if world.bus.faults.refuses(venue) {
            return Reply::text(503, "service unavailable\n").into_response();
        }
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => {
                let (number, outbox) = {
                    let mut world = shared.world();
                    let (number, outbox) = world.bus.open(venue, subscriptions);
                    if venue == Venue::KrakenSpot {
                        Kraken::greet(&mut world.bus, number);
                    }
                    if let Some((hall, bus)) = world.hall_mut(venue) {
                        hall.greet(bus, number);
                    }
                    (number, outbox)
                };
                shared.changed.notify_one();
                socket::serve(upgraded, venue, number, outbox, &shared).await;
                shared.world().bus.close(venue, number);
                shared.drained.notify_one();
            }
            Err(error) => tracing::debug!(%error, "an upgrade broke off"),
        }
        drop(alive);
    });
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// The answer to the key of an upgrade; none where the request is no upgrade.
fn accept_key(request: &Request<Incoming>) -> Option<HeaderValue> {
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let has = |name, token: &str| {
        text(name).is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    };
    let upgrades = request.method() == Method::GET
        && has(header::UPGRADE, "websocket")
        && has(header::CONNECTION, "upgrade")
        && text(header::SEC_WEBSOCKET_VERSION) == Some("13");
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).filter(|_| upgrades)?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()
}
