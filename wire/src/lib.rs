//! The bytes between server and terminal: wire version 1, specified in `docs/WIRE.md`. Encoders refuse what the
//! specification forbids; decoders are total: any bytes give a value or a [`DecodeError`].
//!
//! Never: a socket, a clock, async code, floating point, an allocation that the input's length does not bound.

#![deny(clippy::float_arithmetic, clippy::as_conversions, clippy::indexing_slicing)]

pub mod block;
pub mod body;
pub mod bounds;
pub mod close;
pub mod dictionary;
pub mod error;
pub mod frame;
pub mod hello;
pub mod message;
pub mod request;
mod varint;
pub mod views;

pub use block::{
    BestBlock, Block, BookDelta, BookSnapshot, DigestBlock, QuoteBlock, StatusBlock, TradesBlock, ViewBlock,
    decode_block, digest_of, encode_block, sort_changes,
};
pub use body::{Body, MEDIA_TYPE};
pub use close::CloseNotice;
pub use dictionary::{Dictionary, DictionaryInstrument, DictionaryPair};
pub use error::{DecodeError, EncodeError};
pub use frame::{ChainKind, Frame, FrameBuilder};
pub use hello::Hello;
pub use message::{Answer, ErrorCode, Gap, ServerError, ToTerminal};
pub use request::{Channel, Resync, Subscription, SubscriptionItem, ToServer};
pub use views::{ListedView, ViewList};

/// The version that this crate speaks; the first number in every hello.
pub const WIRE_VERSION: u16 = 1;

/// The WebSocket subprotocol that names the version at the handshake.
pub const SUBPROTOCOL: &str = "sprag.v1";
