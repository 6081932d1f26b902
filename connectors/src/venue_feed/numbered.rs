//! Books whose updates the venue numbers, the same on every connection: all legs feed one stream, and the guard decides
//! about order. What is kept here are the steps of numbers, and each leg's pulse.
//!
//! Never: a decision about order; a book.

impl Books for Numbered {
    fn counts(&self) -> FeedCounts {
        self.counts
    }

    fn counts_mut(&mut self) -> &mut FeedCounts {
        &mut self.counts
    }

    /// The leg's connection began or ended: what it says from now on is another subscription's.
    fn reconnected(&mut self, arrival: Arrival<'_>, _out: &mut Vec<Event>) {
        let leg = arrival.leg;
        self.repairs.retain(|(wanted, _)| *wanted != leg);
        for (_, stream) in self.streams.sorted_mut() {
            for (_, pulse) in stream.pulses.iter_mut().filter(|(known, _)| *known == leg) {
                pulse.forget();
            }
        }
    }

    /// Looks for instruments whose subscription on a leg that ticks counts as dead.
    fn look_after(&mut self, leg: LegId, now_ns: u64) {
        if self.streams.silent_intervals() == 0 {
            return;
        }
        let mut dead: Vec<Box<str>> = Vec::new();
        for (symbol, stream) in self.streams.sorted_mut() {
            let others = stream.pulses.iter().filter(|(known, _)| *known != leg);
            let elsewhere_ns = others.filter_map(|(_, pulse)| pulse.last_ns()).max();
            let pulse = stream.pulses.iter_mut().find(|(known, _)| *known == leg);
            if pulse.is_some_and(|(_, pulse)| pulse.dies(now_ns, elsewhere_ns)) {
                dead.push(symbol.into());
            }
        }
        dead.iter().for_each(|symbol| self.repair(leg, symbol));
    }

    /// Takes what is to be subscribed to anew.
    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        std::mem::take(&mut self.repairs)
    }
}

#[cfg(test)]
pub(crate) mod wire;

use super::{
    Arrival, Books, FeedCounts, Undecodable,
    number::{LevelText, Steps, Subject},
    pulse::Pulse,
    streams::Streams,
    trades::TradeText,
};
use crate::venue_feed::listings::Listings;
use market::{Body, Delta, Event, LegId, Sequence, Snapshot, SymbolId, Venue, Window};
use std::sync::Arc;

/// One instrument.
#[derive(Debug)]
pub(crate) struct NumberedStream {
    pub(crate) symbol: SymbolId,
    pub(crate) steps: Steps,
    pulses: Vec<(LegId, Pulse)>,
}

impl NumberedStream {
    fn new(symbol: SymbolId, steps: Steps) -> Self {
        Self { symbol, steps, pulses: Vec::new() }
    }

    fn beat(&mut self, arrival: Arrival<'_>) {
        let at = self.pulses.iter().position(|(leg, _)| *leg == arrival.leg).unwrap_or_else(|| {
            self.pulses.push((arrival.leg, Pulse::default()));
            self.pulses.len() - 1
        });
        if let Some((_, pulse)) = self.pulses.get_mut(at) {
            pulse.beat(arrival.frame.ts_ns);
        }
    }
}

/// One message about a book.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BookText<'a, L> {
    pub(crate) symbol: &'a str,
    /// In the venue's order.
    pub(crate) levels: L,
    pub(crate) window: Window,
    /// Unix nanoseconds; 0 where the venue gives no time.
    pub(crate) venue_ns: u64,
}

/// All of one venue.
#[derive(Debug)]
pub(crate) struct Numbered {
    streams: Streams<NumberedStream>,
    repairs: Vec<(LegId, Box<str>)>,
    /// What happened to the feed.
    pub(crate) counts: FeedCounts,
}

impl Numbered {
    pub(crate) fn new(venue: Venue, listings: Arc<Listings>) -> Self {
        Self { streams: Streams::new(venue, listings), repairs: Vec::new(), counts: FeedCounts::default() }
    }

    /// The only symbol there is.
    pub(crate) fn only(&self) -> Option<&str> {
        self.streams.only()
    }

    /// What is known of a symbol, which is listed if it is new.
    ///
    /// # Errors
    /// [`Undecodable`] if it cannot be.
    pub(crate) fn stream(
        &mut self,
        symbol: &str,
        arrival: Arrival<'_>,
        out: &mut Vec<Event>,
    ) -> Result<&mut NumberedStream, Undecodable> {
        self.streams.listed(symbol, true, arrival, out, NumberedStream::new)
    }

