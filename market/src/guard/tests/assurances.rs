//! Assurances, chains whose ids jump, and two legs that each lose something: what one leg says about the end of the chain
//! is never applied, hides nothing, and shows what is missing.
//!
//! Never: a wall clock.

use super::*;

/// The word of a leg that there is no update after an id.
fn assure(tape: &mut Tape, leg: LegId, last: u64) -> Offer {
    tape.delta(leg, last + 1, last)
}

#[test]
fn an_assurance_at_the_shown_version_changes_nothing() {
    let mut tape = live_at(100);
    for leg in [A, B, A] {
        assert_eq!(assure(&mut tape, leg, 100), Offer::Duplicate);
    }
    tape.after(60_000);
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![99, 100]));
    assert_eq!(tape.guard.counts(), Counts::default());
    assert_eq!(tape.delta(A, 101, 101), Offer::Apply(Version::new(0, 101)));
}

#[test]
fn an_assurance_reveals_that_the_last_update_is_lost() {
    let mut tape = live_at(100);
    assert_eq!(assure(&mut tape, A, 105), Offer::Hold);
    assert_eq!(assure(&mut tape, B, 105), Offer::Duplicate, "held once");
    tape.after(249);
    assert_eq!(tape.guard.state(), FeedState::Live);
    tape.after(1);
    assert_eq!((tape.guard.state(), tape.guard.counts().gaps), (FeedState::Gapped, 1));
    assert_eq!(tape.seqs(), [99, 100]);
    assert!(tape.guard.wants_snapshot(tape.now_ns));
    assert_eq!(tape.snapshot(104), Err(Refusal::Unbridged), "it lacks what the assurance tells of");
    assert_eq!(tape.snapshot(105), Ok(false));
    tape.after(250);
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![99, 100, 105]));
}

#[test]
fn the_other_leg_brings_what_an_assurance_tells_of() {
    let mut tape = live_at(100);
    assure(&mut tape, A, 105);
    tape.after(200);
    assert_eq!(tape.delta(B, 101, 105), Offer::Apply(Version::new(0, 105)));
    tape.after(1_000);
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![99, 100, 105]));
    assert_eq!((tape.guard.counts(), tape.guard.held_bytes()), (Counts::default(), 0));
}

#[test]
fn an_update_that_ends_where_an_assurance_is_held_is_not_taken_for_it() {
    let mut tape = Tape::new();
    assert_eq!(assure(&mut tape, A, 105), Offer::Hold);
    assert_eq!(tape.delta(B, 101, 105), Offer::Hold);
    assert_eq!(tape.snapshot(100), Ok(true));
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![100, 105]));
    assert_eq!(tape.guard.held_bytes(), 0);
}

#[test]
fn a_wider_update_that_ends_alike_fills_the_hole_that_a_narrow_one_leaves() {
    let mut tape = live_at(100);
    assert_eq!(tape.delta(A, 103, 105), Offer::Hold);
    assert_eq!(tape.delta(B, 102, 105), Offer::Hold);
    assert_eq!(tape.delta(B, 101, 101), Offer::Apply(Version::new(0, 101)));
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![99, 100, 101, 105]));
}

#[test]
fn an_assurance_against_a_snapshot_aside() {
    let mut tape = Tape::new();
    assert_eq!(tape.snapshot(100), Ok(false));
    assert_eq!(assure(&mut tape, A, 99), Offer::Covered);
    assert_eq!(assure(&mut tape, A, 101), Offer::Hold);
    tape.after(300);
    assert_eq!((tape.guard.state(), tape.shown.len()), (FeedState::Syncing, 0), "101 is missing in it");
    assert_eq!(tape.snapshot(101), Ok(false));
    tape.after(250);
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![101]));
}

#[test]
fn an_assurance_proves_a_book_after_a_time_without_legs() {
    let mut tape = live_at(100);
    tape.guard.leg_down(A);
    tape.guard.interrupt(tape.now_ns);
    tape.after(5_000);
    tape.guard.leg_up(tape.now_ns, A);
    assert_eq!(tape.guard.state(), FeedState::Gapped);
    assert_eq!(assure(&mut tape, A, 100), Offer::Duplicate);
    assert_eq!((tape.guard.state(), tape.guard.version()), (FeedState::Live, Some(Version::new(0, 100))));
    tape.after(60_000);
    assert!(!tape.guard.wants_snapshot(tape.now_ns), "nothing is missing");
}

