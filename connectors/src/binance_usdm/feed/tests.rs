//! Bridging, gaps and legs by `pu`, and the recordings, checked against their own tickers.
//!
//! Never: a ticker taken for state.

use crate::raw::{RawFrame, RawKind};
use crate::venue_feed::{
    Undecodable,
    numbered::wire::{Wire, noise, recorded, replayed, survives, text},
};
use market::{Body, Decimal, FeedState, Side, Venue};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

const VENUE: Venue = Venue::BinanceUsdm;

/// The book's changes one by one: id, bid price, quantity. Ids between them are other symbols'.
const CHANGES: [(u64, u64, u64); 6] = [(12, 1, 5), (15, 2, 6), (18, 1, 7), (25, 3, 8), (27, 2, 0), (30, 1, 9)];

fn rows(levels: &BTreeMap<u64, u64>) -> String {
    let rows: Vec<_> = levels.iter().map(|(price, quantity)| format!(r#"["{price}","{quantity}"]"#)).collect();
    rows.join(",")
}

/// The last quantity of each price among some changes.
fn last(changes: impl Iterator<Item = (u64, u64, u64)>) -> BTreeMap<u64, u64> {
    changes.map(|(_, price, quantity)| (price, quantity)).collect()
}

/// The event that tells what happened after `pu` up to `u`.
fn event(pu: u64, u: u64) -> String {
    let inside: Vec<_> = CHANGES.into_iter().filter(|(id, ..)| *id > pu && *id <= u).collect();
    let (first, rows) = (inside[0].0, rows(&last(inside.into_iter())));
    depth("BTCUSDT", pu, first, u, &rows)
}

fn depth(symbol: &str, pu: u64, first: u64, u: u64, bids: &str) -> String {
    format!(
        r#"{{"stream":"{}@depth@100ms","data":{{"e":"depthUpdate","E":1626992741037,"T":1626992741024,"s":"{symbol}",
        "U":{first},"u":{u},"pu":{pu},"b":[{bids}],"a":[]}}}}"#,
        symbol.to_lowercase()
    )
}

/// The book as of an id.
fn truth(id: u64) -> BTreeMap<u64, u64> {
    let mut levels = last(CHANGES.into_iter().filter(|(at, ..)| *at <= id));
    levels.retain(|_, quantity| *quantity > 0);
    levels
}

