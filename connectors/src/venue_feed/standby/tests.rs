//! An instrument that falls silent on the shown leg while that leg ticks, told with messages of a venue without checksums.
//!
//! Never: a sleep; time is the frames' own.

use crate::{raw::RawKind, venue_feed::wire::Wire};
use market::{LegId, Venue};

const MS: u64 = 1_000_000;

/// Time between two updates of one instrument: 20 a second.
const EVERY_NS: u64 = 50 * MS;

fn whole(symbol: &str) -> String {
    format!(
        r#"{{"type":"l2_updates","symbol":"{symbol}","changes":[["buy","100","1"],["sell","101","1"]],"trades":[],"auction_events":[]}}"#
    )
}

fn update(symbol: &str, quantity: u64) -> String {
    format!(r#"{{"type":"l2_updates","symbol":"{symbol}","changes":[["buy","100","{quantity}"]]}}"#)
}

/// Two legs with two instruments each, the first leg's books shown, all of them known to beat 20 times a second.
fn beating() -> Wire {
    let mut wire = Wire::new(Venue::Gemini);
    for (leg, symbol) in [(0, "BTCUSD"), (0, "ETHUSD"), (1, "BTCUSD"), (1, "ETHUSD")] {
        wire.say(leg, &whole(symbol)).unwrap();
    }
    for round in 1..=40 {
        wire.now_ns += EVERY_NS;
        for (leg, symbol) in [(0, "BTCUSD"), (0, "ETHUSD"), (1, "BTCUSD"), (1, "ETHUSD")] {
            wire.say(leg, &update(symbol, round)).unwrap();
        }
    }
    wire.kinds();
    wire
}

#[test]
fn an_instrument_that_falls_silent_on_a_leg_that_ticks_is_taken_over_within_two_seconds() {
    let mut wire = beating();
    let since_ns = wire.now_ns;
    while wire.feed.active("BTCUSD") == Some(LegId(0)) {
        wire.now_ns += EVERY_NS;
        assert!(wire.now_ns <= since_ns + 2_000 * MS, "two seconds are over");
        for (leg, symbol) in [(0, "ETHUSD"), (1, "BTCUSD"), (1, "ETHUSD")] {
            wire.say(leg, &update(symbol, 50)).unwrap();
        }
        wire.feed.look_after(LegId(0), wire.now_ns);
    }
    assert_eq!(wire.feed.active("BTCUSD"), Some(LegId(1)));
    assert_eq!(wire.feed.active("ETHUSD"), Some(LegId(0)), "the other instrument stays where it is");
    let kinds = wire.kinds();
    assert_eq!(kinds.iter().filter(|kind| **kind == "snapshot").count(), 1);
    assert!(!kinds.contains(&"broken"), "no mark on a screen");
    assert_eq!(wire.feed.repairs(), [(LegId(0), "BTCUSD".into())]);
    assert_eq!(wire.feed.counts().switches, 1);
}

#[test]
fn what_was_silent_counts_again_only_after_a_whole_book() {
    let mut wire = beating();
    for _ in 0..2 {
        wire.now_ns += 1_000 * MS;
        wire.say(1, &update("BTCUSD", 60)).unwrap();
    }
    wire.say(0, &update("BTCUSD", 61)).unwrap();
    assert_eq!(wire.kinds(), ["snapshot"]);
    wire.connection(1, RawKind::Close);
    assert_eq!((wire.kinds(), wire.feed.active("BTCUSD")), (vec!["broken"], None), "nobody knows what it left out");
    wire.say(0, &whole("BTCUSD")).unwrap();
    assert_eq!((wire.kinds(), wire.feed.active("BTCUSD")), (vec!["snapshot"], Some(LegId(0))));
}

#[test]
fn the_leg_that_speaks_first_after_a_pause_takes_nothing_over() {
    let mut wire = beating();
    wire.now_ns += 10_000 * MS;
    wire.say(1, &update("BTCUSD", 70)).unwrap();
    wire.now_ns += MS;
    wire.say(0, &update("BTCUSD", 70)).unwrap();
    assert_eq!((wire.kinds(), wire.feed.active("BTCUSD")), (vec!["delta"], Some(LegId(0))));
    assert!(wire.feed.repairs().is_empty());
}

#[test]
fn a_leg_that_fell_silent_itself_takes_nothing_over() {
    let mut wire = beating();
    // The second leg's book of one instrument is two seconds old, all of its books are when it says nothing at all.
    for _ in 0..41 {
        wire.now_ns += EVERY_NS;
        for (leg, symbol) in [(0, "BTCUSD"), (0, "ETHUSD"), (1, "ETHUSD")] {
            wire.say(leg, &update(symbol, 80)).unwrap();
        }
    }
    wire.kinds();
    wire.connection(0, RawKind::Close);
    assert_eq!(wire.kinds(), ["broken", "snapshot"], "an old book is shown by nobody");
    assert_eq!((wire.feed.active("BTCUSD"), wire.feed.active("ETHUSD")), (None, Some(LegId(1))));
    wire.say(1, &update("BTCUSD", 81)).unwrap();
    assert_eq!((wire.kinds(), wire.feed.active("BTCUSD")), (vec!["snapshot"], Some(LegId(1))), "it ticks after all");
    let mut wire = beating();
    wire.now_ns += 2_000 * MS;
    wire.connection(0, RawKind::Close);
    assert_eq!(wire.kinds(), ["broken", "broken"]);
}

#[test]
fn a_quiet_market_is_no_silent_leg() {
    let mut wire = beating();
    wire.now_ns += 10_000 * MS;
    wire.say(0, &update("BTCUSD", 70)).unwrap();
    wire.say(1, &update("BTCUSD", 70)).unwrap();
    assert_eq!((wire.kinds(), wire.feed.active("BTCUSD")), (vec!["delta"], Some(LegId(0))));
    assert!(wire.feed.repairs().is_empty());
}
