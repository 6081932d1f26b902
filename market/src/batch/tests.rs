//! Tables of single situations, then any order of any batches against a stream that knows the truth.
//!
//! Never: a batch delivered that does not join.

mod random;

use super::{loss::LOSSES_MAX, *};

fn block(height: u64, previous: u64) -> BatchName {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&height.to_le_bytes());
    BatchName { height, previous, kind: BatchKind::Block, id: BatchId(id) }
}

fn snapshot(height: u64) -> BatchName {
    BatchName { kind: BatchKind::Snapshot, ..block(height, height) }
}

/// Another batch at the same height.
fn other(name: BatchName) -> BatchName {
    BatchName { id: BatchId([0xff; 32]), ..name }
}

fn drain(guard: &mut BatchGuard) -> Vec<u64> {
    let mut heights = Vec::new();
    while let Some(name) = guard.next() {
        guard.delivered(name);
        heights.push(name.height);
    }
    heights
}

/// A stream that goes on behind a height, with names offered that it keeps.
fn keeping(position: u64, names: &[BatchName]) -> BatchGuard {
    let mut guard = BatchGuard::new(position, true);
    for name in names {
        assert_eq!(guard.offer(*name), BatchOffer::Keep, "{name:?}");
    }
    guard
}

fn hole(after: u64, through: u64) -> Hole {
    Hole { after, through }
}

fn loss(after: u64, through: u64, healed: bool) -> Loss {
    Loss { hole: hole(after, through), healed, late: BTreeMap::new() }
}

/// A stream at 7 that went on without what is above 1 up to 3.
fn lossy() -> BatchGuard {
    let mut guard = keeping(1, &[block(5, 3), block(6, 5), block(7, 6)]);
    guard.accept(hole(1, 3)).unwrap();
    assert_eq!(drain(&mut guard), [5, 6, 7]);
    guard
}

#[test]
fn a_hole_holds_back_and_its_filling_lets_go() {
    let mut guard = BatchGuard::new(0, false);
    assert_eq!(guard.offer(block(1, 0)), BatchOffer::Keep);
    assert_eq!(guard.offer(block(5, 3)), BatchOffer::Keep);
    assert_eq!(drain(&mut guard), [1]);
    assert_eq!(guard.hole(), Some(hole(1, 3)));
    assert_eq!(guard.offer(block(3, 1)), BatchOffer::Keep);
    assert_eq!(drain(&mut guard), [3, 5]);
    assert_eq!((guard.hole(), guard.offer(block(3, 1))), (None, BatchOffer::Duplicate));
}

#[test]
fn a_place_is_height_and_ordinal_and_neither_wraps() {
    assert_eq!(place_of(2, 3), Some((2 << 30) + 3));
    assert_eq!((place_of(HEIGHT_MAX, ORDINAL_MAX), place_of(HEIGHT_MAX + 1, 0)), (Some(u64::MAX), None));
    assert_eq!((place_of(1, ORDINAL_MAX + 1), end_of(1)), (None, (1 << 31) - 1));
    assert_eq!((height_of(end_of(7)), ordinal_of(end_of(7))), (7, ORDINAL_MAX));
}

#[test]
fn omitted_heights_are_no_hole_and_a_batch_at_one_contradicts() {
    let mut guard = keeping(1, &[block(9, 4), block(4, 1)]);
    assert_eq!(drain(&mut guard), [4, 9]);
    assert_eq!((guard.hole(), guard.offer(block(6, 4))), (None, BatchOffer::Old));
}

/// It lacks nothing: whatever is between was delivered.
#[test]
fn a_batch_that_names_one_before_the_last_delivered_joins() {
    let mut guard = keeping(5, &[block(8, 3)]);
    assert_eq!((guard.hole(), drain(&mut guard)), (None, vec![8]));
}

#[test]
fn another_batch_at_a_known_height_is_told_wherever_the_known_one_is() {
    let mut guard = lossy();
    guard.offer(block(2, 1));
    guard.offer(block(12, 11));
    guard.offer(snapshot(11));
    // Waiting, recent, late of a loss, waiting snapshot.
    for known in [block(12, 11), block(6, 5), block(2, 1), snapshot(11)] {
        assert_eq!(guard.offer(known), BatchOffer::Duplicate);
        assert_eq!(guard.offer(other(known)), BatchOffer::Conflict { known: known.id });
    }
    // Of a loss that a snapshot has passed: what waited, and what comes later.
    let mut passed = keeping(1, &[block(5, 4), snapshot(6)]);
    assert_eq!(passed.next(), Some(snapshot(6)));
    assert_eq!(passed.delivered(snapshot(6)), [block(5, 4)]);
    assert_eq!(passed.offer(block(3, 1)), BatchOffer::Passed);
    for known in [block(5, 4), block(3, 1)] {
        assert_eq!(passed.offer(known), BatchOffer::Duplicate);
        assert_eq!(passed.offer(other(known)), BatchOffer::Conflict { known: known.id });
    }
}

