//! What a lane says of the standing views of its books, and when.
//!
//! Never: a number of a view; those are `market`'s.

use super::*;
use market::{PairId, ViewId, ViewKey, ViewPart, ViewRule, Views, quote::Exact, view::Band};

fn u(value: u64) -> U256 {
    U256::from(value)
}

/// A lane with two views, of which instrument 0 is in both and instrument 1 in none.
fn stage() -> Tape {
    let mut tape = Tape::new();
    let rules = [ViewRule::ReservesWithin(Band::of_ppm(100_000).unwrap()), ViewRule::Spread];
    tape.lane = tape.lane.with_views(rules.into());
    let both = Views::NONE.with(ViewId::new(0).unwrap()).with(ViewId::new(1).unwrap());
    for (symbol, views) in [(0, both), (1, Views::NONE)] {
        let venue = Venue::BinanceSpot;
        tape.take(0, symbol, Body::Listing(Listing { venue, pair: PairId(7), epoch: 0, block: 0, views }));
        tape.snapshot(0, symbol, 10, &[TickChange::at(Side::Bid, 99, u(5)), TickChange::at(Side::Ask, 101, u(6))]);
        tape.delta(0, symbol, (11, 11), &[]);
    }
    tape
}

/// What was told until a time, as (view, what was added before, what is now).
fn told(tape: &mut Tape, ms: u64) -> Vec<(usize, Option<ViewPart>, Option<ViewPart>)> {
    tape.until(ms);
    let mut parts = Vec::new();
    tape.lane.take_parts(&mut parts);
    assert!(parts.iter().all(|change| change.symbol == SymbolId(0) && change.key.pair == PairId(7)), "{parts:?}");
    parts
        .into_iter()
        .map(|PartChange { key: ViewKey { view, .. }, before, now, .. }| (view.place(), before, now))
        .collect()
}

fn band(bids: u64, asks: u64) -> Option<ViewPart> {
    let exact = |steps| Some(Exact::new(u(steps), SCALE.quantity));
    Some(ViewPart::Band { bids: exact(bids), asks: exact(asks), partial: false })
}

fn top(bid: u64, ask: u64) -> Option<ViewPart> {
    let exact = |steps| Some(Exact::new(u(steps), SCALE.price));
    Some(ViewPart::Top { bid: exact(bid), ask: exact(ask) })
}

#[test]
fn a_view_is_told_when_its_part_moves_and_only_then() {
    let mut tape = stage();
    assert_eq!(told(&mut tape, 40), [(0, None, band(5, 6)), (1, None, top(99, 101))]);
    // A quantity moves the sum; the best prices stay.
    tape.delta(50, 0, (12, 12), &[TickChange::at(Side::Bid, 99, u(7))]);
    assert_eq!(told(&mut tape, 80), [(0, band(5, 6), band(7, 6))]);
    // There and back within a cut, and a level far away, move nothing.
    tape.delta(90, 0, (13, 13), &[TickChange::at(Side::Bid, 99, u(8)), TickChange::at(Side::Bid, 99, u(7))]);
    tape.delta(95, 0, (14, 14), &[TickChange::at(Side::Ask, 500, u(8))]);
    assert_eq!(told(&mut tape, 120), []);
    tape.delta(130, 1, (12, 12), &[TickChange::at(Side::Bid, 99, u(7))]);
    assert_eq!(told(&mut tape, 160), [], "the other instrument is in no view");
}

#[test]
fn a_book_that_is_not_live_takes_back_what_it_added() {
    let mut tape = stage();
    told(&mut tape, 40);
    tape.take(50, 0, Body::Broken(BreakReason::Checksum));
    assert_eq!(told(&mut tape, 80), [(0, band(5, 6), None), (1, top(99, 101), None)]);
    tape.snapshot(90, 0, 20, &[TickChange::at(Side::Bid, 98, u(1)), TickChange::at(Side::Ask, 101, u(6))]);
    tape.delta(90, 0, (21, 21), &[]);
    assert_eq!(told(&mut tape, 120), [(0, None, band(1, 6)), (1, None, top(98, 101))]);
}

#[test]
fn a_refined_scale_alone_moves_nothing() {
    let mut tape = stage();
    told(&mut tape, 40);
    let finer = Scale { price: SCALE.price - 1, quantity: SCALE.quantity - 2 };
    let sequence = Sequence::Venue { first: 12, last: 12 };
    let delta = Delta { sequence, scale: finer, changes: Vec::new(), window: Window::Known(1_000), places: Vec::new() };
    tape.take(50, 0, Body::Delta(delta));
    assert_eq!(told(&mut tape, 80), []);
}
