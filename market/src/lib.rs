//! The nouns of the tape: venues, instruments, exact numbers, ticks, books, versions and the guard that lets
//! none of them turn backwards.
//!
//! Never: input or output, a clock (`now` is always passed in), async code, floating point.

#![deny(clippy::float_arithmetic, clippy::as_conversions, clippy::indexing_slicing)]

pub mod admitted;
pub mod batch;
pub mod book;
pub mod decimal;
pub mod event;
pub mod feed;
pub mod guard;
pub mod instrument;
pub mod naive;
pub mod power;
pub mod quote;
pub mod scale;
pub mod tick;
pub mod trade;
pub mod tranche;
pub mod venue;
pub mod version;
pub mod view;

pub use admitted::{AdmittedChanges, AdmittedTrade};
pub use book::Book;
pub use decimal::{Decimal, DecimalError};
pub use event::{Ask, Body, Delta, Event, LegId, Listing, Restored, RestoredTick, Sequence, Snapshot, Window};
pub use feed::{Feed, FeedState, Flags};
pub use guard::Guard;
pub use instrument::{Directory, Instrument, PairId, SymbolId};
pub use quote::{Best, BestSide, Quote};
pub use scale::{Scale, ScaleError};
pub use tick::{Level, LevelChange, Side, Tick, TickChange, TickKey, TrancheId};
pub use trade::{Trade, TradeGuard};
pub use tranche::Tranches;
pub use venue::Venue;
pub use version::Version;
pub use view::{PairViews, ViewId, ViewKey, ViewPart, ViewRule, ViewValue, Views};

/// 256-bit unsigned integer: the funds at a tick in the instrument's quantity step.
pub use ruint::aliases::U256;