#[test]
fn what_is_older_than_what_is_remembered_is_left_to_the_log() {
    let mut guard = BatchGuard::new(0, true);
    let last = u64::try_from(RECENT_MAX).unwrap() + 10;
    for height in 1..=last {
        guard.offer(block(height, height - 1));
        assert_eq!(drain(&mut guard), [height]);
    }
    assert_eq!((guard.offer(block(11, 10)), guard.offer(block(10, 9))), (BatchOffer::Duplicate, BatchOffer::Old));
}

#[test]
fn a_snapshot_is_delivered_only_where_something_needs_it() {
    // Nothing is missing: it waits for nothing, and is forgotten as the stream passes it.
    let mut guard = keeping(1, &[snapshot(2), snapshot(5), block(2, 1), block(3, 2)]);
    assert_eq!((drain(&mut guard), guard.waiting()), (vec![2, 3], 1));
    assert_eq!([1, 2, 3].map(|height| guard.offer(snapshot(height))), [BatchOffer::Outdated; 3]);
    // A hole: the greatest one leads over it, and what waits up to it is passed.
    let mut guard = keeping(1, &[block(3, 2), block(4, 3), block(6, 4), snapshot(2), snapshot(4)]);
    assert_eq!(guard.next(), Some(snapshot(4)));
    assert_eq!(guard.delivered(snapshot(4)), [block(3, 2), block(4, 3)]);
    assert_eq!((drain(&mut guard), guard.position(), guard.waiting()), (vec![6], 6, 0));
    assert!(!guard.is_lossy() && guard.losses() == [loss_of(1, 4, &[block(3, 2), block(4, 3)])]);
    // Inside the hole it brings the stream forward, and the rest of the hole stays.
    let mut guard = keeping(1, &[block(9, 8), snapshot(4)]);
    assert_eq!((drain(&mut guard), guard.hole()), (vec![4], Some(hole(4, 8))));
}

fn loss_of(after: u64, through: u64, late: &[BatchName]) -> Loss {
    let late = late.iter().map(|name| (name.height, *name)).collect();
    Loss { late, ..loss(after, through, true) }
}

#[test]
fn a_fresh_stream_begins_with_a_snapshot_where_there_is_one() {
    let mut guard = BatchGuard::new(0, false);
    for name in [block(7, 6), block(8, 7), snapshot(7), snapshot(3)] {
        guard.offer(name);
    }
    assert_eq!(drain(&mut guard), [7, 8], "the snapshot, then the block above it");
    assert_eq!(guard.offer(block(7, 6)), BatchOffer::Duplicate, "it waited, and was passed");
    let mut blocks = BatchGuard::new(6, false);
    blocks.offer(block(7, 6));
    assert_eq!(drain(&mut blocks), [7]);
    blocks.offer(snapshot(9));
    assert_eq!(drain(&mut blocks), [], "it has begun");
}

#[test]
fn a_loss_is_accepted_as_it_is_and_the_next_hole_waits_for_its_own() {
    let mut guard = keeping(1, &[block(5, 3), block(9, 8), block(12, 11)]);
    for wrong in [hole(1, 8), hole(0, 3), hole(5, 8)] {
        assert_eq!(guard.accept(wrong), Err(NotOpen(wrong)));
    }
    guard.accept(hole(1, 3)).unwrap();
    assert_eq!((drain(&mut guard), guard.hole(), guard.is_lossy()), (vec![5], Some(hole(5, 8)), true));
    guard.accept(hole(5, 8)).unwrap();
    assert_eq!((drain(&mut guard), guard.hole()), (vec![9], Some(hole(9, 11))));
    assert_eq!(guard.accept(hole(1, 3)), Err(NotOpen(hole(1, 3))), "twice");
    assert_eq!(guard.position(), 9);
}

#[test]
fn an_accepted_loss_is_complete_once_every_batch_of_it_came_in_whatever_order() {
    let missing = [block(2, 1), block(3, 2), block(6, 3)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut guard = keeping(1, &[block(7, 6)]);
        guard.accept(hole(1, 6)).unwrap();
        assert_eq!(drain(&mut guard), [7]);
        for at in order {
            assert_eq!(guard.rebuild(), None, "{order:?}");
            assert_eq!(guard.offer(missing[at]), BatchOffer::Late);
        }
        assert_eq!(guard.rebuild(), Some(Rebuild::From(1)));
        assert_eq!(guard.rebuilt(Rebuild::From(1)), [hole(1, 6)]);
        assert_eq!((guard.rebuild(), guard.is_lossy(), guard.position()), (None, false, 7));
        assert_eq!(guard.offer(block(4, 3)), BatchOffer::Passed, "of a healed loss it shows nothing");
    }
}

