//! Terminals that join, lag, lose frames and come back.
//!
//! Never: a delta over a base that a terminal does not hold; the runner stops at one.

use super::{BTC, bid, level};
use market::{FeedState, Version};
use sprag_tests::scenario::{
    Setup, World,
    setup::{MS, Rest, SECOND, ViewerLink, ahead, books},
};

/// Two screens with one subscription, the second of which asks when the hub is ahead of the first one's frame.
#[test]
fn joins_at_v105_into_a_group_framed_at_v100() {
    let mut between = 0;
    for shift in 0..10 {
        let setup = Setup::new("joins_at_v105_into_a_group_framed_at_v100", 1).numbered("BTCUSDT", 95);
        let (mut world, first) = World::live(setup, ViewerLink::FAST);
        world.changes_by_chance(BTC, 5);
        let second = world.viewer(ViewerLink::FAST, &[]);
        world.run_ms(200 + 4 * shift);
        assert_eq!(world.book(first, BTC).unwrap().version, Version::new(0, 100));
        world.take_versions(first, BTC);
        world.changes_by_chance(BTC, 5);
        world.run_until("the hub is at v105", 20, |world| world.hub_version(BTC) == Some(Version::new(0, 105)));
        between += usize::from(world.book(first, BTC).unwrap().version == Version::new(0, 100));
        world.subscribe(second, &books());
        world.changes_by_chance(BTC, 1);
        world.run_ms(200);
        let joined = world.take_versions(second, BTC);
        assert!(joined.first() >= Some(&Version::new(0, 105)), "{joined:?}");
        for viewer in [first, second] {
            assert_eq!(world.book(viewer, BTC).unwrap().version, Version::new(0, 106));
            assert_eq!(world.session(viewer).counters().deltas_refused, 0);
        }
        world.changes_by_chance(BTC, 1);
        world.settle();
    }
    assert!(between >= 5, "the hub was ahead of the frame in {between} of 10 cases");
}

/// A level goes from A to B and back inside one frame, and somebody joins while it is B.
#[test]
fn a_b_a_across_a_join() {
    for shift in 0..10 {
        let setup = Setup::new("a_b_a_across_a_join", 1).numbered("BTCUSDT", 100);
        let (mut world, first) = World::live(setup, ViewerLink::FAST);
        let second = world.viewer(ViewerLink::FAST, &[]);
        world.run_ms(200 + 4 * shift);
        world.change(BTC, &[bid(9_999, 777)]);
        world.run_until("the hub has B", 20, |world| world.hub_version(BTC) == Some(Version::new(0, 101)));
        world.subscribe(second, &books());
        world.run_ms(3);
        world.change(BTC, &[bid(9_999, 100)]);
        world.run_ms(200);
        for viewer in [first, second] {
            let book = world.book(viewer, BTC).unwrap();
            assert_eq!((book.version, book.bids[0]), (Version::new(0, 102), level(9_999, 100)));
        }
        world.settle();
    }
}

/// An order ticket shows each change as it happens, ahead of the frame that has it too, and goes on when the cuts stand
/// still; what comes later with a frame turns nothing back.
#[test]
fn priority_ahead_of_frames() {
    let setup = Setup::new("priority_ahead_of_frames", 1).numbered("BTCUSDT", 1_000);
    let (mut world, frames) = World::live(setup, ViewerLink::FAST);
    let ticket = world.viewer(ViewerLink::FAST, &[ahead(), books()].concat());
    world.run_until("the ticket has its book", 500, |world| world.amiss().is_none());
    world.take_versions(ticket, BTC);
    world.take_versions(frames, BTC);
    for seq in 1_001..=1_030 {
        // Half of the time a cut takes up to half a second to be complete.
        world.lag_workers(if seq > 1_015 { 500 * MS } else { 0 });
        world.changes_by_chance(BTC, 1);
        let shown = |world: &World| world.book(ticket, BTC).map(|book| book.version) == Some(Version::new(0, seq));
        let took_ms = world.run_until("the ticket shows it", 100, shown);
        assert!(took_ms <= 10, "{seq} after {took_ms} ms");
        world.run_ms(7);
    }
    let right: Vec<_> = (1_001..=1_030).map(|seq| Version::new(0, seq)).collect();
    assert_eq!(world.take_versions(ticket, BTC), right);
    world.run_ms(1_000);
    let framed = world.take_versions(frames, BTC);
    assert!(framed.len() < 20 && framed.last() == right.last(), "{framed:?}");
    assert_eq!(world.take_versions(ticket, BTC), [], "the frames brought nothing new");
    for viewer in [frames, ticket] {
        let counters = world.session(viewer).counters();
        assert_eq!((counters.deltas_refused, counters.regressions_refused), (0, 0));
    }
    world.cut_viewer(ticket, SECOND);
    world.mend(ticket);
    world.settle();
}

