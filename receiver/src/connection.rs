//! The connection: a WebSocket to one of several servers, reconnecting, that drives a session.
//!
//! Never: a decision about what is shown; a queue without a bound; an undocumented message of the server passed on.

use crate::{
    notice::Notice,
    servers::Servers,
    session::{Session, SessionError},
    subscriptions::SubscribeError,
};
use futures_util::{Sink, Stream};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{
        self, Message,
        error::CapacityError,
        handshake::client::Request,
        http::{HeaderValue, StatusCode, header},
        protocol::WebSocketConfig,
    },
};
use wire::{
    CloseNotice, DecodeError, EncodeError, SUBPROTOCOL, SubscriptionItem, ToTerminal,
    bounds::{MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX},
};

/// Longest time for name resolution, TCP, TLS and the upgrade together, in milliseconds.
pub const CONNECT_MS_MAX: u64 = 10_000;

/// Longest time for the close frame to leave, in milliseconds; a server that does not read gets none.
pub const CLOSE_MS_MAX: u64 = 1_000;

/// How long a connection must have lived to count as good, in milliseconds; a server that drops everyone after the
/// hello must still meet the back-off.
pub const PROVEN_MS_MIN: u64 = 10_000;

/// Longest wait that a server may ask for, in milliseconds.
pub const SERVER_WAIT_MS_MAX: u64 = 300_000;

/// Read buffer in bytes: several typical frames; the default of 128 KiB is meant for bulk.
pub const READ_BUFFER_BYTES: usize = 16 * 1024;

/// Most bytes that wait to be written: some requests; more means a server that does not read.
pub const WRITE_BUFFER_BYTES_MAX: usize = 16 * REQUEST_BYTES_MAX;

/// What a close without a code counts as.
const NO_CLOSE_CODE: u16 = 1005;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A connection in the making, kept over dropped calls of [`Terminal::next`].
type Connecting = Pin<Box<dyn Future<Output = Result<Socket, ReceiverError>> + Send>>;

enum Transport {
    Idle,
    Connecting(Connecting),
    Open(Box<Socket>),
}

