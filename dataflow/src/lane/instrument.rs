//! One instrument in its lane: guard, book, trades, and what was published of them.
//!
//! Never: an update applied that the guard did not admit.

use super::{LaneConfig, QuoteChange, ahead::Ahead, kept::Kept};
use crate::cut::{BookCut, InstrumentCut, LaneCounts, PriorityUpdate};
use market::{
    AdmittedChanges, AdmittedTrade, Best, BestSide, Body, Book, Delta, Event, Feed, FeedState, Guard, LegId, Listing,
    Quote, Restored, Scale, Sequence, Side, Snapshot, SymbolId, TickChange, TickKey, Trade, TradeGuard, U256, Version,
    Window,
    guard::{Counts, Offer},
    trade::TradeVerdict,
};

/// When an event came, by our clock and the venue's.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    received_ns: u64,
    venue_ns: u64,
}

/// A held payload with its times.
#[derive(Clone, Debug)]
struct Timed<T> {
    times: Times,
    body: T,
}

pub(super) struct Instrument {
    symbol: SymbolId,
    listing: Listing,
    guard: Guard<Timed<Snapshot>, Timed<Delta>>,
    guard_counts: Counts,
    book: Book,
    trades: TradeGuard,
    legs: Vec<LegId>,
    keep_admitted: bool,
    /// Already in the lane's dirty list.
    dirty: bool,
    scheduled: Option<u64>,
    /// Version that the book's content stands at. The guard's may be ahead of it where a number did not fit.
    content: Option<Version>,
    /// The book must be published whole.
    replaced: bool,
    kept: Kept,
    ahead: Ahead,
    last: Times,
    published: Published,
    quote_before: Option<Best>,
    new_trades: Vec<(Scale, Trade)>,
    admitted: Vec<AdmittedChanges>,
    admitted_trades: Vec<AdmittedTrade>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Published {
    version: Option<Version>,
    quote: Quote,
    feed: Option<Feed>,
    best: Option<Best>,
}

impl Instrument {
    pub(super) fn new(symbol: SymbolId, listing: Listing, listed_ns: u64, config: &LaneConfig) -> Self {
        Self {
            symbol,
            listing,
            guard: Guard::new(config.limits, listing.epoch, listing.block),
            guard_counts: Counts::default(),
            book: Book::default(),
            trades: TradeGuard::default(),
            legs: Vec::new(),
            keep_admitted: config.admitted,
            dirty: true,
            scheduled: None,
            content: None,
            replaced: false,
            kept: Kept::default(),
            ahead: Ahead::default(),
            last: Times { received_ns: listed_ns, venue_ns: 0 },
            published: Published::default(),
            quote_before: None,
            new_trades: Vec::new(),
            admitted: Vec::new(),
            admitted_trades: Vec::new(),
        }
    }

    pub(super) fn symbol(&self) -> SymbolId {
        self.symbol
    }

    pub(super) fn legs(&self) -> &[LegId] {
        &self.legs
    }

    /// Notes that a leg carries the instrument; whether that is new.
    #[inline]
    pub(super) fn joins(&mut self, leg: LegId) -> bool {
        if self.legs.contains(&leg) {
            return false;
        }
        self.legs.push(leg);
        self.guard.joined();
        true
    }

    /// Only this leg carries the instrument from now on; gives the others.
    pub(super) fn carried_alone_by(&mut self, leg: LegId) -> Vec<LegId> {
        let mut others = std::mem::replace(&mut self.legs, vec![leg]);
        others.retain(|other| *other != leg);
        others
    }

    /// A leg was opened; whether it concerns the instrument, which then must be looked at.
    pub(super) fn leg_up(&mut self, leg: LegId, now_ns: u64) -> bool {
        let concerned = self.legs.is_empty() || self.legs.contains(&leg);
        if concerned {
            self.guard.leg_up(now_ns, leg);
        }
        concerned
    }

    /// A leg's connection ended; with the time if it was the last one.
    pub(super) fn leg_down(&mut self, leg: LegId, last_ns: Option<u64>) {
        self.guard.leg_down(leg);
        if let Some(now_ns) = last_ns {
            self.guard.interrupt(now_ns);
        }
    }

    #[inline]
    pub(super) fn mark_dirty(&mut self) -> bool {
        !std::mem::replace(&mut self.dirty, true)
    }

    #[inline]
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.guard.deadline_ns()
    }

