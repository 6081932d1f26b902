//! Simulated Kraken spot v2: acknowledgements, snapshots and updates of the subscribed depth with their checksums,
//! trades and heartbeats.
//!
//! Never: a change outside the subscribed depth, or a message for a level that leaves it (the venue sends none).

use super::book::{Book, Change, Ladder, Level, Side};
use super::chance::Chance;
use super::pairs::Pair;
use super::text::{self, Calendar};
use super::{Event, Instrument, Listing, SimBook, frame};
use crate::raw::{RawFrame, RawKind};
use foldhash::{HashMap, HashMapExt};
use market::Venue;
use std::sync::Arc;

/// The checksum covers this many best levels of each side, whatever the depth.
const CHECKSUM_LEVELS: usize = 10;
/// Random changes in one message, at most, in calm.
const CHANGES_CALM: u64 = 2;
/// Random changes in one message, at most, in a burst.
const CHANGES_BURST: u64 = 4;
/// The venue's clock stamps this long before we receive.
const LATENCY_NS: u64 = 11_000_000;
/// Symbols in one subscription request, so that a request stays a small message.
const SUBSCRIBE_MAX: usize = 100;

/// The venue.
pub(super) struct Kraken {
    conn: Arc<str>,
    depth: usize,
    instruments: Vec<Instrument>,
    by_symbol: HashMap<String, usize>,
    calendar: Calendar,
    changes: Vec<Change>,
    lines: Vec<Change>,
    scratch: Vec<u8>,
    summed: Vec<u8>,
}

/// The worst level of each side that the subscriber sees; nothing when it sees the whole side.
#[derive(Clone, Copy)]
struct Edges {
    bid: Option<Level>,
    ask: Option<Level>,
}

impl Edges {
    fn of(book: &Book, depth: usize) -> Self {
        Self { bid: book.bids.ranked(depth - 1), ask: book.asks.ranked(depth - 1) }
    }

    fn show(self, book: &Book, side: Side, price: u64) -> bool {
        let edge = match side {
            Side::Bid => self.bid,
            Side::Ask => self.ask,
        };
        edge.is_none_or(|edge| book.ladder(side).reaches(price, edge.price))
    }
}

