//! BitMEX `orderBookL2` by its published rule: everything before a symbol's `partial` is discarded; then rows are inserted,
//! updated and deleted by their id, whose price only the partial and the insert say.
//!
//! Never: a price made of an id.

use super::books::{Books, Text, side_of};
use super::{Line, Reconstruction, Rules, book::Book, book::put};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
    /// The price of each row, by symbol, id and side.
    prices: BTreeMap<(String, u64, String), Text>,
}

#[derive(Deserialize)]
struct Filter {
    symbol: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    action: String,
    filter: Option<Filter>,
    data: Vec<Level>,
}

#[derive(Deserialize)]
struct Level {
    symbol: String,
    id: u64,
    side: String,
    size: Option<Text>,
    price: Option<Text>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message().filter(|raw| raw.starts_with(r#"{"table":"orderBookL2","#)) else {
            return Ok(());
        };
        let message: Message = serde_json::from_str(raw)?;
        let mut symbols: BTreeSet<&str> = message.data.iter().map(|row| row.symbol.as_str()).collect();
        symbols.extend(message.filter.as_ref().and_then(|filter| filter.symbol.as_deref()));
        for symbol in symbols {
            let rows = message.data.iter().filter(|row| row.symbol == symbol);
            if message.action == "partial" {
                self.prices.retain(|(known, _, _), _| known != symbol);
                self.books.replace(symbol, None, Book::default());
            } else {
                self.books.stats.depth_events += 1;
            }
            self.rows(symbol, &message.action, rows)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        self.books.finish()
    }
}

impl Venue {
    fn rows<'a>(&mut self, symbol: &str, action: &str, rows: impl Iterator<Item = &'a Level>) -> Result<()> {
        let Self { books, prices } = self;
        let change = |book: &mut Book, stats: &mut super::Stats| -> Result<()> {
            for row in rows {
                let key = (row.symbol.clone(), row.id, row.side.clone());
                if action == "partial" || action == "insert" {
                    prices.insert(key.clone(), row.price.clone().context("a new row without price")?);
                } else if action != "update" && action != "delete" {
                    bail!("an action {action:?}");
                }
                let price = if action == "delete" { prices.remove(&key) } else { prices.get(&key).cloned() };
                let Some(price) = price else {
                    stats.unknown += 1;
                    continue;
                };
                let size = if action == "delete" { Some("0") } else { row.size.as_ref().map(|size| size.0.as_str()) };
                put(side_of(book, &row.side)?, &price.0, size.context("a row without size")?)?;
            }
            Ok(())
        };
        match action {
            "partial" => books.fill(symbol, change)?,
            _ => books.update(symbol, None, change)?,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fed, pair};
    use super::*;

    #[test]
    fn rows_are_known_by_their_id() {
        let frame = |action: &str, rows: &str| {
            format!(r#"{{"table":"orderBookL2","action":"{action}","filter":{{"symbol":"X"}},"data":[{rows}]}}"#)
        };
        let lines = [
            frame("insert", r#"{"symbol":"X","id":1,"side":"Buy","size":1,"price":9}"#),
            frame("partial", r#"{"symbol":"X","id":5,"side":"Buy","size":30,"price":1e-7}"#),
            frame("insert", r#"{"symbol":"X","id":4,"side":"Sell","size":2,"price":0.0000002}"#),
            frame("update", r#"{"symbol":"X","id":5,"side":"Buy","size":40}"#),
            frame("delete", r#"{"symbol":"X","id":4,"side":"Sell"}"#),
            frame("update", r#"{"symbol":"X","id":4,"side":"Sell","size":1}"#),
        ];
        let lines: Vec<_> = lines.iter().map(|raw| ("ws", raw.as_str())).collect();
        let whole = fed(Venue::default(), &lines);
        assert_eq!(
            (whole.books["X"].bids.as_slice(), whole.books["X"].asks.len()),
            (&[pair("0.0000001", "40")][..], 0)
        );
        assert_eq!((whole.stats.unknown, whole.stats.dropped_before_snapshot, whole.stats.applied), (1, 1, 4));
    }
}
