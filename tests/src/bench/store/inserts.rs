//! What an insert costs: into a table alone, with the views, and with the views but without the floors' join.
//!
//! Never: a table that is warm for one way only; the ways take turns.

use super::{Bench, PAIRS, WRITTEN};
use crate::bench::{
    report::Spread,
    ticks::{Tick, insert_rows},
};
use anyhow::Result;
use clickhouse::types::UInt256;
use connectors::clickhouse::schema;
use cpu_time::ProcessTime;
use std::time::Instant;

/// Rows of one insert, as many as the program's own batches have.
const ROWS: u64 = 50_000;

/// Instruments that have a floor.
const FLOORS: u64 = 2_000;

/// What inserts into one table cost.
#[derive(Clone, Debug)]
pub(super) struct Inserted {
    pub(super) name: &'static str,
    /// Rows per second.
    pub(super) rate: Spread,
    /// Processor time of client and engine, microseconds a row.
    pub(super) cpu_us: Spread,
}

/// Rounds of all ways.
pub(super) fn measure(bench: &Bench, told: &mut impl FnMut(&str)) -> Result<Vec<Inserted>> {
    let ways =
        [("tick_updates alone", "alone"), ("with the views", WRITTEN), ("with the views, no floors", "unfloored")];
    bench.execute(WRITTEN, "CREATE DATABASE alone")?;
    bench.execute(WRITTEN, "CREATE TABLE alone.tick_updates AS written.tick_updates")?;
    bench.runtime.block_on(schema::apply(&bench.address("unfloored")))?;
    let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, version, \
                   price_exponent, quantity_exponent, updated_at, ingestion_timestamp";
    bench.execute(
        "unfloored",
        &format!("ALTER TABLE tick_state_fill MODIFY QUERY SELECT {columns} FROM tick_updates"),
    )?;
    let floors = format!(
        "INSERT INTO tick_floors SELECT 'binance_spot', concat('X', toString(number)), concat('X', toString(number)), 'USDT', 1, \
         now64(9) FROM numbers({FLOORS})"
    );
    bench.execute(WRITTEN, &floors)?;
    let mut costs = vec![(Vec::new(), Vec::new()); ways.len()];
    // The first round warms.
    for round in 0..=bench.options.rounds {
        for ((_, database), (rates, cpus)) in ways.iter().zip(&mut costs) {
            let rows = rows(u64::try_from(round)?, bench.options.ticks);
            let (wall, cpu) = (Instant::now(), ProcessTime::now());
            bench.runtime.block_on(insert_rows(&bench.client(database), "tick_updates", &rows))?;
            if round > 0 {
                rates.push(f64::from(u32::try_from(ROWS)?) / wall.elapsed().as_secs_f64());
                cpus.push(cpu.elapsed().as_secs_f64() * 1e6 / f64::from(u32::try_from(ROWS)?));
            }
        }
    }
    let inserted = |((name, _), (rates, cpus)): (&(&'static str, _), (Vec<f64>, Vec<f64>))| Inserted {
        name,
        rate: Spread::of(rates),
        cpu_us: Spread::of(cpus),
    };
    let inserted: Vec<_> = ways.iter().zip(costs).map(inserted).collect();
    for one in &inserted {
        told(&format!("insert, {}: {} rows/s", one.name, one.rate));
    }
    Ok(inserted)
}

/// The rows of a round: newer than all before.
fn rows(round: u64, ticks: u64) -> Vec<Tick> {
    let row = |at: u64| {
        let tick = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % ticks;
        let base = format!("A{}", tick / ticks.div_ceil(PAIRS));
        Tick {
            venue: "binance_spot".to_owned(),
            symbol: format!("{base}USDT"),
            asset_in: if tick.is_multiple_of(2) { "USDT".to_owned() } else { base.clone() },
            asset_0: base,
            asset_1: "USDT".to_owned(),
            tick_index: i64::try_from(tick).unwrap_or(i64::MAX),
            fee: 0,
            tranche_key: String::new(),
            reserves: UInt256::from(at),
            reserves_zero: 0,
            version: (u128::from(round + 1) << 64) | u128::from(at),
            whole: 0,
            price_exponent: -2,
            quantity_exponent: -8,
            updated_at: 0,
            ingestion_timestamp: i64::try_from(at).unwrap_or(i64::MAX),
            shown_at: 0,
            raw_id: String::new(),
        }
    };
    (1..=ROWS).map(row).collect()
}