impl Kraken {
    pub(super) fn new(pairs: &[Pair], levels: usize, depth: usize, start_ns: u64, chance: &mut Chance) -> Self {
        let mut instruments = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let listing = Listing {
                symbol: format!("{}/{}", pair.asset_0, pair.asset_1),
                decimals: pair.kraken_decimals,
                // Twice the depth, so that there is something to refill the window from.
                levels: levels.min(depth * 2),
                window: depth,
                step: 1,
            };
            instruments.push(Instrument::new(pair, listing, start_ns, chance));
        }
        let mut by_symbol = HashMap::with_capacity(instruments.len());
        for (index, instrument) in instruments.iter().enumerate() {
            by_symbol.insert(instrument.symbol.clone(), index);
        }
        Self {
            conn: "kraken_spot-0".into(),
            depth,
            instruments,
            by_symbol,
            calendar: Calendar::new(),
            changes: Vec::new(),
            lines: Vec::new(),
            scratch: Vec::new(),
            summed: Vec::new(),
        }
    }

    pub(super) fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    pub(super) fn book(&self, symbol: &str) -> Option<SimBook> {
        Some(self.instruments.get(*self.by_symbol.get(symbol)?)?.levels(self.depth, None))
    }

    pub(super) fn opening(&mut self, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) {
        let url = Some("wss://ws.kraken.com/v2".into());
        out.push((Venue::KrakenSpot, frame(at_ns, RawKind::Open, &self.conn, url, String::new())));
        // The id is over 2^53, as the venue's are.
        self.scratch.extend_from_slice(
            b"{\"channel\":\"status\",\"type\":\"update\",\"data\":[{\"version\":\"2.0.10\",\"system\":\"online\",\
            \"api_version\":\"v2\",\"connection_id\":",
        );
        text::whole(&mut self.scratch, 13_000_000_000_000_000_000 | (at_ns >> 8));
        self.scratch.extend_from_slice(b"}]}");
        self.send(at_ns, out);
        let book = format!("\"depth\":{},\"snapshot\":true", self.depth);
        self.subscribe("book", &book, at_ns, out);
        for index in 0..self.instruments.len() {
            self.acknowledge("book", &book, index, at_ns, out);
            self.whole(index, at_ns, out);
        }
        self.subscribe("trade", "\"snapshot\":false", at_ns, out);
        for index in 0..self.instruments.len() {
            self.acknowledge("trade", "\"snapshot\":false", index, at_ns, out);
        }
    }

    pub(super) fn snapshot(&mut self, symbol: &str, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let index = *self.by_symbol.get(symbol)?;
        self.whole(index, at_ns, out)
    }

    pub(super) fn heartbeat(&self, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) {
        let raw = "{\"channel\":\"heartbeat\"}".to_owned();
        out.push((Venue::KrakenSpot, frame(at_ns, RawKind::Ws, &self.conn, None, raw)));
    }

    /// One book message, with the trade that caused it.
    pub(super) fn event(&mut self, event: &Event, chance: &mut Chance, out: &mut Vec<(Venue, RawFrame)>) {
        self.changes.clear();
        let Some(instrument) = self.instruments.get(event.index) else { return };
        let before = Edges::of(&instrument.book, self.depth);
        if event.traded {
            self.trade(event, chance, out);
        }
        let Some(instrument) = self.instruments.get_mut(event.index) else { return };
        instrument.book.follow(instrument.centre(event.price_e8), &mut self.changes, chance);
        let most = if event.bursting { CHANGES_BURST } else { CHANGES_CALM };
        for _ in 0..=chance.below(most) {
            instrument.book.churn(&mut self.changes, chance);
        }
        seen(&instrument.book, self.depth, before, &self.changes, &mut self.lines);
        if self.lines.is_empty() {
            instrument.book.resize(Side::Ask, &mut self.changes, chance);
            seen(&instrument.book, self.depth, before, &self.changes, &mut self.lines);
        }
        self.update(event, out);
    }

    fn trade(&mut self, event: &Event, chance: &mut Chance, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get_mut(event.index)?;
        let side = if chance.in_256(128) { Side::Bid } else { Side::Ask };
        let traded = instrument.book.trade(side, &mut self.changes, chance)?;
        instrument.trade_id += 1;
        let text = &mut self.scratch;
        open(text, "trade", "update", &instrument.symbol);
        // The side is the taker's.
        let taker: &[u8] =
            if side == Side::Bid { b"\"side\":\"sell\",\"price\":" } else { b"\"side\":\"buy\",\"price\":" };
        text.extend_from_slice(taker);
        text::fixed(text, traded.price, instrument.decimals);
        text.extend_from_slice(b",\"qty\":");
        text::fixed(text, traded.quantity, 8);
        text.extend_from_slice(b",\"ord_type\":\"limit\",\"trade_id\":");
        text::whole(text, instrument.trade_id);
        text.extend_from_slice(b",\"timestamp\":\"");
        self.calendar.write(text, event.at_ns.saturating_sub(LATENCY_NS));
        text.extend_from_slice(b"\"}]}");
        self.send(event.at_ns, out);
        Some(())
    }

    fn update(&mut self, event: &Event, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get(event.index)?;
        let text = &mut self.scratch;
        open(text, "book", "update", &instrument.symbol);
        let of = |side| self.lines.iter().filter(move |line| line.side == side).map(|line| line.level);
        text.extend_from_slice(b"\"bids\":[");
        levels(text, of(Side::Bid), instrument.decimals);
        text.extend_from_slice(b"],\"asks\":[");
        levels(text, of(Side::Ask), instrument.decimals);
        self.close(event.index, event.at_ns, out)
    }

    /// A snapshot message of one instrument.
    fn whole(&mut self, index: usize, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get(index)?;
        let text = &mut self.scratch;
        open(text, "book", "snapshot", &instrument.symbol);
        text.extend_from_slice(b"\"bids\":[");
        levels(text, instrument.book.bids.best_first().take(self.depth), instrument.decimals);
        text.extend_from_slice(b"],\"asks\":[");
        levels(text, instrument.book.asks.best_first().take(self.depth), instrument.decimals);
        self.close(index, at_ns, out)
    }

    /// Checksum, time and the end of a book message.
    fn close(&mut self, index: usize, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get(index)?;
        let text = &mut self.scratch;
        text.extend_from_slice(b"],\"checksum\":");
        text::whole(text, u64::from(checksum(&instrument.book, &mut self.summed)));
        text.extend_from_slice(b",\"timestamp\":\"");
        self.calendar.write(text, at_ns.saturating_sub(LATENCY_NS));
        text.extend_from_slice(b"\"}]}");
        self.send(at_ns, out);
        Some(())
    }

    /// Our own requests for a channel.
    fn subscribe(&self, channel: &str, rest: &str, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) {
        for some in self.instruments.chunks(SUBSCRIBE_MAX) {
            let symbols: Vec<String> = some.iter().map(|instrument| format!("\"{}\"", instrument.symbol)).collect();
            let raw = format!(
                "{{\"method\":\"subscribe\",\"params\":{{\"channel\":\"{channel}\",\"symbol\":[{}],{rest}}}}}",
                symbols.join(",")
            );
            out.push((Venue::KrakenSpot, frame(at_ns, RawKind::Send, &self.conn, None, raw)));
        }
    }

    fn acknowledge(
        &mut self,
        channel: &str,
        rest: &str,
        index: usize,
        at_ns: u64,
        out: &mut Vec<(Venue, RawFrame)>,
    ) -> Option<()> {
        let symbol = &self.instruments.get(index)?.symbol;
        let text = &mut self.scratch;
        let result = format!(
            "{{\"method\":\"subscribe\",\"result\":{{\"channel\":\"{channel}\",{rest},\"symbol\":\"{symbol}\"}},\
            \"success\":true,\"time_in\":\""
        );
        text.extend_from_slice(result.as_bytes());
        self.calendar.write(text, at_ns.saturating_sub(LATENCY_NS));
        text.extend_from_slice(b"\",\"time_out\":\"");
        self.calendar.write(text, at_ns.saturating_sub(LATENCY_NS / 2));
        text.extend_from_slice(b"\"}");
        self.send(at_ns, out);
        Some(())
    }

    fn send(&mut self, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) {
        let raw = text::take(&mut self.scratch);
        out.push((Venue::KrakenSpot, frame(at_ns, RawKind::Ws, &self.conn, None, raw)));
    }
}

