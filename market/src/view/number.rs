//! What a view of a pair is: exact decimals with a sign, or parts per million that say how they are rounded.
//!
//! Never: a number that was cut off to fit; what does not fit is told in its place.

use crate::{decimal::write_scaled, quote::Exact, view::WHOLE_PPM};
use ruint::aliases::U512;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Decimal places of an imbalance.
const IMBALANCE_PLACES: i32 = 6;

/// An exact decimal with a sign; zero has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SignedExact {
    negative: bool,
    magnitude: Exact,
}

impl SignedExact {
    /// A number of a magnitude, below zero if told so.
    #[must_use]
    pub fn new(negative: bool, magnitude: Exact) -> Self {
        Self { negative: negative && !magnitude.steps().is_zero(), magnitude }
    }

    /// What the first is more than the second; none if 256 bits do not hold it.
    #[must_use]
    pub fn difference(first: Exact, second: Exact) -> Option<Self> {
        let (negative, more, less) = if first < second { (true, second, first) } else { (false, first, second) };
        more.checked_sub(less).map(|magnitude| Self::new(negative, magnitude))
    }

    /// Whether it is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.negative
    }

    /// The number without its sign.
    #[must_use]
    pub const fn magnitude(self) -> Exact {
        self.magnitude
    }
}

/// In plain decimal notation.
impl fmt::Display for SignedExact {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            out.write_str("-")?;
        }
        self.magnitude.decimal().fmt(out)
    }
}

/// `(bids - asks) / (bids + asks)` in parts per million, rounded to the nearest one, a half away from zero: swapped sides
/// give the same number with the other sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Imbalance(i32);

impl Imbalance {
    /// An imbalance of so many parts per million; none beyond the whole, either way.
    #[must_use]
    pub fn of_ppm(ppm: i32) -> Option<Self> {
        (ppm.unsigned_abs() <= WHOLE_PPM).then_some(Self(ppm))
    }

    /// Parts per million, from -1,000,000, asks alone, to 1,000,000, bids alone.
    #[must_use]
    pub const fn ppm(self) -> i32 {
        self.0
    }
}

/// As a fraction with six decimal places.
impl fmt::Display for Imbalance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            out.write_str("-")?;
        }
        write_scaled(out, &self.0.unsigned_abs().to_string(), -IMBALANCE_PLACES)
    }
}

/// The number of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ViewNumber {
    /// What rests within the band, in units of asset_0.
    Reserves {
        /// Of bids.
        bids: Exact,
        /// Of asks.
        asks: Exact,
    },
    /// How much more of it are bids.
    Imbalance(Imbalance),
    /// The best ask less the best bid, in units of asset_1 for one of asset_0; below zero if venues cross.
    Spread(SignedExact),
    /// There is none: the imbalance of nothing, or a spread of which a side is missing.
    Nothing,
    /// There is one, and 256 bits do not hold it.
    Overflow,
}

impl ViewNumber {
    pub(super) fn spread(bid: Option<Exact>, ask: Option<Exact>) -> Self {
        let Some((bid, ask)) = bid.zip(ask) else { return Self::Nothing };
        SignedExact::difference(ask, bid).map_or(Self::Overflow, Self::Spread)
    }

    pub(super) fn imbalance(bids: Exact, asks: Exact) -> Self {
        if bids.steps().is_zero() && asks.steps().is_zero() {
            return Self::Nothing;
        }
        let Some((bids, asks, _)) = bids.aligned(asks) else { return Self::Overflow };
        let (bids, asks) = (U512::from(bids), U512::from(asks));
        // 512 bits hold all of it: the difference has 256, twice a million 21 more.
        let whole = bids.wrapping_add(asks);
        let (negative, difference) =
            if bids < asks { (true, asks.wrapping_sub(bids)) } else { (false, bids.wrapping_sub(asks)) };
        let twice = difference.wrapping_mul(U512::from(WHOLE_PPM)).wrapping_mul(U512::from(2_u64));
        let rounded = twice.wrapping_add(whole) / whole.wrapping_mul(U512::from(2_u64));
        let ppm = i32::try_from(rounded.saturating_to::<u32>()).unwrap_or(i32::MAX);
        Imbalance::of_ppm(if negative { -ppm } else { ppm }).map_or(Self::Overflow, Self::Imbalance)
    }
}

/// A view of a pair at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ViewValue {
    /// The number.
    pub number: ViewNumber,
    /// The band of some book reaches beyond what is known of it, so that something is missing in the number.
    pub partial: bool,
    /// How many books it is made of; two instruments of one venue are two.
    pub instruments: u32,
}
