//! Which leg was the first with the last updates of an instrument, to tell by how much when another brings the same.
//!
//! Never: kept of a stream that one leg carries.

use market::{LegId, guard::RECENT_MAX};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Brought {
    seq: u64,
    leg: LegId,
    received_ns: u64,
    /// Another leg has brought it too.
    followed: bool,
}

/// By how much a leg was the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Nanoseconds between the two receive times.
    By(u64),
    /// By our clock the other leg had received it earlier: it only waited longer on the way here.
    Late,
}

/// The updates that were applied last, as many as the guard tells repeats of.
#[derive(Debug, Default)]
pub(super) struct Leads {
    /// With rising numbers.
    recent: VecDeque<Brought>,
}

impl Leads {
    /// A leg brought an update that was applied.
    pub(super) fn won(&mut self, seq: u64, leg: LegId, received_ns: u64) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Brought { seq, leg, received_ns, followed: false });
    }

    /// A leg repeats an update; who was the first, and by how much, if this is the second one.
    pub(super) fn followed(&mut self, seq: u64, leg: LegId, received_ns: u64) -> Option<(LegId, Lead)> {
        let at = self.recent.binary_search_by_key(&seq, |brought| brought.seq).ok()?;
        let brought = self.recent.get_mut(at).filter(|brought| !brought.followed && brought.leg != leg)?;
        brought.followed = true;
        let lead = received_ns.checked_sub(brought.received_ns).map_or(Lead::Late, Lead::By);
        Some((brought.leg, lead))
    }

    /// The book was replaced: numbers may begin below those that are remembered.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LegId = LegId(0);
    const B: LegId = LegId(1);

    #[test]
    fn the_second_leg_tells_the_lead_of_the_first_once() {
        let mut leads = Leads::default();
        leads.won(7, A, 100);
        leads.won(9, B, 200);
        assert_eq!(leads.followed(7, A, 130), None, "itself");
        assert_eq!(leads.followed(8, B, 130), None, "unknown");
        assert_eq!(leads.followed(7, B, 130), Some((A, Lead::By(30))));
        assert_eq!(leads.followed(7, LegId(2), 140), None, "told");
        assert_eq!(leads.followed(9, A, 199), Some((B, Lead::Late)));
        leads.forget();
        assert_eq!(leads.followed(9, LegId(2), 300), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut leads = Leads::default();
        (0..10_000).for_each(|seq| leads.won(seq, A, seq));
        assert_eq!(leads.recent.len(), RECENT_MAX);
        assert_eq!(leads.followed(10_000 - 1, B, 10_005), Some((A, Lead::By(6))));
    }
}
