//! What the guard knows of single legs: where each is in its own chain of ids, and whether it counts in this epoch.
//!
//! Never: an update of a leg that may still carry the ids of an epoch before.

use super::{Guard, Held};
use crate::{LegId, Sequence};

/// What one connection brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub(super) id: LegId,
    /// Its last id, to notice that it went backwards on one connection.
    last: Option<u64>,
    /// The greatest id that it brought, alone or in a snapshot, to notice what it left out.
    reached: Option<u64>,
    /// The id of the whole book that came last; if the leg's next word stands there, it was subscribed to again.
    told: Option<u64>,
    /// Its ids are known to be the present epoch's: it was bridged to it, or opened since.
    pub(super) bound: bool,
}

impl Leg {
    /// A leg whose connection was just opened.
    pub(super) fn opened(id: LegId) -> Self {
        Self { id, last: None, reached: None, told: None, bound: true }
    }
}

impl<S, D> Guard<S, D> {
    /// A leg carried a whole book, or one by REST is put down to it: what its own chain left out before is in it.
    pub fn leg_told_all(&mut self, leg: LegId, sequence: Sequence) {
        let Sequence::Venue { last, .. } = sequence else { return };
        if let Some(known) = self.legs.iter_mut().find(|known| known.id == leg) {
            known.reached = known.reached.max(Some(last));
            known.told = Some(last);
        }
    }

    /// Notes a leg's ids; gives its place, and whether they went backwards on this leg. An assurance does not go backwards:
    /// it tells where a stream stands, and a stream that began again may stand below where the leg was. If it stands at the
    /// whole book that just came, that book is the stream's own, and the leg's ids go on from there, whether the book was
    /// taken or refused: the leg was subscribed to again on its open connection.
    #[inline]
    pub(super) fn heard(&mut self, leg: LegId, first: u64, last: u64) -> (usize, bool) {
        let at = match self.legs.iter().position(|known| known.id == leg) {
            Some(at) => at,
            None => {
                self.legs.push(Leg::opened(leg));
                self.legs.len().saturating_sub(1)
            }
        };
        let Some(leg) = self.legs.get_mut(at) else { return (at, false) };
        if leg.told.take() == Some(last) && first > last {
            leg.last = Some(last);
        }
        let behind = leg.last.is_some_and(|before| before > last);
        let backwards = behind && first <= last;
        if !behind || backwards {
            leg.last = Some(last);
        }
        self.skipped = !backwards && leg.reached.is_some_and(|reached| first > reached.saturating_add(1));
        leg.reached = if backwards { Some(last) } else { leg.reached.max(Some(last)) };
        if backwards && !leg.bound {
            // It has started anew as the others did before; that is no further restart.
            leg.bound = true;
            return (at, false);
        }
        (at, backwards)
    }

    /// Whether a leg's update counts. After a new epoch it does once it reaches the shown version without a hole;
    /// before, it may still carry the ids of the epoch before, which look like a hole of millions. Nor does it while a
    /// new epoch is awaited because of another leg. An assurance joins at the shown version alone.
    #[inline]
    pub(super) fn binds(&mut self, at: usize, first: u64, last: u64) -> bool {
        let Some(leg) = self.legs.get_mut(at).filter(|leg| !leg.bound) else {
            if !self.held.is_empty() && self.legs.iter().any(|leg| !leg.bound) {
                self.give_up_unbound();
            }
            return true;
        };
        let joins = match self.shown.filter(|_| !self.bump) {
            Some(shown) if first > last => shown.seq == last,
            Some(shown) => first <= shown.seq.saturating_add(1),
            None => !self.bump,
        };
        if joins {
            let joined = leg.id;
            self.bind(joined);
            return true;
        }
        // If no leg has joined, it cannot be told whose ids are the old ones; the hole will bring a snapshot.
        !self.legs.iter().any(|leg| leg.bound)
    }

    /// A leg has joined the present epoch.
    pub(super) fn bind(&mut self, leg: LegId) {
        let known = self.legs.iter_mut().find(|known| known.id == leg).filter(|known| !known.bound);
        if let Some(known) = known {
            known.bound = true;
            self.give_up_unbound();
        }
    }

    /// Until a leg has joined an epoch, updates of any leg are held; once one has, those of the others may be the former
    /// epoch's.
    fn give_up_unbound(&mut self) {
        let legs = std::mem::take(&mut self.legs);
        self.give_up(|held| legs.iter().any(|known| known.id == held.leg && !known.bound));
        self.legs = legs;
    }

    pub(super) fn give_up(&mut self, gone: impl Fn(&Held<D>) -> bool) {
        self.held.retain(|held| !gone(held));
        self.held_bytes = self.held.iter().map(|held| held.bytes).sum();
    }

    /// A leg's connection ended: it vouches for nothing any longer.
    pub fn leg_down(&mut self, leg: LegId) {
        let bound = |known: &Leg| known.id != leg || known.bound;
        if !self.legs.iter().all(bound) {
            self.give_up(|held| held.leg == leg);
        }
        self.legs.retain(|known| known.id != leg);
    }
}
