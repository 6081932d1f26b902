//! What is true: one instrument at its venue, every change it ever made, and the book after each.
//!
//! Never: anything learned from the code under test.

use super::{
    chance::Chance,
    setup::{MarketKind, MarketSetup},
};
use foldhash::fast::FixedState;
use market::{Level, Scale, Side, TickChange, U256, Venue, naive::NaiveBook};
use std::hash::BuildHasher;

/// How many changes the venue made since the run's begin: a place in its history, whatever it calls it.
pub(super) type Position = usize;

/// The steps of every number here.
pub(super) const SCALE: Scale = Scale { price: -2, quantity: -3 };

/// Prices of the first book lie around this.
const MIDDLE: i64 = 10_000;

/// Levels of a side that changes concern.
const SPAN: u64 = 24;

/// Changes between two books that are kept, to come to any place soon.
const KEPT_EVERY: usize = 64;

/// The content of a book, both sides best first, as a number.
pub(super) fn content(bids: &[Level], asks: &[Level]) -> u64 {
    FixedState::with_seed(7).hash_one((bids, asks))
}

/// A run of ids, from a start of the venue's counter to the next.
#[derive(Clone, Copy, Debug)]
struct Era {
    from: Position,
    id: u64,
}

/// What a change message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// The place that it leads on from, and to.
    pub(super) from: Position,
    pub(super) to: Position,
    /// First and last id that it covers.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) changes: Vec<TickChange>,
}

/// A whole book at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) at: Position,
    pub(super) id: u64,
    pub(super) ticks: Vec<TickChange>,
}

/// One instrument at its venue.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub(super) symbol: String,
    pub(super) venue: Venue,
    /// `venue/symbol`.
    pub(super) name: String,
    pub(super) kind: MarketKind,
    pub(super) every_ns: Option<u64>,
    log: Vec<TickChange>,
    book: NaiveBook,
    /// The venue's own book after every so many changes.
    kept: Vec<NaiveBook>,
    /// By place.
    contents: Vec<u64>,
    eras: Vec<Era>,
    /// Up to where messages told it.
    sent: Position,
    sent_levels: [Vec<Level>; 2],
}

impl Truth {
    pub(super) fn new(setup: &MarketSetup) -> Self {
        let quote = |side, price: i64| TickChange::at(side, price, U256::from(100_u64));
        let begin: Vec<_> =
            (1..=6).flat_map(|at| [quote(Side::Bid, MIDDLE - at), quote(Side::Ask, MIDDLE + at)]).collect();
        let mut book = NaiveBook::default();
        book.replace(&begin);
        let first_id = match setup.kind {
            MarketKind::Numbered { first_id } => first_id,
            MarketKind::Window(_) => 0,
        };
        let venue = setup.kind.venue();
        let mut truth = Self {
            symbol: setup.symbol.clone(),
            venue,
            name: format!("{venue}/{}", setup.symbol),
            kind: setup.kind,
            every_ns: setup.every_ns,
            log: Vec::new(),
            kept: vec![book.clone()],
            book,
            contents: Vec::new(),
            eras: vec![Era { from: 0, id: first_id }],
            sent: 0,
            sent_levels: [Vec::new(), Vec::new()],
        };
        truth.sent_levels = truth.seen();
        truth.contents.push(content(&truth.sent_levels[0], &truth.sent_levels[1]));
        truth
    }

    pub(super) fn numbered(&self) -> bool {
        matches!(self.kind, MarketKind::Numbered { .. })
    }

    /// What a subscriber may see of the book now.
    fn seen(&self) -> [Vec<Level>; 2] {
        self.seen_of(&self.book)
    }

    fn seen_of(&self, book: &NaiveBook) -> [Vec<Level>; 2] {
        let depth = match self.kind {
            MarketKind::Numbered { .. } => usize::MAX,
            MarketKind::Window(depth) => usize::try_from(depth).unwrap_or(usize::MAX),
        };
        Side::BOTH.map(|side| book.levels(side).into_iter().take(depth).collect())
    }

    /// Where it stands now.
    pub(super) fn now(&self) -> Position {
        self.log.len()
    }

    /// The content after a place.
    pub(super) fn content_at(&self, at: Position) -> Option<u64> {
        self.contents.get(at).copied()
    }

    /// The id of the last change.
    pub(super) fn id(&self) -> u64 {
        self.id_of(self.now(), self.eras.len().saturating_sub(1))
    }

    fn id_of(&self, at: Position, era: usize) -> u64 {
        let Some(era) = self.eras.get(era) else { return 0 };
        era.id.saturating_add(u64::try_from(at.saturating_sub(era.from)).unwrap_or(u64::MAX))
    }

