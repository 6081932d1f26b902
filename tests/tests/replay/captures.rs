//! Each capture as it was recorded: the same lines at any number of workers, and the books that the venue's rules come to.
//!
//! Never: a venue without a line in the table.

use crate::pipeline::{all_same, feed_counts, options, run, venue_of};
use sprag_tests::{
    corpus,
    reference::{self, FORMATS},
};
use std::path::Path;

/// Replays all captures of a format.
fn ends_as_its_reconstruction(format: &str) {
    let files = corpus::captures(format);
    if files.is_empty() {
        return println!("corpus absent: skipped {format} (set {} to its directory)", corpus::VARIABLE);
    }
    files.iter().for_each(|path| check(format, path));
}

fn check(format: &str, path: &Path) {
    let (venue, name) = (venue_of(format), corpus::name_of(path));
    let right = reference::rebuild(format, path).unwrap();
    let (lines, summary) = run(path, &options(venue, 1));
    let (lanes, feed) = (summary.lanes, feed_counts(&summary));
    println!(
        "{name}: {} books, {} updates, {} checksums, {} trades, {} suppressed",
        right.books.len(),
        lanes.applied,
        feed.checksums_matched,
        lanes.trades,
        feed.suppressed
    );
    all_same(venue, &lines, &right.books);
    for workers in [2, 4] {
        assert!(run(path, &options(venue, workers)).0 == lines, "{name}: {workers} workers differ");
    }
    assert_eq!((summary.dead_letters, feed.undecodable), (0, 0), "{name}");
    // The Kraken captures end subscriptions and begin them anew: each end is told as a gap, each new book heals it.
    let (snapshots, books) = (right.stats.snapshots, u64::try_from(right.books.len()).unwrap());
    let ended = if format == "kraken_v2" { snapshots - books } else { 0 };
    assert_eq!((lanes.gaps, lanes.resyncs, lanes.resets, lanes.overflows), (ended, ended, 0, 0), "{name}");
    assert_eq!((lanes.regressions, lanes.duplicates, lanes.unrepresentable), (0, 0, 0), "{name}");
    assert_eq!((feed.checksums_matched, feed.checksums_failed), (right.stats.checksum_matches, 0), "{name}");
    assert_eq!((feed.missing, feed.suppressed, feed.switches), (0, right.stats.suppressed, 0), "{name}");
    // Of several sockets one is shown; and snapshots, which Kraken v2's rules count among the updates, are none here.
    let applied: u64 = right.books.values().map(|book| book.applied).sum();
    let updates = if format == "kraken_v2" { applied - snapshots } else { applied };
    assert_eq!(lanes.applied, updates - right.stats.told_again, "{name}");
}

macro_rules! table {
    ($($format:ident),* $(,)?) => {
        $(
            #[test]
            fn $format() {
                ends_as_its_reconstruction(stringify!($format));
            }
        )*

        #[test]
        fn every_format_is_replayed() {
            let mut tested = vec![$(stringify!($format)),*];
            let mut known = FORMATS.to_vec();
            tested.sort_unstable();
            known.sort_unstable();
            assert_eq!(tested, known);
        }
    };
}

table! {
    binance_spot,
    binance_usdm,
    bitfinex,
    bitget,
    bitmex,
    bitstamp,
    coinbase,
    deribit,
    dydx_v3,
    gemini,
    kraken_futures,
    kraken_v1,
    kraken_v2,
    kucoin,
    okx,
}
