//! Books and changes as they go out: JSON whose numbers are exact text, or the wire's own bytes.
//!
//! Never: a book without its version, mark and age; a number as a float.

use super::wish::Source;
use crate::{
    hub::{BookView, Content, WholeReason},
    row::Row,
};
use bytes::Bytes;
use connectors::clickhouse::StoredTick;
use market::{Directory, Instrument, Level, LevelChange, Scale, Side};
use serde::Serialize;
use std::sync::Arc;
use wire::{
    Block, Body, BookSnapshot, ChainKind, Dictionary, DictionaryInstrument, DictionaryPair, EncodeError, Frame,
};

/// What is said of a book's state where it comes from the store.
const STORED: &str = "stored";

/// A book, or changes of one, on the way out.
#[derive(Clone, Debug)]
pub(super) struct Shown<'a> {
    pub(super) instrument: &'a Arc<Instrument>,
    pub(super) source: Source,
    pub(super) view: BookView,
    /// Of a stored book: ticks that changed after its version.
    pub(super) newer_ticks: Option<usize>,
}

impl Shown<'_> {
    pub(super) fn state(&self) -> &'static str {
        match self.source {
            Source::Memory => self.view.feed.state.name(),
            Source::Store => STORED,
        }
    }
}

/// What every answer about an instrument begins with.
#[derive(Serialize)]
struct Head<'a> {
    instrument: &'a str,
    source: &'static str,
    /// `EPOCH:SEQ`, to be given as `since`.
    version: Option<String>,
    epoch: Option<u64>,
    seq: Option<String>,
    state: &'static str,
    flags: Vec<&'static str>,
    age_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer_ticks: Option<usize>,
}

impl<'a> Head<'a> {
    fn of(shown: &Shown<'a>) -> Self {
        let version = shown.view.version;
        Self {
            instrument: &shown.instrument.text,
            source: shown.source.name(),
            version: version.map(|version| version.to_string()),
            epoch: version.map(|version| version.epoch),
            seq: version.map(|version| version.seq.to_string()),
            state: shown.state(),
            flags: shown.view.feed.flags.names(),
            age_ms: shown.view.age_ms,
            newer_ticks: shown.newer_ticks,
        }
    }
}

/// A book, or what of it changed.
#[derive(Serialize)]
pub(super) struct BookBody<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    changes: Option<ChangesHead>,
    price_exponent: Option<i8>,
    quantity_exponent: Option<i8>,
    bids: Vec<Row>,
    asks: Vec<Row>,
    /// Worst prices known of bids and asks, where there is more.
    horizon: [Option<String>; 2],
}

/// What changes say beside their levels.
#[derive(Serialize)]
struct ChangesHead {
    whole: bool,
    reason: Option<&'static str>,
    from: Option<String>,
}

impl<'a> BookBody<'a> {
    /// A book.
    pub(super) fn book(shown: &Shown<'a>) -> Self {
        let view = &shown.view;
        let [bids, asks] = sides(&view.content);
        let rows = |levels: Vec<Level>| levels.into_iter().map(|level| Row::of(view.scale, level)).collect();
        let exponents = view.version.map(|_| view.scale);
        Self {
            head: Head::of(shown),
            changes: None,
            price_exponent: exponents.map(|scale| scale.price),
            quantity_exponent: exponents.map(|scale| scale.quantity),
            bids: rows(bids),
            asks: rows(asks),
            horizon: view.horizon.map(|price| price.map(|price| view.scale.price_text(price))),
        }
    }

    /// Changes, or the whole book in their place.
    pub(super) fn changes(shown: &Shown<'a>) -> Self {
        let changes = match &shown.view.content {
            Content::Whole { reason, .. } => ChangesHead { whole: true, reason: Some(reason.name()), from: None },
            Content::Changes { from, .. } => ChangesHead { whole: false, reason: None, from: Some(from.to_string()) },
        };
        Self { changes: Some(changes), ..Self::book(shown) }
    }
}

