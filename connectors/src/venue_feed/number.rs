//! Numbers of a message in an instrument's steps, from the venue's own token text.
//!
//! Never: a float; a message applied in part because one of its numbers is bad.

use super::{Undecodable, excerpt};
use market::{
    Decimal, DecimalError, Scale, ScaleError, Side, TickChange, U256, Venue,
    quote::Exact,
    scale::{PRICE_EXPONENT_MIN, STEP_EXPONENT_LIMIT},
};
use serde_json::value::RawValue;

/// The text of a JSON string or number token, without quotes.
pub(crate) fn token(raw: &RawValue) -> &str {
    let text = raw.get();
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

/// What stands in a field that a venue may leave out or leave empty.
pub(crate) fn told(raw: Option<&RawValue>) -> Option<Box<str>> {
    raw.map(token).filter(|text| !text.is_empty()).map(Into::into)
}

/// Why a text is no step of prices or quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The text is no number.
    #[error(transparent)]
    Number(#[from] DecimalError),
    /// Zero or less.
    #[error("a step must be above zero")]
    NotPositive,
    /// A power of ten that no step may have.
    #[error("needs ten to the power of {exponent}: must be {finest} to {STEP_EXPONENT_LIMIT}")]
    OutOfRange {
        /// The power of ten that would hold the step exactly.
        exponent: i32,
        /// The finest one.
        finest: i8,
    },
}

/// The power of ten that holds a step of prices exactly: -2 for `0.01`, and for `0.25`.
///
/// # Errors
/// [`StepError`].
pub fn price_step(text: &str) -> Result<i8, StepError> {
    step(text, PRICE_EXPONENT_MIN)
}

/// The power of ten that holds a step of quantities exactly.
///
/// # Errors
/// [`StepError`].
pub fn quantity_step(text: &str) -> Result<i8, StepError> {
    step(text, -STEP_EXPONENT_LIMIT)
}

fn step(text: &str, finest: i8) -> Result<i8, StepError> {
    let value = Decimal::parse(text)?;
    if value.is_zero() || value.is_negative() {
        return Err(StepError::NotPositive);
    }
    let exponent = value.exponent();
    let taken = i8::try_from(exponent).ok().filter(|exponent| (finest..=STEP_EXPONENT_LIMIT).contains(exponent));
    taken.ok_or(StepError::OutOfRange { exponent, finest })
}

/// Of several steps the one that needs the finest power of ten; the first where none is a number.
pub(crate) fn finest<'a>(texts: impl IntoIterator<Item = &'a RawValue>) -> Option<&'a RawValue> {
    let exponent = |raw: &RawValue| Decimal::parse(token(raw)).map_or(i32::MAX, |value| value.exponent());
    texts.into_iter().min_by_key(|raw| exponent(raw))
}

/// Whether a text is a number, and that zero, in whatever spelling.
pub(crate) fn is_zero(text: &str) -> bool {
    Decimal::parse(text).is_ok_and(|value| value.is_zero())
}

/// One level as the venue wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelText<'a> {
    pub(crate) side: Side,
    pub(crate) price: &'a str,
    pub(crate) quantity: &'a str,
}

/// The steps of one instrument's numbers as its feed knows them. They begin with those that were told beforehand, if any,
/// and are refined when a number needs it, but never so far that a price seen before would no longer fit: one absurd
/// number must not make all later ones unreadable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    scale: Scale,
    greatest: Option<Exact>,
}

impl Steps {
    /// Steps that were told before any number was seen.
    pub(crate) fn told(scale: Scale) -> Self {
        Self { scale, greatest: None }
    }

    /// Steps for the first prices, which do not fit what was told beforehand; none if there are others to blame.
    fn untold(self) -> Option<Self> {
        let coarsest = Scale::default().price;
        let blamed = self.greatest.is_none() && self.scale.price != coarsest && !self.scale.is_powers();
        blamed.then_some(Self { scale: Scale { price: coarsest, ..self.scale }, greatest: None })
    }

    /// The steps in force.
    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    /// These steps, refined to hold both values.
    fn refined(self, price: &Decimal, quantity: &Decimal) -> Result<Self, ScaleError> {
        let exponent = i8::try_from(price.exponent()).map_err(|_| ScaleError::OutOfRange)?;
        let seen = Some(Exact::new(price.digits(), exponent));
        let refined = Self { scale: self.scale.refined(price, quantity)?, greatest: self.greatest.max(seen) };
        match refined.greatest {
            Some(greatest) => refined.scale.price(&greatest.decimal()).map(|_| refined),
            None => Ok(refined),
        }
    }
}

