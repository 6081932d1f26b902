//! The instruments of one venue by its own symbols, and what its feed keeps for each.
//!
//! Never: an instrument whose lane was not told of it first.

use super::{
    Arrival, Undecodable, excerpt,
    listings::{Listings, Request},
    number::Steps,
};
use foldhash::HashMap;
use market::{Event, SymbolId, Venue};
use std::sync::Arc;

/// What a feed keeps by symbol.
#[derive(Debug)]
pub(crate) struct Streams<T> {
    venue: Venue,
    listings: Arc<Listings>,
    by_symbol: HashMap<Box<str>, T>,
}

impl<T> Streams<T> {
    pub(crate) fn new(venue: Venue, listings: Arc<Listings>) -> Self {
        Self { venue, listings, by_symbol: HashMap::default() }
    }

    pub(crate) fn venue(&self) -> Venue {
        self.venue
    }

    /// See [`Listings::with_silent_intervals`].
    pub(crate) fn silent_intervals(&self) -> u64 {
        self.listings.silent_intervals()
    }

    pub(crate) fn get(&self, symbol: &str) -> Option<&T> {
        self.by_symbol.get(symbol)
    }

    pub(crate) fn get_mut(&mut self, symbol: &str) -> Option<&mut T> {
        self.by_symbol.get_mut(symbol)
    }

    /// The only symbol there is.
    pub(crate) fn only(&self) -> Option<&str> {
        if self.by_symbol.len() == 1 { self.by_symbol.keys().next().map(|key| &**key) } else { None }
    }

    /// All of them, by symbol.
    pub(crate) fn sorted_mut(&mut self) -> Vec<(&str, &mut T)> {
        let mut all: Vec<(&str, &mut T)> = self.by_symbol.iter_mut().map(|(symbol, kept)| (&**symbol, kept)).collect();
        all.sort_unstable_by_key(|(symbol, _)| *symbol);
        all
    }

    /// What is kept for a symbol; one that is new is listed first, and made with the steps that are known of it.
    ///
    /// # Errors
    /// [`Undecodable`] if it cannot be listed.
    pub(crate) fn listed(
        &mut self,
        symbol: &str,
        anchored: bool,
        arrival: Arrival<'_>,
        out: &mut Vec<Event>,
        make: impl FnOnce(SymbolId, Steps) -> T,
    ) -> Result<&mut T, Undecodable> {
        let venue = self.venue;
        if !self.by_symbol.contains_key(symbol) {
            let received_ns = arrival.frame.ts_ns;
            let (instrument, listing) =
                self.listings.list(Request { venue, symbol, anchored, leg: arrival.leg, received_ns })?;
            out.push(listing);
            let steps = Steps::told(self.listings.scale(venue, symbol));
            self.by_symbol.insert(symbol.into(), make(instrument.id, steps));
        }
        self.by_symbol.get_mut(symbol).ok_or_else(|| Undecodable::Symbol { venue, symbol: excerpt(symbol) })
    }
}
