//! The order in which batches arrive makes no difference: neither to the versions in the store nor to what is dead.
//!
//! Never: two servers with one database.

use super::{
    chain::{Chain, options},
    stage::{STREAM, Stage, durable, kept},
};
use crate::{books::ask, kills::Seed};
use anyhow::Result;
use serde_json::Value;
use std::{fs, path::Path};

const SEED: u64 = 11;
const BLOCKS: usize = 12;
const PERMUTATIONS: usize = 10;

fn final_state(host: &Path, database: &str) -> Result<Vec<Value>> {
    let query = format!(
        "SELECT toString(tuple(symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, \
         bitAnd(version, 18446744073709551615), price_exponent, quantity_exponent, updated_at)) AS row \
         FROM {database}.tick_state FINAL ORDER BY row"
    );
    ask(host, &query)
}

#[test]
fn ten_permutations_end_with_one_state() -> Result<()> {
    let mut seed = Seed::named(SEED);
    let chain = Chain::of(options(seed.below(1 << 32)), BLOCKS);
    let host_data = tempfile::tempdir()?;
    let host = Stage::new()?;
    let host_server = host.start(host_data.path())?;
    host.publish(&chain.batches)?;
    let last = chain.height(BLOCKS - 1);
    durable(&host_server, last)?;
    kept(host_data.path(), &chain.after(BLOCKS - 1))?;
    let right = final_state(host_data.path(), "sprag")?;
    assert!(right.iter().any(|row| row["row"].as_str().is_some_and(|row| row.contains(",1,"))), "no tombstone");

    // All of them on one engine, each in a database of its own.
    let text = fs::read_to_string(host_data.path().join("clickhouse.url"))?;
    let url = format!("store.url={}", text.lines().next().unwrap_or_default());
    let mut started = Vec::new();
    for number in 0..PERMUTATIONS {
        let (subscription, publishing) = host.topic(&format!("permutation{number}"))?;
        for batch in seed.shuffled(chain.batches.iter().collect()) {
            host.publish_by(&publishing, batch)?;
        }
        let data = tempfile::tempdir()?;
        let database = format!("store.database=permutation{number}");
        let launch = host.launch_of(data.path(), 0, &subscription, STREAM);
        started.push((data, launch.with(&["--set", &url, "--set", &database]).spawn()?));
    }
    for (number, (data, started)) in started.into_iter().enumerate() {
        let server = started.up()?;
        durable(&server, last)?;
        let database = format!("permutation{number}");
        assert_eq!(final_state(host_data.path(), &database)?, right, "{database}");
        // What merges make of it is the same.
        crate::kills::sql(host_data.path(), &format!("OPTIMIZE TABLE {database}.tick_state FINAL"))?;
        assert_eq!(final_state(host_data.path(), &database)?, right, "{database} merged");
        drop((server, data));
    }
    Ok(())
}
