//! Snapshots, legs and the recording, through a real guard.
//!
//! Never: a loss told to the code under test but by what the legs bring.

use crate::raw::RawKind;
use crate::venue_feed::{
    Undecodable,
    numbered::wire::{Wire, noise, recorded, replayed, survives},
};
use market::{Body, FeedState, Side, Venue, guard::BreakReason};
use proptest::prelude::*;

const VENUE: Venue = Venue::Bitstamp;
const START_US: u64 = 1_618_677_691_000_000;
const URL: &str = "https://www.bitstamp.net/api/v2/order_book/btcusd/?group=1";

fn diff(id: u64, bids: &str) -> String {
    let us = START_US + id;
    format!(
        r#"{{"data":{{"timestamp":"1618677691","microtimestamp":"{us}","bids":[{bids}],"asks":[]}},"channel":"diff_order_book_btcusd","event":"data"}}"#
    )
}

/// A diff that sets the price of its id.
fn set(id: u64) -> String {
    diff(id, &format!(r#"["{id}","1.00000000"]"#))
}

fn snapshot(wire: &mut Wire, id: u64, prices: &[u64]) {
    let bids: Vec<_> = prices.iter().map(|price| format!(r#"["{price}", "1.00000000"]"#)).collect();
    let (us, bids) = (START_US + id, bids.join(", "));
    let text = format!(r#"{{"timestamp": "1618677695", "microtimestamp": "{us}", "bids": [{bids}], "asks": []}}"#);
    wire.say(RawKind::Http, "rest", Some(URL), &text).unwrap();
}

/// Feed state, the shown id and the prices, the lowest first.
fn shown(wire: &Wire) -> (FeedState, Option<u64>, Vec<u64>) {
    let stream = wire.stream("btcusd");
    let (version, levels) = stream.shown(Side::Bid);
    let prices = levels.iter().rev().map(|(price, _)| price.parse().unwrap()).collect();
    (stream.state(), version.map(|version| version - START_US), prices)
}

fn opened(conns: &[&str]) -> Wire {
    let mut wire = Wire::new(VENUE);
    conns.iter().for_each(|conn| wire.say(RawKind::Open, conn, Some("wss://ws.bitstamp.net/"), "").unwrap());
    wire
}

#[test]
fn diffs_join_a_snapshot_whenever_it_comes_and_older_ones_are_dropped() {
    for (id, prices) in
        [(5, [1].as_slice()), (10, &[1, 10]), (15, &[1, 10]), (20, &[1, 10, 20]), (33, &[1, 10, 20, 30])]
    {
        for after in 0..=3 {
            let mut wire = opened(&["a"]);
            let diffs = [10, 20, 30];
            diffs.iter().take(after).for_each(|id| wire.ws("a", &set(*id)).unwrap());
            snapshot(&mut wire, id, prices);
            diffs.iter().skip(after).for_each(|id| wire.ws("a", &set(*id)).unwrap());
            wire.wait(300_000_000);
            let right = (FeedState::Live, Some(id.max(30)), vec![1, 10, 20, 30]);
            assert_eq!((shown(&wire), wire.gaps()), (right, (0, 0)), "snapshot {id} after {after}");
        }
    }
}

#[test]
fn a_leg_that_lags_fills_what_the_other_lost() {
    let mut wire = opened(&["a", "b"]);
    for conn in ["a", "b"] {
        wire.ws(conn, &set(10)).unwrap();
    }
    snapshot(&mut wire, 10, &[10]);
    wire.ws("a", &set(20)).unwrap();
    // Leg b has lost 20 and 40, leg a brings each before b brings the next.
    for (conn, id) in [("a", 30), ("b", 30), ("a", 40), ("a", 50), ("b", 50)] {
        wire.ws(conn, &set(id)).unwrap();
    }
    assert_eq!(shown(&wire), (FeedState::Live, Some(50), vec![10, 20, 30, 40, 50]));
    assert_eq!((wire.gaps(), wire.counts().missing), ((0, 0), 0));
}

#[test]
fn a_loss_of_the_leg_that_is_ahead_is_noticed_by_the_other_and_healed_by_a_snapshot() {
    let mut wire = opened(&["a", "b"]);
    for conn in ["a", "b"] {
        wire.ws(conn, &set(10)).unwrap();
    }
    snapshot(&mut wire, 10, &[10]);
    wire.ws("a", &set(30)).unwrap();
    assert_eq!(shown(&wire).0, FeedState::Live, "nobody can know yet");
    wire.ws("b", &set(20)).unwrap();
    assert!(matches!(wire.events.last().unwrap().body, Body::Broken(BreakReason::Missing)), "{:?}", wire.events);
    assert_eq!(shown(&wire), (FeedState::Gapped, Some(30), vec![10, 30]), "marked, and not laid over");
    wire.ws("b", &set(30)).unwrap();
    wire.ws("a", &set(40)).unwrap();
    snapshot(&mut wire, 35, &[10, 20, 30]);
    assert_eq!(shown(&wire), (FeedState::Live, Some(40), vec![10, 20, 30, 40]));
    assert_eq!((wire.gaps(), wire.counts().missing), ((1, 0), 1));
}

#[test]
fn legs_that_are_cut_differently_do_not_keep_the_book_off_the_screen() {
    let mut wire = opened(&["a", "b"]);
    wire.ws("a", &set(1)).unwrap();
    snapshot(&mut wire, 1, &[1]);
    let mut broken = 0;
    for id in 1..40 {
        wire.ws("a", &set(10 * id)).unwrap();
        wire.ws("b", &set(10 * id - 5)).unwrap();
        let breaks = wire.events.iter().filter(|event| matches!(event.body, Body::Broken(_))).count();
        if breaks > 0 {
            broken += breaks;
            snapshot(&mut wire, 10 * id, &[1]);
        }
    }
    assert!((1..=4).contains(&broken), "{broken}");
    assert_eq!((shown(&wire).0, wire.counts().checks_put_aside), (FeedState::Live, 1));
}

#[test]
fn what_a_lost_connection_missed_is_a_gap() {
    let mut wire = opened(&["a"]);
    wire.ws("a", &set(10)).unwrap();
    snapshot(&mut wire, 10, &[10]);
    wire.ws("a", &set(20)).unwrap();
    wire.say(RawKind::Close, "a", None, "").unwrap();
    wire.say(RawKind::Open, "a", None, "").unwrap();
    wire.ws("a", &set(40)).unwrap();
    wire.wait(300_000_000);
    assert_eq!(shown(&wire), (FeedState::Gapped, Some(20), vec![10, 20]));
    wire.ws("a", &set(50)).unwrap();
    snapshot(&mut wire, 45, &[10, 20, 30, 40]);
    assert_eq!(shown(&wire), (FeedState::Live, Some(50), vec![10, 20, 30, 40, 50]));
    assert_eq!(wire.gaps(), (1, 0));
}

#[test]
fn a_connection_that_ends_before_its_first_diff_may_have_missed_one() {
    let mut wire = opened(&["a"]);
    snapshot(&mut wire, 10, &[10]);
    wire.wait(300_000_000);
    wire.say(RawKind::Close, "a", None, "").unwrap();
    wire.say(RawKind::Open, "a", None, "").unwrap();
    wire.ws("a", &set(40)).unwrap();
    wire.wait(300_000_000);
    assert_eq!(shown(&wire), (FeedState::Gapped, Some(10), vec![10]));
}

#[test]
fn a_diff_that_cannot_be_read_is_a_hole_of_its_own() {
    let number = diff(20, r#"["20","1.0"],["NaN","1.0"]"#);
    let time = set(20).replace("16186776910000", "161867769100");
    let shape = set(20).replace(r#""bids""#, r#""bid""#);
    for unreadable in [number.as_str(), &time, &shape, "{"] {
        let mut wire = opened(&["a"]);
        wire.ws("a", &set(10)).unwrap();
        snapshot(&mut wire, 10, &[10]);
        wire.wait(300_000_000);
        wire.ws("a", unreadable).unwrap_err();
        wire.ws("a", &set(30)).unwrap();
        wire.wait(300_000_000);
        let right = ((FeedState::Gapped, Some(10), vec![10]), (1, 0));
        assert_eq!((shown(&wire), wire.gaps()), right, "{unreadable}");
    }
}

const TRADE: &str = r#"{"channel": "live_trades_btcusd", "data": {"amount": 0.032712, "amount_str": "0.03271200", "buy_order_id": 1351035778150400, "id": 164507735, "microtimestamp": "1618677693933000", "price": 60553.64, "price_str": "60553.64", "sell_order_id": 1351035756818432, "timestamp": "1618677693", "type": 1}, "event": "trade"}"#;

#[test]
fn a_trade_is_in_microseconds_and_words_beside_are_ignored() {
    let mut wire = opened(&["a"]);
    wire.ws("a", TRADE).unwrap();
    let trade = &wire.stream("btcusd").trades[0];
    assert_eq!((&*trade.id, trade.order, trade.taker), ("164507735", 164_507_735, Side::Ask));
    assert_eq!(trade.venue_ns, 1_618_677_693_933_000_000);
    let seconds = TRADE.replace("1618677693933000", "1618677693");
    assert!(matches!(wire.ws("a", &seconds), Err(Undecodable::Time { .. })));
    assert!(matches!(wire.ws("a", &TRADE.replace(r#""type": 1"#, r#""type": 2"#)), Err(Undecodable::Field { .. })));
    assert!(matches!(wire.ws("a", &TRADE.replace("164507735", r#""x""#)), Err(Undecodable::TradeId { .. })));
    for word in [
        r#"{"event":"bts:subscription_succeeded","channel":"diff_order_book_btcusd","data":{}}"#,
        r#"{"event":"bts:request_reconnect","channel":"","data":""}"#,
        r#"{"event":"bts:heartbeat","channel":"","data":{"status":"success"}}"#,
        r#"{"event":"data","channel":"order_book_btcusd","data":{}}"#,
        r#"{"event":"bts:error","channel":"","data":{"code":null,"message":"Bad subscription string."}}"#,
    ] {
        wire.ws("a", word).unwrap();
    }
    wire.say(RawKind::Http, "rest", Some("https://www.bitstamp.net/api/v2/trading-pairs-info/"), "[]").unwrap();
    assert_eq!(wire.counts().ignored, 6);
}

#[test]
fn the_recording_is_applied_and_never_crossed() {
    const RECORDING: &str = "bitstamp/bitstamp_2021-04.frames.jsonl.zst";
    let Some(frames) = recorded(RECORDING) else { return };
    let wire = replayed(VENUE, &frames);
    let trades: usize = wire.streams().map(|(_, stream)| stream.trades.len()).sum();
    assert_eq!((wire.streams().count(), wire.gaps(), trades), (10, (0, 0), 16));
    assert!(wire.streams().all(|(_, stream)| stream.state() == FeedState::Live));
    let fates = wire.fates;
    assert_eq!((fates.dropped, fates.applied, fates.crossed, fates.replaced), (114, 527, 0, 10));
    assert_eq!((wire.counts().undecodable, wire.counts().missing), (0, 0));
}

const REAL: [(Option<&str>, &str); 4] = [
    (
        None,
        r#"{"data":{"timestamp":"1618677691","microtimestamp":"1618677691591574","bids":[["309.68","0.00000000"],["305.41","1.00000000"]],"asks":[]},"channel":"diff_order_book_ltcusd","event":"data"}"#,
    ),
    (None, TRADE),
    (None, r#"{"event":"bts:subscription_succeeded","channel":"diff_order_book_ltcusd","data":{}}"#),
    (
        Some("https://www.bitstamp.net/api/v2/order_book/ltcusd"),
        r#"{"timestamp": "1618677695", "microtimestamp": "1618677691591500", "bids": [["309.68", "1.0"]], "asks": [["310.00", "2.0"]]}"#,
    ),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn noise_is_survived(noise in prop::collection::vec(noise(&REAL), 1..12)) {
        survives(VENUE, &noise);
    }
}
