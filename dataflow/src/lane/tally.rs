//! What a lane counts between two cuts, over its instruments and for each leg.
//!
//! Never: a leg in a cut that brought nothing since the one before.

use crate::cut::{LEADS_PER_CUT_MAX, LaneCounts, LaneCut, LegCounts};
use market::LegId;

/// The counts of the open cut.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) lane: LaneCounts,
    /// By the number of the leg.
    legs: Vec<LegCounts>,
    /// Takes what would have no place; there is one for every number.
    spare: LegCounts,
}

impl Tally {
    #[inline]
    pub(super) fn leg(&mut self, leg: LegId) -> &mut LegCounts {
        let at = usize::from(leg.0);
        if self.legs.len() <= at {
            self.legs.resize_with(at.saturating_add(1), LegCounts::default);
        }
        match self.legs.get_mut(at) {
            Some(counts) => counts,
            None => &mut self.spare,
        }
    }

    /// A leg was the first with an update, by so much.
    pub(super) fn led(&mut self, winner: LegId, lead_ns: u64) {
        let counts = self.leg(winner);
        counts.leads += 1;
        counts.lead_ns = counts.lead_ns.saturating_add(lead_ns);
        if counts.leads_ns.len() < LEADS_PER_CUT_MAX {
            counts.leads_ns.push(lead_ns);
        }
    }

    /// Moves everything to a cut.
    pub(super) fn close(&mut self, out: &mut LaneCut) {
        out.counts = std::mem::take(&mut self.lane);
        for (at, counts) in self.legs.iter_mut().enumerate().filter(|(_, counts)| **counts != LegCounts::default()) {
            let leg = LegId(u16::try_from(at).unwrap_or(u16::MAX));
            out.legs.push((leg, std::mem::take(counts)));
        }
    }
}
