//! Bitfinex v2 by its published rule: a channel's first payload is the whole book; a row is price, count and amount, with a
//! count of 0 for a level that is gone and the amount's sign for its side. The last word of every array frame is one above
//! that of the one before on its connection, else every book is in doubt until a new connection.
//!
//! Never: an update over a hole.

use super::books::{Books, Row, at};
use super::{Line, Reconstruction, Rules, Stats, book::Book, book::put};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
    /// The number of the last frame, by connection.
    last: BTreeMap<String, u64>,
    /// The symbol of a book's channel.
    channels: BTreeMap<(String, u64), String>,
}

#[derive(Deserialize)]
struct Event {
    event: String,
    channel: Option<String>,
    #[serde(rename = "chanId")]
    id: Option<u64>,
    symbol: Option<String>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message() else { return Ok(()) };
        if raw.starts_with('{') {
            let event: Event = serde_json::from_str(raw)?;
            if event.event == "subscribed" && event.channel.as_deref() == Some("book") {
                let (id, symbol) = event.id.zip(event.symbol).context("a subscription to nothing")?;
                self.channels.insert((line.conn.clone(), id), symbol);
            }
            return Ok(());
        }
        let parts: Vec<&RawValue> = serde_json::from_str(raw)?;
        let [channel, payload, .., number] = parts.as_slice() else { return Ok(()) };
        let number: u64 = number.get().parse()?;
        if self.last.insert(line.conn.clone(), number).is_some_and(|last| number != last + 1) {
            self.books.gap_of_all();
        }
        let Some(symbol) = self.channels.get(&(line.conn.clone(), channel.get().parse()?)) else { return Ok(()) };
        let payload = payload.get();
        if payload.starts_with("[[") || payload == "[]" {
            let mut book = Book::default();
            for level in serde_json::from_str::<Vec<Row>>(payload)? {
                set(&mut book, &level, &mut self.books.stats)?;
            }
            self.books.replace(symbol, None, book);
        } else if payload.starts_with('[') {
            let level: Row = serde_json::from_str(payload)?;
            self.books.stats.depth_events += 1;
            self.books.update(symbol, None, |book, stats| set(book, &level, stats))?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        self.books.finish()
    }
}

fn set(book: &mut Book, level: &Row, stats: &mut Stats) -> Result<()> {
    let (price, count, amount) = (at(level, 0)?, at(level, 1)?, at(level, 2)?);
    let (side, amount) = match amount.strip_prefix('-') {
        Some(amount) => (&mut book.asks, amount),
        None => (&mut book.bids, amount),
    };
    let before = side.len();
    put(side, price, if count == "0" { "0" } else { amount })?;
    stats.unknown += u64::from(count == "0" && side.len() == before);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fed, pair};
    use super::*;

    #[test]
    fn counts_and_signs_say_what_a_row_means_and_numbers_rise_by_one() {
        let lines = [
            ("ws", r#"{"event":"info","version":2}"#),
            ("ws", r#"[9,"hb",1]"#),
            ("ws", r#"{"event":"subscribed","channel":"book","chanId":9,"symbol":"tXY"}"#),
            ("ws", r#"[9,[[2e-7,1,5],[3e-7,2,-4.50]],2]"#),
            ("ws", r#"[9,[0.0000002,0,1],3]"#),
            ("ws", r#"[9,[0.0000001,1,7],4]"#),
            ("ws", r#"[9,[0.0000005,0,-1],6]"#),
        ];
        let whole = fed(Venue::default(), &lines[..6]);
        assert_eq!(whole.books["tXY"].bids, [pair("0.0000001", "7")]);
        assert_eq!(whole.books["tXY"].asks, [pair("0.0000003", "4.5")]);
        assert_eq!((whole.stats.applied, whole.stats.gaps, whole.stats.unknown), (2, 0, 0));
        let holed = fed(Venue::default(), &lines);
        assert_eq!((holed.stats.gaps, holed.books.len()), (1, 0));
    }
}
