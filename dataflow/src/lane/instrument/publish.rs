//! What an instrument publishes: the net of a cut, and ahead of it what a priority terminal wants at once.
//!
//! Never: a level that did not change.

use super::{Instrument, Published};
use crate::{
    cut::{BookCut, InstrumentCut, LaneCounts, PriorityUpdate},
    lane::{PartChange, QuoteChange, legs::LegMarks},
};
use market::{Best, BestSide, Feed, FeedState, Quote, Version, ViewRule};

impl Instrument {
    /// What changed since it was published last; none if nothing did.
    pub(in crate::lane) fn publish(
        &mut self,
        marks: LegMarks,
        now_ns: u64,
        counts: &mut LaneCounts,
    ) -> Option<InstrumentCut> {
        let mut changes = Vec::new();
        self.book.close_cut(&mut changes);
        let quote = self.book.quote();
        let flags = self.book.flags_at(quote);
        if flags.exhausted {
            self.guard.refresh(now_ns);
        }
        self.marks = marks;
        let state = self.marked();
        let feed = Feed { state, flags };
        let version = self.content;
        self.count_guard(counts);
        let book = self.book_cut(version, changes);
        let before = &self.published;
        let same = quote == before.quote && before.feed.is_some_and(|feed| feed.state == state) && !self.replaced;
        let best = if same { before.best } else { self.candidate(quote, feed) };
        let before = std::mem::replace(&mut self.published, Published { version, quote, feed: Some(feed), best });
        self.quote_before = before.best;
        let cut = InstrumentCut {
            symbol: self.symbol,
            version,
            received_ns: self.last.received_ns,
            scale: self.book.scale(),
            quote: (quote != before.quote || self.replaced).then_some(quote),
            feed: (before.feed != Some(feed)).then_some(feed),
            trades: std::mem::take(&mut self.new_trades),
            admitted: std::mem::take(&mut self.admitted),
            admitted_trades: std::mem::take(&mut self.admitted_trades),
            book,
        };
        self.replaced = false;
        let silent = cut.book == BookCut::Unchanged
            && cut.quote.is_none()
            && cut.feed.is_none()
            && cut.trades.is_empty()
            && cut.admitted.is_empty()
            && cut.admitted_trades.is_empty();
        (!silent).then_some(cut)
    }

    /// Tells what happened since it was told last, if the instrument is wanted ahead of its cut.
    #[inline]
    pub(in crate::lane) fn tell_ahead(&mut self, mark: u32, out: &mut Vec<PriorityUpdate>) {
        if !self.ahead.heed(mark) {
            return;
        }
        let Some(version) = self.content else { return };
        let Some(book) = self.ahead.tell(&self.book, version) else { return };
        let state = self.marked();
        let feed = Feed { state, flags: self.book.flags() };
        let (symbol, received_ns, scale) = (self.symbol, self.last.received_ns, self.book.scale());
        out.push(PriorityUpdate { symbol, version, received_ns, scale, feed, book });
    }

    /// The state as it is shown, silence included.
    pub(super) fn marked(&self) -> FeedState {
        match self.state() {
            // Without a connection that is the first thing to know; what is missing will be seen when it is back.
            FeedState::Live | FeedState::Gapped if self.marks.stale => FeedState::Stale,
            // What is shown is right, and later changes wait for a batch that is missing.
            FeedState::Live if self.marks.incomplete || self.doubted => FeedState::Gapped,
            // While the connection ticks, what is known to be missing says more than silence.
            FeedState::Live if self.pulse.is_silent() => FeedState::Stale,
            state => state,
        }
    }

    fn book_cut(&self, version: Option<Version>, mut changes: Vec<market::LevelChange>) -> BookCut {
        match (self.published.version, version) {
            (_, Some(_)) if self.replaced => BookCut::whole(&self.book),
            (Some(base), Some(version)) if base != version => {
                changes.sort_unstable_by_key(|change| (change.side, change.level.tick_index));
                BookCut::Delta { base, changes }
            }
            _ => BookCut::Unchanged,
        }
    }

    /// What the instrument offers for its pair's best: nothing unless it is live and known at its top.
    fn candidate(&self, quote: Quote, feed: Feed) -> Option<Best> {
        let (venue, scale) = (self.listing.venue, self.book.scale());
        let side = |level| BestSide::of(venue, level, scale);
        let best = Best { bid: quote.bid.and_then(side), ask: quote.ask.and_then(side) };
        let known = feed.state == FeedState::Live && !feed.flags.exhausted;
        (known && best != Best::default()).then_some(best)
    }

    /// The pair's candidate of this instrument, if the last publication changed it.
    pub(in crate::lane) fn quote_change(&self) -> Option<QuoteChange> {
        let (before, now) = (self.quote_before, self.published.best);
        (before != now).then_some(QuoteChange { pair: self.listing.pair, before, now })
    }

    /// Tells what the instrument adds to the views of its pair, after what it published of a cut.
    #[inline]
    pub(in crate::lane) fn tell_parts(&mut self, rules: &[ViewRule], cut: &InstrumentCut, out: &mut Vec<PartChange>) {
        let moved = match &cut.book {
            BookCut::Unchanged => false,
            BookCut::Delta { changes, .. } => !changes.is_empty(),
            BookCut::Snapshot { .. } => true,
        };
        if self.parts.is_empty() || !(moved || cut.feed.is_some()) {
            return;
        }
        let live = self.published.feed.is_some_and(|feed| feed.state == FeedState::Live);
        let (book, symbol) = (&self.book, self.symbol);
        self.parts.look(symbol, rules, |rule| live.then(|| rule.part(book)).flatten(), out);
    }

    fn count_guard(&mut self, counts: &mut LaneCounts) {
        let now = self.guard.counts();
        let before = std::mem::replace(&mut self.guard_counts, now);
        counts.gaps += now.gaps - before.gaps;
        counts.resyncs += now.resyncs - before.resyncs;
        counts.resets += now.resets - before.resets;
        counts.overflows += now.overflows - before.overflows;
        counts.refused += now.refused - before.refused;
        counts.requests += now.requests - before.requests;
    }
}
