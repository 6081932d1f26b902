//! Trades: told as executed, and then told again.
//!
//! Never: a trade told twice by one connection.

use super::{VENUE, json};
use crate::{
    bitfinex::{
        book::{is_list, wrong},
        message::Head,
    },
    venue_feed::{Undecodable, time, trades::TradeText},
};
use market::{LegId, Side};
use std::collections::VecDeque;

/// Trades whose second telling is waited for at most, over all legs; it follows within milliseconds. One that is told
/// again after so many others is single by its id downstream.
const EXECUTED_MAX: usize = 256;

/// `[id, ms, amount, price]`.
pub(super) type Row<'a> = Head<'a, 4>;

/// The rows of a list or a single one, the newest last.
pub(super) fn rows(payload: &str) -> Result<Vec<Row<'_>>, Undecodable> {
    if !is_list(payload) {
        return Ok(vec![json(payload)?]);
    }
    let mut rows: Vec<Row<'_>> = json(payload)?;
    rows.reverse();
    Ok(rows)
}

/// Rule 5.
pub(super) fn text<'a>(row: &Row<'a>, at: usize) -> Result<TradeText<'a>, Undecodable> {
    let part = |at, field| row.text(at).ok_or_else(|| wrong(field, ""));
    let (id, ms, amount, price) = (part(0, "id")?, part(1, "ms")?, part(2, "amount")?, part(3, "price")?);
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong("id", id));
    }
    let ms = ms.parse().map_err(|_| wrong("ms", ms))?;
    let (taker, quantity) = match amount.strip_prefix('-') {
        Some(quantity) => (Side::Ask, quantity),
        None => (Side::Bid, amount),
    };
    Ok(TradeText {
        id,
        // An id beyond 64 bits is kept as text; its place is then the arrival order.
        order: id.parse().ok(),
        at: u16::try_from(at).unwrap_or(u16::MAX),
        price,
        quantity,
        taker,
        venue_ns: time::from_ms(VENUE, ms)?,
    })
}

/// The ids of the trades that were told as executed and not again yet.
#[derive(Debug, Default)]
pub(super) struct Executed {
    recent: VecDeque<(LegId, Box<str>)>,
}

impl Executed {
    /// Whether this is the second telling of a trade that this leg told as executed.
    pub(super) fn is_again(&mut self, leg: LegId, word: &str, id: &str) -> bool {
        match word {
            r#""te""# => {
                if self.recent.len() >= EXECUTED_MAX {
                    self.recent.pop_front();
                }
                self.recent.push_back((leg, id.into()));
                false
            }
            r#""tu""# => {
                let known = self.recent.iter().position(|(by, known)| *by == leg && **known == *id);
                known.is_some_and(|at| self.recent.remove(at).is_some())
            }
            _ => false,
        }
    }
}
