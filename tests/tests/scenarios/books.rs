//! One book against its venue: holes, snapshots that lag or differ, ids that restart, legs that change.
//!
//! Never: a version in a test that the venue did not give.

use super::{BTC, ETH, bid, level};
use market::{FeedState, Version};
use sprag_tests::scenario::{
    Setup, World,
    setup::{MS, Rest, ViewerLink},
};
use std::collections::BTreeSet;

#[test]
fn lagging_rest_after_a_hole() {
    let setup = Setup::new("lagging_rest_after_a_hole", 1).numbered("BTCUSDT", 1_000);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 5);
    world.run_ms(100);
    let before = world.book(screen, BTC).unwrap();
    assert_eq!(before.version, Version::new(0, 1_005));
    world.take_states(screen, BTC);
    world.take_versions(screen, BTC);

    // 1,006 is lost on both legs, and every answer of the venue is from before what is shown.
    world.rest(BTC, Rest::Lagging(5));
    world.lose(0, 1);
    world.lose(1, 1);
    world.changes_by_chance(BTC, 3);
    world.run_ms(5_000);
    assert_eq!(world.take_states(screen, BTC), [FeedState::Gapped]);
    assert_eq!(world.book(screen, BTC).as_ref(), Some(&before), "the last right book stays readable");
    assert!(world.lanes().refused >= 3, "{:?}", world.lanes());

    world.rest(BTC, Rest::Current);
    world.run_until("the book is right", 10_000, |world| world.amiss().is_none());
    assert_eq!(world.take_versions(screen, BTC), [Version::new(0, 1_008)]);
    assert_eq!((world.lanes().gaps, world.lanes().resets), (1, 0));
}

#[test]
fn snapshot_equal_to_the_shown_version_with_the_same_content() {
    let setup = Setup::new("snapshot_equal_to_the_shown_version", 1).numbered("BTCUSDT", 1_000);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 5);
    world.run_ms(100);
    world.take_states(screen, BTC);
    world.take_versions(screen, BTC);
    world.overflow(BTC);
    world.run_ms(1_000);
    assert_eq!(world.take_states(screen, BTC), [FeedState::Gapped, FeedState::Live]);
    assert_eq!(world.take_versions(screen, BTC), [], "nothing to show anew");
    assert_eq!(world.book(screen, BTC).unwrap().version, Version::new(0, 1_005));
}

#[test]
fn snapshot_equal_to_the_shown_version_with_other_content() {
    let setup = Setup::new("snapshot_equal_to_the_shown_version", 1).numbered("BTCUSDT", 1_000);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.forgive(BTC);
    world.tell_wrongly(BTC, bid(9_999, 500), bid(9_999, 1));
    world.run_ms(100);
    let wrong = world.book(screen, BTC).unwrap();
    assert_eq!((wrong.version, wrong.bids[0]), (Version::new(0, 1_001), level(9_999, 1)));
    world.take_versions(screen, BTC);

    world.overflow(BTC);
    world.run_ms(1_000);
    let right = world.book(screen, BTC).unwrap();
    assert_eq!(right.bids[0], level(9_999, 500));
    assert_eq!(world.take_versions(screen, BTC), [right.version], "one bump, and nothing in between");
    assert!(right.version.epoch > 0 && right.version.seq == 1_001, "{}", right.version);

    // The new epoch goes on by the same ids.
    world.changes_by_chance(BTC, 3);
    world.run_until("the book goes on", 1_000, |world| world.amiss().is_none());
    assert_eq!(world.book(screen, BTC).unwrap().version, Version::new(right.version.epoch, 1_004));
}

/// Without ids, leg B takes the stream over with the book that it held beside, in a new epoch, once A is gone; and A,
/// when it comes back, stands by.
#[test]
fn standby_leg_taking_over_a_synthesized_stream() {
    let setup = Setup::new("standby_leg_taking_over_a_synthesized_stream", 1).window("BTC/USD").moving(20);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.run_ms(1_000);
    let before = world.book(screen, BTC).unwrap().version;
    world.take_states(screen, BTC);
    let active = first_leg(&world);
    world.close_leg(active);
    world.run_ms(1_000);
    assert_eq!(world.take_states(screen, BTC), [], "LIVE all along");
    let after = world.book(screen, BTC).unwrap().version;
    assert_eq!(after.epoch, before.epoch + 1, "{before} then {after}");

    world.open_leg(active);
    world.run_ms(3_000);
    assert_eq!(world.take_states(screen, BTC), []);
    assert_eq!(world.book(screen, BTC).unwrap().version.epoch, after.epoch);
    world.settle();
}

