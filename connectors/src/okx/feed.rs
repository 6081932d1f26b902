//! The feed: which way an instrument's books are ordered, books, trades, maintenances.
//!
//! Never: a book used after its checksum failed.

use super::{
    book::{Channel, matches, rows},
    message::{Arg, Book, Envelope, Status, Trade},
    mirrors::{Mirrors, Stated},
};
use crate::venue_feed::{
    self, Arrival, Books, FeedCounts, Undecodable, VenueFeed, excerpt,
    listings::Listings,
    number::{Subject, token},
    numbered::{BookText, Numbered},
    standby::Standby,
    time,
    trades::TradeText,
};
use foldhash::HashMap;
use market::{Body, Event, LegId, Side, Venue, Window, guard::BreakReason};
use std::sync::Arc;

const VENUE: Venue = Venue::Okx;

/// What orders the books of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    /// Rule 2.
    Numbered,
    /// Rule 6.
    Arrival,
}

/// What the first book message of an instrument said.
#[derive(Debug)]
struct Known {
    generation: Generation,
    channel: Channel,
    mirrors: Mirrors,
}

/// A service whose maintenance stops the whole market.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    WebSocket,
    Trading,
}

/// The decoder of OKX v5.
#[derive(Debug)]
pub struct Feed {
    numbered: Numbered,
    arrived: Standby,
    /// Of listed instruments alone.
    known: HashMap<Box<str>, Known>,
    /// What stands still, as each leg was told.
    standing: Vec<(LegId, Service)>,
}

