//! Binance spot as a server: what is served is passed on to those who subscribed to it, and every symbol's book is kept
//! beside it for REST, by the venue's rules for a local order book.
//!
//! Update ids are served as they come, plus a shift per symbol that only the fault `reset_ids` changes.
//!
//! Never: a depth message that the kept book has not seen.

mod request;
mod rest;

use super::{
    bus::{Bus, Kind, Subscriptions},
    faults::UPDATES_AGO_MAX,
    reference::{self, Book, Change, PriceKey, Prior, Side, Snapshot},
};
use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    simulator::SimInstrument,
};
use foldhash::{HashMap, HashMapExt};
use market::Venue;
pub(super) use request::{Streams, receive};
pub(super) use rest::Weight;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::VecDeque};
use tokio_tungstenite::tungstenite::Utf8Bytes;

const VENUE: Venue = Venue::BinanceSpot;

/// Depth messages that may wait for a snapshot after a hole in a capture; with more, the next snapshot starts anew.
const HELD_MAX: usize = 10_000;

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
    #[serde(rename = "U")]
    first: u64,
    #[serde(rename = "u")]
    last: u64,
    #[serde(borrow, rename = "b")]
    bids: &'a RawValue,
    #[serde(borrow, rename = "a")]
    asks: &'a RawValue,
}

#[derive(Deserialize)]
struct Ticker<'a> {
    u: u64,
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

/// What one update replaced.
struct Undo {
    /// The id before it.
    last: u64,
    priors: Vec<Prior>,
}

/// A depth message that waits for a snapshot.
struct Held {
    first: u64,
    last: u64,
    bids: Box<str>,
    asks: Box<str>,
}

/// One symbol.
pub(super) struct Instrument {
    pub(super) listed: SimInstrument,
    book: Option<Snapshot>,
    /// What a capture's next round begins with.
    seed: Option<Snapshot>,
    /// Served ids are the internal ones plus this.
    shift: i128,
    undo: VecDeque<Undo>,
    /// A hole was met: updates wait for the capture's next snapshot.
    broken: bool,
    held: Vec<Held>,
}

impl Instrument {
    fn new(listed: SimInstrument) -> Self {
        let (undo, held) = (VecDeque::new(), Vec::new());
        Self { listed, book: None, seed: None, shift: 0, undo, broken: false, held }
    }

    fn served(&self, id: u64) -> u64 {
        u64::try_from(i128::from(id).saturating_add(self.shift)).unwrap_or(0)
    }

    /// The book as served now.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let kept = self.book.as_ref()?;
        Some(Snapshot { last: self.served(kept.last), book: kept.book.clone() })
    }

    /// The book as it was some updates ago, as far back as is known.
    fn snapshot_ago(&self, updates: u32) -> Option<Snapshot> {
        let mut kept = self.book.clone()?;
        for undo in self.undo.iter().rev().take(usize::try_from(updates).unwrap_or(usize::MAX)) {
            for prior in undo.priors.iter().rev() {
                kept.book.undo(prior.clone());
            }
            kept.last = undo.last;
        }
        Some(Snapshot { last: self.served(kept.last), book: kept.book })
    }

    /// The next change gets this id.
    fn reset(&mut self, next: u64) {
        let last = self.book.as_ref().map_or(0, |kept| kept.last);
        self.shift = i128::from(next) - i128::from(last) - 1;
    }

    fn restart(&mut self) {
        self.book.clone_from(&self.seed);
        self.shift = 0;
        self.broken = false;
        self.undo.clear();
        self.held.clear();
    }

    /// Rules 1 to 3 of a local book, with the snapshot known first. False when the message cannot be read.
    fn update(&mut self, first: u64, last: u64, bids: &str, asks: &str) -> bool {
        let Some(kept) = &mut self.book else { return true };
        if self.broken {
            if self.held.len() >= HELD_MAX {
                self.held.clear();
            }
            self.held.push(Held { first, last, bids: bids.into(), asks: asks.into() });
            return true;
        }
        if last <= kept.last {
            return true;
        }
        if first > kept.last.saturating_add(1) {
            self.broken = true;
            self.held.push(Held { first, last, bids: bids.into(), asks: asks.into() });
            return true;
        }
        let Some(priors) = apply(&mut kept.book, bids, asks) else { return false };
        if self.undo.len() >= usize::try_from(UPDATES_AGO_MAX).unwrap_or(usize::MAX) {
            self.undo.pop_front();
        }
        self.undo.push_back(Undo { last: kept.last, priors });
        kept.last = last;
        true
    }

    /// A snapshot in a capture: the first one, or one that heals a hole.
    fn heal(&mut self, snapshot: Snapshot) {
        let bridged = self.held.first().is_none_or(|held| held.first <= snapshot.last.saturating_add(1));
        let newer = self.book.as_ref().is_none_or(|kept| snapshot.last >= kept.last);
        if self.book.is_some() && !(self.broken && bridged && newer) {
            return;
        }
        self.book = Some(snapshot);
        self.undo.clear();
        self.broken = false;
        for held in std::mem::take(&mut self.held) {
            self.update(held.first, held.last, &held.bids, &held.asks);
        }
    }
}

