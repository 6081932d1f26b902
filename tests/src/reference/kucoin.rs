//! KuCoin `level2` by its published rule: buffer messages until the whole book is fetched; drop `sequenceEnd <= sequence`;
//! the first applied has `sequenceStart <= sequence + 1`; then `sequenceStart == last sequenceEnd + 1`. A row at the price 0
//! only counts on.
//!
//! Never: an update over a hole.

use super::books::{Books, Row, at, put_rows};
use super::{Line, Reconstruction, Rules};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
    waiting: BTreeMap<String, Vec<Update>>,
    bridged: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Message {
    data: Update,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    sequence_start: u64,
    sequence_end: u64,
    symbol: String,
    changes: Changes,
}

#[derive(Deserialize)]
struct Changes {
    asks: Vec<Row>,
    bids: Vec<Row>,
}

#[derive(Deserialize)]
struct Reply {
    data: Fetched,
}

#[derive(Deserialize)]
struct Fetched {
    sequence: String,
    bids: Vec<Row>,
    asks: Vec<Row>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        if line.kind == "http" {
            let (url, raw) = line.url.as_deref().zip(line.raw.as_deref()).context("a reply")?;
            let Some((_, query)) = url.split_once("/orderbook/level2?") else { return Ok(()) };
            let symbol = query.split('&').find_map(|field| field.strip_prefix("symbol=")).context("a symbol")?;
            return self.fetched(symbol, &serde_json::from_str::<Reply>(raw)?.data);
        }
        let Some(raw) = line.message().filter(|raw| raw.contains(r#""subject":"trade.l2update""#)) else {
            return Ok(());
        };
        self.books.stats.depth_events += 1;
        self.update(serde_json::from_str::<Message>(raw)?.data)
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        let mut whole = self.books.finish()?;
        whole.stats.unanchored += u64::try_from(self.waiting.values().map(Vec::len).sum::<usize>())?;
        Ok(whole)
    }
}

impl Venue {
    fn fetched(&mut self, symbol: &str, whole: &Fetched) -> Result<()> {
        let id: u64 = whole.sequence.parse()?;
        let first = self.waiting.get(symbol).and_then(|waiting| waiting.first());
        let too_old = first.is_some_and(|first| id + 1 < first.sequence_start);
        if too_old || self.books.last(symbol).is_some_and(|last| id <= last) {
            self.books.stats.snapshots_refused += 1;
            return Ok(());
        }
        self.books.snapshot(symbol, Some(id), &whole.bids, &whole.asks)?;
        self.bridged.remove(symbol);
        let waiting = self.waiting.remove(symbol).unwrap_or_default();
        waiting.into_iter().try_for_each(|update| self.update(update))
    }

    fn update(&mut self, update: Update) -> Result<()> {
        let symbol = update.symbol.clone();
        let Some(last) = self.books.last(&symbol) else {
            self.waiting.entry(symbol).or_default().push(update);
            return Ok(());
        };
        if update.sequence_end <= last {
            self.books.stats.dropped_before_snapshot += 1;
            return Ok(());
        }
        let follows = match self.bridged.contains(&symbol) {
            true => update.sequence_start == last + 1,
            false => update.sequence_start <= last + 1,
        };
        if !follows {
            self.books.gap(&symbol);
            self.waiting.entry(symbol).or_default().push(update);
            return Ok(());
        }
        let priced = |rows: &[Row]| -> Result<Vec<Row>> {
            let mut kept = Vec::new();
            for row in rows {
                let counts_on = at(row, 0)? == "0";
                if !counts_on {
                    kept.push(row.clone());
                }
            }
            Ok(kept)
        };
        self.bridged.insert(symbol.clone());
        self.books.update(&symbol, Some(update.sequence_end), |book, _| {
            put_rows(&mut book.asks, &priced(&update.changes.asks)?)?;
            put_rows(&mut book.bids, &priced(&update.changes.bids)?)
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;

    #[test]
    fn a_fetched_book_is_bridged_and_the_price_zero_only_counts_on() {
        let update = |start: u64, end: u64, bids: &str| {
            let raw = format!(
                r#"{{"data":{{"sequenceStart":{start},"symbol":"X-Y","changes":{{"asks":[],"bids":[{bids}]}},"sequenceEnd":{end}}},"subject":"trade.l2update"}}"#
            );
            Line::of("ws", &raw)
        };
        let url = Some("https://venue/api/v3/market/orderbook/level2?symbol=X-Y".into());
        let raw = r#"{"code":"200000","data":{"time":1,"sequence":"100","bids":[["1.0","5"]],"asks":[]}}"#;
        let fetched = Line { url, ..Line::of("http", raw) };
        let whole = [
            update(98, 99, r#"["0.5","1","99"]"#),
            update(100, 102, r#"["2","1","102"]"#),
            fetched,
            update(103, 103, r#"["0","0","103"]"#),
        ];
        let feed = |lines: &[Line]| {
            let mut venue = Box::new(Venue::default());
            lines.iter().for_each(|line| venue.frame(line).unwrap());
            venue.finish().unwrap()
        };
        let right = feed(&whole);
        assert_eq!(right.books["X-Y"].bids, [pair("2", "1"), pair("1", "5")]);
        assert_eq!(right.books["X-Y"].last_update_id.as_deref(), Some("103"));
        assert_eq!((right.stats.dropped_before_snapshot, right.stats.applied), (1, 2));
        let [one, two, three, four] = whole;
        let holed = feed(&[one, two, three, four, update(105, 105, "")]);
        assert_eq!((holed.stats.gaps, holed.stats.unanchored, holed.books.len()), (1, 1, 0));
    }
}
