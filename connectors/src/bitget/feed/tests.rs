//! Bitget's rules, told message by message.
//!
//! Never: a checksum taken from the code under test.

use super::*;
use crate::venue_feed::wire::{Wire, survives};
use market::LegId;

/// A `books` message whose checksum is that of the text given.
fn books(action: &str, kind: &str, asks: &str, bids: &str, right: &str) -> String {
    let checksum = crc32fast::hash(right.as_bytes()).cast_signed();
    format!(
        r#"{{"action":"{action}","arg":{{"instType":"{kind}","channel":"books","instId":"BTCUSDT"}},"data":[{{"asks":{asks},"bids":{bids},"checksum":{checksum},"ts":"1649290077611"}}]}}"#
    )
}

fn snapshot(kind: &str) -> String {
    books(
        "snapshot",
        kind,
        r#"[["3366.8","9.0"]]"#,
        r#"[["3366.1","7"],["3366","0.50"]]"#,
        "3366.1:7:3366.8:9.0:3366:0.50",
    )
}

const TRADES: &str = r#"{"action":"snapshot","arg":{"instType":"sp","channel":"trade","instId":"BTCUSDT"},"data":[["1649290071016","2.4383","2.0507","buy"],["1649290061015","2.4376","2.0513","sell"]]}"#;
const TRADE: &str = r#"{"action":"update","arg":{"instType":"sp","channel":"trade","instId":"BTCUSDT"},"data":[["1649290071016","2.43830","2.0507","buy"]]}"#;

#[test]
fn a_book_holds_while_its_checksum_does() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, &snapshot("sp")).unwrap();
    wire.say(0, &books("update", "sp", r#"[["3366.8","0"],["3366.90","1"]]"#, "[]", "3366.1:7:3366.90:1:3366:0.50"))
        .unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "delta"]);
    wire.say(0, &books("update", "sp", r#"[["3367","1"]]"#, "[]", "other")).unwrap();
    wire.say(0, &snapshot("sp").replace("snapshot", "update")).unwrap();
    wire.say(0, &snapshot("sp")).unwrap();
    assert_eq!(wire.kinds(), ["broken", "snapshot"]);
    assert_eq!(wire.feed.repairs(), [(LegId(0), "BTCUSDT".into())]);
    let counts = wire.feed.counts();
    assert_eq!((counts.checksums_matched, counts.checksums_failed), (3, 1));
}

#[test]
fn the_two_sockets_are_two_markets() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, &snapshot("sp")).unwrap();
    wire.say(1, &snapshot("mc")).unwrap();
    wire.say(0, r#"{"event":"unsubscribe","arg":{"instType":"sp","channel":"books","instId":"BTCUSDT"}}"#).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "listing", "snapshot", "broken"]);
    assert_eq!((wire.feed.active("BTCUSDT"), wire.feed.active("mc:BTCUSDT")), (None, Some(LegId(1))));
}

#[test]
fn a_trade_told_again_has_its_id_again() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, TRADES).unwrap();
    wire.say(0, TRADE).unwrap();
    wire.say(0, PONG).unwrap();
    let trades = wire.trades();
    assert!(trades[0].0.starts_with("1649290061015000000s"), "the oldest first: {trades:?}");
    assert_eq!(trades[1].0, trades[2].0);
    assert!(trades.windows(2).all(|pair| pair[0].1 < pair[1].1), "{trades:?}");
    for bad in ["1649290071", "1649290071016.5"] {
        wire.say(0, &TRADE.replace("1649290071016", bad)).unwrap_err();
    }
    wire.say(0, &TRADE.replace("buy", "")).unwrap_err();
}

#[test]
fn a_message_that_cannot_be_read_breaks_its_book() {
    for bad in
        [("\"ts\":\"1649290077611\"", "\"ts\":\"1\""), ("\"9.0\"", "\"abc\""), ("[[\"3366.1\",\"7\"]", "[[\"3366.1\"]")]
    {
        let mut wire = Wire::new(VENUE);
        wire.say(0, &snapshot("sp")).unwrap();
        wire.say(0, &snapshot("sp").replace("snapshot", "update").replace(bad.0, bad.1)).unwrap_err();
        assert_eq!(wire.kinds(), ["listing", "snapshot", "broken"], "{bad:?}");
    }
}

#[test]
fn no_message_makes_it_panic() {
    let (spot, contract) = (snapshot("sp"), snapshot("mc"));
    let update = books("update", "sp", r#"[["3366.8","0"],["3366.90","1"]]"#, "[]", "3366.1:7:3366.90:1:3366:0.50");
    survives(VENUE, &[&spot, &contract, &update, TRADES, TRADE]);
}
