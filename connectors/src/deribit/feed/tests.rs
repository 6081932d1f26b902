//! Chains of ids, verbs, trades and maintenances, told message by message.
//!
//! Never: a look into the guard but by what it answers.

use super::*;
use crate::raw::{RawFrame, RawKind, RawPayload};
use market::{
    Delta, FeedState, Guard, LegId, Scale, Sequence, Snapshot, Version,
    guard::{Limits, Offer},
};
use proptest::prelude::*;

const PERPETUAL: &str = "BTC-PERPETUAL";

struct Wire {
    feed: Feed,
    events: Vec<Event>,
    position: u64,
}

impl Wire {
    fn new() -> Self {
        Self::listed(Listings::new(Arc::default()))
    }

    fn listed(listings: Listings) -> Self {
        Self { feed: Feed::new(Arc::new(listings)), events: Vec::new(), position: 0 }
    }

    fn say(&mut self, leg: u16, raw: &str) -> Result<(), Undecodable> {
        self.position += 1;
        let raw = RawPayload::Text(raw.into());
        let frame = RawFrame { ts_ns: 7, kind: RawKind::Ws, conn: "0".into(), url: None, raw };
        let arrival = Arrival { frame: &frame, position: self.position, leg: LegId(leg) };
        self.feed.decode(arrival, &mut self.events)
    }

    /// What was told of books since the last time: kind, symbol, ids and number of levels.
    fn told(&mut self) -> Vec<(&'static str, u32, (u64, u64), usize)> {
        let ids = |sequence| match sequence {
            Sequence::Venue { first, last } => (first, last),
            Sequence::Arrival(_) => panic!("numbered by arrival"),
        };
        let of = |event: Event| match event.body {
            Body::Snapshot(Snapshot { sequence, ticks, window, .. }) => {
                assert_eq!(window, Window::Whole);
                Some(("snapshot", event.symbol.0, ids(sequence), ticks.len()))
            }
            Body::Delta(delta) => Some(("delta", event.symbol.0, ids(delta.sequence), delta.changes.len())),
            _ => None,
        };
        self.events.drain(..).filter_map(of).collect()
    }
}

fn notification(channel: &str, data: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"subscription","params":{{"channel":"{channel}","data":{data}}}}}"#)
}

