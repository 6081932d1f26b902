//! A standing view of a pair: small, absolute, needing no chain.
//!
//! Never: a state that only a former block would complete.

use super::market_data::{get_exact, put_exact};
use crate::{
    block::ViewBlock,
    error::DecodeError,
    varint::{Reader, put_signed, put_varint},
};
use market::{
    ViewValue,
    view::{Imbalance, SignedExact, ViewNumber},
};

/// What the low three bits of the marks say.
const ABSENT: u8 = 0;
const RESERVES: u8 = 1;
const IMBALANCE: u8 = 2;
const SPREAD: u8 = 3;
const NOTHING: u8 = 4;
const OVERFLOW: u8 = 5;

const KIND_BITS: u8 = 7;
const PARTIAL: u8 = 8;
const NEGATIVE: u8 = 16;
const MARK_BITS: u32 = 5;

impl ViewBlock {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id));
        let Some(ViewValue { number, partial, instruments }) = self.value else {
            return out.push(ABSENT);
        };
        let kind = match number {
            ViewNumber::Reserves { .. } => RESERVES,
            ViewNumber::Imbalance(_) => IMBALANCE,
            ViewNumber::Spread(spread) if spread.is_negative() => SPREAD | NEGATIVE,
            ViewNumber::Spread(_) => SPREAD,
            ViewNumber::Nothing => NOTHING,
            ViewNumber::Overflow => OVERFLOW,
        };
        out.push(kind | if partial { PARTIAL } else { 0 });
        put_varint(out, u64::from(instruments));
        match number {
            ViewNumber::Reserves { bids, asks } => {
                put_exact(out, bids);
                put_exact(out, asks);
            }
            ViewNumber::Imbalance(imbalance) => put_signed(out, i64::from(imbalance.ppm())),
            ViewNumber::Spread(spread) => put_exact(out, spread.magnitude()),
            ViewNumber::Nothing | ViewNumber::Overflow => {}
        }
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = reader.u32()?;
        let marks = reader.bits("view marks", MARK_BITS)?;
        let unknown = DecodeError::UnknownCode { what: "view marks", value: u64::from(marks) };
        let (kind, negative) = (marks & KIND_BITS, marks & NEGATIVE != 0);
        if marks == ABSENT {
            return Ok(Self { id, value: None });
        }
        if kind == ABSENT || kind > OVERFLOW || (negative && kind != SPREAD) {
            return Err(unknown);
        }
        let instruments = reader.u32()?;
        let number = match kind {
            RESERVES => ViewNumber::Reserves { bids: get_exact(reader)?, asks: get_exact(reader)? },
            IMBALANCE => ViewNumber::Imbalance(imbalance(reader)?),
            SPREAD => {
                let spread = SignedExact::new(negative, get_exact(reader)?);
                if spread.is_negative() != negative {
                    return Err(DecodeError::NotCanonical);
                }
                ViewNumber::Spread(spread)
            }
            NOTHING => ViewNumber::Nothing,
            _ => ViewNumber::Overflow,
        };
        Ok(Self { id, value: Some(ViewValue { number, partial: marks & PARTIAL != 0, instruments }) })
    }
}

fn imbalance(reader: &mut Reader<'_>) -> Result<Imbalance, DecodeError> {
    let ppm = i32::try_from(reader.signed()?).ok();
    ppm.and_then(Imbalance::of_ppm).ok_or(DecodeError::NumberRange)
}
