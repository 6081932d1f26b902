//! The rows of the store's tables as the writer holds them and as the client sends them.
//!
//! Never: a wrapped number; a time beyond the column's range becomes the greatest that it holds.

mod gap;

pub(super) use gap::HistoryGapRow;
pub use gap::{GapReason, HistoryGap, LeftOut};

use crate::raw::{RawFrame, RawPayload};
use clickhouse::{Row, types::UInt256};
use market::{
    AdmittedTrade, Instrument, Scale, Side, SymbolId, TickKey, Tranches, U256, Venue, Version,
    batch::{height_of, ordinal_of},
};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The tables that the writer inserts into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// What arrived, as it arrived.
    RawEvents,
    /// Admitted changes of ticks; its views fill `tick_state`, `instrument_version` and `book_snapshots`.
    TickUpdates,
    /// Trades.
    Trades,
    /// What the history lacks.
    HistoryGaps,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::RawEvents, Self::TickUpdates, Self::Trades, Self::HistoryGaps];

    /// The table's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RawEvents => "raw_events",
            Self::TickUpdates => "tick_updates",
            Self::Trades => "trades",
            Self::HistoryGaps => "history_gaps",
        }
    }
}

/// One message of a venue, waiting to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// Whose message it is.
    pub venue: Venue,
    /// The connection that carried it.
    pub stream: Arc<str>,
    /// Its place on that connection; strictly increasing.
    pub position: u64,
    /// The place of the message before it on that connection; its own if it is the first.
    pub previous: u64,
    /// Its bytes, exactly as they were on the wire.
    pub payload: Box<[u8]>,
    /// When it was received, Unix nanoseconds.
    pub received_ns: u64,
}

impl RawEvent {
    /// A frame of a venue at a place of its connection.
    #[must_use]
    pub fn of_frame(venue: Venue, frame: &RawFrame, position: u64, previous: u64) -> Self {
        let payload = match &frame.raw {
            RawPayload::Text(text) => text.as_bytes(),
            RawPayload::Binary(bytes) => bytes,
        };
        let stream = Arc::clone(&frame.conn);
        Self { venue, stream, position, previous, payload: payload.into(), received_ns: frame.ts_ns }
    }

    /// Bytes that it occupies while it waits.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::try_from(size_of::<Self>().saturating_add(self.payload.len())).unwrap_or(u64::MAX)
    }
}

/// What names a tick within one side of one instrument in the store: its tranche by name, which outlives the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredKey {
    /// Price in the instrument's price step.
    pub tick_index: i64,
    /// Pool fee; 0 on order-book venues.
    pub fee: u32,
    /// Name of the limit-order tranche, where there is one.
    pub tranche: Option<Arc<str>>,
}

impl StoredKey {
    /// The key of an order-book price: no fee, no tranche.
    #[must_use]
    pub const fn at(tick_index: i64) -> Self {
        Self { tick_index, fee: 0, tranche: None }
    }

    /// A key of this process; `None` if its tranche has no name, or has one no longer.
    #[must_use]
    pub fn of(key: TickKey, tranches: &Tranches) -> Option<Self> {
        let tranche = if key.tranche.0 == 0 { None } else { Some(tranches.name(key.tranche)?) };
        Some(Self { tick_index: key.tick_index, fee: key.fee, tranche })
    }

    /// The store's text of the tranche, empty where there is none.
    #[must_use]
    pub fn tranche_key(&self) -> &str {
        self.tranche.as_deref().unwrap_or("")
    }
}

/// One admitted change, waiting to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickUpdate {
    /// Its instrument.
    pub instrument: Arc<Instrument>,
    /// Its side.
    pub side: Side,
    /// Its key within the side.
    pub key: StoredKey,
    /// Its funds in quantity steps; zero is a tombstone.
    pub reserves: U256,
    /// The version that it belongs to.
    pub version: Version,
    /// It is of a whole book.
    pub whole: bool,
    /// The steps of its numbers.
    pub scale: Scale,
    /// The venue's time, Unix nanoseconds; 0 if unknown.
    pub venue_ns: u64,
    /// When it was received, Unix nanoseconds.
    pub received_ns: u64,
    /// The close of the cut with which it is shown, Unix nanoseconds; 0 if unknown. Not part of a token.
    pub shown_ns: u64,
    /// Of a block: the batch stream whose log has the event, at the place that is the version's.
    pub stream: Option<Arc<str>>,
    /// It is a correction, of no event.
    pub corrects: bool,
}

/// One trade, waiting to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TradeRecord {
    /// Its instrument.
    pub instrument: Arc<Instrument>,
    /// The trade as admitted.
    pub admitted: AdmittedTrade,
}

/// Rows of one table, in the order in which they were pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Rows of [`Table::RawEvents`].
    Raw(Vec<RawEvent>),
    /// Rows of [`Table::TickUpdates`].
    Ticks(Vec<TickUpdate>),
    /// Rows of [`Table::Trades`].
    Trades(Vec<TradeRecord>),
    /// Rows of [`Table::HistoryGaps`].
    Gaps(Vec<HistoryGap>),
}

