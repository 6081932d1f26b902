//! Kraken spot v2 as a server: every subscriber sees the best levels of the kept book down to its own depth, with the
//! checksum of what it should hold. What was made for that very depth is passed on byte for byte.
//!
//! Never: a message for a level that leaves a window (the venue sends none); a checksum of another book than the kept.

mod request;
mod rest;
mod window;

use super::{
    bus::{Bus, Kind},
    faults::UPDATES_AGO_MAX,
    reference::{self, Book, Change, Level, PriceKey, Prior, SIDES, Side, Snapshot},
};
use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    simulator::{SimInstrument, text::Calendar},
};
use foldhash::{HashMap, HashMapExt};
use market::Venue;
pub(super) use request::Channels;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use window::{Edges, Line, checksum};

const VENUE: Venue = Venue::KrakenSpot;

/// The depths that can be subscribed to, levels per side.
pub(super) const DEPTHS: [usize; 5] = [10, 25, 100, 500, 1_000];
/// The deepest of them: the whole book, as far as the venue shows it.
pub(super) const DEPTH_MAX: usize = 1_000;
/// Trades in a snapshot.
const TRADES_KEPT: usize = 50;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    channel: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

/// What every element of market data has.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Acknowledged<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
    depth: usize,
}

#[derive(Deserialize)]
struct RawLevel<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
    #[serde(borrow)]
    qty: &'a RawValue,
}

#[derive(Deserialize)]
struct BookData<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
    #[serde(borrow, default)]
    bids: Vec<RawLevel<'a>>,
    #[serde(borrow, default)]
    asks: Vec<RawLevel<'a>>,
    #[serde(default)]
    checksum: Option<u32>,
    #[serde(borrow, default)]
    timestamp: Option<Cow<'a, str>>,
}

impl BookData<'_> {
    /// The levels in the order in which they are to be applied; none when a price is no number.
    fn changes(&self) -> Option<Vec<Change<'_>>> {
        let mut changes = Vec::with_capacity(self.bids.len() + self.asks.len());
        for (side, levels) in [(Side::Bid, &self.bids), (Side::Ask, &self.asks)] {
            for level in levels {
                let (price, quantity) = (level.price.get().trim_matches('"'), level.qty.get().trim_matches('"'));
                changes.push(Change { side, key: PriceKey::read(price)?, price, quantity });
            }
        }
        Some(changes)
    }
}

/// What one update did to a book: levels that it replaced, then levels that left the window.
struct Undo {
    priors: Vec<Prior>,
    evicted: Vec<(Side, Level)>,
}

/// One pair.
pub(super) struct Instrument {
    pub(super) listed: SimInstrument,
    book: Option<Book>,
    undo: VecDeque<Undo>,
    /// Levels per side of what comes in; beyond it nothing is known.
    depth: usize,
    /// Of the last book message.
    timestamp: Box<str>,
    trades: VecDeque<Box<str>>,
}

impl Instrument {
    pub(super) const fn book(&self) -> Option<&Book> {
        self.book.as_ref()
    }

    /// The book as it was some updates ago, as far back as is known.
    pub(super) fn ago(&self, updates: u32) -> Option<Snapshot> {
        let mut book = self.book.clone()?;
        for undo in self.undo.iter().rev().take(usize::try_from(updates).unwrap_or(usize::MAX)) {
            for (side, level) in &undo.evicted {
                book.undo(Prior { side: *side, key: level.key, level: Some(level.clone()) });
            }
            for prior in undo.priors.iter().rev() {
                book.undo(prior.clone());
            }
        }
        Some(Snapshot { last: 0, book })
    }

    /// A snapshot message of the best `depth` levels.
    fn snapshot(&self, depth: usize) -> Option<String> {
        Some(self.snapshot_of(self.book.as_ref()?, depth))
    }

    /// The same of a book that may be older.
    fn snapshot_of(&self, book: &Book, depth: usize) -> String {
        let of = |side| {
            let levels = book.ladder(side).best_first().take(depth);
            levels.map(move |level| Line { side, price: &level.price, quantity: Cow::Borrowed(&*level.quantity) })
        };
        let lines: Vec<Line<'_>> = of(Side::Bid).chain(of(Side::Ask)).collect();
        self.message("snapshot", &lines, book)
    }

