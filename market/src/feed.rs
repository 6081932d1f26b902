//! Feed state: what a terminal may trust about an instrument right now.
//!
//! Never: a silent state. Every change of it is published.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Intervals between events of an instrument's book that its median is taken over; before there are so many, silence says
/// nothing.
pub const PULSE_INTERVALS: usize = 32;

/// So many times its median interval an instrument may be silent before it is no longer trusted.
pub const SILENT_INTERVALS: u64 = 20;

/// And at least this long, in nanoseconds; so long a connection may be silent as well.
pub const SILENT_NS_MIN: u64 = 2_000_000_000;

/// Whether an instrument's shown book follows its venue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FeedState {
    /// No book yet.
    #[default]
    Syncing,
    /// The book follows the venue.
    Live,
    /// The connection is down or silent, the instrument is silent, or its market stands still; the book is as old as its
    /// age says.
    Stale,
    /// Something was missed; the book stays at its last right version until it is rebuilt.
    Gapped,
}

impl FeedState {
    /// Every state, in the order of their wire codes.
    pub const ALL: [Self; 4] = [Self::Syncing, Self::Live, Self::Stale, Self::Gapped];

    /// The word shown to people and written by `replay`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syncing => "SYNCING",
            Self::Live => "LIVE",
            Self::Stale => "STALE",
            Self::Gapped => "GAPPED",
        }
    }
}

impl fmt::Display for FeedState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What is remarkable about a book's shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flags {
    /// The best bid is above the best ask.
    pub crossed: bool,
    /// The best bid equals the best ask.
    pub locked: bool,
    /// Exactly one side is empty.
    pub one_sided: bool,
    /// Every known level of a side died while the venue has more beyond the horizon.
    pub exhausted: bool,
}

impl Flags {
    /// The names of the flags that are set, in a fixed order.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.crossed, "CROSSED"),
            (self.locked, "LOCKED"),
            (self.one_sided, "ONE_SIDED"),
            (self.exhausted, "EXHAUSTED"),
        ];
        all.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect()
    }

    /// The flags as bits, lowest first: crossed, locked, one-sided, exhausted.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.crossed)
            | (u8::from(self.locked) << 1)
            | (u8::from(self.one_sided) << 2)
            | (u8::from(self.exhausted) << 3)
    }

    /// The flags of [`Flags::bits`]; `None` if an unknown bit is set.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits < 16).then_some(Self {
            crossed: bits & 1 != 0,
            locked: bits & 2 != 0,
            one_sided: bits & 4 != 0,
            exhausted: bits & 8 != 0,
        })
    }
}

/// Feed state and flags together, as they are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Feed {
    /// The state.
    pub state: FeedState,
    /// The shape of the book.
    pub flags: Flags,
}
