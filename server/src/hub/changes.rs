//! What changed lately, per instrument and cut, so that a reader who knows a version is told the rest from memory.
//!
//! An instrument's cuts stand in a ring. A version that a cut ended with is known; one that lies within a cut is not: a
//! level that changed and changed back inside the cut stands in none of its net changes, so a reader at such a version
//! could keep it for ever. He gets the whole book.
//!
//! Never: a difference over a base that the reader does not have; a memory without its bound.

use super::HubInstrument;
use market::{Feed, Level, LevelChange, Scale, Side, SymbolId, U256, Version};
use std::collections::VecDeque;

/// Tokens of cuts that are gone, beyond as many as there are cuts, before the order is tidied.
const STALE_TOKENS: usize = 1_024;

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeBounds {
    /// Bytes of one instrument.
    pub instrument_bytes: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// Why a reader is told the whole book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeReason {
    /// Nobody said what he has.
    NoSince,
    /// There is no book yet.
    NoBook,
    /// His version is older than the oldest that is remembered.
    TooOld,
    /// The book was replaced after his version.
    Replaced,
    /// His version is of another epoch.
    OtherEpoch,
    /// His version lies between two that were shown.
    UnknownVersion,
    /// His version is beyond the present one.
    Ahead,
}

impl WholeReason {
    /// The word in an answer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSince => "no_since",
            Self::NoBook => "no_book",
            Self::TooOld => "too_old",
            Self::Replaced => "replaced",
            Self::OtherEpoch => "other_epoch",
            Self::UnknownVersion => "unknown_version",
            Self::Ahead => "ahead",
        }
    }
}

/// What a reader asks of one instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The instrument.
    pub symbol: SymbolId,
    /// The version that he has, if he wants what changed since.
    pub since: Option<Version>,
    /// The best levels of each side only, of a whole book.
    pub depth: Option<usize>,
}

/// What he is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookView {
    /// The version, none before the first book.
    pub version: Option<Version>,
    /// The steps that all numbers are in.
    pub scale: Scale,
    /// Feed state and flags.
    pub feed: Feed,
    /// Time since the venue was last heard about it, in milliseconds.
    pub age_ms: u64,
    /// Of bids and asks, the worst price known where there is more beyond it.
    pub horizon: [Option<i64>; 2],
    /// The levels.
    pub content: Content,
}

/// Levels of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The book itself, which replaces what the reader has.
    Whole {
        /// Why, if something else was asked for.
        reason: WholeReason,
        /// Bids, best first.
        bids: Vec<Level>,
        /// Asks, best first.
        asks: Vec<Level>,
    },
    /// The levels that differ from a version: bids, then asks, by rising price; quantity zero removes.
    Changes {
        /// That version.
        from: Version,
        /// The levels as they are now.
        levels: Vec<LevelChange>,
    },
}

impl BookView {
    /// The whole book of an instrument, or the best levels of it.
    #[must_use]
    pub fn whole(instrument: &HubInstrument, now_ns: u64, depth: Option<usize>, reason: WholeReason) -> Self {
        let mut horizon = instrument.horizon();
        let [bids, asks] = Side::BOTH.map(|side| {
            let mut levels = instrument.levels(side);
            let taken: Vec<Level> = levels.by_ref().take(depth.unwrap_or(usize::MAX)).collect();
            (taken, levels.next().is_some())
        });
        for ((taken, more), horizon) in [&bids, &asks].into_iter().zip(&mut horizon) {
            // Whoever asks for the best levels alone knows the book as far as the last of them.
            if *more {
                *horizon = taken.last().map(|level| level.tick_index).or(*horizon);
            }
        }
        let content = Content::Whole { reason, bids: bids.0, asks: asks.0 };
        Self::of(instrument, now_ns, horizon, content)
    }

