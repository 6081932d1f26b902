//! The simulator against naive books that are rebuilt from its raw messages alone.
//!
//! Never: a decoder or a book of the crates under test.

use super::{SimBook, Simulator, SimulatorConfig};
use crate::raw::{RawFrame, RawKind, RawPayload};
use market::Venue;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// Price and quantity in 10^-8, from the venue's text.
fn units(text: &str) -> u64 {
    let (whole, part) = text.trim_matches('"').split_once('.').unwrap_or((text.trim_matches('"'), ""));
    assert!(part.len() <= 8, "{text}");
    format!("{whole}{part:0<8}").parse().unwrap()
}

#[derive(Default)]
struct Naive {
    bids: BTreeMap<u64, (u64, String, String)>,
    asks: BTreeMap<u64, (u64, String, String)>,
    last_update_id: Option<u64>,
    ticker: Option<(u64, [u64; 4])>,
    trade_id: Option<u64>,
    messages: u64,
}

impl Naive {
    fn set(side: &mut BTreeMap<u64, (u64, String, String)>, price: &str, quantity: &str) {
        match units(quantity) {
            0 => side.remove(&units(price)),
            size => side.insert(units(price), (size, price.to_owned(), quantity.to_owned())),
        };
    }

    fn check(&self) {
        let (bid, ask) = (self.bids.last_key_value().unwrap(), self.asks.first_key_value().unwrap());
        assert!(bid.0 < ask.0, "crossed: {bid:?} {ask:?}");
    }

    fn best(&self) -> [u64; 4] {
        let (bid, ask) = (self.bids.last_key_value().unwrap(), self.asks.first_key_value().unwrap());
        [*bid.0, bid.1.0, *ask.0, ask.1.0]
    }

    fn assert_is(&self, book: &SimBook) {
        let spelled = |side: &[(String, String)]| -> Vec<(u64, u64)> {
            side.iter().map(|(price, quantity)| (units(price), units(quantity))).collect()
        };
        let bids: Vec<_> = self.bids.iter().rev().map(|(&price, level)| (price, level.0)).collect();
        let asks: Vec<_> = self.asks.iter().map(|(&price, level)| (price, level.0)).collect();
        assert_eq!(bids, spelled(&book.bids));
        assert_eq!(asks, spelled(&book.asks));
        if book.last_update_id.is_some() {
            assert_eq!(self.last_update_id, book.last_update_id);
        }
    }

    /// The venue's rule, from text: points and leading zeros go.
    fn checksum(&self) -> u32 {
        let strip = |text: &str| text.replace('.', "").trim_start_matches('0').to_owned();
        let best_asks = self.asks.values().take(10);
        let text: String = best_asks
            .chain(self.bids.values().rev().take(10))
            .map(|(_, price, quantity)| strip(price) + &strip(quantity))
            .collect();
        crc32fast::hash(text.as_bytes())
    }
}

#[derive(Default)]
struct Rebuilt {
    books: BTreeMap<(Venue, String), Naive>,
    depth: usize,
    last_ns: u64,
    levels: u64,
    deletes: u64,
    depth_messages: u64,
    same_id: u64,
    checksums: u64,
    heartbeats: u64,
    trades: u64,
}

#[derive(Deserialize)]
struct Combined<'a> {
    stream: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Depth<'a> {
    s: String,
    #[serde(rename = "U")]
    first: u64,
    u: u64,
    #[serde(borrow)]
    b: Vec<[&'a str; 2]>,
    a: Vec<[&'a str; 2]>,
}

#[derive(Deserialize)]
struct Rest<'a> {
    #[serde(rename = "lastUpdateId")]
    id: u64,
    #[serde(borrow)]
    bids: Vec<[&'a str; 2]>,
    asks: Vec<[&'a str; 2]>,
}

#[derive(Deserialize)]
struct V2<'a> {
    channel: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct V2Level<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
    qty: &'a RawValue,
}

#[derive(Deserialize)]
struct V2Book<'a> {
    symbol: String,
    #[serde(borrow)]
    bids: Vec<V2Level<'a>>,
    asks: Vec<V2Level<'a>>,
    checksum: u32,
    timestamp: String,
}

