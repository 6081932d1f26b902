//! Binance spot and USD-M futures as servers: what is served is passed on to those who subscribed to it, and every symbol's
//! book is kept beside it for REST, by the venue's rules for a local order book.
//!
//! Update ids are served as they come, plus a shift per symbol that only the fault `reset_ids` changes. The simulated
//! market comes in the words of spot; for USD-M it is worded here, with ids that all symbols share.
//!
//! Never: a depth message that the kept book has not seen.

mod instrument;
mod request;
mod rest;
mod usdm;

use super::{
    bus::{Bus, Kind, Subscriptions},
    reference::{self, Book, Side, Snapshot},
};
use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    simulator::SimInstrument,
};
use foldhash::{HashMap, HashMapExt};
pub(super) use instrument::Instrument;
use instrument::{Ids, changes, levels};
use market::Venue;
pub(super) use request::{Streams, receive};
use rest::Weight;
pub(super) use rest::root;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The venues with this protocol.
pub(super) const VENUES: [Venue; 2] = [Venue::BinanceSpot, Venue::BinanceUsdm];

/// Assets that instruments are quoted in, for splitting a capture's symbols; the longest that fits counts.
const QUOTES: [&str; 26] = [
    "USDT", "FDUSD", "USDC", "TUSD", "BUSD", "USD1", "USDP", "USDS", "PAX", "USD", "DAI", "BTC", "ETH", "BNB", "XRP",
    "TRX", "DOGE", "EUR", "GBP", "TRY", "BRL", "AUD", "RUB", "JPY", "IDRT", "UAH",
];

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    stream: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// What tells a bare payload's stream.
#[derive(Deserialize)]
struct Bare<'a> {
    #[serde(borrow, default)]
    e: Option<Cow<'a, str>>,
    #[serde(borrow)]
    s: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Depth<'a> {
    #[serde(rename = "E")]
    event_ms: u64,
    /// USD-M: when the book changed.
    #[serde(default, rename = "T")]
    changed_ms: Option<u64>,
    #[serde(rename = "U")]
    first: u64,
    #[serde(rename = "u")]
    last: u64,
    /// USD-M: the last id of the message before.
    #[serde(default, rename = "pu")]
    previous: Option<u64>,
    #[serde(borrow, rename = "b")]
    bids: &'a RawValue,
    #[serde(borrow, rename = "a")]
    asks: &'a RawValue,
}

#[derive(Deserialize)]
struct Ticker<'a> {
    u: u64,
    /// USD-M: when it was told, and when the book changed.
    #[serde(default, rename = "E")]
    event_ms: Option<u64>,
    #[serde(default, rename = "T")]
    changed_ms: Option<u64>,
    #[serde(borrow, rename = "b")]
    bid: &'a RawValue,
    #[serde(borrow, rename = "B")]
    bid_quantity: &'a RawValue,
    #[serde(borrow, rename = "a")]
    ask: &'a RawValue,
    #[serde(borrow, rename = "A")]
    ask_quantity: &'a RawValue,
}