    fn message(&self, kind: &str, lines: &[Line<'_>], book: &Book) -> String {
        let mut out = format!(
            "{{\"channel\":\"book\",\"type\":\"{kind}\",\"data\":[{{\"symbol\":\"{}\",\"bids\":[",
            self.listed.symbol
        );
        window::write(&mut out, lines, Side::Bid);
        out.push_str("],\"asks\":[");
        window::write(&mut out, lines, Side::Ask);
        out.push_str(&format!("],\"checksum\":{},\"timestamp\":\"{}\"}}]}}", checksum(book), self.timestamp));
        out
    }
}

/// The venue.
pub(super) struct Kraken {
    instruments: Vec<Instrument>,
    by_symbol: HashMap<String, usize>,
    /// Channels besides book and trade that a capture has.
    channels: BTreeSet<String>,
    /// Connections of a capture whose first status was met.
    statuses: Vec<Arc<str>>,
    calendar: Calendar,
    /// Messages that could not be read.
    pub(super) unread: u64,
    /// Served checksums that the kept book confirms, and those that it does not.
    pub(super) checksums: (u64, u64),
}

impl Kraken {
    pub(super) fn new(listed: impl IntoIterator<Item = SimInstrument>) -> Self {
        let mut venue = Self {
            instruments: Vec::new(),
            by_symbol: HashMap::new(),
            channels: BTreeSet::new(),
            statuses: Vec::new(),
            calendar: Calendar::new(),
            unread: 0,
            checksums: (0, 0),
        };
        for listed in listed {
            venue.list(listed);
        }
        venue
    }

    fn list(&mut self, listed: SimInstrument) -> Option<&mut Instrument> {
        let next = self.instruments.len();
        let index = *self.by_symbol.entry(listed.symbol.clone()).or_insert(next);
        if index == next {
            self.instruments.push(Instrument {
                listed,
                book: None,
                undo: VecDeque::new(),
                depth: DEPTH_MAX,
                timestamp: "1970-01-01T00:00:00.000000Z".into(),
                trades: VecDeque::new(),
            });
        }
        self.instruments.get_mut(index)
    }

    pub(super) fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    pub(super) fn instrument(&self, symbol: &str) -> Option<&Instrument> {
        self.instruments.get(*self.by_symbol.get(symbol)?)
    }

    fn instrument_mut(&mut self, symbol: &str) -> Option<&mut Instrument> {
        self.instruments.get_mut(*self.by_symbol.get(symbol)?)
    }

    /// A capture begins anew.
    pub(super) fn restart(&mut self) {
        self.statuses.clear();
        for instrument in &mut self.instruments {
            instrument.book = None;
            instrument.undo.clear();
            instrument.trades.clear();
        }
    }

    /// Looks at a capture's frame before anything is served: pairs, decimals, channels.
    pub(super) fn scan(&mut self, frame: &RawFrame) {
        let (RawKind::Ws, RawPayload::Text(text)) = (frame.kind, &frame.raw) else { return };
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else { return };
        let Some(channel) = envelope.channel.as_deref() else { return };
        for data in &envelope.data {
            let Ok(head) = serde_json::from_str::<Head<'_>>(data.get()) else { continue };
            let Some((base, quote)) = head.symbol.split_once('/') else { continue };
            if !matches!(channel, "book" | "trade") {
                self.channels.insert(channel.to_owned());
            }
            let listed = SimInstrument {
                venue: VENUE,
                symbol: head.symbol.to_string(),
                asset_0: base.to_owned(),
                asset_1: quote.to_owned(),
                price_decimals: 0,
                quantity_decimals: 8,
            };
            let Some(instrument) = self.list(listed) else { continue };
            let Ok(book) = serde_json::from_str::<BookData<'_>>(data.get()) else { continue };
            for level in book.bids.iter().chain(&book.asks) {
                reference::note(&mut instrument.listed, level.price.get(), level.qty.get());
            }
        }
    }

    /// Serves a frame.
    pub(super) fn frame(&mut self, frame: &RawFrame, bus: &mut Bus) {
        let (RawKind::Ws, RawPayload::Text(text)) = (frame.kind, &frame.raw) else { return };
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else {
            self.unread += 1;
            return;
        };
        let kind = envelope.kind.as_deref().unwrap_or_default();
        match envelope.channel.as_deref() {
            None => self.recorded_depth(&envelope),
            Some("heartbeat") => {}
            Some("status") => self.status(frame, text, bus),
            Some("book") => {
                let whole = (envelope.data.len() == 1).then_some(text.as_str());
                for data in &envelope.data {
                    match (serde_json::from_str::<BookData<'_>>(data.get()), kind) {
                        (Ok(book), "snapshot") => self.book_snapshot(&book, whole, bus),
                        (Ok(book), "update") => self.book_update(&book, whole, bus),
                        _ => self.unread += 1,
                    }
                }
            }
            Some(channel) => self.pass(channel, kind, &envelope.data, text, bus),
        }
    }

