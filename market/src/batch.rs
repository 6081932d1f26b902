//! The guard of a batch stream: which batch is next, what is missing, what came too late. A batch names its height and
//! the height of the one before it; heights between the two have no batch.
//!
//! It holds names alone; the batches themselves wait in the log.
//!
//! Never: a batch delivered over a hole that nobody accepted; two batches delivered at one height.

mod loss;

pub use loss::Loss;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bits of a position that count the events of a block.
const ORDINAL_BITS: u32 = 30;

/// Greatest height: what is left of 64 bits.
pub const HEIGHT_MAX: u64 = (1 << (64 - ORDINAL_BITS)) - 1;

/// Greatest ordinal of an event in its block.
pub const ORDINAL_MAX: u64 = (1 << ORDINAL_BITS) - 1;

/// Names of batches that wait behind a hole: four days of a batch each third of a second, 80 MB. Beyond it a batch is
/// refused, stays with the sender, and comes again.
pub const WAITING_MAX: usize = 1 << 20;

/// Delivered batches that are remembered by id; an older one is looked up in the log.
pub const RECENT_MAX: usize = 4_096;

/// The position of an event: `height:34 | ordinal:30`; `None` beyond either bound.
#[must_use]
pub const fn place_of(height: u64, ordinal: u64) -> Option<u64> {
    if height > HEIGHT_MAX || ordinal > ORDINAL_MAX { None } else { Some(height << ORDINAL_BITS | ordinal) }
}

/// The last position that a block at a height can have.
#[must_use]
pub const fn end_of(height: u64) -> u64 {
    if height > HEIGHT_MAX { u64::MAX } else { height << ORDINAL_BITS | ORDINAL_MAX }
}

/// The height of a position.
#[must_use]
pub const fn height_of(place: u64) -> u64 {
    place >> ORDINAL_BITS
}

/// The ordinal of a position: the place of an event in its block.
#[must_use]
pub const fn ordinal_of(place: u64) -> u64 {
    place & ORDINAL_MAX
}

/// What tells two batches at one height apart: the SHA-256 of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId(pub [u8; 32]);

/// What a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BatchKind {
    /// The events of one block.
    Block,
    /// Every live tick at the end of a block: a source snapshot.
    Snapshot,
}

/// What names a batch in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BatchName {
    /// Its height, at most [`HEIGHT_MAX`].
    pub height: u64,
    /// The height of the batch before it, below its own; of a snapshot its own.
    pub previous: u64,
    /// What it holds.
    pub kind: BatchKind,
    /// Which one it is.
    pub id: BatchId,
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOffer {
    /// New: to be logged. [`BatchGuard::next`] tells when it is to be delivered.
    Keep,
    /// New, and of a loss that was accepted: to be logged, with what it changed. [`BatchGuard::rebuild`] tells when the
    /// loss is complete.
    Late,
    /// New, and of heights that a snapshot has passed: to be logged, with what it changed; it shows nothing.
    Passed,
    /// Known already.
    Duplicate,
    /// Another batch is known at this height.
    Conflict {
        /// Its id.
        known: BatchId,
    },
    /// At or below the position and not remembered: the log knows whether it is a duplicate. If it does not have it, it
    /// contradicts the batches that were delivered.
    Old,
    /// A snapshot that nothing needs: older than what is shown, while nothing before it is missing.
    Outdated,
    /// A snapshot at or below the position, and above a loss: the stream can be rebuilt from it.
    Heals,
    /// No room for its name; it must come again.
    Full,
}

/// Missing batches: none is known above `after` and up to `through`, where at least one must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hole {
    /// The last height that is known and delivered.
    pub after: u64,
    /// The height that the first batch behind the hole names as the one before it.
    pub through: u64,
}

/// From where a stream must be rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// The state at the end of this height, then every batch of the log above it.
    From(u64),
    /// The snapshot, then every batch of the log above it.
    Snapshot(BatchName),
}

/// The loss that was to be accepted is not the hole that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no hole after {} through {} is open", .0.after, .0.through)]
pub struct NotOpen(pub Hole);

