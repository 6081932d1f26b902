//! A loss: missing batches that the stream went on without, because an operator accepted it or a snapshot passed them.
//!
//! Never: a loss forgotten that still marks what is shown.

use super::{BatchName, BatchOffer, Hole, WAITING_MAX, same};
use std::collections::BTreeMap;

/// Losses that are remembered; of more, the oldest healed ones are forgotten, and a batch of theirs contradicts the log.
/// So many unhealed ones can be accepted.
pub(super) const LOSSES_MAX: usize = 1_024;

/// Missing batches that the stream went on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which ones.
    pub hole: Hole,
    /// Nothing that is shown suffers from it: it was rebuilt, or a snapshot has passed it.
    pub healed: bool,
    /// Those that came in the end, by height. Of a healed loss they may be forgotten; one that comes again is passed again.
    pub late: BTreeMap<u64, BatchName>,
}

impl Loss {
    fn covers(&self, height: u64) -> bool {
        self.hole.after < height && height <= self.hole.through
    }

    /// Whether the late batches join what is before the hole with what is behind it.
    pub(super) fn is_complete(&self) -> bool {
        let joined = self
            .late
            .values()
            .try_fold(self.hole.after, |reached, name| (name.previous <= reached).then_some(name.height));
        joined.is_some_and(|reached| reached >= self.hole.through)
    }
}

/// Adds a loss in its place. Beyond the bound the oldest healed one gives way.
pub(super) fn add(losses: &mut Vec<Loss>, loss: Loss) {
    let at = losses.partition_point(|other| other.hole < loss.hole);
    losses.insert(at, loss);
    bound(losses);
}

pub(super) fn bound(losses: &mut Vec<Loss>) {
    while losses.len() > LOSSES_MAX {
        let Some(oldest) = losses.iter().position(|loss| loss.healed) else { return };
        losses.remove(oldest);
    }
}

/// Decides about a block at or below the position that was not delivered of late.
pub(super) fn offer(losses: &mut [Loss], name: BatchName) -> BatchOffer {
    let covering = || losses.iter().filter(|loss| loss.covers(name.height));
    if let Some(known) = covering().find_map(|loss| loss.late.get(&name.height)) {
        return same(known.id, name.id);
    }
    let Some(healed) = covering().map(|loss| loss.healed).min() else { return BatchOffer::Old };
    match (note(losses, name), healed) {
        (true, false) => BatchOffer::Late,
        (_, true) => BatchOffer::Passed,
        (false, false) => BatchOffer::Full,
    }
}

/// Adds a loss that a snapshot has passed, with what waited in it; an older one that reaches beyond it learns of that too.
pub(super) fn pass(losses: &mut Vec<Loss>, loss: Loss) {
    let further = losses.iter().any(|other| !other.healed && other.hole.after < loss.hole.through);
    let late: Vec<_> = if further { loss.late.values().copied().collect() } else { Vec::new() };
    add(losses, loss);
    late.into_iter().for_each(|name| {
        note(losses, name);
    });
    room(losses);
}

/// Makes room for a late name; false if there is none. Names of healed losses give way, the oldest first.
fn room(losses: &mut [Loss]) -> bool {
    let mut held: usize = losses.iter().map(|loss| loss.late.len()).sum();
    for loss in losses.iter_mut().filter(|loss| loss.healed) {
        if held < WAITING_MAX {
            break;
        }
        held = held.saturating_sub(loss.late.len());
        loss.late.clear();
    }
    held < WAITING_MAX
}

/// Notes that a batch of a loss is there after all; false if there is no room for its name.
pub(super) fn note(losses: &mut [Loss], name: BatchName) -> bool {
    if !losses.iter().any(|loss| loss.covers(name.height)) {
        return true;
    }
    if !room(losses) {
        return false;
    }
    for loss in losses.iter_mut().filter(|loss| loss.covers(name.height)) {
        loss.late.insert(name.height, name);
    }
    true
}
