//! What differs by venue on a live connection: addresses, requests, what answers mean, how one instrument's snapshot is
//! asked for again. Pure functions; a venue implements [`Protocol`] in its own folder.
//!
//! Never: state, a clock, or a message's prices.

use super::dialect::{Dialect, dialects};
use crate::venue_feed::{Undecodable, excerpt, number::token};
use market::Venue;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What a venue says on its connection about the connection; books and trades are the decoder's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// It lives, and nothing else.
    Life,
    /// Data that prove an instrument's subscription: any of its stream, or its snapshot where the subscription brings
    /// one. Named as by [`Protocol::key`].
    Data(Cow<'a, str>),
    /// The same for several instruments at once.
    DataOf(Vec<Cow<'a, str>>),
    /// A request was answered. Without an id and a key it is the one that was sent first.
    Reply {
        /// The id that the request had, if the venue repeats it.
        request: Option<u64>,
        /// The instrument, as by [`Protocol::key`], where the venue answers for each one.
        key: Option<Cow<'a, str>>,
        /// What is wrong with it, in the venue's words.
        refusal: Option<Box<str>>,
    },
    /// An instrument was subscribed to, and its messages name it by this handle of the connection from now on.
    Subscribed {
        /// The instrument, as by [`Protocol::key`].
        key: Cow<'a, str>,
        /// The handle; [`Answer::Data`] and [`Answer::Unsubscribed`] may name it in place of the key.
        handle: Cow<'a, str>,
    },
    /// The subscription with this handle ended.
    Unsubscribed(Cow<'a, str>),
    /// What goes beside the book of an instrument was subscribed to, or refused, where the venue tells it apart.
    Beside {
        /// The instrument, as by [`Protocol::key`].
        key: Cow<'a, str>,
        /// What is wrong with it, in the venue's words.
        refusal: Option<Box<str>>,
    },
    /// A request was answered by naming all subscriptions of the connection as they are now: what was asked for and is
    /// not among them is refused.
    Standing {
        /// The instruments whose books are subscribed to, as by [`Protocol::key`].
        books: Vec<Cow<'a, str>>,
        /// Those of which what goes beside is.
        beside: Vec<Cow<'a, str>>,
    },
    /// It asks whether we live, and wants this text.
    Respond(String),
    /// The server says that it goes away soon.
    Leaving,
}

/// A REST request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestRequest {
    /// Path and query, to be put behind the base URL.
    pub path: String,
    /// What it costs of the venue's allowance.
    pub weight: u32,
}

/// What a venue says about one of its symbols, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The symbol as it is subscribed to.
    pub symbol: Box<str>,
    /// The base.
    pub asset_0: Box<str>,
    /// The quote.
    pub asset_1: Box<str>,
    /// What its prices are multiples of, as a decimal text; none where the venue does not say.
    pub price_step: Option<Box<str>>,
    /// The same of its quantities.
    pub quantity_step: Option<Box<str>>,
    /// The venue's word for its state where that is not trading.
    pub halted: Option<Box<str>>,
}

/// The venue's word for a state that is not the one for trading; one that is not told is taken for trading.
pub(crate) fn halted(state: Option<&RawValue>, trading: &str) -> Option<Box<str>> {
    state.map(token).filter(|state| *state != trading).map(excerpt)
}

/// A venue's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Where its WebSocket is, unless told otherwise.
    pub socket_url: &'static str,
    /// Where its REST is, without a path.
    pub rest_url: &'static str,
    /// Silence, control frames included, after which a connection counts as dead, in milliseconds.
    pub silence_ms: u64,
    /// Time from a request to its answer at most, in milliseconds.
    pub answer_ms: u64,
    /// Time from a subscription's acknowledgement to its first data at most, in milliseconds.
    pub data_ms: u64,
    /// Whether the first data must come for each instrument; else one message of any proves them all.
    pub data_each: bool,
    /// Least time between two of our messages, in milliseconds.
    pub pace_ms: u64,
    /// Instruments of one request.
    pub batch: usize,
    /// Instruments of one connection.
    pub instruments_max: usize,
    /// Weight of REST requests in any minute.
    pub weight_per_minute: u32,
    /// After so much silence of ours and theirs [`Protocol::ping`] is sent, in milliseconds; 0 for never.
    pub ping_ms: u64,
    /// Requests that subscribe or end subscriptions on one connection in any hour; none where the venue names no bound.
    pub requests_per_hour: Option<u32>,
    /// What a refusal contains that speaks of too many requests, and not of what was asked for; none where the venue
    /// does not tell it apart.
    pub too_often: Option<&'static str>,
}