    /// The places that had an id, one per run of ids at the most.
    pub(super) fn places_of(&self, id: u64) -> impl Iterator<Item = Position> + '_ {
        // A run of ids may go on beside the next one, on a leg whose server restarts later.
        self.eras.iter().filter_map(move |era| {
            let at = usize::try_from(id.checked_sub(era.id)?).ok()?.checked_add(era.from)?;
            (at <= self.now()).then_some(at)
        })
    }

    /// The venue makes a change.
    pub(super) fn change(&mut self, change: TickChange) {
        self.book.apply(change);
        self.log.push(change);
        if self.log.len().is_multiple_of(KEPT_EVERY) {
            self.kept.push(self.book.clone());
        }
        let [bids, asks] = self.seen();
        self.contents.push(content(&bids, &asks));
    }

    /// The venue makes a change of its own.
    pub(super) fn change_by_chance(&mut self, chance: &mut Chance) {
        let away = i64::try_from(chance.below(SPAN)).unwrap_or(0) + 1;
        let quantity = if chance.in_256(90) { 0 } else { chance.between((1, 999)) };
        let (side, price) = if chance.in_256(128) { (Side::Bid, MIDDLE - away) } else { (Side::Ask, MIDDLE + away) };
        self.change(TickChange::at(side, price, U256::from(quantity)));
    }

    /// The venue's counter starts anew.
    pub(super) fn restart_ids(&mut self, id: u64) {
        self.sent = self.now();
        self.sent_levels = self.seen();
        self.eras.push(Era { from: self.now(), id });
    }

    /// A message about everything that none told yet, if there is something.
    pub(super) fn tell(&mut self) -> Option<Changed> {
        let (from, to) = (self.sent, self.now());
        if from == to {
            return None;
        }
        let era = self.eras.len().saturating_sub(1);
        let now = self.seen();
        let changes = match self.kind {
            MarketKind::Numbered { .. } => self.log.iter().skip(from).copied().collect(),
            MarketKind::Window(_) => self.window_changes(&now),
        };
        self.sent = to;
        self.sent_levels = now;
        if changes.is_empty() {
            return None;
        }
        let (first, last) = (self.id_of(from, era).saturating_add(1), self.id_of(to, era));
        Some(Changed { from, to, first, last, changes })
    }

    /// A message as it reads where the former run of ids goes on.
    pub(super) fn in_former_ids(&self, changed: &Changed) -> Option<Changed> {
        let era = self.eras.len().checked_sub(2)?;
        let (first, last) = (self.id_of(changed.from, era).saturating_add(1), self.id_of(changed.to, era));
        Some(Changed { first, last, ..changed.clone() })
    }

    /// What leaves the window is not told; what died is, and so is what came or changed.
    fn window_changes(&self, now: &[Vec<Level>; 2]) -> Vec<TickChange> {
        let mut changes = Vec::new();
        for ((side, before), now) in Side::BOTH.into_iter().zip(&self.sent_levels).zip(now) {
            let live = self.book.levels(side);
            let died = before.iter().filter(|level| !live.iter().any(|live| live.tick_index == level.tick_index));
            changes.extend(died.map(|level| TickChange::at(side, level.tick_index, U256::ZERO)));
            let came = now.iter().filter(|level| !before.contains(level));
            changes.extend(came.map(|level| TickChange::at(side, level.tick_index, level.quantity)));
        }
        changes
    }

    /// The whole book as it was at a place, with the id that the present counter gives it.
    pub(super) fn whole(&self, at: Position) -> Whole {
        let at = at.max(self.eras.last().map_or(0, |era| era.from)).min(self.now());
        Whole { at, id: self.id_of(at, self.eras.len().saturating_sub(1)), ticks: self.ticks_at(at) }
    }

    /// What a subscriber sees of the book as it was at a place.
    pub(super) fn ticks_at(&self, at: Position) -> Vec<TickChange> {
        let [bids, asks] = self.levels_at(at);
        let tick = |side| move |level: &Level| TickChange::at(side, level.tick_index, level.quantity);
        bids.iter().map(tick(Side::Bid)).chain(asks.iter().map(tick(Side::Ask))).collect()
    }

    /// Bids and asks, best first, as they were at a place.
    pub(super) fn levels_at(&self, at: Position) -> [Vec<Level>; 2] {
        let Some(mut book) = self.kept.get(at / KEPT_EVERY).cloned() else { return [Vec::new(), Vec::new()] };
        self.log.iter().take(at).skip(at - at % KEPT_EVERY).for_each(|change| book.apply(*change));
        self.seen_of(&book)
    }

    /// What a subscriber holds who applies changes to what it saw at a place; an overtaken message leads elsewhere.
    pub(super) fn content_with(&self, at: Position, changes: &[TickChange]) -> u64 {
        let mut book = NaiveBook::default();
        book.replace(&self.ticks_at(at));
        changes.iter().for_each(|change| book.apply(*change));
        let [bids, asks] = self.seen_of(&book);
        content(&bids, &asks)
    }
}
