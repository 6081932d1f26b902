//! Takes away a row whose version nobody of us ever had. It cannot be written over: whatever is right is older.
//!
//! Never: a row of another key or version.

use super::compare::TickName;
use crate::clickhouse::{read::ReadError, rows::asset_in};
use clickhouse::Client;
use market::{Instrument, Version};

/// Removes the row of a tick at exactly that version from `tick_state`, and, if the history has it, from there and from what
/// else was filled by it. Returns when it is gone.
///
/// # Errors
/// [`ReadError`].
pub async fn remove(
    client: &Client,
    instrument: &Instrument,
    name: &TickName,
    version: Version,
    in_history: bool,
) -> Result<(), ReadError> {
    const TICKS: [&str; 2] = ["tick_state", "tick_updates"];
    // They are filled once more, with what is right, by what is written after it.
    const INSTRUMENTS: [&str; 2] = ["instrument_version", "book_snapshots"];
    let all = if in_history { TICKS.len() } else { 1 };
    for table in TICKS.into_iter().take(all) {
        let statement = format!(
            "ALTER TABLE {table} DELETE WHERE asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ? \
             AND version = toUInt128(?) AND asset_in = ? AND tick_index = ? AND fee = ? AND tranche_key = ? \
             SETTINGS mutations_sync = 1"
        );
        let query = of(client, &statement, instrument, version);
        let key = &name.key;
        let query = query.bind(asset_in(instrument, name.side)).bind(key.tick_index).bind(key.fee);
        query.bind(key.tranche_key()).execute().await.map_err(failed)?;
    }
    for table in INSTRUMENTS.into_iter().filter(|_| in_history) {
        let statement = format!(
            "ALTER TABLE {table} DELETE WHERE asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ? \
             AND version = toUInt128(?) SETTINGS mutations_sync = 1"
        );
        of(client, &statement, instrument, version).execute().await.map_err(failed)?;
    }
    Ok(())
}

fn failed(source: clickhouse::error::Error) -> ReadError {
    ReadError::Store { what: "(or remove) a row that is ahead", source }
}

fn of(client: &Client, statement: &str, instrument: &Instrument, version: Version) -> clickhouse::query::Query {
    let (asset_0, asset_1) = (&*instrument.asset_0, &*instrument.asset_1);
    let query = client.query(statement).bind(asset_0).bind(asset_1).bind(instrument.venue.name());
    query.bind(&*instrument.symbol).bind(version.to_u128().to_string())
}
