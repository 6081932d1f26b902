//! Venues by name.
//!
//! Never: a venue's message format; that is `connectors`' business.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// An exchange that is consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Venue {
    /// Binance spot.
    BinanceSpot,
    /// Kraken spot.
    KrakenSpot,
    /// Binance USD-M futures.
    BinanceUsdm,
    /// Coinbase.
    Coinbase,
    /// OKX.
    Okx,
    /// Bitfinex.
    Bitfinex,
    /// Deribit.
    Deribit,
    /// Kraken Futures.
    KrakenFutures,
    /// KuCoin.
    Kucoin,
    /// Bitstamp.
    Bitstamp,
    /// Gemini.
    Gemini,
    /// BitMEX.
    Bitmex,
    /// Bitget.
    Bitget,
    /// dYdX v3.
    DydxV3,
    /// The exchange module of the Neutron chain, whose batches are its blocks.
    NeutronDex,
}

/// The text names no venue that this build knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown venue {name:?}: one of {} is meant", Names)]
pub struct UnknownVenue {
    /// The name as given.
    pub name: Box<str>,
}

/// Every name, separated by commas.
struct Names;

impl fmt::Display for Names {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, venue) in Venue::ALL.into_iter().enumerate() {
            write!(out, "{}{venue}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Venue {
    /// Every venue, in the order of their codes.
    pub const ALL: [Self; 15] = [
        Self::BinanceSpot,
        Self::KrakenSpot,
        Self::BinanceUsdm,
        Self::Coinbase,
        Self::Okx,
        Self::Bitfinex,
        Self::Deribit,
        Self::KrakenFutures,
        Self::Kucoin,
        Self::Bitstamp,
        Self::Gemini,
        Self::Bitmex,
        Self::Bitget,
        Self::DydxV3,
        Self::NeutronDex,
    ];

    /// Whether the venue numbers the updates of a book itself, strictly rising and comparable between connections;
    /// streams of other venues are numbered in the order of their arrival.
    #[must_use]
    pub const fn numbers_updates(self) -> bool {
        match self {
            Self::BinanceSpot
            | Self::BinanceUsdm
            | Self::Okx
            | Self::Deribit
            | Self::KrakenFutures
            | Self::Kucoin
            | Self::Bitstamp
            | Self::NeutronDex => true,
            Self::KrakenSpot
            | Self::Coinbase
            | Self::Bitfinex
            | Self::Gemini
            | Self::Bitmex
            | Self::Bitget
            | Self::DydxV3 => false,
        }
    }

    /// Whether the venue hands over batches, each naming the one before it, that go through the log: a stream that goes on
    /// from its cursor and never from a snapshot that is asked for.
    #[must_use]
    pub const fn sends_batches(self) -> bool {
        matches!(self, Self::NeutronDex)
    }

    /// The name used in instrument ids, metrics, the wire and the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BinanceSpot => "binance_spot",
            Self::KrakenSpot => "kraken_spot",
            Self::BinanceUsdm => "binance_usdm",
            Self::Coinbase => "coinbase",
            Self::Okx => "okx",
            Self::Bitfinex => "bitfinex",
            Self::Deribit => "deribit",
            Self::KrakenFutures => "kraken_futures",
            Self::Kucoin => "kucoin",
            Self::Bitstamp => "bitstamp",
            Self::Gemini => "gemini",
            Self::Bitmex => "bitmex",
            Self::Bitget => "bitget",
            Self::DydxV3 => "dydx_v3",
            Self::NeutronDex => "neutron_dex",
        }
    }
}

impl fmt::Display for Venue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Venue {
    type Err = UnknownVenue;

    /// Reads a name; `binance`, `kraken` and the protocol names `kraken_v1` and `kraken_v2` are accepted as well.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "binance" => Ok(Self::BinanceSpot),
            "kraken" | "kraken_v1" | "kraken_v2" => Ok(Self::KrakenSpot),
            _ => {
                let known = Self::ALL.into_iter().find(|venue| venue.name() == name);
                known.ok_or_else(|| UnknownVenue { name: name.into() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_an_unknown_one_is_told_all_of_them() {
        for venue in Venue::ALL {
            assert_eq!(venue.name().parse(), Ok(venue));
        }
        assert_eq!("kraken_v1".parse(), Ok(Venue::KrakenSpot));
        let unknown = "mtgox".parse::<Venue>().unwrap_err().to_string();
        assert!(unknown.contains("\"mtgox\"") && unknown.contains("binance_spot, kraken_spot, "), "{unknown}");
    }
}
