//! The state for a cold start: every instrument's kept book, read in one pass over `tick_state` and not once per
//! instrument, after what a crash left out was filled in.
//!
//! Never: a dead tick, be it by its own row or by a whole book that does not name it; a number that was rounded.

mod kept;

pub use kept::{Kept, in_epoch};

use super::{
    heal::{self, HealError, Healed, failed},
    instruments::{Above, INSTRUMENTS_PER_STATEMENT, Named, statement_on},
    writer::BatchStreams,
};
use clickhouse::{Client, Row, types::UInt256};
use foldhash::HashMap;
use kept::KeptTick;
use market::{Restored, Scale, Tranches, Venue, Version, batch::end_of};
use serde::Deserialize;

/// Rows of `tick_state` that one statement of the pass reads, about: the embedded engine builds an answer in memory
/// before it sends it, and this is some 30 MB.
pub const PAGE_ROWS: u64 = 250_000;
/// Live ticks that a start takes: at 72 bytes each 1.2 GB here, and as much again in the books that they become.
pub const RESTORED_TICKS_MAX: usize = 16_000_000;

/// Why there is no state to start from.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store did not answer as it should.
    #[error(transparent)]
    Store(#[from] HealError),
    /// More live ticks than memory is planned for.
    #[error(
        "the store holds more than {limit} live ticks, the most that a start takes; configure another database, or remove instruments that are not traded any more"
    )]
    TooManyTicks {
        /// The bound.
        limit: usize,
    },
}

/// An instrument as the store kept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredInstrument {
    /// Its venue.
    pub venue: Venue,
    /// The venue's own spelling of it.
    pub symbol: Box<str>,
    /// Base asset.
    pub asset_0: Box<str>,
    /// Quote asset.
    pub asset_1: Box<str>,
    /// Its book and versions.
    pub restored: Restored,
}

/// What a start goes on from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredState {
    /// Every instrument of `instrument_version` whose venue is known, by name.
    pub instruments: Vec<RestoredInstrument>,
    /// What a crash had left out of the filled tables.
    pub healed: Healed,
    /// Ticks that lived in `tick_state` although a later whole book did not name them; they are dead now.
    pub buried: u64,
    /// The cursors of batch streams, in the order of venue and stream.
    pub cursors: Vec<BatchCursor>,
}

/// Up to where everything that was made of a batch stream's log is durable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchCursor {
    /// Its venue.
    pub venue: Venue,
    /// The stream's name in the log.
    pub stream: Box<str>,
    /// The height.
    pub height: u64,
}

#[derive(Row, Deserialize)]
struct InstrumentRow {
    asset_0: Box<str>,
    asset_1: Box<str>,
    venue: Box<str>,
    symbol: Box<str>,
    version: u128,
    price_exponent: i8,
    quantity_exponent: i8,
    ingestion_timestamp: i64,
}

#[derive(Row, Deserialize)]
struct WholeRow {
    asset_0: Box<str>,
    asset_1: Box<str>,
    venue: Box<str>,
    symbol: Box<str>,
    version: u128,
}

#[derive(Row, Deserialize)]
struct TickRow<'a> {
    asset_0: &'a str,
    asset_1: &'a str,
    venue: &'a str,
    symbol: &'a str,
    asset_in: &'a str,
    tick_index: i64,
    fee: u32,
    tranche_key: &'a str,
    reserves: UInt256,
    version: u128,
    price_exponent: i8,
    quantity_exponent: i8,
    ingestion_timestamp: i64,
}

