//! What a lane publishes when a cut closes.
//!
//! Never: a level that did not change over the cut, or a change without its versions.

use crate::copy::BookCopy;
use market::{
    AdmittedChanges, AdmittedTrade, Best, Book, Feed, LegId, Level, LevelChange, PairId, Quote, Scale, Side, SymbolId,
    Trade, Version, ViewKey, ViewValue,
};

/// One worker's part of a closed cut.
#[derive(Clone, Debug, Default)]
pub struct LaneCut {
    /// The cut.
    pub cut: u64,
    /// Instruments that changed, by number.
    pub instruments: Vec<InstrumentCut>,
    /// Instruments whose book must be fetched anew.
    pub requests: Vec<SymbolId>,
    /// Bytes of the events that went into it, for flow control.
    pub input_bytes: u64,
    /// What happened since the worker's last cut.
    pub counts: LaneCounts,
    /// Positions of log streams, by leg, up to which every change is in this cut or in one before it.
    pub through: Vec<(LegId, u64)>,
    /// What legs brought since then, of those that brought anything, by number.
    pub legs: Vec<(LegId, LegCounts)>,
    /// What audits have asked for, as it is at the close.
    pub copies: Vec<BookCopy>,
}

/// Leads of one leg that a cut tells one by one; their number and sum tell of all.
pub const LEADS_PER_CUT_MAX: usize = 4_096;

/// What one leg brought, over a lane's instruments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegCounts {
    /// Updates that it brought first and that were applied; without ids of the venue all of the active leg.
    pub wins: u64,
    /// Updates that it brought after they had been applied.
    pub duplicates: u64,
    /// Updates that it brought after newer ones had been applied, and that never were.
    pub regressions: u64,
    /// Holes in its own chain of ids, whatever the other legs filled in, and breaks told by its connector.
    pub gaps: u64,
    /// Books replaced after a gap by a snapshot that came on it.
    pub resyncs: u64,
    /// Wins of which a second leg brought the same later.
    pub leads: u64,
    /// Time that they were ahead of it, nanoseconds, together.
    pub lead_ns: u64,
    /// Wins that by our clock a second leg had received earlier, so that they have no lead.
    pub late_wins: u64,
    /// The leads one by one, nanoseconds; [`LEADS_PER_CUT_MAX`] at the most.
    pub leads_ns: Vec<u64>,
}

impl LegCounts {
    /// Adds what the leg brought to another lane or in another cut. Of the leads one by one, those of this cut stay.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.wins, other.wins),
            (&mut self.duplicates, other.duplicates),
            (&mut self.regressions, other.regressions),
            (&mut self.gaps, other.gaps),
            (&mut self.resyncs, other.resyncs),
            (&mut self.leads, other.leads),
            (&mut self.lead_ns, other.lead_ns),
            (&mut self.late_wins, other.late_wins),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Every count with its name.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 7] {
        [
            ("wins", self.wins),
            ("duplicates", self.duplicates),
            ("regressions", self.regressions),
            ("gaps", self.gaps),
            ("resyncs", self.resyncs),
            ("leads", self.leads),
            ("late_wins", self.late_wins),
        ]
    }
}

/// One instrument's part of a closed cut.
#[derive(Clone, Debug)]
pub struct InstrumentCut {
    /// The instrument.
    pub symbol: SymbolId,
    /// The version at the close; none before the first book.
    pub version: Option<Version>,
    /// When the last event that counted was received, Unix nanoseconds; ages are told from it.
    pub received_ns: u64,
    /// The steps that all numbers here are in.
    pub scale: Scale,
    /// What the book did.
    pub book: BookCut,
    /// The quote, if it changed.
    pub quote: Option<Quote>,
    /// Feed state and flags, if they changed.
    pub feed: Option<Feed>,
    /// Trades shown, in the venue's order, each in its own steps.
    pub trades: Vec<(Scale, Trade)>,
    /// What the store keeps; empty if no store is fed.
    pub admitted: Vec<AdmittedChanges>,
    /// Trades that the store keeps.
    pub admitted_trades: Vec<AdmittedTrade>,
}

/// What one admitted event did to the book of a priority instrument; sent as it happens.
#[derive(Clone, Debug)]
pub struct PriorityUpdate {
    /// The instrument.
    pub symbol: SymbolId,
    /// The version that the event brought it to.
    pub version: Version,
    /// When the event was received, Unix nanoseconds.
    pub received_ns: u64,
    /// The steps that all numbers here are in.
    pub scale: Scale,
    /// Feed state and flags after it.
    pub feed: Feed,
    /// The whole book, or the levels that the event changed, on the version of the update before. Never unchanged.
    pub book: BookCut,
}

