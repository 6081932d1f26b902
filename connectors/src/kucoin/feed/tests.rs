//! Bridging, row order and the recording, through a real guard.
//!
//! Never: a book compared with one that the code under test made.

use crate::raw::RawKind;
use crate::venue_feed::{
    Undecodable,
    numbered::wire::{Wire, noise, recorded, replayed, survives, text},
};
use market::{Body, FeedState, Side, Venue, Window};
use proptest::prelude::*;
use std::collections::BTreeMap;

const VENUE: Venue = Venue::Kucoin;

/// Changes by sequence, from 11 on: side, price, quantity. A price of 0 is none.
const CHANGES: [(Side, u64, u64); 8] = [
    (Side::Bid, 1, 5),
    (Side::Ask, 9, 5),
    (Side::Bid, 1, 6),
    (Side::Ask, 0, 0),
    (Side::Ask, 9, 0),
    (Side::Bid, 1, 7),
    (Side::Bid, 2, 8),
    (Side::Ask, 8, 4),
];
const BEFORE: u64 = 10;

fn at(sequence: u64) -> (Side, u64, u64) {
    CHANGES[usize::try_from(sequence - BEFORE - 1).unwrap()]
}

fn update(first: u64, last: u64) -> String {
    let rows = |side| {
        // The venue need not sort them.
        let rows = (first..=last).rev().filter(|sequence| at(*sequence).0 == side);
        let rows: Vec<_> = rows
            .map(|sequence| {
                let (_, price, quantity) = at(sequence);
                format!(r#"["{price}","{quantity}","{sequence}"]"#)
            })
            .collect();
        rows.join(",")
    };
    let (asks, bids) = (rows(Side::Ask), rows(Side::Bid));
    format!(
        r#"{{"data":{{"sequenceStart":{first},"symbol":"A-B","changes":{{"asks":[{asks}],"bids":[{bids}]}},"sequenceEnd":{last}}},
        "subject":"trade.l2update","topic":"/market/level2:A-B","type":"message"}}"#
    )
}

fn truth(sequence: u64, side: Side) -> BTreeMap<u64, u64> {
    let mut levels = BTreeMap::new();
    for at in (BEFORE + 1..=sequence).map(at).filter(|at| at.0 == side && at.1 > 0) {
        levels.insert(at.1, at.2);
    }
    levels.retain(|_, quantity| *quantity > 0);
    levels
}

const URL: &str = "https://api.kucoin.com/api/v3/market/orderbook/level2?symbol=A-B";

