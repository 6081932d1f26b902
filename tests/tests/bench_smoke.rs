//! The lane's measurement at a tiny size: both ways must end at the same books.
//!
//! Never: a time.

use sprag_tests::bench::{self, Options};

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
