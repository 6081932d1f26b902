//! A loss: missing batches that the stream went on without, because an operator accepted it or a snapshot passed them.
//!
//! Never: a loss forgotten that still marks what is shown.

use super::{BatchName, BatchOffer, Hole, same};
use std::collections::BTreeMap;

/// Losses that are remembered; of more, the oldest healed ones are forgotten, and a batch of theirs contradicts the log.
pub(super) const LOSSES_MAX: usize = 1_024;

/// Missing batches that the stream went on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which ones.
    pub hole: Hole,
    /// Nothing that is shown suffers from it: it was rebuilt, or a snapshot has passed it.
    pub healed: bool,
    /// Those that came in the end, by height.
    pub late: BTreeMap<u64, BatchName>,
}

impl Loss {
    pub(super) fn covers(&self, height: u64) -> bool {
        self.hole.after < height && height <= self.hole.through
    }

    pub(super) fn offer(&mut self, name: BatchName) -> BatchOffer {
        if let Some(known) = self.late.get(&name.height) {
            return same(known.id, name.id);
        }
        self.late.insert(name.height, name);
        if self.healed { BatchOffer::Passed } else { BatchOffer::Late }
    }

    /// Whether the late batches join what is before the hole with what is behind it.
    pub(super) fn is_complete(&self) -> bool {
        let mut at = self.hole.after;
        for name in self.late.values() {
            if name.previous > at {
                return false;
            }
            at = name.height;
        }
        at >= self.hole.through
    }
}

pub(super) fn bound(losses: &mut Vec<Loss>) {
    if losses.len() > LOSSES_MAX
        && let Some(at) = losses.iter().position(|loss| loss.healed)
    {
        losses.remove(at);
    }
}
