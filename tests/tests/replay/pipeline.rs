//! A capture through the whole pipeline, held against what its venue's rules come to.
//!
//! Never: a difference that is only counted.

use crate::books::{Reader, read};
use connectors::{
    capture::MergedCaptures,
    venue_feed::{FeedCounts, listings::Listings},
};
use market::Venue;
use server::replay::{Kept, ReplayOptions, ReplaySummary, replay};
use sprag_tests::reference::FinalBook;
use std::{collections::BTreeMap, path::Path, sync::Arc};

pub(crate) fn options(venue: Venue, workers: usize) -> ReplayOptions {
    ReplayOptions { venue, workers, legs: Vec::new(), channels: Vec::new(), speed: 0.0, admitted: false }
}

/// The venue of a format of the corpus.
pub(crate) fn venue_of(format: &str) -> Venue {
    format.parse().unwrap()
}

pub(crate) fn run(path: &Path, options: &ReplayOptions) -> (Vec<u8>, ReplaySummary) {
    let captures = MergedCaptures::open(&[path.to_owned()]).unwrap();
    let listings = Listings::new(Arc::default()).with_epochs(foldhash::HashMap::default(), 1);
    let mut out = Vec::new();
    let replayed = replay(captures, options, Arc::new(listings), Kept::default(), &mut out, &mut |_| {});
    let (summary, _) = replayed.unwrap();
    (out, summary)
}

/// What the feed of the only venue counted.
pub(crate) fn feed_counts(summary: &ReplaySummary) -> FeedCounts {
    let [(_, counts)] = summary.feeds.as_slice() else { panic!("one venue is replayed: {:?}", summary.feeds) };
    *counts
}

/// A book that ends as it should, and was crossed nowhere on the way.
pub(crate) fn same(name: &str, reader: &Reader, book: &FinalBook) {
    let (bids, asks) = reader.levels();
    // Not `assert_eq`: thousands of levels would bury the reason.
    for (side, mine, right) in [("bids", &bids, &book.bids), ("asks", &asks, &book.asks)] {
        let differs = mine.iter().zip(right.iter()).position(|(mine, right)| mine != right);
        let at = differs.unwrap_or(mine.len().min(right.len()));
        assert!(
            mine == right,
            "{name}: {side} differ at {at} of {}: {:?} instead of {:?}",
            right.len(),
            mine.get(at),
            right.get(at)
        );
    }
    assert_eq!(reader.crossed, 0, "{name} was crossed");
}

/// All books end as they should, and there are no others.
pub(crate) fn all_same(venue: Venue, lines: &[u8], books: &BTreeMap<String, FinalBook>) -> BTreeMap<String, Reader> {
    let readers = read(lines);
    for (symbol, book) in books {
        let name = format!("{venue}/{symbol}");
        let reader = readers.get(&name).unwrap_or_else(|| panic!("{name} is not among {:?}", readers.keys()));
        same(&name, reader, book);
        if let Some(last) = &book.last_update_id {
            assert_eq!(&reader.seq, last, "{name}");
        }
    }
    let shown = readers.iter().filter(|(_, reader)| reader.version.is_some()).map(|(name, _)| name);
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown.len(), books.len(), "{shown:?}");
    readers
}
