//! What every venue's feed shares: the way from a raw frame to events in exact steps, and the errors of it.
//!
//! Never: a venue's own rules; those are in the venue's folder.

pub mod listings;
pub mod number;
pub mod time;

use crate::raw::RawFrame;
use market::{Event, LegId, ScaleError, Venue, instrument::DirectoryFull};
use std::sync::Arc;

/// Why a frame gave no event. It goes to the dead letters with this reason; the book stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum Undecodable {
    /// Not the JSON that the venue documents.
    #[error("{venue}: not a message of the venue's format")]
    Json {
        /// Who sent it.
        venue: Venue,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A price or quantity that is no number, is negative, or does not fit.
    #[error("{venue} {symbol}: number {text:?} cannot be taken")]
    Number {
        /// Who sent it.
        venue: Venue,
        /// For which instrument.
        symbol: Box<str>,
        /// The venue's text, cut to a sane length.
        text: Box<str>,
        /// Why.
        #[source]
        source: ScaleError,
    },
    /// A time outside of any plausible range in the documented unit.
    #[error("{venue}: implausible time {text:?}")]
    Time {
        /// Who sent it.
        venue: Venue,
        /// The venue's text.
        text: Box<str>,
    },
    /// A symbol that cannot be split into its assets.
    #[error("{venue}: unknown symbol {symbol:?}; name its assets in an [[instrument]] table")]
    Symbol {
        /// Who sent it.
        venue: Venue,
        /// The symbol, cut to a sane length.
        symbol: Box<str>,
    },
    /// Update ids in an order that the venue excludes.
    #[error("{venue} {symbol}: first update id {first} after last {last}")]
    Ids {
        /// Who sent it.
        venue: Venue,
        /// For which instrument.
        symbol: Box<str>,
        /// First id.
        first: u64,
        /// Last id.
        last: u64,
    },
    /// A trade without an id, or with one that is no such.
    #[error("{venue} {symbol}: a trade needs an id that orders it")]
    TradeId {
        /// Who sent it.
        venue: Venue,
        /// For which instrument.
        symbol: Box<str>,
    },
    /// A binary frame from a venue that sends text.
    #[error("{venue}: binary frame where text was expected")]
    Binary {
        /// Who sent it.
        venue: Venue,
    },
    /// No room for another instrument.
    #[error(transparent)]
    Full(#[from] DirectoryFull),
}

/// A raw frame with its place in its stream.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The frame.
    pub frame: &'a RawFrame,
    /// Rises with every frame of the stream; the sequence of venues without ids of their own.
    pub position: u64,
    /// The leg that carried it.
    pub leg: LegId,
}

/// Counts of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// Frames offered.
    pub frames: u64,
    /// Frames of kinds that the tape has no use for.
    pub ignored: u64,
    /// Frames that could not be decoded.
    pub undecodable: u64,
    /// Checksums that matched.
    pub checksums_matched: u64,
    /// Checksums that did not.
    pub checksums_failed: u64,
}

/// One venue's decoder: raw frames in, events out. No I/O and no clock.
pub trait VenueFeed: Send {
    /// Decodes a frame, pushing what it says to `out`. On an error, what was pushed before it still holds.
    ///
    /// # Errors
    /// [`Undecodable`]: the frame belongs to the dead letters.
    fn decode(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable>;

    /// What happened so far.
    fn counts(&self) -> FeedCounts;

    /// The leg that an instrument's shown book came on last, where only one leg at a time feeds it.
    fn active(&self, _symbol: &str) -> Option<LegId> {
        None
    }

    /// Takes the books, by leg and symbol, that broke and need a subscription anew.
    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        Vec::new()
    }
}

/// The decoder of a venue.
#[must_use]
pub fn open(venue: Venue, listings: Arc<listings::Listings>) -> Box<dyn VenueFeed> {
    match venue {
        Venue::BinanceSpot => Box::new(crate::binance_spot::feed::Feed::new(listings)),
        Venue::KrakenSpot => Box::new(crate::kraken_spot::feed::Feed::new(listings)),
    }
}

/// At most this much of a venue's text goes into an error.
const EXCERPT_BYTES_MAX: usize = 64;

/// A venue's JSON as the shape that it documents, borrowed from the text.
pub(crate) fn json<'a, T: serde::Deserialize<'a>>(venue: Venue, text: &'a str) -> Result<T, Undecodable> {
    serde_json::from_str(text).map_err(|source| Undecodable::Json { venue, source })
}

pub(crate) fn excerpt(text: &str) -> Box<str> {
    let end = (0..=EXCERPT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().into()
}
