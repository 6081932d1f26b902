//! What `tick_state` and `tick_updates` say, for an audit.
//!
//! `tick_state` is read as analysts read it, with FINAL, because of rows with equal versions the one that was inserted last
//! counts, which no aggregate tells. FINAL hides tombstones, so what changed since is read apart, after it: whatever
//! happens between the two reads is seen by the second.
//!
//! Never: a statement over more than its instruments; PREWHERE, which runs before FINAL.

use super::{
    compare::{StateRead, StateTick, TickName},
    judge::History,
};
use crate::clickhouse::{
    instruments::{Above, Named, statement_on},
    read::ReadError,
    rows::{StoredKey, asset_in, from_store},
};
use clickhouse::{Client, Row, query::Query, types::UInt256};
use foldhash::{HashMap, HashMapExt};
use market::{Instrument, Scale, Side, SymbolId, Version};
use serde::Deserialize;
use std::sync::Arc;

/// Ticks that one statement names.
const NAMES_PER_STATEMENT: usize = 500;

/// Rows of one version that are looked at for a tick: more say nothing more.
const SAME_VERSION_MAX: u64 = 8;

#[derive(Row, Deserialize)]
struct LiveRow<'a> {
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
}

#[derive(Row, Deserialize)]
struct NewerRow<'a> {
    asset_0: &'a str,
    asset_1: &'a str,
    venue: &'a str,
    symbol: &'a str,
    asset_in: &'a str,
    tick_index: i64,
    fee: u32,
    tranche_key: &'a str,
    newest: u128,
}

#[derive(Row, Deserialize)]
struct TickRow<'a> {
    asset_in: &'a str,
    tick_index: i64,
    fee: u32,
    tranche_key: &'a str,
    reserves: UInt256,
    version: u128,
    price_exponent: i8,
    quantity_exponent: i8,
}

fn failed(what: &'static str) -> impl Fn(clickhouse::error::Error) -> ReadError {
    move |source| ReadError::Store { what, source }
}

fn name_of(
    instrument: &Instrument,
    asset: &str,
    (tick_index, fee, tranche_key): (i64, u32, &str),
) -> Result<TickName, ReadError> {
    let side = Side::BOTH.into_iter().find(|side| asset_in(instrument, *side) == asset);
    let side = side.ok_or_else(|| ReadError::Asset { instrument: (*instrument.text).into(), asset: asset.into() })?;
    let tranche = (!tranche_key.is_empty()).then(|| tranche_key.into());
    Ok(TickName { side, key: StoredKey { tick_index, fee, tranche } })
}

/// An instrument with the names that its rows have.
struct Known<'a> {
    instrument: &'a Instrument,
    named: Named,
    version: Version,
}

/// The instrument of a row; mostly that of the row before.
fn found<'k, 'a>(known: &'k [Known<'a>], last: &mut usize, names: [&str; 4]) -> Option<&'k Known<'a>> {
    let [asset_0, asset_1, venue, symbol] = names;
    let is = |known: &Known<'_>| known.named.key() == [asset_0, asset_1, venue] && *known.named.symbol == *symbol;
    if !known.get(*last).is_some_and(is) {
        *last = known.iter().position(is)?;
    }
    known.get(*last)
}

/// What `tick_state` says of instruments, each with the version of its copy; every one of them is in the answer.
///
/// # Errors
/// [`ReadError`].
pub async fn states(
    client: &Client,
    copies: &[(Arc<Instrument>, Version)],
) -> Result<HashMap<SymbolId, StateRead>, ReadError> {
    let mut known: Vec<_> = copies
        .iter()
        .map(|(instrument, version)| Known { instrument, named: named(instrument), version: *version })
        .collect();
    known.sort_unstable_by(|one, other| one.named.cmp(&other.named));
    let mut states: HashMap<SymbolId, StateRead> =
        copies.iter().map(|(instrument, _)| (instrument.id, StateRead::default())).collect();
    live_rows(client, &known, &mut states).await?;
    newer_rows(client, &known, &mut states).await?;
    Ok(states)
}

fn named(instrument: &Instrument) -> Named {
    Named {
        asset_0: (*instrument.asset_0).into(),
        asset_1: (*instrument.asset_1).into(),
        venue: instrument.venue.name().into(),
        symbol: (*instrument.symbol).into(),
    }
}

