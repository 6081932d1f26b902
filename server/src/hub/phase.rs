//! A phase's net changes since its last frame.
//!
//! Never: a level that is what it was at the last frame.

use super::HubInstrument;
use dataflow::cut::{BookCut, InstrumentCut};
use foldhash::{HashMap, HashMapExt};
use market::{
    Best, Feed, Level, LevelChange, PairId, Quote, Scale, Side, SymbolId, Trade, U256, Version, ViewKey, ViewValue,
};
use std::collections::BTreeSet;

/// A closed frame of one phase.
#[derive(Debug)]
pub struct Frame {
    /// Its number: the closing cut by the cuts per frame.
    pub frame: u64,
    /// The cut that it ends with.
    pub cut: u64,
    /// The end of that cut, Unix nanoseconds.
    pub at_ns: u64,
    /// What changed, by instrument number.
    pub updates: Vec<Update>,
    /// Pairs whose best changed, with what holds now.
    pub best: Vec<(PairId, Option<Best>)>,
    /// Standing views that changed, with what holds now.
    pub views: Vec<(ViewKey, Option<ViewValue>)>,
}

/// One instrument's net change over a frame.
#[derive(Debug)]
pub struct Update {
    /// The instrument.
    pub symbol: SymbolId,
    /// Its version at the close.
    pub version: Option<Version>,
    /// When the last event that counted was received, Unix nanoseconds.
    pub received_ns: u64,
    /// The steps that all numbers are in, but those of trades.
    pub scale: Scale,
    /// Feed state and flags at the close.
    pub feed: Feed,
    /// Whether they changed.
    pub feed_changed: bool,
    /// What the book did.
    pub book: BookCut,
    /// The quote, if it changed.
    pub quote: Option<Quote>,
    /// Trades of the frame, each in its own steps.
    pub trades: Vec<(Scale, Trade)>,
}

/// What the last frame left of an instrument.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    /// Nothing was told of the instrument yet.
    pub(super) fresh: bool,
    pub(super) version: Option<Version>,
    pub(super) quote: Quote,
    pub(super) feed: Feed,
}

/// What happened to an instrument since the last frame.
#[derive(Debug, Default)]
pub(super) struct Pending {
    base: Base,
    snapshot: bool,
    /// What levels were before each change; the first entry of a level is what the last frame left.
    before: Vec<((Side, i64), U256)>,
    trades: Vec<(Scale, Trade)>,
}

impl Pending {
    pub(super) fn changed(&mut self, before: &[((Side, i64), U256)], cut: &InstrumentCut) {
        if matches!(cut.book, BookCut::Snapshot { .. }) {
            self.snapshot = true;
            self.before.clear();
        } else if !self.snapshot {
            self.before.extend_from_slice(before);
        }
        self.trades.extend(cut.trades.iter().cloned());
    }

    fn close(mut self, instrument: &HubInstrument) -> Update {
        let book = match (self.base.version, instrument.version()) {
            (_, Some(_)) if self.snapshot => BookCut::Snapshot {
                bids: instrument.levels(Side::Bid).collect(),
                asks: instrument.levels(Side::Ask).collect(),
                horizon: instrument.horizon(),
            },
            (Some(base), Some(version)) if base != version => BookCut::Delta { base, changes: self.net(instrument) },
            _ => BookCut::Unchanged,
        };
        Update {
            symbol: instrument.symbol(),
            version: instrument.version(),
            received_ns: instrument.received_ns(),
            scale: instrument.scale(),
            feed: instrument.feed(),
            feed_changed: instrument.feed() != self.base.feed || self.base.fresh,
            book,
            quote: (self.snapshot || instrument.quote() != self.base.quote).then(|| instrument.quote()),
            trades: self.trades,
        }
    }

    fn net(&mut self, instrument: &HubInstrument) -> Vec<LevelChange> {
        // Stable, so that of one level the first entry stays first.
        self.before.sort_by_key(|(level, _)| *level);
        self.before.dedup_by_key(|(level, _)| *level);
        let now = |((side, tick_index), before): &((Side, i64), U256)| {
            let quantity = instrument.quantity(*side, *tick_index);
            let level = Level { tick_index: *tick_index, quantity };
            (quantity != *before).then_some(LevelChange { side: *side, level })
        };
        self.before.iter().filter_map(now).collect()
    }
}

/// The net changes of one phase.
#[derive(Debug, Default)]
pub(super) struct Phase {
    pending: HashMap<SymbolId, Pending>,
    best: BTreeSet<PairId>,
    views: BTreeSet<ViewKey>,
}

impl Phase {
    pub(super) fn pending(&mut self, symbol: SymbolId, base: Base) -> &mut Pending {
        self.pending.entry(symbol).or_insert_with(|| Pending { base, ..Pending::default() })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.best.is_empty() && self.views.is_empty()
    }

    pub(super) fn best_changed(&mut self, pair: PairId) {
        self.best.insert(pair);
    }

    pub(super) fn view_changed(&mut self, key: ViewKey) {
        self.views.insert(key);
    }

    pub(super) fn close<'hub>(&mut self, find: impl Fn(SymbolId) -> Option<&'hub HubInstrument>, frame: &mut Frame) {
        let capacity = self.pending.capacity();
        let pending = std::mem::replace(&mut self.pending, HashMap::with_capacity(capacity.min(4_096)));
        let closed = pending.into_iter().filter_map(|(symbol, pending)| find(symbol).map(|found| pending.close(found)));
        frame.updates.extend(closed);
        frame.updates.sort_unstable_by_key(|update| update.symbol);
        frame.best.extend(std::mem::take(&mut self.best).into_iter().map(|pair| (pair, None)));
        frame.views.extend(std::mem::take(&mut self.views).into_iter().map(|key| (key, None)));
    }
}
