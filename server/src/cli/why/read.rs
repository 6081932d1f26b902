//! What the store has of one instrument and its ticks.
//!
//! Never: a dead tick among the live ones, be it by its own row or by a whole book that does not name it.

use super::{Name, TickName};
use crate::{cli::Failure, exit::Exit};
use anyhow::anyhow;
use clickhouse::{Client, Row, query::Query};
use market::{Scale, Side, U256, Venue, Version};
use serde::Deserialize;

/// The low half of a version, which orders the changes of a batch stream over all epochs.
const SEQ: &str = "bitAnd(version, toUInt128(18446744073709551615))";

/// An instrument as the store knows it.
#[derive(Clone, Debug)]
pub(super) struct Instrument {
    pub(super) venue: Venue,
    pub(super) symbol: Box<str>,
    pub(super) asset_0: Box<str>,
    pub(super) asset_1: Box<str>,
    /// Its greatest version.
    pub(super) version: Version,
    pub(super) scale: Scale,
    /// Unix nanoseconds; 0 if unknown.
    pub(super) updated_ns: u64,
    pub(super) received_ns: u64,
    /// The greatest version at which it was written whole; 0 if never.
    pub(super) whole: u128,
}

impl Instrument {
    fn asset_in(&self, side: Side) -> &str {
        match side {
            Side::Ask => &self.asset_0,
            Side::Bid => &self.asset_1,
        }
    }
}

/// What tells a tick from all others of its instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) side: Side,
    pub(super) tick_index: i64,
    pub(super) fee: u32,
    pub(super) tranche: Box<str>,
}

/// A tick's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TickValue {
    pub(super) key: Key,
    pub(super) reserves: U256,
    pub(super) version: u128,
    pub(super) scale: Scale,
}

/// A row of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) version: Version,
    pub(super) key: Key,
    pub(super) reserves: U256,
    pub(super) scale: Scale,
    /// It is of a whole book.
    pub(super) whole: bool,
    /// Unix nanoseconds; 0 if unknown.
    pub(super) updated_ns: u64,
    pub(super) received_ns: u64,
    pub(super) raw_id: Box<str>,
}

#[derive(Row, Deserialize)]
struct InstrumentRow {
    asset_0: Box<str>,
    asset_1: Box<str>,
    version: u128,
    price_exponent: i8,
    quantity_exponent: i8,
    updated_at: i64,
    ingestion_timestamp: i64,
}

#[derive(Row, Deserialize)]
struct ChangeRow {
    ask: u8,
    tick_index: i64,
    fee: u32,
    tranche_key: Box<str>,
    reserves_text: String,
    version: u128,
    whole: u8,
    price_exponent: i8,
    quantity_exponent: i8,
    updated_at: i64,
    ingestion_timestamp: i64,
    raw_id: Box<str>,
}

const CHANGE: &str = "SELECT asset_in = asset_0 AS ask, tick_index, fee, tranche_key, toString(reserves) AS reserves_text, \
     version, whole, price_exponent, quantity_exponent, updated_at, ingestion_timestamp, raw_id FROM tick_updates";

const VALUE: &str = "SELECT asset_in = asset_0 AS ask, tick_index, fee, tranche_key, toString(reserves) AS reserves_text, \
     version, toUInt8(0) AS whole, price_exponent, quantity_exponent, updated_at, ingestion_timestamp, '' AS raw_id \
     FROM tick_state FINAL";

/// The beginning of every condition; its binds are those of [`Reader::query`].
const INSTRUMENT: &str = "WHERE asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ?";

const KEY: &str = "AND asset_in = ? AND tick_index = ? AND fee = ? AND tranche_key = ?";

fn failed(error: clickhouse::error::Error) -> Failure {
    Failure::new(Exit::Store, error)
}

