//! The stored state of one instrument with its version, and what of it changed since another: one statement, dead ticks
//! included.
//!
//! FINAL hides the dead, and the greatest version may be a dead tick's; so the last row of each tick is found by its
//! version, which is what the table's merges do. Inserts are one at a time and in the order of versions, so the greatest
//! version that a statement sees is the one that its ticks are at. Blocks of a batch stream are inserted side by side:
//! there the cursor, read before, tells up to where all is there.
//!
//! Never: a version whose changes may be missing; a difference over a book that was replaced.

use super::{ReadError, StoredTick, TickRow, failed, stored_tick};
use clickhouse::{Client, Row, query::Query};
use market::{Instrument, Version, batch::end_of};
use serde::Deserialize;
use std::time::Duration;

/// The stored state of an instrument, or what of it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// The version up to which everything is in it; none if nothing of the instrument is stored.
    pub version: Option<Version>,
    /// Ticks that changed after that version, so that the state is not exactly its.
    pub newer_ticks: usize,
    /// The ticks, by side, price, fee: the live ones, or those that changed, the dead among them with no reserves.
    pub ticks: Vec<StoredTick>,
}

/// Below these versions the stored changes of an instrument are not all there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredLimits {
    /// Rows of dead ticks were removed up to here.
    pub floor: Option<Version>,
    /// The book was written whole at this version.
    pub whole: Option<Version>,
}

impl StoredLimits {
    /// Whether what changed since a version is all there, in the steps of that version.
    #[must_use]
    pub fn allow(&self, since: Version) -> bool {
        self.floor.is_none_or(|floor| floor <= since) && self.whole.is_none_or(|whole| whole <= since)
    }
}

#[derive(Row, Deserialize)]
struct LimitsRow {
    floor: u128,
    whole: u128,
}

const STATE: &str = "SELECT asset_in, tick_index, fee, tranche_key, last.1 AS reserves, greatest AS version, \
     last.2 AS price_exponent, last.3 AS quantity_exponent, last.4 AS updated_at, last.5 AS ingestion_timestamp \
     FROM (SELECT asset_in, tick_index, fee, tranche_key, max(version) AS greatest, \
     argMax((reserves, price_exponent, quantity_exponent, updated_at, ingestion_timestamp), version) AS last, \
     max(max(version)) OVER () AS newest \
     FROM tick_state WHERE asset_0 = ? AND asset_1 = ? AND venue = ? GROUP BY asset_in, tick_index, fee, tranche_key) \
     WHERE greatest = newest OR ";

const ORDER: &str = " ORDER BY asset_in, tick_index, fee, tranche_key";

/// The live ticks of an instrument at their version.
///
/// # Errors
/// [`ReadError`].
pub async fn state(client: &Client, instrument: &Instrument, time_max: Duration) -> Result<StoredState, ReadError> {
    let query = client.query(&format!("{STATE} last.1 > 0 {ORDER}"));
    let mut state = read(client, instrument, query, time_max).await?;
    state.ticks.retain(|tick| !tick.reserves.is_zero());
    Ok(state)
}

/// The ticks that changed after a version, as they are now.
///
/// # Errors
/// [`ReadError`].
pub async fn changes(
    client: &Client,
    instrument: &Instrument,
    since: Version,
    time_max: Duration,
) -> Result<StoredState, ReadError> {
    // Text, because a number of 128 bits is none of SQL's literals everywhere.
    let query = client.query(&format!("{STATE} greatest > toUInt128('{}') {ORDER}", since.to_u128()));
    let mut state = read(client, instrument, query, time_max).await?;
    state.ticks.retain(|tick| tick.version > since);
    Ok(state)
}

async fn read(
    client: &Client,
    instrument: &Instrument,
    query: Query,
    time_max: Duration,
) -> Result<StoredState, ReadError> {
    let through = match instrument.venue.sends_batches() {
        true => cursor(client, instrument, time_max).await?.map(end_of),
        false => None,
    };
    let query = of_instrument(query, instrument);
    let rows = limited(query, time_max).fetch_all::<TickRow>().await.map_err(failed("the state of a book"))?;
    let ticks = rows.iter().map(|row| stored_tick(instrument, row)).collect::<Result<Vec<_>, _>>()?;
    let newest = ticks.iter().map(|tick| tick.version).max();
    let version = newest.map(|newest| match through {
        Some(place) => newest.min(Version::new(newest.epoch, place)),
        // Without a cursor nothing of a stream is known to be whole.
        None if instrument.venue.sends_batches() => Version::new(newest.epoch, 0),
        None => newest,
    });
    let newer_ticks = ticks.iter().filter(|tick| Some(tick.version) > version).count();
    Ok(StoredState { version, newer_ticks, ticks })
}

fn of_instrument(query: Query, instrument: &Instrument) -> Query {
    query.bind(&*instrument.asset_0).bind(&*instrument.asset_1).bind(instrument.venue.name())
}

/// A statement that the server itself ends after some time.
fn limited(query: Query, time_max: Duration) -> Query {
    query.with_setting("max_execution_time", time_max.as_secs().max(1).to_string())
}

/// The least cursor of a venue's streams: up to there all of them are whole.
async fn cursor(client: &Client, instrument: &Instrument, time_max: Duration) -> Result<Option<u64>, ReadError> {
    let query = client.query("SELECT min(height) FROM batch_cursors FINAL WHERE venue = ? HAVING count() > 0");
    let query = query.bind(instrument.venue.name());
    limited(query, time_max).fetch_optional::<u64>().await.map_err(failed("the cursor"))
}

/// Below which versions changes are missing. To be asked after the changes: what is removed later had its floor before.
///
/// # Errors
/// [`ReadError`].
pub async fn limits(client: &Client, instrument: &Instrument, time_max: Duration) -> Result<StoredLimits, ReadError> {
    let query = client.query(
        "SELECT ifNull((SELECT max(version) FROM tick_floors \
         WHERE asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ?), toUInt128(0)) AS floor, \
         ifNull((SELECT max(version) FROM book_snapshots \
         WHERE asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ?), toUInt128(0)) AS whole",
    );
    let query = of_instrument(of_instrument(query, instrument).bind(&*instrument.symbol), instrument);
    let query = query.bind(&*instrument.symbol);
    let row = limited(query, time_max).fetch_one::<LimitsRow>().await.map_err(failed("the limits of changes"))?;
    let version = |packed| (packed > 0).then(|| Version::from_u128(packed));
    Ok(StoredLimits { floor: version(row.floor), whole: version(row.whole) })
}