    fn of(instrument: &HubInstrument, now_ns: u64, horizon: [Option<i64>; 2], content: Content) -> Self {
        let (version, scale, feed) = (instrument.version(), instrument.scale(), instrument.feed());
        Self { version, scale, feed, age_ms: instrument.age_ms(now_ns), horizon, content }
    }
}

/// A level's place in its book.
type Place = (Side, i64);

/// The net changes of one cut.
#[derive(Debug)]
struct CutChanges {
    serial: u64,
    /// The version that it ended with.
    to: Version,
    /// What the levels that it changed were before it.
    before: Box<[(Place, U256)]>,
}

impl CutChanges {
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.before) + size_of::<(SymbolId, u64)>()
    }
}

/// The oldest version that changes are known from.
#[derive(Clone, Copy, Debug)]
struct Floor {
    version: Version,
    /// Why nothing is known from before it.
    reason: WholeReason,
    /// Readers may have that version of another book than the one that was remembered from.
    shared: bool,
}

/// The recent cuts of one instrument.
#[derive(Debug, Default)]
struct Recent {
    floor: Option<Floor>,
    cuts: VecDeque<CutChanges>,
    bytes: usize,
}

impl Recent {
    fn now(&self) -> Option<Version> {
        self.cuts.back().map(|cut| cut.to).or(self.floor.map(|floor| floor.version))
    }

    fn drop_oldest(&mut self) -> usize {
        let Some(cut) = self.cuts.pop_front() else { return 0 };
        self.floor = Some(Floor { version: cut.to, reason: WholeReason::TooOld, shared: false });
        self.bytes = self.bytes.saturating_sub(cut.bytes());
        cut.bytes()
    }

    /// The cuts after a version.
    fn after(&self, since: Version) -> Result<impl Iterator<Item = &CutChanges>, WholeReason> {
        let (Some(floor), Some(now)) = (self.floor, self.now()) else { return Err(WholeReason::NoBook) };
        let skipped = if since.epoch != now.epoch {
            return Err(WholeReason::OtherEpoch);
        } else if since > now {
            return Err(WholeReason::Ahead);
        } else if since < floor.version || since == floor.version && floor.shared {
            return Err(floor.reason);
        } else if since == floor.version {
            0
        } else {
            let at = self.cuts.binary_search_by_key(&since, |cut| cut.to).map_err(|_| WholeReason::UnknownVersion)?;
            at.saturating_add(1)
        };
        Ok(self.cuts.iter().skip(skipped))
    }
}

/// What a cut did to a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing.
    Nothing,
    /// It changed levels of the book at this version.
    Changed(Version),
    /// It brought another book.
    Replaced,
}

/// The recent cuts of all instruments.
#[derive(Debug, Default)]
pub(super) struct Changes {
    bounds: ChangeBounds,
    bytes: usize,
    recent: Vec<Recent>,
    /// All cuts in the order in which they came; of some the instrument knows nothing any longer.
    order: VecDeque<(SymbolId, u64)>,
    /// Cuts that are remembered.
    kept: usize,
    serial: u64,
}

