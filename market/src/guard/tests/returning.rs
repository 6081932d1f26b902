//! Coming back: kept books, legs that go and come, new epochs, and holes behind a rebuilt book.
//!
//! Never: a wall clock.

use super::*;

/// A guard that goes on from a book that was kept at `0:100`; new epochs are taken from 1,000 on.
fn restored() -> Tape {
    let mut guard = Guard::new(Limits::default(), 0, 1_000);
    guard.restore(0, Version::new(0, 100), false);
    Tape { guard, shown: Vec::new(), now_ns: 0, content: Some(100) }
}

#[test]
fn a_kept_book_goes_on_in_its_epoch_from_the_first_snapshot_that_reaches_it() {
    let mut tape = restored();
    assert_eq!((tape.guard.state(), tape.guard.version()), (FeedState::Syncing, Some(Version::new(0, 100))));
    assert_eq!(tape.delta(A, 99, 99), Offer::Regression);
    assert_eq!(tape.delta(A, 104, 104), Offer::Hold);
    assert_eq!(tape.snapshot(99), Err(Refusal::Unbridged), "it does not reach what is held");
    assert_eq!(tape.snapshot(103), Ok(true));
    assert_eq!(tape.shown, [Version::new(0, 103), Version::new(0, 104)]);
    assert_eq!((tape.guard.state(), tape.guard.counts().resyncs), (FeedState::Live, 0));
}

#[test]
fn a_kept_book_that_goes_on_from_a_log_needs_no_snapshot() {
    let mut tape = restored();
    tape.guard.restore(0, Version::new(0, 100), true);
    assert_eq!(tape.delta(A, 101, 101), Offer::Apply(Version::new(0, 101)));
}

#[test]
fn a_quiet_book_after_a_restart_is_live_again_at_its_version() {
    let mut tape = restored();
    assert!(!tape.guard.wants_snapshot(0));
    tape.after(250);
    assert!(tape.guard.wants_snapshot(tape.now_ns));
    assert_eq!(tape.snapshot(100), Ok(false));
    tape.after(250);
    assert_eq!((tape.guard.state(), tape.guard.version()), (FeedState::Live, Some(Version::new(0, 100))));
}

#[test]
fn a_venue_that_restarted_during_our_downtime_opens_an_epoch_once_that_is_certain() {
    for quiet in [false, true] {
        let mut tape = restored();
        let mut id = 5;
        while tape.guard.counts().resets == 0 {
            tape.after(500);
            assert!(tape.now_ns <= 10_500 * MS, "never certain");
            if !quiet {
                id += 1;
                tape.delta(A, id, id);
            }
            assert!(tape.snapshot(id).is_err());
        }
        assert!(tape.now_ns >= 10_000 * MS, "too early");
        assert!(tape.shown.is_empty());
        if quiet {
            assert_eq!(tape.snapshot(id), Ok(false));
            tape.after(250);
        } else {
            assert_eq!(tape.snapshot(id), Ok(false), "nothing is held that it could be bridged by");
            tape.delta(A, id + 1, id + 1);
        }
        assert_eq!(tape.shown.first(), Some(&Version::new(1_000, id)), "quiet: {quiet}");
    }
}

#[test]
fn a_snapshot_that_lags_for_long_after_a_hole_restarts_nothing() {
    let mut tape = live_at(100);
    tape.delta(A, 103, 103);
    tape.after(250);
    assert_eq!(tape.guard.state(), FeedState::Gapped);
    tape.guard.broken(tape.now_ns);
    for _ in 0..40 {
        tape.after(1_000);
        assert_eq!(tape.snapshot(99), Err(Refusal::Older));
    }
    assert_eq!(tape.guard.counts().resets, 0);
    assert_eq!(tape.snapshot(107), Ok(false));
    tape.after(250);
    assert_eq!(tape.seqs().last(), Some(&107));
}

#[test]
fn after_a_new_epoch_a_leg_counts_once_it_is_bridged() {
    let mut tape = live_at(100);
    assert_eq!(tape.delta(B, 101, 101), Offer::Apply(Version::new(0, 101)));
    tape.delta(A, 5, 5);
    assert_eq!(tape.snapshot(5), Ok(false));
    assert_eq!(tape.delta(A, 6, 6), Offer::Hold, "its snapshot waits for it");
    assert_eq!(tape.guard.version(), Some(Version::new(1, 6)));
    assert_eq!(tape.delta(A, 7, 7), Offer::Apply(Version::new(1, 7)));
    // B still counts as before: no hole of a hundred, no gap.
    assert_eq!(tape.delta(B, 102, 102), Offer::Unbound);
    tape.after(1_000);
    assert_eq!((tape.guard.state(), tape.guard.counts().gaps), (FeedState::Live, 1));
    // Then it restarts too, which is no further restart.
    assert_eq!(tape.delta(B, 6, 6), Offer::Duplicate);
    assert_eq!(tape.delta(B, 8, 8), Offer::Apply(Version::new(1, 8)));
    assert_eq!(tape.guard.counts().resets, 1);
}

