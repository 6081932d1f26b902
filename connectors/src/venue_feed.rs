//! What every venue's feed shares: the way from a raw frame to events in exact steps, and the errors of it.
//!
//! Never: a venue's own rules; those are in the venue's folder.

pub(crate) mod check;
pub mod listings;
pub mod number;
pub(crate) mod numbered;
pub(crate) mod pulse;
pub(crate) mod row;
pub(crate) mod sequenced;
pub(crate) mod standby;
pub(crate) mod streams;
pub(crate) mod text_book;
pub mod time;
pub(crate) mod trades;
#[cfg(test)]
pub(crate) mod wire;

use crate::raw::{RawFrame, RawKind, RawPayload};
use market::{Event, LegId, ScaleError, Venue, instrument::DirectoryFull, tranche::TrancheRefused};
use std::{borrow::Cow, sync::Arc};

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
    /// Data of an instrument that was not subscribed to.
    #[error("{venue}: data of {symbol:?}, which was not subscribed to")]
    Unlisted {
        /// Who sent it.
        venue: Venue,
        /// The symbol, cut to a sane length.
        symbol: Box<str>,
    },
    /// Something that the venue documents is missing, or is none of what it may be.
    #[error("{venue}: {field} is {text:?}")]
    Field {
        /// Who sent it.
        venue: Venue,
        /// Of what.
        field: &'static str,
        /// What stands there, cut to a sane length.
        text: Box<str>,
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
    /// A block of which something cannot be taken; then nothing of it is.
    #[error("{venue}: {source}")]
    Block {
        /// Who sent it.
        venue: Venue,
        /// Why.
        source: crate::neutron_dex::message::BlockError,
    },
    /// No number for another tranche.
    #[error(transparent)]
    Tranche(#[from] TrancheRefused),
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
    /// Times that an instrument's check was put aside since it failed on book after book.
    pub checks_put_aside: u64,
    /// Times that a leg that stood by took over a book.
    pub switches: u64,
    /// Messages missing on a connection, by the venue's own count of them.
    pub missing: u64,
    /// Messages whose place on their connection was passed, by the same count: they came twice, or too late.
    pub passed: u64,
    /// Levels that were older than what is known of them, where the venue sends out of order.
    pub suppressed: u64,
}

impl std::ops::AddAssign for FeedCounts {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.ignored += other.ignored;
        self.undecodable += other.undecodable;
        self.checksums_matched += other.checksums_matched;
        self.checksums_failed += other.checksums_failed;
        self.checks_put_aside += other.checks_put_aside;
        self.switches += other.switches;
        self.missing += other.missing;
        self.passed += other.passed;
        self.suppressed += other.suppressed;
    }
}

/// Where a feed keeps its books: what it answers is the same for every venue that keeps them so.
pub trait Books {
    /// What happened to the feed so far.
    fn counts(&self) -> FeedCounts;

    /// The same, to be counted on.
    fn counts_mut(&mut self) -> &mut FeedCounts;

    /// The leg that an instrument's shown book came on last, where only one leg at a time feeds it.
    fn active(&self, _symbol: &str) -> Option<LegId> {
        None
    }

    /// The arrival's connection began or ended.
    fn reconnected(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>);

    /// See [`VenueFeed::torn`].
    fn torn(&mut self, _arrival: Arrival<'_>, _out: &mut Vec<Event>) -> bool {
        false
    }

    /// See [`VenueFeed::look_after`].
    fn look_after(&mut self, leg: LegId, now_ns: u64);

    /// See [`VenueFeed::repairs`].
    fn repairs(&mut self) -> Vec<(LegId, Box<str>)>;
}

/// One venue's decoder: raw frames in, events out. No I/O and no clock.
pub trait VenueFeed: Send {
    /// Whose it is.
    fn venue(&self) -> Venue;

    /// Its books.
    fn books(&self) -> &dyn Books;

    /// The same, to be changed.
    fn books_mut(&mut self) -> &mut dyn Books;

    /// What a message says, as events in `out`. On an error, what was pushed before it still holds.
    ///
    /// # Errors
    /// [`Undecodable`]: the frame belongs to the dead letters.
    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable>;

    /// What the answer to a REST request says; the same.
    ///
    /// # Errors
    /// [`Undecodable`]: the frame belongs to the dead letters.
    fn reply(
        &mut self,
        _arrival: Arrival<'_>,
        _url: Option<&str>,
        _text: &str,
        _out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        self.books_mut().counts_mut().ignored += 1;
        Ok(())
    }