/// The protocol of one venue.
pub trait Protocol: Send + Sync {
    /// Whose it is.
    fn venue(&self) -> Venue;

    /// Its numbers.
    fn terms(&self) -> &'static Terms;

    /// Connections that the venue allows within a minute, of all legs together; none where its numbers cannot be met.
    fn connections_per_minute(&self) -> Option<u64> {
        None
    }

    /// How its messages name an instrument's stream.
    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str>;

    /// The request that subscribes to the books of these.
    fn subscribe(&self, symbols: &[&str], id: u64) -> String;

    /// What is said first on a connection, before anything is subscribed to; it is not waited for.
    fn greeting(&self, _id: u64) -> Vec<String> {
        Vec::new()
    }

    /// What is said on a connection that is silent, so that the venue answers.
    fn ping(&self, _id: u64) -> Option<String> {
        None
    }

    /// Whether a subscription can be ended by its handle alone; one that has none is asked for again without that.
    fn ends_by_handle(&self) -> bool {
        false
    }

    /// The request that ends the subscription to the book of one, which has this handle where the venue gave one.
    fn unsubscribe(&self, symbol: &str, handle: Option<&str>, id: u64) -> String;

    /// The request that subscribes to what goes beside the books of these, where that needs one of its own.
    fn subscribe_beside(&self, symbols: &[&str], id: u64) -> Option<String>;

    /// What a message means. It must be total, and cheap for data: it sees every message before it is decoded.
    fn understand<'a>(&self, text: &'a str) -> Answer<'a>;

    /// The request for one instrument's snapshot; none where only a subscription anew brings it.
    fn snapshot(&self, symbol: &str) -> Option<RestRequest>;

    /// The request for the list of instruments.
    fn listing(&self) -> RestRequest;

    /// The requests that list all of these, where the venue lists kinds of instruments apart.
    fn listings(&self, _symbols: &[Box<str>]) -> Vec<RestRequest> {
        vec![self.listing()]
    }

    /// What an answer says about symbols.
    ///
    /// # Errors
    /// [`Undecodable`] if it is not what the venue documents.
    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable>;
}

/// The protocol of a venue that can be connected to, the first of those that it speaks; none of one that is known from
/// captures alone.
#[must_use]
pub fn protocol(venue: Venue) -> Option<&'static dyn Protocol> {
    spoken(venue, None)
}

/// The same in a dialect, if the venue has that one.
#[must_use]
pub fn spoken(venue: Venue, dialect: Option<Dialect>) -> Option<&'static dyn Protocol> {
    let dialect = dialect.or_else(|| dialects(venue).first().copied());
    if dialect.is_some_and(|dialect| !dialects(venue).contains(&dialect)) {
        return None;
    }
    match venue {
        Venue::BinanceSpot => Some(&crate::binance_spot::live::BinanceSpot),
        Venue::KrakenSpot => Some(&crate::kraken_spot::live::KrakenSpot),
        Venue::BinanceUsdm => Some(&crate::binance_usdm::live::BinanceUsdm),
        Venue::Coinbase if dialect == Some(Dialect::Exchange) => Some(&crate::coinbase::live::Exchange),
        Venue::Coinbase => Some(&crate::coinbase::live::AdvancedTrade),
        Venue::Okx => Some(&crate::okx::live::Okx),
        Venue::Bitfinex => Some(&crate::bitfinex::live::Bitfinex),
        Venue::Deribit => Some(&crate::deribit::live::Deribit),
        Venue::KrakenFutures
        | Venue::Kucoin
        | Venue::Bitstamp
        | Venue::Gemini
        | Venue::Bitmex
        | Venue::Bitget
        | Venue::DydxV3
        | Venue::NeutronDex => None,
    }
}
