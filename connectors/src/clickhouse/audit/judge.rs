//! Who is wrong where `tick_state` and the live book differ, and what is to be done. The history is the third witness.
//!
//! Never: input or output; a live book overruled without a fresh word of its source.

use super::compare::{Kind, Suspect, TickName};
use foldhash::HashMap;
use market::{FeedState, Scale, SymbolId, U256, Version};

/// Ticks of which something is remembered from one audit to the next; beyond it the next audit begins anew with them.
pub(super) const REMEMBERED_MAX: usize = 10_000;

/// What `tick_updates` says last of a tick, at a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The version of its last row, and what all rows of that version say; none if it was never named since the last whole
    /// book.
    pub last: Option<(Version, Vec<(U256, Scale)>)>,
    /// There is a row at the very version of the row in `tick_state`.
    pub has_row: bool,
}

impl History {
    /// Whether a tick with these reserves, zero for none, is what the history says. Rows of one version may say two things,
    /// where one event names a tick twice or somebody added a row; then it says both.
    #[must_use]
    pub fn says(&self, reserves: U256, scale: Scale) -> bool {
        let Some((_, rows)) = &self.last else { return reserves.is_zero() };
        rows.iter().any(|(said, of)| *said == reserves && (reserves.is_zero() || *of == scale))
    }

    /// The one row that is shown as evidence: the one that agrees with the live book, if there is one.
    #[must_use]
    pub fn shown(&self, live: U256) -> Option<(Version, U256, Scale)> {
        let (version, rows) = self.last.as_ref()?;
        let agreeing = rows.iter().find(|(said, _)| *said == live);
        agreeing.or_else(|| rows.first()).map(|(said, scale)| (*version, *said, *scale))
    }
}

/// Who is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The row in `tick_state`.
    StoreWrong,
    /// Perhaps the live book.
    LiveInDoubt,
}

impl Verdict {
    /// Both.
    pub const ALL: [Self; 2] = [Self::StoreWrong, Self::LiveInDoubt];

    /// The column's text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StoreWrong => "store_wrong",
            Self::LiveInDoubt => "live_in_doubt",
        }
    }
}

/// The verdict of the three witnesses alone.
#[must_use]
pub fn judge(suspect: &Suspect, scale: Scale, history: &History) -> Verdict {
    match suspect.kind {
        Kind::Ahead => Verdict::StoreWrong,
        _ if history.says(suspect.live, scale) => Verdict::StoreWrong,
        _ => Verdict::LiveInDoubt,
    }
}

/// What an audit remembers for the next one.
#[derive(Debug, Default)]
pub struct Memory {
    /// Rows that were ahead.
    ahead: HashMap<(SymbolId, TickName), Version>,
    /// Ticks in doubt, with how often the book had been rebuilt when they were.
    doubted: HashMap<(SymbolId, TickName), u64>,
}

/// What is known of the instrument besides its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The instrument.
    pub symbol: SymbolId,
    /// The steps of the live book.
    pub scale: Scale,
    /// What is shown of its feed, at the copy and after the read.
    pub states: [FeedState; 2],
    /// How often a snapshot has replaced its book.
    pub rebuilds: u64,
    /// Versions from here on may be those of another host, which reserved a block of epochs after ours.
    pub others_from: Option<u64>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// The row is written again from the live book.
    Rewrite,
    /// The same, although the history speaks against the live book: a fresh snapshot has confirmed it.
    Confirmed,
    /// The row is removed, and written again from the live book.
    Remove,
    /// The source is asked for the book.
    Resync,
    /// The source was asked already, and has not answered.
    Awaits,
    /// A row that is ahead for the first time: the next audit tells whether somebody of us wrote it.
    Watch,
    /// A row that is ahead, and may be another host's.
    Foreign,
    /// A row that is ahead of a book that does not follow its source.
    Behind,
}

impl Ruling {
    /// Who is wrong.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Resync | Self::Awaits => Verdict::LiveInDoubt,
            _ => Verdict::StoreWrong,
        }
    }
}

impl Memory {
    /// Begins the next audit of an instrument: what it is remembered for, taken out. What is found again is noted anew.
    pub fn recall(&mut self, symbol: SymbolId) -> Self {
        let mut recalled = Self::default();
        let of = |known: &(SymbolId, TickName)| known.0 == symbol;
        recalled.ahead.extend(self.ahead.extract_if(|known, _| of(known)));
        recalled.doubted.extend(self.doubted.extract_if(|known, _| of(known)));
        recalled
    }

    fn note<T>(notes: &mut HashMap<(SymbolId, TickName), T>, symbol: SymbolId, name: &TickName, value: T) {
        if notes.len() < REMEMBERED_MAX {
            notes.insert((symbol, name.clone()), value);
        }
    }
}

/// Rules on a suspect, given what the last audit of the instrument remembered; notes what the next one must know.
pub fn rule(suspect: &Suspect, history: &History, facts: &Facts, before: &Memory, memory: &mut Memory) -> Ruling {
    let known = (facts.symbol, suspect.name.clone());
    if suspect.kind == Kind::Ahead {
        let version = suspect.state.map_or(Version::default(), |row| row.version);
        Memory::note(&mut memory.ahead, facts.symbol, &suspect.name, version);
        return if before.ahead.get(&known) != Some(&version) {
            Ruling::Watch
        } else if facts.states.iter().any(|state| *state != FeedState::Live) {
            Ruling::Behind
        } else if facts.others_from.is_some_and(|first| version.epoch >= first) {
            Ruling::Foreign
        } else {
            Ruling::Remove
        };
    }
    if judge(suspect, facts.scale, history) == Verdict::StoreWrong {
        return Ruling::Rewrite;
    }
    match before.doubted.get(&known) {
        Some(rebuilds) if facts.rebuilds > *rebuilds => Ruling::Confirmed,
        Some(rebuilds) => {
            Memory::note(&mut memory.doubted, facts.symbol, &suspect.name, *rebuilds);
            Ruling::Awaits
        }
        None => {
            Memory::note(&mut memory.doubted, facts.symbol, &suspect.name, facts.rebuilds);
            Ruling::Resync
        }
    }
}

#[cfg(test)]
mod tests;
