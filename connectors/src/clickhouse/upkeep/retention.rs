//! How long tables keep their rows. The server removes older ones by itself, in merges.
//!
//! Never: a table whose rows replace others, the trades excepted; a block of a batch stream's log, from which books are
//! rebuilt; a change of a table that has it already.

use super::{UpkeepError, failed};
use clickhouse::Client;

/// Days that each table keeps its rows; 0 leaves the table as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// `tick_updates` and `history_gaps`.
    pub history_days: u32,
    /// `trades`, and with them the candles.
    pub trades_days: u32,
    /// `raw_events`, messages of venues alone.
    pub messages_days: u32,
    /// `audits` and `audit_evidence`.
    pub audits_days: u32,
}

impl Retention {
    /// Table, time, days, and what of it is meant.
    fn rules(&self) -> [(&'static str, &'static str, u32, &'static str); 6] {
        [
            ("tick_updates", "ingestion_timestamp", self.history_days, ""),
            ("history_gaps", "noted_at", self.history_days, ""),
            ("trades", "ingestion_timestamp", self.trades_days, ""),
            ("raw_events", "ingestion_timestamp", self.messages_days, " DELETE WHERE kind = 'message'"),
            ("audits", "begun_at", self.audits_days, ""),
            ("audit_evidence", "found_at", self.audits_days, ""),
        ]
    }
}

/// Gives tables their retention. What is older already goes with the next merges.
///
/// # Errors
/// [`UpkeepError`]; the tables before have theirs.
pub async fn keep(client: &Client, retention: &Retention) -> Result<(), UpkeepError> {
    for (table, time, days, what) in retention.rules() {
        if days == 0 {
            continue;
        }
        let full = client
            .query("SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = ?")
            .bind(table)
            .fetch_one::<String>();
        let full = full.await.map_err(failed("read a table's retention"))?;
        if !full.contains(&format!("TTL toDateTime({time}) + toIntervalDay({days})")) {
            tracing::info!(table, days, "the table keeps its rows for so long from now on");
            let ttl = format!("ALTER TABLE {table} MODIFY TTL toDateTime({time}) + toIntervalDay({days}){what}");
            let statement = client.query_raw(&ttl).with_setting("materialize_ttl_after_modify", "0");
            statement.execute().await.map_err(failed("set a table's retention"))?;
        }
    }
    Ok(())
}
