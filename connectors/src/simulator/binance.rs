//! Simulated Binance spot: combined stream messages with a right `U`/`u` chain, best prices, trades and REST depth
//! snapshots.
//!
//! Never: a hole in a chain, or a snapshot that the chain does not bridge.

use super::book::{Change, Ladder, Level, Side};
use super::chance::Chance;
use super::pairs::Pair;
use super::text;
use super::{Event, Instrument, Listing, SimBook, frame};
use crate::raw::{RawFrame, RawKind};
use foldhash::{HashMap, HashMapExt};
use market::Venue;
use std::sync::Arc;

/// What the REST snapshot is asked for; books are smaller.
const SNAPSHOT_LIMIT: usize = 1_000;
/// Random changes in one depth message, at most, in calm.
const CHANGES_CALM: u64 = 6;
/// Random changes in one depth message, at most, in a burst.
const CHANGES_BURST: u64 = 14;
/// The venue's clock stamps this long before we receive.
const LATENCY_NS: u64 = 6_000_000;
const MS: u64 = 1_000_000;

/// The venue.
pub(super) struct Binance {
    conn: Arc<str>,
    instruments: Vec<Instrument>,
    /// Lower-case symbols, as streams are named.
    streams: Vec<String>,
    /// Best bid and ask as last told in a ticker.
    told: Vec<(Option<Level>, Option<Level>)>,
    by_symbol: HashMap<String, usize>,
    changes: Vec<Change>,
    net: Vec<Level>,
    scratch: Vec<u8>,
}

impl Binance {
    pub(super) fn new(pairs: &[Pair], levels: usize, start_ns: u64, chance: &mut Chance) -> Self {
        let mut instruments = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let listing = Listing {
                symbol: format!("{}{}", pair.asset_0, pair.asset_1),
                decimals: pair.binance_decimals,
                levels,
                window: levels,
                step: 10_u64.pow(8_u32.saturating_sub(pair.quantity_decimals)),
            };
            instruments.push(Instrument::new(pair, listing, start_ns, chance));
        }
        let mut by_symbol = HashMap::with_capacity(instruments.len());
        for (index, instrument) in instruments.iter().enumerate() {
            by_symbol.insert(instrument.symbol.clone(), index);
        }
        Self {
            conn: "binance_spot-0".into(),
            streams: instruments.iter().map(|instrument| instrument.symbol.to_ascii_lowercase()).collect(),
            told: instruments.iter().map(best).collect(),
            instruments,
            by_symbol,
            changes: Vec::new(),
            net: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    pub(super) fn book(&self, symbol: &str) -> Option<SimBook> {
        let instrument = self.instruments.get(*self.by_symbol.get(symbol)?)?;
        Some(instrument.levels(SNAPSHOT_LIMIT, Some(instrument.update_id)))
    }

    pub(super) fn opening(&mut self, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) {
        let mut url = "wss://stream.binance.com:9443/stream?streams=".to_owned();
        for (index, stream) in self.streams.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            url.push_str(&format!("{slash}{stream}@depth@100ms/{stream}@bookTicker/{stream}@trade"));
        }
        let open = frame(at_ns, RawKind::Open, &self.conn, Some(url.into()), String::new());
        out.push((Venue::BinanceSpot, open));
        for index in 0..self.instruments.len() {
            self.rest(index, at_ns, out);
        }
    }

    pub(super) fn snapshot(&mut self, symbol: &str, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let index = *self.by_symbol.get(symbol)?;
        self.rest(index, at_ns, out)
    }

    /// One depth message, with the trade that caused it and the tickers on the way.
    pub(super) fn event(&mut self, event: &Event, chance: &mut Chance, out: &mut Vec<(Venue, RawFrame)>) {
        self.changes.clear();
        if event.traded {
            self.trade(event, chance, out);
        }
        let Some(instrument) = self.instruments.get_mut(event.index) else { return };
        instrument.book.follow(instrument.centre(event.price_e8), &mut self.changes, chance);
        self.ticker(event, out);
        let Some(instrument) = self.instruments.get_mut(event.index) else { return };
        let most = if event.bursting { CHANGES_BURST } else { CHANGES_CALM };
        for _ in 0..=chance.below(most) {
            instrument.book.churn(&mut self.changes, chance);
        }
        if self.changes.is_empty() {
            instrument.book.resize(Side::Bid, &mut self.changes, chance);
        }
        self.ticker(event, out);
        self.depth(event, out);
    }

    /// `@trade`: the taker meets the best level of one side.
    fn trade(&mut self, event: &Event, chance: &mut Chance, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get_mut(event.index)?;
        let side = if chance.in_256(128) { Side::Bid } else { Side::Ask };
        let traded = instrument.book.trade(side, &mut self.changes, chance)?;
        instrument.trade_id += 1;
        let text = &mut self.scratch;
        open(text, self.streams.get(event.index)?, "@trade\",\"data\":{\"e\":\"trade\",\"E\":");
        let ms = event.at_ns.saturating_sub(LATENCY_NS) / MS;
        text::whole(text, ms);
        text.extend_from_slice(b",\"s\":\"");
        text.extend_from_slice(instrument.symbol.as_bytes());
        text.extend_from_slice(b"\",\"t\":");
        text::whole(text, instrument.trade_id);
        text.extend_from_slice(b",\"p\":\"");
        text::eight(text, traded.price, instrument.decimals);
        text.extend_from_slice(b"\",\"q\":\"");
        text::fixed(text, traded.quantity, 8);
        text.extend_from_slice(b"\",\"T\":");
        text::whole(text, ms);
        // `m`: the buyer is the maker.
        let maker: &[u8] = if side == Side::Bid { b",\"m\":true,\"M\":true}}" } else { b",\"m\":false,\"M\":true}}" };
        text.extend_from_slice(maker);
        self.send(event.at_ns, out);
        Some(())
    }