#[test]
fn ids_that_restart_before_any_update_was_applied_are_not_covered_for_ever() {
    let mut tape = Tape::new();
    assert_eq!(tape.snapshot(26_941_143), Ok(false));
    tape.after(250);
    assert_eq!(tape.delta(A, 26_941_140, 26_941_140), Offer::Covered);
    let mut id = 624_086;
    while tape.guard.counts().resets == 0 {
        assert!(tape.now_ns <= 11_000 * MS, "never noticed");
        tape.delta(B, id, id);
        id += 1;
        tape.after(500);
    }
    assert!(tape.now_ns >= 10_000 * MS);
    let mut tape = live_at(100);
    assert_eq!(tape.snapshot(110), Ok(true), "nothing was applied since");
    assert_eq!(tape.delta(A, 5, 5), Offer::Hold, "back on one connection");
    assert_eq!(tape.guard.counts().resets, 1);
}

#[test]
fn a_leg_with_former_ids_undoes_no_restart() {
    let mut tape = live_at(100);
    assert_eq!(tape.delta(B, 101, 101), Offer::Apply(Version::new(0, 101)));
    assert_eq!(tape.delta(A, 5, 5), Offer::Hold);
    assert_eq!(tape.delta(B, 102, 102), Offer::Unbound);
    assert_eq!(tape.snapshot(5), Ok(false));
    assert_eq!(tape.delta(B, 103, 103), Offer::Unbound);
    tape.delta(A, 6, 6);
    assert_eq!(tape.guard.version(), Some(Version::new(1, 6)));
}

#[test]
fn a_second_hole_behind_a_rebuilt_book_has_its_time_too() {
    let mut tape = live_at(100);
    tape.delta(A, 102, 102);
    tape.delta(A, 104, 104);
    tape.after(250);
    assert_eq!(tape.snapshot(101), Ok(true));
    assert_eq!(tape.seqs(), [99, 100, 101, 102]);
    tape.after(249);
    assert_eq!(tape.guard.state(), FeedState::Live);
    tape.after(1);
    assert_eq!((tape.guard.state(), tape.guard.counts().gaps), (FeedState::Gapped, 2), "without another update");
    // A snapshot inside a hole leaves the rest of it to its time as well.
    let mut tape = live_at(100);
    tape.delta(A, 103, 103);
    assert_eq!(tape.snapshot(101), Ok(true));
    assert_eq!(tape.guard.state(), FeedState::Live);
    tape.after(250);
    assert_eq!(tape.guard.state(), FeedState::Gapped);
}

#[test]
fn former_ids_that_come_right_after_a_new_epoch_are_given_up_once_a_leg_has_joined_it() {
    let mut tape = live_at(100);
    assert_eq!(tape.delta(B, 101, 101), Offer::Apply(Version::new(0, 101)));
    tape.delta(A, 5, 5);
    assert_eq!(tape.snapshot(5), Ok(false));
    assert_eq!(tape.delta(B, 102, 102), Offer::Unbound, "the leg that restarted is known");
    tape.delta(A, 6, 6);
    tape.guard.leg_down(A);
    assert_eq!(tape.delta(B, 103, 103), Offer::Hold, "no leg has joined: it may be a hole");
    tape.guard.leg_up(tape.now_ns, A);
    assert_eq!(tape.delta(A, 7, 7), Offer::Apply(Version::new(1, 7)));
    tape.after(1_000);
    for id in 8..110 {
        assert_eq!(
            tape.delta(A, id, id),
            Offer::Apply(Version::new(1, id)),
            "nothing of the former count is in the way"
        );
    }
}

#[test]
fn a_leg_that_is_gone_leaves_the_word_to_the_other() {
    let mut tape = live_at(100);
    assert_eq!(tape.delta(B, 101, 101), Offer::Apply(Version::new(0, 101)));
    tape.delta(A, 5, 5);
    assert_eq!(tape.snapshot(5), Ok(false));
    tape.delta(A, 6, 6);
    tape.delta(A, 7, 7);
    assert_eq!(tape.delta(B, 102, 102), Offer::Unbound);
    tape.guard.leg_down(A);
    tape.delta(B, 103, 103);
    tape.after(250);
    assert_eq!(tape.guard.state(), FeedState::Gapped, "a frozen book is never called LIVE");
}

