//! The task of one leg: carries out what its machine says, on a real WebSocket, and tells it what happened.
//!
//! A ping is answered at once whatever else goes on: each turn first writes what waits, the library's pongs included, and
//! reads only while the last frame found room.
//!
//! Never: a decision of its own about when to connect, to give up, or what to subscribe to.

use super::{
    LegLink, Link, Shared,
    leg::{Action, Fault, Note},
    numbers::count,
};
use crate::raw::{RawFrame, RawKind, RawPayload};
use futures_util::{Sink, Stream};
use std::{
    collections::VecDeque,
    error::Error,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
};
use tokio::{
    net::TcpStream,
    time::{Sleep, sleep_until, timeout_at},
};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{
        self, Message, Utf8Bytes,
        error::CapacityError,
        http::{StatusCode, header},
        protocol::WebSocketConfig,
    },
};

/// Bytes of a message at most: a hundred times the largest seen on any venue.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Read buffer in bytes: many small messages, or a part of a snapshot.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// Bytes that wait to be written at most; requests are small and paced.
const WRITE_BUFFER_BYTES_MAX: usize = 1 << 20;

/// At most one control frame in this time is told to the decoder, in nanoseconds; a flood of them must not fill the
/// queue, which cannot refuse them.
const ALIVE_EVERY_NS: u64 = 100_000_000;

/// What a close without a code counts as.
const NO_CLOSE_CODE: u16 = 1005;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Why a connection ended or was not made.
#[derive(Debug, thiserror::Error)]
pub enum LegError {
    /// The machine gave it up.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// It could not be made.
    #[error("the connection could not be made")]
    Connect(#[source] Box<tungstenite::Error>),
    /// The venue has no place for us now.
    #[error("the venue answers {status}")]
    Busy {
        /// What it answers.
        status: StatusCode,
        /// How long it asks us to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// It broke.
    #[error("the connection broke")]
    Socket(#[source] Box<tungstenite::Error>),
    /// A message was longer than we take.
    #[error("a message of more than {MESSAGE_BYTES_MAX} bytes")]
    TooLong(#[source] CapacityError),
    /// The venue closed it.
    #[error("the venue closed the connection with code {code}")]
    Closed {
        /// The close code; 1005 if there was none.
        code: u16,
    },
}

impl From<tungstenite::Error> for LegError {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Capacity(error @ CapacityError::MessageTooLong { .. }) => Self::TooLong(error),
            error => Self::Socket(Box::new(error)),
        }
    }
}

impl LegError {
    /// How long the venue asks us to stay away, in milliseconds.
    fn asked_wait_ms(&self) -> Option<u64> {
        match self {
            Self::Busy { retry_after_ms, .. } => *retry_after_ms,
            _ => None,
        }
    }
}

/// Keeps one leg connected, for ever.
pub(super) async fn run(shared: Arc<Shared>, link: Arc<Link>, index: usize) {
    let Some(leg) = link.legs.get(index) else { return };
    let task = Task { shared: &shared, link: &link, leg, index };
    loop {
        task.until_due().await;
        let error = match task.connect().await {
            Ok(socket) => {
                let error = task.opened(socket).await;
                task.closed(&error);
                error
            }
            Err(error) => {
                count(&link.numbers.connect_failures);
                tracing::warn!(conn = &*leg.conn, error = &error as &dyn Error, "no connection");
                error
            }
        };
        leg.machine().ended(shared.clock.now_ns(), rand::random(), error.asked_wait_ms());
    }
}

struct Task<'a> {
    shared: &'a Shared,
    link: &'a Link,
    leg: &'a LegLink,
    index: usize,
}

/// An open connection.
struct Open<'s> {
    socket: Socket,
    outgoing: VecDeque<String>,
    /// A frame that found no room yet.
    refused: Option<RawFrame>,
    sleep: Pin<&'s mut Sleep>,
    alive_at_ns: u64,
}

