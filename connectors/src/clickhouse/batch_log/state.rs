//! The ticks of a venue as they were at the end of a height, from the history alone.
//!
//! The order of a batch stream's changes is that of the venue, so the last change of a tick is the one with the greatest
//! seq, whatever the epoch: a batch that came late belongs where its height is. Whole books are of two sorts:
//!
//! * A source snapshot is the truth at its height. The log knows the heights of these; below the lowest one that it still
//!   holds, every whole book counts as one. What the last snapshot does not name is dead, also where a late batch of a
//!   height before it tells of a life.
//! * Any other whole book was made of batches that are in the history themselves, and perhaps while one was missing. It
//!   says nothing here.
//!
//! Never: more than one instrument's history in the engine at a time.

use super::{
    BatchLog, BatchLogError,
    error::{failed, in_time},
    names::kind_text,
};
use crate::clickhouse::rows::from_store;
use clickhouse::{Row, types::UInt256};
use foldhash::HashMap;
use market::{
    Scale, Side, U256,
    batch::{BatchKind, ORDINAL_MAX, end_of, place_of},
};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

/// Live ticks that a state has at most; as many as a start takes.
pub const STATE_TICKS_MAX: usize = crate::clickhouse::restore::RESTORED_TICKS_MAX;

/// Longest read of one instrument's history: some hundred million rows.
const HISTORY_MAX: Duration = Duration::from_secs(600);

/// What a statement may hold in memory before it goes on in files: a tranche's name is used once, so there are as many
/// keys as orders, and the embedded engine has 2 GB for all.
const SPILL_BYTES: &str = "400000000";

/// A tick as it was at a height.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickAt {
    /// The venue's own spelling of its instrument.
    pub symbol: Arc<str>,
    /// Base asset.
    pub asset_0: Arc<str>,
    /// Quote asset.
    pub asset_1: Arc<str>,
    /// Its side.
    pub side: Side,
    /// Its price in steps.
    pub tick_index: i64,
    /// Its fee.
    pub fee: u32,
    /// Name of its tranche; empty if it has none.
    pub tranche: Box<str>,
    /// Its funds in quantity steps; never zero.
    pub reserves: U256,
    /// The place of its last change.
    pub seq: u64,
    /// The steps of its numbers.
    pub scale: Scale,
}

/// The low half of a version.
const SEQ: &str = "toUInt64(bitAnd(version, toUInt128(18446744073709551615)))";

#[derive(Row, Deserialize)]
struct InstrumentRow {
    symbol: Box<str>,
    asset_0: Box<str>,
    asset_1: Box<str>,
}

#[derive(Row, Deserialize)]
struct TickRow<'a> {
    asset_in: &'a str,
    tick_index: i64,
    fee: u32,
    tranche_key: &'a str,
    reserves: UInt256,
    price_exponent: i8,
    quantity_exponent: i8,
    seq: u64,
}

/// From where the history counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Base {
    /// The place of the last source snapshot.
    snapshot: Option<u64>,
    /// The first place that the log can know; every whole book before it counts.
    logged_from: u64,
    /// The place of each instrument's last whole book before that.
    wholes: HashMap<Box<str>, u64>,
}

impl Base {
    /// The place from which an instrument's rows count.
    fn from(&self, symbol: &str) -> u64 {
        self.snapshot.or_else(|| self.wholes.get(symbol).copied()).unwrap_or(0)
    }
}

impl BatchLog {
    /// Every tick of the venue's instruments that lived at the end of a height, by symbol, side, price, fee and tranche.
    /// What is not in `tick_updates` yet is not seen: the cursor must have reached the height.
    ///
    /// # Errors
    /// [`BatchLogError`], among them [`BatchLogError::TooManyTicks`].
    pub async fn state_at(&self, height: u64) -> Result<Vec<TickAt>, BatchLogError> {
        self.state_of_at_most(height, STATE_TICKS_MAX).await
    }

    async fn state_of_at_most(&self, height: u64, ticks_max: usize) -> Result<Vec<TickAt>, BatchLogError> {
        let base = self.base(height).await?;
        let sql = "SELECT ?fields FROM instrument_version FINAL WHERE venue = ? ORDER BY symbol, asset_0, asset_1";
        let query = self.client.query(sql).bind(self.venue.name());
        let instruments = in_time("read the instruments", HISTORY_MAX, query.fetch_all::<InstrumentRow>()).await?;
        let mut ticks = Vec::new();
        for instrument in &instruments {
            let reading = self.ticks_of(instrument, &base, height, ticks_max, &mut ticks);
            let action = "read the history of an instrument";
            let read = tokio::time::timeout(HISTORY_MAX, reading).await;
            read.map_err(|_| BatchLogError::TimedOut { action, seconds: HISTORY_MAX.as_secs() })??;
        }
        Ok(ticks)
    }

