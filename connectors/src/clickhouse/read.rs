//! Reads of the stored state: an instrument's book, its live keys, and the versions of all instruments.
//!
//! Never: a read of `tick_state` without FINAL where a dead tick would count; PREWHERE, which runs before FINAL.

mod state;

pub use state::{StoredLimits, StoredState, changes, limits, state};

use super::{
    rows::{StoredKey, asset_in, from_store},
    writer::LiveKey,
};
use clickhouse::{Client, Row, types::UInt256};
use market::{Instrument, Scale, Side, U256, Version};
use serde::Deserialize;

/// Why a read gave nothing usable.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store did not answer as it should.
    #[error("cannot read {what} from the store")]
    Store {
        /// What was read.
        what: &'static str,
        /// The client's error.
        #[source]
        source: clickhouse::error::Error,
    },
    /// A row's resting asset is none of its instrument's.
    #[error("a stored tick of {instrument} rests {asset:?}, which is none of its assets")]
    Asset {
        /// The instrument.
        instrument: Box<str>,
        /// The asset as stored.
        asset: Box<str>,
    },
}

/// A live tick as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTick {
    /// Its side.
    pub side: Side,
    /// Its key within the side.
    pub key: StoredKey,
    /// Its funds in quantity steps.
    pub reserves: U256,
    /// The version of its last change.
    pub version: Version,
    /// The steps of its numbers.
    pub scale: Scale,
    /// The venue's time of the change, Unix nanoseconds; 0 if unknown.
    pub updated_ns: i64,
    /// When we received it, Unix nanoseconds.
    pub received_ns: i64,
}

/// The greatest version of an instrument.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct StoredVersion {
    /// Name of the venue.
    pub venue: String,
    /// The venue's own spelling of the instrument.
    pub symbol: String,
    /// Base asset.
    pub asset_0: String,
    /// Quote asset.
    pub asset_1: String,
    /// As [`Version::to_u128`].
    pub version: u128,
    /// Power of ten of the price step at that version.
    pub price_exponent: i8,
    /// Power of ten of the quantity step at that version.
    pub quantity_exponent: i8,
}

impl StoredVersion {
    /// The version in two parts.
    #[must_use]
    pub fn version(&self) -> Version {
        Version::from_u128(self.version)
    }
}

#[derive(Row, Deserialize)]
struct TickRow {
    asset_in: String,
    tick_index: i64,
    fee: u32,
    tranche_key: String,
    reserves: UInt256,
    version: u128,
    price_exponent: i8,
    quantity_exponent: i8,
    updated_at: i64,
    ingestion_timestamp: i64,
}

fn failed(what: &'static str) -> impl FnOnce(clickhouse::error::Error) -> ReadError {
    move |source| ReadError::Store { what, source }
}

/// The live ticks of an instrument, by side, price, fee.
///
/// # Errors
/// [`ReadError`].
pub async fn book(client: &Client, instrument: &Instrument) -> Result<Vec<StoredTick>, ReadError> {
    let rows = client
        .query(
            "SELECT ?fields FROM tick_state FINAL WHERE asset_0 = ? AND asset_1 = ? AND venue = ? AND reserves_zero = 0 \
             ORDER BY asset_in, tick_index, fee, tranche_key",
        )
        .bind(&*instrument.asset_0)
        .bind(&*instrument.asset_1)
        .bind(instrument.venue.name())
        .fetch_all::<TickRow>()
        .await
        .map_err(failed("a book"))?;
    rows.into_iter().map(|row| stored_tick(instrument, &row)).collect()
}

fn stored_tick(instrument: &Instrument, row: &TickRow) -> Result<StoredTick, ReadError> {
    let side = Side::BOTH.into_iter().find(|side| asset_in(instrument, *side) == row.asset_in);
    let text = || instrument.text.as_ref().into();
    let side = side.ok_or_else(|| ReadError::Asset { instrument: text(), asset: row.asset_in.as_str().into() })?;
    let tranche = (!row.tranche_key.is_empty()).then(|| row.tranche_key.as_str().into());
    Ok(StoredTick {
        side,
        key: StoredKey { tick_index: row.tick_index, fee: row.fee, tranche },
        reserves: from_store(row.reserves),
        version: Version::from_u128(row.version),
        scale: Scale { price: row.price_exponent, quantity: row.quantity_exponent },
        updated_ns: row.updated_at,
        received_ns: row.ingestion_timestamp,
    })
}

/// The greatest stored version of every instrument.
///
/// # Errors
/// [`ReadError`].
pub async fn instrument_versions(client: &Client) -> Result<Vec<StoredVersion>, ReadError> {
    let query = "SELECT ?fields FROM instrument_version FINAL ORDER BY venue, symbol, asset_0, asset_1";
    client.query(query).fetch_all().await.map_err(failed("the versions"))
}

/// The live keys of an instrument, each with the version of its last change.
///
/// # Errors
/// [`ReadError`].
pub async fn live_keys(client: &Client, instrument: &Instrument) -> Result<Vec<LiveKey>, ReadError> {
    let live = book(client, instrument).await?;
    Ok(live.into_iter().map(|tick| LiveKey { side: tick.side, key: tick.key, version: tick.version }).collect())
}
