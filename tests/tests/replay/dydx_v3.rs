//! dYdX v3: messages come out of order, and the books are right all the same.
//!
//! Never: the order of arrival trusted.

use crate::{
    frames::{of, write},
    pipeline::{all_same, feed_counts, options, run},
};
use connectors::raw::{RawFrame, RawKind, RawPayload};
use market::Venue;
use sprag_tests::{
    corpus,
    reference::{self, Reconstruction},
};
use std::{collections::BTreeMap, path::Path};

const CAPTURE: &str = "dydx_v3/dydx_v3_2021-06.frames.jsonl.zst";

/// How late a message is made at most, in nanoseconds: later than any in the capture, and sooner than one that is lost.
const LATE_NS_MAX: u64 = 100_000_000;

fn rebuilt(path: &Path) -> Reconstruction {
    reference::rebuild("dydx_v3", path).unwrap()
}

/// The changes of books in another order, at the times that were theirs; all else stays where it was.
fn shuffled(frames: &[RawFrame], seed: u64) -> Vec<RawFrame> {
    let changes = |frame: &RawFrame| {
        let RawPayload::Text(text) = &frame.raw else { return false };
        frame.kind == RawKind::Ws && text.contains(r#""type":"channel_data""#)
    };
    let (moving, mut rest): (Vec<RawFrame>, Vec<RawFrame>) = frames.iter().cloned().partition(changes);
    let times: Vec<u64> = moving.iter().map(|frame| frame.ts_ns).collect();
    let mut chance = seed;
    let late = |frame: RawFrame| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (frame.ts_ns + (chance >> 33) % LATE_NS_MAX, frame)
    };
    let mut ranked: Vec<(u64, RawFrame)> = moving.into_iter().map(late).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    rest.extend(ranked.into_iter().zip(times).map(|((_, frame), ts_ns)| RawFrame { ts_ns, ..frame }));
    rest
}

#[test]
fn offsets_go_back_in_more_than_a_hundred_updates_and_the_books_are_right() {
    let Some(path) = corpus::file(CAPTURE) else {
        return println!("corpus absent: skipped {CAPTURE} (set {} to its directory)", corpus::VARIABLE);
    };
    let right = rebuilt(&path);
    let (lines, summary) = run(&path, &options(Venue::DydxV3, 1));
    all_same(Venue::DydxV3, &lines, &right.books);
    let counted = (right.stats.applied, right.stats.out_of_order, feed_counts(&summary).suppressed);
    println!("dydx_v3: of {} updates {} went back, {} levels suppressed", counted.0, counted.1, counted.2);
    // As it was recorded no late message met a level that was newer than it.
    assert_eq!(counted, (2_120, 115, 0));
}

#[test]
fn in_any_order_the_books_end_the_same_and_older_levels_are_suppressed() {
    let Some(path) = corpus::file(CAPTURE) else {
        return println!("corpus absent: skipped {CAPTURE} (set {} to its directory)", corpus::VARIABLE);
    };
    let (frames, right) = (of(&path), rebuilt(&path));
    for seed in 1..=3 {
        let file = write(shuffled(&frames, seed));
        let Reconstruction { books, stats: told } = rebuilt(file.path());
        let ends = |books: &BTreeMap<String, reference::FinalBook>| -> Vec<_> {
            books.iter().map(|(symbol, book)| (symbol.clone(), book.bids.clone(), book.asks.clone())).collect()
        };
        assert!(ends(&books) == ends(&right.books), "the rule itself does not depend on the order");
        let (lines, summary) = run(file.path(), &options(Venue::DydxV3, 2));
        let suppressed = feed_counts(&summary).suppressed;
        println!("dydx_v3, order {seed}: {} went back, {suppressed} levels suppressed", told.out_of_order);
        let readers = crate::books::read(&lines);
        for (symbol, book) in &right.books {
            assert!(
                readers[&format!("dydx_v3/{symbol}")].levels() == (book.bids.clone(), book.asks.clone()),
                "{symbol}"
            );
        }
        assert!(told.out_of_order > 115 && suppressed > 0);
        assert_eq!((suppressed, summary.lanes.gaps), (told.suppressed, 0));
    }
}