impl Rows {
    /// No rows of a table.
    #[must_use]
    pub const fn none(table: Table) -> Self {
        match table {
            Table::RawEvents => Self::Raw(Vec::new()),
            Table::TickUpdates => Self::Ticks(Vec::new()),
            Table::Trades => Self::Trades(Vec::new()),
            Table::HistoryGaps => Self::Gaps(Vec::new()),
        }
    }

    /// How many rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Raw(rows) => rows.len(),
            Self::Ticks(rows) => rows.len(),
            Self::Trades(rows) => rows.len(),
            Self::Gaps(rows) => rows.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Deduplication token: a hash of the stream's identity, the table and the content, so that a repeated attempt,
    /// and a repeated replay, has the same one, and other rows never do.
    #[must_use]
    pub fn token(&self, table: Table, stream: &str) -> Box<str> {
        let mut hash = Sha256::new();
        put_text(&mut hash, stream);
        put_text(&mut hash, table.name());
        match self {
            Self::Raw(rows) => rows.iter().for_each(|row| row.put(&mut hash)),
            Self::Ticks(rows) => rows.iter().for_each(|row| row.put(&mut hash)),
            Self::Trades(rows) => rows.iter().for_each(|row| row.put(&mut hash)),
            Self::Gaps(rows) => rows.iter().for_each(|row| row.put(&mut hash)),
        }
        super::fetch::hex(&hash.finalize()).into()
    }
}

/// Texts are preceded by their length, so that no two lists of them look alike.
pub(super) fn put_text(hash: &mut Sha256, text: &str) {
    hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
    hash.update(text);
}

fn put_instrument(hash: &mut Sha256, instrument: &Instrument) {
    for text in [&instrument.text, &instrument.asset_0, &instrument.asset_1] {
        put_text(hash, text);
    }
}

impl RawEvent {
    fn put(&self, hash: &mut Sha256) {
        put_text(hash, self.venue.name());
        put_text(hash, &self.stream);
        hash.update(self.position.to_le_bytes());
        hash.update(self.previous.to_le_bytes());
        hash.update(self.received_ns.to_le_bytes());
        hash.update(u64::try_from(self.payload.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(&self.payload);
    }
}

impl TickUpdate {
    fn put(&self, hash: &mut Sha256) {
        put_instrument(hash, &self.instrument);
        self.put_state(hash);
        hash.update([u8::from(self.whole)]);
        hash.update(self.venue_ns.to_le_bytes());
        hash.update(self.received_ns.to_le_bytes());
    }

    /// What it says of its tick, and at which version.
    fn put_state(&self, hash: &mut Sha256) {
        put_text(hash, self.side.name());
        hash.update(self.key.tick_index.to_le_bytes());
        hash.update(self.key.fee.to_le_bytes());
        put_text(hash, self.key.tranche_key());
        hash.update(self.reserves.to_le_bytes::<32>());
        hash.update(self.version.to_u128().to_le_bytes());
        hash.update([self.scale.price.to_le_bytes(), self.scale.quantity.to_le_bytes()].as_flattened());
    }
}

/// Deduplication token of a block's rows, which must be in order: that of the block and of what they say, whoever says
/// it and when. A block that a replay makes again has the same one; rows that are others, as after a change of epoch,
/// have another, because the server would drop them silently.
#[must_use]
pub fn block_token(venue: Venue, stream: &str, height: u64, rows: &[TickUpdate]) -> Box<str> {
    let mut hash = Sha256::new();
    for text in ["block", venue.name(), stream] {
        put_text(&mut hash, text);
    }
    hash.update(height.to_le_bytes());
    let mut last: Option<SymbolId> = None;
    for row in rows {
        let other = last.replace(row.instrument.id) != Some(row.instrument.id);
        hash.update([u8::from(other)]);
        if other {
            put_instrument(&mut hash, &row.instrument);
        }
        row.put_state(&mut hash);
    }
    super::fetch::hex(&hash.finalize()).into()
}

impl TradeRecord {
    fn put(&self, hash: &mut Sha256) {
        let AdmittedTrade { trade, scale, received_ns, .. } = &self.admitted;
        put_instrument(hash, &self.instrument);
        put_text(hash, &trade.id);
        put_text(hash, trade.taker.name());
        hash.update(trade.order.to_le_bytes());
        hash.update(trade.tick_index.to_le_bytes());
        hash.update(trade.quantity.to_le_bytes::<32>());
        hash.update([scale.price.to_le_bytes(), scale.quantity.to_le_bytes()].as_flattened());
        hash.update(trade.venue_ns.to_le_bytes());
        hash.update(received_ns.to_le_bytes());
    }
}

/// The asset that rests at a side's ticks.
#[must_use]
pub fn asset_in(instrument: &Instrument, side: Side) -> &str {
    match side {
        Side::Ask => &instrument.asset_0,
        Side::Bid => &instrument.asset_1,
    }
}

/// A number as the client sends it.
#[must_use]
pub(super) const fn to_store(value: U256) -> UInt256 {
    UInt256::from_le_bytes(value.to_le_bytes::<32>())
}

/// A number as the store gave it.
#[must_use]
pub(super) const fn from_store(value: UInt256) -> U256 {
    U256::from_le_bytes(value.to_le_bytes())
}

/// The column holds signed nanoseconds, to the year 2262.
pub(super) fn time(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Bytes for a column of texts, whatever they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a>(pub(super) &'a [u8]);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(self.0)
    }
}

/// A row of `raw_events` on its way. A venue's message is one part of one, and its id is its place.
#[derive(Row, Serialize)]
pub(super) struct RawEventRow<'a> {
    venue: &'a str,
    stream: &'a str,
    height: u64,
    previous_height: u64,
    part: u32,
    parts: u32,
    message_id: String,
    kind: &'a str,
    batch_id: &'a str,
    payload: Payload<'a>,
    updated_at: i64,
    published_at: i64,
    ingestion_timestamp: i64,
}

impl<'a> From<&'a RawEvent> for RawEventRow<'a> {
    fn from(event: &'a RawEvent) -> Self {
        Self {
            venue: event.venue.name(),
            stream: &event.stream,
            height: event.position,
            previous_height: event.previous,
            part: 0,
            parts: 1,
            message_id: format!("{}/{}", event.stream, event.position),
            kind: "message",
            batch_id: "",
            payload: Payload(&event.payload),
            updated_at: 0,
            published_at: time(event.received_ns),
            ingestion_timestamp: time(event.received_ns),
        }
    }
}