#[test]
fn two_losses_heal_out_of_order_and_each_only_by_its_own_batches() {
    let mut guard = keeping(1, &[block(5, 3), block(9, 8)]);
    guard.accept(hole(1, 3)).unwrap();
    drain(&mut guard);
    guard.accept(hole(5, 8)).unwrap();
    drain(&mut guard);
    guard.offer(block(8, 5));
    assert_eq!(guard.rebuild(), Some(Rebuild::From(5)));
    // The other one completes while the stream is being rebuilt: that may not have seen it.
    guard.offer(block(3, 1));
    assert_eq!(guard.rebuilt(Rebuild::From(5)), [hole(5, 8)]);
    assert_eq!((guard.is_lossy(), guard.rebuild()), (true, Some(Rebuild::From(1))));
    assert_eq!(guard.rebuilt(Rebuild::From(1)), [hole(1, 3)]);
    assert!(!guard.is_lossy() && guard.rebuild().is_none());
}

#[test]
fn a_snapshot_heals_the_losses_before_it_and_no_other() {
    let mut guard = lossy();
    assert_eq!(guard.offer(snapshot(2)), BatchOffer::Outdated, "older than the end of the loss");
    assert_eq!(guard.offer(snapshot(4)), BatchOffer::Heals);
    assert_eq!(guard.offer(snapshot(4)), BatchOffer::Duplicate);
    assert_eq!(guard.offer(other(snapshot(4))), BatchOffer::Conflict { known: snapshot(4).id });
    assert_eq!((guard.offer(snapshot(3)), guard.offer(snapshot(5))), (BatchOffer::Outdated, BatchOffer::Heals));
    assert_eq!(guard.rebuild(), Some(Rebuild::Snapshot(snapshot(5))));
    assert_eq!(guard.rebuilt(Rebuild::Snapshot(snapshot(5))), [hole(1, 3)]);
    assert_eq!((guard.rebuild(), guard.is_lossy(), guard.offer(snapshot(6))), (None, false, BatchOffer::Outdated));
}

/// What waits takes precedence of nothing: blocks up to the snapshot, then it, then the rest.
#[test]
fn a_lossy_stream_takes_a_snapshot_in_its_place_among_blocks_also_at_the_height_of_one() {
    for at in [8, 9] {
        let mut guard = lossy();
        for name in [block(8, 7), block(10, 8), snapshot(at), snapshot(20)] {
            guard.offer(name);
        }
        assert_eq!(drain(&mut guard), [8, at, 10], "then nothing is lost any longer");
        assert!(!guard.is_lossy());
    }
    let mut guard = lossy();
    guard.offer(snapshot(8));
    guard.offer(block(8, 7));
    assert_eq!(drain(&mut guard), [8, 8], "although no block follows");
    assert_eq!((guard.is_lossy(), guard.position()), (false, 8));
}

#[test]
fn a_refused_batch_may_come_again_and_holds_back_until_then() {
    let mut guard = keeping(1, &[block(2, 1), block(3, 2)]);
    guard.refused(block(2, 1));
    assert_eq!((guard.next(), guard.hole()), (None, Some(hole(1, 2))));
    guard.refused(other(block(3, 2)));
    assert_eq!(guard.offer(block(2, 1)), BatchOffer::Keep);
    assert_eq!(drain(&mut guard), [2, 3]);
    let mut guard = lossy();
    for name in [block(2, 1), block(3, 2)] {
        assert_eq!(guard.offer(name), BatchOffer::Late);
    }
    guard.refused(block(3, 2));
    assert_eq!((guard.rebuild(), guard.offer(block(3, 2))), (None, BatchOffer::Late));
    guard.offer(snapshot(4));
    guard.refused(snapshot(4));
    assert_eq!(guard.rebuild(), Some(Rebuild::From(1)));
}