fn snapshot(wire: &mut Wire, sequence: u64) {
    let rows = |side| {
        let rows: Vec<_> = truth(sequence, side).iter().map(|(price, qty)| format!(r#"["{price}","{qty}"]"#)).collect();
        rows.join(",")
    };
    let text = format!(
        r#"{{"code":"200000","data":{{"time":1619378326628,"sequence":"{sequence}","bids":[{}],"asks":[{}]}}}}"#,
        rows(Side::Bid),
        rows(Side::Ask)
    );
    wire.say(RawKind::Http, "rest", Some(URL), &text).unwrap();
}

fn shown(wire: &Wire, side: Side) -> (Option<u64>, BTreeMap<u64, u64>) {
    let (version, levels) = wire.stream("A-B").shown(side);
    (version, levels.iter().map(|(price, qty)| (price.parse().unwrap(), qty.parse().unwrap())).collect())
}

#[test]
fn the_message_that_bridges_is_right_as_a_whole_wherever_the_snapshot_cuts_it() {
    // One message of all; two; one for each.
    let cuts: [&[u64]; 3] = [&[18], &[14, 18], &[11, 12, 13, 14, 15, 16, 17, 18]];
    for cut in cuts {
        let firsts = std::iter::once(BEFORE + 1).chain(cut.iter().map(|last| last + 1));
        let updates: Vec<_> = firsts.zip(cut).map(|(first, last)| update(first, *last)).collect();
        for sequence in BEFORE..=18 {
            for after in 0..=updates.len() {
                let mut wire = Wire::new(VENUE);
                updates.iter().take(after).for_each(|update| wire.ws("0", update).unwrap());
                snapshot(&mut wire, sequence);
                updates.iter().skip(after).for_each(|update| wire.ws("0", update).unwrap());
                wire.wait(300_000_000);
                for side in Side::BOTH {
                    let right = (Some(18), truth(18, side));
                    assert_eq!(shown(&wire, side), right, "{cut:?}: {sequence} after {after}");
                }
                assert_eq!(wire.gaps(), (0, 0), "{cut:?}: {sequence} after {after}");
            }
        }
    }
}

#[test]
fn a_row_without_a_price_only_advances_the_sequence_and_a_hole_is_a_gap() {
    let mut wire = Wire::new(VENUE);
    snapshot(&mut wire, 13);
    wire.ws("0", &update(14, 14)).unwrap();
    let Body::Delta(delta) = &wire.events.last().unwrap().body else { panic!("{:?}", wire.events) };
    assert!(delta.changes.is_empty());
    wire.ws("0", &update(16, 16)).unwrap();
    assert_eq!(shown(&wire, Side::Bid), (Some(14), truth(14, Side::Bid)));
    wire.wait(300_000_000);
    assert_eq!((wire.stream("A-B").state(), wire.gaps()), (FeedState::Gapped, (1, 0)));
    snapshot(&mut wire, 15);
    assert_eq!(shown(&wire, Side::Bid), (Some(16), truth(16, Side::Bid)));
}

#[test]
fn words_beside_the_data_are_ignored_and_what_is_wrong_is_refused_by_type() {
    let mut wire = Wire::new(VENUE);
    for word in [
        r#"{"id":"NSkIrWGB1s","type":"welcome"}"#,
        r#"{"id":"1","type":"ack"}"#,
        r#"{"id":"1","type":"pong"}"#,
        r#"{"id":"1","type":"error","code":404,"data":"topic /market/level2:X is not found"}"#,
        r#"{"data":{"bestAsk":"1"},"subject":"trade.ticker","topic":"/market/ticker:A-B","type":"message"}"#,
    ] {
        wire.ws("0", word).unwrap();
    }
    assert_eq!((wire.counts().ignored, wire.streams().count()), (5, 0));
    let backwards = update(11, 12).replace(r#""sequenceStart":11"#, r#""sequenceStart":13"#);
    assert!(matches!(wire.ws("0", &backwards), Err(Undecodable::Ids { .. })));
    let unordered = update(11, 12).replace(r#""5","11"#, r#""5","eleven"#);
    assert!(matches!(wire.ws("0", &unordered), Err(Undecodable::Field { .. })));
    let refused = r#"{"code":"429000","msg":"Too Many Requests"}"#;
    assert!(matches!(wire.say(RawKind::Http, "rest", Some(URL), refused), Err(Undecodable::Field { .. })));
    wire.say(RawKind::Http, "rest", Some("https://api.kucoin.com/api/v2/symbols"), "[]").unwrap();
}

#[test]
fn a_shallow_snapshot_knows_only_its_levels() {
    let mut wire = Wire::new(VENUE);
    let reply = r#"{"code":"200000","data":{"time":1619378326628,"sequence":"5","bids":[["1","1"]],"asks":[]}}"#;
    for (path, window) in [("level2", Window::Whole), ("level2_100", Window::Known(100))] {
        let url = URL.replace("level2", path);
        wire.say(RawKind::Http, "rest", Some(&url), reply).unwrap();
        let Body::Snapshot(snapshot) = &wire.events.last().unwrap().body else { panic!("{:?}", wire.events) };
        assert_eq!(snapshot.window, window);
    }
}

const MATCH: &str = r#"{"data":{"symbol":"DAPPT-BTC","sequence":"1612701563869","side":"buy","size":"81.8814","price":"0.0000001117","takerOrderId":"6085c097587c2000060cde57","time":"1619378327739050725","type":"match","makerOrderId":"6085c06144b3790006512a4d","tradeId":"6085c09769bc506996295e36"},"subject":"trade.l3match","topic":"/market/match:DAPPT-BTC","type":"message"}"#;

#[test]
fn a_trade_has_an_opaque_id_an_order_and_nanoseconds() {
    let mut wire = Wire::new(VENUE);
    wire.ws("0", MATCH).unwrap();
    let trade = &wire.stream("DAPPT-BTC").trades[0];
    assert_eq!((&*trade.id, trade.order, trade.taker), ("6085c09769bc506996295e36", 1_612_701_563_869, Side::Bid));
    assert_eq!(trade.venue_ns, 1_619_378_327_739_050_725);
    let milliseconds = MATCH.replace("1619378327739050725", "1619378327739");
    assert!(matches!(wire.ws("0", &milliseconds), Err(Undecodable::Time { .. })));
    assert!(matches!(wire.ws("0", &MATCH.replace(r#""buy""#, r#""BUY""#)), Err(Undecodable::Field { .. })));
}

const RECORDING: &str = "kucoin/kucoin_2021-04.frames.jsonl.zst";

#[test]
fn the_recording_has_no_gap() {
    let Some(frames) = recorded(RECORDING) else { return };
    let wire = replayed(VENUE, &frames);
    let trades: usize = wire.streams().map(|(_, stream)| stream.trades.len()).sum();
    assert_eq!((wire.streams().count(), wire.gaps(), trades), (9, (0, 0), 18));
    assert!(wire.streams().all(|(_, stream)| stream.state() == FeedState::Live));
    assert_eq!((wire.fates.offered, wire.fates.crossed, wire.fates.replaced), (3_853, 0, 9), "{:?}", wire.fates);
    assert_eq!(wire.counts().undecodable, 0);
}

#[test]
fn the_recording_without_one_message_has_one_gap() {
    let Some(frames) = recorded(RECORDING) else { return };
    let updates: Vec<usize> =
        (0..frames.len()).filter(|at| text(&frames[*at]).contains("/market/level2:BCHSV-USDT")).collect();
    for lost in updates.iter().skip(100).step_by(updates.len() / 8) {
        let kept: Vec<_> =
            frames.iter().enumerate().filter(|(at, _)| at != lost).map(|(_, frame)| frame.clone()).collect();
        let wire = replayed(VENUE, &kept);
        let gapped: Vec<_> =
            wire.streams().filter(|(_, stream)| stream.guard.counts().gaps > 0).map(|(name, _)| name).collect();
        assert_eq!((gapped, wire.gaps()), (vec!["BCHSV-USDT".into()], (1, 0)), "{lost}");
    }
}

const REAL: [(Option<&str>, &str); 4] = [
    (
        None,
        r#"{"data":{"sequenceStart":11,"symbol":"DAPPT-BTC","changes":{"asks":[["0.000244","150","11"]],"bids":[["0","0","12"]]},"sequenceEnd":12,"time":1619378326628},"subject":"trade.l2update","topic":"/market/level2:DAPPT-BTC","type":"message"}"#,
    ),
    (None, MATCH),
    (None, r#"{"id":"1","type":"ack"}"#),
    (
        Some("https://api.kucoin.com/api/v3/market/orderbook/level2?symbol=DAPPT-BTC"),
        r#"{"code":"200000","data":{"time":1619378326628,"sequence":"10","bids":[["0.000242","5"]],"asks":[["0.000245","1"]]}}"#,
    ),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn noise_is_survived(noise in prop::collection::vec(noise(&REAL), 1..12)) {
        survives(VENUE, &noise);
    }
}
