//! What an audit is told, and what its doubt does.
//!
//! Never: a copy that changes what is published.

use super::*;
use market::{Ask, Restored, RestoredTick, Views};

fn whole(ticket: u64) -> Body {
    Body::Copy(Ask { ticket, ticks: true })
}

#[test]
fn a_copy_is_the_book_at_the_close_and_changes_nothing() {
    let mut tape = live();
    tape.take(41, 0, whole(7));
    tape.delta(42, 0, (102, 102), &[bid(100, 9), bid(99, 0)]);
    tape.until(80);
    let ((cut, copy), published) = (tape.copies[0].clone(), tape.published.len());
    assert_eq!((cut, copy.ticket, copy.symbol), (1, 7, SymbolId(0)));
    assert_eq!((copy.version, copy.scale, copy.state), (Some(Version::new(0, 102)), SCALE, FeedState::Live));
    assert_eq!(copy.ticks, [bid(100, 9), ask(102, 3)], "what came after the question and before the close is in it");
    assert_eq!((copy.restored, copy.rebuilds), (false, 1));

    // A quiet instrument answers too, without a word to anybody else.
    tape.take(121, 0, whole(8));
    tape.take(121, 0, Body::Copy(Ask { ticket: 9, ticks: false }));
    tape.until(200);
    let told: Vec<_> = tape.copies.iter().map(|(cut, copy)| (*cut, copy.ticket, copy.ticks.len())).collect();
    assert_eq!(told, [(1, 7, 2), (3, 8, 2), (3, 9, 0)]);
    assert_eq!(tape.copies[2].1.version, Some(Version::new(0, 102)));
    assert_eq!(tape.published.len(), published);
}

#[test]
fn an_instrument_without_a_book_and_one_that_is_unknown_answer_too() {
    let mut tape = Tape::new();
    tape.list(0);
    tape.take(1, 0, whole(1));
    tape.take(2, 5, whole(2));
    tape.until(40);
    for (at, symbol) in [(0, 0), (1, 5)] {
        let copy = &tape.copies[at].1;
        assert_eq!((copy.symbol, copy.version, copy.state), (SymbolId(symbol), None, FeedState::Syncing));
        assert!(copy.ticks.is_empty());
    }
    assert_eq!(tape.counts.unanchored, 0, "a question is no update");
}

#[test]
fn a_kept_book_is_told_to_be_one_until_something_changes_it() {
    let mut tape = Tape::new();
    let listing = Listing { venue: Venue::NeutronDex, pair: PairId(0), epoch: 0, block: 0, views: Views::NONE };
    tape.take(0, 0, Body::Listing(listing));
    let version = Version::new(0, 100);
    let kept = Restored {
        version,
        through: version,
        scale: SCALE,
        ticks: Some(vec![RestoredTick { tick: bid(100, 1), version }]),
        from_log: true,
        heard_ns: 0,
    };
    tape.take(0, 0, Body::Restored(Box::new(kept)));
    tape.take(1, 0, whole(1));
    tape.delta(41, 0, (101, 101), &[bid(100, 2)]);
    tape.take(42, 0, whole(2));
    tape.until(80);
    let told: Vec<_> = tape.copies.iter().map(|(_, copy)| (copy.restored, copy.rebuilds, copy.ticks.clone())).collect();
    assert_eq!(told, [(true, 0, vec![bid(100, 1)]), (false, 0, vec![bid(100, 2)])]);
}

#[test]
fn a_doubted_book_of_a_venue_waits_for_a_snapshot_that_is_asked_for() {
    let mut tape = live();
    tape.take(41, 0, Body::Doubted);
    tape.until(80);
    assert_eq!((tape.states(0), tape.requests, tape.counts.gaps), (vec![FeedState::Gapped], 1, 1));
    tape.delta(81, 0, (102, 102), &[bid(100, 5)]);
    tape.until(120);
    assert_eq!(tape.last().version, Some(Version::new(0, 101)), "nothing is shown on what is in doubt");
    tape.snapshot(121, 0, 101, &[bid(100, 1), ask(102, 3)]);
    tape.take(122, 0, whole(1));
    tape.until(160);
    assert_eq!(tape.lane.state(SymbolId(0)), Some(FeedState::Live));
    let copy = &tape.copies[0].1;
    assert_eq!((copy.ticks.clone(), copy.rebuilds), (vec![bid(100, 5), ask(102, 3)], 2));
    assert!(tape.legs.values().all(|leg| leg.gaps == 0), "no leg is to blame: {:?}", tape.legs);
}

#[test]
fn a_doubted_book_of_a_log_goes_on_marked_until_it_is_rebuilt() {
    let mut tape = Tape::new();
    let listing = Listing { venue: Venue::NeutronDex, pair: PairId(0), epoch: 0, block: 50, views: Views::NONE };
    tape.take(0, 0, Body::Listing(listing));
    let version = Version::new(0, 100);
    let ticks = Some(vec![RestoredTick { tick: bid(100, 1), version }]);
    let kept = Restored { version, through: version, scale: SCALE, ticks, from_log: true, heard_ns: 0 };
    tape.take(0, 0, Body::Restored(Box::new(kept)));
    tape.take(41, 0, Body::Doubted);
    tape.delta(81, 0, (101, 101), &[bid(99, 2)]);
    tape.until(120);
    assert_eq!(tape.states(0).last(), Some(&FeedState::Gapped));
    assert_eq!((tape.last().version, tape.requests), (Some(Version::new(0, 101)), 0));
    tape.snapshot(121, 0, 101, &[bid(100, 1), bid(99, 2)]);
    tape.take(122, 0, whole(1));
    tape.until(160);
    assert_eq!(tape.states(0).last(), Some(&FeedState::Live));
    assert_eq!((tape.copies[0].1.version, tape.copies[0].1.rebuilds), (Some(Version::new(0, 101)), 1), "no new epoch");
}
