//! Binance by its published rules: buffer events until a snapshot, bridge it, then every event follows the one before it,
//! else the book is in doubt until another snapshot.
//!
//! * Spot: drop `u <= lastUpdateId`; the first applied has `U <= lastUpdateId + 1 <= u`; then `U == previous u + 1`.
//! * USD-M futures: drop `u < lastUpdateId`; the first applied has `U <= lastUpdateId <= u`; then `pu == previous u`.
//!
//! Never: an event over a hole.

use super::book::{Best, Book, put};
use super::decimal::Decimal;
use super::{Line, Reconstruction, Stats};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Which of the two rules holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Spot,
    Usdm,
}

/// The capture so far.
pub(super) struct Venue {
    rule: Rule,
    stats: Stats,
    instruments: BTreeMap<String, Instrument>,
}

#[derive(Default)]
struct Instrument {
    live: Option<Live>,
    applied: u64,
    waiting: Vec<Depth>,
    tickers: BTreeMap<u64, Vec<Best>>,
    best_at: BTreeMap<u64, Best>,
}

struct Live {
    book: Book,
    last: u64,
    bridged: bool,
}

#[derive(Deserialize)]
struct Combined<'a> {
    stream: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Depth {
    #[serde(rename = "s")]
    symbol: String,
    #[serde(rename = "U")]
    first: u64,
    #[serde(rename = "u")]
    last: u64,
    #[serde(rename = "pu")]
    previous: Option<u64>,
    #[serde(rename = "b")]
    bids: Vec<(String, String)>,
    #[serde(rename = "a")]
    asks: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Ticker {
    #[serde(rename = "s")]
    symbol: String,
    #[serde(rename = "u")]
    id: u64,
    #[serde(rename = "b")]
    bid: String,
    #[serde(rename = "B")]
    bid_quantity: String,
    #[serde(rename = "a")]
    ask: String,
    #[serde(rename = "A")]
    ask_quantity: String,
}

#[derive(Deserialize)]
struct Rest {
    #[serde(rename = "lastUpdateId")]
    id: u64,
    bids: Vec<(String, String)>,
    asks: Vec<(String, String)>,
}

impl Rule {
    /// Whether a snapshot contains the event.
    fn contained(self, depth: &Depth, live: &Live) -> bool {
        match self {
            Self::Usdm if !live.bridged => depth.last < live.last,
            Self::Spot | Self::Usdm => depth.last <= live.last,
        }
    }

    fn follows(self, depth: &Depth, live: &Live) -> bool {
        match (self, live.bridged) {
            (Self::Spot, false) => depth.first <= live.last + 1,
            (Self::Spot, true) => depth.first == live.last + 1,
            (Self::Usdm, false) => depth.first <= live.last,
            (Self::Usdm, true) => depth.previous == Some(live.last),
        }
    }

    /// Whether there is a hole between a snapshot and the first event that waits for it.
    fn too_old(self, id: u64, first: &Depth) -> bool {
        match self {
            Self::Spot => id + 1 < first.first,
            Self::Usdm => id < first.first,
        }
    }
}

impl super::Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = &line.raw else { return Ok(()) };
        match line.kind.as_str() {
            "http" if raw.contains("\"lastUpdateId\"") => {
                let symbol = self.symbol(line.url.as_deref())?;
                let rest = serde_json::from_str(raw)?;
                self.instruments.entry(symbol).or_default().snapshot(self.rule, &rest, &mut self.stats)
            }
            "ws" => self.message(raw),
            _ => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Reconstruction> {
        let mut books = BTreeMap::new();
        for (symbol, instrument) in self.instruments {
            instrument.compare(&mut self.stats);
            if let Some(live) = &instrument.live {
                let report = live.book.report(Some(live.last), instrument.applied);
                books.insert(symbol, report.context("the last book")?);
            }
        }
        Ok(Reconstruction { books, stats: self.stats })
    }
}

impl Venue {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, stats: Stats::default(), instruments: BTreeMap::new() }
    }

    /// Whose snapshot this is: the url says it, or there is only one instrument.
    fn symbol(&self, url: Option<&str>) -> Result<String> {
        let query = url.and_then(|url| url.split_once('?')).map_or("", |(_, query)| query);
        if let Some(symbol) = query.split('&').find_map(|field| field.strip_prefix("symbol=")) {
            return Ok(symbol.to_owned());
        }
        let mut known = self.instruments.keys();
        match (known.next(), known.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => bail!("a snapshot without url needs exactly one instrument before it"),
        }
    }

    fn message(&mut self, raw: &str) -> Result<()> {
        let Combined { stream, data } = serde_json::from_str(raw)?;
        if stream.contains("@depth") {
            let depth: Depth = serde_json::from_str(data.get())?;
            self.stats.depth_events += 1;
            self.instruments.entry(depth.symbol.clone()).or_default().depth(self.rule, depth, &mut self.stats)?;
        } else if stream.ends_with("@bookTicker") {
            let ticker: Ticker = serde_json::from_str(data.get())?;
            let read = |text: &str| Decimal::read(text).map(Some);
            let told =
                [read(&ticker.bid)?, read(&ticker.bid_quantity)?, read(&ticker.ask)?, read(&ticker.ask_quantity)?];
            self.instruments.entry(ticker.symbol).or_default().tickers.entry(ticker.id).or_default().push(told);
        }
        Ok(())
    }
}

