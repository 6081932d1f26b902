//! The Rust receiver of the wire: chains, the receiver guard, the session that keeps what a terminal shows, and the
//! connection that feeds it from one of several servers. The arrow is `connection -> session -> guard -> chain -> book`.
//!
//! Never: a shown version that decreases; input or output, or a clock, outside of `connection`.

#![deny(clippy::float_arithmetic, clippy::as_conversions, clippy::indexing_slicing)]

pub mod backoff;
pub mod book;
pub mod chain;
pub mod connection;
pub mod guard;
pub mod http_body;
pub mod notice;
mod servers;
pub mod session;
pub mod subscriptions;
pub mod trades;

pub use backoff::Backoff;
pub use book::Book;
pub use connection::{ReceiverError, Terminal};
pub use guard::BookGuard;
pub use http_body::{BodyError, HttpBook, books_of};
pub use notice::{Link, Notice};
pub use session::{Counters, InstrumentView, Session, SessionError, ShownQuote, StandingView};
pub use subscriptions::SubscribeError;
pub use trades::ShownTrade;
