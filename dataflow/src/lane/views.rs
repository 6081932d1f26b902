//! What a book adds to the standing views of its pair, told at the close of a cut that moved it.
//!
//! Never: a look at a book without a view, or at one that stands still.

use market::{PairId, SymbolId, ViewId, ViewKey, ViewPart, ViewRule, Views};

/// What a book added to a view before, and what it adds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartChange {
    /// The view, and the pair.
    pub key: ViewKey,
    /// The instrument.
    pub symbol: SymbolId,
    /// What it added, if anything.
    pub before: Option<ViewPart>,
    /// What it adds, if anything.
    pub now: Option<ViewPart>,
}

/// What was told of one instrument last.
#[derive(Debug)]
pub(super) struct Parts {
    views: Views,
    pair: PairId,
    /// One for each view that adds something now.
    told: Vec<(ViewId, ViewPart)>,
}

impl Parts {
    pub(super) fn new(views: Views, pair: PairId) -> Self {
        Self { views, pair, told: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Looks at every view of the pair and tells those whose part is another one.
    pub(super) fn look(
        &mut self,
        symbol: SymbolId,
        rules: &[ViewRule],
        part: impl Fn(ViewRule) -> Option<ViewPart>,
        out: &mut Vec<PartChange>,
    ) {
        let mut now_told = Vec::with_capacity(self.told.len());
        for view in self.views.iter() {
            let Some(rule) = rules.get(view.place()) else { continue };
            let now = part(*rule);
            let before = self.told.iter().find(|(told, _)| *told == view).map(|(_, part)| *part);
            if before != now {
                out.push(PartChange { key: ViewKey { view, pair: self.pair }, symbol, before, now });
            }
            now_told.extend(now.map(|part| (view, part)));
        }
        self.told = now_told;
    }
}
