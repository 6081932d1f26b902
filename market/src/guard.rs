//! The guard of one stream: decides what may be applied, so that a version can only rise and nothing is applied
//! over a hole.
//!
//! It holds later updates back over a hole for a bounded time, builds the book aside from a snapshot plus bridging
//! updates, and opens a new epoch when the sequence itself restarts. It knows neither books nor messages: payloads
//! `S` (of snapshots) and `D` (of updates) pass through it.
//!
//! Never: a clock; `now_ns` is passed in and only measures how long something waits, never an order.

mod legs;
mod snapshots;
mod terms;

pub use terms::{BreakReason, Counts, Limits, Offer, Refusal};

use crate::{FeedState, LegId, Sequence, Version};
use legs::Leg;
use std::collections::VecDeque;

/// Applied ids remembered to tell a repeat from a regression; older repeats count as regressions, neither is applied.
pub const RECENT_MAX: usize = 256;

#[derive(Clone, Debug)]
struct Held<D> {
    leg: LegId,
    since_ns: u64,
    first: u64,
    last: u64,
    bytes: u64,
    payload: D,
}

#[derive(Clone, Debug)]
struct Aside<S> {
    id: u64,
    since_ns: u64,
    payload: S,
}

#[derive(Clone, Debug)]
enum Phase<S> {
    /// No book to build on: updates are held until a snapshot comes.
    Waiting,
    /// A snapshot is here, its first bridging update is not.
    Aside(Aside<S>),
    /// The book follows.
    Live,
}

/// The guard of one stream.
#[derive(Clone, Debug)]
pub struct Guard<S, D> {
    limits: Limits,
    epoch: u64,
    /// A new epoch is this one at the least: the first of the block that is reserved for this start.
    block: u64,
    /// Version of the shown book.
    shown: Option<Version>,
    phase: Phase<S>,
    /// The next snapshot opens a new epoch.
    bump: bool,
    /// No update was applied since the snapshot.
    fresh: bool,
    /// What is shown was kept over a start, and nothing of this start has joined it.
    restored: bool,
    /// The stream goes on from a log, whose own guard orders it: ids do not restart, and there is no snapshot to ask for.
    logged: bool,
    /// Every leg was down: what is shown may lack what came meanwhile, until an update joins it or a snapshot comes.
    interrupted: bool,
    /// No leg is left.
    down: bool,
    /// When the book was replaced last.
    replaced_ns: Option<u64>,
    /// When a pending new epoch became pending.
    bump_since_ns: u64,
    /// The start, or the first reopening of a leg since an id above the shown version came.
    opened_ns: Option<u64>,
    held: VecDeque<Held<D>>,
    held_bytes: u64,
    hole_since_ns: Option<u64>,
    /// An update was applied since the held ones were looked at last.
    moved: bool,
    recent: VecDeque<u64>,
    /// Since when nothing but ids below the shown version came.
    below_since_ns: Option<u64>,
    legs: Vec<Leg>,
    /// The update offered last left out ids of its own leg.
    skipped: bool,
    attempts: u32,
    refetch_at_ns: Option<u64>,
    counts: Counts,
}

impl<S, D> Guard<S, D> {
    /// A guard whose first book opens in `epoch`, and whose new epochs are taken from `block` on.
    #[must_use]
    pub fn new(limits: Limits, epoch: u64, block: u64) -> Self {
        Self {
            limits,
            epoch,
            block,
            shown: None,
            phase: Phase::Waiting,
            bump: false,
            fresh: false,
            restored: false,
            logged: false,
            interrupted: false,
            down: false,
            replaced_ns: None,
            bump_since_ns: 0,
            opened_ns: None,
            held: VecDeque::new(),
            held_bytes: 0,
            hole_since_ns: None,
            moved: false,
            recent: VecDeque::new(),
            below_since_ns: None,
            legs: Vec::new(),
            skipped: false,
            attempts: 0,
            refetch_at_ns: None,
            counts: Counts::default(),
        }
    }