/// The levels of one side of a message.
fn levels(raw: &str) -> Option<Vec<[Cow<'_, str>; 2]>> {
    serde_json::from_str(raw).ok()
}

fn changes<'a>(side: Side, levels: &'a [[Cow<'a, str>; 2]]) -> Option<Vec<Change<'a>>> {
    let change =
        |[price, quantity]: &'a [Cow<'a, str>; 2]| Some(Change { side, key: PriceKey::read(price)?, price, quantity });
    levels.iter().map(change).collect()
}

/// All of a message or nothing of it.
fn apply(book: &mut Book, bids: &str, asks: &str) -> Option<Vec<Prior>> {
    let (bids, asks) = (levels(bids)?, levels(asks)?);
    let all = [changes(Side::Bid, &bids)?, changes(Side::Ask, &asks)?].concat();
    Some(all.iter().map(|change| book.apply(change)).collect())
}

/// The venue.
pub(super) struct Binance {
    instruments: Vec<Instrument>,
    by_symbol: HashMap<String, usize>,
    weight: Weight,
    /// Messages that were passed on although they could not be read.
    pub(super) unread: u64,
}

impl Binance {
    pub(super) fn new(listed: impl IntoIterator<Item = SimInstrument>, weight: Weight) -> Self {
        let mut venue = Self { instruments: Vec::new(), by_symbol: HashMap::new(), weight, unread: 0 };
        for listed in listed {
            venue.list(listed);
        }
        venue
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
                let Some(instrument) = self.list(split(&symbol)) else { return };
                for side in reference::SIDES {
                    for level in snapshot.book.ladder(side).best_first() {
                        reference::note(&mut instrument.listed, &level.price, &level.quantity);
                    }
                }
                if instrument.seed.is_none() {
                    instrument.book = Some(snapshot.clone());
                    instrument.seed = Some(snapshot);
                }
            }
            RawKind::Ws => {
                let Some((stream, data)) = payload(text).filter(|(stream, _)| !stream.starts_with('!')) else { return };
                let Some((symbol, kind)) = stream.split_once('@') else { return };
                let Some(instrument) = self.list(split(&symbol.to_ascii_uppercase())) else { return };
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
            let applied = read
                .as_ref()
                .is_some_and(|depth| instrument.update(depth.first, depth.last, depth.bids.get(), depth.asks.get()));
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
        send(bus, &symbol, &Served { stream: &stream, data: &data, whole, depth });
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

fn send(bus: &mut Bus, symbol: &str, served: &Served<'_>) {
    let key = request::key(served.stream);
    let mut to: Vec<(usize, u64, Utf8Bytes)> = Vec::new();
    for (index, connection) in bus.connections.iter().enumerate() {
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
    if to.is_empty() || (served.depth && bus.faults.drops_depth(VENUE, symbol, None)) {
        return;
    }
    for (index, number, text) in to {
        if !(served.depth && bus.faults.drops_depth(VENUE, symbol, Some(number))) {
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
        None => "bookTicker",
        Some(_) => return None,
    };
    Some((Cow::Owned(format!("{}@{kind}", bare.s.to_ascii_lowercase())), text))
}

fn is_depth(kind: &str) -> bool {
    matches!(kind, "depth" | "depth@100ms" | "depth@1000ms")
}

fn shifted_depth(symbol: &str, instrument: &Instrument, depth: &Depth<'_>) -> String {
    format!(
        "{{\"e\":\"depthUpdate\",\"E\":{},\"s\":\"{symbol}\",\"U\":{},\"u\":{},\"b\":{},\"a\":{}}}",
        depth.event_ms,
        instrument.served(depth.first),
        instrument.served(depth.last),
        depth.bids,
        depth.asks
    )
}

fn shifted_ticker(symbol: &str, instrument: &Instrument, ticker: &Ticker<'_>) -> String {
    format!(
        "{{\"u\":{},\"s\":\"{symbol}\",\"b\":{},\"B\":{},\"a\":{},\"A\":{}}}",
        instrument.served(ticker.u),
        ticker.bid,
        ticker.bid_quantity,
        ticker.ask,
        ticker.ask_quantity
    )
}

/// A capture's symbol with its assets.
fn split(symbol: &str) -> SimInstrument {
    let fits = QUOTES.iter().filter(|quote| symbol.len() > quote.len() && symbol.ends_with(**quote));
    let quote = fits.max_by_key(|quote| quote.len()).copied().unwrap_or_default();
    let base = symbol.strip_suffix(quote).unwrap_or(symbol);
    SimInstrument {
        venue: VENUE,
        symbol: symbol.to_owned(),
        asset_0: base.to_owned(),
        asset_1: quote.to_owned(),
        price_decimals: 0,
        quantity_decimals: 0,
    }
}
