//! The levels of book messages of both protocols, and what the events of one message come to per instrument.
//!
//! Never: a level whose side is guessed.

use super::message::{BookEvent, Change, Frame, Level, Row};
use crate::venue_feed::{
    self, Undecodable, excerpt,
    number::{LevelText, token},
};
use market::{Side, Venue};
use serde_json::value::RawValue;
use std::borrow::Cow;

const VENUE: Venue = Venue::Coinbase;

/// A side by either protocol's name.
fn side(text: &str) -> Result<Side, Undecodable> {
    match text {
        "buy" | "bid" => Ok(Side::Bid),
        "sell" | "offer" | "ask" => Ok(Side::Ask),
        _ => Err(Undecodable::Field { venue: VENUE, field: "side", text: excerpt(text) }),
    }
}

/// The side that took, by the maker's.
pub(super) fn taker(maker: &str) -> Result<Side, Undecodable> {
    match maker {
        "buy" | "BUY" => Ok(Side::Ask),
        "sell" | "SELL" => Ok(Side::Bid),
        _ => Err(Undecodable::Field { venue: VENUE, field: "side", text: excerpt(maker) }),
    }
}

/// Something that a message of its kind must have.
pub(super) fn required<'a>(raw: Option<&'a RawValue>, field: &'static str) -> Result<&'a RawValue, Undecodable> {
    raw.ok_or_else(|| Undecodable::Field { venue: VENUE, field, text: "".into() })
}

/// The changes of an `l2update`.
pub(super) fn changes<'a>(frame: &Frame<'a>) -> Result<Vec<LevelText<'a>>, Undecodable> {
    let changes: Vec<Change<'a>> = venue_feed::json(VENUE, required(frame.changes, "changes")?.get())?;
    let level = |(name, price, size): &Change<'a>| {
        Ok(LevelText { side: side(token(name))?, price: token(price), quantity: token(size) })
    };
    changes.iter().map(level).collect()
}

/// The levels of a `snapshot`.
pub(super) fn whole<'a>(frame: &Frame<'a>) -> Result<Vec<LevelText<'a>>, Undecodable> {
    let mut levels = Vec::new();
    for (side, raw, field) in [(Side::Bid, frame.bids, "bids"), (Side::Ask, frame.asks, "asks")] {
        let rows: Vec<Level<'a>> = venue_feed::json(VENUE, required(raw, field)?.get())?;
        levels.extend(rows.iter().map(|(price, size)| LevelText { side, price: token(price), quantity: token(size) }));
    }
    Ok(levels)
}

/// What one message of Advanced Trade says of one instrument.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) symbol: Cow<'a, str>,
    /// It is the whole book, changes behind it included.
    pub(super) snapshot: bool,
    pub(super) levels: Result<Vec<LevelText<'a>>, Undecodable>,
}

/// The events of one message, put together by instrument: they have one place in the order of arrival, so they are one
/// change.
pub(super) fn merged<'a>(events: &[BookEvent<'a>]) -> Vec<Told<'a>> {
    let mut all: Vec<Told<'a>> = Vec::new();
    for event in events {
        let at = all.iter().position(|told| told.symbol == event.product_id).unwrap_or_else(|| {
            all.push(Told { symbol: event.product_id.clone(), snapshot: false, levels: Ok(Vec::new()) });
            all.len() - 1
        });
        let Some(told) = all.get_mut(at) else { continue };
        let (Ok(levels), snapshot) = (&mut told.levels, event.kind == "snapshot") else { continue };
        if snapshot {
            levels.clear();
            told.snapshot = true;
        }
        match rows(event, snapshot) {
            Ok(rows) => levels.extend(rows),
            Err(error) => told.levels = Err(error),
        }
    }
    all
}

fn rows<'a>(event: &BookEvent<'a>, snapshot: bool) -> Result<Vec<LevelText<'a>>, Undecodable> {
    if !snapshot && event.kind != "update" {
        return Err(Undecodable::Field { venue: VENUE, field: "type", text: excerpt(&event.kind) });
    }
    let rows: Vec<Row<'a>> = venue_feed::json(VENUE, event.updates.get())?;
    let level = |row: &Row<'a>| {
        Ok(LevelText { side: side(&row.side)?, price: token(row.price_level), quantity: token(row.new_quantity) })
    };
    rows.iter().map(level).collect()
}
