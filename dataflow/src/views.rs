//! The standing views of each pair, kept by differential dataflow on what lanes say of single books at the close of a cut.
//!
//! Never: fed with anything but the net of a cut; a view whose declaration differs between workers.

use crate::{
    best::held,
    cut::ViewChange,
    operator::{PartRow, ViewRow},
};
use differential_dataflow::{AsCollection, VecCollection};
use market::{SymbolId, ViewKey, ViewPart, ViewRule, ViewValue};
use std::sync::Arc;
use timely::dataflow::{StreamVec, operators::vec::Map};

/// The declared views in the order of their places; the same on every worker.
pub type ViewRules = Arc<[ViewRule]>;

/// The value of each view and pair, as changes: `((key, value), cut, difference)`.
pub(crate) fn views<'scope>(
    parts: StreamVec<'scope, u64, PartRow>,
    rules: &ViewRules,
) -> StreamVec<'scope, u64, ViewRow> {
    if rules.is_empty() {
        // No lane says anything then.
        return parts.flat_map(|_| None);
    }
    let parts: VecCollection<'scope, u64, (ViewKey, (SymbolId, ViewPart)), isize> = parts.as_collection();
    let rules = Arc::clone(rules);
    parts
        .reduce_named("Views", move |key, parts, out| {
            // A book has one part at a time, so each of them stands for one.
            if let Some(rule) = rules.get(key.view.place()) {
                out.push((rule.value(parts.iter().map(|((_, part), _)| part)), 1));
            }
        })
        .inner
}

/// Changes of one cut.
pub(crate) fn changes(cut: u64, rows: &mut Vec<(ViewKey, ViewValue, isize)>) -> Vec<ViewChange> {
    held(rows).into_iter().map(|(key, value)| ViewChange { cut, key, value }).collect()
}