/// What a book did over a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookCut {
    /// Nothing was applied.
    Unchanged,
    /// Net changes from the version before to the one at the close; none if all was reversed.
    Delta {
        /// The version published before.
        base: Version,
        /// Levels that differ from it.
        changes: Vec<LevelChange>,
    },
    /// The book was replaced, or its steps were refined.
    Snapshot {
        /// Bids, best first.
        bids: Vec<Level>,
        /// Asks, best first.
        asks: Vec<Level>,
        /// Worst price known of bids and asks, where the venue has more.
        horizon: [Option<i64>; 2],
    },
}

/// What happened in a lane; sums over its instruments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Updates applied.
    pub applied: u64,
    /// Updates that were applied already.
    pub duplicates: u64,
    /// Updates older than what is shown: what last-write-wins would have shown.
    pub regressions: u64,
    /// Updates covered by a snapshot.
    pub covered: u64,
    /// Updates without a book to apply them to.
    pub unanchored: u64,
    /// Updates of legs that have not joined the present epoch.
    pub unbound: u64,
    /// Words of a venue that no update is missing.
    pub assurances: u64,
    /// Updates held back.
    pub held: u64,
    /// Holes that were not filled in time, and breaks told by connectors.
    pub gaps: u64,
    /// Books replaced after a gap.
    pub resyncs: u64,
    /// Restarts of a venue's ids.
    pub resets: u64,
    /// Buffers thrown away at their byte bound.
    pub overflows: u64,
    /// Snapshots refused.
    pub refused: u64,
    /// Snapshots asked for.
    pub requests: u64,
    /// Trades shown.
    pub trades: u64,
    /// Trades repeated.
    pub trade_duplicates: u64,
    /// Trades older than the shown one.
    pub trades_late: u64,
    /// Updates whose numbers do not fit the book's steps.
    pub unrepresentable: u64,
    /// Updates that the venue's clock dates after their arrival: negative latencies, which are never clipped.
    pub venue_ahead: u64,
}

/// A pair's new consolidated best; none when no venue holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestChange {
    /// The cut at whose close it holds.
    pub cut: u64,
    /// The pair.
    pub pair: PairId,
    /// The best.
    pub best: Option<Best>,
}

/// A standing view of a pair as it is now; none when no book is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewChange {
    /// The cut at whose close it holds.
    pub cut: u64,
    /// The view, and the pair.
    pub key: ViewKey,
    /// The value.
    pub value: Option<ViewValue>,
}

impl BookCut {
    /// The whole book.
    #[must_use]
    pub fn whole(book: &Book) -> Self {
        Self::Snapshot {
            bids: book.levels(Side::Bid).collect(),
            asks: book.levels(Side::Ask).collect(),
            horizon: Side::BOTH.map(|side| book.horizon(side)),
        }
    }
}

impl LaneCounts {
    /// Adds another lane's counts.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.fields().into_iter().zip(other.values()) {
            *sum = sum.saturating_add(more.1);
        }
    }

    /// Every count with its name.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 19] {
        [
            ("applied", self.applied),
            ("duplicates", self.duplicates),
            ("regressions", self.regressions),
            ("covered", self.covered),
            ("unanchored", self.unanchored),
            ("unbound", self.unbound),
            ("assurances", self.assurances),
            ("held", self.held),
            ("gaps", self.gaps),
            ("resyncs", self.resyncs),
            ("resets", self.resets),
            ("overflows", self.overflows),
            ("refused", self.refused),
            ("requests", self.requests),
            ("trades", self.trades),
            ("trade_duplicates", self.trade_duplicates),
            ("trades_late", self.trades_late),
            ("unrepresentable", self.unrepresentable),
            ("venue_ahead", self.venue_ahead),
        ]
    }

    fn fields(&mut self) -> [&mut u64; 19] {
        [
            &mut self.applied,
            &mut self.duplicates,
            &mut self.regressions,
            &mut self.covered,
            &mut self.unanchored,
            &mut self.unbound,
            &mut self.assurances,
            &mut self.held,
            &mut self.gaps,
            &mut self.resyncs,
            &mut self.resets,
            &mut self.overflows,
            &mut self.refused,
            &mut self.requests,
            &mut self.trades,
            &mut self.trade_duplicates,
            &mut self.trades_late,
            &mut self.unrepresentable,
            &mut self.venue_ahead,
        ]
    }
}
