//! The feed: which topic a message belongs to, and what it says.
//!
//! Never: a REST reply whose instrument is uncertain taken for one's own.

use super::{
    book::{levels, rows, sequence},
    message::{CODE_OK, Depth, Envelope, Match, Reply, Update},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, excerpt,
    listings::Listings,
    number::token,
    numbered::{BookText, Numbered},
    time,
    trades::TradeText,
};
use market::{Event, LegId, Side, Venue, Window};
use std::sync::Arc;

const VENUE: Venue = Venue::Kucoin;

/// The topics that are of use, with the symbols behind them.
const LEVEL2: &str = "/market/level2:";
const MATCH: &str = "/market/match:";

/// The REST path of a snapshot; what follows it says how many levels a side there are, if not all.
const SNAPSHOT_PATH: &str = "/market/orderbook/level2";

/// The decoder of KuCoin.
#[derive(Debug)]
pub struct Feed {
    books: Numbered,
    /// The leg that messages came on last; REST replies belong to it.
    stream_leg: LegId,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let books = Numbered::new(VENUE, listings);
        Self { books, stream_leg: LegId(0) }
    }

    fn update(&mut self, arrival: Arrival<'_>, data: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let update: Update<'_> = venue_feed::json(VENUE, data)?;
        let (first, last) = (update.first, update.last);
        if first > last {
            return Err(Undecodable::Ids { venue: VENUE, symbol: excerpt(&update.symbol), first, last });
        }
        let venue_ns = update.time_ms.map_or(Ok(0), |ms| time::from_ms(VENUE, ms))?;
        let rows = rows(&update.changes)?;
        let text = BookText { symbol: &update.symbol, levels: rows.iter().copied(), window: Window::Whole, venue_ns };
        self.books.delta(arrival, (first, last), text, out)
    }

    fn trade(&mut self, arrival: Arrival<'_>, data: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let trade: Match<'_> = venue_feed::json(VENUE, data)?;
        let order = sequence("a trade's sequence", token(trade.sequence))?;
        let time_text = token(trade.time_ns);
        let implausible = |_| Undecodable::Time { venue: VENUE, text: excerpt(time_text) };
        let venue_ns = time::from_ns(VENUE, time_text.parse().map_err(implausible)?)?;
        let taker = match &*trade.side {
            "buy" => Side::Bid,
            "sell" => Side::Ask,
            other => return Err(Undecodable::Field { venue: VENUE, field: "side", text: excerpt(other) }),
        };
        let (price, quantity) = (token(trade.price), token(trade.size));
        let text = TradeText { id: token(trade.id), order: Some(order), at: 0, price, quantity, taker, venue_ns };
        self.books.trade(arrival, &trade.symbol, text, out)
    }
}

/// How much of the book a request asked for: `level2` for all, `level2_100` for 100 levels a side.
fn window(url: Option<&str>) -> Window {
    let depth = url.and_then(|url| url.split_once(SNAPSHOT_PATH)?.1.strip_prefix('_'));
    let depth = depth.and_then(|rest| rest.split(['?', '/']).next()?.parse().ok());
    depth.map_or(Window::Whole, Window::Known)
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
        self.stream_leg = arrival.leg;
        let envelope: Envelope<'_> = venue_feed::json(VENUE, text)?;
        let topic = envelope.topic.as_deref().filter(|_| envelope.kind == "message").unwrap_or_default();
        match envelope.data.map(|data| data.get()) {
            Some(data) if topic.starts_with(LEVEL2) => self.update(arrival, data, out),
            Some(data) if topic.starts_with(MATCH) => self.trade(arrival, data, out),
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// A REST reply names no symbol; its request does, or it belongs to the only instrument there is.
    fn reply(
        &mut self,
        arrival: Arrival<'_>,
        url: Option<&str>,
        text: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        if url.is_some_and(|url| !url.contains(SNAPSHOT_PATH)) {
            self.books.counts.ignored += 1;
            return Ok(());
        }
        let named = url.and_then(|url| url.split(['?', '&']).find_map(|part| part.strip_prefix("symbol=")));
        let symbol = named.or_else(|| self.books.only()).map(str::to_owned);
        let symbol = symbol.ok_or(Undecodable::Symbol { venue: VENUE, symbol: Box::default() })?;
        let reply: Reply<'_> = venue_feed::json(VENUE, text)?;
        let code = token(reply.code);
        let data = reply.data.filter(|_| code == CODE_OK);
        let refused = || Undecodable::Field { venue: VENUE, field: "code", text: excerpt(code) };
        let depth: Depth<'_> = venue_feed::json(VENUE, data.ok_or_else(refused)?.get())?;
        let last = sequence("sequence", token(depth.sequence))?;
        let venue_ns = time::from_ms(VENUE, depth.time_ms)?;
        let text = BookText { symbol: &symbol, levels: levels(&depth), window: window(url), venue_ns };
        self.books.snapshot(Arrival { leg: self.stream_leg, ..arrival }, last, text, out)
    }
}

#[cfg(test)]
mod tests;
