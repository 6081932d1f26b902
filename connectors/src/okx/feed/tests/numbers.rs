//! Numbers, times and trades to the last digit.
//!
//! Never: a float.

use super::*;
use market::{Delta, Scale, TradeGuard, trade::TradeVerdict};

fn delta(wire: &Wire) -> &Delta {
    let Some(Event { body: Body::Delta(delta), .. }) = wire.events.last() else { panic!("{:?}", wire.events) };
    delta
}

#[test]
fn exponents_and_plain_spellings_are_both_exact_and_summed_as_spelt() {
    let mut wire = Wire::new();
    let bids: Levels<'_> = &[("0.0000082", "5"), ("1.7e-7", "3.0")];
    wire.book(0, Said::snapshot(BTC, bids).ids(-1, 10).sums(bids));
    wire.book(0, Said::update(BTC, &[("0.00000017", "4.0")]).ids(10, 11).sums(&[bids[0], ("0.00000017", "4.0")]));
    assert_eq!((wire.feed.counts().checksums_matched, wire.feed.counts().checksums_failed), (2, 0));
    assert_eq!(delta(&wire).scale, Scale { price: -8, quantity: 0 });
    assert_eq!(delta(&wire).changes[0].key.tick_index, 17);
    assert_eq!(delta(&wire).window, Window::Best(400));
}

#[test]
fn every_spelling_of_a_size_of_zero_ends_a_level() {
    let mut wire = Wire::new();
    wire.book(0, Said::snapshot(BTC, &[("1", "1")]).ids(-1, 10));
    wire.book(0, Said::update(BTC, &[("1", "0"), ("2", "0.0"), ("3", "0E-8"), ("4", "-0"), ("5", "7")]).ids(10, 11));
    let dead: Vec<_> = delta(&wire).changes.iter().map(|change| change.reserves.is_zero()).collect();
    assert_eq!(dead, [true, true, true, true, false]);
}

#[test]
fn a_bad_number_refuses_its_message_and_its_leg_is_held_against_nothing_until_a_snapshot() {
    let held: Levels<'_> = &[("1.5", "1")];
    for bad in ["NaN", "", "abc", "-1", "1e60", "92233720368547758080"] {
        let mut wire = Wire::new();
        wire.book(0, Said::snapshot(BTC, held).ids(-1, 10).sums(held));
        wire.book(0, Said::snapshot("ETH-USDT", held).sums(held));
        wire.told();
        let numbered = wire.say(0, &Said::update(BTC, &[("2", "1"), (bad, "1")]).ids(10, 11).text());
        let arrived = wire.say(0, &Said::update("ETH-USDT", &[("2", "1"), (bad, "1")]).text());
        for refused in [numbered, arrived] {
            assert!(matches!(refused, Err(Undecodable::Number { .. })), "{bad}: {refused:?}");
        }
        assert_eq!(wire.told(), [("broken", 1, None, 0)], "{bad}");
        wire.book(0, Said::update(BTC, &[("2", "1")]).ids(11, 12).sums(held));
        assert_eq!(wire.told(), [("delta", 0, venue(12, 12), 1)], "{bad}: the guard sees what is missing");
        assert_eq!(wire.feed.counts().checksums_failed, 0, "{bad}");
    }
}

#[test]
fn a_time_in_another_unit_is_refused() {
    for ms in ["1626995750", "1626995750044000", "-1", "", "x", "18446744073709551616"] {
        let mut wire = Wire::new();
        let text = Said::snapshot(BTC, &[]).ids(-1, 10).text().replace("1626995750044", ms);
        assert!(matches!(wire.say(0, &text), Err(Undecodable::Time { .. })), "{ms}");
    }
}

fn trade(id: &str, side: &str) -> String {
    format!(r#"{{"instId":"BTC-USDT","tradeId":{id},"px":"1.25","sz":"2","side":"{side}","ts":"1626995753055"}}"#)
}

fn trades(trades: &[String]) -> String {
    format!(r#"{{"arg":{{"channel":"trades","instId":"BTC-USDT"}},"data":[{}]}}"#, trades.join(","))
}

#[test]
fn a_trade_that_comes_three_times_is_told_under_one_id_and_shown_once() {
    let mut wire = Wire::new();
    let one = trade(r#""3435655""#, "sell");
    wire.say(0, &trades(&[one.clone(), one.clone()])).unwrap();
    wire.say(0, &trades(std::slice::from_ref(&one))).unwrap();
    wire.book(0, Said::snapshot(BTC, &[("1", "1")]).ids(-1, 10));
    wire.say(1, &trades(&[one, trade(r#""3435656""#, "buy")])).unwrap();
    let mut guard = TradeGuard::default();
    let mut offer = |event: &Event| match &event.body {
        Body::Trade { trade, .. } => Some((guard.offer(trade.order, &trade.id), trade.taker)),
        _ => None,
    };
    let verdicts: Vec<_> = wire.events.iter().filter_map(&mut offer).collect();
    use TradeVerdict::{Duplicate, Shown};
    let sell = |verdict| (verdict, Side::Ask);
    assert_eq!(verdicts, [sell(Shown), sell(Duplicate), sell(Duplicate), sell(Duplicate), (Shown, Side::Bid)]);
    let symbols: Vec<_> = wire.events.iter().map(|event| event.symbol.0).collect();
    assert!(symbols.iter().all(|symbol| *symbol == 0), "{symbols:?}");
}

#[test]
fn an_id_beyond_64_bits_is_kept_as_text_and_what_is_none_is_refused() {
    let mut wire = Wire::new();
    wire.say(0, &trades(&[trade(r#""100155647470219567721""#, "buy")])).unwrap();
    let Some(Event { body: Body::Trade { trade: told, .. }, .. }) = wire.events.last() else { panic!() };
    assert_eq!((&*told.id, told.order), ("100155647470219567721", 1 << 16));
    for id in [r#""""#, r#""x1""#, "null", "-1", "1.5"] {
        let refused = wire.say(0, &trades(&[trade(id, "buy")]));
        assert!(matches!(refused, Err(Undecodable::TradeId { .. })), "{id}: {refused:?}");
    }
    let side = wire.say(0, &trades(&[trade(r#""1""#, "both")]));
    assert!(matches!(side, Err(Undecodable::Field { field: "side", .. })), "{side:?}");
}
