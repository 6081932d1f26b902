//! The feed: channels by their connection's ids, its numbers, books with their checksums, trades, the venue's state.
//!
//! Never: a message whose place on its connection was passed; one lost since its channel had no name yet.

mod channels;
mod trades;

use super::{
    book::{checksum, is_list, levels, wrong},
    message::{CHECKSUMS, Head, MAINTENANCE, RESUMES, Said},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed,
    listings::Listings,
    numbered::BookText,
    sequenced::{Sequenced, Step},
    standby::Standby,
};
use channels::{Channel, Channels, Early, Kind};
use market::{Body, Event, LegId, Venue, Window, guard::BreakReason};
use std::sync::Arc;
use trades::Executed;

const VENUE: Venue = Venue::Bitfinex;

/// Levels a side that are kept: twice those of the longest book that is subscribed to. The venue deletes what leaves its
/// window, perhaps after what enters it, so to cut exactly there would lose a level; this only bounds what is kept.
const WINDOW: Window = Window::Best(500);

/// The parts of an array: the channel, what it says, up to two more.
type Array<'a> = Head<'a, 4>;

/// The decoder of Bitfinex v2.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
    sequenced: Sequenced,
    channels: Channels,
    executed: Executed,
    /// Legs on which the venue said that its market stands still.
    halted: Vec<LegId>,
    /// Legs on which it said that checksums follow.
    checked: Vec<LegId>,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self {
            books: Standby::new(VENUE, listings),
            sequenced: Sequenced::default(),
            channels: Channels::default(),
            executed: Executed::default(),
            halted: Vec::new(),
            checked: Vec::new(),
        }
    }

    fn event(&mut self, arrival: Arrival<'_>, said: &Said<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        match &*said.event {
            "subscribed" => self.subscribed(arrival, said, out),
            "unsubscribed" => {
                if let Some(channel) = self.channels.remove(arrival.leg, id(said)?)
                    && channel.kind == Kind::Book
                {
                    self.books.lose(arrival, &channel.symbol, BreakReason::Unsubscribed, out);
                }
                Ok(())
            }
            "info" => {
                match (said.code, said.platform.map(|platform| platform.status)) {
                    (Some(MAINTENANCE), _) | (None, Some(0)) => self.halt(arrival, true, out),
                    (Some(RESUMES), _) | (None, Some(1)) => self.halt(arrival, false, out),
                    _ => self.books.counts.ignored += 1,
                }
                Ok(())
            }
            "conf" => {
                self.checked.retain(|leg| *leg != arrival.leg);
                if said.flags.is_some_and(|flags| flags & CHECKSUMS != 0) {
                    self.checked.push(arrival.leg);
                }
                Ok(())
            }
            _ => {
                self.books.counts.ignored += 1;
                self.books.release(arrival, None, out)
            }
        }
    }

    /// Rule 1; what the channel said before is made good.
    fn subscribed(&mut self, arrival: Arrival<'_>, said: &Said<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let (leg, id) = (arrival.leg, id(said)?);
        let kind = match &*said.channel {
            "book" => Kind::Book,
            "trades" => Kind::Trades,
            _ => Kind::Other,
        };
        let channel = Channel { kind, symbol: (*said.symbol).into() };
        let early = self.channels.name(leg, id, channel).ok_or_else(|| wrong("chanId", "one channel too many"))?;
        let mut all = Ok(());
        for Early { position, frame, .. } in &early {
            if let crate::raw::RawPayload::Text(text) = &frame.raw {
                let array = json(text).and_then(|array| {
                    let arrival = Arrival { frame, position: *position, leg };
                    self.said(arrival, id, &array, out)
                });
                all = all.and(array);
            }
        }
        all
    }

    fn halt(&mut self, arrival: Arrival<'_>, halted: bool, out: &mut Vec<Event>) {
        let leg = arrival.leg;
        if self.halted.contains(&leg) == halted {
            return;
        }
        let body = if halted {
            self.halted.push(leg);
            Body::Halted
        } else {
            self.halted.retain(|known| *known != leg);
            Body::Resumed
        };
        out.push(Event::of_leg(0, leg, arrival.frame.ts_ns, body));
    }

    /// Rule 2.
    fn array(&mut self, arrival: Arrival<'_>, array: &Array<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let channel = array.text(0).unwrap_or_default();
        let id: u64 = channel.parse().map_err(|_| wrong("chanId", channel))?;
        let payload = array.text(1).ok_or_else(|| wrong("payload", ""))?;
        // A word takes its data behind it, but for the heartbeat, which has none.
        let at = if payload.starts_with('"') && payload != HEARTBEAT { 3 } else { 2 };
        let number = array.text(at).map(|text| text.parse().map_err(|_| wrong("sequence", text))).transpose()?;
        let released = match number.map(|number: u64| self.sequenced.step(arrival.leg, number)) {
            None | Some(Step::Next) => self.release(arrival, id, payload, out),
            Some(Step::Missing(missing)) => {
                self.books.counts.missing = self.books.counts.missing.saturating_add(missing);
                self.anew(arrival, out);
                Ok(())
            }
            Some(Step::Passed) => {
                self.books.counts.passed += 1;
                return Ok(());
            }
        };
        if payload == HEARTBEAT {
            self.books.counts.ignored += 1;
            return released;
        }
        self.said(arrival, id, array, out).and(released)
    }

    /// Tells what has waited long enough for a checksum, where the message itself leaves those books alone.
    fn release(
        &mut self,
        arrival: Arrival<'_>,
        id: u64,
        payload: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let about = match self.channels.get(arrival.leg, id) {
            _ if payload == HEARTBEAT => None,
            // Should too much wait for its channel's name, all books of the leg are lost at this place.
            None => return Ok(()),
            Some(channel) => (channel.kind == Kind::Book).then(|| Arc::clone(&channel.symbol)),
        };
        self.books.release(arrival, about.as_deref(), out)
    }

    /// What a channel says, if it is known; else it is kept until it is.
    fn said(
        &mut self,
        arrival: Arrival<'_>,
        id: u64,
        array: &Array<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let Some(channel) = self.channels.get(arrival.leg, id) else {
            if !self.channels.keep(arrival, id) {
                // Nobody knows any more what of it is missing.
                self.anew(arrival, out);
            }
            return Ok(());
        };
        let symbol = Arc::clone(&channel.symbol);
        let payload = array.text(1).unwrap_or_default();
        match (channel.kind, payload.starts_with('"')) {
            (Kind::Book, false) => self.book(arrival, &symbol, payload, out),
            (Kind::Book, true) if payload == r#""cs""# => {
                let text = array.text(2).unwrap_or_default();
                let right: i32 = text.parse().map_err(|_| wrong("checksum", text))?;
                self.books.verify(arrival, &symbol, |book| checksum(book) == right, out)
            }
            (Kind::Trades, word) => {
                let (word, trades) = if word { (payload, array.text(2)) } else { ("", Some(payload)) };
                let trades = trades.ok_or_else(|| wrong("trade", ""))?;
                self.trades(arrival, &symbol, (word, trades), out)
            }
            (Kind::Book | Kind::Other, _) => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }

    fn book(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        payload: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let levels = match levels(payload) {
            Ok(levels) => levels,
            Err(error) => {
                self.books.fail(arrival, symbol, BreakReason::Undecodable, out);
                return Err(error);
            }
        };
        let text = BookText { symbol, levels: levels.iter().copied(), window: WINDOW, venue_ns: 0 };
        if is_list(payload) {
            self.books.snapshot(arrival, text, |_| None, out)
        } else if self.checked.contains(&arrival.leg) {
            self.books.hold(arrival, text, out)
        } else {
            self.books.update(arrival, text, |_| None, out)
        }
    }

    fn trades(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (word, payload): (&str, &str),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let rows = match word {
            "" | r#""te""# | r#""tu""# => trades::rows(payload)?,
            _ => {
                self.books.counts.ignored += 1;
                return Ok(());
            }
        };
        let mut all = Ok(());
        for (at, row) in rows.iter().enumerate() {
            all = all.and(self.trade(arrival, symbol, (at, word, row), out));
        }
        all
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (at, word, row): (usize, &str, &trades::Row<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let trade = trades::text(row, at)?;
        if self.executed.is_again(arrival.leg, word, trade.id) {
            self.books.counts.ignored += 1;
            return Ok(());
        }
        self.books.trade(arrival, symbol, trade, out)
    }

    /// No book of the leg can be trusted any more; only another connection heals that.
    fn anew(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.books.lose_all(arrival, BreakReason::Missing, out);
        self.sequenced.reconnect(arrival.leg);
    }
}

const HEARTBEAT: &str = r#""hb""#;

fn id(said: &Said<'_>) -> Result<u64, Undecodable> {
    let text = said.chan_id.map_or("", |raw| raw.get());
    text.parse().map_err(|_| wrong("chanId", text))
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
        if text.trim_start().starts_with('[') {
            self.array(arrival, &json(text)?, out)
        } else {
            self.event(arrival, &json(text)?, out)
        }
    }

    /// The leg's books, channels and numbers are those of no connection.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.books.reconnected(arrival, out);
        self.sequenced.begin(arrival.leg);
        self.channels.begin(arrival.leg);
        self.halted.retain(|leg| *leg != arrival.leg);
        self.checked.retain(|leg| *leg != arrival.leg);
    }

    fn reconnects(&mut self) -> Vec<LegId> {
        self.sequenced.reconnects()
    }
}

#[cfg(test)]
mod tests;
