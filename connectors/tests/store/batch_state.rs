//! The ticks of a venue at a height, beside a naive replay of the same batches.
//!
//! Never: rows inserted in the order of their heights.

use super::{
    batch_log::{batch, block, log},
    *,
};
use connectors::clickhouse::batch_log::TickAt;
use market::batch::{BatchKind, end_of, place_of};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const SYMBOLS: [&str; 2] = ["A<>B", "B<>C"];
const PAIRS: [(Side, i64); 4] = [(Side::Ask, -2), (Side::Ask, 3), (Side::Bid, -2), (Side::Bid, 4)];
const POOLS: [(u32, &str); 4] = [(1, ""), (5, ""), (0, "t1"), (0, "it's t2")];

type Key = (&'static str, Side, i64, u32, &'static str);
/// Reserves and the place of the last change of every live tick.
type State = BTreeMap<Key, (U256, u64)>;

struct Update {
    key: Key,
    reserves: U256,
    version: Version,
    whole: bool,
}

async fn insert(address: &StoreAddress, updates: &[Update]) {
    let row = |update: &Update| {
        let (symbol, side, tick_index, fee, tranche) = update.key;
        let (asset_0, asset_1) = symbol.split_once("<>").unwrap();
        let asset_in = if side == Side::Ask { asset_0 } else { asset_1 };
        let (reserves, zero) = (update.reserves, u8::from(update.reserves.is_zero()));
        let (version, whole) = (update.version.to_u128(), u8::from(update.whole));
        format!(
            "('neutron_dex', '{symbol}', '{asset_0}', '{asset_1}', '{asset_in}', {tick_index}, {fee}, '{}', \
             toUInt256('{reserves}'), {zero}, toUInt128('{version}'), {whole}, -128, -27)",
            tranche.replace('\'', "\\'")
        )
    };
    for some in updates.chunks(500) {
        let rows = some.iter().map(row).collect::<Vec<_>>().join(", ");
        let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, \
                       reserves_zero, version, whole, price_exponent, quantity_exponent";
        execute(address, &format!("INSERT INTO tick_updates ({columns}) VALUES {rows}")).await;
    }
}

async fn found(address: &StoreAddress, height: u64) -> State {
    let ticks = log(address).state_at(height).await.unwrap();
    let order = |tick: &TickAt| (tick.symbol.clone(), tick.side, tick.tick_index, tick.fee, tick.tranche.clone());
    assert!(ticks.is_sorted_by_key(order), "by symbol, side, price, fee and tranche");
    let known = |symbol: &str| SYMBOLS.into_iter().find(|known| *known == symbol).unwrap();
    let tranche = |text: &str| POOLS.into_iter().map(|(_, name)| name).find(|name| *name == text).unwrap();
    let state: State = ticks
        .iter()
        .map(|tick| {
            assert_eq!(format!("{}<>{}", tick.asset_0, tick.asset_1), *tick.symbol);
            assert_eq!(tick.scale, Scale { price: i8::MIN, quantity: -27 });
            let key = (known(&tick.symbol), tick.side, tick.tick_index, tick.fee, tranche(&tick.tranche));
            (key, (tick.reserves, tick.seq))
        })
        .collect();
    assert_eq!(state.len(), ticks.len(), "each tick once");
    state
}

fn any_key(random: &mut ChaCha8Rng) -> Key {
    let (side, tick_index) = PAIRS[random.random_range(0..PAIRS.len())];
    let (fee, tranche) = POOLS[random.random_range(0..POOLS.len())];
    (SYMBOLS[random.random_range(0..SYMBOLS.len())], side, tick_index, fee, tranche)
}

fn any_reserves(random: &mut ChaCha8Rng) -> U256 {
    match random.random_range(0..10) {
        0..4 => U256::ZERO,
        4 => U256::MAX,
        _ => number(random.random_range(1..1_000)),
    }
}

/// One history: what is inserted, the snapshots, and the naive state at the end of each height from 0.
struct History {
    updates: Vec<Update>,
    snapshots: Vec<u64>,
    states: Vec<State>,
}

impl History {
    /// Forty heights, some of them empty, with failing memory in between: epochs rise, batches of three heights come late
    /// and in another epoch, two source snapshots tell other ticks than the batches before them, and whole books that are
    /// not the source's tell anything at all.
    fn any(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut history = Self { updates: Vec::new(), snapshots: Vec::new(), states: vec![State::new()] };
        let mut state = State::new();
        for height in 1..=40 {
            let epoch = match height {
                5 | 12 | 28 => 9,
                ..8 => 1,
                8..22 => 2,
                22..33 => 3,
                _ => 4,
            };
            for ordinal in 0..random.random_range(0..9) {
                let (key, reserves) = (any_key(&mut random), any_reserves(&mut random));
                let place = place_of(height, ordinal * 3).unwrap();
                history.updates.push(Update { key, reserves, version: Version::new(epoch, place), whole: false });
                if reserves.is_zero() {
                    state.remove(&key);
                } else {
                    state.insert(key, (reserves, place));
                }
            }
            let whole = |key, reserves| {
                let version = Version::new(epoch + 1, end_of(height));
                Update { key, reserves, version, whole: true }
            };
            if [15, 30].contains(&height) {
                history.snapshots.push(height);
                let born = any_key(&mut random);
                let mut before = std::mem::take(&mut state);
                before.remove(&born);
                for (key, (reserves, _)) in before {
                    match random.random_range(0..4) {
                        // Not in the snapshot: with a tombstone, or without one.
                        0 => history.updates.push(whole(key, U256::ZERO)),
                        1 => {}
                        2 => drop(state.insert(key, (reserves, end_of(height)))),
                        _ => drop(state.insert(key, (number(7), end_of(height)))),
                    }
                }
                state.insert(born, (number(8), end_of(height)));
                history.updates.extend(state.iter().map(|(key, (reserves, _))| whole(*key, *reserves)));
            }
            if [10, 22, 35].contains(&height) {
                let wrong = (0..6).map(|_| whole(any_key(&mut random), any_reserves(&mut random)));
                history.updates.extend(wrong.collect::<Vec<_>>());
            }
            history.states.push(state.clone());
        }
        history.updates.shuffle(&mut random);
        history
    }
}