/// Why a connection ended or was not made. The next call of [`Terminal::next`] tries again, after the back-off.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// The URL is none that a WebSocket can be opened to. Final: only of [`Terminal::new`].
    #[error("not a WebSocket URL")]
    Url(#[source] Box<tungstenite::Error>),
    /// No server was named. Final: only of [`Terminal::of_servers`].
    #[error("no server was named")]
    NoServer,
    /// The token cannot stand in a header. Final: only of [`Terminal::with_token`].
    #[error("the token cannot stand in a header")]
    Token,
    /// The TLS library refuses our settings. Final: only of [`Terminal::new`].
    #[error("no TLS settings")]
    Tls(#[from] rustls::Error),
    /// An item cannot be subscribed to. Final: only of [`Terminal::new`].
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// No connection within the deadline.
    #[error("no connection within {CONNECT_MS_MAX} ms")]
    ConnectDeadline,
    /// The server is full or going away, and says when to come back.
    #[error("the server asks to come back in {wait_ms} ms")]
    Busy {
        /// The wait that it asks for.
        wait_ms: u64,
    },
    /// The connection could not be made.
    #[error("the connection could not be made")]
    Connect(#[source] Box<tungstenite::Error>),
    /// The server does not offer the wire version.
    #[error("the server does not offer {SUBPROTOCOL}")]
    Subprotocol,
    /// The connection broke.
    #[error("the connection broke")]
    Socket(#[source] Box<tungstenite::Error>),
    /// The server sent a message over the bound; nothing of it was taken.
    #[error("a message of {bytes} bytes, more than {MESSAGE_BYTES_MAX}")]
    TooLarge {
        /// Its length as far as it was announced.
        bytes: usize,
    },
    /// The server closed the connection.
    #[error("the server closed the connection with code {code}")]
    Closed {
        /// The close code; 1005 if there was none.
        code: u16,
    },
    /// The server is silent.
    #[error("the server is silent")]
    Silent,
    /// The server sent a text message.
    #[error("a text message, where all are binary")]
    Text,
    /// The server sent bytes that are no message.
    #[error("bytes that are no message")]
    Decode(#[from] DecodeError),
    /// We made a message that does not fit the wire.
    #[error("a request that does not fit the wire")]
    Encode(#[from] EncodeError),
    /// The server broke the protocol.
    #[error("the server broke the protocol")]
    Session(#[from] SessionError),
}

/// A terminal: a session and the connection that feeds it.
pub struct Terminal {
    servers: Servers,
    tls: Arc<ClientConfig>,
    session: Session,
    transport: Transport,
    /// What the end of a connection left to tell.
    untold: Vec<Notice>,
    opened_at: Option<Instant>,
    started_at: Instant,
}

impl Terminal {
    /// A terminal for a `ws://` or `wss://` URL; it connects in [`Terminal::next`].
    ///
    /// # Errors
    /// [`ReceiverError::Url`], [`ReceiverError::Tls`] or [`ReceiverError::Subscribe`].
    pub fn new(url: &str, items: &[SubscriptionItem]) -> Result<Self, ReceiverError> {
        Self::of_servers(&[url], items)
    }

    /// A terminal for several servers of the same instruments: it uses the first, and goes on to the next whenever one
    /// fails, is silent, or sends it away. What is shown stays until the next server's chains reach it.
    ///
    /// # Errors
    /// [`ReceiverError::Url`], [`ReceiverError::NoServer`], [`ReceiverError::Tls`] or [`ReceiverError::Subscribe`].
    pub fn of_servers<S: AsRef<str>>(urls: &[S], items: &[SubscriptionItem]) -> Result<Self, ReceiverError> {
        let now = Instant::now();
        let servers = Servers::new(urls.iter().map(AsRef::as_ref), now)?;
        let roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut session = Session::new();
        session.subscribe(items)?;
        Ok(Self {
            servers,
            tls: Arc::new(tls),
            session,
            transport: Transport::Idle,
            untold: Vec::new(),
            opened_at: None,
            started_at: now,
        })
    }

    /// Sends a bearer token with every upgrade.
    ///
    /// # Errors
    /// [`ReceiverError::Token`] if it cannot stand in a header.
    pub fn with_token(mut self, token: &str) -> Result<Self, ReceiverError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| ReceiverError::Token)?;
        value.set_sensitive(true);
        self.servers.authorize(&value);
        Ok(self)
    }

    /// What the terminal knows and shows.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The URL of the server in use, or that is tried next.
    #[must_use]
    pub fn server(&self) -> &str {
        self.servers.url()
    }

    /// The clock of the session: milliseconds since the terminal was made.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        now_ms(self.started_at)
    }

    /// Adds to the subscription set; sent by the next [`Terminal::next`], and again upon each reconnect.
    ///
    /// # Errors
    /// [`SubscribeError`] if an item cannot be sent; none is added then.
    pub fn subscribe(&mut self, items: &[SubscriptionItem]) -> Result<(), SubscribeError> {
        self.session.subscribe(items)
    }

    /// Takes from the subscription set; sent by the next [`Terminal::next`].
    pub fn unsubscribe(&mut self, items: &[SubscriptionItem]) {
        self.session.unsubscribe(items);
    }

    /// Goes on until there is something to tell: connects if there is no connection, sends what is due, and takes
    /// messages. It may be dropped at any point and called again; nothing is lost or begun anew by that.
    ///
    /// # Errors
    /// [`ReceiverError`] tells why a connection ended or was not made; the next call waits for the back-off and tries
    /// again.
    pub async fn next(&mut self) -> Result<Vec<Notice>, ReceiverError> {
        loop {
            if !self.untold.is_empty() {
                return Ok(std::mem::take(&mut self.untold));
            }
            let advanced = match &mut self.transport {
                Transport::Idle => {
                    sleep_until(self.servers.retry_at()).await;
                    let request = self.servers.request().ok_or(ReceiverError::NoServer)?;
                    let connecting = connect(request, Connector::Rustls(Arc::clone(&self.tls)));
                    self.transport = Transport::Connecting(Box::pin(connecting));
                    Ok(Vec::new())
                }
                Transport::Connecting(connecting) => connecting.as_mut().await.map(|socket| {
                    self.transport = Transport::Open(Box::new(socket));
                    self.opened_at = Some(Instant::now());
                    self.session.connected(now_ms(self.started_at))
                }),
                Transport::Open(_) => self.drive().await,
            };
            match advanced {
                Ok(notices) => self.untold = notices,
                Err(error) => {
                    self.end(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Closes the connection in good order; what is shown stays readable.
    pub async fn close(&mut self) {
        if let Transport::Open(mut socket) = std::mem::replace(&mut self.transport, Transport::Idle) {
            let closed = timeout(Duration::from_millis(CLOSE_MS_MAX), socket.close(None)).await;
            if !matches!(closed, Ok(Ok(()))) {
                tracing::debug!("the server was gone before the close");
            }
        }
        self.untold.extend(self.session.disconnected());
    }

    /// Sends what is due, and takes one message or sees the silence.
    async fn drive(&mut self) -> Result<Vec<Notice>, ReceiverError> {
        let now = self.now_ms();
        let silent_at = self.session.silent_at_ms().unwrap_or(now);
        let patience = Duration::from_millis(silent_at.saturating_sub(now));
        let Transport::Open(socket) = &mut self.transport else { return Ok(Vec::new()) };
        let session = &mut self.session;
        let exchanged = timeout(patience, poll_fn(|context| exchange(socket, session, context))).await;
        let message = exchanged.map_err(|_| ReceiverError::Silent)??;
        match message {
            Message::Binary(bytes) => {
                let now_ms = self.now_ms();
                Ok(self.session.receive(ToTerminal::decode(&bytes)?, now_ms)?)
            }
            Message::Text(_) => Err(ReceiverError::Text),
            Message::Close(None) => Err(ReceiverError::Closed { code: NO_CLOSE_CODE }),
            Message::Close(Some(frame)) => Err(match CloseNotice::from_reason(&frame.reason) {
                Some(notice) => ReceiverError::Busy { wait_ms: u64::from(notice.reconnect_after_ms) },
                None => ReceiverError::Closed { code: u16::from(frame.code) },
            }),
            // The library answers a ping by itself, as soon as it is asked for the next message.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(Vec::new()),
        }
    }

    fn end(&mut self, error: &ReceiverError) {
        self.transport = Transport::Idle;
        self.untold.extend(self.session.disconnected());
        let lived = self.opened_at.take().map(|opened| opened.elapsed());
        if lived.is_some_and(|lived| lived >= Duration::from_millis(PROVEN_MS_MIN)) {
            self.servers.proved();
        }
        let left = self.servers.url().to_owned();
        let asked_ms = if let ReceiverError::Busy { wait_ms } = error { Some(*wait_ms) } else { None };
        let wait = self.servers.failed(asked_ms, rand::random(), Instant::now());
        tracing::debug!(%error, ?wait, server = left, next = self.servers.url(), "the connection ended");
    }
}

fn now_ms(started_at: Instant) -> u64 {
    u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
}

async fn connect(request: Request, connector: Connector) -> Result<Socket, ReceiverError> {
    let limits = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let connecting = connect_async_tls_with_config(request, Some(limits), true, Some(connector));
    let connected = timeout(Duration::from_millis(CONNECT_MS_MAX), connecting).await;
    let (socket, response) = connected.map_err(|_| ReceiverError::ConnectDeadline)?.map_err(refusal)?;
    let offered = response.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
    if offered.is_none_or(|name| name.as_bytes() != SUBPROTOCOL.as_bytes()) {
        return Err(ReceiverError::Subprotocol);
    }
    Ok(socket)
}

fn refusal(error: tungstenite::Error) -> ReceiverError {
    match asked_wait_ms(&error) {
        Some(wait_ms) => ReceiverError::Busy { wait_ms },
        None => ReceiverError::Connect(Box::new(error)),
    }
}

/// Sends as much as the socket takes, without waiting for it, and looks for a message. A message leaves the session
/// only once the socket has room for it.
fn exchange(
    socket: &mut Socket,
    session: &mut Session,
    context: &mut Context<'_>,
) -> Poll<Result<Message, ReceiverError>> {
    let broken = |error| Poll::Ready(Err(breach(error)));
    let mut socket = Pin::new(socket);
    while let Poll::Ready(ready) = socket.as_mut().poll_ready(context) {
        if let Err(error) = ready {
            return broken(error);
        }
        let Some(message) = session.next_outgoing() else { break };
        let bytes = match message.encode() {
            Ok(bytes) => bytes,
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        if let Err(error) = socket.as_mut().start_send(Message::Binary(bytes)) {
            return broken(error);
        }
    }
    if let Poll::Ready(Err(error)) = socket.as_mut().poll_flush(context) {
        return broken(error);
    }
    match socket.poll_next(context) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(None) => Poll::Ready(Err(ReceiverError::Closed { code: NO_CLOSE_CODE })),
        Poll::Ready(Some(Err(error))) => broken(error),
        Poll::Ready(Some(Ok(message))) => Poll::Ready(Ok(message)),
    }
}

fn breach(error: tungstenite::Error) -> ReceiverError {
    match error {
        tungstenite::Error::Capacity(CapacityError::MessageTooLong { size, .. }) => {
            ReceiverError::TooLarge { bytes: size }
        }
        error => ReceiverError::Socket(Box::new(error)),
    }
}

/// The wait that a refusing server asks for, in milliseconds.
fn asked_wait_ms(error: &tungstenite::Error) -> Option<u64> {
    let tungstenite::Error::Http(response) = error else { return None };
    if response.status() != StatusCode::SERVICE_UNAVAILABLE {
        return None;
    }
    let seconds: u64 = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    seconds.checked_mul(1_000)
}
