//! A lane's copy of a book held against the rows of `tick_state`, tick by tick. A function of what was read.
//!
//! Never: input or output; a tick judged that changed after the copy was made.

use crate::clickhouse::rows::StoredKey;
use foldhash::HashMap;
use market::{Scale, Side, U256, Version};
use std::fmt;

/// Names a tick of an instrument in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TickName {
    /// Its side.
    pub side: Side,
    /// Its key within the side.
    pub key: StoredKey,
}

/// What a lane shows of an instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTicks {
    /// At this version.
    pub version: Version,
    /// In these steps.
    pub scale: Scale,
    /// Every live tick with its reserves, which are more than zero.
    pub ticks: HashMap<TickName, U256>,
}

/// What a row of the store says of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTick {
    /// Its reserves; zero in a tombstone.
    pub reserves: U256,
    /// The version of its last change.
    pub version: Version,
    /// The steps of its numbers.
    pub scale: Scale,
}

/// What `tick_state` says of an instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateRead {
    /// Every tick that lives by `tick_state FINAL`: what an analyst sees.
    pub live: HashMap<TickName, StateTick>,
    /// Ticks with a row above the copy's version, dead ones too, each with its greatest version. Read after `live`.
    pub newer: HashMap<TickName, Version>,
}

/// How a tick of `tick_state` differs from the live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Both live, with other reserves or in other steps.
    Changed,
    /// It lives, and not in `tick_state`.
    Missing,
    /// It lives in `tick_state` alone.
    Phantom,
    /// Its row has a version that the instrument never had.
    Ahead,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Changed, Self::Missing, Self::Phantom, Self::Ahead];

    /// The column's text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Phantom => "phantom",
            Self::Ahead => "ahead",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A tick of which the two differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Which tick.
    pub name: TickName,
    /// How.
    pub kind: Kind,
    /// Its live reserves; zero if it does not live.
    pub live: U256,
    /// What `tick_state` says, as far as it was read; of a row that is ahead its version is all that is known so far.
    pub state: Option<StateTick>,
}

/// What came of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Ticks that were compared, the suspects among them.
    pub compared: u64,
    /// Ticks that changed after the copy was made.
    pub skipped: u64,
    /// Ticks that differ, by name.
    pub suspects: Vec<Suspect>,
}

/// Compares. `seen` is the version of the live instrument after the read had ended, at which nothing of ours is ahead;
/// none where that is not known, and then no row is taken for ahead.
#[must_use]
pub fn compare(live: &LiveTicks, state: &StateRead, seen: Option<Version>) -> Comparison {
    let mut comparison = Comparison::default();
    for (name, newest) in &state.newer {
        if seen.is_none_or(|seen| *newest <= seen) {
            comparison.skipped += 1;
            continue;
        }
        comparison.compared += 1;
        let reserves = live.ticks.get(name).copied().unwrap_or_default();
        let row = StateTick { reserves: U256::ZERO, version: *newest, scale: live.scale };
        comparison.suspects.push(Suspect { name: name.clone(), kind: Kind::Ahead, live: reserves, state: Some(row) });
    }
    for (name, reserves) in live.ticks.iter().filter(|(name, _)| !state.newer.contains_key(*name)) {
        let row = state.live.get(name).copied();
        if row.is_some_and(|row| row.version > live.version) {
            comparison.skipped += 1;
            continue;
        }
        comparison.compared += 1;
        let kind = match row {
            Some(row) if (row.reserves, row.scale) == (*reserves, live.scale) => continue,
            Some(_) => Kind::Changed,
            None => Kind::Missing,
        };
        comparison.suspects.push(Suspect { name: name.clone(), kind, live: *reserves, state: row });
    }
    let alone = |name: &TickName| !state.newer.contains_key(name) && !live.ticks.contains_key(name);
    for (name, row) in state.live.iter().filter(|(name, _)| alone(name)) {
        if row.version > live.version {
            comparison.skipped += 1;
            continue;
        }
        comparison.compared += 1;
        let (name, state) = (name.clone(), Some(*row));
        comparison.suspects.push(Suspect { name, kind: Kind::Phantom, live: U256::ZERO, state });
    }
    comparison.suspects.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    comparison
}

#[cfg(test)]
mod tests;
