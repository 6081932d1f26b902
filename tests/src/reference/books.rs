//! What the venues share: books by symbol, each from its snapshot on, and what is counted of them.
//!
//! Never: a rule of one venue.

use super::book::{Book, Side, put};
use super::{Reconstruction, Stats};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A JSON string or number, as the text that it was.
#[derive(Clone, Debug)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match raw.get().starts_with('"') {
            true => serde_json::from_str(raw.get()).map(Self).map_err(serde::de::Error::custom),
            false => Ok(Self(raw.get().to_owned())),
        }
    }
}

/// A row of a message: price, quantity, and whatever a venue adds.
pub(super) type Row = Vec<Text>;

/// The text at a place of a row.
pub(super) fn at(row: &[Text], place: usize) -> Result<&str> {
    row.get(place).map(|text| text.0.as_str()).context("a row is too short")
}

/// Sets the levels of rows that begin with price and quantity.
pub(super) fn put_rows(side: &mut Side, rows: &[Row]) -> Result<()> {
    rows.iter().try_for_each(|row| put(side, at(row, 0)?, at(row, 1)?))
}

/// The side that the venue's word means.
pub(super) fn side_of<'a>(book: &'a mut Book, word: &str) -> Result<&'a mut Side> {
    match word {
        "buy" | "Buy" => Ok(&mut book.bids),
        "sell" | "Sell" => Ok(&mut book.asks),
        _ => bail!("no side: {word:?}"),
    }
}

#[derive(Default)]
struct Kept {
    /// None before a snapshot, and after a gap.
    book: Option<Book>,
    last: Option<u64>,
    applied: u64,
}

/// All books of a capture.
#[derive(Default)]
pub(super) struct Books {
    pub(super) stats: Stats,
    kept: BTreeMap<String, Kept>,
}

impl Books {
    /// A snapshot replaces whatever was there; `last` is its id.
    pub(super) fn snapshot(&mut self, symbol: &str, last: Option<u64>, bids: &[Row], asks: &[Row]) -> Result<()> {
        let mut book = Book::default();
        put_rows(&mut book.bids, bids)?;
        put_rows(&mut book.asks, asks)?;
        self.replace(symbol, last, book);
        Ok(())
    }

    pub(super) fn replace(&mut self, symbol: &str, last: Option<u64>, book: Book) {
        self.stats.snapshots += 1;
        let kept = self.kept.entry(symbol.to_owned()).or_default();
        (kept.book, kept.last) = (Some(book), last);
    }

    pub(super) fn is_live(&self, symbol: &str) -> bool {
        self.kept.get(symbol).is_some_and(|kept| kept.book.is_some())
    }

    /// The id of the last change of a live book.
    pub(super) fn last(&self, symbol: &str) -> Option<u64> {
        self.kept.get(symbol).filter(|kept| kept.book.is_some())?.last
    }

    /// An update that brings its book to `last`; dropped where there is none. The changed book, for a look at it.
    pub(super) fn update(
        &mut self,
        symbol: &str,
        last: Option<u64>,
        change: impl FnOnce(&mut Book, &mut Stats) -> Result<()>,
    ) -> Result<Option<&Book>> {
        let Self { stats, kept } = self;
        let Some((kept, book)) = kept.get_mut(symbol).and_then(|kept| {
            let Kept { book, last, applied } = kept;
            book.as_mut().map(|book| ((last, applied), book))
        }) else {
            stats.dropped_before_snapshot += 1;
            return Ok(None);
        };
        change(book, stats)?;
        *kept.0 = last;
        *kept.1 += 1;
        stats.applied += 1;
        stats.crossed += u64::from(book.crossed());
        Ok(Some(book))
    }

    /// Fills a book that a snapshot has just begun.
    pub(super) fn fill(
        &mut self,
        symbol: &str,
        change: impl FnOnce(&mut Book, &mut Stats) -> Result<()>,
    ) -> Result<Option<&Book>> {
        let Self { stats, kept } = self;
        let Some(book) = kept.get_mut(symbol).and_then(|kept| kept.book.as_mut()) else { return Ok(None) };
        change(book, stats)?;
        Ok(Some(book))
    }

    /// The chain of a book's ids broke: it is in doubt until a snapshot.
    pub(super) fn gap(&mut self, symbol: &str) {
        self.stats.gaps += 1;
        if let Some(kept) = self.kept.get_mut(symbol) {
            kept.book = None;
        }
    }

    /// Every book is in doubt until its next snapshot.
    pub(super) fn gap_of_all(&mut self) {
        self.stats.gaps += 1;
        self.kept.values_mut().for_each(|kept| kept.book = None);
    }

    pub(super) fn finish(self) -> Result<Reconstruction> {
        let mut books = BTreeMap::new();
        for (symbol, kept) in self.kept {
            if let Some(book) = kept.book {
                books.insert(symbol, book.report(kept.last, kept.applied)?);
            }
        }
        Ok(Reconstruction { books, stats: self.stats })
    }
}
