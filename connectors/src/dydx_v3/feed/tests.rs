//! dYdX' rules, told message by message: offsets that go back, messages that are late, repeated or lost.
//!
//! Never: a message that the venue could not send, but where it is meant to be refused.

use super::*;
use crate::{
    raw::RawKind,
    venue_feed::wire::{Wire, survives},
};
use market::Body;

fn whole(message: u64, symbol: &str) -> String {
    format!(
        r#"{{"type":"subscribed","connection_id":"28bd3fc4","message_id":{message},"channel":"v3_orderbook","id":"{symbol}","contents":{{"bids":[{{"price":"33700","offset":"100","size":"1.5"}},{{"price":"33699","offset":"105","size":"0"}}],"asks":[{{"price":"33710","offset":"101","size":"2"}}]}}}}"#
    )
}

fn bid(message: u64, offset: u64, price: &str, size: &str) -> String {
    format!(
        r#"{{"type":"channel_data","connection_id":"28bd3fc4","message_id":{message},"id":"BTC-USD","channel":"v3_orderbook","contents":{{"offset":"{offset}","bids":[["{price}","{size}"]],"asks":[]}}}}"#
    )
}

fn batch(message: u64) -> String {
    format!(
        r#"{{"type":"channel_batch_data","connection_id":"28bd3fc4","message_id":{message},"id":"BTC-USD","channel":"v3_orderbook","contents":[{{"offset":"111","bids":[["33701","1"]],"asks":[]}},{{"offset":"110","bids":[["33701","9"],["33702","1"]],"asks":[]}}]}}"#
    )
}

fn trades(message: u64) -> String {
    format!(
        r#"{{"type":"subscribed","connection_id":"28bd3fc4","message_id":{message},"channel":"v3_trades","id":"BTC-USD","contents":{{"trades":[{{"side":"SELL","size":"0.059","price":"33632","createdAt":"2021-06-23T23:40:25.041Z"}},{{"side":"BUY","size":"1","price":"33631","createdAt":"2021-06-23T23:40:25.040Z"}},{{"side":"BUY","size":"1","price":"33631","createdAt":"2021-06-23T23:40:25.040Z"}}]}}}}"#
    )
}

const CONNECTED: &str = r#"{"type":"connected","connection_id":"28bd3fc4","message_id":0}"#;

/// A wire with a leg whose book has come.
fn begun(leg: u16) -> Wire {
    let mut wire = Wire::new(VENUE);
    begin(&mut wire, leg);
    wire.kinds();
    wire
}

fn begin(wire: &mut Wire, leg: u16) {
    wire.connection(leg, RawKind::Open);
    wire.say(leg, CONNECTED).unwrap();
    wire.say(leg, &whole(1, "BTC-USD")).unwrap();
}

#[test]
fn an_older_level_changes_nothing_in_whatever_order_it_comes() {
    let mut wire = begun(0);
    wire.say(0, &bid(3, 107, "33700", "0")).unwrap();
    wire.say(0, &bid(2, 106, "33700", "7")).unwrap();
    wire.say(0, &bid(4, 104, "33699", "7")).unwrap();
    assert_eq!(wire.kinds(), ["delta", "delta", "delta"]);
    assert!(wire.last_levels().is_empty(), "a version without a change");
    wire.say(0, &batch(5)).unwrap();
    let levels: Vec<_> = wire.last_levels().into_iter().map(|(_, price, size)| (price, size)).collect();
    assert_eq!(levels, [("33701".to_owned(), "1.0".to_owned()), ("33702".to_owned(), "1.0".to_owned())]);
    let counts = wire.feed.counts();
    assert_eq!((counts.suppressed, counts.missing), (3, 0));
}

#[test]
fn an_update_that_overtook_the_book_is_in_it() {
    let mut wire = Wire::new(VENUE);
    wire.connection(0, RawKind::Open);
    wire.say(0, CONNECTED).unwrap();
    wire.say(0, &bid(2, 106, "33699", "7")).unwrap();
    wire.say(0, &whole(1, "BTC-USD")).unwrap();
    assert_eq!(wire.kinds(), ["other", "listing", "snapshot"][1..]);
    let bids = wire.last_levels().into_iter().filter(|(side, ..)| *side == Side::Bid);
    assert_eq!(bids.map(|(_, _, size)| size).collect::<Vec<_>>(), ["1.5", "0", "7.0"], "of two at one price the last");
}

