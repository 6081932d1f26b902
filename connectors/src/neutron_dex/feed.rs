//! From blocks to events: of each instrument one event a block, whose changes have the places of the block's events.
//!
//! [`BlockFeed`] is for blocks whose order somebody else has settled; [`Feed`] for captures of block results.
//!
//! Never: half a block of one pair; a block over one that could not be read.

mod capture;

pub use capture::Feed;

use super::{Block, BlockTick, QUANTITY_EXPONENT, message};
use crate::venue_feed::{
    Undecodable, excerpt,
    listings::{Listings, Request},
};
use foldhash::{HashMap, HashSet};
use market::{
    Body, Delta, Event, Instrument, LegId, Restored, Scale, Sequence, Side, Snapshot, SymbolId, TickChange, TickKey,
    TrancheId, Tranches, Venue, Version, Window, batch, scale::PRICE_POWERS,
};
use std::{collections::BTreeMap, sync::Arc};

/// The steps of all instruments of this venue.
pub const SCALE: Scale = Scale { price: PRICE_POWERS, quantity: QUANTITY_EXPONENT };

const VENUE: Venue = Venue::NeutronDex;

/// When and where a block joins its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// When it was received, Unix nanoseconds of our clock.
    pub received_ns: u64,
    /// The block's own time, Unix nanoseconds; 0 where it is not known.
    pub venue_ns: u64,
    /// The place up to which everything of the stream was delivered before.
    pub from: u64,
}

/// An instrument that its lane knows.
#[derive(Clone, Copy, Debug)]
struct Known {
    symbol: SymbolId,
    /// The place of its last event; where there was none yet, that of the stream's first block is meant.
    place: Option<u64>,
}

/// A block's instruments by symbol, each with the event that lists it if it is new.
type Introduced = Vec<(Box<str>, Known, Option<Event>)>;

/// Where a tranche has reserves.
type Living = HashMap<TrancheId, Vec<(SymbolId, Side, i64)>>;

/// Makes events of blocks that come in the order of their stream.
#[derive(Debug)]
pub struct BlockFeed {
    listings: Arc<Listings>,
    tranches: Arc<Tranches>,
    leg: LegId,
    /// By symbol.
    known: BTreeMap<Box<str>, Known>,
    /// Where the first block joined.
    begun: Option<u64>,
    /// As many as there are live limit orders at the venue, which pays for each.
    living: Living,
}

/// The changes of one instrument, with the places of their events.
#[derive(Clone, Debug, Default)]
struct Changes {
    ticks: Vec<TickChange>,
    places: Vec<u64>,
}

impl BlockFeed {
    /// A feed that lists its instruments and numbers its tranches there.
    #[must_use]
    pub fn new(listings: Arc<Listings>, tranches: Arc<Tranches>, leg: LegId) -> Self {
        let (known, living) = (BTreeMap::new(), HashMap::default());
        Self { listings, tranches, leg, known, begun: None, living }
    }

    /// Says which instruments their lanes know already, from where the stream goes on; they are not introduced again.
    pub fn known(&mut self, instruments: &[Arc<Instrument>]) {
        for instrument in instruments.iter().filter(|instrument| instrument.venue == VENUE) {
            let known = Known { symbol: instrument.id, place: None };
            self.known.insert(instrument.symbol.as_ref().into(), known);
        }
    }

    /// Says up to which place every instrument is known that is not introduced here.
    pub fn begin(&mut self, from: u64) {
        self.begun = Some(from);
    }

    /// Says which ticks of such an instrument are alive. A tranche of several ticks is dead when all of them are; of one that
    /// nobody told, the first death counts.
    pub fn alive(&mut self, symbol: SymbolId, ticks: &[TickChange]) {
        ticks.iter().for_each(|tick| lives(&mut self.living, symbol, tick));
    }