fn book(symbol: &str, kind: &str, (prev, last): (Option<u64>, u64), bids: &str) -> String {
    let prev = prev.map_or_else(String::new, |prev| format!(r#""prev_change_id":{prev},"#));
    let data = format!(
        r#"{{"type":"{kind}","timestamp":1618677851763,{prev}"instrument_name":"{symbol}","change_id":{last},"bids":[{bids}],"asks":[]}}"#
    );
    notification(&format!("book.{symbol}.raw"), &data)
}

fn snapshot(symbol: &str, last: u64, bids: &str) -> String {
    book(symbol, "snapshot", (None, last), bids)
}

fn change(symbol: &str, prev: u64, last: u64, bids: &str) -> String {
    book(symbol, "change", (Some(prev), last), bids)
}

#[test]
fn a_chain_of_ids_is_told_as_it_is_and_an_empty_book_is_a_book() {
    let mut wire = Wire::new();
    for text in [
        snapshot("ETH-7MAY21-2100-C", 0, ""),
        change("ETH-7MAY21-2100-C", 0, 29_357_197_952, r#"["new",0.0025,0.5]"#),
        change("ETH-7MAY21-2100-C", 29_357_197_952, 29_357_198_023, r#"["delete",0.0025,0.0],["change",0.0005,39.8]"#),
        change("ETH-7MAY21-2100-C", 29_357_198_023, 29_357_198_023, ""),
    ] {
        wire.say(0, &text).unwrap();
    }
    let right = [
        ("snapshot", 0, (0, 0), 0),
        ("delta", 0, (1, 0), 0),
        ("delta", 0, (1, 29_357_197_952), 1),
        ("delta", 0, (29_357_197_953, 29_357_198_023), 2),
        ("delta", 0, (29_357_198_024, 29_357_198_023), 0),
    ];
    assert_eq!(wire.told(), right);
}

#[test]
fn a_gap_concerns_its_instrument_alone() {
    let mut wire = Wire::new();
    let symbols = [PERPETUAL, "ETH-PERPETUAL", "SOL_USDC-PERPETUAL"];
    let mut guards: Vec<Guard<(), ()>> = symbols.iter().map(|_| Guard::new(Limits::default(), 0, 0)).collect();
    for symbol in symbols {
        wire.say(0, &snapshot(symbol, 10, r#"["new",8.0,1.0]"#)).unwrap();
    }
    // The update 10 to 12 of the third is lost.
    for (symbol, prev) in symbols.into_iter().zip([10, 10, 12]) {
        wire.say(0, &change(symbol, prev, 15, r#"["change",8.0,2.0]"#)).unwrap();
    }
    for event in wire.events.drain(..) {
        let Some(guard) = guards.get_mut(usize::try_from(event.symbol.0).unwrap()) else { panic!("{event:?}") };
        match event.body {
            Body::Snapshot(snapshot) => drop(guard.offer_snapshot(1, snapshot.sequence, ())),
            Body::Delta(delta) if guard.offer(1, event.leg, delta.sequence) == Offer::Hold => {
                guard.hold(1, event.leg, delta.sequence, (), 100);
                assert!(guard.poll(1).is_none_or(|(version, ())| version.seq == 10));
                while guard.next_ready().is_some() {}
            }
            _ => {}
        }
    }
    let later = 1 + Limits::default().hole_ns.max(Limits::default().bridge_ns) * 2;
    assert!(guards.iter_mut().all(|guard| guard.poll(later).is_none()));
    let shown: Vec<_> = guards.iter().map(Guard::version).collect();
    assert_eq!(shown, [15, 15, 10].map(|seq| Some(Version::new(0, seq))));
    let states: Vec<_> = guards.iter().map(Guard::state).collect();
    assert_eq!(states, [FeedState::Live, FeedState::Live, FeedState::Gapped]);
    let wants: Vec<_> = guards.iter_mut().map(|guard| guard.wants_snapshot(later)).collect();
    assert_eq!(wants, [false, false, true]);
}

#[test]
fn numbers_are_exact_and_the_verb_decides_what_ends_a_level() {
    let mut wire = Wire::new();
    wire.say(0, &snapshot(PERPETUAL, 10, "")).unwrap();
    let rows =
        r#"["new",61737.5,2.0e3],["change",1.7e-7,0.0000082],["delete",8.0,5.0],["change",9.0,0],["delete",7.0,0.0]"#;
    wire.say(0, &change(PERPETUAL, 10, 11, rows)).unwrap();
    let Some(Event { body: Body::Delta(Delta { scale, changes, .. }), .. }) = wire.events.last() else { panic!() };
    assert_eq!(*scale, Scale { price: -8, quantity: -7 });
    let told: Vec<_> = changes.iter().map(|change| (change.key.tick_index, change.reserves)).collect();
    let steps = market::U256::from;
    let right = [
        (6_173_750_000_000, steps(20_000_000_000_u64)),
        (17, steps(82_u64)),
        (800_000_000, steps(0_u64)),
        (900_000_000, steps(0_u64)),
        (700_000_000, steps(0_u64)),
    ];
    assert_eq!(told, right);
}

#[test]
fn what_the_venue_excludes_is_refused_by_type() {
    let mut wire = Wire::new();
    wire.say(0, &snapshot(PERPETUAL, 10, "")).unwrap();
    wire.told();
    for (text, name) in [
        (change(PERPETUAL, 10, 11, r#"["update",1.0,1.0]"#), "verb"),
        (book(PERPETUAL, "change", (None, 11), ""), "prev_change_id"),
        (book(PERPETUAL, "whole", (None, 11), ""), "type"),
        (r#"{"jsonrpc":"2.0"}"#.to_owned(), "method"),
        (r#"{"method":"subscription","params":{"data":{}}}"#.to_owned(), "channel"),
        (r#"{"method":"subscription","params":{"channel":"book.X.raw"}}"#.to_owned(), "data"),
    ] {
        let error = wire.say(0, &text).unwrap_err();
        assert!(matches!(error, Undecodable::Field { field, .. } if field == name), "{text}: {error}");
    }
    for text in
        [change(PERPETUAL, 12, 11, ""), change(PERPETUAL, 12, 10, ""), change(PERPETUAL, 11, 11, r#"["new",1.0,1.0]"#)]
    {
        let refused = wire.say(0, &text);
        assert!(matches!(refused, Err(Undecodable::Ids { .. })), "{text}: {refused:?}");
    }
    for bad in ["-1.0", r#""NaN""#, "null", "1e60", "[]"] {
        let refused = wire.say(0, &change(PERPETUAL, 10, 11, &format!(r#"["new",1.0,1.0],["new",{bad},1.0]"#)));
        assert!(matches!(refused, Err(Undecodable::Number { .. })), "{bad}: {refused:?}");
    }
    for ms in ["1618677851", "1618677851763000", "0"] {
        let refused = wire.say(0, &snapshot(PERPETUAL, 12, "").replace("1618677851763", ms));
        assert!(matches!(refused, Err(Undecodable::Time { .. })), "{ms}: {refused:?}");
    }
    for text in ["", "{", "7", r#"{"params":7}"#] {
        assert!(matches!(wire.say(0, text), Err(Undecodable::Json { .. })), "{text}");
    }
    assert!(wire.told().is_empty());
}

#[test]
fn symbols_are_known_or_refused_by_name() {
    let mut wire = Wire::listed(Listings::new(Arc::default()).with_only(VENUE, [PERPETUAL, "BTC-FS-27SEP24_PERP"]));
    let unlisted = wire.say(0, &snapshot("ETH-PERPETUAL", 1, ""));
    assert!(matches!(unlisted, Err(Undecodable::Unlisted { .. })), "{unlisted:?}");
    let combination = wire.say(0, &snapshot("BTC-FS-27SEP24_PERP", 1, ""));
    assert!(matches!(combination, Err(Undecodable::Symbol { .. })), "{combination:?}");
    assert_eq!((wire.feed.counts().undecodable, wire.events.len()), (2, 0));
}

#[test]
fn answers_quotes_and_grouped_views_are_counted_and_nothing_else() {
    let mut wire = Wire::new();
    for text in [
        r#"{"jsonrpc":"2.0","id":0,"result":["book.BTC-PERPETUAL.100ms"],"usIn":1,"usOut":2,"usDiff":1,"testnet":false}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":13778,"message":"raw_subscriptions_not_available"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"heartbeat","params":{"type":"test_request"}}"#.to_owned(),
        // A zero of a quote means that there is none.
        notification("ticker.BTC-PERPETUAL.raw", r#"{"best_bid_price":0.0,"best_bid_amount":0.0,"last_price":null}"#),
        notification("book.BTC-PERPETUAL.none.20.100ms", r#"{"bids":[[8.0,1.0]],"asks":[]}"#),
        notification("platform_state", r#"{"price_index":"btc_usd","locked":true}"#),
        notification("platform_state.public_methods_state", r#"{"allow_unauthenticated_public_requests":true}"#),
    ] {
        wire.say(0, &text).unwrap();
    }
    assert_eq!((wire.feed.counts().ignored, wire.events.len()), (7, 0));
}

#[test]
fn a_maintenance_halts_the_market_and_its_end_resumes_it() {
    let mut wire = Wire::new();
    wire.say(1, &notification("platform_state", r#"{"maintenance":true}"#)).unwrap();
    wire.say(1, &notification("platform_state", r#"{"maintenance":false}"#)).unwrap();
    let told: Vec<_> = wire.events.iter().map(|event| (event.leg.0, &event.body)).collect();
    assert_eq!(told, [(1, &Body::Halted), (1, &Body::Resumed)]);
}

#[test]
fn trades_are_ordered_by_their_count_and_named_by_their_text() {
    let mut wire = Wire::new();
    let trade = |id: &str, seq: u64, direction: &str| {
        format!(
            r#"{{"trade_seq":{seq},"trade_id":{id},"timestamp":1590484512188,"tick_direction":2,"price":8950.0,"mark_price":8948.9,"instrument_name":"BTC-PERPETUAL","direction":"{direction}","amount":1.0e1}}"#
        )
    };
    let two = [trade(r#""100155647470219567721""#, 30_289_442, "sell"), trade(r#""ETH-34066""#, 30_289_443, "buy")];
    wire.say(0, &notification("trades.BTC-PERPETUAL.100ms", &format!("[{}]", two.join(",")))).unwrap();
    let of = |event: &Event| match &event.body {
        Body::Trade { trade, .. } => Some((trade.id.to_string(), trade.order, trade.taker, trade.tick_index)),
        _ => None,
    };
    let told: Vec<_> = wire.events.iter().filter_map(of).collect();
    let right = [
        ("100155647470219567721".to_owned(), 30_289_442, Side::Ask, 895),
        ("ETH-34066".to_owned(), 30_289_443, Side::Bid, 895),
    ];
    assert_eq!(told, right);
    let unnamed = wire.say(0, &notification("trades.X.raw", &format!("[{}]", trade(r#""""#, 1, "buy"))));
    assert!(matches!(unnamed, Err(Undecodable::TradeId { .. })), "{unnamed:?}");
    let aimless = wire.say(0, &notification("trades.X.raw", &format!("[{}]", trade(r#""1""#, 1, "zero"))));
    assert!(matches!(aimless, Err(Undecodable::Field { field: "direction", .. })), "{aimless:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_whatsoever_panics(texts in prop::collection::vec(any::<String>(), 1..4)) {
        use crate::live::protocol::Protocol;
        let mut wire = Wire::new();
        for text in texts {
            crate::deribit::live::Deribit.understand(&text);
            drop(wire.say(0, &text));
        }
    }

    #[test]
    fn a_changed_real_message_never_panics_and_what_it_tells_is_listed(
        changes in prop::collection::vec((0..4_usize, any::<prop::sample::Index>(), any::<u8>(), 0..3_u16), 1..24)
    ) {
        use crate::live::protocol::Protocol;
        let real = [
            snapshot(PERPETUAL, 10, r#"["new",0.083,5.0],["new",0.0825,2.0e2]"#),
            change(PERPETUAL, 10, 11, r#"["delete",0.083,0.0],["change",0.0825,1.0]"#),
            notification("trades.BTC-PERPETUAL.raw", r#"[{"trade_seq":3,"trade_id":"48","timestamp":1590484512188,"price":8.5,"instrument_name":"BTC-PERPETUAL","direction":"sell","amount":1.0}]"#),
            notification("platform_state", r#"{"maintenance":true}"#),
        ];
        let mut wire = Wire::new();
        for (at, place, byte, leg) in changes {
            let mut bytes = real[at].clone().into_bytes();
            // Now and then one is left as it is.
            if byte % 4 > 0 {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let text = String::from_utf8_lossy(&bytes);
            crate::deribit::live::Deribit.understand(&text);
            drop(wire.say(leg, &text));
        }
        let mut listed = Vec::new();
        for event in &wire.events {
            match event.body {
                Body::Listing(_) => listed.push(event.symbol),
                Body::Halted | Body::Resumed => {}
                _ => prop_assert!(listed.contains(&event.symbol)),
            }
        }
    }
}
