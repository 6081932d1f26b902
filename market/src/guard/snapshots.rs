//! How the guard takes a snapshot: whether it reaches what is shown, over the updates that are held, and what it opens.
//!
//! Never: a snapshot taken that does not join what is held.

use super::{Aside, FeedState, Guard, Held, Phase, Refusal, Sequence, Version};

impl<S, D> Guard<S, D> {
    /// Offers a snapshot. `Ok(Some(_))` says to replace the book now; `Ok(None)` that it waits for its bridge.
    ///
    /// # Errors
    /// [`Refusal`], with a new request already planned where one is needed.
    pub fn offer_snapshot(
        &mut self,
        now_ns: u64,
        sequence: Sequence,
        payload: S,
    ) -> Result<Option<(Version, S)>, Refusal> {
        match sequence {
            Sequence::Arrival(seq) => {
                if !self.restored && self.shown.is_some_and(|shown| seq <= shown.seq) {
                    return Err(self.refuse(Refusal::Duplicate));
                }
                // A synthesized sequence has no meaning beyond its own start, so each start is an epoch.
                self.bump = self.shown.is_some();
                self.drop_held();
                Ok(Some(self.replace(now_ns, seq, payload)))
            }
            Sequence::Venue { last, .. } => self.offer_anchored(now_ns, last, payload),
        }
    }

    fn offer_anchored(&mut self, now_ns: u64, id: u64, payload: S) -> Result<Option<(Version, S)>, Refusal> {
        let before = self.shown.filter(|_| !self.bump).map(|shown| shown.seq);
        if matches!(self.phase, Phase::Live) && before.is_some_and(|shown| id < shown) {
            // If one was asked for, the pause that was planned with the request goes on.
            if self.interrupted {
                self.below(now_ns);
            }
            return Err(self.refuse(Refusal::Older));
        }
        let reaches = self.shown.is_some_and(|shown| id >= shown.seq);
        if self.bump && reaches {
            let long = now_ns >= self.bump_since_ns.saturating_add(self.limits.restart_ns);
            if self.held.iter().any(|held| held.first <= held.last) && !long {
                // From before the restart of the ids, which the updates that are held have seen. Assurances saw none.
                return Err(self.refuse(Refusal::Older));
            }
            // The venue goes on where it was: what looked like a restart was a stray.
            self.bump = false;
            self.drop_held();
        }
        let shown = self.shown.filter(|_| !self.bump).map(|shown| shown.seq);
        while self.held.front().is_some_and(|front| front.last <= id) {
            let gone = self.held.pop_front().map_or(0, |held| held.bytes);
            self.held_bytes = self.held_bytes.saturating_sub(gone);
        }
        let unbridged = |guard: &Self| guard.held.front().is_some_and(|front| front.first > id.saturating_add(1));
        if unbridged(self) && !matches!(self.phase, Phase::Live) {
            // What no snapshot reaches for so long is no update of the present count.
            let since = now_ns.saturating_sub(self.limits.restart_ns);
            self.give_up(|held| held.since_ns < since);
        }
        if unbridged(self) {
            if matches!(self.phase, Phase::Live) {
                // A snapshot inside the hole brings the book forward; what is held goes on waiting.
                return Ok(Some(self.replace(now_ns, id, payload)));
            }
            self.phase = Phase::Waiting;
            self.plan_refetch(now_ns);
            return Err(self.refuse(Refusal::Unbridged));
        }
        if shown.is_some_and(|shown| self.reach(id) < shown) {
            self.plan_refetch(now_ns);
            self.below(now_ns);
            return Err(self.refuse(Refusal::Older));
        }
        if self.held.is_empty() && !matches!(self.phase, Phase::Live) {
            self.phase = Phase::Aside(Aside { id, since_ns: now_ns, payload });
            return Ok(None);
        }
        Ok(Some(self.replace(now_ns, id, payload)))
    }

    /// A snapshot is below what is shown. If nothing else came for long after a start or a reopening, a quiet venue has
    /// restarted; otherwise its snapshots merely lag.
    fn below(&mut self, now_ns: u64) {
        let since = self.opened_ns.into_iter().chain(self.below_since_ns).min();
        let long = since.is_some_and(|since| now_ns >= since.saturating_add(self.limits.restart_ns));
        if long && !self.bump && !self.logged {
            self.restart(now_ns);
        }
    }

    /// How far a snapshot gets over the held updates that join it.
    fn reach(&self, id: u64) -> u64 {
        let join =
            |reached: u64, held: &Held<D>| (held.first <= reached.saturating_add(1)).then_some(reached.max(held.last));
        self.held
            .iter()
            .try_fold(id, |reached, held| join(reached, held).ok_or(reached))
            .unwrap_or_else(|reached| reached)
    }

    pub(super) fn replace(&mut self, now_ns: u64, seq: u64, payload: S) -> (Version, S) {
        if self.bump {
            self.open_epoch();
            self.bump = false;
        }
        if self.state() == FeedState::Gapped {
            self.counts.resyncs += 1;
        }
        let version = Version::new(self.epoch, seq);
        self.shown = Some(version);
        self.phase = Phase::Live;
        self.fresh = true;
        self.moved = false;
        self.restored = false;
        self.interrupted = self.down;
        self.recent.clear();
        self.below_since_ns = None;
        self.opened_ns = None;
        self.replaced_ns = Some(now_ns);
        self.refetch_at_ns = None;
        // What does not join it is behind a hole, whose time runs from now.
        self.hole_since_ns = (!self.held.is_empty()).then_some(now_ns);
        (version, payload)
    }
}