impl Rebuilt {
    fn feed(&mut self, frames: &[(Venue, RawFrame)]) {
        for (venue, frame) in frames {
            assert!(frame.ts_ns >= self.last_ns, "time order");
            self.last_ns = frame.ts_ns;
            assert_eq!(&*frame.conn, format!("{}-0", venue.name()));
            let RawPayload::Text(text) = &frame.raw else { panic!("text only") };
            match (venue, frame.kind) {
                (_, RawKind::Open | RawKind::Close | RawKind::Alive | RawKind::Send) => {}
                (Venue::BinanceSpot, RawKind::Http) => self.rest(text, frame.url.as_deref().unwrap()),
                (Venue::BinanceSpot, RawKind::Ws) => self.binance(text),
                _ => self.kraken(text),
            }
        }
    }

    fn rest(&mut self, text: &str, url: &str) {
        let symbol = url.split("symbol=").nth(1).unwrap().split('&').next().unwrap();
        let rest: Rest<'_> = serde_json::from_str(text).unwrap();
        let mut fresh = Naive { last_update_id: Some(rest.id), ..Naive::default() };
        rest.bids.iter().for_each(|[price, quantity]| Naive::set(&mut fresh.bids, price, quantity));
        rest.asks.iter().for_each(|[price, quantity]| Naive::set(&mut fresh.asks, price, quantity));
        if let Some(old) = self.books.get(&(Venue::BinanceSpot, symbol.to_owned())) {
            assert_eq!((&old.bids, &old.asks), (&fresh.bids, &fresh.asks), "a snapshot mid-stream is the book");
            assert_eq!(old.last_update_id, fresh.last_update_id);
        }
        self.books.insert((Venue::BinanceSpot, symbol.to_owned()), fresh);
    }

    fn binance(&mut self, text: &str) {
        let combined: Combined<'_> = serde_json::from_str(text).unwrap();
        let data: serde_json::Value = serde_json::from_str(combined.data.get()).unwrap();
        let symbol = data["s"].as_str().unwrap().to_owned();
        let (stream, topic) = combined.stream.split_once('@').unwrap();
        assert_eq!(stream, symbol.to_ascii_lowercase());
        let book = self.books.get_mut(&(Venue::BinanceSpot, symbol)).unwrap();
        match topic {
            "bookTicker" => {
                let field = |name: &str| units(data[name].as_str().unwrap());
                let u = data["u"].as_u64().unwrap();
                assert!(Some(u) > book.last_update_id);
                book.ticker = Some((u, [field("b"), field("B"), field("a"), field("A")]));
            }
            "trade" => {
                let id = data["t"].as_u64().unwrap();
                assert!(book.trade_id.is_none_or(|last| id == last + 1));
                book.trade_id = Some(id);
                self.trades += 1;
            }
            _ => self.binance_depth(combined.data.get()),
        }
    }

    fn binance_depth(&mut self, data: &str) {
        let depth: Depth<'_> = serde_json::from_str(data).unwrap();
        let book = self.books.get_mut(&(Venue::BinanceSpot, depth.s)).unwrap();
        assert_eq!(Some(depth.first), book.last_update_id.map(|id| id + 1), "a hole in the chain");
        assert!(depth.u >= depth.first);
        book.last_update_id = Some(depth.u);
        for [price, quantity] in depth.b {
            self.levels += 1;
            self.deletes += u64::from(units(quantity) == 0);
            Naive::set(&mut book.bids, price, quantity);
        }
        for [price, quantity] in depth.a {
            self.levels += 1;
            self.deletes += u64::from(units(quantity) == 0);
            Naive::set(&mut book.asks, price, quantity);
        }
        book.check();
        book.messages += 1;
        self.depth_messages += 1;
        if let Some((_, told)) = book.ticker.filter(|&(u, _)| u == depth.u) {
            assert_eq!(told, book.best(), "bookTicker of the same id");
            self.same_id += 1;
        }
    }

    fn kraken(&mut self, text: &str) {
        let message: V2<'_> = serde_json::from_str(text).unwrap();
        match message.channel.as_deref() {
            None => {
                let ack: serde_json::Value = serde_json::from_str(text).unwrap();
                assert_eq!(ack["success"], true);
                if let Some(depth) = ack["result"]["depth"].as_u64() {
                    self.depth = usize::try_from(depth).unwrap();
                }
            }
            Some("heartbeat") => self.heartbeats += 1,
            Some("status") => {}
            Some("trade") => self.trades += 1,
            Some(channel) => {
                assert_eq!(channel, "book");
                let books: Vec<V2Book<'_>> = serde_json::from_str(message.data.unwrap().get()).unwrap();
                let snapshot = message.kind.as_deref() == Some("snapshot");
                books.into_iter().for_each(|book| self.kraken_book(book, snapshot));
            }
        }
    }