/// Where a book message belongs.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    symbol: &'a str,
    channel: Channel,
    snapshot: bool,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self {
            numbered: Numbered::new(VENUE, Arc::clone(&listings)),
            arrived: Standby::new(VENUE, listings),
            known: HashMap::default(),
            standing: Vec::new(),
        }
    }

    fn books(
        &mut self,
        arrival: Arrival<'_>,
        place: Place<'_>,
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let books: Vec<Book<'_>> = json(data)?;
        let Some(first) = books.first() else { return Err(field("data", data)) };
        let generation = if first.seq.is_some() { Generation::Numbered } else { Generation::Arrival };
        if !self.settled(arrival, place, generation, out)? {
            self.numbered.counts.ignored += 1;
            return Ok(());
        }
        match generation {
            Generation::Numbered => books.iter().try_for_each(|book| self.numbered(arrival, place, book, out)),
            Generation::Arrival => self.arrived(arrival, place, &books, out),
        }
    }

    /// Decides at an instrument's first book what orders it; whether a book is of the channel that was seen first.
    fn settled(
        &mut self,
        arrival: Arrival<'_>,
        place: Place<'_>,
        generation: Generation,
        out: &mut Vec<Event>,
    ) -> Result<bool, Undecodable> {
        if let Some(known) = self.known.get(place.symbol) {
            if known.channel != place.channel {
                return Ok(false);
            }
            return match (known.generation, generation) {
                (Generation::Numbered, Generation::Arrival) => Err(field("seqId", "absent, unlike before")),
                (Generation::Arrival, Generation::Numbered) => Err(field("seqId", "there, unlike before")),
                _ => Ok(true),
            };
        }
        match generation {
            Generation::Numbered => {
                self.numbered.stream(place.symbol, arrival, out)?;
            }
            Generation::Arrival => {
                self.arrived.stream(place.symbol, arrival, out)?;
            }
        }
        let known = Known { generation, channel: place.channel, mirrors: Mirrors::default() };
        self.known.insert(place.symbol.into(), known);
        Ok(true)
    }

    fn numbered(
        &mut self,
        arrival: Arrival<'_>,
        place: Place<'_>,
        book: &Book<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let Place { symbol, channel, snapshot } = place;
        let Some(last) = book.seq else { return Err(field("seqId", "absent, unlike before")) };
        let venue_ns = from_ms(&book.ms)?;
        let (depth, checksum) = (channel.depth(), book.checksum);
        let (levels, stated) = (rows(&book.bids, &book.asks), Stated { last, depth, checksum });
        let text = BookText { symbol, levels: levels.clone(), window: Window::Best(depth), venue_ns };
        let follows = if snapshot { None } else { Some(follows(symbol, book, last)?) };
        let told = match follows {
            None => self.numbered.snapshot(arrival, last, text, out),
            Some((_, ids)) => self.numbered.delta(arrival, ids, text, out),
        };
        let Some(known) = self.known.get_mut(symbol) else { return told };
        if told.is_err() {
            known.mirrors.forget(arrival.leg);
            return told;
        }
        let good = match follows {
            None => known.mirrors.snapshot(arrival.leg, stated, levels, &mut self.numbered.counts),
            Some((prev, _)) => known.mirrors.update(arrival.leg, prev, stated, levels, &mut self.numbered.counts),
        };
        if !good {
            // What was just told is taken back.
            if let Some(event) = out.last_mut() {
                event.body = Body::Broken(BreakReason::Checksum);
            }
            self.numbered.repair(arrival.leg, symbol);
        } else if snapshot {
            let window = Window::Best(depth);
            return self.numbered.stands(
                arrival,
                last,
                &BookText { symbol, levels: std::iter::empty(), window, venue_ns },
                out,
            );
        }
        Ok(())
    }

    /// Several books of one message are one change, since they have one place in the order of arrival; its checksum is that
    /// of the last.
    fn arrived(
        &mut self,
        arrival: Arrival<'_>,
        place: Place<'_>,
        books: &[Book<'_>],
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let Place { symbol, channel, snapshot } = place;
        let Some((last, before)) = books.split_last() else { return Ok(()) };
        // Of several whole books the last counts.
        let before = if snapshot { &[] } else { before };
        let venue_ns = from_ms(&last.ms)?;
        let levels = before.iter().chain([last]).flat_map(|book| rows(&book.bids, &book.asks));
        let text = BookText { symbol, levels, window: Window::Best(channel.depth()), venue_ns };
        let check = |text: &_| matches(text, last.checksum);
        if snapshot {
            self.arrived.snapshot(arrival, text, check, out)
        } else {
            self.arrived.update(arrival, text, check, out)
        }
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (at, trade): (usize, &Trade<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let venue_ns = from_ms(&trade.ms)?;
        let taker = match &*trade.side {
            "buy" => Side::Bid,
            "sell" => Side::Ask,
            other => return Err(field("side", other)),
        };
        let id = token(trade.id);
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Undecodable::TradeId { venue: VENUE, symbol: excerpt(symbol) });
        }
        // Before an instrument's first book nothing says what orders it. Numbered by arrival it begins above all that was
        // ever shown, which is right for either.
        let (instrument, steps) = match self.known.get(symbol).map(|known| known.generation) {
            Some(Generation::Numbered) => {
                let stream = self.numbered.stream(symbol, arrival, out)?;
                (stream.symbol, stream.steps)
            }
            Some(Generation::Arrival) | None => {
                let stream = self.arrived.stream(symbol, arrival, out)?;
                (stream.symbol, stream.steps)
            }
        };
        let text = TradeText {
            id,
            // An id beyond 64 bits is kept as text; its place is then the arrival order.
            order: id.parse().ok(),
            at: u16::try_from(at).unwrap_or(u16::MAX),
            price: token(trade.price),
            quantity: token(trade.size),
            taker,
            venue_ns,
        };
        out.push(text.event(Subject { venue: VENUE, symbol }, instrument, steps, arrival)?);
        Ok(())
    }

    /// Rule 8.
    fn status(&mut self, arrival: Arrival<'_>, status: &Status<'_>, out: &mut Vec<Event>) {
        let service = match (&*status.service, &*status.env) {
            (_, "2") => None,
            ("0", _) => Some(Service::WebSocket),
            ("5", _) => Some(Service::Trading),
            _ => None,
        };
        let stands = match &*status.state {
            "ongoing" | "pre_open" => Some(true),
            "completed" | "canceled" => Some(false),
            _ => None,
        };
        let (Some(service), Some(stands)) = (service, stands) else {
            self.numbered.counts.ignored += 1;
            return;
        };
        let leg = arrival.leg;
        let halted = |feed: &Self| feed.standing.iter().any(|(known, _)| *known == leg);
        let before = halted(self);
        self.standing.retain(|known| *known != (leg, service));
        if stands {
            self.standing.push((leg, service));
        }
        let body = match (before, halted(self)) {
            (false, true) => Body::Halted,
            (true, false) => Body::Resumed,
            _ => return,
        };
        out.push(Event::of_leg(0, leg, arrival.frame.ts_ns, body));
    }

    /// The answer to a request, or a word of the server about itself.
    fn event(&mut self, arrival: Arrival<'_>, event: &str, arg: Option<&Arg<'_>>, out: &mut Vec<Event>) {
        self.numbered.counts.ignored += 1;
        let books = arg.filter(|arg| event == "unsubscribe" && Channel::named(&arg.channel).is_some());
        let Some(symbol) = books.and_then(|arg| arg.instrument.as_deref()) else { return };
        self.arrived.lose(arrival, symbol, BreakReason::Unsubscribed, out);
        if let Some(known) = self.known.get_mut(symbol) {
            known.mirrors.forget(arrival.leg);
        }
    }
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(VENUE, text)
}