/// `raw_id` of a correction.
pub const CORRECTION: &str = "audit";

/// The event of a batch stream's log that made a row, as `stream/height/ordinal`; empty where none is named.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawId<'a>(&'a TickUpdate);

impl Serialize for RawId<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        if self.0.corrects {
            return out.serialize_str(CORRECTION);
        }
        let Some(stream) = &self.0.stream else { return out.serialize_str("") };
        let place = self.0.version.seq;
        out.collect_str(&format_args!("{stream}/{}/{}", height_of(place), ordinal_of(place)))
    }
}

/// A row of `tick_updates` on its way.
#[derive(Row, Serialize)]
pub(super) struct TickUpdateRow<'a> {
    venue: &'a str,
    symbol: &'a str,
    asset_0: &'a str,
    asset_1: &'a str,
    asset_in: &'a str,
    tick_index: i64,
    fee: u32,
    tranche_key: &'a str,
    reserves: UInt256,
    reserves_zero: u8,
    version: u128,
    whole: u8,
    price_exponent: i8,
    quantity_exponent: i8,
    updated_at: i64,
    ingestion_timestamp: i64,
    shown_at: i64,
    raw_id: RawId<'a>,
}

impl<'a> From<&'a TickUpdate> for TickUpdateRow<'a> {
    fn from(update: &'a TickUpdate) -> Self {
        let TickUpdate { instrument, side, key, reserves, .. } = update;
        Self {
            venue: instrument.venue.name(),
            symbol: &instrument.symbol,
            asset_0: &instrument.asset_0,
            asset_1: &instrument.asset_1,
            asset_in: asset_in(instrument, *side),
            tick_index: key.tick_index,
            fee: key.fee,
            tranche_key: key.tranche_key(),
            reserves: to_store(*reserves),
            reserves_zero: u8::from(reserves.is_zero()),
            version: update.version.to_u128(),
            whole: u8::from(update.whole),
            price_exponent: update.scale.price,
            quantity_exponent: update.scale.quantity,
            updated_at: time(update.venue_ns),
            ingestion_timestamp: time(update.received_ns),
            shown_at: time(update.shown_ns),
            raw_id: RawId(update),
        }
    }
}

/// A row of `trades` on its way.
#[derive(Row, Serialize, Deserialize)]
pub(super) struct TradeRow<'a> {
    venue: &'a str,
    symbol: &'a str,
    asset_0: &'a str,
    asset_1: &'a str,
    trade_id: &'a str,
    trade_order: u64,
    taker: &'a str,
    tick_index: i64,
    quantity_steps: UInt256,
    price_exponent: i8,
    quantity_exponent: i8,
    traded_at: i64,
    ingestion_timestamp: i64,
}

impl<'a> From<&'a TradeRecord> for TradeRow<'a> {
    fn from(record: &'a TradeRecord) -> Self {
        let TradeRecord { instrument, admitted } = record;
        Self {
            venue: instrument.venue.name(),
            symbol: &instrument.symbol,
            asset_0: &instrument.asset_0,
            asset_1: &instrument.asset_1,
            trade_id: &admitted.trade.id,
            trade_order: admitted.trade.order,
            taker: admitted.trade.taker.name(),
            tick_index: admitted.trade.tick_index,
            quantity_steps: to_store(admitted.trade.quantity),
            price_exponent: admitted.scale.price,
            quantity_exponent: admitted.scale.quantity,
            traded_at: time(admitted.trade.venue_ns),
            ingestion_timestamp: time(admitted.received_ns),
        }
    }
}