#[test]
fn an_assurance_does_not_make_a_kept_or_broken_book_live() {
    let mut kept = Tape::new();
    kept.guard.restore(0, Version::new(3, 100), false);
    kept.content = Some(100);
    assert_eq!(assure(&mut kept, A, 100), Offer::Duplicate);
    assert_eq!(kept.guard.state(), FeedState::Syncing);
    assert_eq!(assure(&mut kept, A, 102), Offer::Hold);
    assert_eq!(kept.snapshot(101), Err(Refusal::Unbridged));
    assert_eq!(kept.snapshot(102), Ok(false));
    kept.after(250);
    assert_eq!(kept.shown.last(), Some(&Version::new(3, 102)));

    let mut broken = live_at(100);
    broken.guard.broken(broken.now_ns);
    assert_eq!(assure(&mut broken, A, 100), Offer::Duplicate);
    assert_eq!(broken.guard.state(), FeedState::Gapped);
}

#[test]
fn assurances_of_a_quiet_venue_that_restarted_its_ids_lead_to_a_new_epoch() {
    let mut tape = live_at(1_000);
    tape.guard.leg_down(A);
    tape.guard.interrupt(tape.now_ns);
    tape.guard.leg_up(tape.now_ns, A);
    for _ in 0..100 {
        assert_eq!(assure(&mut tape, A, 50), Offer::Duplicate);
        tape.after(100);
    }
    assert_eq!(tape.guard.counts().resets, 0);
    assert_eq!(assure(&mut tape, A, 50), Offer::Hold);
    assert_eq!((tape.guard.state(), tape.guard.counts().resets), (FeedState::Gapped, 1));
    assert_eq!(tape.snapshot(50), Ok(false));
    tape.after(250);
    assert_eq!(tape.shown.last(), Some(&Version::new(1, 50)));
}

#[test]
fn after_a_bump_an_assurance_binds_its_leg_at_the_shown_version_alone() {
    let mut tape = live_at(26_941_144);
    tape.delta(B, 26_941_145, 26_941_145);
    tape.delta(A, 86, 86);
    assert_eq!(tape.snapshot(85), Ok(true));
    assert_eq!(tape.shown.last(), Some(&Version::new(1, 86)));
    assert_eq!(assure(&mut tape, B, 26_941_145), Offer::Unbound, "of the former count");
    assert_eq!(assure(&mut tape, LegId(2), 86), Offer::Duplicate);
    assert_eq!(tape.delta(LegId(2), 87, 87), Offer::Apply(Version::new(1, 87)));
    assert_eq!(tape.delta(A, 88, 88), Offer::Apply(Version::new(1, 88)));
    assert_eq!(tape.guard.state(), FeedState::Live);
}

#[test]
fn a_second_hole_has_its_own_time() {
    let mut tape = live_at(100);
    tape.delta(A, 102, 102);
    tape.after(240);
    tape.delta(A, 104, 104);
    assert_eq!(tape.delta(B, 101, 101), Offer::Apply(Version::new(0, 101)));
    tape.after(249);
    assert_eq!((tape.guard.state(), tape.guard.version()), (FeedState::Live, Some(Version::new(0, 102))));
    tape.after(1);
    assert_eq!((tape.guard.state(), tape.guard.counts().gaps), (FeedState::Gapped, 1));
}

#[test]
fn a_leg_that_leaves_ids_out_is_told_although_the_other_fills_the_hole() {
    let mut tape = live_at(100);
    let mut skipped = |leg, first, last| {
        tape.delta(leg, first, last);
        tape.guard.skipped()
    };
    assert!(!skipped(B, 105, 105), "where a leg begins says nothing");
    assert!(!skipped(A, 101, 101));
    assert!(skipped(A, 104, 104));
    assert!(!skipped(B, 106, 105));
    assert!(!skipped(A, 102, 103), "what comes late leaves nothing out");
    assert!(skipped(A, 107, 106), "an assurance tells it too");
    assert!(!skipped(A, 107, 107));
    tape.guard.leg_told_all(A, Sequence::Venue { first: 120, last: 120 });
    tape.delta(A, 121, 121);
    assert!(!tape.guard.skipped(), "a whole book leaves nothing out");
}

