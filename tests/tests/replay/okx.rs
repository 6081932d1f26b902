//! OKX: the same instruments on three sockets, and subscriptions that are made twice.
//!
//! Never: two sockets in one book.

use crate::pipeline::{all_same, feed_counts, options, run};
use market::Venue;
use server::replay::ReplayOptions;
use sprag_tests::{corpus, reference};

const THREE_SOCKETS: &str = "okx/okx_2021-07.frames.jsonl.zst";
const TWO_SNAPSHOTS: &str = "okx/okx_2022-02.frames.jsonl.zst";

#[test]
fn three_legs_are_as_good_as_one() {
    let Some(path) = corpus::file(THREE_SOCKETS) else {
        return println!("corpus absent: skipped {THREE_SOCKETS} (set {} to its directory)", corpus::VARIABLE);
    };
    let three = reference::rebuild("okx", &path).unwrap();
    assert_eq!((three.stats.leg_comparisons, three.stats.leg_mismatches), (2_868, 0));
    let (lines, summary) = run(&path, &options(Venue::Okx, 2));
    all_same(Venue::Okx, &lines, &three.books);
    let applied = summary.lanes.applied;
    for leg in ["ws1", "ws2", "ws3"] {
        let one = reference::rebuild_leg("okx", &path, leg).unwrap();
        for (symbol, book) in &one.books {
            let of_three = &three.books[symbol];
            assert!((&of_three.bids, &of_three.asks) == (&book.bids, &book.asks), "{symbol} on {leg}");
        }
        let alone = ReplayOptions { legs: vec![leg.to_owned()], ..options(Venue::Okx, 2) };
        let (lines, summary) = run(&path, &alone);
        all_same(Venue::Okx, &lines, &one.books);
        assert_eq!(summary.lanes.applied, one.stats.applied, "{leg}");
        println!("okx, {leg} alone: {} updates", summary.lanes.applied);
    }
    println!("okx, three legs: {applied} updates of {}", three.stats.applied);
    assert!(applied * 2 < three.stats.applied, "what the other legs repeat is not applied");
    assert_eq!(feed_counts(&summary).checksums_matched, 4_372);
}

#[test]
fn a_second_snapshot_replaces() {
    let Some(path) = corpus::file(TWO_SNAPSHOTS) else {
        return println!("corpus absent: skipped {TWO_SNAPSHOTS} (set {} to its directory)", corpus::VARIABLE);
    };
    let right = reference::rebuild("okx", &path).unwrap();
    assert_eq!((right.books.len(), right.stats.snapshots), (10, 20));
    let (lines, summary) = run(&path, &options(Venue::Okx, 2));
    let readers = all_same(Venue::Okx, &lines, &right.books);
    let snapshots: Vec<u64> = readers.values().map(|reader| reader.snapshots).collect();
    println!("okx: snapshots shown by instrument {snapshots:?}");
    assert!(snapshots.iter().sum::<u64>() > 10, "{snapshots:?}");
    assert_eq!((summary.lanes.gaps, feed_counts(&summary).checksums_failed), (0, 0));
}