async fn live_rows(
    client: &Client,
    known: &[Known<'_>],
    states: &mut HashMap<SymbolId, StateRead>,
) -> Result<(), ReadError> {
    let all: Vec<Above<'_>> = known.iter().map(|known| (&known.named, None)).collect();
    let template = "SELECT asset_0, asset_1, venue, symbol, asset_in, tick_index, fee, tranche_key, reserves, version, \
                    price_exponent, quantity_exponent FROM tick_state FINAL WHERE reserves_zero = 0 AND {rows}";
    let failed = failed("the state for an audit");
    let mut rows = statement_on(client, template, &all).fetch::<LiveRow<'_>>().map_err(&failed)?;
    let mut last = 0;
    while let Some(row) = rows.next().await.map_err(&failed)? {
        let names = [row.asset_0, row.asset_1, row.venue, row.symbol];
        let Some(Known { instrument, .. }) = found(known, &mut last, names) else { continue };
        let name = name_of(instrument, row.asset_in, (row.tick_index, row.fee, row.tranche_key))?;
        let tick = StateTick {
            reserves: from_store(row.reserves),
            version: Version::from_u128(row.version),
            scale: Scale { price: row.price_exponent, quantity: row.quantity_exponent },
        };
        states.entry(instrument.id).or_default().live.insert(name, tick);
    }
    Ok(())
}

async fn newer_rows(
    client: &Client,
    known: &[Known<'_>],
    states: &mut HashMap<SymbolId, StateRead>,
) -> Result<(), ReadError> {
    let above: Vec<Above<'_>> = known.iter().map(|known| (&known.named, Some(known.version.to_u128()))).collect();
    let template = "SELECT asset_0, asset_1, venue, symbol, asset_in, tick_index, fee, tranche_key, max(version) AS newest \
                    FROM tick_state WHERE {rows} \
                    GROUP BY asset_0, asset_1, venue, symbol, asset_in, tick_index, fee, tranche_key";
    let failed = failed("what changed during an audit");
    let mut rows = statement_on(client, template, &above).fetch::<NewerRow<'_>>().map_err(&failed)?;
    let mut last = 0;
    while let Some(row) = rows.next().await.map_err(&failed)? {
        let names = [row.asset_0, row.asset_1, row.venue, row.symbol];
        let Some(Known { instrument, .. }) = found(known, &mut last, names) else { continue };
        let name = name_of(instrument, row.asset_in, (row.tick_index, row.fee, row.tranche_key))?;
        states.entry(instrument.id).or_default().newer.insert(name, Version::from_u128(row.newest));
    }
    Ok(())
}

/// What the store says of a tick that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// The row of `tick_state` with the greatest version, a tombstone too.
    pub state: Option<StateTick>,
    /// What `tick_updates` says.
    pub history: History,
}

/// A condition on an instrument's rows, for [`bound`].
const OF_INSTRUMENT: &str = "asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ?";

fn bound(query: Query, instrument: &Instrument) -> Query {
    let (asset_0, asset_1) = (&*instrument.asset_0, &*instrument.asset_1);
    query.bind(asset_0).bind(asset_1).bind(instrument.venue.name()).bind(&*instrument.symbol)
}

/// A statement about some ticks of an instrument, whose template ends with the condition on them.
fn about(client: &Client, template: &str, instrument: &Instrument, names: &[TickName], versions: &[u128]) -> Query {
    let each = vec!["(?, ?, ?, ?)"; names.len()].join(", ");
    let query = template.replace("{of}", OF_INSTRUMENT).replace("{names}", &each);
    let mut query = bound(client.query(&query).with_setting("max_threads", "1"), instrument);
    for version in versions {
        query = query.bind(version.to_string());
    }
    for TickName { side, key } in names {
        query = query.bind(asset_in(instrument, *side)).bind(key.tick_index).bind(key.fee).bind(key.tranche_key());
    }
    query
}

/// What the store says of some ticks of an instrument, up to a version.
///
/// # Errors
/// [`ReadError`].
pub async fn witnesses(
    client: &Client,
    instrument: &Instrument,
    version: Version,
    names: &[TickName],
) -> Result<HashMap<TickName, Witness>, ReadError> {
    let template = format!(
        "SELECT max(version) FROM tick_updates WHERE {OF_INSTRUMENT} AND whole = 1 AND version <= toUInt128(?)"
    );
    let query = bound(client.query(&template), instrument).bind(version.to_u128().to_string());
    // Of no row the greatest version is zero, and everything counts.
    let whole = query.fetch_one::<u128>().await.map_err(failed("the last whole book"))?;
    let mut witnesses = HashMap::with_capacity(names.len());
    for names in names.chunks(NAMES_PER_STATEMENT) {
        let found = state_rows(client, instrument, names).await?;
        let mut said = history_rows(client, instrument, names, [whole, version.to_u128()]).await?;
        let rows = same_rows(client, instrument, names, &found).await?;
        for name in names {
            let mut history = History { last: said.remove(name), has_row: false };
            history.has_row = rows.contains(name);
            witnesses.insert(name.clone(), Witness { state: found.get(name).copied(), history });
        }
    }
    Ok(witnesses)
}

async fn state_rows(
    client: &Client,
    instrument: &Instrument,
    names: &[TickName],
) -> Result<HashMap<TickName, StateTick>, ReadError> {
    let template = "SELECT asset_in, tick_index, fee, tranche_key, reserves, version, price_exponent, quantity_exponent \
                    FROM tick_state WHERE {of} AND (asset_in, tick_index, fee, tranche_key) IN ({names}) \
                    ORDER BY version DESC LIMIT 1 BY asset_in, tick_index, fee, tranche_key";
    let failed = failed("rows that differ");
    let mut rows = about(client, template, instrument, names, &[]).fetch::<TickRow<'_>>().map_err(&failed)?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next().await.map_err(&failed)? {
        let (name, tick) = tick_of(instrument, &row)?;
        found.insert(name, tick);
    }
    Ok(found)
}

