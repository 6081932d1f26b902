//! The feed of Binance's combined streams, spot and futures alike: which stream a frame belongs to, and what it says.
//! How a depth event follows the one before differs; a [`Market`] says it.
//!
//! Never: a REST reply whose instrument is uncertain taken for one's own.

use super::{
    book::rows,
    message::{Aside, Combined, Depth, DepthSnapshot, Trade},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, excerpt,
    listings::Listings,
    number::{Subject, is_zero, token},
    numbered::{BookText, Numbered},
    time,
    trades::TradeText,
};
use foldhash::HashMap;
use market::{Event, LegId, Side, Venue, Window, trade::TRADE_ID_BYTES_MAX};
use std::{marker::PhantomData, sync::Arc};

/// Levels a side that a snapshot of this venue knows.
const SNAPSHOT_LEVELS: u32 = 1_000;

/// What the snapshot did not know is known only once touched.
const WINDOW: Window = Window::Known(SNAPSHOT_LEVELS);

/// The ids of a depth event as the venue names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthIds {
    /// `U`, the first.
    pub first: u64,
    /// `u`, the last.
    pub last: u64,
    /// `pu`, the last of the event before; futures alone tell it.
    pub previous: Option<u64>,
}

/// What differs between the venue's markets.
pub trait Market: Send + 'static {
    /// Whose market it is.
    const VENUE: Venue;

    /// The ids that an event covers without a gap, both ends included; none if one that it needs is missing.
    fn covered(ids: DepthIds) -> Option<(u64, u64)>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TradeKind {
    Single,
    Aggregate,
}

/// The decoder of one market's combined streams.
#[derive(Debug)]
pub struct CombinedFeed<M> {
    books: Numbered,
    /// Which of `trade` and `aggTrade` an instrument's trades are; the first seen, since both tell the same trades.
    trades: HashMap<Box<str>, TradeKind>,
    /// The leg that streams came on last; REST replies belong to it.
    stream_leg: LegId,
    market: PhantomData<M>,
}

impl<M: Market> CombinedFeed<M> {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let trades = HashMap::default();
        let books = Numbered::new(M::VENUE, listings);
        Self { books, trades, stream_leg: LegId(0), market: PhantomData }
    }

    fn depth(&mut self, arrival: Arrival<'_>, data: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let depth: Depth<'_> = json::<M, _>(data)?;
        let ids = DepthIds { first: depth.first, last: depth.last, previous: depth.previous };
        let missing = || Undecodable::Field { venue: M::VENUE, field: "the id before", text: excerpt(data) };
        let (first, last) = M::covered(ids).ok_or_else(missing)?;
        if first > last {
            return Err(Undecodable::Ids { venue: M::VENUE, symbol: depth.symbol.as_ref().into(), first, last });
        }
        let venue_ns = time::from_ms(M::VENUE, depth.event_ms)?;
        let levels = rows(&depth.bids, &depth.asks);
        let text = BookText { symbol: &depth.symbol, levels, window: WINDOW, venue_ns };
        self.books.delta(arrival, (first, last), text, out)
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        kind: TradeKind,
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let trade: Trade<'_> = json::<M, _>(data)?;
        let venue_ns = time::from_ms(M::VENUE, trade.trade_ms)?;
        let id = match kind {
            TradeKind::Single => trade.trade_id,
            TradeKind::Aggregate => trade.aggregate_id,
        };
        let id = id.map(token).filter(|id| id.len() <= TRADE_ID_BYTES_MAX);
        let stream = self.books.stream(&trade.symbol, arrival, out)?;
        let known = self.trades.get(&*trade.symbol).copied();
        if known.is_none() {
            self.trades.insert(trade.symbol.as_ref().into(), kind);
        }
        let (price, quantity) = (token(trade.price), token(trade.quantity));
        // A trade at no price or of nothing is the venue's word for none.
        if known.is_some_and(|known| known != kind) || is_zero(price) || is_zero(quantity) {
            self.books.counts.ignored += 1;
            return Ok(());
        }
        let order = id.and_then(|id| id.parse().ok());
        let (Some(id), Some(order)) = (id, order) else {
            return Err(Undecodable::TradeId { venue: M::VENUE, symbol: excerpt(&trade.symbol) });
        };
        let subject = Subject { venue: M::VENUE, symbol: &trade.symbol };
        let taker = if trade.buyer_made { Side::Ask } else { Side::Bid };
        let text = TradeText { id, order: Some(order), at: 0, price, quantity, taker, venue_ns };
        out.push(text.event(subject, stream.symbol, stream.steps, arrival)?);
        Ok(())
    }
}

fn json<'a, M: Market, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(M::VENUE, text)
}

impl<M: Market> VenueFeed for CombinedFeed<M> {
    fn venue(&self) -> Venue {
        M::VENUE
    }

    fn books(&self) -> &dyn Books {
        &self.books
    }

    fn books_mut(&mut self) -> &mut dyn Books {
        &mut self.books
    }

    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        self.stream_leg = arrival.leg;
        let combined: Combined<'_> = match json::<M, _>(text) {
            Ok(combined) => combined,
            Err(_) if serde_json::from_str::<Aside<'_>>(text).is_ok_and(|aside| aside.is_one()) => {
                self.books.counts.ignored += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (_, channel) = combined.stream.split_once('@').unwrap_or_default();
        match channel.split('@').next().unwrap_or_default() {
            "depth" => self.depth(arrival, combined.data.get(), out),
            "trade" => self.trade(arrival, TradeKind::Single, combined.data.get(), out),
            "aggTrade" => self.trade(arrival, TradeKind::Aggregate, combined.data.get(), out),
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
        if url.is_some_and(|url| !url.contains("/depth")) {
            self.books.counts.ignored += 1;
            return Ok(());
        }
        let named = url.and_then(|url| url.split(['?', '&']).find_map(|part| part.strip_prefix("symbol=")));
        let symbol = named.or_else(|| self.books.only()).map(str::to_owned);
        let symbol = symbol.ok_or(Undecodable::Symbol { venue: M::VENUE, symbol: Box::default() })?;
        let message: DepthSnapshot<'_> = json::<M, _>(text)?;
        let venue_ns = message.event_ms.map_or(Ok(0), |ms| time::from_ms(M::VENUE, ms))?;
        let levels = rows(&message.bids, &message.asks);
        let text = BookText { symbol: &symbol, levels, window: WINDOW, venue_ns };
        self.books.snapshot(Arrival { leg: self.stream_leg, ..arrival }, message.last, text, out)
    }
}