    /// The depth at which a capture was subscribed.
    fn recorded_depth(&mut self, envelope: &Envelope<'_>) {
        let result = envelope.result.and_then(|result| serde_json::from_str::<Acknowledged<'_>>(result.get()).ok());
        if let Some(acknowledged) = result
            && let Some(instrument) = self.instrument_mut(&acknowledged.symbol)
        {
            instrument.depth = acknowledged.depth;
        }
    }

    /// Every connection gets its own first status; a capture's later ones are news for all.
    fn status(&mut self, frame: &RawFrame, text: &str, bus: &mut Bus) {
        if !self.statuses.contains(&frame.conn) {
            self.statuses.push(Arc::clone(&frame.conn));
            return;
        }
        let numbers: Vec<u64> = bus.chosen(VENUE, None).map(|connection| connection.number).collect();
        for number in numbers {
            bus.reply(VENUE, number, text.to_owned());
        }
    }

    fn book_snapshot(&mut self, data: &BookData<'_>, whole: Option<&str>, bus: &mut Bus) {
        let (Some(changes), Some(index)) = (data.changes(), self.by_symbol.get(&*data.symbol)) else {
            self.unread += 1;
            return;
        };
        let Some(instrument) = self.instruments.get_mut(*index) else { return };
        let mut book = Book::new();
        for change in &changes {
            book.apply(change);
        }
        let shown = SIDES.map(|side| book.ladder(side).len()).into_iter().max().unwrap_or(0);
        if instrument.depth < shown || !DEPTHS.contains(&instrument.depth) {
            // Not acknowledged in the capture: the least offered depth that holds what is shown.
            instrument.depth = DEPTHS.into_iter().find(|depth| *depth >= shown).unwrap_or(DEPTH_MAX);
        }
        confirm(&mut self.checksums, &book, data.checksum);
        if let Some(timestamp) = &data.timestamp {
            instrument.timestamp = (&**timestamp).into();
        }
        instrument.book = Some(book);
        instrument.undo.clear();
        let mut views = Views::default();
        let subscribed = request::subscribed(bus, &data.symbol, true);
        for (index, _, depth) in subscribed {
            let text = views.get(depth, || match whole {
                Some(whole) if depth >= instrument.depth => Some(whole.to_owned()),
                _ => instrument.snapshot(depth),
            });
            if let Some(text) = text {
                bus.data(index, &data.symbol, Kind::Snapshot, text);
            }
        }
    }

    fn book_update(&mut self, data: &BookData<'_>, whole: Option<&str>, bus: &mut Bus) {
        let (Some(changes), Some(index)) = (data.changes(), self.by_symbol.get(&*data.symbol)) else {
            self.unread += 1;
            return;
        };
        let Some(instrument) = self.instruments.get_mut(*index) else { return };
        let Some(book) = &mut instrument.book else { return };
        let subscribed = request::subscribed(bus, &data.symbol, false);
        let mut before: Vec<(usize, Edges)> = Vec::new();
        for (_, _, depth) in &subscribed {
            if !before.iter().any(|(known, _)| known == depth) {
                before.push((*depth, Edges::of(book, *depth)));
            }
        }
        let mut touched: Vec<Prior> = Vec::with_capacity(changes.len());
        let mut priors: Vec<Prior> = Vec::with_capacity(changes.len());
        for change in &changes {
            let prior = book.apply(change);
            priors.push(prior.clone());
            if !touched.iter().any(|known| known.side == prior.side && known.key == prior.key) {
                touched.push(prior);
            }
        }
        let evicted = book.truncate(instrument.depth);
        if instrument.undo.len() >= usize::try_from(UPDATES_AGO_MAX).unwrap_or(usize::MAX) {
            instrument.undo.pop_front();
        }
        instrument.undo.push_back(Undo { priors, evicted: evicted.clone() });
        if let Some(timestamp) = &data.timestamp {
            instrument.timestamp = (&**timestamp).into();
        }
        let instrument = &*instrument;
        let Some(book) = &instrument.book else { return };
        confirm(&mut self.checksums, book, data.checksum);
        let mut views = Views::default();
        for (depth, edges) in before {
            views.get(depth, || match whole {
                Some(whole) if depth == instrument.depth => Some(whole.to_owned()),
                _ => {
                    let lines = window::seen(book, depth, edges, &touched, &evicted);
                    (!lines.is_empty()).then(|| instrument.message("update", &lines, book))
                }
            });
        }
        send_updates(&data.symbol, subscribed, &views, bus);
    }

    /// A channel without a book: as it is, to those who subscribed to it.
    fn pass(&mut self, channel: &str, kind: &str, data: &[&RawValue], text: &str, bus: &mut Bus) {
        let symbol =
            |data: &&RawValue| serde_json::from_str::<Head<'_>>(data.get()).map(|head| head.symbol.into_owned()).ok();
        let symbols: Vec<Option<String>> = data.iter().map(symbol).collect();
        let same = symbols.windows(2).all(|pair| matches!(pair, [first, second] if first == second));
        if channel == "trade" {
            for (symbol, data) in symbols.iter().zip(data) {
                let Some(instrument) = symbol.as_deref().and_then(|symbol| self.instrument_mut(symbol)) else {
                    continue;
                };
                if instrument.trades.len() >= TRADES_KEPT {
                    instrument.trades.pop_front();
                }
                instrument.trades.push_back(data.get().into());
            }
            if kind == "snapshot" {
                return;
            }
        }
        for (symbol, data) in symbols.iter().zip(data) {
            let Some(symbol) = symbol else { continue };
            let text: Utf8Bytes = if same {
                text.into()
            } else {
                format!("{{\"channel\":\"{channel}\",\"type\":\"{kind}\",\"data\":[{data}]}}").into()
            };
            for index in request::listening(bus, channel, symbol) {
                bus.data(index, symbol, Kind::Other, text.clone());
            }
            if same {
                break;
            }
        }
    }
}

/// The texts of one message, by depth.
#[derive(Default)]
struct Views(Vec<(usize, Option<Utf8Bytes>)>);

impl Views {
    fn get(&mut self, depth: usize, make: impl FnOnce() -> Option<String>) -> Option<Utf8Bytes> {
        if let Some(text) = self.find(depth) {
            return text;
        }
        let text = make().map(Utf8Bytes::from);
        self.0.push((depth, text.clone()));
        text
    }

