//! The naive book: an ordered map, as plain as can be, to hold the fast one against.
//!
//! Never: used on the hot path.

use crate::{Level, Side, TickChange, TickKey, U256};
use std::collections::BTreeMap;

/// A book as an ordered map from (side, key) to reserves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NaiveBook {
    ticks: BTreeMap<(Side, TickKey), U256>,
}

impl NaiveBook {
    /// Sets a tick's reserves; zero removes it.
    pub fn apply(&mut self, change: TickChange) {
        if change.reserves.is_zero() {
            self.ticks.remove(&(change.side, change.key));
        } else {
            self.ticks.insert((change.side, change.key), change.reserves);
        }
    }

    /// Replaces everything.
    pub fn replace(&mut self, ticks: &[TickChange]) {
        self.ticks.clear();
        for tick in ticks {
            self.apply(*tick);
        }
    }

    /// The levels of a side, best first.
    #[must_use]
    pub fn levels(&self, side: Side) -> Vec<Level> {
        let mut sums: BTreeMap<i64, U256> = BTreeMap::new();
        for ((at, key), reserves) in &self.ticks {
            if *at == side {
                let sum = sums.entry(key.tick_index).or_default();
                *sum = sum.saturating_add(*reserves);
            }
        }
        let mut levels: Vec<_> =
            sums.into_iter().map(|(tick_index, quantity)| Level { tick_index, quantity }).collect();
        levels.sort_by_key(|level| std::cmp::Reverse(side.rank(level.tick_index)));
        levels
    }

    /// Keeps the best `depth` levels of each side.
    pub fn truncate(&mut self, depth: usize) {
        for side in Side::BOTH {
            let kept: Vec<_> = self.levels(side).into_iter().take(depth).map(|level| level.tick_index).collect();
            self.ticks.retain(|(at, key), _| *at != side || kept.contains(&key.tick_index));
        }
    }
}