    /// What a block changes, as one delta of each of its instruments. A new instrument is introduced before.
    ///
    /// # Errors
    /// [`Undecodable`] if there is no room for an instrument or tranche; nothing is in `out` then.
    pub fn deliver(&mut self, block: &Block, at: At, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let introduced = self.introduced(block, at)?;
        let changes = self.changes(block)?;
        self.begun.get_or_insert(at.from);
        let symbols = self.admit(introduced, at, out);
        let mut emptied = Vec::new();
        for ((symbol, known), Changes { ticks: changes, places }) in symbols.into_iter().zip(changes) {
            changes.iter().for_each(|tick| self.note(known.symbol, tick, &mut emptied));
            let Some(last) = places.last().copied() else { continue };
            let before = known.place.or(self.begun).unwrap_or(at.from);
            let sequence = Sequence::Venue { first: before.saturating_add(1), last };
            let delta = Delta { sequence, scale: SCALE, changes, places, window: Window::Whole };
            self.push(known.symbol, at, Body::Delta(delta), out);
            self.known.insert(symbol, Known { place: Some(last), ..known });
        }
        // Only now: a tranche may be emptied and filled again in one block.
        emptied.retain(|tranche| !self.living.contains_key(tranche));
        emptied.into_iter().for_each(|tranche| self.tranches.died(tranche, block.height));
        Ok(())
    }

    /// What a block changed that the stream has passed by: for the store alone. Which tranches live is not touched: what was
    /// delivered since knows better, and names of those that died meanwhile stay known.
    ///
    /// # Errors
    /// [`Undecodable`] as above.
    pub fn late(&mut self, block: &Block, at: At, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let introduced = self.introduced(block, at)?;
        let new: Vec<_> = block
            .ticks
            .iter()
            .filter(|tick| self.tranches.number(&tick.tranche).is_none())
            .map(|tick| &*tick.tranche)
            .collect();
        let changes = self.changes(block)?;
        let symbols = self.admit(introduced, at, out);
        for ((_, known), Changes { ticks: changes, places }) in symbols.into_iter().zip(changes) {
            let (Some(first), Some(last)) = (places.first().copied(), places.last().copied()) else { continue };
            let sequence = Sequence::Venue { first, last };
            let delta = Delta { sequence, scale: SCALE, changes, places, window: Window::Whole };
            self.push(known.symbol, at, Body::Late(delta), out);
        }
        // What was not alive is not alive by this; its name is needed until the rows are durable, which are told before the
        // next block's.
        let after = batch::height_of(at.from).saturating_add(1);
        for tranche in new.into_iter().filter_map(|name| self.tranches.number(name)) {
            self.tranches.died(tranche, after);
        }
        Ok(())
    }

    /// Every live tick at the end of a block: one snapshot of each instrument that is known, empty where the source has none
    /// of it. Its position is the last one of the block.
    ///
    /// # Errors
    /// [`Undecodable`] as above.
    pub fn snapshot(&mut self, block: &Block, at: At, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let introduced = self.introduced(block, at)?;
        let changes = self.changes(block)?;
        self.begun.get_or_insert(at.from);
        let symbols = self.admit(introduced, at, out);
        let mut whole: HashMap<SymbolId, Vec<TickChange>> =
            symbols.iter().zip(changes).map(|((_, known), changes)| (known.symbol, changes.ticks)).collect();
        let end = batch::end_of(block.height);
        let mut living = Living::default();
        for known in self.known.values_mut() {
            let mut ticks = whole.remove(&known.symbol).unwrap_or_default();
            last_of_each(&mut ticks);
            ticks.iter().for_each(|tick| lives(&mut living, known.symbol, tick));
            known.place = Some(end);
            let sequence = Sequence::Venue { first: end, last: end };
            let snapshot = Snapshot { sequence, scale: SCALE, ticks, window: Window::Whole };
            out.push(Event::of(known.symbol, self.leg, at.received_ns, at.venue_ns, Body::Snapshot(snapshot)));
        }
        let mut gone: Vec<_> = self.living.keys().filter(|tranche| !living.contains_key(*tranche)).copied().collect();
        gone.sort_unstable();
        // Their deaths are durable with the next height at the earliest.
        let after = block.height.max(batch::height_of(at.from).saturating_add(1));
        gone.into_iter().for_each(|tranche| self.tranches.died(tranche, after));
        self.living = living;
        Ok(())
    }

