//! Messages of v1; and what follows from checksums, told with them since their snapshots have none.
//!
//! Never: a checksum taken from the code under test.

use super::*;
use crate::{
    raw::RawKind,
    venue_feed::wire::{Wire, survives},
};
use market::{Body, LegId, Window};

const ONLINE: &str =
    r#"{"connectionID":17843232920108168701,"event":"systemStatus","status":"online","version":"1.8.3"}"#;
const SUBSCRIBED: &str = r#"{"channelID":992,"channelName":"book-10","event":"subscriptionStatus","pair":"XMR/USD","status":"subscribed","subscription":{"depth":10,"name":"book"}}"#;
const TICKER: &str = r#"[1668,{"a":["13.253900",35,"35.72892241"],"b":["13.232900",185,"185.18432037"],"c":["13.253900","3.71672000"]},"ticker","XMR/USD"]"#;
const TRADES: &str = r#"[993,[["354.04000000","0.28245396","1618678150.826417","s","m",""],["353.81000000","1.71754604","1618678150.827816","b","m",""]],"trade","XMR/USD"]"#;
const HEARTBEAT: &str = r#"{"event":"heartbeat"}"#;

/// The checksum by rule 3 over levels given best first.
fn right(asks: &[(&str, &str)], bids: &[(&str, &str)]) -> u32 {
    let digits = |text: &str| text.replace('.', "").trim_start_matches('0').to_owned();
    let levels = asks.iter().chain(bids).map(|(price, volume)| digits(price) + &digits(volume));
    crc32fast::hash(levels.collect::<String>().as_bytes())
}

/// A whole book of one bid.
fn snapshot(pair: &str) -> String {
    format!(r#"[992,{{"as":[],"bs":[["100.00","0.50000000","1618678123.481570"]]}},"book-10","{pair}"]"#)
}

/// A second bid's volume, under this checksum.
fn update(pair: &str, volume: &str, checksum: u32) -> String {
    format!(r#"[992,{{"b":[["99.00","{volume}","1618678133.365913"]],"c":"{checksum}"}},"book-10","{pair}"]"#)
}

fn good(pair: &str, volume: &str) -> String {
    update(pair, volume, right(&[], &[("100.00", "0.50000000"), ("99.00", volume)]))
}

#[test]
fn two_maps_are_one_change_and_the_depth_is_the_channels() {
    let mut wire = Wire::new(VENUE);
    for message in [ONLINE, SUBSCRIBED, HEARTBEAT, TICKER] {
        wire.say(0, message).unwrap();
    }
    wire.say(0, &snapshot("XMR\\/USD")).unwrap();
    let both = right(&[("100.50", "1.25000000")], &[("99.50", "0.00700000")]);
    let both = format!(
        r#"[992,{{"a":[["100.50","1.25000000","1618678145.920470","r"]]}},{{"b":[["100.00","0.00000000","1618678145.920708"],["99.50","0.00700000","1618678145.920500"]],"c":"{both}"}},"book-10","XMR/USD"]"#
    );
    wire.say(0, &both).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "delta"]);
    let event = wire.events.last().unwrap();
    let Body::Delta(delta) = &event.body else { panic!("{event:?}") };
    assert_eq!((delta.changes.len(), delta.window, event.venue_ns), (3, Window::Best(10), 1_618_678_145_920_708_000));
    let counts = wire.feed.counts();
    assert_eq!((counts.checksums_matched, counts.checksums_failed, counts.ignored), (1, 0, 2));
}

#[test]
fn what_leaves_the_window_is_gone_without_a_word() {
    let mut wire = Wire::new(VENUE);
    let narrow = |text: String| text.replace("book-10", "book-1");
    wire.say(0, &narrow(snapshot("XMR/USD"))).unwrap();
    wire.say(0, &narrow(update("XMR/USD", "1.0", right(&[], &[("100.00", "0.50000000")])))).unwrap();
    assert_eq!((wire.kinds().last(), wire.feed.counts().checksums_matched), (Some(&"delta"), 1));
    wire.say(0, &narrow(snapshot("XMR/USD")).replace("book-1", "book-x")).unwrap_err();
}

