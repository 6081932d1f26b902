//! Both protocols, told message by message; most frames are recorded ones, cut to what matters.
//!
//! Never: a message of a venue's login.

use super::*;
use crate::raw::{RawFrame, RawKind, RawPayload};
use market::{Body, Side, U256};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const EPOCH_NS: u64 = 1_618_677_817 * S;

const SNAPSHOT: &str = r#"{"type":"snapshot","product_id":"SKL-BTC","asks":[["0.00001305","4781.0"],["0.00001306","1230.5"]],"bids":[["0.00001302","10.0"],["0.00000004","100000.0"]]}"#;
const UPDATE: &str = r#"{"type":"l2update","product_id":"SKL-BTC","changes":[["sell","0.00001306","660.5"]],"time":"2021-04-17T16:43:37.075687Z"}"#;
const MATCH: &str = r#"{"type":"match","trade_id":280232,"maker_order_id":"2a0da34e-61f7-4c36-88e5-c9dd15927b16","taker_order_id":"3c82abaa-c01e-4608-be59-6a1e69742891","side":"sell","size":"985","price":"0.00001305","product_id":"SKL-BTC","sequence":177100030,"time":"2021-04-17T16:43:37.089723Z"}"#;

struct Wire {
    feed: Feed,
    events: Vec<Event>,
    position: u64,
    now_ns: u64,
    number: u64,
}

impl Wire {
    fn new() -> Self {
        let feed = Feed::new(Arc::new(Listings::new(Arc::default())));
        Self { feed, events: Vec::new(), position: 0, now_ns: EPOCH_NS, number: 0 }
    }

    fn frame(&mut self, leg: u16, kind: RawKind, raw: &str) -> Result<(), Undecodable> {
        self.position += 1;
        let raw = RawPayload::Text(raw.into());
        let frame = RawFrame { ts_ns: self.now_ns, kind, conn: "0".into(), url: None, raw };
        let arrival = Arrival { frame: &frame, position: self.position, leg: LegId(leg) };
        self.feed.decode(arrival, &mut self.events)
    }

    fn say(&mut self, leg: u16, raw: &str) -> Result<(), Undecodable> {
        self.frame(leg, RawKind::Ws, raw)
    }

    /// A message of Advanced Trade with the next number of its connection.
    fn next(&mut self, leg: u16, channel: &str, events: &str) -> Result<(), Undecodable> {
        let text = numbered(self.number, channel, events);
        self.number += 1;
        self.say(leg, &text)
    }

    fn bodies(&self) -> Vec<&'static str> {
        self.events.iter().map(kind).collect()
    }

    fn last(&self) -> &Event {
        self.events.last().unwrap()
    }
}

fn numbered(number: u64, channel: &str, events: &str) -> String {
    format!(
        r#"{{"channel":"{channel}","client_id":"","timestamp":"2026-01-01T00:00:00.123456789Z","sequence_num":{number},"events":[{events}]}}"#
    )
}