    /// Goes on from a book that was kept at a version: nothing at or below it will be shown again in its epoch. With
    /// `from_log` what follows joins it, and no snapshot is ever asked for; otherwise one must come first.
    pub fn restore(&mut self, now_ns: u64, version: Version, from_log: bool) {
        self.epoch = version.epoch;
        self.shown = Some(version);
        self.restored = true;
        self.logged = from_log;
        self.opened_ns = Some(now_ns);
        if from_log {
            self.phase = Phase::Live;
        } else {
            self.refetch_at_ns = Some(now_ns.saturating_add(self.limits.refetch_ns_min));
        }
    }

    /// A leg's connection was opened, perhaps again: its ids may have started anew.
    pub fn leg_up(&mut self, now_ns: u64, leg: LegId) {
        self.legs.retain(|known| known.id != leg);
        self.legs.push(Leg::opened(leg));
        if self.shown.is_some() {
            self.opened_ns.get_or_insert(now_ns);
        }
        if std::mem::take(&mut self.down) {
            self.interrupted = self.shown.is_some();
        }
        if self.interrupted || self.refetch_at_ns.is_some() {
            self.attempts = 0;
            self.refetch_at_ns = Some(now_ns.saturating_add(self.limits.refetch_ns_min));
        }
    }

    /// No leg is left: what is shown is no longer known to be all there is, until a leg is back and something joins.
    pub fn interrupt(&mut self, now_ns: u64) {
        self.down = true;
        self.interrupted = self.shown.is_some();
        self.refetch_at_ns.get_or_insert(now_ns.saturating_add(self.limits.refetch_ns_min));
    }

