//! BitMEX' rules, told message by message.
//!
//! Never: a message that the venue could not send, but where it is meant to be refused.

use super::*;
use crate::{
    raw::RawKind,
    venue_feed::wire::{Wire, survives},
};
use market::{Body, Side};

const PARTIAL: &str = r#"{"table":"orderBookL2","action":"partial","keys":["symbol","id","side"],"types":{"symbol":"symbol"},"filter":{"symbol":"EOSM21"},"data":[{"symbol":"EOSM21","id":52499993500,"side":"Sell","size":120,"price":0.00065},{"symbol":"EOSM21","id":52499999997,"side":"Buy","size":100000,"price":3e-7}]}"#;
const INSERT: &str = r#"{"table":"orderBookL2","action":"insert","data":[{"symbol":"EOSM21","id":52499998716,"side":"Sell","size":30,"price":0.0001284}]}"#;
const UPDATE: &str = r#"{"table":"orderBookL2","action":"update","data":[{"symbol":"EOSM21","id":52499999997,"side":"Buy","size":247}]}"#;
const DELETE: &str =
    r#"{"table":"orderBookL2","action":"delete","data":[{"symbol":"EOSM21","id":52499993500,"side":"Sell"}]}"#;
const TRADE: &str = r#"{"table":"trade","action":"insert","data":[{"timestamp":"2021-04-17T16:41:07.897Z","symbol":"EOSM21","side":"Sell","size":5,"price":0.005275,"tickDirection":"ZeroMinusTick","trdMatchID":"9b108f99-73a1-5de9-7fea-c45d072e0839"}]}"#;
const QUOTE: &str = r#"{"table":"quote","action":"insert","data":[{"timestamp":"2021-04-17T16:41:02.073Z","symbol":"EOSM21","bidSize":432,"bidPrice":0.16}]}"#;

fn levels(levels: &[(Side, &str, &str)]) -> Vec<(Side, String, String)> {
    levels.iter().map(|(side, price, size)| (*side, (*price).to_owned(), (*size).to_owned())).collect()
}

#[test]
fn rows_without_a_price_are_those_of_the_partial() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, UPDATE).unwrap();
    assert!(wire.kinds().is_empty(), "before the partial everything is discarded");
    for message in [PARTIAL, INSERT, UPDATE] {
        wire.say(0, message).unwrap();
    }
    assert_eq!(wire.last_levels(), levels(&[(Side::Bid, "0.0000003", "247")]));
    wire.say(0, DELETE).unwrap();
    assert_eq!(wire.last_levels(), levels(&[(Side::Ask, "0.0006500", "0")]));
    assert_eq!(wire.kinds(), ["listing", "snapshot", "delta", "delta", "delta"]);
    wire.say(0, QUOTE).unwrap();
    assert_eq!(wire.feed.counts().ignored, 2);
}

#[test]
fn a_row_that_nobody_knows_breaks_its_book_until_the_next_partial() {
    for unknown in [UPDATE.replace("Buy", "Sell"), DELETE.replace("52499993500", "1"), UPDATE.replace("999997", "9")] {
        let mut wire = Wire::new(VENUE);
        wire.say(0, PARTIAL).unwrap();
        wire.say(0, &PARTIAL.replace("EOSM21", "ADAM21")).unwrap();
        wire.kinds();
        wire.say(0, &unknown).unwrap();
        assert!(matches!(wire.events.last().unwrap().body, Body::Broken(BreakReason::UnknownRow)), "{unknown}");
        assert_eq!(wire.feed.repairs(), [(LegId(0), "EOSM21".into())]);
        wire.kinds();
        wire.say(0, INSERT).unwrap();
        wire.say(0, &INSERT.replace("EOSM21", "ADAM21")).unwrap();
        wire.say(0, PARTIAL).unwrap();
        assert_eq!(wire.kinds(), ["delta", "snapshot"]);
    }
}

#[test]
fn a_partial_without_rows_is_an_empty_book_and_one_without_filter_is_of_all() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, PARTIAL).unwrap();
    wire.say(0, &PARTIAL.replace("EOSM21", "ADAM21")).unwrap();
    let all = PARTIAL.replace(r#""filter":{"symbol":"EOSM21"}"#, r#""filter":{}"#);
    wire.say(0, &all).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "listing", "snapshot", "snapshot", "snapshot"]);
    let ticks = |event: &Event| match &event.body {
        Body::Snapshot(snapshot) => snapshot.ticks.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(wire.events.iter().rev().take(2).map(ticks).collect::<Vec<_>>(), [2, 0]);
    let (start, _) = PARTIAL.split_once(r#""data""#).unwrap();
    wire.say(0, &format!(r#"{start}"data":[]}}"#)).unwrap();
    assert!(wire.last_levels().is_empty());
}

#[test]
fn rows_of_several_symbols_are_told_apart() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, PARTIAL).unwrap();
    wire.say(0, &PARTIAL.replace("EOSM21", "ADAM21")).unwrap();
    wire.kinds();
    let both = r#"{"table":"orderBookL2","action":"update","data":[{"symbol":"ADAM21","id":52499999997,"side":"Buy","size":"x"},{"symbol":"EOSM21","id":52499999997,"side":"Buy","size":247},{"symbol":"EOSM21","id":52499993500,"side":"Sell","size":1}]}"#;
    wire.say(0, both).unwrap_err();
    assert_eq!(wire.kinds(), ["broken", "delta"]);
    assert_eq!(wire.last_levels().len(), 2);
}

#[test]
fn what_cannot_be_read_breaks_what_it_names_or_the_whole_connection() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, PARTIAL).unwrap();
    wire.say(0, &UPDATE.replace("52499999997", "\"x\"")).unwrap_err();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "broken"]);
    wire.say(0, PARTIAL).unwrap();
    wire.say(0, &UPDATE.replace("\"symbol\"", "\"what\"")).unwrap_err();
    assert_eq!(wire.kinds(), ["snapshot", "broken"]);
    assert_eq!(wire.feed.reconnects(), [LegId(0)]);
    wire.connection(0, RawKind::Open);
    wire.say(0, UPDATE).unwrap();
    wire.say(0, PARTIAL).unwrap();
    assert_eq!(wire.kinds(), ["snapshot"]);
    wire.say(0, r#"{"success":true,"unsubscribe":"orderBookL2:EOSM21"}"#).unwrap();
    assert_eq!(wire.kinds(), ["broken"]);
}

#[test]
fn trades_have_ids_that_order_nothing() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, TRADE).unwrap();
    wire.say(1, TRADE).unwrap();
    let trades = wire.trades();
    assert_eq!(trades[0].0, "9b108f99-73a1-5de9-7fea-c45d072e0839");
    assert!(trades[0].0 == trades[1].0 && trades[0].1 < trades[1].1, "{trades:?}");
    wire.say(0, &TRADE.replace("0.005275", "null")).unwrap_err();
    wire.say(0, &TRADE.replace("2021-04-17", "1969-12-31")).unwrap_err();
}

#[test]
fn no_message_makes_it_panic() {
    survives(VENUE, &[PARTIAL, INSERT, UPDATE, DELETE, TRADE, QUOTE]);
}