#[test]
fn both_protocols_are_of_one_market_and_its_pairs() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, &snapshot("XBT/USD")).unwrap();
    wire.say(
        1,
        r#"{"channel":"book","type":"snapshot","data":[{"symbol":"BTC/USD","bids":[],"asks":[],"checksum":0}]}"#,
    )
    .unwrap();
    let pair = |event: &market::Event| match &event.body {
        Body::Listing(listing) => Some(listing.pair),
        _ => None,
    };
    let pairs: Vec<_> = wire.events.iter().filter_map(pair).collect();
    assert!(pairs.len() == 2 && pairs[0] == pairs[1], "{pairs:?}");
}

#[test]
fn the_end_of_a_subscription_is_the_end_of_its_book() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, &snapshot("XMR/USD")).unwrap();
    wire.say(0, &SUBSCRIBED.replace("\"subscribed\"", "\"unsubscribed\"").replace("book-10", "trade")).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot"], "of another channel");
    wire.say(0, &SUBSCRIBED.replace("\"subscribed\"", "\"unsubscribed\"")).unwrap();
    wire.say(0, &good("XMR/USD", "1.0")).unwrap();
    assert_eq!(wire.kinds(), ["broken"]);
}

#[test]
fn a_market_in_maintenance_stands_still_until_it_is_online() {
    let mut wire = Wire::new(VENUE);
    let v1 = |status: &str| ONLINE.replace("online", status);
    let v2 = |system: &str| {
        format!(
            r#"{{"channel":"status","type":"update","data":[{{"version":"2.0.10","system":"{system}","api_version":"v2","connection_id":7204881492680171915}}]}}"#
        )
    };
    for status in ["online", "maintenance", "maintenance", "cancel_only", "post_only", "online", "online"] {
        wire.say(0, &v1(status)).unwrap();
        wire.say(1, &v2(status)).unwrap();
    }
    assert_eq!(wire.kinds(), ["halted", "halted", "resumed", "resumed"]);
    assert_eq!(wire.events.iter().map(|event| event.leg.0).collect::<Vec<_>>(), [0, 1, 0, 1]);
    wire.say(0, &v1("maintenance")).unwrap();
    wire.connection(0, RawKind::Open);
    wire.say(0, ONLINE).unwrap();
    assert_eq!(wire.kinds(), ["halted"], "another connection begins with a market that goes on");
}

#[test]
fn one_mismatch_is_one_resync() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, &snapshot("XMR/USD")).unwrap();
    wire.say(0, &update("XMR/USD", "1.0", 1)).unwrap();
    assert_eq!(wire.kinds(), ["listing", "snapshot", "broken"]);
    assert_eq!(wire.feed.repairs(), [(LegId(0), "XMR/USD".into())]);
    wire.say(0, &snapshot("XMR/USD")).unwrap();
    for volume in 1..=20 {
        wire.say(0, &good("XMR/USD", &volume.to_string())).unwrap();
    }
    assert_eq!(wire.kinds()[1..], ["delta"; 20]);
    assert!(wire.feed.repairs().is_empty());
    let counts = wire.feed.counts();
    assert_eq!((counts.checksums_matched, counts.checksums_failed, counts.checks_put_aside), (20, 1, 0));
}

#[test]
fn a_check_that_fails_on_book_after_book_is_put_aside_and_the_data_are_kept() {
    let mut wire = Wire::new(VENUE);
    for _ in 0..4 {
        wire.say(0, &snapshot("XMR/USD")).unwrap();
        wire.say(0, &update("XMR/USD", "1.0", 1)).unwrap();
    }
    assert_eq!(wire.kinds()[1..], ["snapshot", "broken"].repeat(4));
    assert_eq!(wire.feed.repairs().len(), 1);
    wire.say(0, &snapshot("XMR/USD")).unwrap();
    for volume in ["1.0", "2.0", "3.0"] {
        wire.say(0, &update("XMR/USD", volume, 1)).unwrap();
    }
    assert_eq!(wire.kinds(), ["snapshot", "delta", "delta", "delta"]);
    let counts = wire.feed.counts();
    assert_eq!((counts.checksums_failed, counts.checks_put_aside), (7, 1), "a person is told once");
    assert!(wire.feed.repairs().is_empty());
    // Another instrument's check is its own.
    wire.say(0, &snapshot("ETH/USD")).unwrap();
    wire.say(0, &update("ETH/USD", "1.0", 1)).unwrap();
    assert_eq!(wire.kinds().last(), Some(&"broken"));
}

