//! Standing views: what an operator declared to be kept per pair over all venues, what one book adds to it, and what comes
//! out. Bands are compared in integers, sums and differences are exact decimals.
//!
//! Never: a level beyond a horizon in a sum; a rounded number but the imbalance, which says how.

mod number;

pub use number::{Imbalance, SignedExact, ViewNumber, ViewValue};

use crate::{
    Book, Decimal, DecimalError, Level, PairId, Scale, Side, U256, decimal::write_scaled, instrument::INSTRUMENTS_MAX,
    quote::Exact,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most views of one server: a set of them is the bits of a `u32`.
pub const VIEWS_MAX: usize = 32;

/// Longest name of a view, in bytes.
pub const VIEW_NAME_BYTES_MAX: usize = 64;

/// The whole, in parts per million.
pub const WHOLE_PPM: u32 = 1_000_000;

/// Power of ten of one part per million in percent.
const PPM_IN_PERCENT: i8 = -4;

/// Numbers of views in one number with their pair.
const VIEWS: u32 = 32;

const _: () = assert!(INSTRUMENTS_MAX <= u32::MAX / VIEWS, "a view's number with its pair's fits 32 bits");

/// A declared view: its place among the declared ones, below [`VIEWS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ViewId(u8);

impl ViewId {
    /// The view at a place; none from [`VIEWS_MAX`] on.
    #[must_use]
    pub fn new(place: usize) -> Option<Self> {
        u8::try_from(place).ok().filter(|_| place < VIEWS_MAX).map(Self)
    }

    /// Its place.
    #[must_use]
    pub fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// A set of views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Views(u32);

impl Views {
    /// No view.
    pub const NONE: Self = Self(0);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, view: ViewId) -> Self {
        Self(self.0 | 1 << (view.0 % 32))
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a view is in the set.
    #[must_use]
    pub const fn has(self, view: ViewId) -> bool {
        self.0 & (1 << (view.0 % 32)) != 0
    }

    /// Its views, in the order of their places.
    pub fn iter(self) -> impl Iterator<Item = ViewId> {
        (0..VIEWS_MAX).filter_map(ViewId::new).filter(move |view| self.has(*view))
    }
}

/// Says which views a pair is in; asked where instruments are listed.
pub trait PairViews: fmt::Debug + Send + Sync {
    /// The views of the pair that is named `asset_0/asset_1`.
    fn of(&self, pair: &str) -> Views;
}

/// A view of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ViewKey {
    /// The view.
    pub view: ViewId,
    /// The pair.
    pub pair: PairId,
}

impl ViewKey {
    /// Both in one number: 32 times the pair's, and the view's.
    #[must_use]
    pub fn number(self) -> u32 {
        self.pair.0.wrapping_mul(VIEWS).wrapping_add(u32::from(self.view.0))
    }

    /// The view and pair of a number; every number is one.
    #[must_use]
    pub fn of_number(number: u32) -> Self {
        let view = ViewId(u8::try_from(number % VIEWS).unwrap_or(0));
        Self { view, pair: PairId(number / VIEWS) }
    }
}

/// How far from the mid a band reaches, both ways: parts per million of the mid, more than 0 and at most all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Band(u32);

/// A text that is no width of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BandError {
    /// No decimal number.
    #[error(transparent)]
    Number(#[from] DecimalError),
    /// Not more than 0, or more than 100.
    #[error("not more than 0 and at most 100 percent")]
    OutOfRange,
    /// Finer than one part per million.
    #[error("finer than 0.0001 percent")]
    Finer,
}

impl Band {
    /// A band of so many parts per million; none for 0, or for more than [`WHOLE_PPM`].
    #[must_use]
    pub fn of_ppm(ppm: u32) -> Option<Self> {
        (1..=WHOLE_PPM).contains(&ppm).then_some(Self(ppm))
    }

    /// A band in percent, as decimal text.
    ///
    /// # Errors
    /// [`BandError`].
    pub fn parse(percent: &str) -> Result<Self, BandError> {
        let value = Decimal::parse(percent)?;
        if value.is_negative() || value.is_zero() {
            return Err(BandError::OutOfRange);
        }
        let shift = value.exponent().saturating_sub(i32::from(PPM_IN_PERCENT));
        if shift < 0 {
            return Err(BandError::Finer);
        }
        let power = u32::try_from(shift).ok().and_then(|shift| 10_u32.checked_pow(shift));
        let digits = u32::try_from(value.digits()).ok();
        let ppm = digits.zip(power).and_then(|(digits, power)| digits.checked_mul(power));
        ppm.and_then(Self::of_ppm).ok_or(BandError::OutOfRange)
    }

    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// The lowest and the highest tick index within the band around the middle of two that are not negative: a price is
    /// between them exactly if `|price - mid| * 10^6 <= ppm * mid`, both sides taken twice to be whole numbers.
    fn bounds(self, bid: i64, ask: i64) -> (i128, i128) {
        let twice_mid = i128::from(bid) + i128::from(ask);
        let (whole, ppm) = (i128::from(WHOLE_PPM), i128::from(self.0));
        let least = twice_mid * (whole - ppm);
        let most = twice_mid * (whole + ppm);
        let parts = 2 * whole;
        ((least + parts - 1).div_euclid(parts), most.div_euclid(parts))
    }
}

/// In percent.
impl fmt::Display for Band {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = Decimal::new(U256::from(self.0), i32::from(PPM_IN_PERCENT));
        write_scaled(out, &value.digits().to_string(), value.exponent())
    }
}

/// What a view is kept of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewRule {
    /// Per side, the sum of what rests within a band around each book's own mid.
    ReservesWithin(Band),
    /// How much more of that rests on one side than on the other.
    ImbalanceWithin(Band),
    /// The lowest ask over all books less the highest bid.
    Spread,
}

