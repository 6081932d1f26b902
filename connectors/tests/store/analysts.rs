//! The analysts' views against a computation of their own: random histories with whole books, deaths, late and repeated
//! rows, and several venues, replayed event by event.
//!
//! Never: an expectation that depends on when parts merge.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, fmt::Write};

/// Venue, symbol, assets and price exponent.
const INSTRUMENTS: [(&str, &str, [&str; 2], i8); 4] = [
    ("binance_spot", "BTCUSDT", ["BTC", "USDT"], -2),
    ("kraken_spot", "BTC/USDT", ["BTC", "USDT"], -1),
    ("neutron_dex", "BTC<>USDT", ["BTC", "USDT"], -128),
    ("binance_spot", "ETHUSDT", ["ETH", "USDT"], -2),
];
const QUANTITY_EXPONENT: i8 = -3;
/// `2023-11-14 22:13:20`.
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
const CUT_NS: i64 = 4_000_000;

/// Side, tick index, fee, tranche.
type Key = (&'static str, i64, u32, &'static str);

/// All changes of one version.
#[derive(Clone)]
struct Happening {
    instrument: usize,
    version: u128,
    whole: bool,
    arrived_ns: i64,
    /// 0 where it was not shown as it was written.
    shown_ns: i64,
    ticks: Vec<(Key, u64)>,
}

/// A book by replay, each tick with its version.
type Book = BTreeMap<Key, (u64, u128)>;

/// Events in the order of their versions; a whole book leaves nothing of what was before.
fn replayed<'a>(happenings: impl Iterator<Item = &'a Happening>, instrument: usize) -> Book {
    let mut of: Vec<_> = happenings.filter(|happening| happening.instrument == instrument).collect();
    of.sort_by_key(|happening| happening.version);
    let mut book = Book::new();
    for happening in of {
        if happening.whole {
            book.clear();
        }
        for (key, reserves) in &happening.ticks {
            if *reserves == 0 {
                book.remove(key);
            } else {
                book.insert(*key, (*reserves, happening.version));
            }
        }
    }
    book
}

fn key(random: &mut ChaCha8Rng, instrument: usize) -> Key {
    let side = if random.random_bool(0.5) { "ask" } else { "bid" };
    let index = random.random_range(-6..6) + if side == "ask" { 107 } else { 93 };
    if INSTRUMENTS[instrument].3 == -128 {
        let tranche = if random.random_bool(0.3) { "tranche" } else { "" };
        return (side, index - 100, random.random_range(0..2), tranche);
    }
    (side, index, 0, "")
}

/// A history; if `forgetful`, some whole books do not name the ticks that they bury.
fn history(seed: u64, forgetful: bool) -> Vec<Happening> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut happenings: Vec<Happening> = Vec::new();
    let mut now = BEGIN_NS;
    let mut epochs = [0_u128; INSTRUMENTS.len()];
    for seq in 1..=220_u128 {
        now += random.random_range(1..30_000_000);
        let instrument = random.random_range(0..INSTRUMENTS.len());
        let whole = random.random_bool(0.12);
        if whole && random.random_bool(0.3) {
            epochs[instrument] += 1;
        }
        let version = epochs[instrument] << 64 | seq;
        let count = if whole { 8 } else { random.random_range(1..4) };
        let named = (0..count).map(|_| (key(&mut random, instrument), random.random_range(u64::from(whole)..6)));
        let mut ticks: BTreeMap<Key, u64> = named.collect();
        if whole && !(forgetful && random.random_bool(0.5)) {
            for dead in replayed(happenings.iter(), instrument).into_keys() {
                ticks.entry(dead).or_insert(0);
            }
        }
        // Some come late: after others that they are older than.
        let late = if random.random_bool(0.1) { random.random_range(0..300_000_000) } else { 0 };
        let arrived_ns = now + late;
        let shown_ns = if random.random_bool(0.15) { 0 } else { (now / CUT_NS + 1) * CUT_NS };
        happenings.push(Happening {
            instrument,
            version,
            whole,
            arrived_ns,
            shown_ns,
            ticks: ticks.into_iter().collect(),
        });
    }
    happenings
}