impl Task<'_> {
    /// Until the machine wants a connection.
    async fn until_due(&self) {
        loop {
            let now_ns = self.shared.clock.now_ns();
            let (action, deadline_ns) = {
                let mut machine = self.leg.machine();
                (machine.poll(now_ns), machine.deadline_ns())
            };
            if action == Some(Action::Connect) {
                return;
            }
            sleep_until(self.shared.clock.instant(deadline_ns)).await;
        }
    }

    async fn connect(&self) -> Result<Socket, LegError> {
        let limits = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let tls = Connector::Rustls(Arc::clone(&self.shared.tls));
        let connecting = connect_async_tls_with_config(&*self.link.socket_url, Some(limits), true, Some(tls));
        let deadline = self.shared.clock.instant(self.leg.machine().deadline_ns());
        match timeout_at(deadline, connecting).await {
            Err(_) => Err(Fault::ConnectDeadline.into()),
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(tungstenite::Error::Http(response))) => {
                Err(LegError::Busy { status: response.status(), retry_after_ms: retry_after_ms(response.headers()) })
            }
            Ok(Err(error)) => Err(LegError::Connect(Box::new(error))),
        }
    }

    async fn opened(&self, socket: Socket) -> LegError {
        let numbers = &self.link.numbers;
        count(&numbers.connects);
        numbers.legs_open.fetch_add(1, Relaxed);
        tracing::info!(conn = &*self.leg.conn, url = &*self.link.socket_url, "connected");
        self.leg.machine().opened(self.shared.clock.now_ns());
        let mut frame = self.word(RawKind::Open);
        frame.url = Some(Arc::clone(&self.link.socket_url));
        self.shared.queue.push_word(self.link.protocol.venue(), frame);
        let sleep = std::pin::pin!(sleep_until(self.shared.clock.instant(None)));
        let mut open = Open { socket, outgoing: VecDeque::new(), refused: None, sleep, alive_at_ns: 0 };
        loop {
            if let Err(error) = self.turn(&mut open).await {
                return error;
            }
        }
    }

    fn closed(&self, error: &LegError) {
        let numbers = &self.link.numbers;
        count(&numbers.disconnects);
        numbers.legs_open.fetch_sub(1, Relaxed);
        if matches!(error, LegError::Fault(Fault::HeldUp)) {
            count(&numbers.backpressure_drops);
        }
        tracing::warn!(conn = &*self.leg.conn, error = error as &dyn Error, "the connection ended");
        if self.link.by_rest {
            self.link.snapshots().leg_down(self.index);
        }
        self.shared.queue.push_word(self.link.protocol.venue(), self.word(RawKind::Close));
    }

    /// Does what is due, then waits for the next thing to happen.
    async fn turn(&self, open: &mut Open<'_>) -> Result<(), LegError> {
        self.act(&mut open.outgoing)?;
        let deadline = self.shared.clock.instant(self.leg.machine().deadline_ns());
        if open.sleep.deadline() != deadline {
            open.sleep.as_mut().reset(deadline);
        }
        let Some(frame) = open.refused.take() else {
            return tokio::select! {
                message = poll_fn(|context| exchange(&mut open.socket, &mut open.outgoing, context)) => {
                    self.received(message?, open)
                }
                () = open.sleep.as_mut() => Ok(()),
                () = self.leg.wake.notified() => Ok(()),
            };
        };
        let mut room = std::pin::pin!(self.shared.queue.room());
        // From here on no word of room is missed.
        room.as_mut().enable();
        match self.shared.queue.push(self.link.protocol.venue(), frame) {
            Ok(()) => {
                self.leg.machine().released(self.shared.clock.now_ns());
                return Ok(());
            }
            Err(frame) => open.refused = Some(frame),
        }
        // Not read, but still written: pongs go out.
        tokio::select! {
            () = room => Ok(()),
            error = poll_fn(|context| write(&mut open.socket, &mut open.outgoing, context)) => Err(error),
            () = open.sleep.as_mut() => Ok(()),
        }
    }

    fn act(&self, outgoing: &mut VecDeque<String>) -> Result<(), LegError> {
        let now_ns = self.shared.clock.now_ns();
        loop {
            let action = self.leg.machine().poll(now_ns);
            match action {
                None | Some(Action::Connect) => return Ok(()),
                Some(Action::Send(text)) => {
                    let mut frame = self.word(RawKind::Send);
                    frame.raw = RawPayload::Text(text.clone());
                    self.shared.queue.push_word(self.link.protocol.venue(), frame);
                    outgoing.push_back(text);
                }
                Some(Action::Carried(at)) => {
                    self.link.snapshots().carried(self.index, at);
                    self.link.wanted.notify_one();
                }
                Some(Action::Note(note)) => self.note(&note),
                Some(Action::Drop(fault)) => return Err(fault.into()),
            }
        }
    }

    fn note(&self, note: &Note) {
        let (numbers, conn) = (&self.link.numbers, &*self.leg.conn);
        let symbol = |at: &usize| self.link.symbols.get(*at).map(|symbol| &**symbol).unwrap_or_default();
        match note {
            Note::Resubscribed(at) => {
                count(&numbers.resubscribes);
                tracing::info!(conn, symbol = symbol(at), "subscribing anew");
            }
            Note::Insisted(at) => {
                count(&numbers.insisted);
                tracing::error!(conn, symbol = symbol(at), "subscribed anew again and again, and no book stays right");
            }
            Note::Refused(at, reason) => {
                count(&numbers.subscription_failures);
                tracing::error!(conn, symbol = symbol(at), %reason, "the venue refuses the subscription");
            }
            Note::Dataless(at) => {
                count(&numbers.subscription_failures);
                tracing::warn!(conn, symbol = symbol(at), "acknowledged, but no data came");
            }
        }
    }

    fn received(&self, message: Message, open: &mut Open<'_>) -> Result<(), LegError> {
        let now_ns = self.shared.clock.now_ns();
        let raw = match message {
            Message::Text(text) => {
                self.leg.machine().message(now_ns, &text);
                RawPayload::Text(text.as_str().to_owned())
            }
            Message::Binary(bytes) => {
                self.leg.machine().heard(now_ns);
                RawPayload::Binary(bytes.into())
            }
            Message::Close(frame) => {
                return Err(LegError::Closed { code: frame.map_or(NO_CLOSE_CODE, |frame| frame.code.into()) });
            }
            // The library has put the pong where the next turn writes it.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {
                self.leg.machine().heard(now_ns);
                if now_ns >= open.alive_at_ns {
                    open.alive_at_ns = now_ns.saturating_add(ALIVE_EVERY_NS);
                    self.shared.queue.push_word(self.link.protocol.venue(), self.word(RawKind::Alive));
                }
                return Ok(());
            }
        };
        let numbers = &self.link.numbers;
        let bytes = match &raw {
            RawPayload::Text(text) => text.len(),
            RawPayload::Binary(bytes) => bytes.len(),
        };
        count(&numbers.messages);
        numbers.bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Relaxed);
        let frame = RawFrame { raw, ..self.word(RawKind::Ws) };
        if let Err(frame) = self.shared.queue.push(self.link.protocol.venue(), frame) {
            open.refused = Some(frame);
            count(&numbers.backpressure_waits);
            self.leg.machine().held(now_ns);
        }
        Ok(())
    }

    /// A frame of this connection without a payload.
    fn word(&self, kind: RawKind) -> RawFrame {
        let raw = RawPayload::Text(String::new());
        RawFrame { ts_ns: (self.shared.now_ns)(), kind, conn: Arc::clone(&self.leg.conn), url: None, raw }
    }
}

