//! A leg that is subscribed to again on its open connection: what it is answered may be older than what is shown, and is
//! then neither taken nor a restart of the ids. Ids that do restart are still noticed.
//!
//! Never: a wall clock.

use super::*;

/// The word of a leg that there is no update after an id.
fn assure(tape: &mut Tape, leg: LegId, last: u64) -> Offer {
    tape.delta(leg, last + 1, last)
}

/// Both legs stand at 111, and a snapshot was taken just before: nothing is remembered of what was applied.
fn both_at_111(snapshot: u64) -> Tape {
    let mut tape = live_at(109);
    for leg in [A, B] {
        tape.delta(leg, 110, 110);
    }
    tape.told_all(A, snapshot).unwrap_or_default();
    for leg in [A, B] {
        tape.delta(leg, 111, 111);
    }
    assert_eq!(tape.guard.version(), Some(Version::new(0, 111)));
    tape
}

#[test]
fn an_older_snapshot_on_an_open_connection_restarts_nothing() {
    for (snapshot, assured) in [(110, true), (111, true), (110, false), (111, false)] {
        let mut tape = both_at_111(snapshot);
        let shown = tape.shown.len();
        assert_eq!(tape.told_all(B, 108), Err(Refusal::Older));
        if assured {
            assert!(!matches!(assure(&mut tape, B, 108), Offer::Hold | Offer::Apply(_)));
        }
        let (state, resets, gaps) = (tape.guard.state(), tape.guard.counts().resets, tape.guard.counts().gaps);
        assert_eq!((state, resets, gaps, tape.shown.len()), (FeedState::Live, 0, 0, shown));
        assert_eq!(tape.told_all(A, 111), Ok(true), "the other leg's is as good as ever");
        assert_eq!(tape.delta(A, 112, 112), Offer::Apply(Version::new(0, 112)));
        for id in 109..=112 {
            let offer = tape.delta(B, id, id);
            assert!(matches!(offer, Offer::Covered | Offer::Regression | Offer::Duplicate), "{id}: {offer:?}");
        }
        assert_eq!(tape.delta(B, 113, 113), Offer::Apply(Version::new(0, 113)));
        assert_eq!(tape.delta(A, 114, 114), Offer::Apply(Version::new(0, 114)));
        tape.after(60_000);
        assert_eq!((tape.guard.state(), tape.guard.counts().resets, tape.guard.counts().gaps), (FeedState::Live, 0, 0));
    }
}

#[test]
fn an_assurance_below_the_shown_version_restarts_nothing_by_itself() {
    let mut tape = both_at_111(111);
    assert!(!matches!(assure(&mut tape, B, 108), Offer::Hold | Offer::Apply(_)));
    assert_eq!((tape.guard.state(), tape.guard.counts().resets), (FeedState::Live, 0));
    // The word did not hide what an update then tells.
    assert_eq!(tape.delta(B, 5, 5), Offer::Hold);
    assert_eq!((tape.guard.state(), tape.guard.counts().resets), (FeedState::Gapped, 1));
    // A word of the present count does not hide it either.
    let mut tape = both_at_111(111);
    assert_eq!(assure(&mut tape, LegId(2), 111), Offer::Duplicate);
    assert_eq!(tape.delta(LegId(2), 5, 5), Offer::Hold);
    assert_eq!(tape.guard.counts().resets, 1);
}

#[test]
fn ids_that_restart_below_an_older_snapshot_are_noticed_at_once() {
    let mut tape = both_at_111(110);
    assert_eq!(tape.told_all(B, 108), Err(Refusal::Older));
    assert_eq!(tape.delta(B, 109, 109), Offer::Regression);
    assert_eq!(tape.delta(B, 5, 5), Offer::Hold);
    assert_eq!((tape.guard.state(), tape.guard.counts().resets), (FeedState::Gapped, 1));
    assert_eq!(tape.snapshot(4), Ok(true));
    assert_eq!(tape.shown.last(), Some(&Version::new(1, 5)));
}

#[test]
fn a_stream_whose_own_snapshot_restarts_the_ids_opens_an_epoch_after_a_while() {
    let mut tape = live_at(26_941_144);
    assert_eq!(tape.told_all(A, 1), Err(Refusal::Older));
    let mut id = 2;
    while tape.guard.counts().resets == 0 {
        assert!(tape.now_ns <= 10_500 * MS, "never noticed");
        tape.delta(A, id, id);
        id += 1;
        tape.after(500);
        assert_eq!(tape.guard.state() == FeedState::Live, tape.now_ns <= 2_000 * MS, "gapped once it is in doubt");
    }
    assert!(tape.now_ns >= 10_000 * MS);
    assert_eq!(tape.told_all(A, id - 2), Ok(true));
    assert_eq!(tape.shown.last(), Some(&Version::new(1, id - 1)));
}

#[test]
fn assurances_that_wait_refuse_no_snapshot_of_the_shown_count() {
    let mut tape = live_at(100);
    assert_eq!(tape.delta(A, 5, 5), Offer::Hold);
    assert_eq!(tape.snapshot(103), Err(Refusal::Older), "the update saw a restart");
    // A broken book gives up what it held; the assurance that comes then saw nothing.
    tape.guard.broken(tape.now_ns);
    assert_eq!(assure(&mut tape, A, 5), Offer::Hold);
    assert_eq!(tape.snapshot(103), Ok(false));
    tape.after(250);
    assert_eq!((tape.guard.state(), tape.guard.version()), (FeedState::Live, Some(Version::new(0, 103))));
}
