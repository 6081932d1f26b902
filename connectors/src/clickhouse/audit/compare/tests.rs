//! Comparisons as tables, and against a model that knows which rows were tampered with.
//!
//! Never: a store.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SCALE: Scale = Scale { price: -2, quantity: -8 };
const COARSE: Scale = Scale { price: -1, quantity: -8 };

fn bid(tick_index: i64) -> TickName {
    TickName { side: Side::Bid, key: StoredKey::at(tick_index) }
}

fn at(seq: u64) -> Version {
    Version::new(1, seq)
}

fn book(seq: u64, ticks: &[(TickName, u64)]) -> LiveTicks {
    let ticks = ticks.iter().map(|(name, reserves)| (name.clone(), U256::from(*reserves))).collect();
    LiveTicks { version: at(seq), scale: SCALE, ticks }
}

fn row(reserves: u64, seq: u64) -> StateTick {
    StateTick { reserves: U256::from(reserves), version: at(seq), scale: SCALE }
}

fn read(live: &[(TickName, StateTick)], newer: &[(TickName, u64)]) -> StateRead {
    let newer = newer.iter().map(|(name, seq)| (name.clone(), at(*seq)));
    StateRead { live: live.iter().cloned().collect(), newer: newer.collect() }
}

/// Compared, skipped, and the suspects by kind and price.
fn short(comparison: &Comparison) -> (u64, u64, Vec<(Kind, i64)>) {
    let suspects = comparison.suspects.iter().map(|suspect| (suspect.kind, suspect.name.key.tick_index));
    (comparison.compared, comparison.skipped, suspects.collect())
}

#[test]
fn every_way_to_differ_has_its_kind() {
    let live = book(10, &[(bid(1), 5), (bid(2), 6), (bid(3), 7), (bid(4), 8)]);
    let coarse = StateTick { scale: COARSE, ..row(8, 3) };
    let rows = [(bid(1), row(5, 10)), (bid(2), row(9, 4)), (bid(4), coarse), (bid(5), row(1, 2))];
    let comparison = compare(&live, &read(&rows, &[(bid(6), 99)]), Some(at(12)));
    let right = [(Kind::Changed, 2), (Kind::Missing, 3), (Kind::Changed, 4), (Kind::Phantom, 5), (Kind::Ahead, 6)];
    assert_eq!(short(&comparison), (6, 0, right.to_vec()));
    let of = |at: usize| (comparison.suspects[at].live, comparison.suspects[at].state);
    assert_eq!(of(0), (U256::from(6_u64), Some(row(9, 4))));
    assert_eq!(of(1), (U256::from(7_u64), None));
    assert_eq!(of(3), (U256::ZERO, Some(row(1, 2))));
    assert_eq!(of(4).1.map(|row| row.version), Some(at(99)));
}

#[test]
fn what_changed_since_the_copy_is_left_out_and_ahead_is_only_what_nobody_had() {
    let live = book(10, &[(bid(1), 5), (bid(2), 6)]);
    // One died since, one was born since, one changed since, whatever the first read still saw of them.
    let state = read(&[(bid(1), row(5, 3)), (bid(2), row(7, 11))], &[(bid(1), 12), (bid(2), 11), (bid(3), 12)]);
    assert_eq!(short(&compare(&live, &state, Some(at(12)))), (0, 3, vec![]));
    assert_eq!(short(&compare(&live, &state, None)), (0, 3, vec![]), "without a later version nothing is ahead");
    let ahead = [(Kind::Ahead, 1), (Kind::Ahead, 3)];
    assert_eq!(short(&compare(&live, &state, Some(at(11)))), (2, 1, ahead.to_vec()));
    // The first read alone saw a newer row, which was replaced by a live one before the second read.
    let state = read(&[(bid(1), row(5, 3)), (bid(2), row(7, 11)), (bid(4), row(7, 11))], &[]);
    assert_eq!(short(&compare(&live, &state, Some(at(12)))), (1, 2, vec![]));
}

