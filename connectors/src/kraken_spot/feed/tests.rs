//! Legs, checksums and takeovers, told message by message.
//!
//! Never: a checksum taken from the code under test but by the same rule over the books that the test names.

use super::*;
use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::{number::LevelText, text_book::TextBook},
};
use market::{Body, Sequence};

struct Wire {
    feed: Feed,
    events: Vec<Event>,
    position: u64,
}

impl Wire {
    fn new() -> Self {
        let feed = Feed::new(Arc::new(Listings::new(Arc::default())));
        Self { feed, events: Vec::new(), position: 0 }
    }

    fn say(&mut self, leg: u16, raw: &str) -> Result<(), Undecodable> {
        self.position += 1;
        let raw = RawPayload::Text(raw.into());
        let frame = RawFrame { ts_ns: 7, kind: RawKind::Ws, conn: "0".into(), url: None, raw };
        let arrival = Arrival { frame: &frame, position: self.position, leg: LegId(leg) };
        self.feed.decode(arrival, &mut self.events)
    }

    /// A message whose checksum is right for the bids given as what the book then holds.
    fn book(&mut self, leg: u16, kind: &str, bids: &[(&str, &str)], held: &[(&str, &str)]) {
        let mut text = TextBook::default();
        held.iter().for_each(|(price, qty)| text.apply(LevelText { side: Side::Bid, price, quantity: qty }).unwrap());
        let checksum = checksum(&text);
        self.message(leg, kind, bids, checksum).unwrap();
    }

    fn message(&mut self, leg: u16, kind: &str, bids: &[(&str, &str)], checksum: u32) -> Result<(), Undecodable> {
        let rows: Vec<_> = bids.iter().map(|(price, qty)| format!(r#"{{"price":{price},"qty":{qty}}}"#)).collect();
        let rows = rows.join(",");
        self.say(
            leg,
            &format!(
                r#"{{"channel":"book","type":"{kind}","data":[{{"symbol":"BTC/USD","bids":[{rows}],"asks":[],"checksum":{checksum}}}]}}"#
            ),
        )
    }

    fn connection(&mut self, leg: u16, kind: RawKind) {
        self.position += 1;
        let raw = RawPayload::Text(String::new());
        let frame = RawFrame { ts_ns: 8, kind, conn: "0".into(), url: None, raw };
        let arrival = Arrival { frame: &frame, position: self.position, leg: LegId(leg) };
        self.feed.decode(arrival, &mut self.events).unwrap();
    }

    /// The last event, which must be a snapshot: its leg, its position and its bids in steps.
    fn last_snapshot(&self) -> (u16, Sequence, Vec<(i64, market::U256)>) {
        let Some(Event { leg, body: Body::Snapshot(snapshot), .. }) = self.events.last() else {
            panic!("{:?}", self.events.last())
        };
        let ticks = snapshot.ticks.iter().map(|tick| (tick.key.tick_index, tick.reserves)).collect();
        (leg.0, snapshot.sequence, ticks)
    }

    fn kinds(&self) -> Vec<&'static str> {
        let kind = |event: &Event| match &event.body {
            Body::Listing(_) => "listing",
            Body::Snapshot(_) => "snapshot",
            Body::Delta(_) => "delta",
            Body::Broken(_) => "broken",
            _ => "other",
        };
        self.events.iter().map(kind).collect()
    }
}

#[test]
fn a_failed_checksum_breaks_the_book_until_the_next_snapshot() {
    let mut wire = Wire::new();
    wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
    wire.message(0, "update", &[("99.0", "0.10")], 1).unwrap();
    wire.book(0, "update", &[("98.0", "0.10")], &[]);
    wire.book(0, "snapshot", &[("100.0", "0.5")], &[("100.0", "0.5")]);
    assert_eq!(wire.kinds(), ["listing", "snapshot", "broken", "snapshot"]);
    let counts = wire.feed.counts();
    assert_eq!((counts.checksums_matched, counts.checksums_failed, counts.ignored), (2, 1, 1));
}

#[test]
fn an_undecodable_number_breaks_the_book_and_goes_to_the_dead_letters() {
    let mut wire = Wire::new();
    wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
    assert!(matches!(wire.message(0, "update", &[("-1", "0.10")], 0), Err(Undecodable::Number { .. })));
    assert_eq!(wire.kinds(), ["listing", "snapshot", "broken"]);
}

#[test]
fn another_leg_stands_by_until_the_active_one_breaks() {
    let mut wire = Wire::new();
    let row = [("100.0", "0.50")];
    wire.book(0, "snapshot", &row, &row);
    wire.book(1, "snapshot", &row, &row);
    wire.book(1, "update", &[("101.0", "1")], &[]);
    assert_eq!(wire.kinds(), ["listing", "snapshot"]);
    wire.say(0, r#"{"method":"unsubscribe","success":true,"result":{"channel":"book","symbol":"BTC/USD"}}"#).unwrap();
    wire.book(1, "snapshot", &row, &row);
    assert_eq!(wire.kinds(), ["listing", "snapshot", "broken", "snapshot"]);
}

#[test]
fn the_subscribed_depth_is_the_window_and_ids_beyond_64_bits_are_text() {
    let mut wire = Wire::new();
    wire.say(0, r#"{"method":"subscribe","success":true,"result":{"channel":"book","symbol":"BTC/USD","depth":25}}"#)
        .unwrap();
    wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
    let Body::Snapshot(snapshot) = &wire.events[1].body else { panic!("{:?}", wire.events) };
    assert_eq!(snapshot.window, Window::Best(25));
    wire.say(
        0,
        r#"{"channel":"trade","type":"update","data":[{"symbol":"BTC/USD","side":"buy","price":100.5,"qty":1,
           "trade_id":100155647470219567721,"timestamp":"2026-08-01T02:53:53.646219Z"}]}"#,
    )
    .unwrap();
    let Some(Body::Trade { trade, .. }) = wire.events.last().map(|event| &event.body) else { panic!("no trade") };
    assert_eq!((&*trade.id, trade.taker), ("100155647470219567721", Side::Bid));
}

