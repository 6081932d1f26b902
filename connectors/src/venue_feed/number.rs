//! Numbers of a message in an instrument's steps, from the venue's own token text.
//!
//! Never: a float; a message applied in part because one of its numbers is bad.

use super::{Undecodable, excerpt};
use market::{Decimal, Scale, ScaleError, Side, TickChange, U256, Venue, quote::Exact};
use serde_json::value::RawValue;

/// The text of a JSON string or number token, without quotes.
pub(crate) fn token(raw: &RawValue) -> &str {
    let text = raw.get();
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
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

/// The steps of one instrument's numbers as its feed knows them. They are refined when a number needs it, but never so
/// far that a price seen before would no longer fit: one absurd number must not make all later ones unreadable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    scale: Scale,
    greatest: Option<Exact>,
}

impl Steps {
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