#[derive(Deserialize)]
struct RestDepth<'a> {
    #[serde(rename = "lastUpdateId")]
    last: u64,
    #[serde(borrow)]
    bids: Vec<[Cow<'a, str>; 2]>,
    #[serde(borrow)]
    asks: Vec<[Cow<'a, str>; 2]>,
}

/// The venue.
pub(super) struct Binance {
    venue: Venue,
    instruments: Vec<Instrument>,
    by_symbol: HashMap<String, usize>,
    weight: Weight,
    /// The last id that was given in the simulated market at USD-M: one count for all symbols.
    counted: u64,
    /// Messages that were passed on although they could not be read.
    pub(super) unread: u64,
}

impl Binance {
    /// One of [`VENUES`], with a bound on the weight of requests in a minute.
    pub(super) fn new(venue: Venue, listed: impl IntoIterator<Item = SimInstrument>, weight_max: u32) -> Self {
        let (instruments, by_symbol) = (Vec::new(), HashMap::new());
        let weight = Weight::new(weight_max.min(rest::weight_max(venue)));
        let mut server = Self { venue, instruments, by_symbol, weight, counted: 0, unread: 0 };
        for listed in listed {
            server.list(listed);
        }
        server
    }

    pub(super) const fn venue(&self) -> Venue {
        self.venue
    }

    /// Of a capture's symbol.
    fn found(&mut self, symbol: &str) -> Option<&mut Instrument> {
        let listed = split(self.venue, symbol);
        self.list(listed)
    }

    /// Finds an instrument, or lists it.
    fn list(&mut self, listed: SimInstrument) -> Option<&mut Instrument> {
        let next = self.instruments.len();
        let index = *self.by_symbol.entry(listed.symbol.clone()).or_insert(next);
        if index == next {
            self.instruments.push(Instrument::new(listed));
        }
        self.instruments.get_mut(index)
    }

    pub(super) fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    pub(super) fn instrument(&self, symbol: &str) -> Option<&Instrument> {
        self.instruments.get(*self.by_symbol.get(symbol)?)
    }

    /// Restarts the ids of a symbol; false when it is not listed.
    pub(super) fn reset(&mut self, symbol: &str, next: u64) -> bool {
        let index = self.by_symbol.get(symbol).copied();
        let found = index.and_then(|index| self.instruments.get_mut(index));
        found.map(|instrument| instrument.reset(next)).is_some()
    }

    /// A capture begins anew.
    pub(super) fn restart(&mut self) {
        for instrument in &mut self.instruments {
            instrument.restart();
        }
    }

    /// Looks at a capture's frame before anything is served: symbols, decimals, and each symbol's first snapshot, which
    /// answers REST until its own place in the capture is reached (it is then ahead of the stream, as REST may be).
    pub(super) fn scan(&mut self, frame: &RawFrame) {
        let RawPayload::Text(text) = &frame.raw else { return };
        match frame.kind {
            RawKind::Http => {
                let Some((symbol, snapshot)) = self.recorded(frame, text) else { return };
                let Some(instrument) = self.found(&symbol) else { return };
                for side in reference::SIDES {
                    for level in snapshot.book.ladder(side).best_first() {
                        reference::note(&mut instrument.listed, &level.price, &level.quantity);
                    }
                }
                instrument.seed(snapshot);
            }
            RawKind::Ws => {
                let Some((stream, data)) = payload(text).filter(|(stream, _)| !stream.starts_with('!')) else { return };
                let Some((symbol, kind)) = stream.split_once('@') else { return };
                let Some(instrument) = self.found(&symbol.to_ascii_uppercase()) else { return };
                let Some(depth) = is_depth(kind).then(|| serde_json::from_str::<Depth<'_>>(data).ok()).flatten() else {
                    return;
                };
                for side in [depth.bids, depth.asks] {
                    for [price, quantity] in levels(side.get()).unwrap_or_default() {
                        reference::note(&mut instrument.listed, &price, &quantity);
                    }
                }
            }
            _ => {}
        }
    }

    /// A recorded REST reply with its symbol: the one in its url, or the only one that there is.
    fn recorded(&self, frame: &RawFrame, text: &str) -> Option<(String, Snapshot)> {
        let depth: RestDepth<'_> = serde_json::from_str(text).ok()?;
        let mut book = Book::new();
        for change in changes(Side::Bid, &depth.bids)?.iter().chain(&changes(Side::Ask, &depth.asks)?) {
            book.apply(change);
        }
        let query = frame.url.as_deref().and_then(|url| url.split_once('?')).map(|(_, query)| query);
        let named = query.and_then(|query| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find(|(name, _)| name == "symbol").map(|(_, symbol)| symbol.into_owned())
        });
        let only = || match self.instruments.as_slice() {
            [only] => Some(only.listed.symbol.clone()),
            _ => None,
        };
        Some((named.or_else(only)?, Snapshot { last: depth.last, book }))
    }

    /// Serves a frame.
    pub(super) fn frame(&mut self, frame: &RawFrame, bus: &mut Bus) {
        let RawPayload::Text(text) = &frame.raw else { return };
        match frame.kind {
            RawKind::Http => {
                if let Some((symbol, snapshot)) = self.recorded(frame, text)
                    && let Some(index) = self.by_symbol.get(&symbol)
                    && let Some(instrument) = self.instruments.get_mut(*index)
                {
                    instrument.heal(snapshot);
                }
            }
            RawKind::Ws => self.message(text, bus),
            _ => {}
        }
    }

    fn message(&mut self, text: &str, bus: &mut Bus) {
        let Some((stream, data)) = payload(text) else {
            self.unread += 1;
            return;
        };
        let Some((symbol, kind)) = stream.split_once('@') else { return };
        let symbol = symbol.to_ascii_uppercase();
        let found = self.by_symbol.get(&symbol).copied();
        let Some(instrument) = found.and_then(|index| self.instruments.get_mut(index)) else { return };
        let depth = is_depth(kind);
        let data = if depth {
            let read = serde_json::from_str::<Depth<'_>>(data).ok();
            let applied =
                read.as_ref().is_some_and(|depth| instrument.update(depth.ids(), depth.bids.get(), depth.asks.get()));
            if let Some(depth) = &read
                && instrument.book().is_some_and(|kept| kept.last == depth.last)
            {
                instrument.changed_ms = depth.changed_ms;
            }
            self.unread += u64::from(!applied);
            match read {
                Some(depth) if instrument.shift != 0 => Cow::Owned(shifted_depth(&symbol, instrument, &depth)),
                _ => Cow::Borrowed(data),
            }
        } else if kind == "bookTicker" && instrument.shift != 0 {
            serde_json::from_str::<Ticker<'_>>(data)
                .map_or(Cow::Borrowed(data), |ticker| Cow::Owned(shifted_ticker(&symbol, instrument, &ticker)))
        } else {
            Cow::Borrowed(data)
        };
        let whole = matches!(data, Cow::Borrowed(_)).then_some(text);
        send(self.venue, bus, &symbol, &Served { stream: &stream, data: &data, whole, depth });
    }
}