    /// Instruments as they were rebuilt from the log: of each pair of the block all live ticks, which hold up to `at.from`.
    /// At the version that is shown the lane compares them.
    ///
    /// # Errors
    /// [`Undecodable`] as above.
    pub fn rebuilt(&mut self, block: &Block, place: u64, at: At, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let introduced = self.introduced(block, at)?;
        let changes = self.changes(block)?;
        let symbols = self.admit(introduced, at, out);
        for ((symbol, known), Changes { mut ticks, .. }) in symbols.into_iter().zip(changes) {
            last_of_each(&mut ticks);
            self.show_rebuilt(symbol, known, (ticks, place), at, out);
        }
        Ok(())
    }

    /// The known instruments that a rebuilt stream does not name have nothing alive.
    pub fn absent(&mut self, named: &HashSet<Box<str>>, at: At, out: &mut Vec<Event>) {
        let absent: Vec<_> = self.known.iter().filter(|(symbol, _)| !named.contains(*symbol)).collect();
        let absent: Vec<_> = absent.into_iter().map(|(symbol, known)| (symbol.clone(), *known)).collect();
        for (symbol, known) in absent {
            self.show_rebuilt(symbol, known, (Vec::new(), 0), at, out);
        }
    }

    /// Shows a rebuilt book where the instrument stands, which may be above its last change.
    fn show_rebuilt(
        &mut self,
        symbol: Box<str>,
        known: Known,
        (ticks, place): (Vec<TickChange>, u64),
        at: At,
        out: &mut Vec<Event>,
    ) {
        let place = place.max(known.place.or(self.begun).unwrap_or(at.from));
        self.replace_living(known.symbol, &ticks, batch::height_of(at.from).saturating_add(1));
        let sequence = Sequence::Venue { first: place, last: place };
        let snapshot = Snapshot { sequence, scale: SCALE, ticks, window: Window::Whole };
        self.push(known.symbol, at, Body::Snapshot(snapshot), out);
        self.known.insert(symbol, Known { place: Some(place), ..known });
    }

    /// An instrument has these live ticks and no others; tranches that lived there alone are dead.
    fn replace_living(&mut self, symbol: SymbolId, ticks: &[TickChange], height: u64) {
        let of_symbol = |places: &Vec<(SymbolId, Side, i64)>| places.iter().any(|(known, ..)| *known == symbol);
        let mut before: Vec<_> =
            self.living.iter().filter(|(_, places)| of_symbol(places)).map(|(tranche, _)| *tranche).collect();
        before.sort_unstable();
        for tranche in &before {
            if let Some(places) = self.living.get_mut(tranche) {
                places.retain(|(known, ..)| *known != symbol);
            }
        }
        ticks.iter().for_each(|tick| lives(&mut self.living, symbol, tick));
        for tranche in before {
            if self.living.get(&tranche).is_some_and(Vec::is_empty) {
                self.living.remove(&tranche);
                self.tranches.died(tranche, height);
            }
        }
    }

    /// The block's instruments in the order of its pairs, each with the event that lists it if it is new.
    fn introduced(&self, block: &Block, at: At) -> Result<Introduced, Undecodable> {
        let of = |(token_zero, token_one): &(Box<str>, Box<str>)| {
            let symbol = message::symbol(token_zero, token_one);
            if let Some(known) = self.known.get(&*symbol) {
                return Ok((symbol.into(), *known, None));
            }
            let (leg, received_ns) = (self.leg, at.received_ns);
            let request = Request { venue: VENUE, symbol: &symbol, anchored: true, leg, received_ns };
            let (instrument, event) = self.listings.list(request)?;
            let known = Known { symbol: instrument.id, place: Some(at.from) };
            Ok((symbol.into(), known, Some(event)))
        };
        block.pairs.iter().map(of).collect()
    }

