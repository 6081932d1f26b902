//! dYdX v3 by its published rule: messages come out of order, so every level of a market keeps the offset that it was last
//! set at, and only a message with a greater one changes it.
//!
//! Never: a message refused as a whole because its offset went back.

use super::books::{Books, Row, Text, at};
use super::{Line, Reconstruction, Rules, Stats, book::Book, book::put, decimal::Decimal};
use anyhow::Result;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Offsets by side and price, of levels that are gone as well.
type Offsets = BTreeMap<(bool, Decimal), u64>;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
    offsets: BTreeMap<String, Offsets>,
    /// The greatest offset of a market so far.
    greatest: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: String,
    channel: Option<String>,
    id: Option<String>,
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Level {
    price: Text,
    size: Text,
    offset: String,
}

#[derive(Deserialize)]
struct Whole {
    bids: Vec<Level>,
    asks: Vec<Level>,
}

#[derive(Deserialize)]
struct Changes {
    offset: String,
    bids: Vec<Row>,
    asks: Vec<Row>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message() else { return Ok(()) };
        let message: Message<'_> = serde_json::from_str(raw)?;
        let Some((market, contents)) = message.id.zip(message.contents) else { return Ok(()) };
        if message.channel.as_deref() != Some("v3_orderbook") {
            return Ok(());
        }
        match message.kind.as_str() {
            "subscribed" => self.whole(&market, &serde_json::from_str(contents.get())?),
            "channel_data" => self.changes(&market, &serde_json::from_str(contents.get())?),
            _ => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        self.books.finish()
    }
}

impl Venue {
    fn whole(&mut self, market: &str, whole: &Whole) -> Result<()> {
        let (mut book, mut offsets) = (Book::default(), Offsets::new());
        for (bid, level) in
            whole.bids.iter().map(|level| (true, level)).chain(whole.asks.iter().map(|level| (false, level)))
        {
            put(if bid { &mut book.bids } else { &mut book.asks }, &level.price.0, &level.size.0)?;
            offsets.insert((bid, Decimal::read(&level.price.0)?), level.offset.parse()?);
        }
        self.offsets.insert(market.to_owned(), offsets);
        self.books.replace(market, None, book);
        Ok(())
    }

    fn changes(&mut self, market: &str, changes: &Changes) -> Result<()> {
        let Self { books, offsets, greatest } = self;
        let offset: u64 = changes.offset.parse()?;
        books.stats.depth_events += 1;
        let greatest = greatest.entry(market.to_owned()).or_insert(offset);
        books.stats.out_of_order += u64::from(offset < *greatest);
        *greatest = offset.max(*greatest);
        let offsets = offsets.entry(market.to_owned()).or_default();
        let mut set = |book: &mut Book, stats: &mut Stats, bid: bool, row: &Row| -> Result<()> {
            let (price, size) = (at(row, 0)?, at(row, 1)?);
            let key = (bid, Decimal::read(price)?);
            if offsets.get(&key).is_some_and(|known| offset <= *known) {
                stats.suppressed += 1;
                return Ok(());
            }
            offsets.insert(key, offset);
            put(if bid { &mut book.bids } else { &mut book.asks }, price, size)
        };
        books.update(market, None, |book, stats| {
            changes.bids.iter().try_for_each(|row| set(book, stats, true, row))?;
            changes.asks.iter().try_for_each(|row| set(book, stats, false, row))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fed, pair};
    use super::*;

    #[test]
    fn a_late_message_changes_only_what_is_older_than_it() {
        let frame = |offset: u64, bids: &str| {
            format!(
                r#"{{"type":"channel_data","id":"X","channel":"v3_orderbook","contents":{{"offset":"{offset}","bids":[{bids}],"asks":[]}}}}"#
            )
        };
        let whole = r#"{"type":"subscribed","channel":"v3_orderbook","id":"X","contents":{"bids":[{"price":"1","offset":"10","size":"5"}],"asks":[]}}"#;
        let lines = [
            whole.to_owned(),
            frame(9, r#"["1","7"]"#),
            frame(14, r#"["1.0","0"]"#),
            frame(12, r#"["1","8"],["2","3"]"#),
        ];
        let lines: Vec<_> = lines.iter().map(|raw| ("ws", raw.as_str())).collect();
        let whole = fed(Venue::default(), &lines);
        assert_eq!(whole.books["X"].bids, [pair("2", "3")]);
        assert_eq!((whole.stats.suppressed, whole.stats.out_of_order, whole.stats.applied), (2, 1, 3));
    }
}