    /// `@bookTicker`, when the best prices or quantities differ from those last told.
    fn ticker(&mut self, event: &Event, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get(event.index)?;
        let told = self.told.get_mut(event.index)?;
        let now = best(instrument);
        if *told == now {
            return None;
        }
        *told = now;
        let (bid, ask) = (now.0?, now.1?);
        let text = &mut self.scratch;
        open(text, self.streams.get(event.index)?, "@bookTicker\",\"data\":{\"u\":");
        text::whole(text, instrument.update_id + u64::try_from(self.changes.len()).unwrap_or(0));
        text.extend_from_slice(b",\"s\":\"");
        text.extend_from_slice(instrument.symbol.as_bytes());
        text.extend_from_slice(b"\",\"b\":\"");
        text::eight(text, bid.price, instrument.decimals);
        text.extend_from_slice(b"\",\"B\":\"");
        text::fixed(text, bid.quantity, 8);
        text.extend_from_slice(b"\",\"a\":\"");
        text::eight(text, ask.price, instrument.decimals);
        text.extend_from_slice(b"\",\"A\":\"");
        text::fixed(text, ask.quantity, 8);
        text.extend_from_slice(b"\"}}");
        self.send(event.at_ns, out);
        Some(())
    }

    /// `@depth`: the net of the changes, under their ids `U` to `u`.
    fn depth(&mut self, event: &Event, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get_mut(event.index)?;
        let first = instrument.update_id + 1;
        instrument.update_id += u64::try_from(self.changes.len()).unwrap_or(0);
        let text = &mut self.scratch;
        open(text, self.streams.get(event.index)?, "@depth@100ms\",\"data\":{\"e\":\"depthUpdate\",\"E\":");
        text::whole(text, event.at_ns.saturating_sub(LATENCY_NS) / MS);
        text.extend_from_slice(b",\"s\":\"");
        text.extend_from_slice(instrument.symbol.as_bytes());
        text.extend_from_slice(b"\",\"U\":");
        text::whole(text, first);
        text.extend_from_slice(b",\"u\":");
        text::whole(text, instrument.update_id);
        text.extend_from_slice(b",\"b\":[");
        net(&self.changes, Side::Bid, &mut self.net);
        levels(text, self.net.iter().copied(), instrument.decimals);
        text.extend_from_slice(b"],\"a\":[");
        net(&self.changes, Side::Ask, &mut self.net);
        levels(text, self.net.iter().copied(), instrument.decimals);
        text.extend_from_slice(b"]}}");
        self.send(event.at_ns, out);
        Some(())
    }

    /// The REST reply for one instrument.
    fn rest(&mut self, index: usize, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) -> Option<()> {
        let instrument = self.instruments.get(index)?;
        let url = format!("https://api.binance.com/api/v3/depth?symbol={}&limit={SNAPSHOT_LIMIT}", instrument.symbol);
        let text = &mut self.scratch;
        text.extend_from_slice(b"{\"lastUpdateId\":");
        text::whole(text, instrument.update_id);
        let mut side = |name: &str, ladder: &Ladder| {
            text.extend_from_slice(name.as_bytes());
            levels(text, ladder.best_first().take(SNAPSHOT_LIMIT), instrument.decimals);
        };
        side(",\"bids\":[", &instrument.book.bids);
        side("],\"asks\":[", &instrument.book.asks);
        text.extend_from_slice(b"]}");
        let raw = text::take(&mut self.scratch);
        out.push((Venue::BinanceSpot, frame(at_ns, RawKind::Http, &self.conn, Some(url.into()), raw)));
        Some(())
    }

    fn send(&mut self, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>) {
        let raw = text::take(&mut self.scratch);
        out.push((Venue::BinanceSpot, frame(at_ns, RawKind::Ws, &self.conn, None, raw)));
    }
}

fn best(instrument: &Instrument) -> (Option<Level>, Option<Level>) {
    (instrument.book.bids.best(), instrument.book.asks.best())
}

fn open(text: &mut Vec<u8>, stream: &str, rest: &str) {
    text.extend_from_slice(b"{\"stream\":\"");
    text.extend_from_slice(stream.as_bytes());
    text.extend_from_slice(rest.as_bytes());
}

/// The last word on each price of a side, best first, as the venue sends it.
fn net(changes: &[Change], side: Side, net: &mut Vec<Level>) {
    net.clear();
    for change in changes.iter().rev().filter(|change| change.side == side) {
        if !net.iter().any(|level| level.price == change.level.price) {
            net.push(change.level);
        }
    }
    match side {
        Side::Bid => net.sort_unstable_by_key(|level| std::cmp::Reverse(level.price)),
        Side::Ask => net.sort_unstable_by_key(|level| level.price),
    }
}

fn levels(text: &mut Vec<u8>, levels: impl Iterator<Item = Level>, decimals: u32) {
    for (index, level) in levels.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(b"[\"");
        text::eight(text, level.price, decimals);
        text.extend_from_slice(b"\",\"");
        text::fixed(text, level.quantity, 8);
        text.extend_from_slice(b"\"]");
    }
}
