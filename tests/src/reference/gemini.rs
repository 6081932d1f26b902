//! Gemini v2 by its published rule: the first message of a symbol after its subscription is the whole book, and the only
//! one with trades; later ones are changes.
//!
//! Never: a gap found; the venue sends nothing that would show one.

use super::books::{Books, Row, at, side_of};
use super::{Line, Reconstruction, Rules, book::Book, book::put};
use anyhow::Result;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
}

#[derive(Deserialize)]
struct Message<'a> {
    symbol: String,
    changes: Vec<Row>,
    #[serde(borrow)]
    trades: Option<&'a RawValue>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message().filter(|raw| raw.contains(r#""type":"l2_updates""#)) else { return Ok(()) };
        let message: Message<'_> = serde_json::from_str(raw)?;
        let set = |book: &mut Book| -> Result<()> {
            let mut rows = message.changes.iter();
            rows.try_for_each(|row| put(side_of(book, at(row, 0)?)?, at(row, 1)?, at(row, 2)?))
        };
        if message.trades.is_some() {
            let mut book = Book::default();
            set(&mut book)?;
            self.books.replace(&message.symbol, None, book);
        } else {
            self.books.stats.depth_events += 1;
            self.books.update(&message.symbol, None, |book, _| set(book))?;
        }
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
    fn a_message_with_trades_is_the_whole_book() {
        let lines = [
            ("ws", r#"{"type":"l2_updates","symbol":"XY","changes":[["buy","9","1"]]}"#),
            (
                "ws",
                r#"{"type":"l2_updates","symbol":"XY","changes":[["buy","1.0","2"],["sell","1.5","1"]],"trades":[],"auction_events":[]}"#,
            ),
            ("ws", r#"{"type":"l2_updates","symbol":"XY","changes":[["sell","1.5","0"]]}"#),
            ("ws", r#"{"type":"heartbeat","timestamp":1}"#),
        ];
        let whole = fed(Venue::default(), &lines);
        assert_eq!((whole.books["XY"].bids.as_slice(), whole.books["XY"].asks.len()), (&[pair("1", "2")][..], 0));
        assert_eq!((whole.stats.snapshots, whole.stats.applied, whole.stats.dropped_before_snapshot), (1, 1, 1));
    }
}