#[test]
fn side_fee_and_tranche_name_a_tick_and_an_old_scale_is_another_row_or_a_changed_one() {
    let pool = |fee| TickName { side: Side::Ask, key: StoredKey { fee, ..StoredKey::at(1) } };
    let order =
        |name: &str| TickName { side: Side::Ask, key: StoredKey { tranche: Some(name.into()), ..StoredKey::at(1) } };
    let live = book(10, &[(bid(1), 1), (pool(0), 1), (pool(5), 1), (order("a"), 1)]);
    let all = [(bid(1), row(1, 1)), (pool(0), row(1, 1)), (pool(5), row(1, 1)), (order("a"), row(1, 1))];
    assert_eq!(short(&compare(&live, &read(&all, &[]), None)), (4, 0, vec![]));
    let others = [(bid(1), row(1, 1)), (pool(0), row(1, 1)), (pool(6), row(1, 1)), (order("b"), row(1, 1))];
    let comparison = compare(&live, &read(&others, &[]), None);
    let kinds: Vec<_> = comparison.suspects.iter().map(|suspect| suspect.kind).collect();
    assert_eq!(comparison.compared, 6);
    assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Missing).count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Phantom).count(), 2);
    // A price in coarser steps that nobody buried is a phantom.
    let old = [(bid(10), row(1, 5)), (bid(1), StateTick { scale: COARSE, ..row(1, 1) })];
    assert_eq!(short(&compare(&book(10, &[(bid(10), 1)]), &read(&old, &[]), None)), (2, 0, vec![(Kind::Phantom, 1)]));
}

#[test]
fn nothing_on_either_side_is_nothing() {
    assert_eq!(compare(&book(1, &[]), &StateRead::default(), None), Comparison::default());
    let live = book(1, &[(bid(1), 1)]);
    assert_eq!(short(&compare(&live, &StateRead::default(), None)), (1, 0, vec![(Kind::Missing, 1)]));
}

/// What is done to one row of a right `tick_state`.
#[derive(Clone, Copy, Debug)]
enum Tampered {
    Not,
    Reserves,
    Deleted,
    Invented,
    /// The tick changed later, and the store has it.
    Later,
    /// A row of a version that nobody had.
    Ahead,
}

fn tampered() -> impl Strategy<Value = Tampered> {
    prop_oneof![
        4 => Just(Tampered::Not),
        1 => Just(Tampered::Reserves),
        1 => Just(Tampered::Deleted),
        1 => Just(Tampered::Invented),
        2 => Just(Tampered::Later),
        1 => Just(Tampered::Ahead),
    ]
}

proptest! {
    /// Exactly what was tampered with is found, and a right store gives nothing.
    #[test]
    fn what_was_tampered_with_is_found_and_nothing_else(
        ticks in prop::collection::btree_map(0_i64..60, (1_u64..9, 1_u64..100, tampered()), 0..40),
    ) {
        const VERSION: u64 = 100;
        let (mut live, mut rows, mut newer) = (Vec::new(), Vec::new(), Vec::new());
        let mut right = BTreeMap::new();
        let mut later = 0;
        for (price, (reserves, seq, tampered)) in &ticks {
            let name = bid(*price);
            match tampered {
                Tampered::Invented => {
                    rows.push((name, row(*reserves, *seq)));
                    right.insert(*price, Kind::Phantom);
                    continue;
                }
                Tampered::Not => rows.push((name.clone(), row(*reserves, *seq))),
                Tampered::Reserves => {
                    rows.push((name.clone(), row(*reserves + 1, *seq)));
                    right.insert(*price, Kind::Changed);
                }
                Tampered::Deleted => drop(right.insert(*price, Kind::Missing)),
                Tampered::Later => {
                    rows.push((name.clone(), row(*reserves + 3, VERSION + *seq)));
                    newer.push((name.clone(), VERSION + *seq));
                    later += 1;
                }
                Tampered::Ahead => {
                    newer.push((name.clone(), 1_000 + *seq));
                    right.insert(*price, Kind::Ahead);
                }
            }
            live.push((name, *reserves));
        }
        let comparison = compare(&book(VERSION, &live), &read(&rows, &newer), Some(at(2 * VERSION)));
        let found: Vec<_> = right.into_iter().map(|(price, kind)| (kind, price)).collect();
        let all = u64::try_from(ticks.len()).unwrap();
        prop_assert_eq!(short(&comparison), (all - later, later, found));
    }
}
