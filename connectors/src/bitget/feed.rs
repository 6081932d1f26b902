//! The feed: books with their checksums, trades.
//!
//! Never: a book shown after its checksum failed.

use super::{
    book::{checksum, rows},
    message::{Book, Envelope},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, excerpt, listings::Listings, number::token, numbered::BookText,
    row::Row, standby::Standby, time, trades::UnnamedTrade,
};
use market::{Event, Side, Venue, Window, guard::BreakReason};
use std::sync::Arc;

const VENUE: Venue = Venue::Bitget;

/// Rule 6.
const PONG: &str = "pong";

/// The decoder of Bitget.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { books: Standby::new(VENUE, listings) }
    }

    /// All parts of a `books` message as one change: the message has one place in the order of arrival.
    fn book(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (data, snapshot): (&str, bool),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let read = json(data).and_then(|parts: Vec<Book<'_>>| {
            let venue_ns = parts.last().map_or(Ok(0), |last| milliseconds(token(last.ts)))?;
            Ok((parts, venue_ns))
        });
        let (mut parts, venue_ns) =
            read.inspect_err(|_| self.books.fail(arrival, symbol, BreakReason::Undecodable, out))?;
        if snapshot {
            // The last of several replaces those before.
            parts.drain(..parts.len().saturating_sub(1));
        }
        let Some(right) = parts.last().map(|last| last.checksum) else { return Ok(()) };
        let text = BookText { symbol, levels: parts.iter().flat_map(rows), window: Window::Whole, venue_ns };
        let check = |text: &_| right.map(|right| checksum(text) == right);
        if snapshot {
            self.books.snapshot(arrival, text, check, out)
        } else {
            self.books.update(arrival, text, check, out)
        }
    }

    /// Rule 5.
    fn trades(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let rows: Vec<Row<'_, 4>> = json(data)?;
        self.books.unnamed_trades(arrival, symbol, rows.iter().rev().map(trade), out)
    }
}

fn trade<'a>(row: &Row<'a, 4>) -> Result<UnnamedTrade<'a>, Undecodable> {
    let Row([at, price, quantity, side]) = *row;
    let taker = match side {
        "buy" => Side::Bid,
        "sell" => Side::Ask,
        _ => return Err(Undecodable::Field { venue: VENUE, field: "side", text: excerpt(side) }),
    };
    Ok(UnnamedTrade { price, quantity, taker, venue_ns: milliseconds(at)? })
}

fn milliseconds(text: &str) -> Result<u64, Undecodable> {
    let ms = text.parse().map_err(|_| Undecodable::Time { venue: VENUE, text: excerpt(text) })?;
    time::from_ms(VENUE, ms)
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(VENUE, text)
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn books(&self) -> &dyn Books {
        &self.books
    }

    fn books_mut(&mut self) -> &mut dyn Books {
        &mut self.books
    }

    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        if text == PONG {
            self.books.counts.ignored += 1;
            return Ok(());
        }
        let Envelope { event, action, arg, data } = json(text)?;
        let stream = arg.as_ref().map(|arg| (&*arg.channel, arg.symbol()));
        match (event.as_deref(), stream, data) {
            (None, Some(("books", symbol)), Some(data)) => {
                self.book(arrival, &symbol, (data.get(), action.as_deref() == Some("snapshot")), out)
            }
            (None, Some(("trade", symbol)), Some(data)) => self.trades(arrival, &symbol, data.get(), out),
            (Some("unsubscribe"), Some(("books", symbol)), _) => {
                self.books.lose(arrival, &symbol, BreakReason::Unsubscribed, out);
                Ok(())
            }
            (Some("subscribe"), ..) => Ok(()),
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