impl Instrument {
    fn snapshot(&mut self, rule: Rule, rest: &Rest, stats: &mut Stats) -> Result<()> {
        let too_old = self.waiting.first().is_some_and(|first| rule.too_old(rest.id, first));
        if too_old || self.live.as_ref().is_some_and(|live| rest.id <= live.last) {
            stats.snapshots_refused += 1;
            return Ok(());
        }
        stats.snapshots += 1;
        let mut book = Book::default();
        for (price, quantity) in &rest.bids {
            put(&mut book.bids, price, quantity)?;
        }
        for (price, quantity) in &rest.asks {
            put(&mut book.asks, price, quantity)?;
        }
        self.live = Some(Live { book, last: rest.id, bridged: false });
        for depth in std::mem::take(&mut self.waiting) {
            self.depth(rule, depth, stats)?;
        }
        Ok(())
    }

    fn depth(&mut self, rule: Rule, depth: Depth, stats: &mut Stats) -> Result<()> {
        let Some(live) = &mut self.live else {
            self.waiting.push(depth);
            return Ok(());
        };
        if rule.contained(&depth, live) {
            stats.dropped_before_snapshot += 1;
            return Ok(());
        }
        if !rule.follows(&depth, live) {
            stats.gaps += 1;
            self.live = None;
            self.waiting = vec![depth];
            return Ok(());
        }
        for (price, quantity) in &depth.bids {
            put(&mut live.book.bids, price, quantity)?;
        }
        for (price, quantity) in &depth.asks {
            put(&mut live.book.asks, price, quantity)?;
        }
        stats.told_again += u64::from(depth.last == live.last);
        (live.last, live.bridged) = (depth.last, true);
        self.applied += 1;
        stats.applied += 1;
        stats.crossed += u64::from(live.book.crossed());
        self.best_at.insert(depth.last, live.book.best()?);
        Ok(())
    }

