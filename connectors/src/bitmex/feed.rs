//! The feed: partials, rows, trades.
//!
//! Never: a book that went on over a row that nobody knew.

use super::{
    book::{Action, Change, Rows, Wrong, side},
    message::{BookRow, Envelope, Named, Trade},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, excerpt, listings::Listings, number::token, numbered::BookText,
    standby::Standby, time, trades::TradeText,
};
use foldhash::HashMap;
use market::{Event, LegId, Venue, Window, guard::BreakReason};
use std::{collections::BTreeMap, sync::Arc};

const VENUE: Venue = Venue::Bitmex;

/// The table that is consumed, and how a subscription to it begins.
const BOOK: &str = "orderBookL2";

/// The decoder of BitMEX.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
    /// The rows of those that had their partial, and nothing wrong since.
    rows: HashMap<(LegId, Box<str>), Rows>,
    /// Legs on which a message about nobody knows which book was lost.
    reconnects: Vec<LegId>,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let (books, rows) = (Standby::new(VENUE, listings), HashMap::default());
        Self { books, rows, reconnects: Vec::new() }
    }

    fn fail(&mut self, arrival: Arrival<'_>, symbol: &str, reason: BreakReason, out: &mut Vec<Event>) {
        self.rows.remove(&(arrival.leg, symbol.into()));
        self.books.fail(arrival, symbol, reason, out);
    }

    /// Every book of the leg is lost.
    fn lose_all(&mut self, arrival: Arrival<'_>, reason: BreakReason, out: &mut Vec<Event>) {
        self.rows.retain(|(leg, _), _| *leg != arrival.leg);
        self.books.lose_all(arrival, reason, out);
    }

    /// A message about books that cannot be read breaks those that it names; if it names none, all of the leg.
    fn unreadable(&mut self, arrival: Arrival<'_>, named: Option<&str>, data: &str, out: &mut Vec<Event>) {
        let rows: Vec<Named<'_>> = json(data).unwrap_or_default();
        let symbols = rows.iter().map(|row| &*row.symbol).chain(named);
        let mut known = false;
        for symbol in symbols {
            known = true;
            self.fail(arrival, symbol, BreakReason::Undecodable, out);
        }
        if !known {
            self.lose_all(arrival, BreakReason::Undecodable, out);
            if !self.reconnects.contains(&arrival.leg) {
                self.reconnects.push(arrival.leg);
            }
        }
    }

    fn book(
        &mut self,
        arrival: Arrival<'_>,
        (action, filter): (&str, Option<&str>),
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let rows: Vec<BookRow<'_>> = json(data).inspect_err(|_| self.unreadable(arrival, filter, data, out))?;
        let mut by_symbol: BTreeMap<&str, Vec<&BookRow<'_>>> = BTreeMap::new();
        rows.iter().for_each(|row| by_symbol.entry(&row.symbol).or_default().push(row));
        let action = match action {
            "partial" => None,
            "insert" => Some(Action::Insert),
            "update" => Some(Action::Update),
            "delete" => Some(Action::Delete),
            other => {
                self.unreadable(arrival, filter, data, out);
                return Err(Undecodable::Field { venue: VENUE, field: "action", text: excerpt(other) });
            }
        };
        let named: Vec<Box<str>> = match (action, filter) {
            (Some(_), _) => Vec::new(),
            (None, Some(symbol)) => vec![symbol.into()],
            // Rule 1: of what it does not name there is nothing.
            (None, None) => {
                self.rows.keys().filter(|(leg, _)| *leg == arrival.leg).map(|(_, key)| key.clone()).collect()
            }
        };
        for symbol in &named {
            by_symbol.entry(symbol).or_default();
        }
        let mut result = Ok(());
        for (symbol, rows) in by_symbol {
            // What is wrong with one instrument is not to keep the others from theirs.
            result = result.and(self.rows(arrival, symbol, (action, &rows), out));
        }
        result
    }

    /// One symbol's rows, as one change. Without an action they are a partial's.
    fn rows(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (action, rows): (Option<Action>, &[&BookRow<'_>]),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let key = (arrival.leg, symbol.into());
        if action.is_none() {
            self.rows.insert(key.clone(), Rows::default());
        }
        let Some(known) = self.rows.get_mut(&key) else {
            // Rule 1.
            self.books.counts.ignored += 1;
            return Ok(());
        };
        let read = known.apply(action.unwrap_or(Action::Insert), rows);
        let read = read.and_then(|changes| Ok((changes, venue_ns(rows)?)));
        let (changes, venue_ns) = match read {
            Ok(read) => read,
            Err(Wrong::Unknown) => {
                self.fail(arrival, symbol, BreakReason::UnknownRow, out);
                return Ok(());
            }
            Err(Wrong::Unreadable(error)) => {
                self.fail(arrival, symbol, BreakReason::Undecodable, out);
                return Err(error);
            }
        };
        let text = BookText { symbol, levels: changes.iter().map(Change::text), window: Window::Whole, venue_ns };
        let applied = if action.is_none() {
            self.books.snapshot(arrival, text, |_| None, out)
        } else {
            self.books.update(arrival, text, |_| None, out)
        };
        applied.inspect_err(|_| drop(self.rows.remove(&key)))
    }

    /// Rule 6.
    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        (at, trade): (usize, &Trade<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let text = TradeText {
            id: &trade.id,
            order: None,
            at: u16::try_from(at).unwrap_or(u16::MAX),
            price: token(trade.price),
            quantity: token(trade.size),
            taker: side(&trade.side)?,
            venue_ns: time::from_rfc3339(VENUE, &trade.timestamp)?,
        };
        self.books.trade(arrival, &trade.symbol, text, out)
    }
}

/// The time of the latest row, Unix nanoseconds; 0 where rows have none.
fn venue_ns(rows: &[&BookRow<'_>]) -> Result<u64, Undecodable> {
    let texts = rows.iter().filter_map(|row| row.timestamp.as_deref());
    texts.map(|text| time::from_rfc3339(VENUE, text)).try_fold(0, |latest, at| Ok(at?.max(latest)))
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
        let envelope: Envelope<'_> = json(text)?;
        if let (Some(ended), true) = (envelope.unsubscribe.as_deref(), envelope.success) {
            if let Some((BOOK, symbol)) = ended.split_once(':') {
                self.rows.remove(&(arrival.leg, symbol.into()));
                self.books.lose(arrival, symbol, BreakReason::Unsubscribed, out);
            }
            return Ok(());
        }
        let data = envelope.data.map(|data| data.get());
        match (envelope.table.as_deref(), envelope.action.as_deref(), data) {
            (Some(BOOK), Some(action), Some(data)) => {
                let filter = envelope.filter.as_ref().and_then(|filter| filter.symbol.as_deref());
                self.book(arrival, (action, filter), data, out)
            }
            (Some("trade"), Some("partial" | "insert"), Some(data)) => {
                let trades: Vec<Trade<'_>> = json(data)?;
                trades.iter().enumerate().try_for_each(|trade| self.trade(arrival, trade, out))
            }
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// The leg's books are those of no connection.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.lose_all(arrival, BreakReason::Unsubscribed, out);
        self.reconnects.retain(|leg| *leg != arrival.leg);
    }

    fn torn(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> bool {
        self.lose_all(arrival, BreakReason::Undecodable, out);
        true
    }

    fn reconnects(&mut self) -> Vec<LegId> {
        std::mem::take(&mut self.reconnects)
    }
}

#[cfg(test)]
mod tests;
