//! A terminal's socket: the upgrade, and the two tasks that read requests and write what the outbox holds.
//!
//! Never: an unbounded buffer; a frame written while an older one is only half on its way.

use crate::{
    fanout::{
        ConnectionId,
        outbox::{Next, Outbox, RingBounds},
    },
    tape::{Command, TapeHandle},
};
use futures_util::{SinkExt, StreamExt, stream::SplitSink, stream::SplitStream};
use hyper::{Request, header, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use wire::{
    CloseNotice, SUBPROTOCOL, ToServer,
    bounds::REQUEST_BYTES_MAX,
    close::{CLOSE_DRAIN, CLOSE_MALFORMED, CLOSE_TOO_LARGE},
};

/// Read buffer of a socket: requests are small, and 4,200 default buffers would be half a gigabyte.
const READ_BUFFER_BYTES: usize = 4 << 10;

/// A message on its way may be this large: the greatest frame and its header.
const WRITE_BUFFER_BYTES: usize = wire::bounds::MESSAGE_BYTES_MAX + 1_024;

/// A socket that takes nothing for this long is gone, or as good as gone.
const WRITE_MAX: Duration = Duration::from_secs(30);

/// The terminal ended the connection itself.
const CLOSE_NORMAL: u16 = 1000;

/// We are going away.
const CLOSE_AWAY: u16 = 1001;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Who may connect, and what waits for them.
#[derive(Debug)]
pub struct Admission {
    next: AtomicU64,
    connected: AtomicUsize,
    max: usize,
    bounds: RingBounds,
}

impl Admission {
    /// Room for that many terminals.
    #[must_use]
    pub fn new(max: usize, bounds: RingBounds) -> Arc<Self> {
        Arc::new(Self { next: AtomicU64::new(1), connected: AtomicUsize::new(0), max, bounds })
    }

    /// A place for one more terminal, given back when it is dropped.
    #[must_use]
    pub fn admit(self: &Arc<Self>) -> Option<Place> {
        let taken = self.connected.fetch_update(Relaxed, Relaxed, |count| (count < self.max).then_some(count + 1));
        taken.ok().map(|_| Place { admission: Arc::clone(self), id: ConnectionId(self.next.fetch_add(1, Relaxed)) })
    }
}

/// A terminal's place.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    id: ConnectionId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.connected.fetch_sub(1, Relaxed);
    }
}

/// Why an upgrade is refused, before anything costly was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeRefused {
    /// No WebSocket upgrade at all.
    #[error("a WebSocket upgrade is expected here: GET with `Upgrade: websocket`, version 13 and a key")]
    NotWebSocket,
    /// Our subprotocol is not among the offered ones, if there are any; without it there is no session.
    #[error("no subprotocol is offered that is spoken here; offer {SUBPROTOCOL}")]
    Subprotocol,
}

/// Checks the headers of an upgrade; gives the `Sec-WebSocket-Accept` to answer with.
///
/// # Errors
/// [`UpgradeRefused`].
pub fn check_upgrade<B>(request: &Request<B>) -> Result<String, UpgradeRefused> {
    let text = |name: header::HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let has = |name, token: &str| {
        text(name).is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    };
    let websocket = has(header::UPGRADE, "websocket")
        && has(header::CONNECTION, "upgrade")
        && text(header::SEC_WEBSOCKET_VERSION) == Some("13");
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).filter(|_| websocket);
    let key = key.ok_or(UpgradeRefused::NotWebSocket)?;
    if !has(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        return Err(UpgradeRefused::Subprotocol);
    }
    Ok(derive_accept_key(key.as_bytes()))
}

/// Serves a terminal until either side ends.
pub async fn serve(upgraded: Upgraded, place: Place, tape: TapeHandle) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(Some(REQUEST_BYTES_MAX))
        .max_frame_size(Some(REQUEST_BYTES_MAX));
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let outbox = Arc::new(Outbox::new(place.admission.bounds));
    let id = place.id;
    if tape.give(Command::Connect(id, Arc::clone(&outbox))).await.is_err() {
        return;
    }
    let mut writing = tokio::spawn(write(sink, Arc::clone(&outbox)));
    let (written, code) = tokio::select! {
        // Without a notice, only too many control messages end the writing.
        written = &mut writing => (written.ok(), CLOSE_TOO_LARGE),
        code = read(stream, id, &tape) => {
            // What was queued, a refusal perhaps, is given a moment to leave.
            outbox.close(None);
            let written = tokio::time::timeout(WRITE_MAX, &mut writing).await;
            (written.ok().and_then(Result::ok), code)
        }
    };
    match written.flatten() {
        Some((sink, notice)) => close(sink, code, notice).await,
        None => writing.abort(),
    }
    if tape.give(Command::Disconnect(id)).await.is_err() {
        tracing::debug!(id = id.0, "the tape ended before the terminal");
    }
}

/// Reads requests until the terminal closes, breaks off, or sends what is none; gives the code to close with.
async fn read(mut stream: SplitStream<Socket>, id: ConnectionId, tape: &TapeHandle) -> u16 {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(Error::Capacity(_))) => return CLOSE_TOO_LARGE,
            Some(Err(Error::Protocol(_) | Error::Utf8(_))) => return CLOSE_MALFORMED,
            Some(Err(_)) | None => return CLOSE_NORMAL,
        };
        let command = match message {
            Message::Binary(bytes) => match ToServer::decode(&bytes) {
                Ok(request) => Command::Request(id, request),
                Err(error) => {
                    tracing::debug!(id = id.0, %error, "malformed request");
                    Command::Malformed(id)
                }
            },
            Message::Text(_) => Command::Malformed(id),
            Message::Close(_) => return CLOSE_NORMAL,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        let malformed = matches!(command, Command::Malformed(_));
        if tape.give(command).await.is_err() || malformed {
            // Let the refusal be queued before the outbox closes.
            let queued = tape.stats().await;
            tracing::trace!(id = id.0, tape = queued.is_ok(), "the terminal is sent away");
            return if malformed { CLOSE_MALFORMED } else { CLOSE_AWAY };
        }
    }
}

/// Writes what the outbox holds, each message flushed before the next; gives the socket back to be closed, none if it
/// takes nothing.
async fn write(
    mut sink: SplitSink<Socket, Message>,
    outbox: Arc<Outbox>,
) -> Option<(SplitSink<Socket, Message>, Option<CloseNotice>)> {
    loop {
        match outbox.next() {
            Next::Send(bytes) => {
                let sent = tokio::time::timeout(WRITE_MAX, sink.send(Message::Binary(bytes))).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return None;
                }
            }
            Next::Wait => outbox.pushed().await,
            Next::Close(notice) => return Some((sink, notice)),
        }
    }
}

/// Ends the socket: a notice to come back has its own code.
async fn close(mut sink: SplitSink<Socket, Message>, code: u16, notice: Option<CloseNotice>) {
    let close = match notice {
        Some(notice) => CloseFrame { code: CloseCode::from(CLOSE_DRAIN), reason: notice.to_reason().into() },
        None => CloseFrame { code: CloseCode::from(code), reason: "".into() },
    };
    let closed = tokio::time::timeout(WRITE_MAX, sink.send(Message::Close(Some(close)))).await;
    tracing::trace!(orderly = matches!(closed, Ok(Ok(()))), "socket closed");
}
