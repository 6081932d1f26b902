//! The server is killed and comes back.
//!
//! Never: a state of the killed process used after its kill, the store's and the journal's excepted.

use super::BTC;
use market::{FeedState, Version};
use sprag_tests::scenario::{
    Setup, World,
    setup::{MS, Rest, ViewerLink},
};

/// A server that has shown and kept a book, and is killed.
fn killed(setup: Setup) -> (World, usize, Version) {
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 5);
    world.run_ms(1_000);
    let shown = world.book(screen, BTC).unwrap().version;
    world.kill();
    world.run_ms(500);
    world.take_versions(screen, BTC);
    (world, screen, shown)
}

#[test]
fn quiet_book_after_restart() {
    let setup = Setup::new("quiet_book_after_restart", 1).numbered("BTCUSDT", 1_000);
    let (mut world, screen, shown) = killed(setup);
    world.start();
    world.run_until("the book is live again", 8_000, |world| world.amiss().is_none());
    assert_eq!(world.book(screen, BTC).unwrap().version, shown);
    assert!(world.take_versions(screen, BTC).iter().all(|version| *version == shown), "nothing else is shown");
    assert_eq!((world.lanes().resets, world.lanes().gaps), (0, 0));
    world.changes_by_chance(BTC, 1);
    world.run_until("the book goes on", 1_000, |world| world.amiss().is_none());
    assert_eq!(world.book(screen, BTC).unwrap().version, Version::new(0, shown.seq + 1));
}

/// What a screen shows and the store had not yet is not shown backwards: the screen waits for the new server.
#[test]
fn what_was_shown_but_not_durable_is_caught_up_with() {
    let mut setup = Setup::new("what_was_shown_but_not_durable", 1).numbered("BTCUSDT", 1_000);
    setup.store_lag_ns = 400 * MS;
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.run_ms(1_000);
    world.changes_by_chance(BTC, 5);
    world.run_ms(100);
    let shown = world.book(screen, BTC).unwrap().version;
    assert_eq!(shown, Version::new(0, 1_005));
    world.rest(BTC, Rest::Silent);
    world.kill();
    world.start();
    world.run_ms(5_000);
    assert_eq!(world.book(screen, BTC).unwrap().version, shown);
    world.rest(BTC, Rest::Current);
    world.run_until("the book is live again", 35_000, |world| world.amiss().is_none());
    assert_eq!(world.book(screen, BTC).unwrap().version, shown);
}

/// What one server called LIVE the next one has to say anew.
#[test]
fn a_former_servers_live_is_not_believed() {
    let setup = Setup::new("a_former_servers_live_is_not_believed", 1).numbered("BTCUSDT", 1_000);
    let (mut world, screen, _) = killed(setup);
    world.rest(BTC, Rest::Silent);
    world.take_states(screen, BTC);
    world.start();
    world.run_ms(5_000);
    let states = world.take_states(screen, BTC);
    assert!(!states.contains(&FeedState::Live), "{states:?}");
    world.settle();
}

/// The venue's counter restarts while we are down: neither refused for ever, nor taken before that is certain.
#[test]
fn venue_reset_during_downtime() {
    for quiet in [false, true] {
        let setup = Setup::new("venue_reset_during_downtime", 1).numbered("BTCUSDT", 26_941_144);
        let (mut world, screen, shown) = killed(setup);
        world.restart_ids(BTC, 600);
        world.changes_by_chance(BTC, 7);
        world.start();
        let begin_ms = world.now_ms();
        let mut took_ms = 0;
        while world.amiss().is_some() {
            if !quiet {
                world.changes_by_chance(BTC, 1);
            }
            world.run_ms(200);
            took_ms = world.now_ms() - begin_ms;
            assert!(took_ms < 45_000, "refused for ever");
        }
        assert!(took_ms > 10_000, "certain after {took_ms} ms");
        let after = world.book(screen, BTC).unwrap().version;
        assert!(after.epoch > shown.epoch && after.seq < 1_000, "{shown} then {after}");
        assert_eq!(world.lanes().resets, 1);
        world.settle();
    }
}

/// An epoch that was shown but not kept must not be forgotten: the next process would never reach it again.
#[test]
fn a_new_epoch_that_was_shown_but_not_durable_is_passed_by_the_next_server() {
    let mut setup = Setup::new("a_new_epoch_that_was_shown_but_not_durable", 1).numbered("BTCUSDT", 26_941_144);
    setup.store_lag_ns = 2_000 * MS;
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    world.changes_by_chance(BTC, 3);
    world.run_ms(5_000);
    world.restart_ids(BTC, 600);
    world.changes_by_chance(BTC, 3);
    world.run_until("the new ids are shown", 2_000, |world| world.amiss().is_none());
    let shown = world.book(screen, BTC).unwrap().version;
    assert!(shown.epoch > 0, "{shown}");
    world.kill();
    world.start();
    world.settle();
    assert!(world.book(screen, BTC).unwrap().version > shown);
}

/// A synthesized stream opens an epoch with each start, above all that any start before could have shown.
#[test]
fn a_synthesized_stream_goes_on_in_a_new_epoch_after_each_restart() {
    let setup = Setup::new("a_synthesized_stream_goes_on", 1).window("BTC/USD").moving(20);
    let (mut world, screen) = World::live(setup, ViewerLink::FAST);
    let mut last = world.book(screen, BTC).unwrap().version;
    for _ in 0..3 {
        world.run_ms(400);
        world.kill();
        world.run_ms(100);
        world.start();
        world.run_ms(6_000);
        let now = world.book(screen, BTC).unwrap().version;
        assert!(now.epoch > last.epoch, "{last} then {now}");
        last = now;
    }
    world.settle();
}

/// The store lags, the server dies again while it is still catching up, and nobody sees anything turn back.
#[test]
fn killed_again_before_it_has_caught_up() {
    let mut setup = Setup::new("killed_again_before_it_has_caught_up", 1).numbered("BTCUSDT", 1_000).moving(20);
    setup.store_lag_ns = 300 * MS;
    let (mut world, _) = World::live(setup, ViewerLink::FAST);
    for alive_ms in [700, 5, 20, 60, 200, 300, 45, 1_000] {
        world.run_ms(alive_ms);
        world.kill();
        world.run_ms(30);
        world.start();
    }
    world.settle();
}
