//! Kraken spot v2 by its published rule: a snapshot replaces; updates apply in order; then both sides are truncated to
//! the subscribed depth, and the checksum over the ten best levels is compared, from the text of the numbers.
//!
//! Never: a number that was parsed.

use super::book::{Book, put};
use super::crc::{crc32, kraken_text};
use super::{Line, Reconstruction, Rules, Stats};
use anyhow::Result;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// What Kraken subscribes to when no depth is asked for.
const DEPTH_DEFAULT: usize = 10;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    stats: Stats,
    books: BTreeMap<String, (Book, u64)>,
    depths: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Message<'a> {
    method: Option<String>,
    success: Option<bool>,
    channel: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Subscribed {
    channel: String,
    symbol: Option<String>,
    depth: Option<usize>,
}

#[derive(Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
    qty: &'a RawValue,
}

#[derive(Deserialize)]
struct Data<'a> {
    symbol: String,
    #[serde(borrow)]
    bids: Vec<Level<'a>>,
    asks: Vec<Level<'a>>,
    checksum: u32,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.raw.as_deref().filter(|_| line.kind == "ws") else { return Ok(()) };
        let message: Message<'_> = serde_json::from_str(raw)?;
        if message.method.as_deref() == Some("subscribe")
            && message.success == Some(true)
            && let Some(result) = message.result
        {
            let subscribed: Subscribed = serde_json::from_str(result.get())?;
            if let Some(symbol) = subscribed.symbol.filter(|_| subscribed.channel == "book") {
                self.depths.insert(symbol, subscribed.depth.unwrap_or(DEPTH_DEFAULT));
            }
        }
        if message.channel.as_deref() == Some("book")
            && let Some(data) = message.data
        {
            let snapshot = message.kind.as_deref() == Some("snapshot");
            for data in serde_json::from_str::<Vec<Data<'_>>>(data.get())? {
                self.book(&data, snapshot)?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        let report = |(symbol, (book, applied)): (String, (Book, u64))| Ok((symbol, book.report(None, applied)?));
        Ok(Reconstruction { books: self.books.into_iter().map(report).collect::<Result<_>>()?, stats: self.stats })
    }
}

impl Venue {
    fn book(&mut self, data: &Data<'_>, snapshot: bool) -> Result<()> {
        self.stats.depth_events += 1;
        if snapshot {
            self.stats.snapshots += 1;
            self.books.entry(data.symbol.clone()).or_default().0 = Book::default();
        }
        let Some((book, applied)) = self.books.get_mut(&data.symbol) else {
            self.stats.dropped_before_snapshot += 1;
            return Ok(());
        };
        for level in &data.bids {
            put(&mut book.bids, level.price.get(), level.qty.get())?;
        }
        for level in &data.asks {
            put(&mut book.asks, level.price.get(), level.qty.get())?;
        }
        book.truncate(self.depths.get(&data.symbol).copied().unwrap_or(DEPTH_DEFAULT));
        *applied += 1;
        self.stats.applied += 1;
        self.stats.crossed += u64::from(book.crossed());
        self.stats.checksums += 1;
        self.stats.checksum_matches += u64::from(crc32(kraken_text(book).as_bytes()) == data.checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_replaces_and_an_update_truncates() {
        let mut venue = Box::new(Venue::default());
        let mut feed = |raw: &str| venue.frame(&Line::of("ws", raw)).unwrap();
        feed(r#"{"channel":"status","type":"update","data":[{"connection_id":13004644750806874624}]}"#);
        feed(r#"{"method":"subscribe","result":{"channel":"book","depth":2,"symbol":"X/Y"},"success":true}"#);
        feed(r#"{"channel":"book","type":"update","data":[{"symbol":"X/Y","bids":[],"asks":[],"checksum":0}]}"#);
        feed(
            r#"{"channel":"book","type":"snapshot","data":[{"symbol":"X/Y","bids":[{"price":9,"qty":1}],"asks":[],"checksum":0}]}"#,
        );
        feed(
            r#"{"channel":"book","type":"snapshot","data":[{"symbol":"X/Y","bids":[{"price":0.50,"qty":0.10},{"price":0.40,"qty":1}],"asks":[{"price":0.7,"qty":2}],"checksum":0}]}"#,
        );
        // Asks 0.7 x 2, then bids 0.55 x 0.020 and 0.50 x 0.20.
        let crc = crc32(b"7255205020");
        feed(&format!(
            r#"{{"channel":"book","type":"update","data":[{{"symbol":"X/Y","bids":[{{"price":0.55,"qty":0.3}},{{"price":0.55,"qty":0.000}},{{"price":0.55,"qty":0.020}},{{"price":0.50,"qty":0.20}}],"asks":[],"checksum":{crc}}}]}}"#
        ));
        let Reconstruction { books, stats } = venue.finish().unwrap();
        let pair = |price: &str, quantity: &str| (price.to_owned(), quantity.to_owned());
        assert_eq!(books["X/Y"].bids, [pair("0.55", "0.02"), pair("0.5", "0.2")]);
        assert_eq!(books["X/Y"].asks, [pair("0.7", "2")]);
        assert_eq!((stats.depth_events, stats.applied, stats.dropped_before_snapshot, stats.snapshots), (4, 3, 1, 2));
        assert_eq!((stats.checksums, stats.checksum_matches), (3, 1));
    }
}