    /// Notes the cut to be looked at; false if one no later is noted already.
    pub(super) fn reschedule(&mut self, cut: u64) -> bool {
        if self.scheduled.is_some_and(|noted| noted <= cut) {
            return false;
        }
        self.scheduled = Some(cut);
        true
    }

    pub(super) fn state(&self) -> FeedState {
        match self.guard.state() {
            FeedState::Live if self.kept.is_ahead_of(self.content) => FeedState::Syncing,
            state => state,
        }
    }

    #[cfg(test)]
    pub(super) fn levels(&self, side: Side) -> impl Iterator<Item = market::Level> + '_ {
        self.book.levels(side)
    }

    pub(super) fn live_ticks(&self) -> usize {
        self.book.len()
    }

    #[inline]
    pub(super) fn take(&mut self, event: Event, counts: &mut LaneCounts) {
        let times = Times { received_ns: event.received_ns, venue_ns: event.venue_ns };
        match event.body {
            Body::Delta(delta) => self.delta(event.leg, Timed { times, body: delta }, counts),
            Body::Snapshot(snapshot) => self.snapshot(Timed { times, body: snapshot }, counts),
            Body::Trade { scale, trade } => self.trade(times, scale, trade, counts),
            Body::Broken(_) => self.guard.broken(times.received_ns),
            Body::Restored(restored) => self.restore(times.received_ns, &restored),
            Body::Listing(_)
            | Body::LegHeard
            | Body::LegUp
            | Body::LegDown
            | Body::Halted
            | Body::Resumed
            | Body::End => {}
        }
    }

    /// Goes on from a book that was kept; nothing if the stream has begun already.
    fn restore(&mut self, now_ns: u64, restored: &Restored) {
        if self.guard.version().is_some() {
            return;
        }
        self.guard.restore(now_ns, restored.version, restored.from_log);
        self.kept = Kept::of(restored);
        let Some(ticks) = &restored.ticks else { return };
        let ticks: Vec<TickChange> = ticks.iter().map(|tick| tick.tick).collect();
        self.book.replace(&ticks, restored.scale, Window::Whole, &mut Vec::new());
        self.content = Some(restored.version);
        self.replaced = true;
        self.last = Times { received_ns: restored.heard_ns, venue_ns: 0 };
    }

    #[inline]
    fn delta(&mut self, leg: LegId, delta: Timed<Delta>, counts: &mut LaneCounts) {
        let now_ns = delta.times.received_ns;
        let sequence = delta.body.sequence;
        let offer = self.guard.offer(now_ns, leg, sequence);
        if self.kept.rewrites() && matches!(offer, Offer::Duplicate | Offer::Regression) {
            // What was refused may be what a crash between two tables left out of one of them.
            self.rewrite(&delta);
        }
        match offer {
            Offer::Apply(version) => {
                self.apply(version, delta, counts);
                self.drain(counts);
            }
            Offer::Hold => {
                counts.held += 1;
                let bytes = delta.body.changes.len().saturating_mul(size_of::<TickChange>());
                let bytes = u64::try_from(bytes.saturating_add(size_of::<Timed<Delta>>())).unwrap_or(u64::MAX);
                self.guard.hold(now_ns, leg, sequence, delta, bytes);
                self.settle(now_ns, counts);
            }
            Offer::Duplicate => counts.duplicates += 1,
            Offer::Regression => counts.regressions += 1,
            Offer::Covered => counts.covered += 1,
            Offer::Unanchored => counts.unanchored += 1,
            Offer::Unbound => counts.unbound += 1,
        }
    }

    fn rewrite(&mut self, delta: &Timed<Delta>) {
        let Some(shown) = self.guard.version() else { return };
        let version = Version::new(shown.epoch, delta.body.sequence.last());
        if delta.body.scale == self.book.scale() {
            self.admit(version, delta.times, delta.body.changes.clone(), false);
        }
    }

    fn snapshot(&mut self, snapshot: Timed<Snapshot>, counts: &mut LaneCounts) {
        let now_ns = snapshot.times.received_ns;
        let shown = self.guard.version();
        let sequence: Sequence = snapshot.body.sequence;
        if let Ok(Some((version, snapshot))) = self.guard.offer_snapshot(now_ns, sequence, snapshot) {
            self.replace(shown, version, snapshot, counts);
        }
    }

    /// Lets the guard act on time, and applies what it lets go.
    fn settle(&mut self, now_ns: u64, counts: &mut LaneCounts) {
        let shown = self.guard.version();
        if let Some((version, snapshot)) = self.guard.poll(now_ns) {
            self.replace(shown, version, snapshot, counts);
        } else {
            self.drain(counts);
        }
    }

    fn drain(&mut self, counts: &mut LaneCounts) {
        while let Some((version, delta)) = self.guard.next_ready() {
            self.apply(version, delta, counts);
        }
    }

    #[inline]
    fn apply(&mut self, version: Version, delta: Timed<Delta>, counts: &mut LaneCounts) {
        let Timed { times, body: Delta { scale, mut changes, window, .. } } = delta;
        let rescaled = if scale == self.book.scale() { Some(None) } else { self.rescale(scale, &mut changes) };
        let Some(old) = rescaled else {
            counts.unrepresentable += 1;
            self.guard.broken(times.received_ns);
            return;
        };
        if self.kept.is_empty() {
            for change in &changes {
                self.book.apply(*change);
            }
        } else {
            for change in self.kept.newer_than_kept(version, &changes) {
                self.book.apply(change);
            }
        }
        if let Window::Best(depth) = window {
            self.book.truncate(usize::try_from(depth).unwrap_or(usize::MAX), &mut changes);
        }
        self.ahead.touch(&changes);
        counts.applied += 1;
        counts.venue_ahead += u64::from(times.venue_ns > times.received_ns);
        self.content = Some(version);
        self.last = times;
        match old {
            None => self.admit(version, times, changes, false),
            // One entry tells both the moved ticks and the changes: two would be two books at one version.
            Some(old) => self.admit(version, times, self.moved(&old), true),
        }
    }

    /// Brings book and changes to one scale; none if a number does not fit it. If the book's steps changed, gives what
    /// it was: the store keys ticks by their index, which has moved.
    fn rescale(&mut self, scale: Scale, changes: &mut [TickChange]) -> Option<Option<Book>> {
        let finest = self.book.scale().finest(scale);
        convert(scale, finest, changes)?;
        if finest == self.book.scale() {
            return Some(None);
        }
        let old = self.book.clone();
        self.book.rescale(finest).ok()?;
        self.replaced = true;
        self.ahead.replaced();
        Some(Some(old))
    }

    /// The whole book, and the keys that its ticks had in other steps, which are dead.
    fn moved(&self, old: &Book) -> Vec<TickChange> {
        let mut changes: Vec<TickChange> = self.book.ticks().collect();
        let moved = old.ticks().filter(|tick| self.book.reserves(tick.side, tick.key).is_zero());
        changes.extend(moved.map(|tick| TickChange { reserves: U256::ZERO, ..tick }));
        changes
    }

    fn replace(
        &mut self,
        shown: Option<Version>,
        version: Version,
        snapshot: Timed<Snapshot>,
        counts: &mut LaneCounts,
    ) {
        // Only a rebuilt book that ends where the shown one stands can differ from it at the same version.
        let suspect = shown.filter(|shown| shown.epoch == version.epoch && version <= *shown);
        let old = suspect.map(|shown| (shown, self.book.clone()));
        let Timed { times, body: Snapshot { scale, mut ticks, window, .. } } = snapshot;
        let finest = if self.book.is_empty() { scale } else { self.book.scale().finest(scale) };
        if finest != scale && convert(scale, finest, &mut ticks).is_none() {
            counts.unrepresentable += 1;
            self.guard.broken(times.received_ns);
            return;
        }
        let admitted = self.admitted.len();
        let mut deaths = Vec::new();
        self.book.replace(&ticks, finest, window, &mut deaths);
        if let Window::Best(depth) = window {
            self.book.truncate(usize::try_from(depth).unwrap_or(usize::MAX), &mut deaths);
        }
        let mut changes: Vec<TickChange> = self.book.ticks().collect();
        changes.append(&mut deaths);
        self.replaced = true;
        self.kept = Kept::default();
        self.ahead.replaced();
        self.content = Some(version);
        self.last = times;
        self.admit(version, times, changes, true);
        self.drain(counts);
        match (old, self.guard.version()) {
            (Some((shown, old)), Some(reached)) if reached == shown => self.compare(shown, &old, admitted),
            (Some((shown, old)), _) if self.content < Some(shown) => {
                // On the way a number did not fit: the rebuilt book never got as far as what is shown.
                self.book = old;
                self.content = Some(shown);
                self.admitted.truncate(admitted);
                self.guard.keep(times.received_ns, shown);
            }
            _ => {}
        }
    }

    /// Same version: the same content changes nothing, other content is a new epoch. What was admitted on the way from
    /// the given place on would then tell of a second book at one version.
    fn compare(&mut self, shown: Version, old: &Book, admitted: usize) {
        let same = Side::BOTH.into_iter().all(|side| old.levels(side).eq(self.book.levels(side)));
        if same && old.scale() == self.book.scale() {
            let horizon = Side::BOTH.into_iter().all(|side| old.horizon(side) == self.book.horizon(side));
            self.replaced = self.published.version != Some(shown) || !horizon;
            return;
        }
        if let Some(version) = self.guard.diverged() {
            self.content = Some(version);
            self.admitted.truncate(admitted);
            self.admit(version, self.last, self.moved(old), true);
        }
    }

    fn admit(&mut self, version: Version, times: Times, changes: Vec<TickChange>, whole: bool) {
        if self.keep_admitted {
            self.admitted.push(AdmittedChanges {
                symbol: self.symbol,
                version,
                received_ns: times.received_ns,
                venue_ns: times.venue_ns,
                scale: self.book.scale(),
                changes,
                whole,
            });
        }
    }

    fn trade(&mut self, times: Times, scale: Scale, trade: Trade, counts: &mut LaneCounts) {
        let verdict = self.trades.offer(trade.order, &trade.id);
        match verdict {
            TradeVerdict::Shown => counts.trades += 1,
            TradeVerdict::Duplicate => counts.trade_duplicates += 1,
            TradeVerdict::Late => counts.trades_late += 1,
        }
        if self.keep_admitted && verdict != TradeVerdict::Duplicate {
            let (symbol, received_ns) = (self.symbol, times.received_ns);
            self.admitted_trades.push(AdmittedTrade { symbol, received_ns, scale, trade: trade.clone() });
        }
        if verdict == TradeVerdict::Shown {
            if self.state() == FeedState::Live {
                // A trade is no news of a book that does not follow.
                self.last.received_ns = self.last.received_ns.max(times.received_ns);
            }
            self.new_trades.push((scale, trade));
        }
    }

    /// Does what is due at a cut's end; whether a snapshot must be fetched.
    pub(super) fn poll(&mut self, cut: u64, now_ns: u64, counts: &mut LaneCounts) -> bool {
        self.dirty = false;
        self.scheduled = self.scheduled.filter(|noted| *noted > cut);
        self.settle(now_ns, counts);
        self.guard.wants_snapshot(now_ns)
    }

    /// What changed since it was published last; none if nothing did.
    pub(super) fn publish(&mut self, stale: bool, now_ns: u64, counts: &mut LaneCounts) -> Option<InstrumentCut> {
        let mut changes = Vec::new();
        self.book.close_cut(&mut changes);
        let quote = self.book.quote();
        let flags = self.book.flags_at(quote);
        if flags.exhausted {
            self.guard.refresh(now_ns);
        }
        let state = match self.state() {
            // Without a connection that is the first thing to know; what is missing will be seen when it is back.
            FeedState::Live | FeedState::Gapped if stale => FeedState::Stale,
            state => state,
        };
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
    pub(super) fn tell_ahead(&mut self, mark: u32, out: &mut Vec<PriorityUpdate>) {
        if !self.ahead.heed(mark) {
            return;
        }
        let Some(version) = self.content else { return };
        let Some(book) = self.ahead.tell(&self.book, version) else { return };
        let stale = self.published.feed.is_some_and(|feed| feed.state == FeedState::Stale);
        let state = if stale { FeedState::Stale } else { self.state() };
        let feed = Feed { state, flags: self.book.flags() };
        let (symbol, received_ns, scale) = (self.symbol, self.last.received_ns, self.book.scale());
        out.push(PriorityUpdate { symbol, version, received_ns, scale, feed, book });
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
        let best = Best { bid: quote.bid.map(side), ask: quote.ask.map(side) };
        let known = feed.state == FeedState::Live && !feed.flags.exhausted;
        (known && best != Best::default()).then_some(best)
    }

    /// The pair's candidate of this instrument, if the last publication changed it.
    pub(super) fn quote_change(&self) -> Option<QuoteChange> {
        let (before, now) = (self.quote_before, self.published.best);
        (before != now).then_some(QuoteChange { pair: self.listing.pair, before, now })
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

fn convert(from: Scale, to: Scale, ticks: &mut [TickChange]) -> Option<()> {
    for tick in ticks {
        let tick_index = from.price_in(to, tick.key.tick_index)?;
        let reserves = from.quantity_in(to, tick.reserves)?;
        *tick = TickChange { side: tick.side, key: TickKey { tick_index, ..tick.key }, reserves };
    }
    Some(())
}
