//! Instruments whose prices are powers: a book like any other, and no part in the best of a pair.
//!
//! Never: a tick index that changes its meaning.

use super::*;
use market::scale::PRICE_POWERS;

const POWERS: Scale = Scale { price: PRICE_POWERS, quantity: -27 };

impl Tape {
    fn snapshot_in(&mut self, ms: u64, scale: Scale, id: u64, ticks: &[TickChange]) {
        let sequence = Sequence::Venue { first: id, last: id };
        let snapshot = Snapshot { sequence, scale, ticks: ticks.to_vec(), window: Window::Whole };
        self.take(ms, 0, Body::Snapshot(snapshot));
    }

    fn delta_in(&mut self, ms: u64, scale: Scale, id: u64, changes: &[TickChange]) {
        let sequence = Sequence::Venue { first: id, last: id };
        let (changes, window) = (changes.to_vec(), Window::Whole);
        self.take(ms, 0, Body::Delta(Delta { sequence, scale, changes, window, places: Vec::new() }));
    }
}

/// A lane whose instrument 0 is live at version 101, its prices in that scale.
fn live_in(scale: Scale) -> Tape {
    let mut tape = Tape::new();
    tape.list(0);
    tape.snapshot_in(0, scale, 100, &[bid(-5, 1), bid(-7, 2), ask(-3, 3)]);
    tape.delta_in(1, scale, 101, &[]);
    tape.until(40);
    assert_eq!(tape.last().scale, scale);
    tape
}

#[test]
fn a_price_that_is_a_power_has_a_quote_and_is_no_candidate_for_the_best() {
    let mut tape = live_in(POWERS);
    tape.delta_in(41, POWERS, 102, &[bid(-4, 9)]);
    tape.until(80);
    assert_eq!(tape.last().quote.and_then(|quote| quote.bid), Some(level(-4, 9)));
    assert_eq!(tape.states(0).last(), Some(&FeedState::Live));
    assert!(tape.quotes.is_empty(), "{:?}", tape.quotes);
    let mut steps = live();
    steps.delta(41, 0, (102, 102), &[bid(101, 9)]);
    steps.until(80);
    assert!(!steps.quotes.is_empty(), "in decimal steps it is one");
}

#[test]
fn a_change_in_decimal_steps_is_refused_where_prices_are_powers_and_the_other_way() {
    let steps = Scale { price: -2, quantity: -27 };
    for (kept, other) in [(POWERS, steps), (steps, POWERS)] {
        let mut tape = live_in(kept);
        tape.delta_in(41, other, 102, &[bid(-5, 7)]);
        tape.until(80);
        assert_eq!((tape.counts.unrepresentable, tape.last().scale), (1, kept), "{kept:?}");
        assert_eq!(tape.last().version, Some(Version::new(0, 101)));
        assert_eq!(tape.states(0).last(), Some(&FeedState::Gapped));
    }
}

#[test]
fn a_whole_book_in_decimal_steps_does_not_replace_one_of_powers_nor_the_other_way() {
    let steps = Scale { price: -2, quantity: -27 };
    for (kept, other) in [(POWERS, steps), (steps, POWERS)] {
        let mut tape = live_in(kept);
        tape.delta_in(41, kept, 105, &[bid(-5, 7)]);
        tape.until(400);
        assert_eq!(tape.states(0).last(), Some(&FeedState::Gapped));
        for ticks in [&[bid(-9, 7)][..], &[]] {
            tape.snapshot_in(401, other, 110, ticks);
            tape.delta_in(402, other, 111, &[]);
            tape.until(800);
        }
        assert!(tape.counts.unrepresentable >= 1, "{kept:?}");
        assert_eq!((tape.last().scale, tape.states(0).last()), (kept, Some(&FeedState::Gapped)));
        assert!(tape.published.iter().all(|(_, cut)| cut.scale == kept));
    }
}
