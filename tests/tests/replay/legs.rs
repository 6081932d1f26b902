//! Every capture on two legs: what one of them loses the other has, and one that ends is taken over.
//!
//! Never: both legs without the same frame; then nothing could be right.

use crate::{
    frames::{ended, of, second_leg, without, write},
    pipeline::{all_same, feed_counts, options, run, venue_of},
};
use sprag_tests::{
    corpus,
    reference::{self, Reconstruction},
};
use std::path::{Path, PathBuf};

/// How far the second leg is behind.
const BEHIND_NS: u64 = 6_000_000;

/// Of the first leg every so many frames are lost, and of the second others.
const LOST_EVERY: usize = 7;

fn each(format: &str, test: impl Fn(&Path, &Reconstruction)) {
    // The captures of 2024 are as good as the others here, but thirty times as long.
    let files: Vec<PathBuf> =
        corpus::captures(format).into_iter().filter(|path| !corpus::name_of(path).contains("2024")).collect();
    if files.is_empty() {
        println!("corpus absent: skipped the legs of {format} (set {} to its directory)", corpus::VARIABLE);
    }
    for path in files {
        test(&path, &reference::rebuild(format, &path).unwrap());
    }
}

/// What a snapshot contained comes once more on the second leg when the book has gone on; that alone may go back.
fn older_than_a_snapshot(right: &Reconstruction, regressions: u64) {
    assert!(regressions <= right.stats.dropped_before_snapshot, "{regressions} updates went back");
}

/// Ids of the venue: both legs are one stream, and each fills the holes of the other.
fn legs_fill_the_holes_of_each_other(format: &str) {
    let venue = venue_of(format);
    assert!(venue.numbers_updates());
    each(format, |path, right| {
        let frames = of(path);
        let mut legs = without(&frames, |place| place % LOST_EVERY == 3);
        legs.extend(second_leg(&without(&frames, |place| place % LOST_EVERY == 5), BEHIND_NS));
        let file = write(legs);
        let (lines, summary) = run(file.path(), &options(venue, 2));
        let lanes = summary.lanes;
        let name = corpus::name_of(path);
        println!("{name}: {} applied, {} held, {} duplicates", lanes.applied, lanes.held, lanes.duplicates);
        let readers = all_same(venue, &lines, &right.books);
        assert!(readers.values().all(|reader| reader.gapped == 0), "{name}");
        assert_eq!((lanes.gaps, lanes.resyncs, lanes.resets, summary.dead_letters), (0, 0, 0, 0), "{name}");
        older_than_a_snapshot(right, lanes.regressions);
        // Deribit's options are too quiet for one message to come while another is missing.
        assert!(lanes.duplicates > 0 && (lanes.held > 0 || format == "deribit"), "{name}: {lanes:?}");
    });
}

/// The first leg ends in the middle, for good: the second goes on, with ids of the venue or without.
fn a_leg_that_ends_is_taken_over(format: &str) {
    let venue = venue_of(format);
    each(format, |path, right| {
        let frames = of(path);
        let (first, last) = (frames.first().unwrap().ts_ns, frames.last().unwrap().ts_ns);
        let middle = first.midpoint(last);
        let mut legs = ended(&frames, middle);
        legs.extend(second_leg(&frames, BEHIND_NS));
        let file = write(legs);
        let (lines, summary) = run(file.path(), &options(venue, 2));
        let (lanes, feed) = (summary.lanes, feed_counts(&summary));
        let name = corpus::name_of(path);
        println!("{name}: {} applied, {} switches", lanes.applied, feed.switches);
        let readers = all_same(venue, &lines, &right.books);
        let gapped: u64 = readers.values().map(|reader| reader.gapped).sum();
        // A Kraken capture ends subscriptions, on both legs; nothing else may leave a mark.
        let ended = if format == "kraken_v2" { right.stats.snapshots - 1 } else { 0 };
        assert!(lanes.gaps <= ended && (ended > 0 || gapped == 0), "{name}: {} gaps, {gapped} lines", lanes.gaps);
        assert_eq!((lanes.resets, lanes.unrepresentable, summary.dead_letters), (0, 0, 0), "{name}");
        older_than_a_snapshot(right, lanes.regressions);
        // Without ids another book is shown in place of the one that ended; with them nothing changes.
        assert_eq!(feed.switches > 0, right.books.values().all(|book| book.last_update_id.is_none()), "{name}");
    });
}

macro_rules! table {
    ($test:ident: $($format:ident),* $(,)?) => {
        mod $test {
            $(
                #[test]
                fn $format() {
                    super::$test(stringify!($format));
                }
            )*
        }
    };
}

// Not Bitstamp: its times do not chain, so nothing holds a later difference back for one that is missing.
table! { legs_fill_the_holes_of_each_other: binance_spot, binance_usdm, deribit, kraken_futures, kucoin }

table! {
    a_leg_that_ends_is_taken_over:
    binance_spot, binance_usdm, bitfinex, bitget, bitmex, bitstamp, coinbase, deribit, dydx_v3, gemini, kraken_futures,
    kraken_v1, kraken_v2, kucoin, okx,
}