fn sides(content: &Content) -> [Vec<Level>; 2] {
    match content {
        Content::Whole { bids, asks, .. } => [bids.clone(), asks.clone()],
        Content::Changes { levels, .. } => Side::BOTH.map(|side| {
            let of_side = |change: &LevelChange| (change.side == side).then_some(change.level);
            levels.iter().filter_map(of_side).collect()
        }),
    }
}

/// What of the stored ticks changed, each with its own version.
#[derive(Serialize)]
pub(super) struct TicksBody<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    changes: ChangesHead,
    ticks: Vec<TickRow<'a>>,
}

#[derive(Serialize)]
struct TickRow<'a> {
    side: &'static str,
    price: String,
    quantity: String,
    tick_index: String,
    price_exponent: i8,
    quantity_exponent: i8,
    fee: u32,
    tranche: &'a str,
    version: String,
}

impl<'a> TicksBody<'a> {
    /// Ticks that changed since a version, or all that live with the reason why.
    pub(super) fn of(
        shown: &Shown<'a>,
        ticks: &'a [StoredTick],
        changes: Result<market::Version, WholeReason>,
    ) -> Self {
        let changes = ChangesHead {
            whole: changes.is_err(),
            reason: changes.err().map(WholeReason::name),
            from: changes.ok().map(|from| from.to_string()),
        };
        Self { head: Head::of(shown), changes, ticks: ticks.iter().map(TickRow::of).collect() }
    }
}

impl<'a> TickRow<'a> {
    fn of(tick: &'a StoredTick) -> Self {
        Self {
            side: match tick.side {
                Side::Bid => "bid",
                Side::Ask => "ask",
            },
            price: tick.scale.price_text(tick.key.tick_index),
            quantity: tick.scale.quantity_text(tick.reserves),
            tick_index: tick.key.tick_index.to_string(),
            price_exponent: tick.scale.price,
            quantity_exponent: tick.scale.quantity,
            fee: tick.key.fee,
            tranche: tick.key.tranche_key(),
            version: tick.version.to_string(),
        }
    }
}

/// Books in the wire's bytes, numbered from 0 in their order.
///
/// # Errors
/// [`EncodeError`] if a book is larger than a message may be.
pub(super) fn bytes(books: &[Shown<'_>], directory: &Directory, at_ms: u64) -> Result<Bytes, EncodeError> {
    let mut pairs = Vec::new();
    let mut instruments = Vec::with_capacity(books.len());
    let mut blocks = Vec::with_capacity(books.len());
    for (id, shown) in (0_u32..).zip(books) {
        let instrument = shown.instrument;
        let known = pairs.iter().position(|pair| *pair == instrument.pair);
        let pair = known.unwrap_or_else(|| {
            pairs.push(instrument.pair);
            pairs.len().saturating_sub(1)
        });
        instruments.push(DictionaryInstrument {
            id,
            venue: instrument.venue,
            symbol: (*instrument.symbol).into(),
            asset_0: (*instrument.asset_0).into(),
            asset_1: (*instrument.asset_1).into(),
            pair: u32::try_from(pair).unwrap_or(u32::MAX),
        });
        blocks.push(Block::BookSnapshot(snapshot(id, &shown.view)));
    }
    let pair = |(id, pair): (u32, market::PairId)| {
        let (asset_0, asset_1) = match directory.pair(pair) {
            Some(pair) => ((*pair.asset_0).into(), (*pair.asset_1).into()),
            None => Default::default(),
        };
        DictionaryPair { id, asset_0, asset_1 }
    };
    let pairs = (0_u32..).zip(pairs).map(pair).collect();
    let dictionary = Dictionary { generation: 0, instruments, pairs };
    Body { dictionary, frame: Frame { chain: ChainKind::Conflated, frame: 0, at_ms, blocks } }.encode()
}

fn snapshot(id: u32, view: &BookView) -> BookSnapshot {
    let [bids, asks] = sides(&view.content);
    // Without a version there are no steps either; these are what terminals are told then.
    let scale = if view.version.is_some() { view.scale } else { Scale { price: 0, quantity: 0 } };
    BookSnapshot {
        id,
        version: view.version.unwrap_or_default(),
        scale,
        feed: view.feed,
        age_ms: view.age_ms,
        horizon: view.horizon,
        bids,
        asks,
    }
}
