//! The consolidated best of each pair across venues, kept by differential dataflow on the conflated quotes.
//!
//! Never: fed with anything but net quotes per cut; un-conflated upserts cost many times as much.

use crate::{cut::BestChange, operator::QuoteRow};
use differential_dataflow::{AsCollection, VecCollection};
use market::{Best, PairId};
use timely::dataflow::StreamVec;

/// The best of each pair, as changes: `((pair, best), cut, difference)`.
pub(crate) fn best<'scope>(quotes: StreamVec<'scope, u64, QuoteRow>) -> StreamVec<'scope, u64, QuoteRow> {
    let candidates: VecCollection<'scope, u64, (PairId, Best), isize> = quotes.as_collection();
    candidates
        .reduce_named("Best", |_pair, candidates, out| {
            let merged = candidates.iter().fold(Best::default(), |best, (candidate, _)| best.merge(**candidate));
            out.push((merged, 1));
        })
        .inner
}

/// Changes of one cut, told apart from the retractions that come with them.
pub(crate) fn changes(cut: u64, rows: &mut Vec<(PairId, Best, isize)>) -> Vec<BestChange> {
    // A pair's new best follows its retraction, so that the last row of a pair tells what holds.
    rows.sort_unstable_by_key(|(pair, best, difference)| (*pair, *difference, *best));
    let mut changes: Vec<BestChange> = Vec::new();
    for (pair, best, difference) in rows.drain(..) {
        let change = BestChange { cut, pair, best: (difference > 0).then_some(best) };
        match changes.last_mut().filter(|last| last.pair == pair) {
            Some(last) => *last = change,
            None => changes.push(change),
        }
    }
    changes
}
