//! Verdicts as a table, and rulings over several audits.
//!
//! Never: a store.

use super::*;
use crate::clickhouse::{audit::compare::StateTick, rows::StoredKey};
use market::Side;

const SCALE: Scale = Scale { price: -2, quantity: -8 };
const COARSE: Scale = Scale { price: -1, quantity: -8 };
const FACTS: Facts = Facts {
    symbol: SymbolId(3),
    scale: SCALE,
    states: [FeedState::Live, FeedState::Live],
    rebuilds: 1,
    others_from: None,
};

fn suspect(kind: Kind, live: u64, seq: u64) -> Suspect {
    let state = StateTick { reserves: U256::from(9_u64), version: Version::new(1, seq), scale: SCALE };
    let name = TickName { side: Side::Bid, key: StoredKey::at(7) };
    Suspect { name, kind, live: U256::from(live), state: (kind != Kind::Missing).then_some(state) }
}

fn history(rows: &[(u64, Scale)]) -> History {
    let rows: Vec<_> = rows.iter().map(|(reserves, scale)| (U256::from(*reserves), *scale)).collect();
    History { last: (!rows.is_empty()).then_some((Version::new(1, 4), rows)), has_row: false }
}

#[test]
fn two_of_three_witnesses_decide_and_without_two_the_live_book_is_in_doubt() {
    use Verdict::{LiveInDoubt, StoreWrong};
    for (kind, live, said, verdict) in [
        (Kind::Changed, 5, &[(5, SCALE)][..], StoreWrong),
        (Kind::Changed, 5, &[(9, SCALE)], LiveInDoubt),
        (Kind::Changed, 5, &[(3, SCALE)], LiveInDoubt),
        (Kind::Changed, 5, &[(9, SCALE), (5, SCALE)], StoreWrong),
        (Kind::Changed, 5, &[(5, COARSE)], LiveInDoubt),
        (Kind::Changed, 5, &[], LiveInDoubt),
        (Kind::Missing, 5, &[(5, SCALE)], StoreWrong),
        (Kind::Missing, 5, &[(0, SCALE)], LiveInDoubt),
        (Kind::Missing, 5, &[], LiveInDoubt),
        (Kind::Phantom, 0, &[], StoreWrong),
        (Kind::Phantom, 0, &[(0, COARSE)], StoreWrong),
        (Kind::Phantom, 0, &[(9, SCALE)], LiveInDoubt),
        (Kind::Ahead, 5, &[(9, SCALE)], StoreWrong),
    ] {
        assert_eq!(judge(&suspect(kind, live, 4), SCALE, &history(said)), verdict, "{kind} {live} {said:?}");
    }
    let shown = |live: u64| history(&[(9, SCALE), (5, SCALE)]).shown(U256::from(live)).map(|(_, said, _)| said);
    assert_eq!([shown(5), shown(1)], [5, 9].map(|said: u64| Some(U256::from(said))));
}

/// The rulings of audits that each find the same, with what is known of the instrument then.
fn rulings(suspect: &Suspect, history: &History, audits: &[Facts]) -> Vec<Ruling> {
    let mut memory = Memory::default();
    let mut one = |facts: &Facts| {
        let before = memory.recall(facts.symbol);
        rule(suspect, history, facts, &before, &mut memory)
    };
    audits.iter().map(&mut one).collect()
}

#[test]
fn a_doubted_book_is_asked_for_once_and_believed_when_it_comes() {
    let rebuilt = Facts { rebuilds: 2, ..FACTS };
    let found = rulings(&suspect(Kind::Changed, 5, 4), &history(&[(9, SCALE)]), &[FACTS, FACTS, rebuilt, rebuilt]);
    assert_eq!(found, [Ruling::Resync, Ruling::Awaits, Ruling::Confirmed, Ruling::Resync]);
    let verdicts = [Verdict::LiveInDoubt, Verdict::LiveInDoubt, Verdict::StoreWrong, Verdict::LiveInDoubt];
    assert_eq!(found.iter().map(|ruling| ruling.verdict()).collect::<Vec<_>>(), verdicts);
}

#[test]
fn a_row_that_stays_ahead_is_removed_unless_it_may_be_another_hosts_or_the_book_stands_still() {
    let ahead = suspect(Kind::Ahead, 5, 99);
    let none = History::default();
    assert_eq!(rulings(&ahead, &none, &[FACTS, FACTS]), [Ruling::Watch, Ruling::Remove]);
    let gapped = Facts { states: [FeedState::Live, FeedState::Gapped], ..FACTS };
    assert_eq!(rulings(&ahead, &none, &[FACTS, gapped, FACTS]), [Ruling::Watch, Ruling::Behind, Ruling::Remove]);
    let foreign = |first| Facts { others_from: Some(first), ..FACTS };
    assert_eq!(rulings(&ahead, &none, &[FACTS, foreign(1)]), [Ruling::Watch, Ruling::Foreign]);
    assert_eq!(rulings(&ahead, &none, &[FACTS, foreign(2)]), [Ruling::Watch, Ruling::Remove]);
}

#[test]
fn a_row_that_moves_ahead_is_another_row_and_what_is_no_longer_found_is_forgotten() {
    let mut memory = Memory::default();
    let mut one = |seq| {
        let before = memory.recall(FACTS.symbol);
        rule(&suspect(Kind::Ahead, 5, seq), &History::default(), &FACTS, &before, &mut memory)
    };
    assert_eq!([one(99), one(100), one(100)], [Ruling::Watch, Ruling::Watch, Ruling::Remove]);
    drop(memory.recall(FACTS.symbol));
    assert!(memory.ahead.is_empty() && memory.doubted.is_empty());
    let other = SymbolId(4);
    let before = Memory::default();
    rule(&suspect(Kind::Ahead, 5, 9), &History::default(), &Facts { symbol: other, ..FACTS }, &before, &mut memory);
    assert!(memory.recall(FACTS.symbol).ahead.is_empty(), "of another instrument");
    assert_eq!(memory.ahead.len(), 1);
}
