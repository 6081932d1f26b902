//! The same stories in the venues' own text, through the real decoders. The runner holds each event of theirs against
//! what it must be.
//!
//! Never: a text that the venue would not send.

use super::{BTC, ETH};
use market::FeedState;
use sprag_tests::scenario::{
    Setup, World,
    setup::{LegLink, MS, ViewerLink},
};

fn in_text(name: &'static str) -> Setup {
    Setup { text: true, ..Setup::new(name, 1).numbered("BTCUSDT", 9_007_199_254_740_993).moving(20) }
        .window("BTC/USD")
        .moving(20)
}

#[test]
fn bad_legs_in_the_venues_own_text() {
    let (mut world, _) = World::live(in_text("bad_legs_in_the_venues_own_text"), ViewerLink::FAST);
    for leg in 0..4 {
        let link = LegLink { delay_ns: (5 * MS, 60 * MS), lost_in_256: 12, doubled_in_256: 12, overtaken_in_256: 0 };
        world.link(leg, link);
    }
    world.run_ms(20_000);
    assert!(world.trace().with("has a wrong book").count() > 3, "no checksum failed");
    world.settle();
}

#[test]
fn the_standby_leg_takes_over_with_its_own_verified_book() {
    let (mut world, screen) = World::live(in_text("the_standby_leg_takes_over"), ViewerLink::FAST);
    world.run_ms(500);
    for leg in [2, 3, 2] {
        let before = world.book(screen, ETH).unwrap().version;
        world.close_leg(leg);
        world.run_ms(200);
        world.open_leg(leg);
        world.run_ms(500);
        let after = world.book(screen, ETH).unwrap().version;
        assert!(after.epoch <= before.epoch + 1, "{before} then {after}");
        assert_eq!(world.state(screen, ETH), FeedState::Live);
    }
    assert_eq!(world.book(screen, BTC).unwrap().version.epoch, 0);
    world.settle();
}

#[test]
fn restarts_in_the_venues_own_text() {
    let (mut world, _) = World::live(in_text("restarts_in_the_venues_own_text"), ViewerLink::FAST);
    for _ in 0..4 {
        world.run_ms(700);
        world.kill();
        world.run_ms(200);
        world.start();
    }
    world.settle();
}
