//! An instrument as the hub holds it: what a terminal that joins now must be told.
//!
//! Never: a decision; the lanes decided.

use super::phase::{Base, Phase};
use dataflow::cut::{BookCut, InstrumentCut, PriorityUpdate};
use market::{Book, Feed, Level, Quote, Scale, Side, SymbolId, TickChange, Trade, U256, Version, Window};

/// State of one instrument at the last complete cut.
#[derive(Clone, Debug)]
pub struct HubInstrument {
    symbol: SymbolId,
    version: Option<Version>,
    /// Rises with everything that is applied.
    revision: u64,
    received_ns: u64,
    scale: Scale,
    feed: Feed,
    quote: Quote,
    book: Book,
    horizon: [Option<i64>; 2],
    last_trade: Option<(Scale, Trade)>,
}

impl HubInstrument {
    /// An instrument of which nothing came yet.
    #[must_use]
    pub fn new(symbol: SymbolId) -> Self {
        Self {
            symbol,
            version: None,
            revision: 0,
            received_ns: 0,
            scale: Scale::default(),
            feed: Feed::default(),
            quote: Quote::default(),
            book: Book::default(),
            horizon: [None; 2],
            last_trade: None,
        }
    }

    /// Applies a cut; gives what the levels that it changed were before it.
    pub(super) fn apply(&mut self, cut: InstrumentCut, phases: &mut [Option<Phase>]) -> Vec<((Side, i64), U256)> {
        let mut before: Vec<((Side, i64), U256)> = Vec::new();
        let base = Base { fresh: self.revision == 0, version: self.version, quote: self.quote, feed: self.feed };
        let symbol = self.symbol;
        let mut pending = phases.iter_mut().flatten().map(|phase| phase.pending(symbol, base));
        match &cut.book {
            BookCut::Unchanged => {}
            BookCut::Delta { changes, .. } => {
                before.reserve_exact(changes.len());
                for change in changes {
                    let (side, level) = (change.side, change.level);
                    let was = self.book.apply(TickChange::at(side, level.tick_index, level.quantity));
                    before.push(((side, level.tick_index), was));
                }
                self.book.close_cut(&mut Vec::new());
                pending.by_ref().for_each(|pending| pending.changed(&before, &cut));
            }
            BookCut::Snapshot { bids, asks, horizon } => {
                self.load(bids, asks, cut.scale);
                self.horizon = *horizon;
            }
        }
        if !matches!(cut.book, BookCut::Delta { .. }) {
            pending.for_each(|pending| pending.changed(&[], &cut));
        }
        self.revision += 1;
        self.version = cut.version;
        self.received_ns = cut.received_ns;
        self.scale = cut.scale;
        self.quote = cut.quote.unwrap_or(self.quote);
        self.feed = cut.feed.unwrap_or(self.feed);
        if let Some(trade) = cut.trades.into_iter().next_back() {
            self.last_trade = Some(trade);
        }
        before
    }

    /// Follows an update that is ahead of its cut. False, and nothing is changed, if it does not begin where this stands.
    pub fn follow(&mut self, update: &PriorityUpdate) -> bool {
        match &update.book {
            BookCut::Unchanged => {}
            BookCut::Delta { base, changes } => {
                if self.version != Some(*base) || update.version <= *base {
                    return false;
                }
                for change in changes {
                    self.book.apply(TickChange::at(change.side, change.level.tick_index, change.level.quantity));
                }
                self.book.close_cut(&mut Vec::new());
            }
            BookCut::Snapshot { bids, asks, horizon } => {
                self.load(bids, asks, update.scale);
                self.horizon = *horizon;
            }
        }
        self.revision += 1;
        self.version = Some(update.version);
        self.received_ns = update.received_ns;
        self.scale = update.scale;
        self.feed = update.feed;
        true
    }

    /// The mark changes, and nothing else.
    pub(crate) fn mark(&mut self, feed: Feed) {
        self.revision += 1;
        self.feed = feed;
    }

    fn load(&mut self, bids: &[Level], asks: &[Level], scale: Scale) {
        let side = |side: Side, levels: &[Level]| -> Vec<TickChange> {
            levels.iter().map(|level| TickChange::at(side, level.tick_index, level.quantity)).collect()
        };
        let mut ticks = side(Side::Bid, bids);
        ticks.append(&mut side(Side::Ask, asks));
        self.book.replace(&ticks, scale, Window::Whole, &mut Vec::new());
    }

    /// Its number.
    #[must_use]
    pub fn symbol(&self) -> SymbolId {
        self.symbol
    }

    /// Version of its book, if it has one.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Rises with everything that is applied, so that what was derived from it can be kept until it does.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When the last event that counted was received, Unix nanoseconds.
    #[must_use]
    pub fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// How long ago that was, in milliseconds; 0 if nothing came yet or the clock ran backwards.
    #[must_use]
    pub fn age_ms(&self, now_ns: u64) -> u64 {
        if self.received_ns == 0 { 0 } else { now_ns.saturating_sub(self.received_ns) / 1_000_000 }
    }

    /// The steps that its numbers are in.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Feed state and flags.
    #[must_use]
    pub fn feed(&self) -> Feed {
        self.feed
    }

    /// Its best levels.
    #[must_use]
    pub fn quote(&self) -> Quote {
        self.quote
    }

    /// The levels of a side, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = Level> + '_ {
        self.book.levels(side)
    }

    /// A level's quantity, zero if it is not there.
    #[must_use]
    pub fn quantity(&self, side: Side, tick_index: i64) -> U256 {
        self.book.reserves(side, market::TickKey::at(tick_index))
    }

    /// Worst price known of bids and asks, where the venue has more.
    #[must_use]
    pub fn horizon(&self) -> [Option<i64>; 2] {
        self.horizon
    }

    /// The last trade shown, in its own steps.
    #[must_use]
    pub fn last_trade(&self) -> Option<&(Scale, Trade)> {
        self.last_trade.as_ref()
    }
}