    fn kraken_book(&mut self, message: V2Book<'_>, snapshot: bool) {
        assert_eq!(message.timestamp.len(), 27);
        let key = (Venue::KrakenSpot, message.symbol);
        let mut fresh = Naive::default();
        let book = if snapshot { &mut fresh } else { self.books.get_mut(&key).unwrap() };
        assert!(snapshot || !(message.bids.is_empty() && message.asks.is_empty()));
        for level in &message.bids {
            Naive::set(&mut book.bids, level.price.get(), level.qty.get());
        }
        for level in &message.asks {
            Naive::set(&mut book.asks, level.price.get(), level.qty.get());
        }
        while book.bids.len() > self.depth {
            book.bids.pop_first();
        }
        while book.asks.len() > self.depth {
            book.asks.pop_last();
        }
        book.check();
        assert_eq!(book.checksum(), message.checksum);
        book.messages += 1;
        self.checksums += 1;
        if snapshot {
            if let Some(old) = self.books.get(&key) {
                assert_eq!((&old.bids, &old.asks), (&fresh.bids, &fresh.asks), "a snapshot mid-stream is the book");
            }
            self.books.insert(key, fresh);
        } else {
            let all = message.bids.iter().chain(&message.asks);
            self.deletes += all.filter(|level| units(level.qty.get()) == 0).count() as u64;
            self.levels += (message.bids.len() + message.asks.len()) as u64;
            self.depth_messages += 1;
        }
    }

    fn assert_is(&self, simulator: &Simulator) {
        let instruments = simulator.instruments();
        assert_eq!(self.books.len(), instruments.len());
        for instrument in instruments {
            let book = simulator.book(instrument.venue, &instrument.symbol).unwrap();
            self.books[&(instrument.venue, instrument.symbol)].assert_is(&book);
        }
    }
}

fn run(config: SimulatorConfig, seconds: u64, step_ns: u64) -> (Simulator, Rebuilt) {
    let (mut simulator, mut rebuilt, mut out) = (Simulator::new(config), Rebuilt::default(), Vec::new());
    let start = simulator.now_ns();
    simulator.opening(&mut out);
    let mut until = start;
    while until < start + seconds * SECOND {
        until += step_ns;
        simulator.advance(until, &mut out);
        assert!(out.iter().all(|(_, frame)| frame.ts_ns <= until));
        rebuilt.feed(&out);
        out.clear();
    }
    (simulator, rebuilt)
}

#[test]
fn rebuilt_books_equal_the_simulators_own() {
    let config = SimulatorConfig { pairs: 40, updates_per_second: 4_000, ..SimulatorConfig::default() };
    let (simulator, rebuilt) = run(config, 20, SECOND / 25);
    rebuilt.assert_is(&simulator);
    assert!(rebuilt.same_id > 1_000 && rebuilt.checksums > 10_000 && rebuilt.trades > 1_000);
    assert_eq!(rebuilt.heartbeats, 20);
    let per_second = rebuilt.depth_messages / 20;
    assert!((2_800..=5_200).contains(&per_second), "{per_second} book messages per second");
    let deletes = rebuilt.deletes * 100 / rebuilt.levels;
    assert!((15..=40).contains(&deletes), "{deletes} % of the levels sent are deletes");
}

#[test]
fn every_depth_of_kraken_is_truncated_as_the_subscriber_does() {
    for (kraken_depth, book_levels) in [(10, 200), (25, 20), (100, 150), (1_000, 60)] {
        let base = SimulatorConfig { venues: vec![Venue::KrakenSpot], pairs: 30, ..SimulatorConfig::default() };
        let config = SimulatorConfig { kraken_depth, book_levels, updates_per_second: 2_000, seed: 7, ..base };
        let (simulator, rebuilt) = run(config, 5, SECOND);
        rebuilt.assert_is(&simulator);
    }
}

#[test]
fn a_seed_decides_everything_and_the_steps_of_time_nothing() {
    let frames = |seed, step_ns: u64| {
        let mut simulator =
            Simulator::new(SimulatorConfig { seed, updates_per_second: 500, ..SimulatorConfig::default() });
        let (start, mut out) = (simulator.now_ns(), Vec::new());
        simulator.opening(&mut out);
        (1..=4 * SECOND / step_ns).for_each(|step| simulator.advance(start + step * step_ns, &mut out));
        out
    };
    let once = frames(3, SECOND);
    assert!(once.len() > 1_500);
    assert_eq!(once, frames(3, SECOND));
    assert_eq!(once, frames(3, SECOND / 250));
    assert_ne!(once, frames(4, SECOND));
}