fn field(field: &'static str, text: &str) -> Undecodable {
    Undecodable::Field { venue: VENUE, field, text: excerpt(text) }
}

/// Rule 10.
fn from_ms(text: &str) -> Result<u64, Undecodable> {
    let ms = text.parse().map_err(|_| Undecodable::Time { venue: VENUE, text: excerpt(text) })?;
    time::from_ms(VENUE, ms)
}

/// The id that an update follows, and the ids that it covers.
fn follows(symbol: &str, book: &Book<'_>, last: u64) -> Result<(u64, (u64, u64)), Undecodable> {
    let absent = || book.prev.map_or_else(|| "absent".to_owned(), |prev| prev.to_string());
    let prev = book.prev.and_then(|prev| u64::try_from(prev).ok()).ok_or_else(|| field("prevSeqId", &absent()))?;
    let next = prev.saturating_add(1);
    if last == prev && !(book.bids.is_empty() && book.asks.is_empty()) {
        return Err(Undecodable::Ids { venue: VENUE, symbol: excerpt(symbol), first: next, last });
    }
    // Rule 4: ids that went back are told as they are, so that the guard sees it and asks for a snapshot.
    Ok((prev, if last < prev { (last, last) } else { (next, last) }))
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        VENUE
    }

    /// Those in which it counts; what the others add is told beside.
    fn books(&self) -> &dyn Books {
        &self.numbered
    }

    fn books_mut(&mut self) -> &mut dyn Books {
        &mut self.numbered
    }

    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        if text == "pong" {
            self.numbered.counts.ignored += 1;
            return Ok(());
        }
        let envelope: Envelope<'_> = json(text)?;
        if let Some(event) = &envelope.event {
            self.event(arrival, event, envelope.arg.as_ref(), out);
            return Ok(());
        }
        let arg = envelope.arg.ok_or_else(|| field("arg", text))?;
        let data = envelope.data.ok_or_else(|| field("data", text))?.get();
        let symbol = || arg.instrument.as_deref().ok_or_else(|| field("instId", text));
        if let Some(channel) = Channel::named(&arg.channel) {
            let snapshot = match envelope.action.as_deref() {
                Some("snapshot") => true,
                Some("update") => false,
                other => return Err(field("action", other.unwrap_or("absent"))),
            };
            return self.books(arrival, Place { symbol: symbol()?, channel, snapshot }, data, out);
        }
        match &*arg.channel {
            "trades" => {
                let (symbol, trades): (_, Vec<Trade<'_>>) = (symbol()?, json(data)?);
                trades.iter().enumerate().try_for_each(|trade| self.trade(arrival, symbol, trade, out))
            }
            "status" => {
                let told: Vec<Status<'_>> = json(data)?;
                told.iter().for_each(|status| self.status(arrival, status, out));
                Ok(())
            }
            _ => {
                self.numbered.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// What the leg says from now on is another subscription's.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.numbered.reconnected(arrival, out);
        self.arrived.reconnected(arrival, out);
        self.known.values_mut().for_each(|known| known.mirrors.forget(arrival.leg));
        self.standing.retain(|(leg, _)| *leg != arrival.leg);
    }

    fn torn(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> bool {
        self.arrived.torn(arrival, out)
    }

    fn counts(&self) -> FeedCounts {
        let mut counts = self.numbered.counts;
        counts += self.arrived.counts;
        counts
    }

    fn active(&self, symbol: &str) -> Option<LegId> {
        self.arrived.active(symbol)
    }

    fn look_after(&mut self, leg: LegId, now_ns: u64) {
        self.numbered.look_after(leg, now_ns);
        self.arrived.look_after(leg, now_ns);
    }

    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        let mut repairs = self.numbered.repairs();
        repairs.append(&mut self.arrived.repairs());
        repairs
    }
}

#[cfg(test)]
mod tests;
