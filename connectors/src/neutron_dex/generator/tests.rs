//! That the generator does what its options say; that decoders agree with it is tested with the references.
//!
//! Never: a right value that the code under test has made.

use super::*;
use foldhash::HashSet;

fn options() -> DexOptions {
    DexOptions { ticks_per_pair: 60, events_per_block: 40, ..DexOptions::default() }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
    let names = |seed| -> Vec<_> {
        DexGenerator::new(DexOptions { seed, ..options() }).take(20).map(|batch| batch.name).collect()
    };
    assert_eq!(names(1), names(1));
    assert!(names(1).iter().zip(names(2)).all(|(one, other)| one.id != other.id));
}

#[test]
fn heights_chain_and_some_are_omitted_and_the_dialect_changes_nothing_that_happens() {
    let mut states = Vec::new();
    for dialect in [Dialect::Tendermint034, Dialect::Comet037, Dialect::Comet038, Dialect::Mixed] {
        let mut generator = DexGenerator::new(DexOptions { dialect, ..options() });
        let (mut last, mut omitted) = (999, 0);
        for batch in generator.by_ref().take(60) {
            assert_eq!(batch.name.previous, last);
            omitted += batch.name.height - last - 1;
            last = batch.name.height;
        }
        assert!(omitted > 5, "{omitted}");
        states.push((last, generator.state()));
    }
    assert!(states.windows(2).all(|pair| pair[0] == pair[1]));
    let (_, state) = &states[0];
    let keys: HashSet<_> = state.iter().map(|tick| (&tick.token_zero, &tick.token_one)).collect();
    assert_eq!(keys.len(), 4, "every pair lives");
    assert!(state.iter().any(|tick| tick.fee.is_some()) && state.iter().any(|tick| tick.tranche_key.is_some()));
    assert!(state.iter().any(|tick| tick.reserves < U256::from(10_u128.pow(27))), "less than one unit, and alive");
    assert!(state.iter().all(|tick| !tick.reserves.is_zero() && tick.token_zero < tick.token_one));
}

#[test]
fn no_book_is_ever_crossed() {
    let mut generator = DexGenerator::new(options());
    while generator.next().is_some_and(|batch| batch.name.height < 1_100) {
        for pair in &generator.pairs {
            let asks = pair.state().into_iter().filter(|tick| tick.token_in == tick.token_zero);
            let bids = pair.state().into_iter().filter(|tick| tick.token_in == tick.token_one);
            let (ask, bid) = (asks.map(|tick| tick.tick_index).min(), bids.map(|tick| -tick.tick_index).max());
            assert!(ask.zip(bid).is_none_or(|(ask, bid)| bid < ask), "{bid:?} {ask:?}");
        }
    }
}

#[test]
fn a_block_is_as_large_as_wanted() {
    let wanted = 2_000_000;
    let with = |dialect, events_per_block| {
        let options = DexOptions { bytes_target: wanted, events_per_block, dialect, ..options() };
        DexGenerator::new(options).nth(1).unwrap().content.len()
    };
    for length in [with(Dialect::Comet037, 50), with(Dialect::Comet037, 50_000), with(Dialect::Comet038, 50)] {
        assert!((wanted * 8 / 10..wanted * 13 / 10).contains(&length), "{length}");
    }
}
