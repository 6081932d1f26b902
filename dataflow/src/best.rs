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
    held(rows).into_iter().map(|(pair, best)| BestChange { cut, pair, best }).collect()
}

/// What holds of each key after the rows of one cut, by key; none where there are only retractions.
pub(crate) fn held<K: Copy + Ord, V: Copy + Ord>(rows: &mut Vec<(K, V, isize)>) -> Vec<(K, Option<V>)> {
    // A key's new value follows its retraction, so that the last row of a key tells what holds.
    rows.sort_unstable_by_key(|(key, value, difference)| (*key, *difference, *value));
    let mut held: Vec<(K, Option<V>)> = Vec::new();
    for (key, value, difference) in rows.drain(..) {
        let now = (difference > 0).then_some(value);
        match held.last_mut().filter(|(last, _)| *last == key) {
            Some((_, last)) => *last = now,
            None => held.push((key, now)),
        }
    }
    held
}
