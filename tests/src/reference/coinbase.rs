//! Coinbase Exchange `level2` by its published rule: a snapshot replaces, updates apply in the order of their arrival.
//!
//! Never: a gap found; the venue sends nothing that would show one.

use super::books::{Books, Row, at, side_of};
use super::{Line, Reconstruction, Rules, book::put};
use anyhow::{Context, Result};
use serde::Deserialize;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    product_id: Option<String>,
    #[serde(default)]
    bids: Vec<Row>,
    #[serde(default)]
    asks: Vec<Row>,
    #[serde(default)]
    changes: Vec<Row>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message() else { return Ok(()) };
        if !raw.contains(r#""type":"snapshot""#) && !raw.contains(r#""type":"l2update""#) {
            return Ok(());
        }
        let message: Message = serde_json::from_str(raw)?;
        let product = message.product_id.context("a book without product")?;
        if message.kind == "snapshot" {
            return self.books.snapshot(&product, None, &message.bids, &message.asks);
        }
        self.books.stats.depth_events += 1;
        self.books.update(&product, None, |book, _| {
            let mut rows = message.changes.iter();
            rows.try_for_each(|row| put(side_of(book, at(row, 0)?)?, at(row, 1)?, at(row, 2)?))
        })?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        self.books.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fed, pair};
    use super::*;

    #[test]
    fn changes_count_from_the_snapshot_on() {
        let change = |side: &str, price: &str, size: &str| {
            format!(r#"{{"type":"l2update","product_id":"X-Y","changes":[["{side}","{price}","{size}"]]}}"#)
        };
        let snapshot = r#"{"type":"snapshot","product_id":"X-Y","asks":[["1.2","3"]],"bids":[["1.10","2.0"]]}"#;
        let lines = [
            ("ws", &*change("buy", "9", "9")),
            ("ws", snapshot),
            ("ws", &*change("sell", "1.2", "0.000")),
            ("ws", &*change("sell", "1.1", "4")),
        ];
        let whole = fed(Venue::default(), &lines);
        assert_eq!(whole.books["X-Y"].bids, [pair("1.1", "2")]);
        assert_eq!(whole.books["X-Y"].asks, [pair("1.1", "4")]);
        assert_eq!((whole.stats.applied, whole.stats.dropped_before_snapshot, whole.stats.crossed), (2, 1, 1));
    }
}