    /// The arrival's connection began or ended.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.books_mut().reconnected(arrival, out);
    }

    /// What happened so far.
    fn counts(&self) -> FeedCounts {
        self.books().counts()
    }

    /// The leg that an instrument's shown book came on last, where only one leg at a time feeds it.
    fn active(&self, symbol: &str) -> Option<LegId> {
        self.books().active(symbol)
    }

    /// Looks for instruments that a leg has ceased to carry although it ticks; they are among [`VenueFeed::repairs`] then.
    fn look_after(&mut self, leg: LegId, now_ns: u64) {
        self.books_mut().look_after(leg, now_ns);
    }

    /// Takes the books, by leg and symbol, that broke and need a subscription anew.
    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        self.books_mut().repairs()
    }

    /// Takes the legs that missed a message, by the venue's count of all messages of a connection: only a connection
    /// anew heals that.
    fn reconnects(&mut self) -> Vec<LegId> {
        Vec::new()
    }

    /// A message of a leg was no text of the venue at all, so nobody knows what it was about. Whether that leaves the leg
    /// without anything to go on with, so that its connection must be made anew; where updates have ids the next one tells.
    fn torn(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> bool {
        self.books_mut().torn(arrival, out)
    }

    /// Decodes a frame, pushing what it says to `out`. On an error, what was pushed before it still holds.
    ///
    /// # Errors
    /// [`Undecodable`]: the frame belongs to the dead letters.
    fn decode(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        self.books_mut().counts_mut().frames += 1;
        let frame = arrival.frame;
        match frame.kind {
            RawKind::Ws | RawKind::Http => {}
            RawKind::Open | RawKind::Close => {
                self.connection(arrival, out);
                return Ok(());
            }
            RawKind::Send | RawKind::Alive => return Ok(()),
        }
        let decoded = match (&frame.raw, frame.kind) {
            (RawPayload::Binary(_), _) => Err(Undecodable::Binary { venue: self.venue() }),
            (RawPayload::Text(text), RawKind::Http) => self.reply(arrival, frame.url.as_deref(), text, out),
            (RawPayload::Text(text), _) => self.message(arrival, text, out),
        };
        self.books_mut().counts_mut().undecodable += u64::from(decoded.is_err());
        decoded
    }
}

/// The decoder of a venue.
#[must_use]
pub fn open(venue: Venue, listings: Arc<listings::Listings>) -> Box<dyn VenueFeed> {
    match venue {
        Venue::BinanceSpot => Box::new(crate::binance_spot::feed::Feed::new(listings)),
        Venue::KrakenSpot => Box::new(crate::kraken_spot::feed::Feed::new(listings)),
        Venue::BinanceUsdm => Box::new(crate::binance_usdm::feed::Feed::new(listings)),
        Venue::Coinbase => Box::new(crate::coinbase::feed::Feed::new(listings)),
        Venue::Okx => Box::new(crate::okx::feed::Feed::new(listings)),
        Venue::Bitfinex => Box::new(crate::bitfinex::feed::Feed::new(listings)),
        Venue::Deribit => Box::new(crate::deribit::feed::Feed::new(listings)),
        Venue::KrakenFutures => Box::new(crate::kraken_futures::feed::Feed::new(listings)),
        Venue::Kucoin => Box::new(crate::kucoin::feed::Feed::new(listings)),
        Venue::Bitstamp => Box::new(crate::bitstamp::feed::Feed::new(listings)),
        Venue::Gemini => Box::new(crate::gemini::feed::Feed::new(listings)),
        Venue::Bitmex => Box::new(crate::bitmex::feed::Feed::new(listings)),
        Venue::Bitget => Box::new(crate::bitget::feed::Feed::new(listings)),
        Venue::DydxV3 => Box::new(crate::dydx_v3::feed::Feed::new(listings)),
        Venue::NeutronDex => Box::new(crate::neutron_dex::feed::Feed::new(listings)),
    }
}

/// Base and quote asset of a symbol, as its text says them.
pub(crate) type Assets<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The assets of a symbol by its venue's own rule; none where there is no such rule or it says nothing.
///
/// A contract (a future, a perpetual, an option) is an asset of its own: its base is the whole symbol, so that its price
/// is never mixed with that of what it is about.
pub(crate) fn assets(venue: Venue, symbol: &str) -> Option<Assets<'_>> {
    match venue {
        Venue::BinanceSpot => listings::separated(symbol, '/').or_else(|| listings::joined(symbol)),
        Venue::KrakenSpot => listings::separated(symbol, '/'),
        Venue::BinanceUsdm => crate::binance_usdm::message::assets(symbol),
        Venue::Coinbase => crate::coinbase::message::assets(symbol),
        Venue::Okx => crate::okx::message::assets(symbol),
        Venue::Bitfinex => crate::bitfinex::message::assets(symbol),
        Venue::Deribit => crate::deribit::message::assets(symbol),
        Venue::KrakenFutures => crate::kraken_futures::message::assets(symbol),
        Venue::Kucoin => crate::kucoin::message::assets(symbol),
        Venue::Bitstamp => crate::bitstamp::message::assets(symbol),
        Venue::Gemini => crate::gemini::message::assets(symbol),
        Venue::Bitmex => crate::bitmex::message::assets(symbol),
        Venue::Bitget => crate::bitget::message::assets(symbol),
        Venue::DydxV3 => crate::dydx_v3::message::assets(symbol),
        Venue::NeutronDex => crate::neutron_dex::message::assets(symbol),
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
