//! The feed: Binance's combined streams in the order of futures.
//!
//! Never: an order taken from `bookTicker`.

use super::book::Usdm;
use crate::binance_spot::combined::CombinedFeed;

/// The decoder of Binance USD-M futures.
pub type Feed = CombinedFeed<Usdm>;

#[cfg(test)]
mod tests;