    /// Version of the shown book.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.shown
    }

    /// What the guard knows of the feed; staleness is not its business.
    #[must_use]
    pub fn state(&self) -> FeedState {
        match (&self.phase, self.shown) {
            (_, None) => FeedState::Syncing,
            (Phase::Live, Some(_)) if !self.interrupted => FeedState::Live,
            _ if self.restored => FeedState::Syncing,
            _ => FeedState::Gapped,
        }
    }

    /// How often each thing happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the update that was offered last left out ids of its own leg, whatever the other legs brought.
    #[must_use]
    pub fn skipped(&self) -> bool {
        self.skipped
    }

    /// Bytes held back.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// When [`Guard::poll`] has something to do, if nothing else arrives.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let hole = self.hole_since_ns.map(|since| since.saturating_add(self.limits.hole_ns));
        let refetch_at_ns = self.refetch_at_ns.filter(|_| !self.logged);
        match &self.phase {
            Phase::Live => hole.into_iter().chain(refetch_at_ns).min(),
            Phase::Aside(aside) => Some(aside.since_ns.saturating_add(self.limits.bridge_ns)),
            Phase::Waiting => refetch_at_ns,
        }
    }

    /// Decides about an update.
    #[inline]
    pub fn offer(&mut self, now_ns: u64, leg: LegId, sequence: Sequence) -> Offer {
        match sequence {
            Sequence::Arrival(seq) => {
                self.skipped = false;
                self.offer_arrival(seq)
            }
            Sequence::Venue { first, last } => {
                let (at, backwards) = self.heard(leg, first, last);
                if !self.binds(at, first, last) {
                    return Offer::Unbound;
                }
                self.offer_venue(now_ns, first, last, (backwards && !self.logged).then_some(leg))
            }
        }
    }

    /// A leg that carried nothing of the stream yet does now: what it tells counts although all others are gone.
    pub fn joined(&mut self) {
        self.down = false;
    }

    fn offer_arrival(&mut self, seq: u64) -> Offer {
        match (&self.phase, self.shown) {
            _ if self.restored || self.interrupted => Offer::Unanchored,
            (Phase::Live, Some(shown)) if seq > shown.seq => self.apply(Version::new(self.epoch, seq)),
            (_, Some(shown)) if seq <= shown.seq => self.repeat(seq),
            _ => Offer::Unanchored,
        }
    }

    /// An assurance (`first` one above `last`) goes the way of an update, but is never applied: it joins nothing, and what
    /// is held of it only keeps the hole open until its `last` is shown.
    #[inline]
    fn offer_venue(&mut self, now_ns: u64, first: u64, last: u64, backwards: Option<LegId>) -> Offer {
        if first > last.saturating_add(1) {
            return Offer::Regression;
        }
        if let Phase::Aside(aside) = &self.phase {
            if first > last && last == aside.id {
                // The stream itself says that it stands where the snapshot does: no bridge is waited for.
                return Offer::Hold;
            }
            return if last <= aside.id { Offer::Covered } else { self.held_once(first, last) };
        }
        let shown = match self.shown {
            Some(shown) if !self.bump => shown.seq,
            _ => return self.offer_unshown(first, last, backwards),
        };
        if last <= shown {
            return if first > last {
                self.offer_assurance(now_ns, last, last == shown, backwards)
            } else {
                self.offer_old(now_ns, last, backwards)
            };
        }
        self.below_since_ns = None;
        self.opened_ns = None;
        match self.phase {
            Phase::Live if first <= shown.saturating_add(1) => self.apply(Version::new(self.epoch, last)),
            Phase::Live => {
                self.hole_since_ns.get_or_insert(now_ns);
                self.held_once(first, last)
            }
            _ => self.offer_unshown(first, last, backwards),
        }
    }

    /// What is held already is not held twice.
    fn held_once(&self, first: u64, last: u64) -> Offer {
        if self.holds(first, last) { Offer::Duplicate } else { Offer::Hold }
    }

    /// The word of a leg that there is no update after one that is shown. At the shown version it proves the book as an
    /// update that joins would; below, it tells how far the leg is, and no more.
    fn offer_assurance(&mut self, now_ns: u64, last: u64, current: bool, backwards: Option<LegId>) -> Offer {
        if current && backwards.is_none() {
            self.below_since_ns = None;
            self.opened_ns = None;
            if self.interrupted && !self.down && matches!(self.phase, Phase::Live) {
                self.interrupted = false;
                self.refetch_at_ns = None;
            }
            return Offer::Duplicate;
        }
        match self.offer_old(now_ns, last, backwards) {
            // It carries nothing that could have been shown.
            Offer::Regression => Offer::Duplicate,
            offer => offer,
        }
    }

    /// Nothing shown that it could be older than: it waits for a snapshot.
    fn offer_unshown(&mut self, first: u64, last: u64, backwards: Option<LegId>) -> Offer {
        if self.bump && self.shown.is_some_and(|shown| last > shown.seq) {
            // The ids go on where they were: that was no restart.
            self.bump = false;
            self.drop_held();
        } else if let Some(restarted) = backwards {
            // The ids of this connection restarted while the stream was waiting: what it held belongs to no book.
            self.give_up(|held| held.leg == restarted);
        }
        self.held_once(first, last)
    }

    /// At or below what is shown.
    fn offer_old(&mut self, now_ns: u64, last: u64, backwards: Option<LegId>) -> Offer {
        let repeat = self.repeat(last);
        if repeat == Offer::Duplicate || self.logged {
            return repeat;
        }
        // Ids that go back on one connection have restarted. So have ids that a new connection brings if nothing else
        // comes for long; a leg that merely lags is overtaken by the other before, and what a snapshot covers soon ends.
        let since_ns = *self.below_since_ns.get_or_insert(now_ns);
        if self.interrupted && matches!(self.phase, Phase::Live) && !self.down {
            // After a time without legs, ids below what is shown may be a new count that would pass it: a join proves
            // nothing then.
            self.lose(now_ns);
        }
        if now_ns >= since_ns.saturating_add(self.limits.below_ns) {
            // Nothing proves any longer that what is shown follows the venue.
            self.interrupted = true;
            self.refetch_at_ns.get_or_insert(now_ns);
        }
        if backwards.is_none() && now_ns < since_ns.saturating_add(self.limits.restart_ns) {
            return if self.fresh { Offer::Covered } else { Offer::Regression };
        }
        self.restart(now_ns);
        if let Some(restarted) = backwards {
            // The other legs may go on with the former ids for a while, which then belong to no book.
            self.legs.iter_mut().for_each(|leg| leg.bound = leg.id == restarted);
        }
        Offer::Hold
    }

    /// The venue's ids have restarted: the next snapshot opens a new epoch.
    fn restart(&mut self, now_ns: u64) {
        self.counts.resets += 1;
        self.lose(now_ns);
        self.bump = true;
        self.bump_since_ns = now_ns;
        self.drop_held();
    }

    fn repeat(&self, last: u64) -> Offer {
        if self.recent.binary_search(&last).is_ok() { Offer::Duplicate } else { Offer::Regression }
    }

    #[inline]
    fn apply(&mut self, version: Version) -> Offer {
        self.shown = Some(version);
        self.fresh = false;
        self.restored = false;
        if self.interrupted && !self.down {
            // The join proves the book; nothing needs to be fetched for it.
            self.interrupted = false;
            self.refetch_at_ns = None;
        }
        self.below_since_ns = None;
        self.moved = true;
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(version.seq);
        Offer::Apply(version)
    }

    /// Keeps an update that [`Guard::offer`] said to hold. Over the byte bound everything held is thrown away and
    /// the stream waits for a snapshot: a truncated prefix is never applied.
    pub fn hold(&mut self, now_ns: u64, leg: LegId, sequence: Sequence, payload: D, bytes: u64) {
        let Sequence::Venue { first, last } = sequence else { return };
        if self.held_bytes.saturating_add(bytes) > self.limits.held_bytes_max {
            self.counts.overflows += 1;
            if matches!(self.phase, Phase::Live) {
                self.lose(now_ns);
            }
            self.phase = Phase::Waiting;
            self.drop_held();
            self.refetch_at_ns.get_or_insert(now_ns);
            return;
        }
        if self.holds(first, last) {
            return;
        }
        let at = self.held.partition_point(|held| held.first < first);
        self.held.insert(at, Held { leg, since_ns: now_ns, first, last, bytes, payload });
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        if self.shown.is_none() && matches!(self.phase, Phase::Waiting) {
            self.refetch_at_ns.get_or_insert(now_ns.saturating_add(self.limits.refetch_ns_min));
        }
    }

    /// Whether the very same is held already, of whatever leg. Another that only ends alike is not: it may fill a hole that
    /// this one leaves.
    fn holds(&self, first: u64, last: u64) -> bool {
        let at = self.held.partition_point(|held| held.first < first);
        self.held.range(at..).take_while(|held| held.first == first).any(|held| held.last == last)
    }

    /// The next held update that now joins, if any. To be called until `None` after each applied update and each
    /// replacement.
    pub fn next_ready(&mut self) -> Option<(Version, D)> {
        let shown = self.shown.filter(|_| matches!(self.phase, Phase::Live))?;
        loop {
            let Some(front) = self.held.front() else {
                self.hole_since_ns = None;
                return None;
            };
            if front.first > shown.seq.saturating_add(1) {
                if std::mem::take(&mut self.moved) {
                    // One hole was filled; this is another, which is as old as the first update behind it.
                    let since = self.held.iter().map(|held| held.since_ns).min();
                    self.hole_since_ns = since.max(self.replaced_ns);
                }
                return None;
            }
            let held = self.held.pop_front()?;
            self.held_bytes = self.held_bytes.saturating_sub(held.bytes);
            if held.last > shown.seq {
                let version = Version::new(self.epoch, held.last);
                self.apply(version);
                self.bind(held.leg);
                return Some((version, held.payload));
            }
        }
    }

    /// Time passes: gives up on a hole, or shows a snapshot that nothing contradicted. To be called after
    /// [`Guard::hold`] and at [`Guard::deadline_ns`].
    pub fn poll(&mut self, now_ns: u64) -> Option<(Version, S)> {
        let hole = self.hole_since_ns.filter(|_| matches!(self.phase, Phase::Live));
        if hole.is_some_and(|since| now_ns >= since.saturating_add(self.limits.hole_ns)) {
            self.lose(now_ns);
            return None;
        }
        let Phase::Aside(aside) = &self.phase else { return None };
        let unbridged = self.held.front().is_some_and(|front| front.first > aside.id.saturating_add(1));
        if unbridged {
            self.phase = Phase::Waiting;
            self.counts.refused += 1;
            self.plan_refetch(now_ns);
            return None;
        }
        let waited = now_ns >= aside.since_ns.saturating_add(self.limits.bridge_ns);
        if self.held.is_empty() && !waited {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Aside(aside) => Some(self.replace(now_ns, aside.id, aside.payload)),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// The connector knows that the book is wrong: it keeps its mark until a snapshot replaces it.
    pub fn broken(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Live => self.lose(now_ns),
            Phase::Aside(_) => {
                self.phase = Phase::Waiting;
                self.plan_refetch(now_ns);
            }
            Phase::Waiting => {}
        }
        self.drop_held();
    }

    /// The shown book is right but lacks something that only a snapshot can tell: one is asked for, and the book goes on.
    pub fn refresh(&mut self, now_ns: u64) {
        if matches!(self.phase, Phase::Live) {
            self.refetch_at_ns.get_or_insert(now_ns);
        }
    }

    /// A rebuilt book has the shown version but other content: the same place in a new epoch.
    pub fn diverged(&mut self) -> Option<Version> {
        self.open_epoch();
        self.shown = self.shown.map(|shown| Version::new(self.epoch, shown.seq));
        self.shown
    }

    /// Opens the next epoch, which no leg has joined yet.
    fn open_epoch(&mut self) {
        self.epoch = self.epoch.saturating_add(1).max(self.block);
        self.legs.iter_mut().for_each(|leg| leg.bound = false);
    }

    /// Whether a snapshot should be asked for now; at most one is in flight, and the pauses double up to their cap.
    pub fn wants_snapshot(&mut self, now_ns: u64) -> bool {
        let asks = !self.logged && !matches!(self.phase, Phase::Aside(_));
        let due = asks && self.refetch_at_ns.is_some_and(|at| now_ns >= at);
        if due {
            self.counts.requests += 1;
            self.attempts = self.attempts.saturating_add(1);
            self.plan_refetch(now_ns);
        }
        due
    }

    /// The pause doubles with each request; an answer that heals nothing only begins it anew.
    fn plan_refetch(&mut self, now_ns: u64) {
        let doublings = self.attempts.saturating_sub(1).min(32);
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let pause = self.limits.refetch_ns_min.saturating_mul(factor).min(self.limits.refetch_ns_max);
        self.refetch_at_ns = Some(now_ns.saturating_add(pause));
    }

    fn lose(&mut self, now_ns: u64) {
        self.counts.gaps += 1;
        self.phase = Phase::Waiting;
        self.hole_since_ns = None;
        if self.replaced_ns.is_none_or(|replaced| now_ns >= replaced.saturating_add(self.limits.calm_ns)) {
            self.attempts = 0;
        }
        if self.attempts == 0 {
            self.refetch_at_ns = Some(now_ns);
        } else {
            // Lost again soon after it was rebuilt: the pauses go on growing.
            self.plan_refetch(now_ns);
        }
    }

    /// What is shown is taken back to a version that was published: a rebuilt book did not get there.
    pub fn keep(&mut self, now_ns: u64, version: Version) {
        self.shown = Some(version);
        self.epoch = version.epoch;
        self.broken(now_ns);
    }

    fn drop_held(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.hole_since_ns = None;
    }

    fn refuse(&mut self, refusal: Refusal) -> Refusal {
        self.counts.refused += 1;
        refusal
    }
}

#[cfg(test)]
mod tests;