fn snapshot(wire: &mut Wire, id: u64) {
    let url = "https://fapi.binance.com/fapi/v1/depth?symbol=BTCUSDT&limit=1000";
    let rows = rows(&truth(id));
    let text = format!(r#"{{"lastUpdateId":{id},"E":1626992741264,"T":1626992741261,"bids":[{rows}],"asks":[]}}"#);
    wire.say(RawKind::Http, "rest", Some(url), &text).unwrap();
}

fn bids(wire: &Wire) -> (Option<u64>, BTreeMap<u64, u64>) {
    let (version, levels) = wire.stream("BTCUSDT").shown(Side::Bid);
    (version, levels.iter().map(|(price, quantity)| (price.parse().unwrap(), quantity.parse().unwrap())).collect())
}

#[test]
fn a_snapshot_of_any_id_bridges_to_the_one_right_book_whenever_it_comes() {
    let events = [event(10, 15), event(15, 25), event(25, 30)];
    for id in 10..=33 {
        for after in 0..=events.len() {
            let mut wire = Wire::new(VENUE);
            for (at, event) in events.iter().enumerate() {
                if at == after {
                    snapshot(&mut wire, id);
                }
                wire.ws("0", event).unwrap();
            }
            if after == events.len() {
                snapshot(&mut wire, id);
            }
            wire.wait(300_000_000);
            assert_eq!(bids(&wire), (Some(id.max(30)), truth(30)), "snapshot {id} after {after}");
            assert_eq!((wire.stream("BTCUSDT").state(), wire.gaps()), (FeedState::Live, (0, 0)), "{id} {after}");
        }
    }
}

#[test]
fn a_snapshot_below_the_first_event_is_refused_and_nothing_is_shown() {
    for id in [1, 9] {
        let mut wire = Wire::new(VENUE);
        wire.ws("0", &event(10, 15)).unwrap();
        snapshot(&mut wire, id);
        wire.wait(300_000_000);
        assert_eq!((wire.stream("BTCUSDT").guard.version(), wire.gaps()), (None, (0, 1)));
    }
}

#[test]
fn a_missing_event_is_a_gap_of_its_symbol_alone_and_a_jump_of_ids_is_none() {
    let mut wire = Wire::new(VENUE);
    wire.ws("0", &event(10, 15)).unwrap();
    snapshot(&mut wire, 15);
    wire.ws("0", &depth("ETHUSDT", 900, 990, 999, "")).unwrap();
    let url = "https://fapi.binance.com/fapi/v1/depth?symbol=ETHUSDT&limit=1000";
    wire.say(RawKind::Http, "rest", Some(url), r#"{"lastUpdateId":999,"bids":[["3","1"]],"asks":[]}"#).unwrap();
    wire.wait(300_000_000);
    wire.ws("0", &event(25, 30)).unwrap();
    wire.ws("0", &depth("ETHUSDT", 999, 5_000, 5_001, r#"["3","2"]"#)).unwrap();
    wire.wait(300_000_000);
    assert_eq!((wire.stream("BTCUSDT").state(), wire.gaps()), (FeedState::Gapped, (1, 0)));
    assert_eq!(bids(&wire), (Some(15), truth(15)), "nothing over a hole");
    let other = wire.stream("ETHUSDT");
    assert_eq!((other.state(), other.shown(Side::Bid).0), (FeedState::Live, Some(5_001)));
}

#[test]
fn legs_that_cut_the_stream_differently_come_to_the_same_book() {
    let a = [event(10, 15), event(15, 25), event(25, 30)];
    let b = [event(10, 12), event(12, 18), event(18, 27), event(27, 30)];
    let of_a = a.iter().map(|event| ("a", event));
    for shift in 0..=b.len() {
        let mut wire = Wire::new(VENUE);
        snapshot(&mut wire, 10);
        let mut of_b = b.iter().map(|event| ("b", event));
        let mut all: Vec<_> = of_b.by_ref().take(shift).collect();
        all.extend(of_a.clone().zip(of_b.by_ref()).flat_map(|(a, b)| [a, b]));
        all.extend(of_a.clone().skip(b.len().saturating_sub(shift)));
        all.extend(of_b);
        for (conn, event) in all {
            wire.ws(conn, event).unwrap();
        }
        assert_eq!((bids(&wire), wire.gaps()), ((Some(30), truth(30)), (0, 0)), "{shift}");
    }
}

#[test]
fn an_event_without_its_predecessor_is_refused_by_type() {
    let mut wire = Wire::new(VENUE);
    let without = event(10, 15).replace(r#""pu":10,"#, "");
    assert!(matches!(wire.ws("0", &without), Err(Undecodable::Field { .. })));
    let last = event(10, 15).replace(r#""pu":10"#, &format!(r#""pu":{}"#, u64::MAX));
    assert!(matches!(wire.ws("0", &last), Err(Undecodable::Field { .. })));
    assert!(matches!(wire.ws("0", &depth("BTCUSDT", 15, 11, 15, "")), Err(Undecodable::Ids { .. })));
    let seconds = event(10, 15).replace("1626992741037", "1626992741");
    assert!(matches!(wire.ws("0", &seconds), Err(Undecodable::Time { .. })));
    assert!(matches!(wire.ws("0", &event(10, 15).replace("BTCUSDT", "WHAT")), Err(Undecodable::Symbol { .. })));
    assert!(wire.events.iter().all(|event| !matches!(event.body, Body::Delta(_))));
}

#[test]
fn data_that_were_not_subscribed_to_are_refused_by_name() {
    let mut wire = Wire::listed(VENUE, |listings| listings.with_only(VENUE, ["BTCUSDT"]));
    wire.ws("0", &event(10, 15)).unwrap();
    assert!(matches!(wire.ws("0", &depth("ETHUSDT", 1, 2, 3, "")), Err(Undecodable::Unlisted { .. })));
}

#[test]
fn trades_are_told_once_and_a_trade_of_nothing_is_none() {
    let mut wire = Wire::new(VENUE);
    let agg = r#"{"stream":"ctkusdt@aggTrade","data":{"e":"aggTrade","E":1626992741575,"a":16599292,"s":"CTKUSDT","p":"1.01100","q":"10","f":23961322,"l":23961322,"T":1626992741421,"m":false}}"#;
    let single = r#"{"stream":"btcusdt@trade","data":{"e":"trade","E":1723161256322,"T":1723161256322,"s":"BTCUSDT","t":5266583935,"p":"61800.30","q":"0.006","X":"MARKET","m":true}}"#;
    wire.ws("0", agg).unwrap();
    wire.ws("0", single).unwrap();
    wire.ws("0", &single.replace("61800.30", "0").replace("0.006", "0")).unwrap();
    wire.ws("0", &single.replace("@trade", "@aggTrade").replace(r#""t":"#, r#""a":"#)).unwrap();
    let told = |symbol| {
        let trades = wire.stream(symbol).trades.iter();
        trades.map(|trade| (&*trade.id, trade.order, trade.taker)).collect::<Vec<_>>()
    };
    assert_eq!(told("CTKUSDT"), [("16599292", 16_599_292, Side::Bid)]);
    assert_eq!(told("BTCUSDT"), [("5266583935", 5_266_583_935, Side::Ask)]);
    assert_eq!(wire.counts().ignored, 2);
}

/// Best bid and ask of a ticker: price and quantity of each.
type Ticker = [(Decimal, Decimal); 2];

fn ticker(data: &Value) -> Ticker {
    let number = |key: &str| Decimal::parse(data[key].as_str().unwrap()).unwrap();
    [(number("b"), number("B")), (number("a"), number("A"))]
}

/// Compares the shown book with the ticker of its id, if there is one.
fn compare(wire: &Wire, symbol: &str, tickers: &mut BTreeMap<(String, u64), Ticker>) -> u64 {
    let stream = wire.stream(symbol);
    let Some(version) = stream.guard.version() else { return 0 };
    let Some(ticker) = tickers.remove(&(symbol.to_owned(), version.seq)) else { return 0 };
    let best = |side| {
        let (level, scale) = (stream.book.levels(side).next().unwrap(), stream.book.scale());
        let quantity = scale.quantity_text(level.quantity);
        (scale.price_value(level.tick_index).unwrap(), Decimal::parse(&quantity).unwrap())
    };
    assert_eq!([best(Side::Bid), best(Side::Ask)], ticker, "{symbol} at {}", version.seq);
    1
}

/// Plays a recording, comparing the book with each ticker of the same id once; how many there were.
fn checked(frames: &[RawFrame]) -> (Wire, u64) {
    let (mut wire, mut tickers, mut compared) = (Wire::new(VENUE), BTreeMap::new(), 0);
    for frame in frames {
        wire.frame(frame).unwrap();
        if frame.kind != RawKind::Ws {
            continue;
        }
        let message: Value = serde_json::from_str(text(frame)).unwrap();
        let (stream, data) = (message["stream"].as_str().unwrap(), &message["data"]);
        let symbol = data["s"].as_str().unwrap();
        if stream.ends_with("@bookTicker") {
            tickers.insert((symbol.to_owned(), data["u"].as_u64().unwrap()), ticker(data));
        }
        let known = wire.streams().any(|(name, _)| &*name == symbol);
        if known && (stream.contains("@depth") || stream.ends_with("@bookTicker")) {
            compared += compare(&wire, symbol, &mut tickers);
        }
    }
    wire.wait(1_000_000_000);
    (wire, compared)
}

/// Every ticker whose id is that of a depth event is compared with the book.
#[test]
fn recordings_have_no_gap_and_equal_their_tickers() {
    for (rel, symbols, deltas, trades, tickers) in [
        ("binance_usdm/binance_usdm_2021-07.frames.jsonl.zst", 4, 764, 91, 50),
        ("binance_usdm/binance_usdm_btcusdt_2024-08-08.frames.jsonl.zst", 1, 6_551, 21_313, 629),
    ] {
        let Some(frames) = recorded(rel) else { return };
        let (wire, compared) = checked(&frames);
        let told: usize = wire.streams().map(|(_, stream)| stream.trades.len()).sum();
        assert_eq!((wire.streams().count(), wire.gaps(), told), (symbols, (0, 0), trades), "{rel}");
        assert!(wire.streams().all(|(_, stream)| stream.state() == FeedState::Live), "{rel}");
        let fates = wire.fates;
        assert_eq!((fates.offered, fates.crossed, wire.counts().undecodable), (deltas, 0, 0), "{rel}: {fates:?}");
        assert_eq!(compared, tickers, "{rel}");
    }
}

#[test]
fn a_recording_without_one_event_has_one_gap() {
    let Some(frames) = recorded("binance_usdm/binance_usdm_2021-07.frames.jsonl.zst") else { return };
    let depths: Vec<usize> = (0..frames.len()).filter(|at| text(&frames[*at]).contains(r#"sushiusdt@depth"#)).collect();
    for lost in depths.iter().skip(20).step_by(40) {
        let kept: Vec<_> =
            frames.iter().enumerate().filter(|(at, _)| at != lost).map(|(_, frame)| frame.clone()).collect();
        let wire = replayed(VENUE, &kept);
        let gapped: Vec<_> =
            wire.streams().filter(|(_, stream)| stream.guard.counts().gaps > 0).map(|(name, _)| name).collect();
        assert_eq!((gapped, wire.gaps()), (vec!["SUSHIUSDT".into()], (1, 0)), "{lost}");
    }
}

const REAL: [(Option<&str>, &str); 4] = [
    (
        None,
        r#"{"stream":"akrousdt@depth@100ms","data":{"e":"depthUpdate","E":1626992741077,"T":1626992740974,"s":"AKROUSDT","U":600859599831,"u":600859599831,"pu":600859598737,"b":[],"a":[["0.01737","437848"]]}}"#,
    ),
    (
        None,
        r#"{"stream":"akrousdt@aggTrade","data":{"e":"aggTrade","E":1626992742291,"a":14888302,"s":"AKROUSDT","p":"0.01731","q":"312","f":27931348,"l":27931348,"T":1626992742134,"m":true}}"#,
    ),
    (
        None,
        r#"{"stream":"akrousdt@bookTicker","data":{"e":"bookTicker","u":600859600576,"s":"AKROUSDT","b":"7.6110","B":"2","a":"7.6120","A":"297","T":1626992741012,"E":1626992741017}}"#,
    ),
    (
        Some("https://fapi.binance.com/fapi/v1/depth?symbol=AKROUSDT&limit=1000"),
        r#"{"lastUpdateId":600859599000,"E":1626992741264,"T":1626992741261,"bids":[["0.01731","57618"]],"asks":[["0.01737","1"]]}"#,
    ),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn noise_is_survived(noise in prop::collection::vec(noise(&REAL), 1..12)) {
        survives(VENUE, &noise);
    }
}
