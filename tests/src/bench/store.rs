//! What people ask of the store: a pair's book, the changes of the last seconds, the whole state; on merged parts and on
//! unmerged ones, beside the naive ways. And what an insert costs, with the views and without.
//!
//! Never: a figure of a way whose answer was not compared.

mod inserts;
mod questions;
mod report;

pub use report::StoreReport;

use anyhow::{Context, Result, ensure};
use clickhouse::Client;
use connectors::clickhouse::{InProcess, StoreAddress, address::ONE_BLOCK, locate, schema, serve_in_process};
use questions::{Question, questions};
use report::{Answered, State};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// The database that is filled as the program does.
const WRITTEN: &str = "written";

/// The database whose state was never collapsed in an insert: the worst that parts can be.
const WORST: &str = "worst";

/// Pairs that the ticks are of.
const PAIRS: u64 = 10;

/// Updates of one second of the venue's time.
const UPDATES_PER_SECOND: u64 = 20_000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Updates.
    pub updates: u64,
    /// Ticks that these are of; each pair has as many.
    pub ticks: u64,
    /// Inserts, and so parts.
    pub parts: u64,
    /// Rounds of each query and insert.
    pub rounds: usize,
}

struct Bench {
    // Dropped in this order: the engine's connections before the engine.
    runtime: Runtime,
    engine: InProcess,
    _directory: tempfile::TempDir,
    options: StoreOptions,
}

/// Measures; tells each step as it is done.
///
/// # Errors
/// An engine that does not come up or refuses a statement; answers that differ although both ways are right.
pub fn run(options: StoreOptions, mut told: impl FnMut(&str)) -> Result<StoreReport> {
    let StoreOptions { updates, ticks, parts, rounds } = options;
    ensure!(rounds > 0 && parts > 0 && updates >= parts && ticks >= PAIRS, "nothing to measure");
    let bench = Bench::start(options)?;
    let begin = Instant::now();
    bench.fill()?;
    let filled = begin.elapsed();
    told(&format!("{updates} updates in {parts} inserts: {:.1} s", filled.as_secs_f64()));
    let mut states = Vec::new();
    for (database, name) in
        [(WRITTEN, "as the program writes it, no part merged"), (WORST, "no part merged, and no insert collapsed")]
    {
        states.push(bench.state(database, name, &mut told)?);
    }
    bench.execute(WRITTEN, "SYSTEM START MERGES tick_state")?;
    bench.execute(WRITTEN, "OPTIMIZE TABLE tick_state FINAL")?;
    states.push(bench.state(WRITTEN, "merged", &mut told)?);
    bench.execute(WORST, "DROP DATABASE worst SYNC")?;
    let inserts = inserts::measure(&bench, &mut told)?;
    Ok(StoreReport { options, filled, states, inserts })
}

