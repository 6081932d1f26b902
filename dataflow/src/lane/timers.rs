//! Which instruments have something due at which cut.
//!
//! Never: more than one entry that counts per instrument; later ones found early are simply looked at again.

use market::SymbolId;
use std::collections::BTreeMap;

/// Instruments by the cut at which they must be looked at.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<u64, Vec<SymbolId>>,
}

impl Timers {
    pub(super) fn schedule(&mut self, cut: u64, symbol: SymbolId) {
        self.due.entry(cut).or_default().push(symbol);
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.due.keys().next().copied()
    }

    /// Moves everything due by a cut.
    pub(super) fn due(&mut self, cut: u64, out: &mut Vec<SymbolId>) {
        while let Some(entry) = self.due.first_entry() {
            if *entry.key() > cut {
                return;
            }
            out.append(&mut entry.remove());
        }
    }
}
