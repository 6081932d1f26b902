//! Channels, numbers, checksums and trades, told message by message; most frames are recorded ones, cut to what matters.
//!
//! Never: a checksum taken from the code under test; it is one over the text that the test spells out.

use super::*;
use crate::raw::{RawFrame, RawKind, RawPayload};
use market::{Side, U256};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const BOOK: u64 = 225_206;
const TRADES: u64 = 232_959;

struct Wire {
    feed: Feed,
    events: Vec<Event>,
    position: u64,
    now_ns: u64,
    number: [u64; 2],
}

impl Wire {
    fn new() -> Self {
        let feed = Feed::new(Arc::new(Listings::new(Arc::default())));
        Self { feed, events: Vec::new(), position: 0, now_ns: 1_618_677_543 * S, number: [0; 2] }
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

    /// An array with the next number of its connection.
    fn next(&mut self, leg: u16, id: u64, rest: &str) -> Result<(), Undecodable> {
        let number = &mut self.number[usize::from(leg)];
        *number += 1;
        let text = format!("[{id},{rest},{number}]");
        self.say(leg, &text)
    }

    fn named(&mut self, leg: u16, channel: &str, id: u64, symbol: &str) {
        let text = format!(r#"{{"event":"subscribed","channel":"{channel}","chanId":{id},"symbol":"{symbol}"}}"#);
        self.say(leg, &text).unwrap();
    }

    fn checked(&mut self, leg: u16, id: u64, spelled: &str) {
        let checksum = crc32fast::hash(spelled.as_bytes()).cast_signed();
        self.next(leg, id, &format!(r#""cs",{checksum}"#)).unwrap();
    }

    fn reopened(&mut self, leg: u16) {
        self.frame(leg, RawKind::Close, "").unwrap();
        self.frame(leg, RawKind::Open, "").unwrap();
        self.number[usize::from(leg)] = 0;
    }

    fn bodies(&self) -> Vec<&'static str> {
        self.events.iter().map(kind).collect()
    }

    fn trades(&self) -> Vec<(&str, Side)> {
        self.events.iter().filter_map(trade).collect()
    }
}

fn trade(event: &Event) -> Option<(&str, Side)> {
    match &event.body {
        Body::Trade { trade, .. } => Some((&trade.id, trade.taker)),
        _ => None,
    }
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
        Body::Broken(BreakReason::Checksum) => "checksum",
        Body::Halted => "halted",
        Body::Resumed => "resumed",
        _ => "other",
    }
}

fn ticks(event: &Event) -> Vec<(Side, i64, U256)> {
    let ticks = match &event.body {
        Body::Snapshot(snapshot) => &snapshot.ticks,
        Body::Delta(delta) => &delta.changes,
        other => panic!("{other:?}"),
    };
    ticks.iter().map(|tick| (tick.side, tick.key.tick_index, tick.reserves)).collect()
}

/// Two books of one leg.
fn begun() -> Wire {
    let mut wire = Wire::new();
    for (id, symbol) in [(BOOK, "tDOGUSD"), (BOOK + 1, "tODEUSD")] {
        wire.named(0, "book", id, symbol);
        wire.next(0, id, "[[277520,1,0.5],[277530,2,-2]]").unwrap();
    }
    wire
}

#[test]
fn a_book_begins_with_its_rows_and_is_changed_by_single_ones() {
    let mut wire = begun();
    assert_eq!(wire.bodies(), ["listing", "snapshot", "listing", "snapshot"]);
    wire.next(0, BOOK, "[277520,0,1]").unwrap();
    wire.next(0, BOOK, "[277530,1,-0.5]").unwrap();
    wire.next(0, BOOK, "[277510,1,0.25]").unwrap();
    let told: Vec<_> = wire.events[4..].iter().map(ticks).collect();
    let n = |number: u64| U256::from(number);
    let bid = |price, quantity: u64| (Side::Bid, price, n(quantity));
    assert_eq!(told, [vec![bid(27_752, 0)], vec![(Side::Ask, 27_753, n(5))], vec![bid(27_751, 25)]]);
    wire.next(0, BOOK, "[]").unwrap();
    assert_eq!((wire.bodies().len(), ticks(wire.events.last().unwrap()).len()), (8, 0), "an empty book is one");
}

#[test]
fn two_spellings_in_one_book_are_exact_and_checked_as_they_are_spelled() {
    let mut wire = Wire::new();
    wire.named(0, "book", BOOK, "tODEUSD");
    wire.next(0, BOOK, "[[0.0000082,1,5.5],[1.7e-7,1,1],[0.0000083,1,-2]]").unwrap();
    let prices: Vec<_> = ticks(&wire.events[1]).into_iter().map(|(_, price, _)| price).collect();
    assert_eq!(prices, [820, 17, 830]);
    wire.checked(0, BOOK, "0.0000082:5.5:0.0000083:-2:1.7e-7:1");
    wire.next(0, BOOK, "[1.7e-7,0,1]").unwrap();
    wire.next(0, BOOK, "[2e-8,1,3]").unwrap();
    wire.checked(0, BOOK, "0.0000082:5.5:0.0000083:-2:2e-8:3");
    assert_eq!(wire.bodies(), ["listing", "snapshot", "delta", "delta"]);
    assert_eq!((wire.feed.counts().checksums_matched, wire.feed.counts().checksums_failed), (2, 0));
}

#[test]
fn a_checksum_that_fails_breaks_that_book_alone_until_its_next_beginning() {
    let mut wire = begun();
    wire.checked(0, BOOK, "277520:0.5:277530:-2.0");
    assert_eq!(wire.bodies()[4..], ["checksum"]);
    assert_eq!((wire.feed.repairs(), wire.feed.reconnects().len()), (vec![(LegId(0), "tDOGUSD".into())], 0));
    wire.next(0, BOOK, "[277520,1,7]").unwrap();
    wire.checked(0, BOOK, "whatever: there is no book");
    wire.next(0, BOOK + 1, "[277520,1,7]").unwrap();
    assert_eq!(wire.bodies()[5..], ["delta"], "of the other");
    let text = format!(r#"{{"event":"unsubscribed","status":"OK","chanId":{BOOK}}}"#);
    wire.say(0, &text).unwrap();
    wire.named(0, "book", 9, "tDOGUSD");
    wire.next(0, 9, "[[277520,1,7]]").unwrap();
    wire.checked(0, 9, "277520:7");
    assert_eq!(wire.bodies()[6..], ["snapshot"]);
    assert_eq!((wire.feed.counts().checksums_matched, wire.feed.counts().checksums_failed), (1, 1));
    assert_eq!(wire.feed.repairs(), []);
}

/// The same, on a connection that said that checksums follow.
fn checked() -> Wire {
    let mut wire = begun();
    wire.say(0, r#"{"event":"conf","status":"OK","flags":196608}"#).unwrap();
    wire
}

#[test]
fn rows_wait_for_their_checksum_and_are_one_change() {
    let mut wire = checked();
    wire.next(0, BOOK, "[277530,0,-1]").unwrap();
    wire.next(0, BOOK, "[277530,1,0.25]").unwrap();
    wire.next(0, BOOK, "[277540,1,-3]").unwrap();
    assert_eq!(wire.bodies()[4..], [] as [&str; 0]);
    wire.checked(0, BOOK, "277530:0.25:277540:-3:277520:0.5");
    let told: Vec<_> = ticks(wire.events.last().unwrap()).into_iter().map(|(side, price, _)| (side, price)).collect();
    assert_eq!(told, [(Side::Ask, 27_753), (Side::Bid, 27_753), (Side::Ask, 27_754)], "in their order");
    assert_eq!((wire.bodies()[4..].to_vec(), place(&wire.events[4])), (vec!["delta"], wire.position));
    wire.next(0, BOOK, "[277520,1,8]").unwrap();
    wire.checked(0, BOOK, "another book");
    assert_eq!(wire.bodies()[5..], ["checksum"], "what it is wrong about was never told");
    assert_eq!((wire.feed.counts().checksums_matched, wire.feed.counts().checksums_failed), (1, 1));
    wire.next(0, BOOK, "[[277520,1,7]]").unwrap();
    wire.checked(0, BOOK, "277520:7");
    assert_eq!(wire.bodies()[6..], ["snapshot"], "nothing of before");
}

#[test]
fn what_no_checksum_follows_is_told_after_a_while_and_what_comes_then_at_once() {
    let pong = |wire: &mut Wire| wire.say(0, r#"{"event":"pong","ts":1}"#);
    let ways: [(&str, u64, usize); 3] =
        [(r#""hb""#, BOOK, 1), ("[277510,1,1]", BOOK + 1, 1), ("[277510,1,1]", BOOK, 2)];
    for (rest, id, changes) in ways {
        let mut wire = checked();
        wire.next(0, BOOK, "[277520,1,7]").unwrap();
        wire.now_ns += S / 4 - 1;
        pong(&mut wire).unwrap();
        assert_eq!(wire.bodies()[4..], [] as [&str; 0]);
        wire.now_ns += 1;
        wire.next(0, id, rest).unwrap();
        assert_eq!((wire.bodies()[4..].to_vec(), ticks(&wire.events[4]).len()), (vec!["delta"], changes));
        wire.next(0, BOOK, "[277520,1,8]").unwrap();
        assert_eq!(wire.bodies()[5..], ["delta"], "checksums are not waited for any more");
    }
    let mut wire = checked();
    wire.next(0, BOOK, "[277520,1,7]").unwrap();
    wire.now_ns += S / 4;
    pong(&mut wire).unwrap();
    assert_eq!(wire.bodies()[4..], ["delta"]);
}

#[test]
fn a_leg_that_takes_over_in_the_middle_of_an_event_shows_nothing_of_it_before_its_end() {
    let mut wire = checked();
    wire.say(1, r#"{"event":"conf","status":"OK","flags":196608}"#).unwrap();
    wire.named(1, "book", BOOK, "tDOGUSD");
    wire.next(1, BOOK, "[[277520,1,0.5],[277530,2,-2]]").unwrap();
    wire.next(1, BOOK, "[277530,1,0.25]").unwrap();
    wire.frame(0, RawKind::Close, "").unwrap();
    let taken = &wire.events[4];
    assert_eq!((kind(taken), taken.leg, ticks(taken).len()), ("snapshot", LegId(1), 2));
    wire.next(1, BOOK, "[277530,0,-1]").unwrap();
    wire.checked(1, BOOK, "277530:0.25:277520:0.5");
    assert_eq!((kind(wire.events.last().unwrap()), ticks(wire.events.last().unwrap()).len()), ("delta", 2));
}

#[test]
fn a_row_that_cannot_be_read_is_named_when_it_comes() {
    let mut wire = checked();
    wire.next(0, BOOK, "[277520,1,7]").unwrap();
    assert!(wire.next(0, BOOK, "[277520,1,1e99]").is_err());
    assert_eq!((wire.bodies()[4..].to_vec(), wire.feed.repairs().len()), (vec!["undecodable"], 1));
    wire.checked(0, BOOK, "277520:7:277530:-2");
    assert_eq!(wire.bodies().len(), 5);
}

#[test]
fn a_check_that_fails_on_book_after_book_is_put_aside_and_the_data_are_kept() {
    let mut wire = Wire::new();
    for id in 1..=7 {
        wire.named(0, "book", id, "tDOGUSD");
        wire.next(0, id, "[[277520,1,0.5]]").unwrap();
        wire.checked(0, id, "wrong");
    }
    let broken = wire.bodies().iter().filter(|body| **body == "checksum").count();
    assert_eq!((broken, wire.feed.counts().checks_put_aside, wire.feed.counts().checksums_failed), (4, 1, 7));
}

#[test]
fn a_hole_in_the_numbers_loses_every_book_of_that_connection() {
    let mut wire = begun();
    wire.named(1, "book", BOOK, "tDOGUSD");
    wire.next(1, BOOK, "[[277520,1,0.5]]").unwrap();
    wire.number[0] += 1;
    wire.next(0, BOOK, r#""hb""#).unwrap();
    let told: Vec<_> = wire.events[4..].iter().map(|event| (kind(event), event.leg.0)).collect();
    assert_eq!(told, [("snapshot", 1), ("missing", 0)], "the other leg takes over the book that it has");
    assert_eq!((wire.feed.counts().missing, wire.feed.reconnects()), (1, vec![LegId(0)]));
    wire.next(0, BOOK + 1, "[277520,1,7]").unwrap();
    assert_eq!(wire.events.len(), 6, "nothing over the hole");
    wire.reopened(0);
    wire.named(0, "book", 7, "tODEUSD");
    wire.next(0, 7, "[[277520,1,0.5]]").unwrap();
    assert_eq!((wire.bodies()[6..].to_vec(), wire.feed.reconnects().len()), (vec!["snapshot"], 0));
}

#[test]
fn numbers_count_every_array_and_what_was_passed_is_dropped() {
    let mut wire = begun();
    wire.next(0, TRADES, r#""hb""#).unwrap();
    wire.next(0, BOOK, "[277520,1,7]").unwrap();
    let again = format!("[{BOOK},[277520,1,8],4]");
    wire.say(0, &again).unwrap();
    wire.say(0, &again.replace(",4]", ",1]")).unwrap();
    assert_eq!((wire.feed.counts().passed, wire.feed.counts().missing, wire.feed.reconnects().len()), (2, 0, 0));
    assert_eq!(wire.bodies()[4..], ["delta"]);
    wire.say(0, &format!("[{BOOK},[277520,1,9]]")).unwrap();
    assert_eq!(wire.bodies().len(), 6, "without the flag there are no numbers");
}

#[test]
fn what_a_channel_says_before_it_is_named_is_made_good() {
    let mut wire = Wire::new();
    // As recorded: a heartbeat of a channel that nobody knows yet.
    wire.next(0, 232_954, r#""hb""#).unwrap();
    wire.next(0, BOOK, "[[277520,1,0.5],[277530,2,-2]]").unwrap();
    wire.next(0, BOOK, "[277520,1,7]").unwrap();
    assert_eq!(wire.bodies(), Vec::<&str>::new());
    wire.named(0, "book", BOOK, "tDOGUSD");
    assert_eq!(wire.bodies(), ["listing", "snapshot", "delta"]);
    wire.next(0, BOOK, "[277520,1,8]").unwrap();
    let places: Vec<_> = wire.events[1..].iter().map(place).collect();
    assert_eq!(places, [2, 3, 5], "each at its own place");
    assert_eq!((wire.feed.counts().missing, wire.feed.reconnects().len()), (0, 0));
}

fn place(event: &Event) -> u64 {
    match &event.body {
        Body::Snapshot(snapshot) => snapshot.sequence.last(),
        Body::Delta(delta) => delta.sequence.last(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_waits_for_a_name_is_bounded_and_its_loss_is_one_of_the_connection() {
    let mut wire = begun();
    for _ in 0..300 {
        wire.next(0, 1, "[277520,1,7]").unwrap();
    }
    assert_eq!(wire.bodies()[4..], ["missing", "missing"]);
    assert_eq!(wire.feed.reconnects(), [LegId(0)]);
    let mut wire = begun();
    let long = format!("[[277520,1,0.5{}]]", "0".repeat(600_000));
    wire.next(0, 1, &long).unwrap();
    assert_eq!(wire.feed.reconnects(), []);
    wire.next(0, 1, &long).unwrap();
    assert_eq!(wire.feed.reconnects(), [LegId(0)]);
    wire.reopened(0);
    wire.named(0, "book", 1, "tDOGUSD");
    assert_eq!(wire.bodies()[6..], Vec::<&str>::new(), "nothing of another connection is made good");
}

#[test]
fn what_follows_the_end_of_a_channel_is_of_no_use_unless_it_begins_anew() {
    let mut wire = begun();
    let end = format!(r#"{{"event":"unsubscribed","status":"OK","chanId":{BOOK}}}"#);
    wire.say(0, &end).unwrap();
    let before = wire.events.len();
    for _ in 0..1_000 {
        wire.next(0, BOOK, "[277520,2,0.5]").unwrap();
    }
    assert_eq!(wire.bodies()[before..], [] as [&str; 0]);
    assert!(wire.feed.reconnects().is_empty());
    // The same id again, its book before its name.
    wire.next(0, BOOK, "[[277520,1,0.5],[277530,2,-2]]").unwrap();
    wire.next(0, BOOK, "[277520,3,0.5]").unwrap();
    wire.named(0, "book", BOOK, "tDOGUSD");
    assert_eq!(wire.bodies()[before..], ["snapshot", "delta"]);
}

#[test]
fn what_is_never_named_is_forgotten_after_a_while() {
    let mut wire = begun();
    let before = wire.events.len();
    for _ in 0..1_000 {
        wire.now_ns += S / 10;
        wire.next(0, TRADES, "[277520,2,0.5]").unwrap();
    }
    assert!(wire.feed.reconnects().is_empty());
    assert_eq!(wire.bodies()[before..], [] as [&str; 0]);
    wire.named(0, "book", TRADES, "tXYZUSD");
    assert!(wire.feed.reconnects().is_empty());
}

#[test]
fn what_cannot_be_read_breaks_its_book_alone() {
    for bad in [
        "[277520,1,0]",
        "[277520,-1,1]",
        "[277520,1]",
        "[-1,1,1]",
        r#"["x",1,1]"#,
        "[277520,1,1e99]",
        "[null,1,1]",
        "7",
    ] {
        let mut wire = begun();
        assert!(wire.next(0, BOOK, bad).is_err(), "{bad}");
        assert_eq!(wire.bodies()[4..], ["undecodable"], "{bad}");
        assert_eq!(wire.feed.repairs(), [(LegId(0), "tDOGUSD".into())]);
        wire.next(0, BOOK + 1, "[277520,1,7]").unwrap();
        assert_eq!(wire.bodies().last(), Some(&"delta"));
    }
    let mut wire = begun();
    for bad in ["[", "[]", "{", "null", r#"["x",[1,1,1],3]"#, "[1]", r#"[1,"hb","x"]"#, r#"{"event":"subscribed"}"#] {
        assert!(wire.say(0, bad).is_err(), "{bad}");
    }
    assert_eq!(wire.feed.counts().undecodable, 8);
}

#[test]
fn a_trade_is_told_once_by_either_word() {
    let mut wire = Wire::new();
    wire.named(0, "trades", TRADES, "tBFTUSD");
    wire.next(0, TRADES, "[[669899159,1618665870435,166.4,0.076989],[669899158,1618665870430,-6961.4,0.076985]]")
        .unwrap();
    assert_eq!(wire.trades(), [("669899158", Side::Ask), ("669899159", Side::Bid)], "the oldest first");
    let next = |wire: &mut Wire, word: &str, id: &str| {
        wire.next(0, TRADES, &format!(r#""{word}",[{id},1618665871000,1,0.077]"#)).unwrap();
    };
    next(&mut wire, "te", "669899160");
    next(&mut wire, "tu", "669899160");
    next(&mut wire, "tu", "100155647470219567721");
    next(&mut wire, "other", "1");
    let ids: Vec<_> = wire.trades().into_iter().map(|(id, _)| id.to_owned()).collect();
    assert_eq!(ids[2..], ["669899160", "100155647470219567721"]);
    let times: Vec<_> = wire.events.iter().skip(1).map(|event| event.venue_ns).collect();
    assert_eq!(times[1], 1_618_665_870_435_000_000);
    for bad in [
        "[1,1618665870,1,1]",
        "[null,1618665870435,1,1]",
        "[1.5,1618665870435,1,1]",
        "[1,1618665870435,1]",
        "[1,1618665870435,1,-1]",
    ] {
        assert!(wire.next(0, TRADES, &format!(r#""te",{bad}"#)).is_err(), "{bad}");
    }
    assert!(wire.next(0, TRADES, r#""te""#).is_err());
}

#[test]
fn the_venue_says_when_its_market_stands_still() {
    let mut wire = begun();
    let info = |code: u32| format!(r#"{{"event":"info","code":{code},"msg":"x"}}"#);
    let platform = |status: u32| format!(r#"{{"event":"info","version":2,"platform":{{"status":{status}}}}}"#);
    for text in [
        platform(1),
        info(20_060),
        info(20_060),
        info(20_051),
        info(20_061),
        info(20_061),
        platform(0),
        platform(1),
        platform(0),
    ] {
        wire.say(0, &text).unwrap();
    }
    wire.reopened(0);
    wire.say(0, &platform(1)).unwrap();
    let told: Vec<_> = wire.bodies()[4..].iter().copied().filter(|body| *body != "unsubscribed").collect();
    assert_eq!(told, ["halted", "resumed", "halted", "resumed", "halted"], "the end of a connection says the rest");
}

#[test]
fn an_unknown_symbol_is_counted_and_named_and_asks_for_nothing() {
    let listings = Listings::new(Arc::default()).with_only(VENUE, ["tBTCUSD"]);
    let mut wire = Wire { feed: Feed::new(Arc::new(listings)), ..Wire::new() };
    wire.named(0, "book", BOOK, "tDOGUSD");
    let refused = wire.next(0, BOOK, "[[277520,1,0.5]]").unwrap_err();
    assert!(matches!(&refused, Undecodable::Unlisted { symbol, .. } if &**symbol == "tDOGUSD"), "{refused}");
    assert!(wire.next(0, BOOK, "[277520,1,0]").is_err());
    wire.checked(0, BOOK, "x");
    assert_eq!((wire.feed.counts().undecodable, wire.feed.repairs().len(), wire.events.len()), (2, 0, 0));
}

#[test]
fn an_instrument_that_falls_silent_while_its_leg_ticks_is_to_be_subscribed_to_anew_there_alone() {
    let mut wire = begun();
    for beat in 0..400 {
        wire.now_ns += S / 20;
        let row = format!("[277510,1,{}]", 1 + beat % 7);
        wire.next(0, BOOK, &row).unwrap();
        if beat < 60 {
            wire.next(0, BOOK + 1, &row).unwrap();
        }
        wire.feed.look_after(LegId(0), wire.now_ns);
    }
    assert_eq!(wire.feed.repairs(), [(LegId(0), "tODEUSD".into())]);
    assert_eq!(wire.feed.reconnects(), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever comes on two legs, whenever: a book has one change at most at one place in the order of arrival.
    #[test]
    fn no_place_is_told_twice(
        steps in prop::collection::vec((0_u16..2, 0_usize..8, 0_u64..2, 1_u64..9, 0_u64..120), 1..120),
    ) {
        let mut wire = checked();
        wire.say(1, r#"{"event":"conf","status":"OK","flags":196608}"#).unwrap();
        let whole = "[[277520,1,0.5],[277530,2,-2]]";
        for (id, symbol) in [(BOOK, "tDOGUSD"), (BOOK + 1, "tODEUSD")] {
            wire.named(1, "book", id, symbol);
            wire.next(1, id, whole).unwrap();
        }
        for (leg, what, book, quantity, after_ms) in steps {
            wire.now_ns += after_ms * (S / 1_000);
            let id = BOOK + book;
            match what {
                0..=2 => wire.next(leg, id, &format!("[27752{quantity},1,{quantity}]")).unwrap(),
                3 => wire.next(leg, id, r#""hb""#).unwrap(),
                4 => wire.checked(leg, id, "277520:0.5:277530:-2"),
                5 => wire.next(leg, id, whole).unwrap(),
                6 => wire.number[usize::from(leg)] += quantity & 1,
                _ => wire.say(leg, r#"{"event":"pong","ts":1}"#).unwrap(),
            }
        }
        let changed = |event: &&Event| matches!(event.body, Body::Snapshot(_) | Body::Delta(_));
        for symbol in [0, 1] {
            let of = wire.events.iter().filter(changed).filter(|event| event.symbol.0 == symbol);
            let places: Vec<u64> = of.map(place).collect();
            prop_assert!(places.is_sorted_by(|before, after| before < after), "{:?}", places);
        }
    }

    #[test]
    fn no_text_is_too_odd(texts in prop::collection::vec(r"[\[{].{0,60}|.{0,60}", 1..8)) {
        let mut wire = begun();
        for text in texts {
            drop(wire.say(0, &text));
        }
    }

    #[test]
    fn no_mutation_of_a_message_is_too_odd(
        which in 0_usize..7,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..3, any::<char>()), 1..6),
    ) {
        let seeds = [
            "[225206,[[277520,1,0.5],[277530,2,-2]],3]",
            "[225206,[277520,0,1],3]",
            r#"[225206,"cs",-1234567,3]"#,
            r#"[232959,"te",[669899160,1618665871000,1,0.077],3]"#,
            "[232959,[[669899159,1618665870435,166.4,0.076989]],3]",
            r#"{"event":"subscribed","channel":"book","chanId":225206,"symbol":"tDOGUSD","pair":"DOGUSD"}"#,
            r#"{"event":"info","code":20060,"platform":{"status":0}}"#,
        ];
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
        let mut wire = begun();
        wire.named(0, "trades", TRADES, "tDOGUSD");
        drop(wire.say(0, &text));
        drop(wire.say(0, &text));
        use crate::live::protocol::Protocol as _;
        drop(crate::bitfinex::live::Bitfinex.understand(&text));
    }
}