fn ns(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

impl ChangeRow {
    fn change(self) -> Result<Change, Failure> {
        let side = if self.ask == 1 { Side::Ask } else { Side::Bid };
        let key = Key { side, tick_index: self.tick_index, fee: self.fee, tranche: self.tranche_key };
        Ok(Change {
            version: Version::from_u128(self.version),
            key,
            reserves: self
                .reserves_text
                .parse()
                .map_err(|error: <U256 as std::str::FromStr>::Err| Failure::new(Exit::Store, error))?,
            scale: Scale { price: self.price_exponent, quantity: self.quantity_exponent },
            whole: self.whole == 1,
            updated_ns: ns(self.updated_at),
            received_ns: ns(self.ingestion_timestamp),
            raw_id: self.raw_id,
        })
    }

    fn value(self) -> Result<TickValue, Failure> {
        let Change { version, key, reserves, scale, .. } = self.change()?;
        Ok(TickValue { key, reserves, version: version.to_u128(), scale })
    }
}

/// Reads about one instrument.
pub(super) struct Reader {
    client: Client,
    instrument: Instrument,
}

impl Reader {
    /// Finds the instrument.
    pub(super) async fn new(client: Client, name: &Name) -> Result<Self, Failure> {
        let Name { venue, symbol } = name;
        let query = "SELECT ?fields FROM instrument_version FINAL WHERE venue = ? AND symbol = ? ORDER BY asset_0, asset_1 LIMIT 1";
        let found = client.query(query).bind(venue.name()).bind(&**symbol).fetch_optional::<InstrumentRow>();
        let Some(row) = found.await.map_err(failed)? else {
            let words = format!("the store has nothing of {venue}/{symbol}; /v1/instruments lists what a server has");
            return Err(Failure::new(Exit::Usage, anyhow!(words)));
        };
        let instrument = Instrument {
            venue: *venue,
            symbol: symbol.clone(),
            asset_0: row.asset_0,
            asset_1: row.asset_1,
            version: Version::from_u128(row.version),
            scale: Scale { price: row.price_exponent, quantity: row.quantity_exponent },
            updated_ns: ns(row.updated_at),
            received_ns: ns(row.ingestion_timestamp),
            whole: 0,
        };
        let mut reader = Self { client, instrument };
        let sql = format!("SELECT max(version) FROM book_snapshots FINAL {INSTRUMENT}");
        reader.instrument.whole = reader.query(&sql).fetch_one::<u128>().await.map_err(failed)?;
        Ok(reader)
    }

    pub(super) fn instrument(&self) -> &Instrument {
        &self.instrument
    }

    pub(super) fn into_instrument(self) -> Instrument {
        self.instrument
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    fn query(&self, sql: &str) -> Query {
        let Instrument { venue, symbol, asset_0, asset_1, .. } = &self.instrument;
        self.client.query(sql).bind(&**asset_0).bind(&**asset_1).bind(venue.name()).bind(&**symbol)
    }

    fn query_key(&self, sql: &str, key: &Key) -> Query {
        let query = self.query(sql).bind(self.instrument.asset_in(key.side));
        query.bind(key.tick_index).bind(key.fee).bind(&*key.tranche)
    }

    /// What orders changes, the last one first: of batches their place, also where one came late and in another epoch.
    fn last_first(&self) -> String {
        if self.instrument.venue.sends_batches() {
            format!("{SEQ} DESC, version DESC")
        } else {
            "version DESC".to_owned()
        }
    }

    /// The change that gave the instrument its version.
    pub(super) async fn last_change(&self) -> Result<Option<Change>, Failure> {
        let sql = format!(
            "{CHANGE} {INSTRUMENT} AND version = toUInt128(?) ORDER BY asset_in, tick_index, fee, tranche_key LIMIT 1"
        );
        let query = self.query(&sql).bind(self.instrument.version.to_u128().to_string());
        query.fetch_optional::<ChangeRow>().await.map_err(failed)?.map(ChangeRow::change).transpose()
    }

    /// How many ticks live on a side.
    pub(super) async fn live(&self, side: Side) -> Result<u64, Failure> {
        let sql = format!(
            "SELECT count() FROM tick_state FINAL {INSTRUMENT} AND asset_in = ? AND reserves_zero = 0 AND version >= toUInt128(?)"
        );
        let query = self.query(&sql).bind(self.instrument.asset_in(side)).bind(self.instrument.whole.to_string());
        query.fetch_one().await.map_err(failed)
    }

    /// The best live ticks of a side, the best first.
    pub(super) async fn best(&self, side: Side, most: u64) -> Result<Vec<TickValue>, Failure> {
        let order = if side == Side::Ask { "ASC" } else { "DESC" };
        let sql = format!(
            "{VALUE} {INSTRUMENT} AND asset_in = ? AND reserves_zero = 0 AND version >= toUInt128(?) \
             ORDER BY tick_index {order}, fee, tranche_key LIMIT {most}"
        );
        let query = self.query(&sql).bind(self.instrument.asset_in(side)).bind(self.instrument.whole.to_string());
        let rows = query.fetch_all::<ChangeRow>().await.map_err(failed)?;
        rows.into_iter().map(ChangeRow::value).collect()
    }

    /// The one tick that a name means: the only one at its price, or the only one that lives.
    pub(super) async fn key(&self, name: &TickName, most: u64) -> Result<Key, Failure> {
        let sql = format!(
            "{VALUE} {INSTRUMENT} AND asset_in = ? AND tick_index = ? AND (? OR fee = ?) AND (? OR tranche_key = ?) \
             ORDER BY reserves_zero, fee, tranche_key LIMIT {most}"
        );
        let (fee, tranche) = (name.fee, name.tranche.as_deref());
        // A fee names a pool, and a pool has no tranche.
        let tranche = tranche.or(fee.map(|_| ""));
        let query = self.query(&sql).bind(self.instrument.asset_in(name.side)).bind(name.tick_index);
        let query = query.bind(fee.is_none()).bind(fee.unwrap_or_default());
        let query = query.bind(tranche.is_none()).bind(tranche.unwrap_or_default());
        let rows = query.fetch_all::<ChangeRow>().await.map_err(failed)?;
        let found = rows.into_iter().map(ChangeRow::value).collect::<Result<Vec<_>, _>>()?;
        let lives = |tick: &&TickValue| !tick.reserves.is_zero() && tick.version >= self.instrument.whole;
        let live: Vec<&TickValue> = found.iter().filter(lives).collect();
        match (live.as_slice(), found.as_slice()) {
            ([one], _) => Ok(one.key.clone()),
            ([], [one]) => Ok(one.key.clone()),
            (_, []) => {
                let words =
                    format!("{} never had a tick at {}:{}", self.instrument.symbol, name.side.name(), name.tick_index);
                Err(Failure::new(Exit::Usage, anyhow!(words)))
            }
            (live, found) => {
                let keys = if live.is_empty() {
                    found.iter().map(|tick| &tick.key).collect()
                } else {
                    live.iter().map(|tick| &tick.key).collect::<Vec<_>>()
                };
                let names: String = keys.iter().map(|key| format!("\n  {}", super::show::key_text(key))).collect();
                Err(Failure::new(Exit::Usage, anyhow!("several ticks are meant; name one of them:{names}")))
            }
        }
    }

    /// A tick's row in the current state, dead ones included.
    pub(super) async fn value(&self, key: &Key) -> Result<Option<TickValue>, Failure> {
        let sql = format!("{VALUE} {INSTRUMENT} {KEY}");
        let row = self.query_key(&sql, key).fetch_optional::<ChangeRow>().await.map_err(failed)?;
        row.map(ChangeRow::value).transpose()
    }

    /// The last change of a tick that is not of a whole book.
    pub(super) async fn origin(&self, key: &Key) -> Result<Option<Change>, Failure> {
        let sql = format!("{CHANGE} {INSTRUMENT} {KEY} AND whole = 0 ORDER BY {} LIMIT 1", self.last_first());
        let row = self.query_key(&sql, key).fetch_optional::<ChangeRow>().await.map_err(failed)?;
        row.map(ChangeRow::change).transpose()
    }

    /// The changes of a tick, the last one first.
    pub(super) async fn history(&self, key: &Key, limit: u64) -> Result<Vec<Change>, Failure> {
        let sql = format!("{CHANGE} {INSTRUMENT} {KEY} ORDER BY {} LIMIT {limit}", self.last_first());
        let rows = self.query_key(&sql, key).fetch_all::<ChangeRow>().await.map_err(failed)?;
        rows.into_iter().map(ChangeRow::change).collect()
    }
}