/// Writes a history in the order of arrival, in inserts of several events, some of them twice.
async fn insert(address: &StoreAddress, happenings: &[Happening], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ordered: Vec<_> = happenings.to_vec();
    ordered.sort_by_key(|happening| happening.arrived_ns);
    for part in ordered.chunks(9) {
        let again = part.iter().filter(|_| random.random_bool(0.2)).cloned().collect::<Vec<_>>();
        for part in [part.to_vec(), again] {
            let mut sql = "INSERT INTO tick_updates (venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, \
                           reserves, reserves_zero, version, whole, price_exponent, quantity_exponent, ingestion_timestamp, \
                           shown_at) FORMAT JSONEachRow\n"
                .to_owned();
            for happening in &part {
                for (key, reserves) in &happening.ticks {
                    row(&mut sql, happening, *key, *reserves);
                }
            }
            if part.iter().any(|happening| !happening.ticks.is_empty()) {
                execute(address, &sql).await;
            }
        }
    }
}

fn row(sql: &mut String, happening: &Happening, (side, index, fee, tranche): Key, reserves: u64) {
    let (venue, symbol, [asset_0, asset_1], exponent) = INSTRUMENTS[happening.instrument];
    let seconds = |ns: i64| {
        if ns == 0 {
            "1970-01-01 00:00:00".to_owned()
        } else {
            format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
        }
    };
    let row = serde_json::json!({
        "venue": venue, "symbol": symbol, "asset_0": asset_0, "asset_1": asset_1,
        "asset_in": if side == "ask" { asset_0 } else { asset_1 }, "tick_index": index, "fee": fee,
        "tranche_key": tranche, "reserves": reserves.to_string(), "reserves_zero": u8::from(reserves == 0),
        "version": happening.version.to_string(), "whole": u8::from(happening.whole), "price_exponent": exponent,
        "quantity_exponent": QUANTITY_EXPONENT, "ingestion_timestamp": seconds(happening.arrived_ns),
        "shown_at": seconds(happening.shown_ns),
    });
    writeln!(sql, "{row}").unwrap();
}

/// What a view says of an instrument.
async fn said(address: &StoreAddress, from: &str, instrument: usize) -> Book {
    let (venue, symbol, ..) = INSTRUMENTS[instrument];
    let query = format!(
        "SELECT toString(side), tick_index, fee, tranche_key, toUInt64(reserves), version FROM {from} \
         WHERE venue = '{venue}' AND symbol = '{symbol}'"
    );
    let found: Vec<(String, i64, u32, String, u64, u128)> = address.client().query(&query).fetch_all().await.unwrap();
    let count = found.len();
    let fixed = |text: &str| ["ask", "bid", "", "tranche"].into_iter().find(|known| *known == text).unwrap();
    let book: Book = found
        .into_iter()
        .map(|(side, index, fee, tranche, reserves, version)| {
            ((fixed(&side), index, fee, fixed(&tranche)), (reserves, version))
        })
        .collect();
    assert_eq!(book.len(), count, "{from} names a tick twice");
    book
}

fn at(ns: i64) -> String {
    format!("fromUnixTimestamp64Nano(toInt64({ns}), 'UTC')")
}

#[tokio::test]
async fn live_ticks_are_the_book_after_everything_that_came() {
    for seed in 0..3 {
        let address = store().await;
        let happenings = history(seed, true);
        insert(&address, &happenings, seed).await;
        for instrument in 0..INSTRUMENTS.len() {
            let right = replayed(happenings.iter(), instrument);
            assert!(!right.is_empty());
            assert_eq!(said(&address, "live_ticks", instrument).await, right, "seed {seed}, {instrument}");
        }
    }
}

#[tokio::test]
async fn a_book_as_of_a_time_is_made_of_what_had_arrived() {
    let address = store().await;
    let happenings = history(11, true);
    insert(&address, &happenings, 11).await;
    let last = happenings.iter().map(|happening| happening.arrived_ns).max().unwrap();
    for step in 0..=8 {
        let time = BEGIN_NS + (last - BEGIN_NS) / 8 * step;
        for (instrument, (_, _, [asset_0, asset_1], _)) in INSTRUMENTS.iter().enumerate() {
            let arrived = happenings.iter().filter(|happening| happening.arrived_ns <= time);
            let view = format!("book_as_of(asset_0 = '{asset_0}', asset_1 = '{asset_1}', at = {})", at(time));
            assert_eq!(said(&address, &view, instrument).await, replayed(arrived, instrument), "{view}, {instrument}");
        }
    }
}