#[test]
fn a_message_that_stays_away_costs_the_connection_its_books() {
    let mut wire = begun(0);
    wire.say(0, &whole(2, "ETH-USD")).unwrap();
    wire.say(0, &bid(4, 106, "33700", "7")).unwrap();
    wire.now_ns += 250_000_000;
    wire.say(0, &bid(5, 107, "33700", "8")).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "delta", "delta"], "it may still come");
    assert!(wire.feed.reconnects().is_empty());
    wire.now_ns += 1;
    wire.say(0, &bid(6, 108, "33700", "9")).unwrap();
    assert_eq!(wire.kinds(), ["broken", "broken"]);
    assert!(matches!(wire.events.last().unwrap().body, Body::Broken(BreakReason::Missing)));
    assert_eq!((wire.feed.counts().missing, wire.feed.reconnects()), (1, vec![LegId(0)]));
    wire.say(0, &bid(3, 105, "33700", "1")).unwrap();
    wire.say(0, &bid(9, 109, "33700", "1")).unwrap();
    assert!(wire.kinds().is_empty() && wire.feed.reconnects().is_empty());
    begin(&mut wire, 0);
    wire.say(0, &bid(2, 106, "33700", "7")).unwrap();
    assert_eq!(wire.kinds(), ["snapshot", "delta"], "ids begin again with the connection");
}

#[test]
fn another_connection_takes_over_what_one_has_lost() {
    let mut wire = begun(0);
    begin(&mut wire, 1);
    wire.say(1, &bid(2, 106, "33700", "7")).unwrap();
    assert!(wire.kinds().is_empty());
    wire.say(0, &bid(100, 107, "33700", "8")).unwrap();
    assert_eq!(wire.kinds(), ["snapshot"]);
    assert_eq!(
        (wire.feed.active("BTC-USD"), wire.feed.counts().missing),
        (Some(LegId(1)), 34),
        "2 to 35; others may come"
    );
}

#[test]
fn another_name_is_another_connection() {
    let mut wire = begun(0);
    wire.say(0, &bid(2, 106, "33700", "7")).unwrap();
    wire.say(0, &CONNECTED.replace("28bd3fc4", "5d1e")).unwrap();
    wire.say(0, &whole(1, "BTC-USD").replace("28bd3fc4", "5d1e")).unwrap();
    assert_eq!(wire.kinds(), ["delta", "broken", "snapshot"]);
    assert_eq!(wire.feed.counts().missing, 0);
}

#[test]
fn the_same_message_again_is_nothing() {
    let mut wire = begun(0);
    wire.say(0, &bid(2, 106, "33700", "7")).unwrap();
    wire.say(0, &bid(2, 106, "33700", "7")).unwrap();
    assert_eq!(wire.kinds(), ["delta"]);
    assert_eq!((wire.feed.counts().ignored, wire.feed.counts().suppressed), (2, 0));
}

#[test]
fn a_message_that_cannot_be_read_breaks_its_book() {
    for bad in [("106", "x"), ("33700", "-33700"), ("\"7\"", "\"Infinity\""), ("\"asks\"", "\"what\"")] {
        let mut wire = begun(0);
        wire.say(0, &bid(2, 106, "33700", "7").replace(bad.0, bad.1)).unwrap_err();
        assert_eq!(wire.kinds(), ["broken"], "{bad:?}");
        wire.say(0, &bid(3, 107, "33700", "7")).unwrap();
        assert_eq!((wire.kinds(), wire.feed.repairs()), (vec![], vec![(LegId(0), "BTC-USD".into())]));
    }
}

#[test]
fn trades_are_told_the_oldest_first_and_equal_ones_apart() {
    let mut wire = begun(0);
    wire.say(0, &trades(2)).unwrap();
    let told = wire.trades();
    assert!(told[1].0 == format!("{}#1", told[0].0) && told[2].0 > told[1].0, "{told:?}");
    begin(&mut wire, 0);
    wire.say(0, &trades(2)).unwrap();
    let again = wire.trades();
    assert!((0..3).all(|at| again[at].0 == again[at + 3].0), "{again:?}");
}

#[test]
fn no_message_makes_it_panic() {
    let (first, second, change, many) = (whole(1, "BTC-USD"), whole(2, "ETH-USD"), bid(3, 106, "33699", "7"), batch(4));
    survives(VENUE, &[CONNECTED, &first, &second, &change, &many, &trades(5)]);
}
