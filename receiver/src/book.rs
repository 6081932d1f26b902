//! A book as a terminal holds it: per side one sorted vector with the best level at its end.
//!
//! Never: a decision about versions; that is the chain's and the guard's.

use market::{Level, LevelChange, Scale, Side, Version};
use wire::{BookDelta, BookSnapshot};

/// All known levels of one instrument at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Book {
    version: Version,
    scale: Scale,
    horizon: [Option<i64>; 2],
    /// Ascending by rank.
    bids: Vec<Level>,
    /// Ascending by rank.
    asks: Vec<Level>,
}

impl Book {
    /// The book of a snapshot.
    #[must_use]
    pub fn new(snapshot: &BookSnapshot) -> Self {
        Self {
            version: snapshot.version,
            scale: snapshot.scale,
            horizon: snapshot.horizon,
            bids: sorted(Side::Bid, &snapshot.bids),
            asks: sorted(Side::Ask, &snapshot.asks),
        }
    }

    /// Applies a delta whose base the caller has compared with the version.
    pub(crate) fn apply(&mut self, delta: &BookDelta) {
        for LevelChange { side, level } in &delta.changes {
            let levels = match side {
                Side::Bid => &mut self.bids,
                Side::Ask => &mut self.asks,
            };
            match levels.binary_search_by_key(&side.rank(level.tick_index), |held| side.rank(held.tick_index)) {
                Ok(at) if level.quantity.is_zero() => {
                    levels.remove(at);
                }
                Ok(at) => {
                    if let Some(held) = levels.get_mut(at) {
                        *held = *level;
                    }
                }
                Err(at) if !level.quantity.is_zero() => levels.insert(at, *level),
                Err(_) => {}
            }
        }
        self.version = delta.version;
    }

    /// The version that it shows.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The steps that its numbers are in.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The levels of a side, best first.
    pub fn levels(&self, side: Side) -> impl ExactSizeIterator<Item = Level> + '_ {
        self.side(side).iter().rev().copied()
    }

    /// The best level of a side.
    #[must_use]
    pub fn best(&self, side: Side) -> Option<Level> {
        self.side(side).last().copied()
    }

    /// The worst price of a side that is surely known, if the venue has more beyond it.
    #[must_use]
    pub fn horizon(&self, side: Side) -> Option<i64> {
        let [bid, ask] = self.horizon;
        match side {
            Side::Bid => bid,
            Side::Ask => ask,
        }
    }

    /// What a digest of this book is; none if it holds more levels than any snapshot.
    #[must_use]
    pub fn digest(&self) -> Option<u32> {
        wire::digest_of(self.scale, self.levels(Side::Bid), self.levels(Side::Ask)).ok()
    }

    fn side(&self, side: Side) -> &[Level] {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }
}

/// Decoded levels come best first; this makes no difference to ones that do not.
fn sorted(side: Side, levels: &[Level]) -> Vec<Level> {
    let mut levels: Vec<_> = levels.iter().rev().filter(|level| !level.quantity.is_zero()).copied().collect();
    levels.sort_by_key(|level| side.rank(level.tick_index));
    levels.dedup_by_key(|level| level.tick_index);
    levels
}