#[derive(Row, Deserialize)]
struct CursorRow {
    venue: Box<str>,
    stream: Box<str>,
    height: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
struct CountRow {
    asset_0: Box<str>,
    asset_1: Box<str>,
    venue: Box<str>,
    rows: u64,
}

/// What a restore of batch streams goes by.
#[derive(Clone, Debug, Default)]
pub struct RestoreBatches {
    /// The streams, and where tranches are numbered.
    pub batches: BatchStreams,
    /// The height behind which a stream begins that has no cursor yet.
    pub begin_after: u64,
}

/// Heals the store, reads every instrument, and buries what a whole book replaced without a tombstone. To be called
/// before anything is written.
///
/// # Errors
/// [`RestoreError`].
pub async fn restore(client: &Client, batches: &RestoreBatches) -> Result<RestoredState, RestoreError> {
    restore_at_most(client, batches, RESTORED_TICKS_MAX).await
}

/// [`restore`] with a bound of the caller's.
///
/// # Errors
/// [`RestoreError`].
pub async fn restore_at_most(
    client: &Client,
    batches: &RestoreBatches,
    ticks_max: usize,
) -> Result<RestoredState, RestoreError> {
    let healed = heal::heal(client).await?;
    // Before the rows: whatever another host writes meanwhile, what is below the cursor is among them.
    let cursors = cursors(client).await?;
    let mut kept = kept_instruments(client).await?;
    let mut ticks = 0;
    for page in pages(counts(client).await?) {
        ticks += read_page(client, &page, &mut kept, &batches.batches.tranches).await?;
        if ticks > ticks_max {
            return Err(RestoreError::TooManyTicks { limit: ticks_max });
        }
    }
    let buried = bury(client, &kept).await?;
    let known = kept.into_iter().filter_map(|(named, kept)| instrument(named, kept, &cursors, batches));
    let mut instruments: Vec<_> = known.collect();
    instruments.sort_unstable_by(|one, other| (one.venue, &one.symbol).cmp(&(other.venue, &other.symbol)));
    Ok(RestoredState { instruments, healed, buried, cursors })
}

fn instrument(
    named: Named,
    kept: Kept,
    cursors: &[BatchCursor],
    batches: &RestoreBatches,
) -> Option<RestoredInstrument> {
    let Named { asset_0, asset_1, venue, symbol } = named;
    let Ok(known) = venue.parse::<Venue>() else {
        tracing::warn!(%venue, %symbol, "the store has an instrument of a venue that is not known here");
        return None;
    };
    if let Some(flaw) = kept.flaw() {
        tracing::warn!(%venue, %symbol, %flaw, "an instrument is restored without its ticks");
    }
    let cursor = known.sends_batches().then(|| end_of(height_of_cursor(known, cursors, batches)));
    Some(RestoredInstrument { venue: known, symbol, asset_0, asset_1, restored: kept.into_restored(cursor) })
}

/// Where a venue's books go on: at the cursor of its stream. Of a venue without a configured stream the least cursor
/// counts, for nothing says which one its books are of.
fn height_of_cursor(venue: Venue, cursors: &[BatchCursor], batches: &RestoreBatches) -> u64 {
    let configured = batches.batches.streams.iter().find(|of| of.venue == venue);
    let of = cursors.iter().filter(|cursor| cursor.venue == venue);
    let height =
        of.filter(|cursor| configured.is_none_or(|of| *of.stream == *cursor.stream)).map(|cursor| cursor.height);
    height.min().unwrap_or(batches.begin_after)
}

async fn cursors(client: &Client) -> Result<Vec<BatchCursor>, HealError> {
    let query = "SELECT ?fields FROM batch_cursors FINAL";
    let rows = client.query(query).fetch_all::<CursorRow>().await.map_err(failed("read the cursors"))?;
    let known = rows.into_iter().filter_map(|CursorRow { venue, stream, height }| match venue.parse() {
        Ok(venue) => Some(BatchCursor { venue, stream, height }),
        Err(_) => {
            tracing::warn!(%venue, %stream, "the store has the cursor of a venue that is not known here");
            None
        }
    });
    let mut cursors: Vec<_> = known.collect();
    cursors.sort_unstable();
    Ok(cursors)
}

async fn kept_instruments(client: &Client) -> Result<HashMap<Named, Kept>, HealError> {
    let query = "SELECT ?fields FROM instrument_version FINAL";
    let rows = client.query(query).fetch_all::<InstrumentRow>().await.map_err(failed("read the versions"))?;
    let mut kept: HashMap<Named, Kept> = rows
        .into_iter()
        .map(|row| {
            let InstrumentRow { asset_0, asset_1, venue, symbol, .. } = row;
            let scale = Scale { price: row.price_exponent, quantity: row.quantity_exponent };
            let kept = Kept::new(Version::from_u128(row.version), scale, row.ingestion_timestamp);
            (Named { asset_0, asset_1, venue, symbol }, kept)
        })
        .collect();
    let query = "SELECT ?fields FROM book_snapshots FINAL";
    for row in client.query(query).fetch_all::<WholeRow>().await.map_err(failed("read the whole books"))? {
        let WholeRow { asset_0, asset_1, venue, symbol, version } = row;
        if let Some(kept) = kept.get_mut(&Named { asset_0, asset_1, venue, symbol }) {
            kept.replaced_at(Version::from_u128(version));
        }
    }
    Ok(kept)
}

/// Rows by key, the replaced and dead ones included: an upper bound of what a read with FINAL gives.
async fn counts(client: &Client) -> Result<Vec<CountRow>, HealError> {
    let query = "SELECT asset_0, asset_1, venue, count() AS rows FROM tick_state \
                 GROUP BY asset_0, asset_1, venue ORDER BY asset_0, asset_1, venue";
    client.query(query).fetch_all().await.map_err(failed("count the ticks"))
}

/// First and last key of a page.
type Page = (CountRow, CountRow);

/// Ranges of keys of at most [`PAGE_ROWS`] rows each, but at least one key.
fn pages(counts: Vec<CountRow>) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    let mut rows = 0_u64;
    for count in counts {
        rows = rows.saturating_add(count.rows);
        match pages.last_mut() {
            Some((_, last)) if rows <= PAGE_ROWS => *last = count,
            _ => {
                rows = count.rows;
                pages.push((count.clone(), count));
            }
        }
    }
    pages
}