fn event(kind: &str, product: &str, rows: &[(&str, &str, &str)]) -> String {
    let row = |(side, price, quantity): &(&str, &str, &str)| {
        format!(
            r#"{{"side":"{side}","event_time":"1970-01-01T00:00:00Z","price_level":"{price}","new_quantity":"{quantity}"}}"#
        )
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    format!(r#"{{"type":"{kind}","product_id":"{product}","updates":[{}]}}"#, rows.join(","))
}

fn kind(event: &Event) -> &'static str {
    match &event.body {
        Body::Listing(_) => "listing",
        Body::Snapshot(_) => "snapshot",
        Body::Delta(_) => "delta",
        Body::Trade { .. } => "trade",
        Body::Broken(BreakReason::Missing) => "missing",
        Body::Broken(BreakReason::Undecodable) => "undecodable",
        Body::Broken(BreakReason::Unsubscribed) => "unsubscribed",
        _ => "other",
    }
}

fn trade(event: &Event) -> Option<&market::Trade> {
    if let Body::Trade { trade, .. } = &event.body { Some(trade) } else { None }
}

/// The ticks that an event names: side, price and quantity in its steps.
fn ticks(event: &Event) -> Vec<(Side, i64, U256)> {
    let ticks = match &event.body {
        Body::Snapshot(snapshot) => &snapshot.ticks,
        Body::Delta(delta) => &delta.changes,
        other => panic!("{other:?}"),
    };
    ticks.iter().map(|tick| (tick.side, tick.key.tick_index, tick.reserves)).collect()
}

fn begun(products: &[&str]) -> Wire {
    let mut wire = Wire::new();
    wire.next(0, "subscriptions", r#"{"subscriptions":{"level2":["BTC-USD"]}}"#).unwrap();
    for product in products {
        let rows = [("bid", "100.00", "1"), ("offer", "101.00", "2")];
        wire.next(0, "l2_data", &event("snapshot", product, &rows)).unwrap();
    }
    wire
}

#[test]
fn the_exchange_feed_replaces_changes_and_deletes() {
    let mut wire = Wire::new();
    wire.say(0, UPDATE).unwrap();
    assert_eq!(wire.bodies(), ["listing"], "nothing before the snapshot");
    wire.say(0, SNAPSHOT).unwrap();
    wire.say(0, UPDATE).unwrap();
    let many = UPDATE.replace(r#""660.5"]"#, r#""0"],["buy","0.00001303","0.00000000"],["buy","0.00001303","7"]"#);
    wire.say(0, &many).unwrap();
    assert_eq!(wire.bodies(), ["listing", "snapshot", "delta", "delta"]);
    let one = U256::from(10_u64);
    let right =
        [(Side::Ask, 1_306, U256::ZERO), (Side::Bid, 1_303, U256::ZERO), (Side::Bid, 1_303, one * U256::from(7_u64))];
    assert_eq!(ticks(wire.last()), right, "in the venue's order, under one version");
    assert_eq!(wire.last().venue_ns % S, 75_687_000);
    wire.frame(0, RawKind::Close, "").unwrap();
    wire.frame(0, RawKind::Open, "").unwrap();
    wire.say(0, UPDATE).unwrap();
    assert_eq!(wire.bodies()[4..], ["unsubscribed"], "a new snapshot is waited for");
    wire.say(0, SNAPSHOT).unwrap();
    assert_eq!(kind(wire.last()), "snapshot");
}

#[test]
fn a_trade_is_the_taker_s_and_its_id_is_text_of_any_length() {
    let mut wire = Wire::new();
    wire.say(0, MATCH).unwrap();
    wire.say(0, &MATCH.replace(r#""match""#, r#""last_match""#).replace("280232", "100155647470219567721")).unwrap();
    wire.say(0, &MATCH.replace("280232", r#""100155647470219567722""#)).unwrap();
    let trades: Vec<_> = wire.events.iter().filter_map(trade).map(|trade| (&*trade.id, trade.taker)).collect();
    let ids = ["280232", "100155647470219567721", "100155647470219567722"];
    assert_eq!(trades, ids.map(|id| (id, Side::Bid)), "a maker that sells was bought from");
    for bad in
        [("280232", "null"), (r#""sell""#, r#""both""#), ("985", "-1"), ("2021-04-17T16:43:37", "1969-12-31T23:59:59")]
    {
        assert!(wire.say(0, &MATCH.replace(bad.0, bad.1)).is_err(), "{bad:?}");
    }
    assert_eq!(wire.events.len(), 4);
    wire.say(0, r#"{"type":"heartbeat","sequence":90,"last_trade_id":20,"product_id":"BTC-USD","time":"x"}"#).unwrap();
    assert_eq!(wire.feed.counts().ignored, 1);
}

#[test]
fn what_cannot_be_read_breaks_its_book_alone() {
    let other = SNAPSHOT.replace("SKL-BTC", "SKL-USD");
    for bad in [
        UPDATE.replace("660.5", "NaN"),
        UPDATE.replace("660.5", "-1"),
        UPDATE.replace("0.00001306", "1e60"),
        UPDATE.replace("sell", "both"),
        UPDATE.replace(r#","660.5""#, ""),
        UPDATE.replace("2021-04-17T16:43:37", "1969-12-31T23:59:59"),
        UPDATE.replace("changes", "chances"),
        SNAPSHOT.replace(r#""bids""#, r#""bins""#),
    ] {
        let mut wire = Wire::new();
        wire.say(0, SNAPSHOT).unwrap();
        wire.say(0, &other).unwrap();
        assert!(wire.say(0, &bad).is_err(), "{bad}");
        assert_eq!(wire.bodies(), ["listing", "snapshot", "listing", "snapshot", "undecodable"], "{bad}");
        assert_eq!(wire.feed.repairs(), [(LegId(0), "SKL-BTC".into())], "{bad}");
        wire.say(0, &UPDATE.replace("SKL-BTC", "SKL-USD")).unwrap();
        assert_eq!(kind(wire.last()), "delta");
    }
}

#[test]
fn an_unknown_product_is_counted_and_named_and_asks_for_nothing() {
    let listings = Listings::new(Arc::default()).with_only(VENUE, ["SKL-USD"]);
    let mut wire = Wire { feed: Feed::new(Arc::new(listings)), ..Wire::new() };
    for raw in [SNAPSHOT, UPDATE, MATCH] {
        let refused = wire.say(0, raw).unwrap_err();
        assert!(matches!(&refused, Undecodable::Unlisted { symbol, .. } if &**symbol == "SKL-BTC"), "{refused}");
    }
    assert!(wire.say(0, &UPDATE.replace("660.5", "NaN")).is_err());
    assert_eq!((wire.feed.counts().undecodable, wire.feed.repairs().len(), wire.events.len()), (4, 0, 0));
}

#[test]
fn one_message_of_several_events_is_one_change_of_each_book() {
    let mut wire = begun(&["BTC-USD", "ETH-USD"]);
    let (mut events, before) = (Vec::new(), wire.events.len());
    events.push(event("update", "BTC-USD", &[("bid", "100.00", "0"), ("offer", "101.00", "3")]));
    events.push(event("update", "ETH-USD", &[("ask", "101.00", "0.0")]));
    events.push(event("update", "BTC-USD", &[("offer", "101.00", "4")]));
    wire.next(0, "l2_data", &events.join(",")).unwrap();
    let told = &wire.events[before..];
    assert_eq!(told.iter().map(kind).collect::<Vec<_>>(), ["delta", "delta"]);
    let quantities: Vec<_> = ticks(&told[0]).into_iter().map(|(side, _, quantity)| (side, quantity)).collect();
    let n = |number: u64| U256::from(number);
    assert_eq!(quantities, [(Side::Bid, n(0)), (Side::Ask, n(3)), (Side::Ask, n(4))]);
    assert_eq!(told[0].venue_ns % S, 123_456_789);
    let events = [
        event("snapshot", "BTC-USD", &[("bid", "99", "1"), ("bid", "98", "1")]),
        event("update", "BTC-USD", &[("bid", "99", "0")]),
    ];
    wire.next(0, "l2_data", &events.join(",")).unwrap();
    assert_eq!(kind(wire.last()), "snapshot", "changes behind it are in it");
    assert_eq!(ticks(wire.last()).last().map(|(.., quantity)| *quantity), Some(U256::ZERO));
    assert_eq!(wire.events.len(), before + 3);
}

#[test]
fn a_hole_in_the_numbers_loses_every_book_of_that_connection() {
    let mut wire = begun(&["BTC-USD", "ETH-USD"]);
    wire.next(0, "heartbeats", "{}").unwrap();
    wire.number += 2;
    let update = event("update", "BTC-USD", &[("bid", "99.00", "1")]);
    wire.next(0, "l2_data", &update).unwrap();
    assert_eq!(wire.bodies()[4..], ["missing", "missing"], "and nothing of the message is applied");
    assert_eq!((wire.feed.counts().missing, wire.feed.reconnects()), (2, vec![LegId(0)]));
    wire.next(0, "l2_data", &update).unwrap();
    assert_eq!((wire.events.len(), wire.feed.reconnects().len(), wire.feed.repairs().len()), (6, 0, 0));
    wire.frame(0, RawKind::Close, "").unwrap();
    wire.frame(0, RawKind::Open, "").unwrap();
    wire.number = 0;
    wire.next(0, "l2_data", &event("snapshot", "BTC-USD", &[("bid", "99.00", "1")])).unwrap();
    assert_eq!((kind(wire.last()), wire.feed.reconnects().len()), ("snapshot", 0));
}

#[test]
fn a_hole_hands_the_books_to_the_other_leg() {
    let mut wire = begun(&["BTC-USD"]);
    wire.say(1, &numbered(0, "l2_data", &event("snapshot", "BTC-USD", &[("bid", "100.00", "5")]))).unwrap();
    assert_eq!(wire.feed.active("BTC-USD"), Some(LegId(0)));
    wire.number += 1;
    wire.next(0, "heartbeats", "{}").unwrap();
    assert_eq!((kind(wire.last()), wire.last().leg), ("snapshot", LegId(1)), "without a gap");
    assert_eq!((wire.feed.active("BTC-USD"), wire.feed.counts().switches), (Some(LegId(1)), 1));
    assert_eq!(wire.feed.reconnects(), [LegId(0)], "that leg alone");
}

#[test]
fn a_message_that_comes_again_or_late_is_dropped_and_counted() {
    let mut wire = begun(&["BTC-USD"]);
    let update = numbered(2, "l2_data", &event("update", "BTC-USD", &[("bid", "100.00", "7")]));
    wire.say(0, &update).unwrap();
    let events = wire.events.len();
    wire.say(0, &update).unwrap();
    wire.say(0, &numbered(1, "l2_data", &event("snapshot", "BTC-USD", &[]))).unwrap();
    assert_eq!((wire.events.len(), wire.feed.counts().passed, wire.feed.counts().missing), (events, 2, 0));
    assert_eq!(wire.feed.reconnects(), []);
}

#[test]
fn one_event_that_cannot_be_read_disturbs_no_other_of_its_message() {
    for (bad, right) in [("NaN", "undecodable"), ("1e99", "undecodable")] {
        let mut wire = begun(&["BTC-USD", "ETH-USD"]);
        let events = [
            event("update", "BTC-USD", &[("bid", "99.00", bad)]),
            event("update", "ETH-USD", &[("bid", "99.00", "1")]),
        ];
        assert!(wire.next(0, "l2_data", &events.join(",")).is_err());
        assert_eq!(wire.bodies()[4..], [right, "delta"]);
        assert_eq!((wire.feed.repairs(), wire.feed.reconnects()), (vec![(LegId(0), "BTC-USD".into())], vec![]));
    }
    for bad in [event("upset", "BTC-USD", &[]), event("update", "BTC-USD", &[("both", "1", "1")])] {
        let mut wire = begun(&["BTC-USD", "ETH-USD"]);
        assert!(wire.next(0, "l2_data", &bad).is_err());
        assert_eq!(wire.bodies()[4..], ["undecodable"]);
    }
    let mut wire = begun(&["BTC-USD", "ETH-USD"]);
    assert!(wire.next(0, "l2_data", r#"{"what":1}"#).is_err());
    assert_eq!(wire.bodies()[4..], ["undecodable", "undecodable"], "nobody knows whose it was");
    assert_eq!(wire.feed.reconnects(), [LegId(0)]);
}

#[test]
fn the_last_trades_come_newest_first_and_are_told_oldest_first() {
    let row = |id: &str, side: &str| {
        format!(
            r#"{{"trade_id":"{id}","product_id":"ETH-USD","price":"1260.01","size":"0.3","side":"{side}","time":"2019-08-14T20:42:27.265Z"}}"#
        )
    };
    let mut wire = begun(&[]);
    let first =
        format!(r#"{{"type":"snapshot","trades":[{},{}]}}"#, row("3", "BUY"), row("100155647470219567721", "SELL"));
    let then = format!(r#"{{"type":"update","trades":[{},{},{}]}}"#, row("4", "SELL"), row("5", "?"), row("6", "SELL"));
    wire.next(0, "market_trades", &first).unwrap();
    assert!(wire.next(0, "market_trades", &then).is_err(), "one of them is none; the others hold");
    let told: Vec<_> = wire.events.iter().filter_map(trade).collect();
    let names: Vec<_> = told.iter().map(|trade| (&*trade.id, trade.taker)).collect();
    let right = [("100155647470219567721", Side::Bid), ("3", Side::Ask), ("4", Side::Bid), ("6", Side::Bid)];
    assert_eq!(names, right);
    assert_eq!((told[1].order, told[2].order), (3, 4));
}

#[test]
fn a_product_that_falls_silent_while_its_leg_ticks_is_to_be_subscribed_to_anew_there_alone() {
    let mut wire = begun(&["BTC-USD", "ETH-USD"]);
    wire.say(1, &numbered(0, "l2_data", &event("snapshot", "BTC-USD", &[("bid", "100.00", "5")]))).unwrap();
    for beat in 0..400 {
        wire.now_ns += S / 20;
        let quantity = (1 + beat % 7).to_string();
        wire.next(0, "l2_data", &event("update", "ETH-USD", &[("bid", "99.00", &quantity)])).unwrap();
        if beat < 60 {
            wire.next(0, "l2_data", &event("update", "BTC-USD", &[("bid", "99.00", &quantity)])).unwrap();
        }
        wire.say(1, &numbered(beat + 1, "l2_data", &event("update", "BTC-USD", &[("bid", "98.00", &quantity)])))
            .unwrap();
        wire.feed.look_after(LegId(0), wire.now_ns);
        wire.feed.look_after(LegId(1), wire.now_ns);
    }
    let repairs = wire.feed.repairs();
    assert_eq!(repairs, [(LegId(0), "BTC-USD".into())]);
    assert_eq!(wire.feed.active("BTC-USD"), Some(LegId(1)), "the other leg took over");
    assert_eq!((wire.feed.active("ETH-USD"), wire.feed.reconnects().len()), (Some(LegId(0)), 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_too_odd(texts in prop::collection::vec(".{0,80}", 1..8)) {
        let mut wire = begun(&["BTC-USD"]);
        for text in texts {
            drop(wire.say(0, &text));
        }
    }

    #[test]
    fn no_mutation_of_a_message_is_too_odd(
        which in 0_usize..6,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..3, any::<char>()), 1..6),
    ) {
        let book = numbered(2, "l2_data", &event("update", "BTC-USD", &[("bid", "1", "1")]));
        let trades = numbered(2, "market_trades", r#"{"type":"snapshot","trades":[{"trade_id":"1","product_id":"BTC-USD","price":"1","size":"1","side":"BUY","time":"2019-08-14T20:42:27.265Z"}]}"#);
        let subscriptions = numbered(0, "subscriptions", r#"{"subscriptions":{"level2":["BTC-USD"]}}"#);
        let seeds = [SNAPSHOT, UPDATE, MATCH, &book, &trades, &subscriptions];
        let mut text: Vec<char> = seeds[which].chars().collect();
        for (at, edit, letter) in edits {
            let at = at.index(text.len());
            match edit {
                0 => text[at] = letter,
                1 => text.insert(at, letter),
                _ => {
                    text.remove(at);
                }
            }
        }
        let text: String = text.into_iter().collect();
        let mut wire = begun(&["BTC-USD"]);
        wire.say(0, SNAPSHOT).unwrap();
        drop(wire.say(0, &text));
        drop(wire.say(0, &text));
        use crate::live::protocol::Protocol as _;
        drop(crate::coinbase::live::AdvancedTrade.understand(&text));
        drop(crate::coinbase::live::Exchange.understand(&text));
    }
}