/// What one book adds to a view of its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ViewPart {
    /// What rests within the band.
    Band {
        /// Of bids; none if 256 bits do not hold it.
        bids: Option<Exact>,
        /// Of asks.
        asks: Option<Exact>,
        /// The band reaches beyond what is known of a side.
        partial: bool,
    },
    /// The best prices.
    Top {
        /// Of bids.
        bid: Option<Exact>,
        /// Of asks.
        ask: Option<Exact>,
    },
}

impl ViewRule {
    /// The word in a configuration, in HTTP and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReservesWithin(_) => "reserves_within",
            Self::ImbalanceWithin(_) => "imbalance_within",
            Self::Spread => "spread",
        }
    }

    /// Its band, if it has one.
    #[must_use]
    pub const fn band(self) -> Option<Band> {
        match self {
            Self::ReservesWithin(band) | Self::ImbalanceWithin(band) => Some(band),
            Self::Spread => None,
        }
    }

    /// What a LIVE book adds. None if it has no place in the view: prices that are powers or below zero; for a band a side
    /// without levels, where there is no mid; for the spread a best price that is not known.
    #[must_use]
    pub fn part(self, book: &Book) -> Option<ViewPart> {
        let (scale, quote) = (book.scale(), book.quote());
        if scale.is_powers() {
            return None;
        }
        let exhausted = book.flags_at(quote).exhausted;
        let Some(band) = self.band() else {
            let [bid, ask] = [quote.bid, quote.ask].map(|level| level.and_then(|level| price(scale, level)));
            return (!exhausted && (bid.is_some() || ask.is_some())).then_some(ViewPart::Top { bid, ask });
        };
        if exhausted {
            // It trades, but nobody knows where: nothing of it can be summed, and something is missing.
            let none = Some(Exact::new(U256::ZERO, 0));
            return Some(ViewPart::Band { bids: none, asks: none, partial: true });
        }
        let (bid, ask) = quote.bid.zip(quote.ask)?;
        if bid.tick_index < 0 || ask.tick_index < 0 {
            return None;
        }
        let bounds = band.bounds(bid.tick_index, ask.tick_index);
        let (bids, bids_end) = within(book, Side::Bid, bounds);
        let (asks, asks_end) = within(book, Side::Ask, bounds);
        Some(ViewPart::Band { bids, asks, partial: bids_end || asks_end })
    }

    /// What the books of a pair are together, at least one. The order of the parts is of no account unless 256 bits do not
    /// hold what they are.
    pub fn value<'a>(self, parts: impl IntoIterator<Item = &'a ViewPart>) -> ViewValue {
        let zero = Some(Exact::new(U256::ZERO, 0));
        let (mut bids_sum, mut asks_sum, mut any_partial, mut instruments) = (zero, zero, false, 0_u32);
        let (mut best_bid, mut best_ask): (Option<Exact>, Option<Exact>) = (None, None);
        for part in parts {
            instruments = instruments.saturating_add(1);
            match *part {
                ViewPart::Band { bids, asks, partial } => {
                    bids_sum = bids_sum.zip(bids).and_then(|(sum, more)| sum.checked_add(more));
                    asks_sum = asks_sum.zip(asks).and_then(|(sum, more)| sum.checked_add(more));
                    any_partial |= partial;
                }
                ViewPart::Top { bid, ask } => {
                    best_bid = best_bid.max(bid);
                    best_ask = best_ask.into_iter().chain(ask).min();
                }
            }
        }
        let number = match (self, bids_sum.zip(asks_sum)) {
            (Self::Spread, _) => ViewNumber::spread(best_bid, best_ask),
            (_, None) => ViewNumber::Overflow,
            (Self::ReservesWithin(_), Some((bids, asks))) => ViewNumber::Reserves { bids, asks },
            (Self::ImbalanceWithin(_), Some((bids, asks))) => ViewNumber::imbalance(bids, asks),
        };
        ViewValue { number, partial: any_partial, instruments }
    }
}

fn price(scale: Scale, level: Level) -> Option<Exact> {
    let steps = u64::try_from(level.tick_index).ok()?;
    Some(Exact::new(U256::from(steps), scale.price))
}

/// The sum of the levels within bounds that lie within the horizon, if 256 bits hold it, and whether the bounds reach
/// beyond the horizon.
fn within(book: &Book, side: Side, (lowest, highest): (i128, i128)) -> (Option<Exact>, bool) {
    let horizon = book.horizon(side);
    let (too_good, worst): (fn(i128, i128, i128) -> bool, _) = match side {
        Side::Bid => (|price, _, highest| price > highest, lowest),
        Side::Ask => (|price, lowest, _| price < lowest, highest),
    };
    // A band narrower than a step may hold no price at all, and then reaches nowhere.
    let beyond = lowest <= highest
        && horizon.map(i128::from).is_some_and(|horizon| match side {
            Side::Bid => worst < horizon,
            Side::Ask => worst > horizon,
        });
    let inside = |level: &Level| {
        let price = i128::from(level.tick_index);
        let known = horizon.is_none_or(|horizon| side.rank(level.tick_index) >= side.rank(horizon));
        known && lowest <= price && price <= highest
    };
    let mut levels = book
        .levels(side)
        .skip_while(|level| too_good(i128::from(level.tick_index), lowest, highest))
        .take_while(inside);
    let sum = levels.try_fold(U256::ZERO, |sum, level| sum.checked_add(level.quantity));
    (sum.map(|sum| Exact::new(sum, book.scale().quantity)), beyond)
}

#[cfg(test)]
mod tests;
