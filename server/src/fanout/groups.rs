//! Groups: terminals with one subscription set and one phase.
//!
//! Never: a phase kept active for nobody.

use super::{ConnectionId, Entry};
use crate::hub::Hub;
use foldhash::{HashMap, fast::FixedState};
use std::{collections::BTreeSet, hash::BuildHasher, sync::Arc};

/// Names a group: the signature of its set, and its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GroupKey {
    pub(super) signature: u128,
    pub(super) phase: u64,
}

struct Group {
    target: Arc<[Entry]>,
    members: BTreeSet<ConnectionId>,
}

pub(super) struct Groups {
    phases: u64,
    groups: HashMap<GroupKey, Group>,
    /// Groups of each phase.
    by_phase: HashMap<u64, BTreeSet<GroupKey>>,
}

/// Order-independent hash of a set: two sums of the entries' hashes, 128 bits in all.
fn signature(entries: &[Entry]) -> u128 {
    let (one, other) = (FixedState::with_seed(1), FixedState::with_seed(2));
    let add = |(a, b): (u64, u64), entry: &Entry| {
        (a.wrapping_add(one.hash_one(entry)), b.wrapping_add(other.hash_one(entry)))
    };
    let (high, low) = entries.iter().fold((0_u64, 0_u64), add);
    (u128::from(high) << 64) | u128::from(low)
}

impl Groups {
    pub(super) fn new(phases: u64) -> Self {
        Self { phases: phases.max(1), groups: HashMap::default(), by_phase: HashMap::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Sum over the groups of members times subscriptions.
    pub(super) fn subscriptions(&self) -> usize {
        self.groups.values().map(|group| group.members.len() * group.target.len()).sum()
    }

    /// Adds a terminal to the group of a set; without a phase it gets the one that the set hashes to.
    pub(super) fn join(
        &mut self,
        target: Arc<[Entry]>,
        phase: Option<u64>,
        id: ConnectionId,
        hub: &mut Hub,
    ) -> GroupKey {
        let signature = signature(&target);
        let spread = u64::try_from(signature % u128::from(self.phases)).unwrap_or(0);
        let key = GroupKey { signature, phase: phase.unwrap_or(spread) };
        hub.activate(key.phase);
        let group = self.groups.entry(key).or_insert_with(|| Group { target, members: BTreeSet::new() });
        group.members.insert(id);
        self.by_phase.entry(key.phase).or_default().insert(key);
        key
    }

    /// Takes a terminal out of a group.
    pub(super) fn leave(&mut self, key: GroupKey, id: ConnectionId, hub: &mut Hub) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        group.members.remove(&id);
        if !group.members.is_empty() {
            return;
        }
        self.groups.remove(&key);
        if let Some(keys) = self.by_phase.get_mut(&key.phase) {
            keys.remove(&key);
            if keys.is_empty() {
                hub.deactivate(key.phase);
            }
        }
    }

    /// The groups of a phase with their members.
    pub(super) fn of_phase(&self, phase: u64) -> impl Iterator<Item = (&Arc<[Entry]>, &BTreeSet<ConnectionId>)> {
        let keys = self.by_phase.get(&phase).into_iter().flatten();
        keys.filter_map(|key| self.groups.get(key)).map(|group| (&group.target, &group.members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Channel;

    #[test]
    fn a_signature_does_not_depend_on_the_order() {
        let one = signature(&[(Channel::Book, 1), (Channel::Quote, 2)]);
        assert_eq!(one, signature(&[(Channel::Quote, 2), (Channel::Book, 1)]));
        assert_ne!(one, signature(&[(Channel::Quote, 1), (Channel::Book, 2)]));
    }
}
