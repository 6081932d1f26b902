//! A book as two sorted maps.
//!
//! Never: fast.

use super::FinalBook;
use super::decimal::Decimal;
use anyhow::Result;
use std::collections::BTreeMap;

/// A side: the texts of price and quantity as last sent, by price.
pub(super) type Side = BTreeMap<Decimal, (String, String)>;

/// Both sides.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) bids: Side,
    pub(super) asks: Side,
}

/// Best bid, its quantity, best ask, its quantity.
pub(super) type Best = [Option<Decimal>; 4];

/// Sets a level; a quantity of zero removes it.
pub(super) fn put(side: &mut Side, price: &str, quantity: &str) -> Result<()> {
    let key = Decimal::read(price)?;
    if Decimal::read(quantity)?.is_zero() {
        side.remove(&key);
    } else {
        side.insert(key, (price.to_owned(), quantity.to_owned()));
    }
    Ok(())
}

impl Book {
    pub(super) fn best(&self) -> Result<Best> {
        let (bid, ask) = (self.bids.last_key_value(), self.asks.first_key_value());
        let quantity =
            |level: Option<(&Decimal, &(String, String))>| level.map(|at| Decimal::read(&at.1.1)).transpose();
        Ok([bid.map(|at| at.0.clone()), quantity(bid)?, ask.map(|at| at.0.clone()), quantity(ask)?])
    }

    pub(super) fn crossed(&self) -> bool {
        let best = self.bids.last_key_value().zip(self.asks.first_key_value());
        best.is_some_and(|(bid, ask)| bid.0 >= ask.0)
    }

    pub(super) fn truncate(&mut self, depth: usize) {
        while self.bids.len() > depth {
            self.bids.pop_first();
        }
        while self.asks.len() > depth {
            self.asks.pop_last();
        }
    }

    pub(super) fn report(&self, last_update_id: Option<u64>, applied: u64) -> Result<FinalBook> {
        let spell = |(price, (_, quantity)): (&Decimal, &(String, String))| -> Result<(String, String)> {
            Ok((price.canonical(), Decimal::read(quantity)?.canonical()))
        };
        Ok(FinalBook {
            bids: self.bids.iter().rev().map(spell).collect::<Result<_>>()?,
            asks: self.asks.iter().map(spell).collect::<Result<_>>()?,
            last_update_id: last_update_id.map(|id| id.to_string()),
            applied,
        })
    }
}