#[test]
fn a_snapshot_in_the_middle_is_the_book_at_that_point() {
    let config = SimulatorConfig { pairs: 5, updates_per_second: 1_000, ..SimulatorConfig::default() };
    let (mut simulator, mut rebuilt) = run(config, 3, SECOND);
    let mut out = Vec::new();
    for round in 1..=20 {
        let now = simulator.now_ns() + SECOND / 10;
        simulator.advance(now, &mut out);
        for instrument in simulator.instruments() {
            assert!(simulator.snapshot(instrument.venue, &instrument.symbol, now, &mut out));
        }
        if round % 7 == 0 {
            simulator.opening(&mut out);
        }
        rebuilt.feed(&out);
        out.clear();
    }
    rebuilt.assert_is(&simulator);
    assert!(!simulator.snapshot(Venue::BinanceSpot, "NOSUCH", 0, &mut out));
    assert!(out.is_empty());
}

#[test]
fn depth_neither_drains_nor_swells_in_ten_minutes() {
    let config = SimulatorConfig { pairs: 4, updates_per_second: 400, kraken_depth: 25, ..SimulatorConfig::default() };
    let (levels, depth) = (200, 25);
    let (mut simulator, mut out) = (Simulator::new(config), Vec::new());
    let mut rebuilt = Rebuilt::default();
    simulator.opening(&mut out);
    for _ in 0..600 {
        simulator.advance(simulator.now_ns() + SECOND, &mut out);
        rebuilt.feed(&out);
        out.clear();
        for ((venue, symbol), book) in &rebuilt.books {
            let (least, most) = if *venue == Venue::KrakenSpot { (depth, depth) } else { (levels / 2, levels * 3 / 2) };
            for side in [&book.bids, &book.asks] {
                assert!((least..=most).contains(&side.len()), "{symbol}: {} levels", side.len());
            }
            let [bid, _, ask, _] = book.best();
            assert!((ask - bid) * 200 < ask, "{symbol}: the spread is {bid}..{ask}");
        }
    }
    rebuilt.assert_is(&simulator);
}

#[test]
fn a_later_start_has_greater_ids() {
    let first = SimulatorConfig { pairs: 1, ..SimulatorConfig::default() };
    let later = SimulatorConfig { start_ns: first.start_ns + 60 * SECOND, ..first.clone() };
    let (before, _) = run(first, 60, SECOND);
    let after = Simulator::new(later);
    let id = |simulator: &Simulator| simulator.book(Venue::BinanceSpot, "BTCUSDT").unwrap().last_update_id;
    assert!(id(&before) < id(&after));
}

#[test]
fn activity_comes_in_bursts_and_common_to_the_venues() {
    let mut simulator = Simulator::new(SimulatorConfig { updates_per_second: 2_000, ..SimulatorConfig::default() });
    let (mut out, mut windows) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        out.clear();
        simulator.advance(simulator.now_ns() + SECOND / 10, &mut out);
        let binance = out.iter().filter(|(venue, _)| *venue == Venue::BinanceSpot).count();
        windows.push((binance, out.len() - binance));
    }
    windows.sort_unstable();
    let (calm, busy) = (windows[30], windows[299]);
    assert!(busy.0 > calm.0 * 3 && busy.1 > calm.1 * 2, "{calm:?} {busy:?}");
}

#[test]
fn nothing_to_simulate_is_silence() {
    let config = |pairs, venues| SimulatorConfig { pairs, venues, ..SimulatorConfig::default() };
    for config in [config(0, vec![Venue::BinanceSpot]), config(4, Vec::new())] {
        let (mut simulator, mut out) = (Simulator::new(config), Vec::new());
        simulator.advance(u64::MAX, &mut out);
        assert!(out.is_empty());
        assert!(simulator.instruments().is_empty());
    }
}

#[test]
fn many_pairs_have_names_of_their_own_and_room_for_a_book() {
    let simulator = Simulator::new(SimulatorConfig { pairs: 1_200, book_levels: 60, ..SimulatorConfig::default() });
    let instruments = simulator.instruments();
    assert_eq!(instruments.len(), 2_400);
    let mut names: Vec<_> = instruments.iter().map(|instrument| (instrument.venue, &instrument.symbol)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 2_400);
    for instrument in &instruments {
        let book = simulator.book(instrument.venue, &instrument.symbol).unwrap();
        let full = if instrument.venue == Venue::KrakenSpot { 25 } else { 60 };
        assert_eq!((book.bids.len(), book.asks.len()), (full, full), "{}", instrument.symbol);
        assert!(units(&book.bids[0].0) < units(&book.asks[0].0));
    }
}