fn tick_of(instrument: &Instrument, row: &TickRow<'_>) -> Result<(TickName, StateTick), ReadError> {
    let name = name_of(instrument, row.asset_in, (row.tick_index, row.fee, row.tranche_key))?;
    let tick = StateTick {
        reserves: from_store(row.reserves),
        version: Version::from_u128(row.version),
        scale: Scale { price: row.price_exponent, quantity: row.quantity_exponent },
    };
    Ok((name, tick))
}

/// The last version of each tick, and what its rows say.
type Said = HashMap<TickName, (Version, Vec<(market::U256, Scale)>)>;

async fn history_rows(
    client: &Client,
    instrument: &Instrument,
    names: &[TickName],
    versions: [u128; 2],
) -> Result<Said, ReadError> {
    let template = format!(
        "SELECT DISTINCT asset_in, tick_index, fee, tranche_key, reserves, version, price_exponent, quantity_exponent \
         FROM tick_updates WHERE {{of}} AND version >= toUInt128(?) AND version <= toUInt128(?) \
         AND (asset_in, tick_index, fee, tranche_key) IN ({{names}}) \
         ORDER BY version DESC LIMIT {SAME_VERSION_MAX} BY asset_in, tick_index, fee, tranche_key"
    );
    let failed = failed("the history of what differs");
    let mut rows = about(client, &template, instrument, names, &versions).fetch::<TickRow<'_>>().map_err(&failed)?;
    let mut said = Said::new();
    while let Some(row) = rows.next().await.map_err(&failed)? {
        let (name, tick) = tick_of(instrument, &row)?;
        let (version, rows) = said.entry(name).or_insert_with(|| (tick.version, Vec::new()));
        if tick.version == *version {
            rows.push((tick.reserves, tick.scale));
        }
    }
    Ok(said)
}

/// Ticks of which the history has a row at the very version that `tick_state` has.
async fn same_rows(
    client: &Client,
    instrument: &Instrument,
    names: &[TickName],
    found: &HashMap<TickName, StateTick>,
) -> Result<foldhash::HashSet<TickName>, ReadError> {
    let versions: Vec<u128> = found.values().map(|row| row.version.to_u128()).collect();
    let [Some(least), Some(greatest)] = [versions.iter().min(), versions.iter().max()] else {
        return Ok(foldhash::HashSet::default());
    };
    let template = "SELECT DISTINCT asset_in, tick_index, fee, tranche_key, reserves, version, price_exponent, \
                    quantity_exponent FROM tick_updates WHERE {of} AND version >= toUInt128(?) AND version <= toUInt128(?) \
                    AND (asset_in, tick_index, fee, tranche_key) IN ({names})";
    let failed = failed("the history of what differs");
    let query = about(client, template, instrument, names, &[*least, *greatest]);
    let mut rows = query.fetch::<TickRow<'_>>().map_err(&failed)?;
    let mut same = foldhash::HashSet::default();
    while let Some(row) = rows.next().await.map_err(&failed)? {
        let (name, tick) = tick_of(instrument, &row)?;
        if found.get(&name).is_some_and(|row| row.version == tick.version) {
            same.insert(name);
        }
    }
    Ok(same)
}
