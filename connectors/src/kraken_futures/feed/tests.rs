//! Sequence, numbers and the recording, with frames dropped one at a time, through a real guard.
//!
//! Never: a drop that is not accounted for.

use crate::raw::RawFrame;
use crate::venue_feed::{
    Undecodable,
    numbered::wire::{Wire, noise, recorded, replayed, survives, text},
};
use market::{FeedState, Side, Venue};
use proptest::prelude::*;
use std::collections::BTreeMap;

const VENUE: Venue = Venue::KrakenFutures;

fn snapshot(product: &str, seq: u64) -> String {
    format!(
        r#"{{"feed":"book_snapshot","product_id":"{product}","timestamp":1618678100126,"seq":{seq},"tickSize":null,
        "bids":[{{"price":1130.8,"qty":50.0}},{{"price":1.7e-7,"qty":5e1}}],"asks":[{{"price":1135.9,"qty":9007199254740993}}]}}"#
    )
}

fn level(product: &str, seq: u64, side: &str, price: &str, qty: &str) -> String {
    format!(
        r#"{{"feed":"book","product_id":"{product}","side":"{side}","seq":{seq},"price":{price},"qty":{qty},"timestamp":1618678101591}}"#
    )
}

fn owned(levels: &[(&str, &str)]) -> Vec<(String, String)> {
    levels.iter().map(|(price, qty)| ((*price).to_owned(), (*qty).to_owned())).collect()
}

#[test]
fn levels_are_exact_and_a_zero_ends_one() {
    let mut wire = Wire::new(VENUE);
    wire.ws("0", &snapshot("PI_XBTUSD", 7)).unwrap();
    wire.ws("0", &level("PI_XBTUSD", 8, "buy", "1130.80", "0.0")).unwrap();
    wire.ws("0", &level("PI_XBTUSD", 9, "sell", "1131", "0.5")).unwrap();
    let stream = wire.stream("PI_XBTUSD");
    assert_eq!(stream.shown(Side::Bid), (Some(9), owned(&[("0.00000017", "50.0")])));
    let asks = owned(&[("1131.00000000", "0.5"), ("1135.90000000", "9007199254740993.0")]);
    assert_eq!(stream.shown(Side::Ask).1, asks);
    assert_eq!(wire.gaps(), (0, 0));
}

#[test]
fn a_missing_level_is_a_gap_of_its_product_alone_until_a_snapshot_comes() {
    let mut wire = Wire::new(VENUE);
    for product in ["PI_XBTUSD", "PI_ETHUSD"] {
        wire.ws("0", &snapshot(product, 7)).unwrap();
        wire.ws("0", &level(product, 8, "buy", "1131", "1")).unwrap();
    }
    wire.ws("0", &level("PI_XBTUSD", 10, "buy", "1132", "1")).unwrap();
    wire.ws("0", &level("PI_ETHUSD", 9, "buy", "1132", "1")).unwrap();
    wire.wait(300_000_000);
    let state = |wire: &Wire, product: &str| (wire.stream(product).state(), wire.stream(product).shown(Side::Bid).0);
    assert_eq!((state(&wire, "PI_XBTUSD"), wire.gaps()), ((FeedState::Gapped, Some(8)), (1, 0)));
    assert_eq!(state(&wire, "PI_ETHUSD"), (FeedState::Live, Some(9)));
    wire.ws("0", &snapshot("PI_XBTUSD", 12)).unwrap();
    wire.ws("0", &level("PI_XBTUSD", 13, "buy", "1131", "1")).unwrap();
    assert_eq!(state(&wire, "PI_XBTUSD"), (FeedState::Live, Some(13)));
}

#[test]
fn another_leg_fills_what_one_lost() {
    let mut wire = Wire::new(VENUE);
    for conn in ["a", "b"] {
        wire.ws(conn, &snapshot("PI_XBTUSD", 7)).unwrap();
    }
    for (conn, seq) in [("a", 8), ("a", 10), ("b", 8), ("b", 9), ("b", 10), ("a", 11)] {
        wire.ws(conn, &level("PI_XBTUSD", seq, "buy", "1131", &seq.to_string())).unwrap();
    }
    wire.wait(300_000_000);
    let (version, levels) = wire.stream("PI_XBTUSD").shown(Side::Bid);
    assert_eq!((version, &levels[0].1, wire.gaps()), (Some(11), &"11".to_owned(), (0, 0)));
}

const TRADE: &str = r#"{"feed":"trade","product_id":"FI_XBTUSD_210625","uid":"d7cae895-ca24-4a67-aa7e-ad9a2ea2b656","side":"sell","type":"fill","seq":74724,"time":1618678114957,"qty":1831.0,"price":63927.0}"#;