impl Bench {
    fn start(options: StoreOptions) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let directory = tempfile::tempdir()?;
        let engine = runtime.block_on(serve_in_process(&locate(None)?, directory.path()))?;
        Ok(Self { runtime, engine, _directory: directory, options })
    }

    fn address(&self, database: &str) -> StoreAddress {
        StoreAddress { database: database.to_owned(), ..StoreAddress::at(self.engine.url()) }
    }

    fn client(&self, database: &str) -> Client {
        self.address(database).client()
    }

    fn execute(&self, database: &str, statement: &str) -> Result<()> {
        let executed = self.client(database).query_raw(statement).execute();
        self.runtime.block_on(executed).with_context(|| statement.chars().take(80).collect::<String>())
    }

    /// Fills both databases from the same numbers.
    fn fill(&self) -> Result<()> {
        for database in [WRITTEN, WORST] {
            self.runtime.block_on(schema::apply(&self.address(database)))?;
            self.execute(database, "SYSTEM STOP MERGES tick_state")?;
        }
        let StoreOptions { updates, ticks, parts, .. } = self.options;
        let each = updates.div_ceil(parts);
        for part in 0..parts {
            let (first, rows) = (part * each, each.min(updates - (part * each).min(updates)));
            let mut insert = self.client(WRITTEN).query_raw(&made("tick_updates", first, rows, ticks));
            for (name, value) in ONE_BLOCK {
                insert = insert.with_setting(name, value);
            }
            self.runtime.block_on(insert.execute()).context("an insert")?;
            let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, \
                           version, price_exponent, quantity_exponent, updated_at, ingestion_timestamp";
            let copy = format!(
                "INSERT INTO tick_state ({columns}) SELECT {columns} FROM {WRITTEN}.tick_updates WHERE version > {first} \
                 AND version <= {} SETTINGS optimize_on_insert = 0, max_threads = 1, max_insert_block_size = 1000000000, \
                 min_insert_block_size_rows = 1000000000, min_insert_block_size_bytes = 1000000000000",
                first + rows,
            );
            self.execute(WORST, &copy)?;
        }
        Ok(())
    }

    fn state(&self, database: &str, name: &str, told: &mut impl FnMut(&str)) -> Result<State> {
        let client = self.client(database);
        let size = "SELECT count(), sum(rows) FROM system.parts WHERE database = ? AND table = 'tick_state' AND active";
        let size = client.query(size).bind(database).fetch_one::<(u64, u64)>();
        let (parts, rows) = self.runtime.block_on(size)?;
        told(&format!("{name}: {parts} parts, {rows} rows"));
        let mut answered = Vec::new();
        for question in questions(self.options.updates) {
            let found = self.ask(&client, &question)?;
            for way in &found.ways {
                told(&format!("  {}: {}: {}", question.name, way.name, way.wall_ms));
            }
            answered.push(found);
        }
        Ok(State { name: name.to_owned(), parts, rows, answered })
    }

    /// Asks a question in every way, in turn, and compares the answers.
    fn ask(&self, client: &Client, question: &Question) -> Result<Answered> {
        let mut answers = vec![(Vec::new(), String::new()); question.ways.len()];
        // The first round warms the marks of all ways alike.
        for round in 0..=self.options.rounds {
            for (way, (times, answer)) in question.ways.iter().zip(&mut answers) {
                let begin = Instant::now();
                let bytes = async { client.query_raw(&way.sql).fetch_bytes("TabSeparated")?.collect().await };
                let bytes = self.runtime.block_on(bytes).with_context(|| way.sql.clone())?;
                if round > 0 {
                    times.push(begin.elapsed().as_secs_f64() * 1_000.0);
                }
                if round == 0 {
                    *answer = String::from_utf8_lossy(&bytes).into_owned();
                }
            }
        }
        Answered::of(question, answers)
    }
}

/// An insert of made updates: each of a tick by chance, one in fifty a death, over time.
fn made(table: &str, first: u64, rows: u64, ticks: u64) -> String {
    let pair = format!("intDiv(tick, {})", ticks.div_ceil(PAIRS));
    format!(
        "INSERT INTO {table} (venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, \
         version, whole, price_exponent, quantity_exponent, updated_at, ingestion_timestamp, raw_id) \
         SELECT 'binance_spot', concat('A', toString({pair}), 'USDT'), concat('A', toString({pair})), 'USDT', \
         if(tick % 2 = 0, 'USDT', concat('A', toString({pair}))), toInt64(tick) + 1000000, 0, '', \
         if(dead, 0, cityHash64(number, 1))::UInt256, toUInt8(dead), (number + 1)::UInt128, 0, -2, -8, \
         fromUnixTimestamp64Nano(1700000000000000000 + toInt64(number) * {step} AS at), at, '' \
         FROM (SELECT number, cityHash64(number, 2) % {ticks} AS tick, cityHash64(number, 3) % 50 = 0 AS dead \
         FROM numbers({first}, {rows}))",
        step = 1_000_000_000 / UPDATES_PER_SECOND,
    )
}