#[tokio::test]
async fn the_state_at_each_height_is_that_of_a_naive_replay() {
    for seed in 1..=2 {
        let address = store().await;
        let history = History::any(seed);
        let log = log(&address);
        log.insert(&block(1)).await.unwrap();
        for height in &history.snapshots {
            log.insert(&batch(*height, BatchKind::Snapshot, height.to_string().as_bytes())).await.unwrap();
        }
        insert(&address, &history.updates).await;
        // Rows may come twice.
        insert(&address, &history.updates[..20]).await;
        for (height, state) in (0..).zip(&history.states) {
            assert_eq!(&found(&address, height).await, state, "seed {seed}, height {height}");
        }
        assert_eq!(Some(&found(&address, u64::MAX).await), history.states.last());
        assert!(history.states.iter().all(|state| state.len() < 64) && history.states[40].len() > 3);
        execute(&address, "OPTIMIZE TABLE tick_updates FINAL").await;
        assert_eq!(Some(&found(&address, 40).await), history.states.last());
    }
}

#[tokio::test]
async fn below_the_log_every_whole_book_counts_and_in_it_only_those_of_the_source() {
    let address = store().await;
    let log = log(&address);
    let [a, b, c, d] = [1, 2, 3, 4].map(|fee| (SYMBOLS[0], Side::Ask, 1, fee, ""));
    let elsewhere = (SYMBOLS[1], Side::Bid, 1, 1, "");
    let update = |key, height, ordinal: u64, whole| {
        let place = if whole { end_of(height) } else { place_of(height, ordinal).unwrap() };
        Update { key, reserves: number(height), version: Version::new(1, place), whole }
    };
    let updates = [
        update(a, 2, 0, false),
        update(elsewhere, 2, 1, false),
        // Of the time before the log: `a` is dead, and nothing is said about the other instrument.
        update(b, 5, 0, true),
        update(c, 21, 0, false),
        // Whose whole book, nobody knows: it says nothing.
        update(d, 22, 0, true),
    ];
    log.insert(&block(20)).await.unwrap();
    insert(&address, &updates).await;
    let keys = async |height| found(&address, height).await.into_keys().collect::<Vec<_>>();
    assert_eq!(keys(4).await, [a, elsewhere]);
    assert_eq!(keys(5).await, [b, elsewhere]);
    assert_eq!(keys(22).await, [b, c, elsewhere]);
    // A snapshot that was logged and not delivered left no rows, and says nothing either.
    log.insert(&batch(21, BatchKind::Snapshot, b"{}")).await.unwrap();
    assert_eq!(keys(22).await, [b, c, elsewhere]);
    log.insert(&batch(22, BatchKind::Snapshot, b"{\"d\":1}")).await.unwrap();
    assert_eq!(keys(22).await, [d]);
    assert_eq!(keys(21).await, [b, c, elsewhere]);
}

#[tokio::test]
async fn tranches_that_died_leave_nothing_and_the_engine_goes_on_in_files_where_they_are_too_many() {
    let address = store().await;
    let fill = "INSERT INTO tick_updates (venue, symbol, asset_0, asset_1, asset_in, tick_index, tranche_key, reserves, \
                reserves_zero, version) SELECT 'neutron_dex', 'A<>B', 'A', 'B', 'A', intDiv(number, 2) % 1000, \
                concat('tranche-of-an-order-', toString(intDiv(number, 2))), toUInt256(1 - number % 2), number % 2, \
                toUInt128(number + 1) FROM numbers(200001)";
    execute(&address, fill).await;
    let state = log(&address).state_at(1).await.unwrap();
    assert_eq!(state.iter().map(|tick| &*tick.tranche).collect::<Vec<_>>(), ["tranche-of-an-order-100000"]);
    let spilled =
        "SELECT count() FROM (SELECT tranche_key, argMax(reserves, version) FROM tick_updates GROUP BY tranche_key)";
    let query = address.client().query(spilled).with_setting("max_bytes_before_external_group_by", "1000000");
    assert_eq!(query.fetch_one::<u64>().await.unwrap(), 100_001);
}
