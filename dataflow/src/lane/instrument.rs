//! One instrument in its lane: guard, book, trades, and what was published of them.
//!
//! Never: an update applied that the guard did not admit.

mod copy;
mod publish;
mod rebuild;

use super::{
    LaneConfig,
    ahead::Ahead,
    kept::Kept,
    leads::{Lead, Leads},
    legs::LegMarks,
    pulse::Pulse,
    tally::Tally,
    views::Parts,
};
use market::{
    AdmittedChanges, AdmittedTrade, Best, Body, Book, Delta, Event, Feed, FeedState, Guard, LegId, Listing, Quote,
    Restored, Scale, Sequence, Snapshot, SymbolId, TickChange, Trade, TradeGuard, Version, Window,
    guard::{Counts, Offer},
    trade::TradeVerdict,
};

/// When an event came, by our clock and the venue's, and on which leg.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    received_ns: u64,
    venue_ns: u64,
    leg: LegId,
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
    leads: Leads,
    pulse: Pulse,
    /// What its legs said of it when it was published last.
    marks: LegMarks,
    /// Books replaced after a gap, as far as they were put down to a leg.
    resyncs: u64,
    keep_admitted: bool,
    /// Already in the lane's dirty list.
    dirty: bool,
    scheduled: Option<u64>,
    /// Version that the book's content stands at. The guard's may be ahead of it where a number did not fit.
    content: Option<Version>,
    /// The book must be published whole.
    replaced: bool,
    /// The version of a book that was kept over the start.
    restored: Option<Version>,
    /// How often a snapshot has replaced the book.
    rebuilds: u64,
    /// An audit has found witnesses against the book of a log stream.
    doubted: bool,
    kept: Kept,
    ahead: Ahead,
    last: Times,
    published: Published,
    quote_before: Option<Best>,
    parts: Parts,
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
            leads: Leads::default(),
            // A batch says of every instrument that it does not name that nothing changed.
            pulse: Pulse::new(
                if listing.venue.sends_batches() { 0 } else { config.silent_intervals },
                config.silent_ns,
            ),
            marks: LegMarks::default(),
            resyncs: 0,
            keep_admitted: config.admitted,
            dirty: true,
            scheduled: None,
            content: None,
            replaced: false,
            restored: None,
            rebuilds: 0,
            doubted: false,
            kept: Kept::default(),
            ahead: Ahead::default(),
            last: Times { received_ns: listed_ns, ..Times::default() },
            published: Published::default(),
            quote_before: None,
            parts: Parts::new(listing.views, listing.pair),
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

    /// When the instrument could be silent at the earliest, if that is not noted yet.
    #[inline]
    pub(super) fn silence_ns(&mut self) -> Option<u64> {
        self.pulse.note()
    }

    /// Whether the instrument is silent by now; gives when to look again if not.
    pub(super) fn expire(&mut self, now_ns: u64) -> Option<u64> {
        self.pulse.expire(now_ns)
    }

    /// Its silence until now had a reason.
    pub(super) fn excuse(&mut self, now_ns: u64) {
        self.pulse.sign(now_ns);
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
            FeedState::Live if self.is_behind_kept() => FeedState::Syncing,
            state => state,
        }
    }

    #[cfg(test)]
    pub(super) fn levels(&self, side: market::Side) -> impl Iterator<Item = market::Level> + '_ {
        self.book.levels(side)
    }

    pub(super) fn live_ticks(&self) -> usize {
        self.book.len()
    }

    #[inline]
    pub(super) fn take(&mut self, event: Event, tally: &mut Tally) {
        let times = Times { received_ns: event.received_ns, venue_ns: event.venue_ns, leg: event.leg };
        match event.body {
            Body::Delta(delta) => self.delta(Timed { times, body: delta }, tally),
            Body::Snapshot(snapshot) => self.snapshot(Timed { times, body: snapshot }, tally),
            // Below every row of an epoch that was shown: what is late must not outlive what came after it.
            Body::Late(delta) => self.rewrite(&Timed { times, body: delta }, 0, tally),
            Body::Trade { scale, trade } => self.trade(times, scale, trade, tally),
            Body::Broken(_) => self.broken(times, tally),
            Body::Doubted => self.doubt(times.received_ns),
            Body::Restored(restored) => self.restore(times.received_ns, &restored),
            Body::Listing(_)
            | Body::Copy(_)
            | Body::LegHeard
            | Body::LegUp
            | Body::LegDown
            | Body::Halted
            | Body::Resumed
            | Body::Hole
            | Body::Filled
            | Body::Through(_)
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
        self.restored = Some(restored.version);
        self.replaced = true;
        self.last = Times { received_ns: restored.heard_ns, ..Times::default() };
    }

    fn broken(&mut self, times: Times, tally: &mut Tally) {
        let before = self.guard.counts().gaps;
        self.guard.broken(times.received_ns);
        tally.leg(times.leg).gaps += self.guard.counts().gaps.saturating_sub(before);
    }

    #[inline]
    fn delta(&mut self, delta: Timed<Delta>, tally: &mut Tally) {
        let Times { received_ns: now_ns, leg, .. } = delta.times;
        let sequence = delta.body.sequence;
        let offer = self.guard.offer(now_ns, leg, sequence);
        if self.guard.skipped() {
            tally.leg(leg).gaps += 1;
        }
        if sequence.is_assurance() {
            tally.lane.assurances += 1;
        } else if self.kept.rewrites() && matches!(offer, Offer::Duplicate | Offer::Regression) {
            // What was refused may be what a crash between two tables left out of one of them.
            let epoch = self.guard.version().map_or(0, |shown| shown.epoch);
            self.rewrite(&delta, epoch, tally);
        }
        match offer {
            Offer::Apply(version) => {
                self.apply(version, delta, tally);
                self.drain(tally);
            }
            Offer::Hold => {
                self.pulse.sign(now_ns);
                tally.lane.held += 1;
                let bytes = delta.body.changes.len().saturating_mul(size_of::<TickChange>());
                let bytes = u64::try_from(bytes.saturating_add(size_of::<Timed<Delta>>())).unwrap_or(u64::MAX);
                self.guard.hold(now_ns, leg, sequence, delta, bytes);
                self.settle(now_ns, tally);
            }
            Offer::Duplicate => self.repeated(&delta, tally),
            Offer::Regression => {
                tally.lane.regressions += 1;
                tally.leg(leg).regressions += 1;
            }
            Offer::Covered => {
                self.pulse.sign(now_ns);
                tally.lane.covered += u64::from(!sequence.is_assurance());
            }
            Offer::Unanchored => tally.lane.unanchored += 1,
            Offer::Unbound => tally.lane.unbound += 1,
        }
    }

    /// The same once more, on another leg perhaps; or nothing new, which the venue says.
    fn repeated(&mut self, delta: &Timed<Delta>, tally: &mut Tally) {
        let Times { received_ns, leg, .. } = delta.times;
        self.pulse.sign(received_ns);
        if delta.body.sequence.is_assurance() {
            return;
        }
        tally.lane.duplicates += 1;
        tally.leg(leg).duplicates += 1;
        match self.leads.followed(delta.body.sequence.last(), leg, received_ns) {
            Some((winner, Lead::By(lead_ns))) => tally.led(winner, lead_ns),
            Some((winner, Lead::Late)) => tally.leg(winner).late_wins += 1,
            None => {}
        }
    }

    /// The store gets changes that show nothing. The steps of a log stream never change; others would name other ticks.
    fn rewrite(&mut self, delta: &Timed<Delta>, epoch: u64, tally: &mut Tally) {
        if self.guard.version().is_none() {
            tally.lane.unanchored += 1;
            return;
        }
        if delta.body.scale != self.book.scale() {
            tally.lane.unrepresentable += 1;
            return;
        }
        let version = Version::new(epoch, delta.body.sequence.last());
        self.admit(version, delta.times, (delta.body.changes.clone(), delta.body.places.clone()), false);
    }

    /// The log stream has passed a place, whether or not it brought anything of the instrument.
    pub(super) fn passed(&mut self, place: u64) {
        if let Some(shown) = self.guard.version() {
            self.kept.pass(Version::new(shown.epoch, place));
        }
    }

    /// Whether what was kept of it is ahead of its stream.
    pub(super) fn is_behind_kept(&self) -> bool {
        self.kept.is_ahead_of(self.content)
    }

    fn snapshot(&mut self, snapshot: Timed<Snapshot>, tally: &mut Tally) {
        let Times { received_ns: now_ns, leg, .. } = snapshot.times;
        let shown = self.guard.version();
        let sequence: Sequence = snapshot.body.sequence;
        self.guard.leg_told_all(leg, sequence);
        if let Ok(Some((version, snapshot))) = self.guard.offer_snapshot(now_ns, sequence, snapshot) {
            self.replace(shown, version, snapshot, tally);
        }
    }

    /// Lets the guard act on time, and applies what it lets go.
    fn settle(&mut self, now_ns: u64, tally: &mut Tally) {
        let shown = self.guard.version();
        if let Some((version, snapshot)) = self.guard.poll(now_ns) {
            self.replace(shown, version, snapshot, tally);
        } else {
            self.drain(tally);
        }
    }

    fn drain(&mut self, tally: &mut Tally) {
        while let Some((version, delta)) = self.guard.next_ready() {
            self.apply(version, delta, tally);
        }
    }

    #[inline]
    fn apply(&mut self, version: Version, delta: Timed<Delta>, tally: &mut Tally) {
        let Timed { times, body: Delta { sequence, scale, mut changes, places, window } } = delta;
        let rescaled = if scale == self.book.scale() { Some(None) } else { self.rescale(scale, &mut changes) };
        let Some(old) = rescaled else {
            tally.lane.unrepresentable += 1;
            self.broken(times, tally);
            return;
        };
        self.pulse.beat(times.received_ns);
        tally.leg(times.leg).wins += 1;
        if self.legs.len() > 1 && matches!(sequence, Sequence::Venue { .. }) {
            self.leads.won(version.seq, times.leg, times.received_ns);
        }
        if self.kept.is_empty() {
            for change in &changes {
                self.book.apply(*change);
            }
        } else {
            for change in self.kept.newer_than_kept(version, &changes, &places) {
                self.book.apply(change);
            }
            if !self.kept.is_ahead_of(Some(version)) {
                self.kept.pass(version);
            }
        }
        if let Window::Best(depth) = window {
            self.book.truncate(usize::try_from(depth).unwrap_or(usize::MAX), &mut changes);
        }
        self.ahead.touch(&changes);
        tally.lane.applied += 1;
        tally.lane.venue_ahead += u64::from(times.venue_ns > times.received_ns);
        self.content = Some(version);
        self.last = times;
        match old {
            None => self.admit(version, times, (changes, places), false),
            // One entry tells both the moved ticks and the changes: two would be two books at one version.
            Some(old) => self.admit(version, times, (self.moved(&old), Vec::new()), true),
        }
    }

    /// Hands changes on for the store, with their places if they are of a block.
    fn admit(&mut self, version: Version, times: Times, (changes, places): (Vec<TickChange>, Vec<u64>), whole: bool) {
        if self.keep_admitted {
            self.admitted.push(AdmittedChanges {
                symbol: self.symbol,
                version,
                received_ns: times.received_ns,
                venue_ns: times.venue_ns,
                scale: self.book.scale(),
                changes,
                places,
                leg: times.leg,
                whole,
                shown_ns: 0,
            });
        }
    }

    fn trade(&mut self, times: Times, scale: Scale, trade: Trade, tally: &mut Tally) {
        let verdict = self.trades.offer(trade.order, &trade.id);
        match verdict {
            TradeVerdict::Shown => tally.lane.trades += 1,
            TradeVerdict::Duplicate => tally.lane.trade_duplicates += 1,
            TradeVerdict::Late => tally.lane.trades_late += 1,
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
    pub(super) fn poll(&mut self, cut: u64, now_ns: u64, tally: &mut Tally) -> bool {
        self.dirty = false;
        self.scheduled = self.scheduled.filter(|noted| *noted > cut);
        self.settle(now_ns, tally);
        self.guard.wants_snapshot(now_ns)
    }
}