    /// The block's changes by pair, tranches numbered in the order of the events.
    fn changes(&self, block: &Block) -> Result<Vec<Changes>, Undecodable> {
        let mut changes = vec![Changes::default(); block.pairs.len()];
        for tick in &block.ticks {
            let BlockTick { ordinal, pair, side, tick_index, fee, tranche, reserves } = tick;
            let tranche = self.tranches.intern(tranche)?;
            let beyond = || Undecodable::Field {
                venue: VENUE,
                field: "height",
                text: excerpt(&format!("{} with event {ordinal} of pair {pair}", block.height)),
            };
            let place = batch::place_of(block.height, *ordinal).ok_or_else(beyond)?;
            let Changes { ticks, places } = changes.get_mut(*pair).ok_or_else(beyond)?;
            let key = TickKey { tick_index: *tick_index, fee: *fee, tranche };
            ticks.push(TickChange { side: *side, key, reserves: *reserves });
            places.push(place);
        }
        Ok(changes)
    }

    /// Introduces what is new: an empty book up to where the stream is known.
    fn admit(&mut self, introduced: Introduced, at: At, out: &mut Vec<Event>) -> Vec<(Box<str>, Known)> {
        let mut symbols = Vec::with_capacity(introduced.len());
        for (symbol, known, listed) in introduced {
            symbols.push((symbol.clone(), known));
            let Some(listed) = listed else { continue };
            let epoch = if let Body::Listing(listing) = &listed.body { listing.epoch } else { 0 };
            let version = Version::new(epoch, at.from);
            let empty = Restored {
                version,
                through: version,
                scale: SCALE,
                ticks: Some(Vec::new()),
                from_log: true,
                heard_ns: at.received_ns,
            };
            out.push(listed);
            self.push(known.symbol, at, Body::Restored(Box::new(empty)), out);
            self.known.insert(symbol, known);
        }
        symbols
    }

    fn push(&self, symbol: SymbolId, at: At, body: Body, out: &mut Vec<Event>) {
        out.push(Event::of(symbol, self.leg, at.received_ns, at.venue_ns, body));
    }

    /// Notes where a tick's tranche lives, or that it may be dead.
    fn note(&mut self, symbol: SymbolId, tick: &TickChange, emptied: &mut Vec<TrancheId>) {
        let tranche = tick.key.tranche;
        if tranche == TrancheId(0) || !tick.reserves.is_zero() {
            return lives(&mut self.living, symbol, tick);
        }
        let place = (symbol, tick.side, tick.key.tick_index);
        if let Some(places) = self.living.get_mut(&tranche) {
            places.retain(|known| *known != place);
            if places.is_empty() {
                self.living.remove(&tranche);
            }
        }
        emptied.push(tranche);
    }
}

fn lives(living: &mut Living, symbol: SymbolId, tick: &TickChange) {
    if tick.key.tranche == TrancheId(0) || tick.reserves.is_zero() {
        return;
    }
    let places = living.entry(tick.key.tranche).or_default();
    let place = (symbol, tick.side, tick.key.tick_index);
    if !places.contains(&place) {
        places.push(place);
    }
}

/// Of several ticks at one key the last counts, and one without reserves is none.
fn last_of_each(ticks: &mut Vec<TickChange>) {
    let mut seen = HashSet::default();
    ticks.reverse();
    ticks.retain(|tick| seen.insert((tick.side, tick.key)) && !tick.reserves.is_zero());
    ticks.reverse();
}

#[cfg(test)]
mod tests;
