//! Rows of `tick_updates` and their plain insert by the official client.
//!
//! Never: a token or a setting; these are what the baseline does without.

use anyhow::{Context, Result};
use clickhouse::{Client, Row, types::UInt256};
use serde::{Deserialize, Serialize};

/// A row of `tick_updates`.
#[derive(Clone, Row, Serialize, Deserialize)]
pub(super) struct Tick {
    pub(super) venue: String,
    pub(super) symbol: String,
    pub(super) asset_0: String,
    pub(super) asset_1: String,
    pub(super) asset_in: String,
    pub(super) tick_index: i64,
    pub(super) fee: u32,
    pub(super) tranche_key: String,
    pub(super) reserves: UInt256,
    pub(super) reserves_zero: u8,
    pub(super) version: u128,
    pub(super) whole: u8,
    pub(super) price_exponent: i8,
    pub(super) quantity_exponent: i8,
    pub(super) updated_at: i64,
    pub(super) ingestion_timestamp: i64,
    pub(super) shown_at: i64,
    pub(super) raw_id: String,
}

/// Inserts rows into a table.
pub(super) async fn insert_rows(client: &Client, table: &str, rows: &[Tick]) -> Result<()> {
    let mut insert = client.insert::<Tick>(table).await?;
    for row in rows {
        insert.write(row).await?;
    }
    insert.end().await.with_context(|| format!("an insert into {table}"))
}