    /// Tickers may come before the event of the same id, or after it: all are known only at the end.
    fn compare(&self, stats: &mut Stats) {
        for (id, told) in &self.tickers {
            let Some(best) = self.best_at.get(id) else { continue };
            for one in told {
                stats.ticker_comparisons += 1;
                stats.ticker_mismatches += u64::from(one != best);
            }
        }
        stats.unanchored += u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fed;
    use super::*;

    fn feed(lines: &[(&str, &str)]) -> Reconstruction {
        fed(Venue::new(Rule::Spot), lines)
    }

    fn depth(first: u64, last: u64, bids: &str, asks: &str) -> String {
        format!(r#"{{"stream":"xy@depth@100ms","data":{{"s":"XY","U":{first},"u":{last},"b":[{bids}],"a":[{asks}]}}}}"#)
    }

    #[test]
    fn buffered_events_bridge_a_snapshot() {
        let old = depth(90, 99, r#"["1.0","9"]"#, "");
        let bridge = depth(98, 102, r#"["1.10","2.50"],["1.00","0.00"]"#, r#"["1.2","0"]"#);
        let next = depth(103, 103, "", r#"["1.30","0.4"]"#);
        let ticker = |id, quantity| {
            format!(
                r#"{{"stream":"xy@bookTicker","data":{{"u":{id},"s":"XY","b":"1.1","B":"2.5","a":"1.3","A":"{quantity}"}}}}"#
            )
        };
        let rest = r#"{"lastUpdateId":100,"bids":[["1.00","5"]],"asks":[["1.20","1"],["1.30","7.0"]]}"#;
        let lines = [
            ("ws", old.as_str()),
            ("ws", &ticker(103, "0.40000")),
            ("ws", &bridge),
            ("http", rest),
            ("ws", &next),
            ("ws", &ticker(102, "8")),
            ("ws", &ticker(101, "8")),
        ];
        let Reconstruction { books, stats } = feed(&lines);
        let pair = |price: &str, quantity: &str| (price.to_owned(), quantity.to_owned());
        assert_eq!(books["XY"].bids, [pair("1.1", "2.5")]);
        assert_eq!(books["XY"].asks, [pair("1.3", "0.4")]);
        assert_eq!(books["XY"].last_update_id.as_deref(), Some("103"));
        assert_eq!((stats.depth_events, stats.applied, stats.dropped_before_snapshot), (3, 2, 1));
        assert_eq!((stats.ticker_comparisons, stats.ticker_mismatches, stats.gaps), (2, 1, 0));
    }

    #[test]
    fn a_hole_is_a_gap_and_an_old_snapshot_heals_nothing() {
        let rest = |id| format!(r#"{{"lastUpdateId":{id},"bids":[["1","1"]],"asks":[]}}"#);
        let (first, hole, on) = (depth(11, 12, "", ""), depth(14, 15, "", ""), depth(16, 16, r#"["0.9","1"]"#, ""));
        let lines = [
            ("ws", first.as_str()),
            ("http", &rest(10)),
            ("ws", &hole),
            ("http", &rest(12)),
            ("http", &rest(13)),
            ("ws", &on),
        ];
        let Reconstruction { books, stats } = feed(&lines);
        assert_eq!((stats.gaps, stats.snapshots, stats.snapshots_refused, stats.applied), (1, 2, 1, 3));
        assert_eq!(books["XY"].bids.len(), 2);
    }

    #[test]
    fn futures_bridge_with_the_snapshots_own_id_and_then_chain_by_the_id_before() {
        let depth = |previous, first, last, bid: &str| {
            format!(
                r#"{{"stream":"xy@depth@0ms","data":{{"s":"XY","pu":{previous},"U":{first},"u":{last},"b":[{bid}],"a":[]}}}}"#
            )
        };
        let rest = r#"{"lastUpdateId":100,"bids":[["1","1"]],"asks":[]}"#;
        let lines = [
            ("ws", depth(80, 85, 99, r#"["0.1","1"]"#)),
            ("ws", depth(99, 95, 100, r#"["2","1"]"#)),
            ("http", rest.to_owned()),
            ("ws", depth(100, 140, 150, r#"["3","1"]"#)),
            ("ws", depth(151, 160, 170, r#"["4","1"]"#)),
        ];
        let borrowed: Vec<_> = lines.iter().map(|(kind, raw)| (*kind, raw.as_str())).collect();
        let whole = fed(Venue::new(Rule::Usdm), borrowed.get(..4).unwrap());
        assert_eq!(whole.books["XY"].bids.len(), 3);
        assert_eq!(whole.books["XY"].last_update_id.as_deref(), Some("150"));
        assert_eq!((whole.stats.applied, whole.stats.dropped_before_snapshot, whole.stats.gaps), (2, 1, 0));
        assert_eq!(whole.stats.told_again, 1);
        let holed = fed(Venue::new(Rule::Usdm), &borrowed);
        assert_eq!((holed.books.len(), holed.stats.gaps, holed.stats.unanchored), (0, 1, 1));
    }
}
