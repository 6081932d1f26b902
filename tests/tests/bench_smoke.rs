//! The measurements at a tiny size: both ways through the lane must end at the same books, and batches must come through.
//!
//! Never: a time.

use sprag_tests::{
    bench::{
        self, Options,
        batch::{self, BatchOptions},
    },
    process,
};

#[test]
fn both_ways_end_at_the_same_books() {
    for (workers, store, best) in [(1, false, false), (1, false, true), (2, true, true)] {
        let options = Options { updates: 5_000, rounds: 1, workers, instruments: 50, ticks: 100, store, best };
        let report = bench::run(&options, |_| {}).unwrap();
        let standing = report.standing().unwrap();
        let counts = standing.counts;
        // Warm-up and measured updates, one that bridges each snapshot, and one that ends each book.
        assert_eq!(counts.applied + counts.duplicates + counts.regressions + counts.covered, 5_500 + 50 + 50);
        assert!(counts.duplicates + counts.regressions > 20, "{counts:?}");
        assert_eq!((counts.gaps, counts.unrepresentable, counts.unanchored), (0, 0, 0));
        assert!((4_000..=5_000).contains(&standing.live_ticks), "{}", standing.live_ticks);
        assert!(report.text().is_ok() && report.json().is_ok());
    }
}

#[test]
fn a_tiny_block_goes_through_everything() {
    let options = BatchOptions {
        sprag: process::binary().unwrap(),
        rounds: 1,
        warm_up: 1,
        warm_up_ticks: 60,
        bytes: 200_000,
        ticks: 300,
        pairs: 3,
        ticks_per_pair: 50,
    };
    let mut told = 0;
    let report = batch::run(&options, |_| told += 1).unwrap();
    let (blocks, rows) = report.blocks_and_rows();
    assert_eq!((blocks, told), (2, 2));
    assert!((350..2_000).contains(&rows), "{rows}");
    let text = report.text().unwrap();
    assert!(
        text.contains("accepted -> on a receiver's screen") && text.contains("INSERT of the rows, no views"),
        "{text}"
    );
}
