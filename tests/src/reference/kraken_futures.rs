//! Kraken Futures by its published rule: a snapshot replaces; each update is one level, with a `seq` of its product that
//! is one above the last, else the book is in doubt until another snapshot.
//!
//! Never: an update over a hole.

use super::books::{Books, Text, side_of};
use super::{Line, Reconstruction, Rules, book::Book, book::put};
use anyhow::{Context, Result};
use serde::Deserialize;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
}

#[derive(Deserialize)]
struct Level {
    price: Text,
    qty: Text,
}

#[derive(Deserialize)]
struct Message {
    feed: String,
    product_id: String,
    seq: u64,
    #[serde(default)]
    bids: Vec<Level>,
    #[serde(default)]
    asks: Vec<Level>,
    side: Option<String>,
    price: Option<Text>,
    qty: Option<Text>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message() else { return Ok(()) };
        if !raw.starts_with(r#"{"feed":"book_snapshot""#) && !raw.starts_with(r#"{"feed":"book""#) {
            return Ok(());
        }
        let message: Message = serde_json::from_str(raw)?;
        let (product, seq) = (message.product_id.as_str(), message.seq);
        if message.feed == "book_snapshot" {
            let mut book = Book::default();
            for level in &message.bids {
                put(&mut book.bids, &level.price.0, &level.qty.0)?;
            }
            for level in &message.asks {
                put(&mut book.asks, &level.price.0, &level.qty.0)?;
            }
            self.books.replace(product, Some(seq), book);
            return Ok(());
        }
        self.books.stats.depth_events += 1;
        if self.books.last(product).is_some_and(|last| seq != last + 1) {
            self.books.gap(product);
            return Ok(());
        }
        self.books.update(product, Some(seq), |book, _| {
            let (price, quantity) = message.price.as_ref().zip(message.qty.as_ref()).context("a level")?;
            put(side_of(book, message.side.as_deref().context("a side")?)?, &price.0, &quantity.0)
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
    fn a_step_of_two_is_a_gap_of_that_product_alone() {
        let snapshot = |product: &str| {
            format!(
                r#"{{"feed":"book_snapshot","product_id":"{product}","seq":7,"bids":[{{"price":1060.5,"qty":2.0}}],"asks":[]}}"#
            )
        };
        let update = |product: &str, seq: u64, qty: &str| {
            format!(
                r#"{{"feed":"book","product_id":"{product}","side":"buy","seq":{seq},"price":1060.5,"qty":{qty},"timestamp":1}}"#
            )
        };
        let lines = [snapshot("P"), snapshot("Q"), update("P", 8, "3.0"), update("Q", 9, "0.0"), update("P", 9, "4.0")];
        let lines: Vec<_> = lines.iter().map(|raw| ("ws", raw.as_str())).collect();
        let whole = fed(Venue::default(), &lines);
        assert_eq!(whole.books["P"].bids, [pair("1060.5", "4")]);
        assert_eq!(whole.books["P"].last_update_id.as_deref(), Some("9"));
        assert_eq!((whole.stats.gaps, whole.books.len(), whole.stats.applied), (1, 1, 2));
    }
}
