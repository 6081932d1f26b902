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
/// refused, stays with the sender, and comes again; only the one that comes next is always taken. As many names of
/// batches that came late are remembered.
pub const WAITING_MAX: usize = 1 << 20;

/// Names of snapshots that wait; of more the lowest is forgotten, since a greater one is of more use.
pub const SNAPSHOTS_MAX: usize = 1_024;

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
    /// The last height that is delivered, passed by a snapshot, or accepted as lost.
    pub after: u64,
    /// The height that the first batch behind the hole names as the one before it.
    pub through: u64,
}

/// From where a stream must be rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// The state at the end of this height, then everything that the log has above it, snapshots included: a loss further
    /// down may have been healed by one of them.
    From(u64),
    /// The snapshot, then everything that the log has above it.
    Snapshot(BatchName),
}

/// The loss that was to be accepted is not the hole that is open, or too many of them are not healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no hole after {} through {} is open, or {} losses are not healed", .0.after, .0.through, loss::LOSSES_MAX)]
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

    /// The same stream with losses that were accepted before. An unhealed one above the position holds nothing back once
    /// the stream gets there; what the log has of it is delivered in its place. A healed one above the position is
    /// forgotten: what healed it is in the log, and heals it anew.
    #[must_use]
    pub fn with_losses(mut self, losses: Vec<Loss>) -> Self {
        self.losses = losses;
        self.losses.retain(|loss| !loss.healed || loss.hole.after < self.position);
        self.losses.sort_unstable_by_key(|loss| loss.hole);
        loss::bound(&mut self.losses);
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
            BatchKind::Block if name.height > self.position => self.offer_new(name),
            BatchKind::Block => self.offer_old(name),
        }
    }

    fn offer_new(&mut self, name: BatchName) -> BatchOffer {
        if let Some(known) = self.blocks.get(&name.height) {
            return same(known.id, name.id);
        }
        let reach = self.reach();
        let stuck = self.first().is_none_or(|first| first.previous > reach);
        // The one that fills the hole must find room, or a full guard would stay full.
        let room = WAITING_MAX.saturating_add(usize::from(stuck && name.previous <= reach));
        if self.blocks.len() >= room {
            return BatchOffer::Full;
        }
        self.blocks.insert(name.height, name);
        BatchOffer::Keep
    }

    fn offer_old(&mut self, name: BatchName) -> BatchOffer {
        if let Some(known) = self.recent.get(&name.height) {
            return same(*known, name.id);
        }
        loss::offer(&mut self.losses, name)
    }

    fn offer_snapshot(&mut self, name: BatchName) -> BatchOffer {
        if name.height > self.position {
            if let Some(known) = self.snapshots.get(&name.height) {
                return same(known.id, name.id);
            }
            self.snapshots.insert(name.height, name);
            if self.snapshots.len() > SNAPSHOTS_MAX {
                self.snapshots.pop_first();
            }
            return BatchOffer::Keep;
        }
        match self.healing {
            Some(known) if known.height == name.height => same(known.id, name.id),
            Some(known) if known.height > name.height => BatchOffer::Outdated,
            _ if self.heals(name.height) => {
                self.healing = Some(name);
                BatchOffer::Heals
            }
            _ => BatchOffer::Outdated,
        }
    }

    fn first(&self) -> Option<BatchName> {
        self.blocks.first_key_value().map(|(_, name)| *name)
    }

    /// The height up to which nothing is awaited: the position, or the end of a loss that was accepted before a restart
    /// and that the stream, which begins further down, has come to.
    fn reach(&self) -> u64 {
        let ahead = self.losses.iter().filter(|loss| !loss.healed);
        ahead.fold(
            self.position,
            |reach, Loss { hole, .. }| {
                if hole.after <= reach { reach.max(hole.through) } else { reach }
            },
        )
    }

    /// Whether a snapshot at a height makes good a loss.
    fn heals(&self, height: u64) -> bool {
        self.losses.iter().any(|loss| !loss.healed && loss.hole.through <= height)
    }

    /// The batch that is to be delivered now. [`BatchGuard::delivered`] must follow, or [`BatchGuard::refused`].
    #[must_use]
    pub fn next(&self) -> Option<BatchName> {
        let first = self.first();
        let joined = first.filter(|name| name.previous <= self.reach());
        if let Some(block) = joined.filter(|_| !self.fresh) {
            // A snapshot has its place among the blocks, and is of use there only if it heals.
            let placed = self.snapshots.first_key_value().map(|(_, name)| *name);
            return placed.filter(|name| name.height < block.height && self.heals(name.height)).or(joined);
        }
        let hole = first.is_some() && joined.is_none();
        let greatest = self.snapshots.last_key_value().map(|(_, name)| *name);
        greatest.filter(|name| self.fresh || hole || self.heals(name.height)).or(joined)
    }

    /// The batch that was next has been delivered; gives the blocks that waited and that a snapshot has passed, of which
    /// the store must learn, although they show nothing any more.
    pub fn delivered(&mut self, name: BatchName) -> Vec<BatchName> {
        let passed = match name.kind {
            BatchKind::Block => {
                self.blocks.remove(&name.height);
                self.remember(name);
                loss::note(&mut self.losses, name);
                Vec::new()
            }
            BatchKind::Snapshot => self.jump(name.height),
        };
        self.fresh = false;
        self.position = self.position.max(name.height);
        let done = u64::from(!self.heals(self.position));
        self.snapshots = self.snapshots.split_off(&self.position.saturating_add(done));
        passed
    }

    /// The batch cannot be delivered, or its changes not be told: it is as if it had not come.
    pub fn refused(&mut self, name: BatchName) {
        let known = |held: &mut BTreeMap<u64, BatchName>| {
            if held.get(&name.height).is_some_and(|known| known.id == name.id) {
                held.remove(&name.height);
            }
        };
        match name.kind {
            BatchKind::Block => {
                known(&mut self.blocks);
                self.losses.iter_mut().for_each(|loss| known(&mut loss.late));
            }
            BatchKind::Snapshot => {
                known(&mut self.snapshots);
                self.healing = self.healing.filter(|healing| *healing != name);
            }
        }
    }

    fn remember(&mut self, name: BatchName) {
        self.recent.insert(name.height, name.id);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_first();
        }
    }

    /// A snapshot makes good what was lost before it, and what waits up to it shows nothing any more.
    fn jump(&mut self, height: u64) -> Vec<BatchName> {
        self.losses.iter_mut().filter(|loss| loss.hole.through <= height).for_each(|loss| loss.healed = true);
        let later = self.blocks.split_off(&height.saturating_add(1));
        let late = std::mem::replace(&mut self.blocks, later);
        let passed = late.values().copied().collect();
        if height > self.position {
            loss::pass(
                &mut self.losses,
                Loss { hole: Hole { after: self.position, through: height }, healed: true, late },
            );
        }
        passed
    }

    /// The hole that is open, if any.
    #[must_use]
    pub fn hole(&self) -> Option<Hole> {
        let (first, reach) = (self.first()?, self.reach());
        (first.previous > reach).then_some(Hole { after: reach, through: first.previous })
    }

    /// An operator accepts that the batches of the open hole are lost.
    ///
    /// # Errors
    /// [`NotOpen`] if that hole is not open, or as many losses as can be remembered are not healed.
    pub fn accept(&mut self, hole: Hole) -> Result<(), NotOpen> {
        let unhealed = self.losses.iter().filter(|loss| !loss.healed).count();
        if self.hole() != Some(hole) || unhealed >= loss::LOSSES_MAX {
            return Err(NotOpen(hole));
        }
        loss::add(&mut self.losses, Loss { hole, healed: false, late: BTreeMap::new() });
        self.position = hole.through;
        self.fresh = false;
        self.snapshots = self.snapshots.split_off(&self.position);
        Ok(())
    }

    /// What the stream must be rebuilt from, now that a loss is complete or a snapshot heals it.
    #[must_use]
    pub fn rebuild(&self) -> Option<Rebuild> {
        if let Some(snapshot) = self.healing.filter(|name| self.heals(name.height)) {
            return Some(Rebuild::Snapshot(snapshot));
        }
        let complete = self.losses.iter().filter(|loss| !loss.healed && loss.is_complete());
        complete.map(|loss| loss.hole.after).min().map(Rebuild::From)
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

    /// The stream was rebuilt; gives the losses that are healed by it. Another one that has become complete in the meantime
    /// is not among them, since its batches may not have been in the log yet.
    pub fn rebuilt(&mut self, rebuild: Rebuild) -> Vec<Hole> {
        let heals = |loss: &Loss| match rebuild {
            Rebuild::From(after) => loss.hole.after == after && loss.is_complete(),
            Rebuild::Snapshot(name) => loss.hole.through <= name.height,
        };
        let mut healed = Vec::new();
        for loss in self.losses.iter_mut().filter(|loss| !loss.healed && heals(loss)) {
            loss.healed = true;
            healed.push(loss.hole);
        }
        self.healing = self.healing.filter(|name| self.heals(name.height));
        healed
    }
}

fn same(known: BatchId, id: BatchId) -> BatchOffer {
    if known == id { BatchOffer::Duplicate } else { BatchOffer::Conflict { known } }
}

#[cfg(test)]
mod tests;
