//! The sweep: removes the rows of ticks that have been dead for longer than late data may take, so that none of them can
//! live again. Merges with CLEANUP and a TTL cannot do it (docs/adr/0017-the-sweep.md).
//!
//! 1. A *floor* is set for an instrument: a version below which nothing that lives comes into `tick_state` any more, which
//!    the view that fills it sees to. It is above the newest tombstone that is older than the horizon, and never above the
//!    instrument's own version, at which books and corrections may be written again.
//! 2. When the floor has stood for the horizon, no insert from before it is under way, and the rows of a tick that is dead
//!    below it can no longer change. They are listed.
//! 3. What the tombstones replaced is removed, everywhere; only then are the tombstones.
//!
//! After each statement, and in the middle of it, every tick that was dead is dead, and every tick that lived lives.
//!
//! Never: a tombstone removed before all that it replaced; a list that is computed again while it is worked off.

use super::{UpkeepError, failed};
use clickhouse::Client;
use std::time::Duration;

/// How late data may be: DESIGN's six hours.
pub const HORIZON: Duration = Duration::from_hours(6);

/// Dead ticks of one list: some 20 MB in the server while a mutation looks rows up in it.
const KEYS_MAX: u64 = 100_000;

/// Lists that one sweep works off, so that it ends; what is left is for the next one.
const LISTS_MAX: u32 = 100;

/// Longest wait for one statement: it rewrites the parts that hold dead ticks, of tables of some GB at most.
const STEP_MAX: Duration = Duration::from_mins(30);

/// Ticks are grouped in the order of the table, one after the other, and not all in memory.
const IN_ORDER: &str = "optimize_aggregation_in_order";

/// What names a tick: the sorting key of `tick_state`.
const KEY: &str = "asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key";

/// A sweep at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// The present, Unix nanoseconds; its number too.
    pub now_ns: u64,
    /// How late data may be; [`HORIZON`] but in tests.
    pub horizon: Duration,
    /// Fewest dead ticks for which parts are rewritten.
    pub keys_min: u64,
    /// Venues whose instruments are swept up to the cursor of their batch streams only: what is above it may be replayed.
    pub batch_venues: &'a [&'a str],
}

/// The statements of a sweep, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepStep {
    /// Lists the rows of ticks that are dead below a floor that has stood long enough.
    List,
    /// Removes those that were replaced.
    RemoveReplaced,
    /// Removes the tombstones.
    RemoveTombstones,
    /// Empties the list.
    Clear,
    /// Sets new floors where none is standing.
    SetFloors,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Dead ticks that were removed.
    pub ticks: u64,
    /// Their rows.
    pub rows: u64,
    /// Instruments that have a floor now, standing or not.
    pub floors: u64,
}

/// Sweeps once.
///
/// # Errors
/// [`UpkeepError`]; what was done before stays, and nothing has come back to life. The next sweep goes on.
pub async fn sweep(client: &Client, sweep: &Sweep<'_>) -> Result<Swept, UpkeepError> {
    let mut swept = Swept::default();
    for _ in 0..LISTS_MAX {
        let dead: u64 = sweep.count_dead(client).await?;
        if dead == 0 || dead < sweep.keys_min {
            break;
        }
        for step in [SweepStep::Clear, SweepStep::List] {
            sweep.perform(client, step).await?;
        }
        let (rows, ticks) = sweep.listed(client).await?;
        for step in [SweepStep::RemoveReplaced, SweepStep::RemoveTombstones, SweepStep::Clear] {
            sweep.perform(client, step).await?;
        }
        swept.rows += rows;
        swept.ticks += ticks;
        if dead <= KEYS_MAX {
            break;
        }
    }
    sweep.perform(client, SweepStep::SetFloors).await?;
    let floors = client.query("SELECT count() FROM tick_floors FINAL").fetch_one::<u64>().await;
    swept.floors = floors.map_err(failed("count the floors"))?;
    Ok(swept)
}