#[test]
fn a_full_guard_refuses_but_for_the_batch_that_comes_next() {
    let mut guard = BatchGuard::new(0, true);
    let (first, count) = (10, u64::try_from(WAITING_MAX).unwrap());
    for height in first..first + count {
        guard.offer(block(height, height - 1));
    }
    let beyond = block(first + count, first + count - 1);
    assert_eq!((guard.waiting(), guard.offer(beyond)), (WAITING_MAX, BatchOffer::Full));
    assert_eq!(guard.offer(block(9, 5)), BatchOffer::Full, "it fills the hole in part only");
    assert_eq!((guard.offer(block(5, 0)), guard.offer(block(4, 0))), (BatchOffer::Keep, BatchOffer::Full));
    guard.delivered(guard.next().unwrap());
    assert_eq!(guard.offer(block(9, 5)), BatchOffer::Keep);
    guard.delivered(block(9, 5));
    guard.delivered(block(10, 9));
    assert_eq!(guard.offer(beyond), BatchOffer::Keep);
    assert_eq!(guard.waiting(), WAITING_MAX);
    // Of so many that a snapshot passes, the names are forgotten when others need the room.
    guard.refused(block(11, 10));
    guard.offer(snapshot(first + count - 1));
    assert_eq!(drain(&mut guard), [first + count - 1, first + count]);
    assert_eq!(guard.offer(block(11, 10)), BatchOffer::Passed);
    assert!(guard.losses().iter().map(|loss| loss.late.len()).sum::<usize>() <= WAITING_MAX);
}

#[test]
fn snapshots_and_losses_are_bounded() {
    let mut guard = BatchGuard::new(0, true);
    let most = u64::try_from(SNAPSHOTS_MAX).unwrap();
    for height in 1..=most + 5 {
        assert_eq!(guard.offer(snapshot(height)), BatchOffer::Keep);
    }
    assert_eq!((guard.waiting(), guard.snapshots.first_key_value().map(|(at, _)| *at)), (SNAPSHOTS_MAX, Some(6)));
    // Healed ones give way, the oldest first; the others never do.
    let mut guard = BatchGuard::new(0, true);
    let mut accepted = 0;
    for at in 0..u64::try_from(LOSSES_MAX).unwrap() + 10 {
        let (after, height) = (at * 10, at * 10 + 10);
        assert_eq!(guard.offer(block(height, after + 5)), BatchOffer::Keep);
        match guard.accept(hole(after, after + 5)) {
            Ok(()) => accepted += 1,
            Err(_) => break,
        }
        assert_eq!(drain(&mut guard), [height]);
    }
    assert_eq!((accepted, guard.losses().len()), (LOSSES_MAX, LOSSES_MAX), "no further one is accepted");
    assert_eq!(guard.offer(block(5, 0)), BatchOffer::Late);
    guard.rebuilt(Rebuild::From(0));
    let open = guard.hole().unwrap();
    guard.accept(open).unwrap();
    assert_eq!(guard.losses().len(), LOSSES_MAX);
    assert_eq!((guard.losses()[0].hole, guard.offer(block(5, 0))), (hole(10, 15), BatchOffer::Old));
}

#[test]
fn a_restart_below_an_accepted_loss_waits_for_nothing_in_it_and_uses_what_the_log_has() {
    // Accepted above 1 and above 5; the cursor stood at 1, and 3 has come late.
    let losses = vec![loss(5, 8, false), loss(1, 4, false), loss(20, 30, true)];
    let mut guard = BatchGuard::new(1, true).with_losses(losses);
    for name in [block(9, 8), block(3, 2), block(5, 4), block(12, 11)] {
        assert_eq!(guard.offer(name), BatchOffer::Keep);
    }
    assert_eq!((drain(&mut guard), guard.hole()), (vec![3, 5, 9], Some(hole(9, 11))));
    assert_eq!((guard.offer(block(2, 1)), guard.rebuild()), (BatchOffer::Late, None));
    assert_eq!((guard.offer(block(4, 3)), guard.rebuild()), (BatchOffer::Late, Some(Rebuild::From(1))));
    assert_eq!(guard.rebuilt(Rebuild::From(1)), [hole(1, 4)]);
    assert_eq!((guard.losses().len(), guard.is_lossy()), (2, true));
}

/// Everything before it was accepted as lost, and nothing was durable when it was killed.
#[test]
fn a_snapshot_within_a_loss_passes_what_waits_and_the_loss_learns_of_it() {
    let mut guard = BatchGuard::new(0, false).with_losses(vec![loss(0, 8, false)]);
    for name in [block(3, 0), block(9, 8), snapshot(4)] {
        guard.offer(name);
    }
    assert_eq!(drain(&mut guard), [4, 9]);
    assert_eq!((guard.is_lossy(), guard.rebuild()), (true, None));
    assert_eq!((guard.offer(block(3, 0)), guard.offer(block(8, 3))), (BatchOffer::Duplicate, BatchOffer::Late));
    assert_eq!(guard.rebuild(), Some(Rebuild::From(0)));
    assert_eq!(guard.rebuilt(Rebuild::From(0)), [hole(0, 8)]);
}
