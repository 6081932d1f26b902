//! Healing after a crash between two views: an insert writes `tick_updates` first and then what each view makes of it,
//! so a server or engine that dies in between leaves the last batch out of some of the filled tables. Whoever sent it
//! repeats it, unless it died as well; then this finds what is missing, and fills it.
//!
//! The batch that is missing is the last one, and versions only grow, so an instrument lacks something where
//! `tick_updates` has a greater version than the filled table. Only rows above that version are read.
//! Several blocks of a batch stream may be under way at once, and one of them may be cut off below the greatest version:
//! that one the stream's log brings again, from the cursor on and under the same token, which fills the views.
//!
//! Never: a row that a view would not have made; a read of the whole history.

use super::{
    instruments::{Above, INSTRUMENTS_PER_STATEMENT, Named, statement_on},
    schema,
};
use clickhouse::{Client, Row};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} in the store")]
pub struct HealError {
    /// What was tried.
    action: &'static str,
    /// The client's error.
    #[source]
    source: clickhouse::error::Error,
}

pub(super) fn failed(action: &'static str) -> impl FnOnce(clickhouse::error::Error) -> HealError {
    move |source| HealError { action, source }
}

/// How many rows of `tick_updates` each filled table had not been given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// Missing in `tick_state`.
    pub tick_state: u64,
    /// Missing in `instrument_version`.
    pub instrument_version: u64,
    /// Missing in `book_snapshots`.
    pub book_snapshots: u64,
}

impl Healed {
    fn of(&mut self, filled: Filled) -> &mut u64 {
        match filled {
            Filled::TickState => &mut self.tick_state,
            Filled::InstrumentVersion => &mut self.instrument_version,
            Filled::BookSnapshots => &mut self.book_snapshots,
        }
    }
}

/// A table that a view of `tick_updates` fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    TickState,
    InstrumentVersion,
    BookSnapshots,
}

impl Filled {
    const ALL: [Self; 3] = [Self::TickState, Self::InstrumentVersion, Self::BookSnapshots];

    const fn table(self) -> &'static str {
        match self {
            Self::TickState => "tick_state",
            Self::InstrumentVersion => "instrument_version",
            Self::BookSnapshots => "book_snapshots",
        }
    }

    const fn view(self) -> &'static str {
        match self {
            Self::TickState => "tick_state_fill",
            Self::InstrumentVersion => "instrument_version_fill",
            Self::BookSnapshots => "book_snapshots_fill",
        }
    }

    /// Which rows of `tick_updates` its view takes.
    const fn takes(self) -> &'static str {
        match self {
            Self::TickState | Self::InstrumentVersion => "",
            Self::BookSnapshots => "whole = 1 AND ",
        }
    }
}

/// The greatest version of an instrument in each of [`Filled::ALL`].
type Reached = [Option<u128>; 3];

#[derive(Row, Deserialize)]
struct VersionRow {
    asset_0: Box<str>,
    asset_1: Box<str>,
    venue: Box<str>,
    symbol: Box<str>,
    greatest: u128,
}

#[derive(Row, Deserialize)]
struct MissingRow {
    asset_0: Box<str>,
    asset_1: Box<str>,
    venue: Box<str>,
    symbol: Box<str>,
    missing: u64,
}

/// Finds and fills what is missing. Idempotent; what a writer does at the same time does no harm.
///
/// # Errors
/// [`HealError`]; what was filled before stays.
pub async fn heal(client: &Client) -> Result<Healed, HealError> {
    let reached = reached(client).await?;
    let mut healed = Healed::default();
    // Both of these take every row, so what has nothing above the lesser of the two is right in both.
    let all: Vec<Above<'_>> = reached.iter().map(|(named, [state, version, _])| (named, *state.min(version))).collect();
    let suspects = missing(client, Filled::TickState, &all).await?;
    for (at, filled) in Filled::ALL.into_iter().enumerate() {
        let above = |(named, reached): (_, &Reached)| (named, reached.get(at).copied().flatten());
        let asked: Vec<Above<'_>> = match filled {
            Filled::BookSnapshots => reached.iter().map(above).collect(),
            Filled::TickState | Filled::InstrumentVersion => {
                suspects.iter().filter_map(|(named, _)| reached.get_key_value(*named)).map(above).collect()
            }
        };
        let lacking = missing(client, filled, &asked).await?;
        let rows = lacking.iter().map(|(_, rows)| rows).sum();
        *healed.of(filled) = rows;
        if rows > 0 {
            tracing::warn!(table = filled.table(), rows, "a crash left rows out of a table; they are filled in");
            let lacks = |(named, _): &&Above<'_>| lacking.binary_search_by_key(named, |(named, _)| named).is_ok();
            let lacking: Vec<Above<'_>> = asked.iter().filter(lacks).copied().collect();
            fill(client, filled, &lacking).await?;
        }
    }
    Ok(healed)
}