/// The same while the standby's book is known to be wrong: the screen waits, marked, for a snapshot.
#[test]
fn a_standby_leg_with_a_wrong_book_takes_over_only_once_it_is_repaired() {
    let mut setup = Setup::new("a_standby_leg_with_a_wrong_book", 1).window("BTC/USD").moving(20);
    setup.rest_ns = (600 * MS, 600 * MS);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.run_ms(1_000);
    let before = world.book(screen, BTC).unwrap().version;
    world.take_states(screen, BTC);
    let active = first_leg(&world);
    world.lose(1 - active, 1);
    world.run_ms(200);
    world.close_leg(active);
    world.run_ms(200);
    assert_ne!(world.state(screen, BTC), FeedState::Live);
    assert!(world.book(screen, BTC).unwrap().version.epoch == before.epoch, "nothing is shown of the standby yet");
    world.run_ms(1_000);
    assert_eq!(world.state(screen, BTC), FeedState::Live);
    assert!(world.book(screen, BTC).unwrap().version.epoch > before.epoch);
    world.settle();
}

/// The leg that was open first: the active one of instruments without ids.
fn first_leg(world: &World) -> usize {
    usize::from(world.trace().with("leg 1 up").next() < world.trace().with("leg 0 up").next())
}

/// The runner itself: a book that is not the venue's does not go unnoticed.
#[test]
#[should_panic(expected = "the venue's at place 1")]
fn a_wrong_book_stops_the_run() {
    let setup = Setup::new("a_wrong_book_stops_the_run", 1).numbered("BTCUSDT", 1_000);
    let (mut world, _) = World::live(setup, ViewerLink::FAST);
    world.tell_wrongly(BTC, bid(9_999, 500), bid(9_999, 1));
    world.run_ms(100);
}

/// A8: `d26941144; d624086; d624087` on one connection.
#[test]
fn a8_ids_that_restart_on_one_connection_open_an_epoch() {
    let setup = Setup::new("a8_", 1).numbered("BTCUSDT", 26_941_143);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 1);
    world.run_ms(100);
    assert_eq!(world.book(screen, BTC).unwrap().version, Version::new(0, 26_941_144));
    world.take_versions(screen, BTC);
    world.restart_ids(BTC, 624_085);
    world.changes_by_chance(BTC, 2);
    world.run_until("the new ids are shown", 2_000, |world| world.amiss().is_none());
    world.changes_by_chance(BTC, 1);
    world.run_until("the new ids go on", 1_000, |world| world.amiss().is_none());
    let versions = world.take_versions(screen, BTC);
    assert!(versions.iter().all(|version| version.epoch == versions[0].epoch && version.epoch > 0), "{versions:?}");
    assert_eq!(versions.last().map(|version| version.seq), Some(624_088));
    assert_eq!((world.lanes().resets, world.lanes().gaps), (1, 1));
}

/// A venue's servers restart one after another: a leg that still carries the former ids, which look like a hole of
/// millions, counts again once it has joined the new epoch.
#[test]
fn a_new_epoch_unbinds_every_leg() {
    let (mut world, screen) = restarted_on_one_leg("a_new_epoch_unbinds_every_leg", 2);
    assert_eq!(world.state(screen, BTC), FeedState::Live);
    assert!(world.lanes().unbound > 0, "{:?}", world.lanes());
    world.take_states(screen, BTC);
    world.follow_ids(BTC, 1);
    for _ in 0..20 {
        world.changes_by_chance(BTC, 1);
        world.run_ms(50);
    }
    assert_eq!(world.take_states(screen, BTC), [], "its return is no event");
    let versions = world.take_versions(screen, BTC);
    let epochs: BTreeSet<_> = versions.iter().map(|version| version.epoch).filter(|epoch| *epoch > 0).collect();
    assert_eq!((epochs.len(), world.lanes().resets), (1, 1), "{versions:?}");
}

/// The same if that leg speaks before the new epoch's snapshot is here: it undoes nothing.
#[test]
fn a_leg_with_former_ids_does_not_undo_a_restart() {
    let (world, screen) = restarted_on_one_leg("a_leg_with_former_ids_does_not_undo_a_restart", 0);
    assert_eq!(world.state(screen, BTC), FeedState::Live);
    assert!(world.book(screen, BTC).unwrap().version.epoch > 0);
}