fn steps(levels: &[(i64, u64)]) -> Vec<(i64, market::U256)> {
    levels.iter().map(|(price, quantity)| (*price, market::U256::from(*quantity))).collect()
}

#[test]
fn a_verified_leg_takes_over_at_once_when_the_active_one_ends() {
    let mut wire = Wire::new();
    let both = [("100.0", "0.50"), ("99.0", "0.25")];
    wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
    wire.book(1, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
    wire.book(1, "update", &[("99.0", "0.25")], &both);
    assert_eq!(wire.kinds(), ["listing", "snapshot"], "it only stands by");
    assert_eq!(wire.feed.active("BTC/USD"), Some(LegId(0)));
    wire.connection(0, RawKind::Close);
    assert_eq!(wire.kinds(), ["listing", "snapshot", "snapshot"]);
    let taken = wire.last_snapshot();
    assert_eq!(taken, (1, Sequence::Arrival(4), steps(&[(99, 25), (100, 50)])));
    wire.book(1, "update", &[("99.0", "0")], &[("100.0", "0.50")]);
    assert_eq!(wire.kinds().last(), Some(&"delta"));
    // The first leg comes back and stands by; it does not take the instrument back.
    wire.connection(0, RawKind::Open);
    wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
    assert_eq!(wire.kinds().len(), 4);
    wire.connection(1, RawKind::Close);
    assert_eq!(wire.last_snapshot().0, 0);
}

#[test]
fn a_verified_leg_takes_over_a_book_whose_checksum_failed_and_that_leg_alone_is_repaired() {
    let mut wire = Wire::new();
    let row = [("100.0", "0.50")];
    wire.book(0, "snapshot", &row, &row);
    wire.book(1, "snapshot", &row, &row);
    wire.message(0, "update", &[("98.0", "1")], 1).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "snapshot"]);
    assert_eq!(wire.last_snapshot().0, 1);
    assert_eq!(wire.feed.repairs(), [(LegId(0), "BTC/USD".into())]);
    assert_eq!(wire.feed.repairs(), []);
    // The broken leg's updates count for nothing until its next snapshot.
    wire.book(0, "update", &[("97.0", "1")], &row);
    wire.message(1, "update", &[("98.0", "1")], 1).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "snapshot", "broken"]);
    assert_eq!(wire.feed.active("BTC/USD"), None);
    wire.book(0, "snapshot", &row, &row);
    assert_eq!(wire.kinds().last(), Some(&"snapshot"));
}

