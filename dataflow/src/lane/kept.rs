//! What a book that was kept over a start still demands while its stream catches up from a log.
//!
//! Never: a tick set back to something older than what was kept of it.

use foldhash::{HashMap, HashMapExt};
use market::{Restored, Side, TickChange, TickKey, Version};

/// The part of a kept book that is ahead of its stream.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The greatest version that was kept; none once the stream has passed it.
    through: Option<Version>,
    /// Ticks that are ahead of where the stream goes on, with their versions.
    newer: HashMap<(Side, TickKey), Version>,
    /// The stream goes on from a log: what it repeats may heal the store.
    from_log: bool,
}

impl Kept {
    pub(super) fn of(restored: &Restored) -> Self {
        let mut newer = HashMap::new();
        let ahead = restored.ticks.iter().flatten().filter(|tick| tick.version > restored.version);
        newer.extend(ahead.map(|tick| ((tick.tick.side, tick.tick.key), tick.version)));
        let through = (restored.through > restored.version).then_some(restored.through);
        Self { through, newer, from_log: restored.from_log }
    }

    /// Whether the stream has not reached yet what was kept.
    pub(super) fn is_ahead_of(&self, version: Option<Version>) -> bool {
        self.through.is_some_and(|through| version.is_none_or(|version| version < through))
    }

    /// Whether what the guard refuses is written to the store all the same.
    pub(super) fn rewrites(&self) -> bool {
        self.from_log
    }

    /// The stream has passed a version: ticks at or below it are no longer ahead.
    pub(super) fn pass(&mut self, version: Version) {
        self.through = self.through.filter(|through| *through > version);
        if self.through.is_none() {
            self.newer = HashMap::default();
        }
        self.newer.retain(|_, kept| *kept > version);
    }

    /// The keys of ticks that are ahead of the stream.
    pub(super) fn keys(&self) -> impl Iterator<Item = (Side, TickKey)> + '_ {
        self.newer.keys().copied()
    }

    /// The changes of a version without those that a kept tick is ahead of; of a block, each is of its own place.
    pub(super) fn newer_than_kept(
        &mut self,
        version: Version,
        changes: &[TickChange],
        places: &[u64],
    ) -> Vec<TickChange> {
        let newer = &mut self.newer;
        let mut fresh = |change: &TickChange, version: Version| match newer.get(&(change.side, change.key)) {
            Some(kept) if *kept > version => false,
            Some(_) => newer.remove(&(change.side, change.key)).is_some(),
            None => true,
        };
        let of = |at: usize| places.get(at).map_or(version, |place| Version::new(version.epoch, *place));
        let placed = changes.iter().enumerate().filter(|(at, change)| fresh(change, of(*at)));
        placed.map(|(_, change)| *change).collect()
    }

    /// Whether some tick is ahead of the stream.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.newer.is_empty()
    }
}