impl Sweep<'_> {
    /// Performs one step. Steps may be repeated, and left out from any place on.
    ///
    /// # Errors
    /// [`UpkeepError`].
    pub async fn perform(&self, client: &Client, step: SweepStep) -> Result<(), UpkeepError> {
        let (action, statement) = match step {
            SweepStep::List => ("list the rows of dead ticks", self.list()),
            SweepStep::RemoveReplaced => ("remove replaced rows", self.remove(false)),
            SweepStep::RemoveTombstones => ("remove tombstones", self.remove(true)),
            SweepStep::Clear => {
                let old = self.cutoff_ns();
                let clear = format!("ALTER TABLE swept_rows DELETE WHERE sweep = {} OR sweep < {old}", self.now_ns);
                ("empty the list", clear)
            }
            SweepStep::SetFloors => ("set floors", self.set_floors()),
        };
        // A mutation that is waited for: only then is the next step right.
        let query = client.query_raw(&statement).with_setting("mutations_sync", "2").with_setting(IN_ORDER, "1");
        let performed = tokio::time::timeout(STEP_MAX, query.with_setting("max_threads", "1").execute()).await;
        let slow = |_| UpkeepError::Slow { action, seconds: STEP_MAX.as_secs() };
        performed.map_err(slow)?.map_err(failed(action))
    }

    /// Before this, Unix nanoseconds.
    fn cutoff_ns(&self) -> u64 {
        self.now_ns.saturating_sub(u64::try_from(self.horizon.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Ticks whose newest rows are tombstones, with the version of the newest, `last`, and the time of its arrival,
    /// `since`. Where a row that lives has the same version the tick is not dead.
    fn dead() -> String {
        format!(
            "SELECT {KEY}, any(symbol) AS symbol, maxIf(version, reserves_zero = 1) AS last, \
             maxIf(ingestion_timestamp, reserves_zero = 1) AS since FROM tick_state GROUP BY {KEY} \
             HAVING last > maxIf(version, reserves_zero = 0)"
        )
    }

    /// Those of them that are dead below a floor which has stood long enough.
    fn removable(&self) -> String {
        format!(
            "SELECT {KEY}, last FROM ({}) AS dead INNER JOIN (SELECT asset_0, asset_1, venue, symbol, version AS floor \
             FROM tick_floors FINAL WHERE set_at <= fromUnixTimestamp64Nano({}::Int64)) AS floors \
             USING (asset_0, asset_1, venue, symbol) WHERE last < floor",
            Self::dead(),
            self.cutoff_ns(),
        )
    }

    async fn count_dead(&self, client: &Client) -> Result<u64, UpkeepError> {
        let query = format!("SELECT count() FROM ({})", self.removable());
        let query = client.query_raw(&query).with_setting("max_threads", "1").with_setting(IN_ORDER, "1");
        let counted = query.fetch_one().await;
        counted.map_err(failed("count dead ticks"))
    }

    fn list(&self) -> String {
        format!(
            "INSERT INTO swept_rows (sweep, {KEY}, version, newest) \
             SELECT {}, {KEY}, version, toUInt8(version = last) FROM tick_state INNER JOIN ({} ORDER BY {KEY} LIMIT {KEYS_MAX}) \
             AS removable USING ({KEY}) WHERE version <= last",
            self.now_ns,
            self.removable(),
        )
    }

    async fn listed(&self, client: &Client) -> Result<(u64, u64), UpkeepError> {
        let query = format!("SELECT count(), uniqExact({KEY}) FROM swept_rows WHERE sweep = {}", self.now_ns);
        client.query_raw(&query).fetch_one().await.map_err(failed("count the rows of dead ticks"))
    }

    fn remove(&self, newest: bool) -> String {
        format!(
            "ALTER TABLE tick_state DELETE WHERE ({KEY}, version) IN \
             (SELECT {KEY}, version FROM swept_rows WHERE sweep = {} AND newest = {})",
            self.now_ns,
            u8::from(newest),
        )
    }

    /// A floor stands until what is below it was removed, and only then gives way to the next one.
    fn set_floors(&self) -> String {
        let cutoff = self.cutoff_ns();
        let venues = self.batch_venues.iter().map(|venue| format!("'{venue}'")).collect::<Vec<_>>();
        let venues = if venues.is_empty() { "''".to_owned() } else { venues.join(", ") };
        format!(
            "INSERT INTO tick_floors (venue, symbol, asset_0, asset_1, version, set_at) \
             SELECT venue, symbol, asset_0, asset_1, least(max(last) + toUInt128(1), any(reached)) AS version, \
             fromUnixTimestamp64Nano({}::Int64) FROM ({}) AS dead INNER JOIN \
             (SELECT venue, symbol, asset_0, asset_1, version AS reached FROM instrument_version FINAL) AS instruments \
             USING (venue, symbol, asset_0, asset_1) LEFT JOIN (SELECT venue, min(height) AS height FROM batch_cursors FINAL GROUP BY venue) AS cursors \
             USING (venue) WHERE last <= reached AND since <= fromUnixTimestamp64Nano({cutoff}::Int64) AND (venue NOT IN ({venues}) \
             OR bitShiftRight(bitAnd(last, toUInt128(18446744073709551615)), 30) <= ifNull(height, 0)) \
             AND (venue, symbol, asset_0, asset_1) NOT IN (SELECT venue, symbol, asset_0, asset_1 FROM tick_floors FINAL \
             WHERE set_at > fromUnixTimestamp64Nano({cutoff}::Int64)) \
             GROUP BY venue, symbol, asset_0, asset_1",
            self.now_ns,
            Self::dead(),
        )
    }
}