impl Depth<'_> {
    const fn ids(&self) -> Ids {
        Ids { first: self.first, last: self.last, previous: self.previous }
    }
}

/// One message on its way.
struct Served<'a> {
    /// As it is named in what is served.
    stream: &'a str,
    data: &'a str,
    /// The whole text, where it can be passed on byte for byte.
    whole: Option<&'a str>,
    depth: bool,
}

fn send(venue: Venue, bus: &mut Bus, symbol: &str, served: &Served<'_>) {
    let key = request::key(served.stream);
    let mut to: Vec<(usize, u64, Utf8Bytes)> = Vec::new();
    for (index, connection) in bus.connections.iter().enumerate().filter(|(_, known)| known.venue == venue) {
        let Subscriptions::Binance(streams) = &connection.subscriptions else { continue };
        for name in streams.named(&key) {
            let text = match served.whole {
                Some(whole) if streams.combined() && name == served.stream && whole.len() > served.data.len() => {
                    whole.into()
                }
                _ if streams.combined() => format!("{{\"stream\":\"{name}\",\"data\":{}}}", served.data).into(),
                _ => served.data.into(),
            };
            to.push((index, connection.number, text));
        }
    }
    if to.is_empty() || (served.depth && bus.faults.drops_depth(venue, symbol, None)) {
        return;
    }
    for (index, number, text) in to {
        if !(served.depth && bus.faults.drops_depth(venue, symbol, Some(number))) {
            let kind = if served.depth { Kind::Update } else { Kind::Other };
            bus.data(index, symbol, kind, text);
        }
    }
}

/// The stream and the payload of a message, whether it came in an envelope or bare.
fn payload(text: &str) -> Option<(Cow<'_, str>, &str)> {
    if let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) {
        return Some((envelope.stream, envelope.data.get()));
    }
    let bare: Bare<'_> = serde_json::from_str(text).ok()?;
    let kind = match bare.e.as_deref() {
        Some("depthUpdate") => "depth@100ms",
        Some("trade") => "trade",
        Some("aggTrade") => "aggTrade",
        Some("bookTicker") | None => "bookTicker",
        Some(_) => return None,
    };
    Some((Cow::Owned(format!("{}@{kind}", bare.s.to_ascii_lowercase())), text))
}

fn is_depth(kind: &str) -> bool {
    matches!(kind, "depth" | "depth@0ms" | "depth@100ms" | "depth@250ms" | "depth@500ms" | "depth@1000ms")
}

fn shifted_depth(symbol: &str, instrument: &Instrument, depth: &Depth<'_>) -> String {
    let changed = depth.changed_ms.map(|ms| format!("\"T\":{ms},")).unwrap_or_default();
    let previous = depth.previous.map(|id| format!("\"pu\":{},", instrument.served(id))).unwrap_or_default();
    format!(
        "{{\"e\":\"depthUpdate\",\"E\":{},{changed}\"s\":\"{symbol}\",\"U\":{},\"u\":{},{previous}\"b\":{},\"a\":{}}}",
        depth.event_ms,
        instrument.served(depth.first),
        instrument.served(depth.last),
        depth.bids,
        depth.asks
    )
}

fn shifted_ticker(symbol: &str, instrument: &Instrument, ticker: &Ticker<'_>) -> String {
    let (event, times) = match (ticker.event_ms, ticker.changed_ms) {
        (Some(event), Some(changed)) => ("\"e\":\"bookTicker\",", format!(",\"T\":{changed},\"E\":{event}")),
        _ => ("", String::new()),
    };
    format!(
        "{{{event}\"u\":{},\"s\":\"{symbol}\",\"b\":{},\"B\":{},\"a\":{},\"A\":{}{times}}}",
        instrument.served(ticker.u),
        ticker.bid,
        ticker.bid_quantity,
        ticker.ask,
        ticker.ask_quantity
    )
}

/// A capture's symbol with its assets.
fn split(venue: Venue, symbol: &str) -> SimInstrument {
    let fits = QUOTES.iter().filter(|quote| symbol.len() > quote.len() && symbol.ends_with(**quote));
    let quote = fits.max_by_key(|quote| quote.len()).copied().unwrap_or_default();
    let base = symbol.strip_suffix(quote).unwrap_or(symbol);
    SimInstrument {
        venue,
        symbol: symbol.to_owned(),
        asset_0: base.to_owned(),
        asset_1: quote.to_owned(),
        price_decimals: 0,
        quantity_decimals: 0,
    }
}
