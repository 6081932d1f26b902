//! Tables of single situations, then any order of any batches against a stream that knows the truth.
//!
//! Never: a batch delivered that does not join.

use super::*;

fn block(height: u64, previous: u64) -> BatchName {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&height.to_le_bytes());
    BatchName { height, previous, kind: BatchKind::Block, id: BatchId(id) }
}

fn drain(guard: &mut BatchGuard) -> Vec<u64> {
    let mut heights = Vec::new();
    while let Some(name) = guard.next() {
        guard.delivered(name);
        heights.push(name.height);
    }
    heights
}

#[test]
fn a_hole_holds_back_and_its_filling_lets_go() {
    let mut guard = BatchGuard::new(0, false);
    assert_eq!(guard.offer(block(1, 0)), BatchOffer::Keep);
    assert_eq!(guard.offer(block(5, 3)), BatchOffer::Keep);
    assert_eq!(drain(&mut guard), [1]);
    assert_eq!(guard.hole(), Some(Hole { after: 1, through: 3 }));
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