/// What a leg says, in its order.
#[derive(Clone, Copy, Debug)]
struct Said {
    first: u64,
    last: u64,
}

/// A chain: each update begins after the one before it and its id may jump.
fn chain(jumps: &[u64]) -> Vec<Said> {
    let mut last = 100;
    let next = |jump: &u64| {
        let first = last + 1;
        last += jump;
        Said { first, last }
    };
    jumps.iter().map(next).collect()
}

/// What a leg says of the chain: everything but what it loses, and assurances in between. Also how often it leaves
/// something out, as the leg itself tells.
fn told(chain: &[Said], lost: &[bool], assured: &[bool]) -> (Vec<Said>, usize) {
    let (mut said, mut holes, mut begun, mut missing) = (Vec::new(), 0, false, false);
    for ((update, lost), assured) in chain.iter().zip(lost).zip(assured) {
        missing |= *lost && begun;
        if !lost {
            holes += usize::from(std::mem::take(&mut missing));
            begun = true;
            said.push(*update);
        }
        if *assured {
            holes += usize::from(std::mem::take(&mut missing));
            begun = true;
            said.push(Said { first: update.last + 1, last: update.last });
        }
    }
    (said, holes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    /// In whatever order two legs come in, each with losses of its own: what is shown is the chain up to the first update
    /// that both lost, each update once; a gap is told after its time if and only if something tells of one that is missing.
    #[test]
    fn the_order_of_arrival_of_two_legs_does_not_matter(
        jumps in prop::collection::vec(prop_oneof![2 => Just(1_u64), 1 => 2_u64..5_000], 30),
        lost in prop::array::uniform2(prop::collection::vec(prop::bool::weighted(0.2), 30)),
        assured in prop::array::uniform2(prop::collection::vec(prop::bool::weighted(0.1), 30)),
        order in prop::collection::vec(any::<bool>(), 200),
    ) {
        let chain = chain(&jumps);
        let legs = [0, 1].map(|leg| told(&chain, &lost[leg], &assured[leg]));
        let mut tape = Tape::new();
        tape.delta(LegId(9), 100, 100);
        tape.snapshot(99).unwrap();
        let mut at = [0, 0];
        let mut holes = [0, 0];
        let mut order = order.into_iter();
        while at[0] < legs[0].0.len() || at[1] < legs[1].0.len() {
            let wish = usize::from(order.next().unwrap_or(true));
            let leg = if at[wish] < legs[wish].0.len() { wish } else { 1 - wish };
            let said = legs[leg].0[at[leg]];
            at[leg] += 1;
            tape.delta([A, B][leg], said.first, said.last);
            holes[leg] += usize::from(tape.guard.skipped());
        }
        prop_assert_eq!(holes, [legs[0].1, legs[1].1], "holes of the legs themselves");
        let both = chain.iter().enumerate().position(|(at, _)| lost[0][at] && lost[1][at]);
        let whole = &chain[..both.unwrap_or(chain.len())];
        let mut right = vec![99, 100];
        right.extend(whole.iter().map(|update| update.last));
        prop_assert_eq!(tape.seqs(), right);
        let shown = *tape.seqs().last().unwrap();
        let known = legs.iter().flat_map(|(said, _)| said).map(|said| said.last).max().unwrap_or(100);
        prop_assert_eq!(tape.guard.state(), FeedState::Live, "not before its time");
        tape.after(250);
        let state = if known > shown { FeedState::Gapped } else { FeedState::Live };
        prop_assert_eq!(tape.guard.state(), state);
        prop_assert_eq!(tape.guard.counts().gaps, u64::from(known > shown));
        if known > shown {
            // A snapshot of what the legs know of heals it, whatever is held.
            let _waits = tape.snapshot(known).unwrap();
            tape.after(250);
            prop_assert_eq!((tape.guard.state(), tape.content), (FeedState::Live, Some(known)));
            prop_assert_eq!(tape.guard.held_bytes(), 0);
        }
    }
}
