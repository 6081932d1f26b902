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
}

/// The text names no venue that this build knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown venue {name:?}: one of binance_spot, kraken_spot is meant")]
pub struct UnknownVenue {
    /// The name as given.
    pub name: Box<str>,
}

impl Venue {
    /// Every venue, in the order of their codes.
    pub const ALL: [Self; 2] = [Self::BinanceSpot, Self::KrakenSpot];

    /// Whether the venue numbers the updates of a book itself, strictly rising; streams of other venues are numbered in
    /// the order of their arrival.
    #[must_use]
    pub const fn numbers_updates(self) -> bool {
        match self {
            Self::BinanceSpot => true,
            Self::KrakenSpot => false,
        }
    }

    /// The name used in instrument ids, metrics, the wire and the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BinanceSpot => "binance_spot",
            Self::KrakenSpot => "kraken_spot",
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

    /// Reads a name; `binance`, `kraken` and the protocol name `kraken_v2` are accepted as well.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "binance_spot" | "binance" => Ok(Self::BinanceSpot),
            "kraken_spot" | "kraken" | "kraken_v2" => Ok(Self::KrakenSpot),
            _ => Err(UnknownVenue { name: name.into() }),
        }
    }
}