async fn reached(client: &Client) -> Result<BTreeMap<Named, Reached>, HealError> {
    let mut reached = BTreeMap::<Named, Reached>::new();
    for (at, filled) in Filled::ALL.into_iter().enumerate() {
        let query = format!(
            "SELECT asset_0, asset_1, venue, symbol, max(version) AS greatest FROM {} \
             GROUP BY asset_0, asset_1, venue, symbol",
            filled.table()
        );
        let rows = client.query(&query).fetch_all::<VersionRow>().await.map_err(failed("read the versions"))?;
        for row in rows {
            let VersionRow { asset_0, asset_1, venue, symbol, greatest } = row;
            let named = Named { asset_0, asset_1, venue, symbol };
            if let Some(place) = reached.entry(named).or_default().get_mut(at) {
                *place = Some(greatest);
            }
        }
    }
    // The rows below the floor are gone on purpose.
    let query = "SELECT asset_0, asset_1, venue, symbol, toUInt128(max(version) - 1) AS greatest FROM tick_floors \
                 GROUP BY asset_0, asset_1, venue, symbol";
    for row in client.query(query).fetch_all::<VersionRow>().await.map_err(failed("read the floors"))? {
        let VersionRow { asset_0, asset_1, venue, symbol, greatest } = row;
        let [state, ..] = reached.entry(Named { asset_0, asset_1, venue, symbol }).or_default();
        *state = (*state).max(Some(greatest));
    }
    // Instruments whose very first batch was cut off; the index leaves out what belongs to known ones alone.
    let query = "SELECT DISTINCT asset_0, asset_1, venue, symbol FROM tick_updates \
                 WHERE (asset_0, asset_1, venue) NOT IN (SELECT asset_0, asset_1, venue FROM instrument_version)";
    for named in client.query(query).fetch_all::<Named>().await.map_err(failed("look for new instruments"))? {
        reached.entry(named).or_default();
    }
    Ok(reached)
}

/// Which of the instruments have rows above their versions that the view takes, and how many.
async fn missing<'a>(client: &Client, filled: Filled, asked: &[Above<'a>]) -> Result<Vec<(&'a Named, u64)>, HealError> {
    let template = format!(
        "SELECT asset_0, asset_1, venue, symbol, count() AS missing FROM tick_updates WHERE {}{{rows}} \
         GROUP BY asset_0, asset_1, venue, symbol",
        filled.takes()
    );
    let mut found = Vec::new();
    for some in asked.chunks(INSTRUMENTS_PER_STATEMENT) {
        let query = statement_on(client, &template, some);
        for row in query.fetch_all::<MissingRow>().await.map_err(failed("look for missing rows"))? {
            let MissingRow { asset_0, asset_1, venue, symbol, missing } = row;
            let row = Named { asset_0, asset_1, venue, symbol };
            found.extend(some.iter().find(|(named, _)| **named == row).map(|(named, _)| (*named, missing)));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Gives a table what its view makes of the rows. Without deduplication: the server may remember the rows from an
/// attempt that was undone.
async fn fill(client: &Client, filled: Filled, lacking: &[Above<'_>]) -> Result<(), HealError> {
    let rows = "FROM (SELECT * FROM tick_updates WHERE {rows}) AS tick_updates";
    for some in lacking.chunks(INSTRUMENTS_PER_STATEMENT) {
        let made = schema::view_select(filled.view()).replacen("FROM tick_updates", rows, 1);
        let statement = statement_on(client, &format!("INSERT INTO {} {made}", filled.table()), some);
        statement.with_setting("insert_deduplicate", "0").execute().await.map_err(failed("fill in missing rows"))?;
    }
    Ok(())
}
