//! Raw frames: what arrived on (or went out of) a venue connection, byte for byte, with its receive time. Captures, the
//! simulator and the live sockets all speak this one type.
//!
//! Never: a meaning given to the payload; decoding belongs to the venues.

use std::sync::Arc;

/// What a raw frame was on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RawKind {
    /// The connection opened; the frame's `url` says to where.
    Open,
    /// We sent this on the connection.
    Send,
    /// The venue sent this on the WebSocket.
    Ws,
    /// The venue answered a REST request; the frame's `url` says which.
    Http,
    /// The connection ended.
    Close,
    /// The venue sent a control frame, a ping for instance: it says that the connection lives, and nothing else.
    Alive,
}

/// A payload exactly as it was on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawPayload {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Vec<u8>),
}

/// One frame of one connection, at the time it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFrame {
    /// Receive time, Unix nanoseconds.
    pub ts_ns: u64,
    /// What the frame was.
    pub kind: RawKind,
    /// The connection's id, unique inside a capture or a run.
    pub conn: Arc<str>,
    /// Where an open or a request went; nothing for messages.
    pub url: Option<Arc<str>>,
    /// The exact payload.
    pub raw: RawPayload,
}