#[test]
fn a_snapshot_that_comes_while_every_leg_is_down_proves_nothing() {
    let mut tape = live_at(100);
    tape.guard.interrupt(tape.now_ns);
    assert_eq!(tape.snapshot(103), Ok(true));
    assert_eq!(tape.guard.state(), FeedState::Gapped);
    tape.guard.leg_up(tape.now_ns, A);
    assert_eq!(tape.guard.state(), FeedState::Gapped);
    tape.after(250);
    assert!(tape.guard.wants_snapshot(tape.now_ns));
    assert_eq!(tape.snapshot(103), Ok(true));
    assert_eq!(tape.guard.state(), FeedState::Live);
}

#[test]
fn ids_that_a_reopened_leg_begins_below_what_is_shown_prove_nothing_when_they_pass_it() {
    let mut tape = live_at(100);
    tape.guard.interrupt(tape.now_ns);
    tape.guard.leg_up(tape.now_ns, A);
    tape.delta(A, 90, 90);
    for id in 91..=101 {
        tape.delta(A, id, id);
    }
    assert_eq!((tape.guard.state(), tape.seqs().last()), (FeedState::Gapped, Some(&100)));
    assert_eq!(tape.snapshot(101), Ok(false));
    tape.delta(A, 102, 102);
    assert_eq!(tape.seqs().last(), Some(&102));
}

#[test]
fn gaps_that_follow_each_other_are_answered_ever_more_slowly() {
    let mut tape = live_at(100);
    let (mut id, mut asked) = (100, Vec::new());
    while asked.len() < 6 {
        if tape.guard.state() == FeedState::Live {
            id += 2;
            tape.delta(A, id, id);
        } else if tape.guard.wants_snapshot(tape.now_ns) {
            asked.push(tape.now_ns / MS);
            assert_eq!(tape.snapshot(id), Ok(false));
        }
        tape.after(250);
    }
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted() && pauses.last() >= Some(&4_000), "{pauses:?}");
}

#[test]
fn a_stray_low_id_does_not_hold_a_stream_back_for_ever() {
    let mut tape = live_at(100);
    tape.delta(A, 5, 5);
    for _ in 0..19 {
        tape.after(500);
        assert_eq!(tape.snapshot(103), Err(Refusal::Older), "it may be from before a restart");
    }
    tape.after(500);
    assert_eq!(tape.snapshot(103), Ok(false));
    tape.after(250);
    assert_eq!((tape.guard.state(), tape.seqs().last()), (FeedState::Live, Some(&103)));
    assert_eq!(tape.guard.version().map(|version| version.epoch), Some(0));
}

#[test]
fn a_leg_opened_after_a_new_epoch_counts_at_once() {
    let mut tape = live_at(100);
    tape.delta(A, 5, 5);
    assert_eq!(tape.snapshot(5), Ok(false));
    tape.delta(A, 6, 6);
    tape.delta(A, 7, 7);
    tape.guard.leg_up(tape.now_ns, B);
    assert_eq!(tape.delta(B, 9, 9), Offer::Hold, "a hole, which the other leg may fill");
    assert_eq!(tape.delta(A, 8, 8), Offer::Apply(Version::new(1, 8)));
    assert_eq!(tape.guard.version(), Some(Version::new(1, 9)));
}

#[test]
fn a_book_without_legs_is_proven_by_what_joins_it_or_by_a_snapshot() {
    let mut tape = live_at(100);
    for by_snapshot in [false, true] {
        tape.guard.interrupt(tape.now_ns);
        assert_eq!(tape.guard.state(), FeedState::Gapped);
        tape.guard.leg_up(tape.now_ns, A);
        assert_eq!(tape.guard.state(), FeedState::Gapped, "an open connection proves nothing");
        tape.after(250);
        assert!(tape.guard.wants_snapshot(tape.now_ns));
        let next = tape.guard.version().unwrap().seq + 1;
        if by_snapshot {
            assert_eq!(tape.snapshot(next - 1), Ok(true));
        } else {
            assert_eq!(tape.delta(A, next, next), Offer::Apply(Version::new(0, next)));
        }
        assert_eq!(tape.guard.state(), FeedState::Live);
    }
}

#[test]
fn a_synthesized_stream_after_a_restart_waits_for_its_snapshot_whatever_its_numbers() {
    let mut guard: Guard<u64, ()> = Guard::new(Limits::default(), 7, 1_000);
    guard.restore(0, Version::new(7, 5_000), false);
    assert_eq!(guard.offer(0, A, Sequence::Arrival(3)), Offer::Unanchored);
    assert_eq!(guard.offer_snapshot(0, Sequence::Arrival(4), 4), Ok(Some((Version::new(1_000, 4), 4))));
    assert_eq!(guard.offer(0, A, Sequence::Arrival(5)), Offer::Apply(Version::new(1_000, 5)));
    guard.interrupt(0);
    guard.leg_up(0, A);
    assert_eq!(guard.offer(0, A, Sequence::Arrival(6)), Offer::Unanchored);
}