impl Changes {
    pub(super) fn new(bounds: ChangeBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Takes what a cut did: the versions before and after it, and what the levels that it changed were before it.
    pub(super) fn note(
        &mut self,
        symbol: SymbolId,
        versions: [Option<Version>; 2],
        told: Told,
        before: Vec<(Place, U256)>,
    ) {
        let at = usize::try_from(symbol.0).unwrap_or(usize::MAX);
        if self.recent.len() <= at {
            self.recent.resize_with(at.saturating_add(1), Recent::default);
        }
        let Some(recent) = self.recent.get_mut(at) else { return };
        let [was, now] = versions;
        let Some(to) = now else { return };
        let follows = matches!(told, Told::Changed(base) if was == Some(base) && recent.now() == was);
        if told == Told::Nothing && was == now {
            return;
        }
        if !follows {
            let reason = if was.is_some() { WholeReason::Replaced } else { WholeReason::TooOld };
            self.bytes = self.bytes.saturating_sub(recent.bytes);
            self.kept = self.kept.saturating_sub(recent.cuts.len());
            *recent = Recent { floor: Some(Floor { version: to, reason, shared: was == now }), ..Recent::default() };
            return;
        }
        self.serial = self.serial.wrapping_add(1);
        let cut = CutChanges { serial: self.serial, to, before: before.into_boxed_slice() };
        recent.bytes = recent.bytes.saturating_add(cut.bytes());
        self.bytes = self.bytes.saturating_add(cut.bytes());
        self.order.push_back((symbol, cut.serial));
        recent.cuts.push_back(cut);
        self.kept = self.kept.saturating_add(1);
        while recent.bytes > self.bounds.instrument_bytes {
            self.bytes = self.bytes.saturating_sub(recent.drop_oldest());
            self.kept = self.kept.saturating_sub(1);
        }
        self.hold_all();
    }

    fn hold_all(&mut self) {
        while self.bytes > self.bounds.bytes {
            let Some((symbol, serial)) = self.order.pop_front() else { return };
            let at = usize::try_from(symbol.0).unwrap_or(usize::MAX);
            let Some(recent) = self.recent.get_mut(at) else { continue };
            if recent.cuts.front().is_some_and(|cut| cut.serial == serial) {
                self.bytes = self.bytes.saturating_sub(recent.drop_oldest());
                self.kept = self.kept.saturating_sub(1);
            }
        }
        if self.order.len() > self.kept.saturating_mul(2).saturating_add(STALE_TOKENS) {
            let recent = &self.recent;
            self.order.retain(|(symbol, serial)| {
                let cuts = recent.get(usize::try_from(symbol.0).unwrap_or(usize::MAX)).map(|recent| &recent.cuts);
                cuts.and_then(VecDeque::front).is_some_and(|oldest| oldest.serial <= *serial)
            });
        }
    }

    /// What a reader is told of an instrument.
    pub(super) fn look(&self, instrument: &HubInstrument, look: &Look, now_ns: u64) -> BookView {
        let changes = look.since.ok_or(WholeReason::NoSince).and_then(|since| {
            let at = usize::try_from(look.symbol.0).unwrap_or(usize::MAX);
            let levels = net(self.recent.get(at).ok_or(WholeReason::NoBook)?.after(since)?, instrument);
            Ok(Content::Changes { from: since, levels })
        });
        match changes {
            Ok(content) => BookView::of(instrument, now_ns, instrument.horizon(), content),
            Err(reason) => BookView::whole(instrument, now_ns, look.depth, reason),
        }
    }

    #[cfg(test)]
    fn is_consistent(&self) -> bool {
        let bytes: usize = self.recent.iter().map(|recent| recent.bytes).sum();
        let cuts: usize = self.recent.iter().map(|recent| recent.cuts.len()).sum();
        let held = self.recent.iter().all(|recent| recent.bytes <= self.bounds.instrument_bytes);
        let tokens = self.order.len() >= cuts && self.order.len() <= 2 * cuts + STALE_TOKENS;
        bytes == self.bytes && cuts == self.kept && held && tokens && bytes <= self.bounds.bytes
    }
}

/// The levels of an instrument that are not what they were before some cuts.
fn net<'a>(cuts: impl Iterator<Item = &'a CutChanges>, instrument: &HubInstrument) -> Vec<LevelChange> {
    let mut before: Vec<(Place, U256)> = cuts.flat_map(|cut| cut.before.iter().copied()).collect();
    // Stable, so that of one level the first entry stays first: what it was at the reader's version.
    before.sort_by_key(|(place, _)| *place);
    before.dedup_by_key(|(place, _)| *place);
    let now = |((side, tick_index), was): (Place, U256)| {
        let quantity = instrument.quantity(side, tick_index);
        (quantity != was).then_some(LevelChange { side, level: Level { tick_index, quantity } })
    };
    before.into_iter().filter_map(now).collect()
}

#[cfg(test)]
mod tests;