    fn find(&self, depth: usize) -> Option<Option<Utf8Bytes>> {
        self.0.iter().find(|(known, _)| *known == depth).map(|(_, text)| text.clone())
    }
}

/// Sends each subscriber the text of its depth, past the faults of book updates.
fn send_updates(symbol: &str, subscribed: Vec<(usize, u64, usize)>, views: &Views, bus: &mut Bus) {
    let texts = subscribed.into_iter().filter_map(|(index, number, depth)| {
        let text = views.find(depth).flatten()?;
        Some((index, number, text))
    });
    let texts: Vec<(usize, u64, Utf8Bytes)> = texts.collect();
    if texts.is_empty() || bus.faults.drops_depth(VENUE, symbol, None) {
        return;
    }
    let corrupt = bus.faults.corrupts(VENUE, symbol, None);
    for (index, number, text) in texts {
        if bus.faults.drops_depth(VENUE, symbol, Some(number)) {
            continue;
        }
        let text = if corrupt || bus.faults.corrupts(VENUE, symbol, Some(number)) { corrupted(&text) } else { text };
        bus.data(index, symbol, Kind::Update, text);
    }
}

/// The text with another checksum.
fn corrupted(text: &str) -> Utf8Bytes {
    const NAME: &str = "\"checksum\":";
    let Some((head, tail)) = text.split_once(NAME) else { return text.into() };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = tail.split_at(digits);
    let wrong = number.parse::<u32>().unwrap_or(0) ^ 1;
    format!("{head}{NAME}{wrong}{rest}").into()
}

/// Compares a served checksum with the kept book.
fn confirm(checksums: &mut (u64, u64), book: &Book, served: Option<u32>) {
    match served {
        Some(served) if served == checksum(book) => checksums.0 += 1,
        Some(_) => checksums.1 += 1,
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_checksum_is_corrupted() {
        let text = "{\"data\":[{\"symbol\":\"A/B\",\"checksum\":974947235,\"timestamp\":\"t\"}]}";
        assert_eq!(&*corrupted(text), text.replace("974947235", "974947234"));
    }
}
