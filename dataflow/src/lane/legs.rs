//! Life of the legs: when each was heard last, and whose instruments depend on it.
//!
//! Never: an instrument called stale because of another connection's silence.

use market::{LegId, SymbolId};

#[derive(Debug, Default)]
struct Leg {
    heard_ns: u64,
    silent: bool,
    /// Its connection ended and was not opened again.
    down: bool,
    /// When the venue spoke on it last of its market, and whether it stands still.
    market: Option<(u64, bool)>,
    /// A batch of its stream is missing.
    incomplete: bool,
    instruments: Vec<SymbolId>,
}

/// What legs say of an instrument that they carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LegMarks {
    /// None of them brings anything, or their market stands still.
    pub(super) stale: bool,
    /// A batch of one of them is missing.
    pub(super) incomplete: bool,
}

/// The legs that a lane heard of.
#[derive(Debug)]
pub(super) struct Legs {
    silent_ns: u64,
    legs: Vec<Leg>,
}

impl Legs {
    pub(super) fn new(silent_ns: u64) -> Self {
        Self { silent_ns, legs: Vec::new() }
    }

    fn leg(&mut self, leg: LegId) -> Option<&mut Leg> {
        let at = usize::from(leg.0);
        if self.legs.len() <= at {
            self.legs.resize_with(at + 1, Leg::default);
        }
        self.legs.get_mut(at)
    }

    pub(super) fn heard(&mut self, leg: LegId, now_ns: u64, dirty: &mut Vec<SymbolId>) {
        let Some(leg) = self.leg(leg) else { return };
        leg.heard_ns = leg.heard_ns.max(now_ns);
        if std::mem::replace(&mut leg.silent, false) {
            dirty.extend_from_slice(&leg.instruments);
        }
    }

    pub(super) fn up(&mut self, leg: LegId) {
        if let Some(leg) = self.leg(leg) {
            leg.down = false;
            leg.market = None;
        }
    }

    /// The venue says that its market stands still, or goes on.
    pub(super) fn halted(&mut self, leg: LegId, now_ns: u64, halted: bool, dirty: &mut Vec<SymbolId>) {
        let Some(leg) = self.leg(leg) else { return };
        leg.market = Some((now_ns, halted));
        dirty.extend_from_slice(&leg.instruments);
    }

    /// A batch of the leg's stream is missing, or none is any longer.
    pub(super) fn incomplete(&mut self, leg: LegId, incomplete: bool, dirty: &mut Vec<SymbolId>) {
        let Some(leg) = self.leg(leg) else { return };
        if std::mem::replace(&mut leg.incomplete, incomplete) != incomplete {
            dirty.extend_from_slice(&leg.instruments);
        }
    }

    /// The instruments that a leg carries.
    pub(super) fn carried(&self, leg: LegId) -> &[SymbolId] {
        self.legs.get(usize::from(leg.0)).map(|leg| &*leg.instruments).unwrap_or_default()
    }

    /// The connection ended; gives the instruments that it carried.
    pub(super) fn down(&mut self, leg: LegId, dirty: &mut Vec<SymbolId>) -> Vec<SymbolId> {
        let Some(leg) = self.leg(leg) else { return Vec::new() };
        leg.silent = true;
        leg.down = true;
        leg.market = None;
        dirty.extend_from_slice(&leg.instruments);
        leg.instruments.clone()
    }

    /// Whether every one of some legs is down.
    pub(super) fn down_all(&self, legs: &[LegId]) -> bool {
        legs.iter().all(|leg| self.legs.get(usize::from(leg.0)).is_some_and(|leg| leg.down))
    }

    pub(super) fn join(&mut self, leg: LegId, symbol: SymbolId) {
        if let Some(leg) = self.leg(leg) {
            leg.instruments.push(symbol);
        }
    }

    /// The instrument is no longer carried by a leg.
    pub(super) fn leave(&mut self, leg: LegId, symbol: SymbolId) {
        if let Some(leg) = self.leg(leg) {
            leg.instruments.retain(|held| *held != symbol);
        }
    }

    fn live(&self) -> impl Iterator<Item = &Leg> {
        self.legs.iter().filter(|leg| !leg.silent && leg.heard_ns > 0)
    }

    /// When the next leg counts as silent.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.live().map(|leg| leg.heard_ns.saturating_add(self.silent_ns)).min()
    }

    pub(super) fn expire(&mut self, now_ns: u64, dirty: &mut Vec<SymbolId>) {
        let silent_ns = self.silent_ns;
        for leg in self.legs.iter_mut().filter(|leg| !leg.silent && leg.heard_ns > 0) {
            if now_ns >= leg.heard_ns.saturating_add(silent_ns) {
                leg.silent = true;
                dirty.extend_from_slice(&leg.instruments);
            }
        }
    }

    /// What some legs say of an instrument that they carry.
    pub(super) fn marks(&self, legs: &[LegId]) -> LegMarks {
        let mut known = legs.iter().filter_map(|leg| self.legs.get(usize::from(leg.0)));
        LegMarks { stale: self.silent(legs), incomplete: known.any(|leg| leg.incomplete) }
    }

    /// Whether every one of some legs is silent, or the last word on any of them is that the market stands still: the legs
    /// speak of one market, and one that is down says nothing. An instrument that no leg carried yet is not stale for it.
    pub(super) fn silent(&self, legs: &[LegId]) -> bool {
        let known = || legs.iter().filter_map(|leg| self.legs.get(usize::from(leg.0)));
        let halted = || known().filter_map(|leg| leg.market).max().is_some_and(|(_, halted)| halted);
        !legs.is_empty() && (halted() || known().count() == legs.len() && known().all(|leg| leg.silent))
    }
}