#[tokio::test]
async fn a_book_at_a_version_is_made_of_the_versions_up_to_it() {
    let address = store().await;
    let happenings = history(12, true);
    insert(&address, &happenings, 12).await;
    for happening in happenings.iter().step_by(17) {
        let (version, instrument) = (happening.version, happening.instrument);
        let (venue, symbol, ..) = INSTRUMENTS[instrument];
        let view = format!("book_at_version(venue = '{venue}', symbol = '{symbol}', version = '{version}')");
        let right = replayed(happenings.iter().filter(|other| other.version <= version), instrument);
        assert_eq!(said(&address, &view, instrument).await, right, "{view}");
    }
    let none = "book_at_version(venue = 'binance_spot', symbol = 'NOSUCH', version = '1')";
    assert_eq!(said(&address, none, 0).await, Book::new());
}

#[tokio::test]
async fn what_was_shown_at_a_time_is_the_last_cut_s_version() {
    let address = store().await;
    let happenings = history(13, true);
    insert(&address, &happenings, 13).await;
    for step in 1..=8 {
        let time = BEGIN_NS + 400_000_000 * step + 1;
        for (instrument, (_, _, [asset_0, asset_1], _)) in INSTRUMENTS.iter().enumerate() {
            let shown = |happening: &&Happening| {
                happening.instrument == instrument
                    && happening.shown_ns > 0
                    && happening.shown_ns <= time
                    && !happening.ticks.is_empty()
            };
            let version = happenings.iter().filter(shown).map(|happening| happening.version).max();
            let upto =
                happenings.iter().filter(|happening| version.is_some_and(|version| happening.version <= version));
            let arguments = format!("(asset_0 = '{asset_0}', asset_1 = '{asset_1}', at = {})", at(time));
            let view = format!("book_shown_at{arguments}");
            assert_eq!(said(&address, &view, instrument).await, replayed(upto, instrument), "{view}, {instrument}");
            let (venue, symbol, ..) = INSTRUMENTS[instrument];
            let query = format!(
                "SELECT version FROM version_shown_at{arguments} WHERE venue = '{venue}' AND symbol = '{symbol}'"
            );
            let found: Vec<u128> = address.client().query(&query).fetch_all().await.unwrap();
            assert_eq!(found, version.into_iter().collect::<Vec<_>>(), "{query}");
        }
    }
}

#[tokio::test]
async fn changes_since_a_time_are_the_present_states_of_what_was_touched() {
    let address = store().await;
    let happenings = history(14, false);
    insert(&address, &happenings, 14).await;
    let mut deaths = 0;
    for step in 0..=4 {
        let since = BEGIN_NS + 800_000_000 * step;
        for (instrument, (venue, symbol, ..)) in INSTRUMENTS.iter().enumerate() {
            let of = || happenings.iter().filter(|happening| happening.instrument == instrument);
            let mut right = Book::new();
            for happening in of() {
                for (key, reserves) in &happening.ticks {
                    let newest = right.entry(*key).or_insert((*reserves, happening.version));
                    if newest.1 < happening.version {
                        *newest = (*reserves, happening.version);
                    }
                }
            }
            let touched = |key: &Key| {
                let mut since_then = of().filter(|happening| happening.arrived_ns >= since);
                since_then.any(|happening| happening.ticks.iter().any(|(other, _)| other == key))
            };
            right.retain(|key, _| touched(key));
            deaths += right.values().filter(|(reserves, _)| *reserves == 0).count();
            let view = format!("state_changes(since = {})", at(since));
            assert_eq!(said(&address, &view, instrument).await, right, "{view}, {instrument}");
            let wrong = format!(
                "SELECT count() FROM {view} WHERE venue = '{venue}' AND symbol = '{symbol}' AND (reserves = 0) != (reserves_zero = 1)"
            );
            assert_eq!(address.client().query(&wrong).fetch_one::<u64>().await.unwrap(), 0);
        }
    }
    assert!(deaths > 10, "{deaths}");
}