/// The ids start anew on leg 0, while leg 1 first says nothing for some messages and then goes on with the former ids.
fn restarted_on_one_leg(name: &'static str, quiet: u32) -> (World, usize) {
    let setup = Setup::new(name, 1).numbered("BTCUSDT", 26_941_143);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 3);
    world.run_ms(500);
    world.take_versions(screen, BTC);
    world.restart_ids_but_on(BTC, 600, 1);
    world.lose(1, quiet);
    for _ in 0..60 {
        world.changes_by_chance(BTC, 1);
        world.run_ms(50);
    }
    (world, screen)
}

/// A counter may start anew before any update told where it was.
#[test]
fn ids_that_restart_before_any_update_came_are_not_refused_for_ever() {
    let setup = Setup::new("ids_that_restart_before_any_update_came", 1).numbered("BTCUSDT", 26_941_143);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.run_ms(1_000);
    world.restart_ids(BTC, 624_085);
    for _ in 0..200 {
        world.changes_by_chance(BTC, 1);
        world.run_ms(100);
    }
    world.run_until("the new ids are shown", 1_000, |world| world.amiss().is_none());
    assert!(world.book(screen, BTC).unwrap().version.epoch > 0);
}

/// A9: `u=52478818287` then `U=52478818813`, the second instrument healthy on the same socket.
#[test]
fn a9_a_hole_of_one_instrument_never_touches_the_other() {
    let setup = Setup::new("a9_", 1).numbered("BTCUSDT", 52_478_818_286).numbered("ETHUSDT", 7).moving(20);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 1);
    world.run_ms(100);
    world.take_states(screen, ETH);
    world.rest(BTC, Rest::Silent);
    world.lose(0, 1);
    world.lose(1, 1);
    let lost: Vec<_> = (0..525).map(|at| bid(9_000 + at, 3)).collect();
    world.change(BTC, &lost);
    world.change(BTC, &[bid(9_990, 77)]);
    world.run_ms(2_000);
    assert_eq!(world.state(screen, BTC), FeedState::Gapped);
    assert_eq!(world.book(screen, BTC).unwrap().version, Version::new(0, 52_478_818_287), "not applied");
    assert_eq!(world.take_states(screen, ETH), [], "the second is LIVE all along");
    assert!(world.lanes().requests <= 6, "{:?}", world.lanes());

    world.rest(BTC, Rest::Current);
    world.settle();
    assert_eq!((world.lanes().gaps, world.lanes().resyncs), (1, 1));
    assert_eq!(world.take_states(screen, ETH), []);
}

/// A11: ids 10 and 12, then silence.
#[test]
fn a11_a_gap_is_declared_by_time() {
    let setup = Setup::new("a11_", 1).numbered("BTCUSDT", 9);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 1);
    world.run_ms(100);
    world.take_states(screen, BTC);
    world.rest(BTC, Rest::Silent);
    world.lose(0, 1);
    world.lose(1, 1);
    world.changes_by_chance(BTC, 2);
    world.run_ms(240);
    assert_eq!(world.take_states(screen, BTC), [], "it may still come");
    world.run_ms(100);
    assert_eq!(world.take_states(screen, BTC), [FeedState::Gapped]);
    assert_eq!(world.book(screen, BTC).unwrap().version, Version::new(0, 10));
    world.settle();
}

/// A18: disconnected for 10 s. The mark and the age are there from the first moment, for those who watch and for one
/// who comes meanwhile.
#[test]
fn a18_disconnected_for_ten_seconds_is_stale_with_its_age() {
    let setup = Setup::new("a18_", 1).numbered("BTCUSDT", 100);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 1);
    world.run_ms(200);
    world.take_states(screen, BTC);
    world.close_leg(0);
    world.run_ms(100);
    assert_eq!(world.take_states(screen, BTC), [], "the other leg carries on");
    world.close_leg(1);
    world.run_ms(60);
    assert_eq!(world.take_states(screen, BTC), [FeedState::Stale]);
    let late = world.viewer(ViewerLink::FAST, &sprag_tests::scenario::setup::books());
    for second in 1..=10 {
        world.run_ms(1_000);
        for viewer in [screen, late] {
            assert_eq!(world.state(viewer, BTC), FeedState::Stale);
            let age_ms = world.age_ms(viewer, BTC).unwrap();
            assert!((second * 1_000..second * 1_000 + 500).contains(&age_ms), "{age_ms} after {second} s");
        }
    }
    world.take_states(screen, BTC);
    world.settle();
    assert_eq!(world.take_states(screen, BTC).last(), Some(&FeedState::Live));
    assert_eq!(world.lanes().resets, 0);
}
