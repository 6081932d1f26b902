//! Ticks and levels: the smallest things that live and die on the tape.
//!
//! Never: an increment; reserves are always absolute, and zero means the tick is dead.

use crate::U256;
use serde::{Deserialize, Serialize};

/// The side of a book. A bid rests asset_1, an ask rests asset_0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Side {
    /// Buyers; the best is the highest price.
    Bid,
    /// Sellers; the best is the lowest price.
    Ask,
}

impl Side {
    /// Both sides, bids first.
    pub const BOTH: [Self; 2] = [Self::Bid, Self::Ask];

    /// `bid` or `ask`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bid => "bid",
            Self::Ask => "ask",
        }
    }

    /// A tick index as a rank on this side: the greater rank is the better price.
    #[must_use]
    pub const fn rank(self, tick_index: i64) -> i64 {
        match self {
            Self::Bid => tick_index,
            Self::Ask => !tick_index,
        }
    }

    /// The tick index of a rank; the inverse of [`Side::rank`].
    #[must_use]
    pub const fn tick_index(self, rank: i64) -> i64 {
        self.rank(rank)
    }
}

/// Interned text of a limit-order tranche; 0 where a venue has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrancheId(pub u32);

/// What names a tick within one side of one instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TickKey {
    /// Price in the instrument's price step.
    pub tick_index: i64,
    /// Pool fee; 0 on order-book venues.
    pub fee: u32,
    /// Limit-order tranche; 0 on order-book venues.
    pub tranche: TrancheId,
}

impl TickKey {
    /// The key of an order-book price: no fee, no tranche.
    #[must_use]
    pub const fn at(tick_index: i64) -> Self {
        Self { tick_index, fee: 0, tranche: TrancheId(0) }
    }

    /// Whether the key is a bare price.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.fee == 0 && self.tranche.0 == 0
    }
}

/// A live tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tick {
    /// Its side.
    pub side: Side,
    /// Its name within the side.
    pub key: TickKey,
    /// Its funds in quantity steps, more than zero.
    pub reserves: U256,
}

/// A tick's new state: absolute reserves, zero if it died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TickChange {
    /// Its side.
    pub side: Side,
    /// Its name within the side.
    pub key: TickKey,
    /// Its funds in quantity steps; zero means dead.
    pub reserves: U256,
}

impl TickChange {
    /// A change of an order-book price.
    #[must_use]
    pub const fn at(side: Side, tick_index: i64, reserves: U256) -> Self {
        Self { side, key: TickKey::at(tick_index), reserves }
    }
}

/// A price as shown to a person: the sum of the ticks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Level {
    /// Price in the instrument's price step.
    pub tick_index: i64,
    /// Sum of the reserves at the price, in quantity steps.
    pub quantity: U256,
}

/// A level's new state over an interval; quantity zero removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LevelChange {
    /// Its side.
    pub side: Side,
    /// The level as it is now.
    pub level: Level,
}
