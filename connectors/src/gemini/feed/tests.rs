//! Gemini's rules, told message by message.
//!
//! Never: a message that the venue could not send, but where it is meant to be refused.

use super::*;
use crate::{
    raw::RawKind,
    venue_feed::wire::{Wire, survives},
};
use market::{LegId, Side};

const WHOLE: &str = r#"{"type":"l2_updates","symbol":"BTCUSD","changes":[["buy","60646.46","0.2982"],["sell","60700.00","1"]],
    "trades":[{"type":"trade","symbol":"BTCUSD","event_id":34344127722,"timestamp":1618672849783,"price":"60650.1","quantity":"0.000041","side":"sell"},
              {"type":"trade","symbol":"BTCUSD","event_id":34344127721,"timestamp":1618672849782,"price":"60650.2","quantity":"2","side":"buy"}],
    "auction_events":[]}"#;
const CHANGES: &str =
    r#"{"type":"l2_updates","symbol":"BTCUSD","changes":[["buy","60646.46","0"],["sell","60699.5","0.7"]]}"#;
const TRADE: &str = r#"{"type":"trade","symbol":"BTCUSD","event_id":34359626684,"timestamp":1618677942606,"price":"60655","quantity":"8.79","side":"buy"}"#;
const HEARTBEAT: &str = r#"{"type":"heartbeat","timestamp":1618677942928}"#;

#[test]
fn the_first_message_is_the_book_and_its_trades_are_history() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, CHANGES).unwrap();
    assert_eq!(wire.kinds(), ["listing"], "changes of no book");
    wire.say(0, WHOLE).unwrap();
    assert_eq!(wire.kinds(), ["snapshot", "trade", "trade"]);
    wire.say(0, CHANGES).unwrap();
    let right = [(Side::Bid, "60646.46", "0"), (Side::Ask, "60699.50", "0.7000")];
    assert_eq!(wire.last_levels(), right.map(|(side, price, quantity)| (side, price.to_owned(), quantity.to_owned())));
    wire.say(0, TRADE).unwrap();
    wire.say(0, HEARTBEAT).unwrap();
    assert_eq!(wire.kinds(), ["delta", "trade"]);
    let right = [34_344_127_721_u64, 34_344_127_722, 34_359_626_684].map(|id| (id.to_string(), id));
    assert_eq!(wire.trades(), right, "the oldest first");
    assert_eq!(wire.feed.counts().ignored, 2);
}

#[test]
fn a_message_that_cannot_be_read_breaks_its_book_alone() {
    for bad in [
        CHANGES.replace("60646.46", "NaN"),
        CHANGES.replace("\"0.7\"", "\"-0.7\""),
        CHANGES.replace("\"0.7\"", "null"),
        CHANGES.replace("buy", "hold"),
        CHANGES.replace(",\"0\"]", "]"),
    ] {
        let mut wire = Wire::new(VENUE);
        wire.say(0, WHOLE).unwrap();
        wire.say(0, &WHOLE.replace("BTCUSD", "ETHUSD")).unwrap();
        wire.kinds();
        wire.say(0, &bad).unwrap_err();
        assert_eq!(wire.kinds(), ["broken"], "{bad}");
        assert_eq!(wire.feed.repairs(), [(LegId(0), "BTCUSD".into())]);
        wire.say(0, CHANGES).unwrap();
        wire.say(0, &CHANGES.replace("BTCUSD", "ETHUSD")).unwrap();
        assert_eq!(wire.kinds(), ["delta"]);
        wire.say(0, WHOLE).unwrap();
        assert_eq!(wire.kinds(), ["snapshot", "trade", "trade"]);
    }
}

#[test]
fn a_trade_that_cannot_be_read_leaves_the_book() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, &WHOLE.replace("1618672849782", "1618672849")).unwrap_err();
    wire.say(0, &TRADE.replace("60655", "")).unwrap_err();
    wire.say(0, CHANGES).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "delta"]);
}

#[test]
fn another_connection_takes_over_with_its_own_book() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, WHOLE).unwrap();
    wire.say(1, WHOLE).unwrap();
    wire.say(1, CHANGES).unwrap();
    wire.kinds();
    wire.connection(0, RawKind::Close);
    assert_eq!((wire.kinds(), wire.last_levels().len()), (vec!["snapshot"], 2));
    wire.connection(0, RawKind::Open);
    wire.say(0, CHANGES).unwrap();
    assert!(wire.kinds().is_empty());
}

#[test]
fn no_message_makes_it_panic() {
    survives(VENUE, &[WHOLE, CHANGES, TRADE, HEARTBEAT]);
}