/// What a subscriber must be told: the changes inside the window, as they happened, then the levels that entered it
/// because others died.
fn seen(book: &Book, depth: usize, before: Edges, changes: &[Change], lines: &mut Vec<Change>) {
    lines.clear();
    let after = Edges::of(book, depth);
    for change in changes {
        let Change { side, level } = *change;
        let was_shown = before.show(book, side, level.price);
        let shown = if level.quantity == 0 {
            was_shown || told(lines, side, level.price)
        } else {
            was_shown || after.show(book, side, level.price)
        };
        if shown {
            lines.push(*change);
        }
    }
    for side in [Side::Bid, Side::Ask] {
        let ladder = book.ladder(side);
        for rank in (0..depth.min(ladder.len())).rev() {
            let Some(level) = ladder.ranked(rank) else { break };
            if before.show(book, side, level.price) {
                break;
            }
            if !told(lines, side, level.price) {
                lines.push(Change { side, level });
            }
        }
    }
}

fn told(lines: &[Change], side: Side, price: u64) -> bool {
    lines.iter().any(|line| line.side == side && line.level.price == price)
}

/// CRC-32 over price and quantity of the best asks, then bids, without points and leading zeros: their whole units.
fn checksum(book: &Book, summed: &mut Vec<u8>) -> u32 {
    summed.clear();
    let mut add = |ladder: &Ladder| {
        for level in ladder.best_first().take(CHECKSUM_LEVELS) {
            text::whole(summed, level.price);
            text::whole(summed, level.quantity);
        }
    };
    add(&book.asks);
    add(&book.bids);
    crc32fast::hash(summed)
}

fn open(text: &mut Vec<u8>, channel: &str, kind: &str, symbol: &str) {
    for part in ["{\"channel\":\"", channel, "\",\"type\":\"", kind, "\",\"data\":[{\"symbol\":\"", symbol, "\","] {
        text.extend_from_slice(part.as_bytes());
    }
}

fn levels(text: &mut Vec<u8>, levels: impl Iterator<Item = Level>, decimals: u32) {
    for (index, level) in levels.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(b"{\"price\":");
        text::fixed(text, level.price, decimals);
        text.extend_from_slice(b",\"qty\":");
        text::fixed(text, level.quantity, 8);
        text.push(b'}');
    }
}