#[test]
fn a_leg_that_ends_with_nobody_to_take_over_breaks_its_books() {
    let mut wire = Wire::new();
    let row = [("100.0", "0.50")];
    wire.book(0, "snapshot", &row, &row);
    wire.message(1, "snapshot", &row, 1).unwrap();
    wire.connection(0, RawKind::Close);
    wire.connection(0, RawKind::Close);
    assert_eq!(wire.kinds(), ["listing", "snapshot", "broken"]);
    wire.connection(0, RawKind::Open);
    wire.book(0, "update", &row, &row);
    assert_eq!(wire.kinds().len(), 3, "no update before the snapshot");
    wire.book(0, "snapshot", &row, &row);
    assert_eq!(wire.kinds().last(), Some(&"snapshot"));
}

#[test]
fn the_end_of_a_leg_that_stands_by_changes_nothing() {
    let mut wire = Wire::new();
    let row = [("100.0", "0.50")];
    wire.book(0, "snapshot", &row, &row);
    wire.book(1, "snapshot", &row, &row);
    wire.connection(1, RawKind::Close);
    wire.connection(0, RawKind::Alive);
    assert_eq!(wire.kinds(), ["listing", "snapshot"]);
    wire.connection(0, RawKind::Close);
    assert_eq!(wire.kinds(), ["listing", "snapshot", "broken"], "a book of an ended connection takes nothing over");
}

/// A `book` message of several parts, each of one bid, with their checksums.
fn parts(kind: &str, parts: &[(&str, &str, &str, u32)]) -> String {
    let part = |(symbol, price, qty, checksum): &(&str, &str, &str, u32)| {
        format!(r#"{{"symbol":"{symbol}","bids":[{{"price":{price},"qty":{qty}}}],"asks":[],"checksum":{checksum}}}"#)
    };
    let parts: Vec<_> = parts.iter().map(part).collect();
    format!(r#"{{"channel":"book","type":"{kind}","data":[{}]}}"#, parts.join(","))
}

#[test]
fn one_message_is_one_version_of_each_instrument_and_what_is_wrong_with_one_is_its_own() {
    let mut wire = Wire::new();
    let one = |price: &str, qty: &str| {
        let mut text = TextBook::default();
        text.apply(LevelText { side: Side::Bid, price, quantity: qty }).unwrap();
        checksum(&text)
    };
    let whole = [("A/USD", "100", "1", 0), ("A/USD", "100", "2", one("100", "2")), ("B/USD", "9", "1", one("9", "1"))];
    wire.say(0, &parts("snapshot", &whole)).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "listing", "snapshot"]);
    let changes =
        [("A/USD", "100", "3", 0), ("B/USD", "9", "2", one("9", "2")), ("A/USD", "100", "4", one("100", "4"))];
    wire.say(0, &parts("update", &changes)).unwrap();
    assert_eq!(wire.kinds()[4..], ["delta", "delta"]);
    let bad = [("A/USD", "100", "-3", 0), ("B/USD", "9", "3", one("9", "3"))];
    wire.say(0, &parts("update", &bad)).unwrap_err();
    assert_eq!(wire.kinds()[6..], ["broken", "delta"]);
    wire.say(0, &parts("update", &bad[1..]).replace("\"price\"", "\"cost\"")).unwrap_err();
    assert_eq!(wire.kinds()[8..], ["broken"]);
    assert_eq!(wire.feed.repairs(), [(LegId(0), "A/USD".into()), (LegId(0), "B/USD".into())]);
}