#[tokio::test]
async fn depth_counts_levels_from_the_best_and_sums_from_there() {
    let address = store().await;
    let happenings = history(15, false);
    insert(&address, &happenings, 15).await;
    for (instrument, (venue, symbol, _, exponent)) in INSTRUMENTS.iter().enumerate() {
        let book = replayed(happenings.iter(), instrument);
        for side in ["bid", "ask"] {
            let mut levels: BTreeMap<i64, u64> = BTreeMap::new();
            for ((_, index, ..), (reserves, _)) in book.iter().filter(|((of, ..), _)| *of == side) {
                *levels.entry(*index).or_default() += reserves;
            }
            let ordered: Vec<_> =
                if side == "ask" { levels.into_iter().collect() } else { levels.into_iter().rev().collect() };
            let (mut reserves_to_here, mut value_to_here) = (0, 0);
            let powers = *exponent == -128;
            let right: Vec<_> = (1..)
                .zip(ordered)
                .map(|(level, (index, reserves)): (u64, (i64, u64))| {
                    reserves_to_here += reserves;
                    value_to_here += index * i64::try_from(reserves).unwrap();
                    (level, index, reserves, reserves_to_here, (!powers).then_some(value_to_here))
                })
                .collect();
            // The sums as the view writes them, in whole steps again.
            let query = format!(
                "SELECT toUInt64(level), tick_index, toUInt64(reserves), toUInt64(assumeNotNull(quantity_to_here) * 1000), \
                 CAST(notional_to_here * {}, 'Nullable(Int64)') \
                 FROM book_depth WHERE venue = '{venue}' AND symbol = '{symbol}' AND side = '{side}' ORDER BY level",
                10_i64.pow(
                    u32::from(QUANTITY_EXPONENT.unsigned_abs())
                        + if powers { 0 } else { u32::from(exponent.unsigned_abs()) }
                ),
            );
            let found: Vec<(u64, i64, u64, u64, Option<i64>)> =
                address.client().query(&query).fetch_all().await.unwrap();
            assert_eq!(found, right, "{venue} {symbol} {side}");
        }
    }
}

#[tokio::test]
async fn candles_have_any_length_and_no_prices_that_are_powers() {
    let address = store().await;
    let (directory, instrument) = directory();
    let trades = [("a", 1, 100, 0), ("b", 2, 130, 20), ("c", 3, 90, 70), ("d", 4, 120, 130)];
    let events =
        trades.map(|(id, order, price, second)| SinkInput::Trade(trade(&instrument, id, order, price, second)));
    write(&address, &directory, WriterOptions::default(), events).await;
    execute(
        &address,
        "INSERT INTO trades (venue, symbol, asset_0, asset_1, trade_id, tick_index, price_exponent) \
         VALUES ('neutron_dex', 'x', 'BTC', 'USDT', 't', 5, -128)",
    )
    .await;
    let candles = |seconds: u32| {
        let query = format!(
            "SELECT toUnixTimestamp(begins) - 1700000000, CAST(open * 100, 'Nullable(Int64)'), CAST(high * 100, 'Nullable(Int64)'), \
             CAST(low * 100, 'Nullable(Int64)'), CAST(close * 100, 'Nullable(Int64)'), trade_count \
             FROM candles_of(asset_0 = 'BTC', asset_1 = 'USDT', seconds = {seconds}) ORDER BY begins"
        );
        let client = address.client();
        async move {
            client.query(&query).fetch_all::<(i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>, u64)>().await
        }
    };
    // The first second is 22:13:20.
    let some = |open, high, low, close| (Some(open), Some(high), Some(low), Some(close));
    let flat = |(begins, (open, high, low, close), count)| (begins, open, high, low, close, count);
    let right = [(-20, some(100, 130, 100, 130), 2), (40, some(90, 90, 90, 90), 1), (100, some(120, 120, 120, 120), 1)];
    assert_eq!(candles(60).await.unwrap(), right.map(flat));
    let right = [(-200, some(100, 130, 90, 90), 3), (100, some(120, 120, 120, 120), 1)];
    assert_eq!(candles(300).await.unwrap(), right.map(flat));
    assert_eq!(count(&address, "candles").await, 3);
}