fn retry_after_ms(headers: &header::HeaderMap) -> Option<u64> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    seconds.checked_mul(1_000)
}

/// Writes as much as the socket takes; ready only with an error.
fn write(socket: &mut Socket, outgoing: &mut VecDeque<String>, context: &mut Context<'_>) -> Poll<LegError> {
    let mut socket = Pin::new(socket);
    while !outgoing.is_empty()
        && let Poll::Ready(ready) = socket.as_mut().poll_ready(context)
    {
        let Some(text) = outgoing.pop_front() else { break };
        if let Err(error) = ready.and_then(|()| socket.as_mut().start_send(Message::Text(Utf8Bytes::from(text)))) {
            return Poll::Ready(error.into());
        }
    }
    match socket.poll_flush(context) {
        Poll::Ready(Err(error)) => Poll::Ready(error.into()),
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
    }
}

/// Writes as much as the socket takes, without waiting for it, and looks for a message.
fn exchange(
    socket: &mut Socket,
    outgoing: &mut VecDeque<String>,
    context: &mut Context<'_>,
) -> Poll<Result<Message, LegError>> {
    if let Poll::Ready(error) = write(socket, outgoing, context) {
        return Poll::Ready(Err(error));
    }
    match Pin::new(socket).poll_next(context) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(None) => Poll::Ready(Err(LegError::Closed { code: NO_CLOSE_CODE })),
        Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error.into())),
        Poll::Ready(Some(Ok(message))) => Poll::Ready(Ok(message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_is_an_error_of_its_own() {
        let too_long = CapacityError::MessageTooLong { size: MESSAGE_BYTES_MAX + 1, max_size: MESSAGE_BYTES_MAX };
        assert!(matches!(LegError::from(tungstenite::Error::Capacity(too_long)), LegError::TooLong(_)));
        let other = tungstenite::Error::Capacity(CapacityError::TooManyHeaders);
        assert!(matches!(LegError::from(other), LegError::Socket(_)));
    }
}