    async fn base(&self, height: u64) -> Result<Base, BatchLogError> {
        let sql = "SELECT count(), min(height) FROM raw_events WHERE venue = ? AND stream = ? AND kind != 'message'";
        let logged = self.rows::<(u64, u64)>("read the log's beginning", sql, &[]).await?;
        let logged_from = match logged.first() {
            Some((rows, lowest)) if *rows > 0 => place_of(*lowest, 0).unwrap_or(u64::MAX),
            _ => u64::MAX,
        };
        let wholes = format!("SELECT symbol, {SEQ} AS seq FROM tick_updates WHERE venue = ? AND whole = 1");
        // A snapshot that was logged and never delivered left no rows.
        let sql = format!(
            "SELECT count(), max(seq) FROM ({wholes}) WHERE seq IN (SELECT height * ? + ? FROM raw_events \
             WHERE venue = ? AND stream = ? AND height <= ? AND kind = '{}')",
            kind_text(BatchKind::Snapshot)
        );
        let ordinals = ORDINAL_MAX + 1;
        let query = self.client.query(&sql).bind(self.venue.name()).bind(ordinals).bind(ORDINAL_MAX);
        let query = query.bind(self.venue.name()).bind(&*self.stream).bind(height);
        let (rows, last) = in_time("find the last snapshot", HISTORY_MAX, query.fetch_one::<(u64, u64)>()).await?;
        let snapshot = (rows > 0).then_some(last);
        let sql = format!("SELECT symbol, max(seq) FROM ({wholes}) WHERE seq < ? AND seq <= ? GROUP BY symbol");
        let query = self.client.query(&sql).bind(self.venue.name()).bind(logged_from).bind(end_of(height));
        let wholes = in_time("find the whole books", HISTORY_MAX, query.fetch_all::<(String, u64)>()).await?;
        Ok(Base {
            snapshot,
            logged_from,
            wholes: wholes.into_iter().map(|(symbol, seq)| (symbol.into(), seq)).collect(),
        })
    }

    async fn ticks_of(
        &self,
        instrument: &InstrumentRow,
        base: &Base,
        height: u64,
        ticks_max: usize,
        ticks: &mut Vec<TickAt>,
    ) -> Result<(), BatchLogError> {
        let sql = format!(
            "SELECT asset_in, tick_index, fee, tranche_key, last.1 AS reserves, last.2 AS price_exponent, \
             last.3 AS quantity_exponent, last.4 AS seq FROM ( \
             SELECT asset_in, tick_index, fee, tranche_key, \
             argMax((reserves, price_exponent, quantity_exponent, {SEQ}), ({SEQ}, version)) AS last FROM tick_updates \
             WHERE asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ? AND {SEQ} >= ? AND {SEQ} <= ? \
             AND (whole = 0 OR {SEQ} = ? OR {SEQ} < ?) \
             GROUP BY asset_in, tick_index, fee, tranche_key HAVING last.1 > 0 \
             ) ORDER BY asset_in = ?, tick_index, fee, tranche_key"
        );
        let InstrumentRow { symbol, asset_0, asset_1 } = instrument;
        let from = base.from(symbol);
        let query = self.client.query(&sql).bind(&**asset_0).bind(&**asset_1).bind(self.venue.name()).bind(&**symbol);
        let query = query.bind(from).bind(end_of(height)).bind(from).bind(base.logged_from).bind(&**asset_0);
        let query = query
            .with_setting("max_bytes_before_external_group_by", SPILL_BYTES)
            .with_setting("max_bytes_before_external_sort", SPILL_BYTES);
        let failed = || failed("read the history of an instrument");
        let mut rows = query.fetch::<TickRow<'_>>().map_err(failed())?;
        let [symbol, asset_0, asset_1] = [symbol, asset_0, asset_1].map(|text| Arc::<str>::from(&**text));
        while let Some(row) = rows.next().await.map_err(failed())? {
            let side = match row.asset_in {
                asset if *asset == *asset_0 => Side::Ask,
                asset if *asset == *asset_1 => Side::Bid,
                asset => return Err(BatchLogError::Asset { symbol: (&*symbol).into(), asset: asset.into() }),
            };
            if ticks.len() >= ticks_max {
                return Err(BatchLogError::TooManyTicks { height, limit: ticks_max });
            }
            ticks.push(TickAt {
                symbol: Arc::clone(&symbol),
                asset_0: Arc::clone(&asset_0),
                asset_1: Arc::clone(&asset_1),
                side,
                tick_index: row.tick_index,
                fee: row.fee,
                tranche: row.tranche_key.into(),
                reserves: from_store(row.reserves),
                seq: row.seq,
                scale: Scale { price: row.price_exponent, quantity: row.quantity_exponent },
            });
        }
        Ok(())
    }
}