#[test]
fn a_trade_has_a_text_as_its_id_and_an_order_beside() {
    let mut wire = Wire::new(VENUE);
    wire.ws("0", TRADE).unwrap();
    let trade = &wire.stream("FI_XBTUSD_210625").trades[0];
    assert_eq!((&*trade.id, trade.order), ("d7cae895-ca24-4a67-aa7e-ad9a2ea2b656", 74_724));
    assert_eq!((trade.taker, trade.venue_ns), (Side::Ask, 1_618_678_114_957_000_000));
    assert!(matches!(wire.ws("0", &TRADE.replace("1618678114957", "1618678114")), Err(Undecodable::Time { .. })));
    assert!(matches!(wire.ws("0", &TRADE.replace("sell", "ask")), Err(Undecodable::Field { .. })));
    let long = TRADE.replace("d7cae895", &"d".repeat(80));
    assert!(matches!(wire.ws("0", &long), Err(Undecodable::TradeId { .. })));
}

#[test]
fn words_about_subscriptions_are_no_data_and_bad_numbers_are_refused_by_type() {
    let mut wire = Wire::new(VENUE);
    for word in [
        r#"{"event":"info","version":1}"#,
        r#"{"event":"subscribed","feed":"book","product_ids":["PI_BCHUSD"]}"#,
        r#"{"feed":"heartbeat","time":1618678114957}"#,
        r#"{"feed":"ticker_lite","product_id":"PI_BCHUSD","bid":1060.4,"ask":1062.6}"#,
        r#"{"feed":"trade_snapshot","product_id":"PI_BCHUSD","trades":[]}"#,
    ] {
        wire.ws("0", word).unwrap();
    }
    assert_eq!((wire.counts().ignored, wire.streams().count()), (5, 0));
    for bad in [r#""NaN""#, r#""""#, "null", "-1", "[]", "1e400"] {
        let error = wire.ws("0", &level("PI_XBTUSD", 8, "buy", bad, "1")).unwrap_err();
        assert!(matches!(error, Undecodable::Number { .. }), "{bad}: {error}");
    }
    assert!(matches!(wire.ws("0", &snapshot("WHAT", 7)), Err(Undecodable::Symbol { .. })));
}

const RECORDING: &str = "kraken_futures/kraken_futures_2021-04.frames.jsonl.zst";

#[test]
fn the_recording_has_no_gap() {
    let Some(frames) = recorded(RECORDING) else { return };
    let wire = replayed(VENUE, &frames);
    let trades: usize = wire.streams().map(|(_, stream)| stream.trades.len()).sum();
    assert_eq!((wire.streams().count(), wire.gaps(), trades), (10, (0, 0), 3));
    assert!(wire.streams().all(|(_, stream)| stream.state() == FeedState::Live));
    let fates = wire.fates;
    let right = (6_528 + 10, 6_528, 0, 10);
    assert_eq!(
        (fates.offered, fates.applied, fates.crossed, fates.replaced),
        right,
        "each snapshot says that it stands"
    );
    assert_eq!(wire.counts().undecodable, 0);
}

/// The product of a `book` frame.
fn product(frame: &RawFrame) -> Option<&str> {
    let rest = text(frame).strip_prefix(r#"{"feed":"book","product_id":""#)?;
    rest.split('"').next()
}

/// A drop is one gap, but for that of the last level, after which nothing comes.
#[test]
fn a_drop_is_one_gap_of_one_product() {
    let Some(frames) = recorded(RECORDING) else { return };
    let mut by_product: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, frame) in frames.iter().enumerate() {
        if let Some(product) = product(frame) {
            by_product.entry(product).or_default().push(at);
        }
    }
    assert_eq!(by_product.len(), 10);
    let mut dropped = 0;
    for (name, places) in by_product {
        let of_product: Vec<_> = frames.iter().filter(|frame| product(frame).is_none_or(|of| of == name)).collect();
        let (first, last) = (places[0], places[places.len() - 1]);
        let sample = places.iter().step_by(places.len() / 12).chain([&first, &last]);
        for lost in sample {
            let kept = of_product.iter().filter(|frame| !std::ptr::eq(**frame, &frames[*lost]));
            let kept: Vec<_> = kept.map(|frame| (*frame).clone()).collect();
            let right = (u64::from(*lost != last), 0);
            let wire = replayed(VENUE, &kept);
            assert_eq!(wire.gaps(), right, "{name}: {}", text(&frames[*lost]));
            let own = wire.stream(name).guard.counts();
            assert_eq!((own.gaps, own.refused), right, "{name} and no other");
            dropped += 1;
        }
    }
    assert!(dropped > 100, "{dropped}");
}

const REAL: [(Option<&str>, &str); 4] = [
    (
        None,
        r#"{"feed":"book_snapshot","product_id":"PI_XBTUSD","timestamp":1618678100126,"seq":7,"tickSize":null,"bids":[{"price":1130.8,"qty":50.0}],"asks":[{"price":1135.9,"qty":1.0}]}"#,
    ),
    (
        None,
        r#"{"feed":"book","product_id":"PI_XBTUSD","side":"buy","seq":8,"price":1131.5,"qty":0.0,"timestamp":1618678101591}"#,
    ),
    (None, TRADE),
    (None, r#"{"event":"subscribed","feed":"book","product_ids":["PI_BCHUSD"]}"#),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn noise_is_survived(noise in prop::collection::vec(noise(&REAL), 1..12)) {
        survives(VENUE, &noise);
    }
}