/// Reads the live ticks of a page; gives how many of them are kept.
async fn read_page(
    client: &Client,
    page: &Page,
    kept: &mut HashMap<Named, Kept>,
    tranches: &Tranches,
) -> Result<usize, HealError> {
    let (first, last) = page;
    // The bounds of asset_0 alone are what the index understands.
    let mut query = client
        .query(
            "SELECT ?fields FROM tick_state FINAL WHERE reserves_zero = 0 AND asset_0 >= ? AND asset_0 <= ? \
             AND (asset_0, asset_1, venue) >= (?, ?, ?) AND (asset_0, asset_1, venue) <= (?, ?, ?) \
             ORDER BY asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key",
        )
        .bind(&*first.asset_0)
        .bind(&*last.asset_0);
    for end in [first, last] {
        query = query.bind(&*end.asset_0).bind(&*end.asset_1).bind(&*end.venue);
    }
    let mut rows = query.fetch::<TickRow<'_>>().map_err(failed("read the books"))?;
    let mut taken = 0;
    let mut named: Option<Named> = None;
    while let Some(row) = rows.next().await.map_err(failed("read the books"))? {
        let same = |named: &Named| named.key() == [row.asset_0, row.asset_1, row.venue] && *named.symbol == *row.symbol;
        let named = match named.take().filter(same) {
            Some(same) => named.insert(same),
            None => named.insert(Named {
                asset_0: row.asset_0.into(),
                asset_1: row.asset_1.into(),
                venue: row.venue.into(),
                symbol: row.symbol.into(),
            }),
        };
        if let Some(kept) = kept.get_mut(named) {
            taken += usize::from(kept.take(&kept_tick(&row), tranches));
        }
    }
    Ok(taken)
}