/// Who is being read, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) venue: Venue,
    pub(crate) symbol: &'a str,
}

impl Subject<'_> {
    fn number(self, text: &str, source: ScaleError) -> Undecodable {
        Undecodable::Number { venue: self.venue, symbol: self.symbol.into(), text: excerpt(text), source }
    }

    fn parse(self, text: &str) -> Result<Decimal, Undecodable> {
        Decimal::parse(text).map_err(|error| self.number(text, error.into()))
    }

    /// A price or quantity as a value that can be compared and looked up.
    pub(crate) fn exact(self, text: &str) -> Result<Exact, Undecodable> {
        let value = self.parse(text)?;
        if value.is_negative() {
            return Err(self.number(text, ScaleError::Negative));
        }
        let exponent = i8::try_from(value.exponent()).map_err(|_| self.number(text, ScaleError::OutOfRange))?;
        Ok(Exact::new(value.digits(), exponent))
    }

    /// A price and a quantity in steps, which are refined where they need it.
    pub(crate) fn pair(self, steps: &mut Steps, price: &str, quantity: &str) -> Result<(i64, U256), Undecodable> {
        let own = *steps;
        self.pair_in(steps, price, quantity).or_else(|error| {
            *steps = own.untold().ok_or(error)?;
            self.pair_in(steps, price, quantity).inspect_err(|_| *steps = own)
        })
    }

    fn pair_in(self, steps: &mut Steps, price: &str, quantity: &str) -> Result<(i64, U256), Undecodable> {
        let (price_value, quantity_value) = (self.parse(price)?, self.parse(quantity)?);
        let refined = steps.refined(&price_value, &quantity_value).map_err(|error| self.number(price, error))?;
        let tick_index = refined.scale.price(&price_value).map_err(|error| self.number(price, error))?;
        let reserves = refined.scale.quantity(&quantity_value).map_err(|error| self.number(quantity, error))?;
        *steps = refined;
        Ok((tick_index, reserves))
    }

    /// All levels of a message, in steps that hold every one of them.
    pub(crate) fn levels<'a>(
        self,
        steps: &mut Steps,
        levels: impl Iterator<Item = LevelText<'a>> + Clone,
    ) -> Result<Vec<TickChange>, Undecodable> {
        let own = *steps;
        self.levels_in(steps, levels.clone()).or_else(|error| {
            *steps = own.untold().ok_or(error)?;
            let changes = self.levels_in(steps, levels).inspect_err(|_| *steps = own)?;
            let (venue, symbol) = (self.venue, self.symbol);
            tracing::warn!(%venue, symbol, "prices do not fit the step that was told; it is put aside");
            Ok(changes)
        })
    }

    fn levels_in<'a>(
        self,
        steps: &mut Steps,
        levels: impl Iterator<Item = LevelText<'a>> + Clone,
    ) -> Result<Vec<TickChange>, Undecodable> {
        let mut refined = *steps;
        let mut values = Vec::with_capacity(levels.size_hint().0);
        for level in levels.clone() {
            let (price, quantity) = (self.parse(level.price)?, self.parse(level.quantity)?);
            refined = refined.refined(&price, &quantity).map_err(|error| self.number(level.price, error))?;
            values.push((price, quantity));
        }
        let mut changes = Vec::with_capacity(values.len());
        for (level, (price, quantity)) in levels.zip(&values) {
            let tick_index = refined.scale.price(price).map_err(|error| self.number(level.price, error))?;
            let reserves = refined.scale.quantity(quantity).map_err(|error| self.number(level.quantity, error))?;
            changes.push(TickChange::at(level.side, tick_index, reserves));
        }
        *steps = refined;
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject<'_> = Subject { venue: Venue::BinanceSpot, symbol: "X" };

    fn bid<'a>(price: &'a str, quantity: &'a str) -> LevelText<'a> {
        LevelText { side: Side::Bid, price, quantity }
    }

    #[test]
    fn mixed_spellings_are_exact_in_one_scale() {
        let mut steps = Steps::default();
        let levels = [bid("1.7e-7", "5."), bid("0.0000082", ".5"), bid("1", "0E-8")];
        let changes = SUBJECT.levels(&mut steps, levels.into_iter()).unwrap();
        assert_eq!(steps.scale(), Scale { price: -8, quantity: -1 });
        let prices: Vec<_> = changes.iter().map(|change| change.key.tick_index).collect();
        assert_eq!(prices, [17, 820, 100_000_000]);
        assert!(changes[2].reserves.is_zero());
    }

    #[test]
    fn one_bad_number_refuses_the_message_and_leaves_the_steps() {
        let bad = ["NaN", "Infinity", "", "null", "abc", "-1", "1e60", "92233720368547758080", "1e-30"];
        for bad in bad {
            let mut steps = Steps::default();
            SUBJECT.levels(&mut steps, [bid("1.23", "0.01")].into_iter()).unwrap();
            let levels = [bid("1.2345", "1"), bid(bad, "1")];
            let error = SUBJECT.levels(&mut steps, levels.into_iter()).unwrap_err();
            assert!(matches!(error, Undecodable::Number { .. }), "{bad}: {error}");
            assert_eq!(steps.scale(), Scale { price: -2, quantity: -2 }, "{bad}");
        }
    }

    #[test]
    fn a_step_is_the_power_of_ten_that_holds_it() {
        for (text, right) in [
            ("0.01000000", -2),
            ("0.5", -1),
            ("0.25", -2),
            ("2.5e-05", -6),
            ("5e-05", -5),
            ("1", 0),
            ("2.5", -1),
            ("10", 1),
            ("1e-18", -18),
        ] {
            assert_eq!((price_step(text), quantity_step(text)), (Ok(right), Ok(right)), "{text}");
        }
        assert_eq!(quantity_step("1e-38"), Ok(-38));
        let refused = |exponent, finest| Err(StepError::OutOfRange { exponent, finest });
        assert_eq!(price_step("1e-19"), refused(-19, PRICE_EXPONENT_MIN));
        assert_eq!((quantity_step("1e-39"), price_step("1e39")), (refused(-39, -38), refused(39, PRICE_EXPONENT_MIN)));
        for text in ["0", "0.000", "0e-8", "-0.01"] {
            assert_eq!(price_step(text), Err(StepError::NotPositive), "{text}");
        }
        for text in ["", "NaN", "null", "tick", "0.0.1", "[]", "1e999"] {
            assert!(matches!(price_step(text), Err(StepError::Number(_))), "{text}");
        }
    }

    #[test]
    fn steps_that_were_told_are_refined_and_never_coarsen() {
        let mut steps = Steps::told(Scale { price: -2, quantity: -3 });
        let changes = SUBJECT.levels(&mut steps, [bid("100", "1")].into_iter()).unwrap();
        assert_eq!((steps.scale(), changes[0].key.tick_index), (Scale { price: -2, quantity: -3 }, 10_000));
        SUBJECT.levels(&mut steps, [bid("100.125", "1")].into_iter()).unwrap();
        assert_eq!(steps.scale(), Scale { price: -3, quantity: -3 });
    }

    #[test]
    fn a_step_that_the_first_prices_do_not_fit_is_put_aside() {
        let told = Steps::told(Scale { price: -18, quantity: -3 });
        let mut steps = told;
        assert!(SUBJECT.levels(&mut steps, [bid("61737.63", "1"), bid("NaN", "1")].into_iter()).is_err());
        assert_eq!(steps.scale(), told.scale(), "another number was bad");
        assert_eq!(SUBJECT.pair(&mut { told }, "61737.6", "1").unwrap().0, 617_376);
        let changes = SUBJECT.levels(&mut steps, [bid("61737.63", "1")].into_iter()).unwrap();
        assert_eq!((steps.scale(), changes[0].key.tick_index), (Scale { price: -2, quantity: -3 }, 6_173_763));
    }

    #[test]
    fn prices_that_are_powers_take_no_decimals() {
        let mut steps = Steps::told(Scale { price: market::scale::PRICE_POWERS, quantity: -27 });
        let error = SUBJECT.levels(&mut steps, [bid("1.0001", "1")].into_iter()).unwrap_err();
        assert!(matches!(error, Undecodable::Number { source: ScaleError::Powers, .. }), "{error:?}");
        assert!(SUBJECT.pair(&mut steps, "1", "1").is_err());
        assert!(steps.scale().is_powers());
    }

    #[test]
    fn one_absurd_price_does_not_make_the_others_unreadable() {
        let mut steps = Steps::default();
        SUBJECT.levels(&mut steps, [bid("61737.63", "1")].into_iter()).unwrap();
        assert!(SUBJECT.levels(&mut steps, [bid("1e-18", "1")].into_iter()).is_err());
        assert!(SUBJECT.pair(&mut steps, "0.00000000000000001", "1").is_err());
        assert_eq!(SUBJECT.pair(&mut steps, "61737.64", "1").unwrap().0, 6_173_764);
        let mut fresh = Steps::default();
        assert!(SUBJECT.levels(&mut fresh, [bid("1e-30", "1")].into_iter()).is_err(), "not even as the first");
    }
}