    /// A trade.
    ///
    /// # Errors
    /// [`Undecodable`]: no id, or a number that cannot be taken.
    pub(crate) fn trade(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        text: TradeText<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let subject = Subject { venue: self.streams.venue(), symbol };
        let stream = self.stream(symbol, arrival, out)?;
        out.push(text.event(subject, stream.symbol, stream.steps, arrival)?);
        Ok(())
    }

    /// An update with the ids `first..=last`; with `first` one above `last` and no levels, the word that none is missing.
    ///
    /// # Errors
    /// [`Undecodable`]; nothing of the message is applied then.
    pub(crate) fn delta<'a>(
        &mut self,
        arrival: Arrival<'_>,
        (first, last): (u64, u64),
        text: BookText<'_, impl Iterator<Item = LevelText<'a>> + Clone>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let BookText { symbol, levels, window, venue_ns } = text;
        let venue = self.streams.venue();
        if first > last.saturating_add(1) {
            return Err(Undecodable::Ids { venue, symbol: symbol.into(), first, last });
        }
        let stream = self.stream(symbol, arrival, out)?;
        stream.beat(arrival);
        let changes = Subject { venue, symbol }.levels(&mut stream.steps, levels)?;
        let sequence = Sequence::Venue { first, last };
        let body = Body::Delta(Delta { sequence, scale: stream.steps.scale(), changes, window, places: Vec::new() });
        out.push(Event::of(stream.symbol, arrival.leg, arrival.frame.ts_ns, venue_ns, body));
        Ok(())
    }

    /// A whole book as of the id `last`.
    ///
    /// # Errors
    /// [`Undecodable`]; nothing of the message is applied then.
    pub(crate) fn snapshot<'a>(
        &mut self,
        arrival: Arrival<'_>,
        last: u64,
        text: BookText<'_, impl Iterator<Item = LevelText<'a>> + Clone>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let BookText { symbol, levels, window, venue_ns } = text;
        let venue = self.streams.venue();
        let stream = self.stream(symbol, arrival, out)?;
        let ticks = Subject { venue, symbol }.levels(&mut stream.steps, levels)?;
        let sequence = Sequence::Venue { first: last, last };
        let body = Body::Snapshot(Snapshot { sequence, scale: stream.steps.scale(), ticks, window });
        out.push(Event::of(stream.symbol, arrival.leg, arrival.frame.ts_ns, venue_ns, body));
        Ok(())
    }

    /// A whole book as of the id `last` that came on the stream itself: what follows on this leg joins it.
    ///
    /// # Errors
    /// [`Undecodable`]; nothing of the message is applied then.
    pub(crate) fn snapshot_of_stream<'a>(
        &mut self,
        arrival: Arrival<'_>,
        last: u64,
        text: BookText<'_, impl Iterator<Item = LevelText<'a>> + Clone>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let BookText { symbol, window, venue_ns, .. } = text;
        self.snapshot(arrival, last, text, out)?;
        self.stands(arrival, last, &BookText { symbol, levels: std::iter::empty(), window, venue_ns }, out)
    }

    /// The stream's word that it stands at the id `last`, and that nothing is missing up to it.
    ///
    /// # Errors
    /// [`Undecodable`] if the symbol cannot be listed.
    pub(crate) fn stands(
        &mut self,
        arrival: Arrival<'_>,
        last: u64,
        text: &BookText<'_, std::iter::Empty<LevelText<'_>>>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let BookText { symbol, window, venue_ns, .. } = *text;
        let stream = self.stream(symbol, arrival, out)?;
        stream.beat(arrival);
        let sequence = Sequence::Venue { first: last.saturating_add(1), last };
        let body = Body::Delta(Delta {
            sequence,
            scale: stream.steps.scale(),
            changes: Vec::new(),
            window,
            places: Vec::new(),
        });
        out.push(Event::of(stream.symbol, arrival.leg, arrival.frame.ts_ns, venue_ns, body));
        Ok(())
    }

    /// Asks for a subscription anew to one instrument on one leg.
    pub(crate) fn repair(&mut self, leg: LegId, symbol: &str) {
        if !self.repairs.iter().any(|(wanted, known)| *wanted == leg && **known == *symbol) {
            self.repairs.push((leg, symbol.into()));
        }
    }
}
