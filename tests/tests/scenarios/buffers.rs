//! What is held back while a book is not known: bounded, never applied in part, never asked for in a loop.
//!
//! Never: a server that starts with a book.

use super::BTC;
use market::FeedState;
use sprag_tests::scenario::{
    Setup, World,
    setup::{Rest, ViewerLink, books},
};

/// A server that starts while its venue has long been running and answers in the given way.
fn started(setup: Setup, rest: Rest) -> (World, usize) {
    let mut world = World::new(setup);
    world.changes_by_chance(BTC, 2_000);
    world.rest(BTC, rest);
    world.start();
    let screen = world.viewer(ViewerLink::FAST, &books());
    (world, screen)
}

/// A14: the venue keeps answering a snapshot older than the first delta.
#[test]
fn a14_a_snapshot_that_stays_older_is_asked_for_with_growing_pauses() {
    let setup = Setup::new("a14_", 1).numbered("BTCUSDT", 1_000).moving(50);
    let (mut world, screen) = started(setup, Rest::Lagging(1_000_000));
    world.run_ms(2_000);
    let early = world.lanes();
    assert!((2..=5).contains(&early.requests), "{early:?}");
    world.run_ms(118_000);
    let late = world.lanes();
    // With doubling pauses from 0.25 s up to 30 s there is room for ten in two minutes.
    assert!((6..=11).contains(&late.requests), "{late:?}");
    assert!(late.refused >= late.requests, "each answer is counted as refused: {late:?}");
    assert_eq!(world.state(screen, BTC), FeedState::Syncing);
    assert!(world.take_versions(screen, BTC).iter().all(|version| version.seq == 0), "nothing is shown");
    world.settle();
}

/// A16: 1,500 deltas before the snapshot, a buffer for about 1,000.
#[test]
fn a16_an_overflow_before_the_snapshot_is_a_gap_and_no_prefix_is_applied() {
    let mut setup = Setup::new("a16_", 1).numbered("BTCUSDT", 1_000);
    setup.limits.held_bytes_max = 200_000;
    let (mut world, screen) = started(setup, Rest::Silent);
    world.run_ms(100);
    for _ in 0..150 {
        world.changes_by_chance(BTC, 10);
        world.run_ms(5);
    }
    assert!(world.lanes().overflows >= 1, "{:?}", world.lanes());
    assert!(world.take_versions(screen, BTC).iter().all(|version| version.seq == 0), "nothing is shown");
    world.rest(BTC, Rest::Current);
    world.run_until("the book is right", 35_000, |world| world.amiss().is_none());
    let versions = world.take_versions(screen, BTC);
    assert_eq!(versions.first().map(|version| version.seq), Some(world.venue_id(BTC)), "{versions:?}");
}

/// A17: the buffer is full, and the snapshot is older than its head.
#[test]
fn a17_a_full_buffer_and_an_older_snapshot_are_no_livelock() {
    let mut setup = Setup::new("a17_", 1).numbered("BTCUSDT", 1_000).moving(2);
    setup.limits.held_bytes_max = 20_000;
    let (mut world, screen) = started(setup, Rest::Lagging(1_000_000));
    world.run_ms(120_000);
    let counts = world.lanes();
    assert!(counts.overflows > 10 && counts.requests <= 12, "{counts:?}");
    assert_eq!(world.state(screen, BTC), FeedState::Syncing);
    world.settle();
}