#[test]
fn of_twelve_instruments_on_one_socket_only_the_one_that_fails_is_repaired() {
    let mut wire = Wire::new(VENUE);
    let pairs: Vec<String> = (0..12).map(|at| format!("C{at}/USD")).collect();
    pairs.iter().for_each(|pair| wire.say(0, &snapshot(pair)).unwrap());
    wire.kinds();
    for (at, pair) in pairs.iter().enumerate() {
        wire.say(0, &if at == 2 { update(pair, "1.0", 1) } else { good(pair, "1.0") }).unwrap();
    }
    let mut told = ["delta"; 12];
    told[2] = "broken";
    assert_eq!(wire.kinds(), told);
    assert_eq!(wire.feed.repairs(), [(LegId(0), "C2/USD".into())]);
    pairs.iter().for_each(|pair| wire.say(0, &good(pair, "2.0")).unwrap());
    assert_eq!(wire.kinds(), ["delta"; 11]);
    let counts = wire.feed.counts();
    assert_eq!((counts.checksums_matched, counts.checksums_failed), (22, 1));
}

#[test]
fn trades_without_ids_are_single_all_the_same() {
    let mut wire = Wire::new(VENUE);
    wire.say(0, TRADES).unwrap();
    wire.say(1, TRADES).unwrap();
    let trades = wire.trades();
    assert_eq!(trades[0].0, "1618678150826417000s354.04x0.28245396");
    assert!(trades[0].0 == trades[2].0 && trades[1].0 == trades[3].0 && trades[0].0 != trades[1].0, "{trades:?}");
    assert!(trades.windows(2).all(|pair| pair[0].1 < pair[1].1), "{trades:?}");
    for bad in [("\"s\"", "\"x\""), ("1618678150.826417", "1618678150826"), ("354.04000000", "NaN")] {
        wire.say(0, &TRADES.replace(bad.0, bad.1)).unwrap_err();
    }
}

#[test]
fn a_book_that_cannot_be_read_is_broken_alone() {
    for bad in [("1.0", "-1.0"), ("1618678133.365913", "1618678133365"), ("\"99.00\",", ""), ("\"c\":\"", "\"c\":\"x")]
    {
        let mut wire = Wire::new(VENUE);
        wire.say(0, &snapshot("XMR/USD")).unwrap();
        wire.say(0, &snapshot("ETH/USD")).unwrap();
        wire.say(0, &good("XMR/USD", "1.0").replace(bad.0, bad.1)).unwrap_err();
        wire.say(0, &good("ETH/USD", "1.0")).unwrap();
        assert_eq!(wire.kinds()[4..], ["broken", "delta"], "{bad:?}");
        assert_eq!(wire.feed.repairs(), [(LegId(0), "XMR/USD".into())]);
    }
}

#[test]
fn no_message_makes_it_panic() {
    let (whole, change) = (snapshot("XMR/USD"), good("XMR/USD", "1.0"));
    let two = r#"[992,{"a":[["100.50","1.25","1618678145.920470","r"]]},{"b":[["100.00","0.0","1618678145.920708"]],"c":"1"},"book-10","XMR/USD"]"#;
    let v2 = r#"{"channel":"book","type":"snapshot","data":[{"symbol":"BTC/USD","bids":[{"price":100.0,"qty":1}],"asks":[],"checksum":0}]}"#;
    let v2_trade = r#"{"channel":"trade","type":"update","data":[{"symbol":"BTC/USD","side":"buy","price":100.5,"qty":1,"trade_id":1,"timestamp":"2026-08-01T02:53:53.646219Z"}]}"#;
    let status = r#"{"channel":"status","type":"update","data":[{"system":"maintenance"}]}"#;
    let frames: [&str; 10] = [ONLINE, SUBSCRIBED, TICKER, TRADES, HEARTBEAT, &whole, &change, two, v2, v2_trade];
    survives(VENUE, &frames);
    survives(VENUE, &[v2, status, v2_trade]);
}
