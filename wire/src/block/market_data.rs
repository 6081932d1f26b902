//! Quotes, trades, the best across venues, and status: small, absolute, needing no chain.
//!
//! Never: a state that only a former block would complete.

use super::{
    Cursor, get_feed, get_level, get_scale, get_version, put_feed, put_level, put_scale, put_version, side_code,
};
use crate::{
    block::{BestBlock, QuoteBlock, StatusBlock, TradesBlock},
    bounds::{TRADE_ID_BYTES_MAX, TRADES_MAX},
    error::{DecodeError, EncodeError},
    varint::{Reader, put_count, put_i8, put_text, put_u256, put_varint},
};
use market::{Best, BestSide, Quote, Side, Trade, Venue, quote::Exact};

/// Marks, order, price, quantity and time have at least a byte each.
const TRADE_BYTES_MIN: usize = 5;

impl QuoteBlock {
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        put_varint(out, u64::from(self.id));
        put_version(out, self.version);
        put_scale(out, self.scale);
        put_feed(out, self.feed);
        put_varint(out, self.age_ms);
        out.push(presence(self.quote.bid.is_some(), self.quote.ask.is_some()));
        let mut cursor = Cursor::default();
        for level in [self.quote.bid, self.quote.ask].into_iter().flatten() {
            put_level(out, &mut cursor, level)?;
        }
        Ok(())
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = reader.u32()?;
        let version = get_version(reader)?;
        let scale = get_scale(reader)?;
        let feed = get_feed(reader)?;
        let age_ms = reader.varint()?;
        let marks = reader.bits("quote presence", 2)?;
        let mut cursor = Cursor::default();
        let mut level = |mark| if marks & mark == 0 { Ok(None) } else { get_level(reader, &mut cursor).map(Some) };
        let quote = Quote { bid: level(1)?, ask: level(2)? };
        Ok(Self { id, version, scale, quote, feed, age_ms })
    }
}

impl TradesBlock {
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        put_varint(out, u64::from(self.id));
        put_scale(out, self.scale);
        put_count(out, self.trades.len(), TRADES_MAX)?;
        let (mut order, mut price, mut time) = (Cursor::default(), Cursor::default(), Cursor::default());
        for trade in &self.trades {
            let named = *trade.id != *trade.order.to_string();
            out.push(side_code(trade.taker) | (u8::from(named) << 1));
            order.put(out, trade.order.cast_signed());
            if named {
                put_text(out, &trade.id, TRADE_ID_BYTES_MAX)?;
            }
            price.put(out, trade.tick_index);
            put_u256(out, trade.quantity);
            time.put(out, trade.venue_ns.cast_signed());
        }
        Ok(())
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = reader.u32()?;
        let scale = get_scale(reader)?;
        let count = reader.count(TRADES_MAX, TRADE_BYTES_MIN)?;
        let mut trades = Vec::with_capacity(count);
        let (mut order, mut price, mut time) = (Cursor::default(), Cursor::default(), Cursor::default());
        for _ in 0..count {
            let marks = reader.bits("trade marks", 2)?;
            let taker = if marks & 1 == 0 { Side::Bid } else { Side::Ask };
            let order = order.get(reader)?.cast_unsigned();
            let plain = order.to_string();
            let id = if marks & 2 == 0 { plain.clone().into() } else { reader.text(TRADE_ID_BYTES_MAX)? };
            if marks & 2 != 0 && *id == *plain {
                return Err(DecodeError::NotCanonical);
            }
            trades.push(Trade {
                id,
                order,
                tick_index: price.get(reader)?,
                quantity: reader.u256()?,
                taker,
                venue_ns: time.get(reader)?.cast_unsigned(),
            });
        }
        Ok(Self { id, scale, trades })
    }
}

impl BestBlock {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.pair));
        out.push(presence(self.best.bid.is_some(), self.best.ask.is_some()));
        for side in [self.best.bid, self.best.ask].into_iter().flatten() {
            put_exact(out, side.price);
            put_exact(out, side.quantity);
            out.push(venue_code(side.venue));
        }
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let pair = reader.u32()?;
        let marks = reader.bits("best presence", 2)?;
        let mut side = |mark| if marks & mark == 0 { Ok(None) } else { get_best_side(reader).map(Some) };
        let best = Best { bid: side(1)?, ask: side(2)? };
        Ok(Self { pair, best })
    }
}

impl StatusBlock {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id));
        put_feed(out, self.feed);
        put_varint(out, self.age_ms);
        out.push(u8::from(self.version.is_some()));
        if let Some(version) = self.version {
            put_version(out, version);
        }
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = reader.u32()?;
        let feed = get_feed(reader)?;
        let age_ms = reader.varint()?;
        let version = if reader.bits("version presence", 1)? == 1 { Some(get_version(reader)?) } else { None };
        Ok(Self { id, version, feed, age_ms })
    }
}

fn presence(bid: bool, ask: bool) -> u8 {
    u8::from(bid) | (u8::from(ask) << 1)
}

fn get_best_side(reader: &mut Reader<'_>) -> Result<BestSide, DecodeError> {
    let price = get_exact(reader)?;
    let quantity = get_exact(reader)?;
    let code = reader.byte()?;
    let venue = Venue::ALL.into_iter().find(|venue| venue_code(*venue) == code).ok_or(DecodeError::UnknownVenue)?;
    Ok(BestSide { price, quantity, venue })
}

/// The place in [`Venue::ALL`], which only grows at its end.
fn venue_code(venue: Venue) -> u8 {
    let at = Venue::ALL.iter().position(|known| *known == venue);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

pub(super) fn put_exact(out: &mut Vec<u8>, value: Exact) {
    put_u256(out, value.steps());
    put_i8(out, value.exponent());
}

/// Trailing zeros belong into the exponent, so that one number has one encoding.
pub(super) fn get_exact(reader: &mut Reader<'_>) -> Result<Exact, DecodeError> {
    let (steps, exponent) = (reader.u256()?, reader.i8()?);
    let value = Exact::new(steps, exponent);
    let canonical = value.steps() == steps && value.exponent() == exponent;
    if canonical { Ok(value) } else { Err(DecodeError::NotCanonical) }
}
