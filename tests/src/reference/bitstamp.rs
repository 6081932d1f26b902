//! Bitstamp v2 by its published rule: buffer differences until the whole book is fetched; drop those whose microtimestamp is
//! not after the book's; apply the rest.
//!
//! Never: a gap found; only a time that does not rise would show one.

use super::books::{Books, Row, put_rows};
use super::{Line, Reconstruction, Rules};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const CHANNEL: &str = "diff_order_book_";

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
    waiting: BTreeMap<String, Vec<Data>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    event: String,
    channel: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Data {
    microtimestamp: String,
    bids: Vec<Row>,
    asks: Vec<Row>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        if line.kind == "http" {
            let (url, raw) = line.url.as_deref().zip(line.raw.as_deref()).context("a reply")?;
            let path = url.split('?').next().unwrap_or_default().trim_end_matches('/');
            let Some((_, pair)) = path.split_once("/order_book/") else { return Ok(()) };
            return self.snapshot(pair, &serde_json::from_str(raw)?);
        }
        let Some(raw) = line.message() else { return Ok(()) };
        let message: Message<'_> = serde_json::from_str(raw)?;
        let pair = message.channel.as_deref().and_then(|channel| channel.strip_prefix(CHANNEL));
        if let Some(pair) = pair.filter(|_| message.event == "data") {
            self.books.stats.depth_events += 1;
            self.difference(pair, serde_json::from_str(message.data.get())?)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        let mut whole = self.books.finish()?;
        whole.stats.unanchored += u64::try_from(self.waiting.values().map(Vec::len).sum::<usize>())?;
        Ok(whole)
    }
}

impl Venue {
    fn snapshot(&mut self, pair: &str, whole: &Data) -> Result<()> {
        let at: u64 = whole.microtimestamp.parse()?;
        if self.books.last(pair).is_some_and(|last| at <= last) {
            self.books.stats.snapshots_refused += 1;
            return Ok(());
        }
        self.books.snapshot(pair, Some(at), &whole.bids, &whole.asks)?;
        let waiting = self.waiting.remove(pair).unwrap_or_default();
        waiting.into_iter().try_for_each(|data| self.difference(pair, data))
    }

    fn difference(&mut self, pair: &str, data: Data) -> Result<()> {
        let at: u64 = data.microtimestamp.parse()?;
        match self.books.last(pair) {
            None => self.waiting.entry(pair.to_owned()).or_default().push(data),
            Some(last) if at <= last => self.books.stats.dropped_before_snapshot += 1,
            Some(_) => {
                self.books.update(pair, Some(at), |book, _| {
                    put_rows(&mut book.bids, &data.bids)?;
                    put_rows(&mut book.asks, &data.asks)
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;

    #[test]
    fn what_the_fetched_book_contains_is_dropped() {
        let difference = |at: u64, bids: &str| {
            let raw = format!(
                r#"{{"data":{{"timestamp":"1","microtimestamp":"{at}","bids":[{bids}],"asks":[]}},"channel":"diff_order_book_xy","event":"data"}}"#
            );
            Line::of("ws", &raw)
        };
        let raw = r#"{"microtimestamp": "100", "bids": [["1.0", "2"]], "asks": []}"#;
        let fetched = Line { url: Some("https://venue/api/v2/order_book/xy".into()), ..Line::of("http", raw) };
        let mut venue = Box::new(Venue::default());
        for line in [
            difference(90, r#"["0.5","1"]"#),
            difference(110, r#"["1.00","0.000"],["1.1","1"]"#),
            fetched,
            difference(100, r#"["0.6","1"]"#),
            difference(120, r#"["1.1","3"]"#),
        ] {
            venue.frame(&line).unwrap();
        }
        let whole = venue.finish().unwrap();
        assert_eq!(whole.books["xy"].bids, [pair("1.1", "3")]);
        assert_eq!(whole.books["xy"].last_update_id.as_deref(), Some("120"));
        assert_eq!((whole.stats.dropped_before_snapshot, whole.stats.applied, whole.stats.unanchored), (2, 2, 0));
    }
}
