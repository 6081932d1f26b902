//! The standing views as they are at the last complete cut.
//!
//! Never: more of them than views times pairs, whose numbers are bounded.

use market::{PairId, ViewId, ViewKey, ViewValue};
use std::collections::BTreeMap;

/// A standing view of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldView {
    /// Its value; none when no book is in it any longer.
    pub value: Option<ViewValue>,
    /// The cut that it holds since.
    pub cut: u64,
    /// The end of that cut, Unix nanoseconds.
    pub at_ns: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct HeldViews {
    held: BTreeMap<ViewKey, HeldView>,
}

impl HeldViews {
    pub(super) fn set(&mut self, key: ViewKey, held: HeldView) {
        self.held.insert(key, held);
    }

    pub(super) fn get(&self, key: ViewKey) -> Option<HeldView> {
        self.held.get(&key).copied()
    }

    pub(super) fn of(&self, view: ViewId) -> impl Iterator<Item = (PairId, HeldView)> {
        let [first, last] = [0, u32::MAX].map(|pair| ViewKey { view, pair: PairId(pair) });
        self.held.range(first..=last).map(|(key, held)| (key.pair, *held))
    }
}