/// The guard of one batch stream.
#[derive(Clone, Debug)]
pub struct BatchGuard {
    /// Everything up to this height is delivered, accepted as lost, or passed by a snapshot.
    position: u64,
    /// Nothing was ever delivered: a snapshot need not wait for a hole.
    fresh: bool,
    blocks: BTreeMap<u64, BatchName>,
    snapshots: BTreeMap<u64, BatchName>,
    recent: BTreeMap<u64, BatchId>,
    losses: Vec<Loss>,
    /// A snapshot at or below the position that heals losses.
    healing: Option<BatchName>,
}

impl BatchGuard {
    /// A stream of which everything up to a height is delivered: the cursor, or the height behind which it begins.
    #[must_use]
    pub fn new(position: u64, begun: bool) -> Self {
        Self {
            position,
            fresh: !begun,
            blocks: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            recent: BTreeMap::new(),
            losses: Vec::new(),
            healing: None,
        }
    }

    /// The same stream with losses that were accepted before; they are at or below the position.
    #[must_use]
    pub fn with_losses(mut self, losses: Vec<Loss>) -> Self {
        self.losses = losses;
        self
    }

    /// Everything up to this height is delivered, accepted as lost, or passed by a snapshot.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Batches that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.blocks.len() + self.snapshots.len()
    }

    /// Losses, healed ones included.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Whether a loss was accepted that nothing healed yet: what is shown may be wrong.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.losses.iter().any(|loss| !loss.healed)
    }

    /// Decides about a batch.
    pub fn offer(&mut self, name: BatchName) -> BatchOffer {
        match name.kind {
            BatchKind::Snapshot => self.offer_snapshot(name),
            BatchKind::Block if name.height > self.position => Self::keep(&mut self.blocks, name),
            BatchKind::Block => self.offer_old(name),
        }
    }

    fn keep(waiting: &mut BTreeMap<u64, BatchName>, name: BatchName) -> BatchOffer {
        if let Some(known) = waiting.get(&name.height) {
            return same(known.id, name.id);
        }
        if waiting.len() >= WAITING_MAX {
            return BatchOffer::Full;
        }
        waiting.insert(name.height, name);
        BatchOffer::Keep
    }

    fn offer_old(&mut self, name: BatchName) -> BatchOffer {
        if let Some(known) = self.recent.get(&name.height) {
            return same(*known, name.id);
        }
        match self.losses.iter_mut().find(|loss| loss.covers(name.height)) {
            Some(loss) => loss.offer(name),
            None => BatchOffer::Old,
        }
    }

    fn offer_snapshot(&mut self, name: BatchName) -> BatchOffer {
        if name.height > self.position {
            return Self::keep(&mut self.snapshots, name);
        }
        if self.healing.is_some_and(|known| known.height >= name.height) {
            return BatchOffer::Duplicate;
        }
        if self.losses.iter().any(|loss| !loss.healed && loss.hole.through <= name.height) {
            self.healing = Some(name);
            return BatchOffer::Heals;
        }
        BatchOffer::Outdated
    }

    /// The batch that is to be delivered now. [`BatchGuard::delivered`] must follow, or [`BatchGuard::refused`].
    #[must_use]
    pub fn next(&self) -> Option<BatchName> {
        let first = self.blocks.first_key_value().map(|(_, name)| *name);
        let joined = first.filter(|name| name.previous <= self.position);
        // Only a snapshot that is ahead of what can be delivered is of use.
        let snapshot = self.snapshots.last_key_value().map(|(_, name)| *name);
        let wanted = self.fresh || self.is_lossy() || (first.is_some() && joined.is_none());
        match (joined, snapshot.filter(|_| wanted)) {
            (Some(block), Some(snapshot)) if self.fresh || block.height > snapshot.height => Some(snapshot),
            (Some(block), _) => Some(block),
            (None, snapshot) => snapshot,
        }
    }

    /// The batch that was next has been delivered.
    pub fn delivered(&mut self, name: BatchName) {
        match name.kind {
            BatchKind::Block => {
                self.blocks.remove(&name.height);
                self.remember(name);
            }
            BatchKind::Snapshot => self.jump(name.height),
        }
        self.fresh = false;
        self.position = self.position.max(name.height);
        self.snapshots = self.snapshots.split_off(&self.position.saturating_add(1));
    }

    /// The batch that was next cannot be delivered: it is as if it had not come.
    pub fn refused(&mut self, name: BatchName) {
        let waiting = match name.kind {
            BatchKind::Block => &mut self.blocks,
            BatchKind::Snapshot => &mut self.snapshots,
        };
        waiting.remove(&name.height);
    }

    fn remember(&mut self, name: BatchName) {
        self.recent.insert(name.height, name.id);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_first();
        }
    }

    /// A snapshot makes good what was lost before it, and what waits up to it shows nothing any more.
    fn jump(&mut self, height: u64) {
        self.losses.iter_mut().filter(|loss| loss.hole.through <= height).for_each(|loss| loss.healed = true);
        let later = self.blocks.split_off(&height.saturating_add(1));
        let passed = std::mem::replace(&mut self.blocks, later);
        if height > self.position {
            let hole = Hole { after: self.position, through: height };
            self.losses.push(Loss { hole, healed: true, late: passed });
            loss::bound(&mut self.losses);
        }
    }

    /// The hole that is open, if any.
    #[must_use]
    pub fn hole(&self) -> Option<Hole> {
        let (_, first) = self.blocks.first_key_value()?;
        (first.previous > self.position).then_some(Hole { after: self.position, through: first.previous })
    }

    /// An operator accepts that the batches of the open hole are lost.
    ///
    /// # Errors
    /// [`NotOpen`] if that hole is not open.
    pub fn accept(&mut self, hole: Hole) -> Result<(), NotOpen> {
        if self.hole() != Some(hole) {
            return Err(NotOpen(hole));
        }
        self.losses.push(Loss { hole, healed: false, late: BTreeMap::new() });
        loss::bound(&mut self.losses);
        self.position = hole.through;
        self.fresh = false;
        Ok(())
    }

    /// What the stream must be rebuilt from, now that a loss is complete or a snapshot heals it.
    #[must_use]
    pub fn rebuild(&self) -> Option<Rebuild> {
        let complete = self.losses.iter().find(|loss| !loss.healed && loss.is_complete());
        let from = complete.map(|loss| Rebuild::From(loss.hole.after));
        from.or(self.healing.map(Rebuild::Snapshot))
    }

    /// The log does not have what the stream must be rebuilt from: the loss stays, with none of its late batches.
    pub fn unrebuildable(&mut self, rebuild: Rebuild) {
        match rebuild {
            Rebuild::From(after) => {
                let loss = self.losses.iter_mut().find(|loss| !loss.healed && loss.hole.after == after);
                if let Some(loss) = loss {
                    loss.late.clear();
                }
            }
            Rebuild::Snapshot(_) => self.healing = None,
        }
    }

    /// The stream was rebuilt; gives the losses that are healed by it.
    pub fn rebuilt(&mut self, rebuild: Rebuild) -> Vec<Hole> {
        let heals = |loss: &Loss| match rebuild {
            Rebuild::From(after) => loss.hole.after >= after && loss.is_complete(),
            Rebuild::Snapshot(name) => loss.hole.through <= name.height,
        };
        if self.healing.is_some_and(|name| rebuild == Rebuild::Snapshot(name)) {
            self.healing = None;
        }
        let mut healed = Vec::new();
        for loss in self.losses.iter_mut().filter(|loss| !loss.healed && heals(loss)) {
            loss.healed = true;
            healed.push(loss.hole);
        }
        healed
    }
}

fn same(known: BatchId, id: BatchId) -> BatchOffer {
    if known == id { BatchOffer::Duplicate } else { BatchOffer::Conflict { known } }
}

#[cfg(test)]
mod tests;