fn kept_tick<'a>(row: &TickRow<'a>) -> KeptTick<'a> {
    KeptTick {
        assets: [row.asset_0, row.asset_1],
        asset_in: row.asset_in,
        tick_index: row.tick_index,
        fee: row.fee,
        tranche_key: row.tranche_key,
        reserves: super::rows::from_store(row.reserves),
        version: Version::from_u128(row.version),
        scale: Scale { price: row.price_exponent, quantity: row.quantity_exponent },
        received_ns: row.ingestion_timestamp,
    }
}

/// Ticks `t` that live in `tick_state` although they changed last before their whole book `b`, which does not name them.
/// A tick that it does name only waits for its row: another host's insert has filled `book_snapshots`, but `tick_state`
/// not yet; a tombstone at the same version would bury the book itself.
const REPLACED: &str = "FROM (SELECT * FROM tick_state FINAL WHERE reserves_zero = 0 AND {rows}) AS t \
     INNER JOIN (SELECT * FROM book_snapshots FINAL WHERE {rows}) AS b USING (venue, symbol, asset_0, asset_1) \
     WHERE t.version < b.version \
     AND (venue, symbol, asset_0, asset_1, t.asset_in, t.tick_index, t.fee, t.tranche_key, b.version) NOT IN \
     (SELECT venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, version FROM tick_updates \
     WHERE whole = 1 AND reserves_zero = 0 AND {rows} AND (asset_0, asset_1, venue, version) IN \
     (SELECT asset_0, asset_1, venue, version FROM book_snapshots FINAL WHERE {rows}))";

/// Writes tombstones, at the version of the whole book, for ticks that it replaced: so that a reader who does not know
/// `book_snapshots` sees the same book. A replay that was cut off between a whole book and its tombstones leaves them.
/// Gives how many these are.
async fn bury(client: &Client, kept: &HashMap<Named, Kept>) -> Result<u64, HealError> {
    let insert = "INSERT INTO tick_updates (venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, \
         reserves, reserves_zero, version, whole, price_exponent, quantity_exponent, updated_at, ingestion_timestamp) \
         SELECT venue, symbol, asset_0, asset_1, t.asset_in, t.tick_index, t.fee, t.tranche_key, toUInt256(0), 1, \
         b.version, 1, t.price_exponent, t.quantity_exponent, b.updated_at, b.ingestion_timestamp";
    let (insert, count) = (format!("{insert} {REPLACED}"), format!("SELECT count() {REPLACED}"));
    let mut replaced: Vec<Above<'_>> =
        kept.iter().filter(|(_, kept)| kept.replaced() > 0).map(|(named, _)| (named, None)).collect();
    replaced.sort_unstable();
    let mut buried = 0;
    for some in replaced.chunks(INSTRUMENTS_PER_STATEMENT) {
        let counted = statement_on(client, &count, some).fetch_one::<u64>().await;
        buried += counted.map_err(failed("count replaced ticks"))?;
        let statement = statement_on(client, &insert, some).with_setting("insert_deduplicate", "0");
        statement.execute().await.map_err(failed("bury replaced ticks"))?;
    }
    Ok(buried)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(asset_0: &str, rows: u64) -> CountRow {
        CountRow { asset_0: asset_0.into(), asset_1: "USD".into(), venue: "v".into(), rows }
    }

    #[test]
    fn pages_hold_whole_instruments_and_no_more_than_their_bound() {
        let half = PAGE_ROWS / 2;
        let counts = [("A", half), ("B", half), ("C", 1), ("D", PAGE_ROWS * 9), ("E", 1), ("F", PAGE_ROWS - 1)];
        let pages = pages(counts.map(|(asset, rows)| count(asset, rows)).to_vec());
        let ends: Vec<_> = pages.iter().map(|(first, last)| (&*first.asset_0, &*last.asset_0)).collect();
        assert_eq!(ends, [("A", "B"), ("C", "C"), ("D", "D"), ("E", "F")]);
        assert_eq!(super::pages(Vec::new()), []);
    }
}