/// Marks change without a version: a chain that begins while a book is GAPPED, or begins anew, must not call it LIVE.
#[test]
fn a_priority_chain_does_not_unsay_a_mark() {
    let setup = Setup::new("a_priority_chain_does_not_unsay_a_mark", 1).numbered("BTCUSDT", 1_000);
    let (mut world, _) = World::live(setup.numbered("ETHUSDT", 1_000).moving(20), ViewerLink::FAST);
    let first = world.viewer(ViewerLink::FAST, &[ahead(), books()].concat());
    world.run_ms(200);
    world.changes_by_chance(BTC, 3);
    world.run_ms(200);
    world.rest(BTC, Rest::Silent);
    world.overflow(BTC);
    world.run_ms(500);
    let second = world.viewer(ViewerLink::FAST, &ahead());
    world.run_ms(500);
    assert_eq!([first, second].map(|viewer| world.state(viewer, BTC)), [FeedState::Gapped; 2]);
    // Long enough for both rings to be emptied, too short for the link to count as silent.
    [first, second].into_iter().for_each(|viewer| world.stall(viewer, 2_800 * MS));
    world.run_ms(4_000);
    assert!(world.gaps(first) > 0 && world.gaps(second) > 0);
    assert_eq!([first, second].map(|viewer| world.state(viewer, BTC)), [FeedState::Gapped; 2]);
    world.settle();
}

/// A link of 64 kbit/s cannot carry what happens: the ring overflows, the screen is told of the gap and begins anew on
/// the same connection, and is never shown old frames.
#[test]
fn dropped_frame_1_of_65_at_64_kbit_per_s() {
    let mut setup = Setup::new("dropped_frame_1_of_65_at_64_kbit_per_s", 1);
    for symbol in ["AUSDT", "BUSDT", "CUSDT", "DUSDT", "EUSDT", "FUSDT", "GUSDT", "HUSDT", "IUSDT", "JUSDT"] {
        setup = setup.numbered(symbol, 1_000).moving(1_000);
    }
    let (mut world, fast) = World::live(setup, ViewerLink::FAST);
    let slow = world.viewer(ViewerLink::kbit(64), &books());
    world.run_until("the slow screen has its books", 5_000, |world| world.amiss().is_none());
    let connection = world.connection(slow);
    for _ in 0..400 {
        (0..10).for_each(|market| world.changes_by_chance(market, 12));
        world.run_ms(40);
    }
    assert!(world.gaps(slow) > 0, "no gap was told");
    assert_eq!((world.gaps(fast), world.session(fast).counters().deltas_refused), (0, 0));
    world.settle();
    assert_eq!(world.connection(slow), connection, "still the same connection");
    assert_eq!(world.session(slow).counters().regressions_refused, 0);
}

/// A screen whose link carries nothing for ten seconds says so, and then shows what is true, not what was.
#[test]
fn a_link_that_stalls_is_silent_and_then_right() {
    let setup = Setup::new("a_link_that_stalls_is_silent_and_then_right", 1).numbered("BTCUSDT", 1_000).moving(20);
    let (mut world, screen) = World::live(setup, ViewerLink::kbit(256));
    world.run_ms(1_000);
    world.take_states(screen, BTC);
    world.stall(screen, 10 * SECOND);
    world.run_ms(4_500);
    assert_eq!(world.take_states(screen, BTC), [FeedState::Stale]);
    world.settle();
}

/// The server does not see at once that a terminal is gone, and the terminal is back before it does.
#[test]
fn back_before_the_server_has_noticed() {
    let setup = Setup::new("back_before_the_server_has_noticed", 1).numbered("BTCUSDT", 1_000).moving(20);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    for _ in 0..5 {
        world.run_ms(500);
        world.cut_viewer(screen, 3 * SECOND);
        world.mend(screen);
    }
    world.settle();
}
