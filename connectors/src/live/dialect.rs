//! The protocols of venues that speak several for one market.
//!
//! Never: a dialect that is chosen by what an address looks like.

use market::Venue;
use std::{fmt, str::FromStr};

/// One of several protocols of a venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Coinbase Advanced Trade: every message of a connection is numbered, so that a loss is noticed.
    AdvancedTrade,
    /// The Coinbase Exchange feed: nothing of a book is numbered.
    Exchange,
}

/// The text names no protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol {name:?}: one of {} is meant", names(&Dialect::ALL))]
pub struct UnknownDialect {
    /// The name as given.
    pub name: Box<str>,
}

impl Dialect {
    /// Every one of them.
    pub const ALL: [Self; 2] = [Self::AdvancedTrade, Self::Exchange];

    /// The name used in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdvancedTrade => "advanced_trade",
            Self::Exchange => "exchange",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|dialect| dialect.name() == name);
        known.ok_or_else(|| UnknownDialect { name: name.into() })
    }
}

/// The protocols that can be chosen for a venue, the first of them if none is; empty where there is nothing to choose.
#[must_use]
pub const fn dialects(venue: Venue) -> &'static [Dialect] {
    match venue {
        Venue::Coinbase => &[Dialect::AdvancedTrade, Dialect::Exchange],
        Venue::BinanceSpot
        | Venue::KrakenSpot
        | Venue::BinanceUsdm
        | Venue::Okx
        | Venue::Bitfinex
        | Venue::Deribit
        | Venue::KrakenFutures
        | Venue::Kucoin
        | Venue::Bitstamp
        | Venue::Gemini
        | Venue::Bitmex
        | Venue::Bitget
        | Venue::DydxV3
        | Venue::NeutronDex => &[],
    }
}

/// Names of protocols, separated by commas; `none` if there are none.
#[must_use]
pub fn names(dialects: &[Dialect]) -> String {
    let names: Vec<_> = dialects.iter().map(|dialect| dialect.name()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_protocol_is_told_with_those_that_exist() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.name().parse(), Ok(dialect));
        }
        let unknown = "pro".parse::<Dialect>().unwrap_err().to_string();
        assert_eq!(unknown, "unknown protocol \"pro\": one of advanced_trade, exchange is meant");
        assert_eq!(names(dialects(Venue::KrakenSpot)), "none");
    }
}
