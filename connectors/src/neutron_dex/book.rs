//! One `TickUpdate`: its attributes by key, in text or in base64, and the tick that they tell.
//!
//! Which of the two it is, is told by the keys themselves: no attribute's name is another one's name in base64, so an event
//! with known names in one spelling is of that spelling, and one with both is refused.
//!
//! Never: a number that was rounded; an attribute found by its place.

use super::{BETWEEN_TOKENS, DENOM_BYTES_MAX, QUANTITY_EXPONENT, TICK_INDEX_MAX};
use crate::venue_feed::excerpt;
use base64::{Engine, prelude::BASE64_STANDARD};
use market::{Decimal, Scale, ScaleError, Side, U256, tranche::TRANCHE_BYTES_MAX};
use std::borrow::Cow;

/// The module whose events count.
const MODULE: &str = "dex";

/// Decimals of ReservesDec.
const DECIMALS: u32 = 27;

/// Digits that 128 bits hold, whatever they are.
const DIGITS_MAX: usize = 38;

/// Why an event tells no tick.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TickFault {
    /// It lacks what it must have.
    #[error("{field} is missing")]
    Missing {
        /// The attribute.
        field: &'static str,
    },
    /// It says one thing twice, and differently.
    #[error("{field} stands there twice, with two values")]
    Twice {
        /// The attribute.
        field: &'static str,
    },
    /// Not what the attribute may be.
    #[error("{field} is {text:?}")]
    Value {
        /// The attribute.
        field: &'static str,
        /// What stands there, cut to a sane length.
        text: Box<str>,
    },
    /// A number that is none, is negative, or does not fit.
    #[error("{field} {text:?} cannot be taken: {why}")]
    Number {
        /// The attribute.
        field: &'static str,
        /// What stands there, cut to a sane length.
        text: Box<str>,
        /// Why.
        why: ScaleError,
    },
    /// Not base64 of a text, in a document of that kind.
    #[error("{field} is no text in base64")]
    Base64 {
        /// The attribute.
        field: &'static str,
    },
    /// Names as text and in base64 in one document.
    #[error("names of attributes as text and in base64")]
    Mixed,
    /// Reserves is not ReservesDec without its decimals.
    #[error("Reserves is {reserves:?} and ReservesDec {decimal:?}")]
    Contradiction {
        /// Reserves, cut to a sane length.
        reserves: Box<str>,
        /// ReservesDec, cut to a sane length.
        decimal: Box<str>,
    },
}

/// The part of a block that an event without transaction is of, by its attribute `mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Before the transactions.
    Begin,
    /// After them.
    #[default]
    End,
}

/// The attributes of an event that matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes<'a> {
    module: Option<Cow<'a, str>>,
    token_zero: Option<Cow<'a, str>>,
    token_one: Option<Cow<'a, str>>,
    token_in: Option<Cow<'a, str>>,
    tick_index: Option<Cow<'a, str>>,
    reserves: Option<Cow<'a, str>>,
    reserves_dec: Option<Cow<'a, str>>,
    fee: Option<Cow<'a, str>>,
    tranche_key: Option<Cow<'a, str>>,
    /// Of the block's part.
    pub(super) mode: Mode,
    /// A known name stood there as text.
    plain: bool,
    /// A known name stood there in base64.
    coded: bool,
    /// An attribute that had two values.
    twice: Option<&'static str>,
}

/// What an event tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told<'a> {
    pub(super) token_zero: Cow<'a, str>,
    pub(super) token_one: Cow<'a, str>,
    pub(super) side: Side,
    pub(super) tick_index: i64,
    pub(super) fee: u32,
    pub(super) tranche: Box<str>,
    pub(super) reserves: U256,
    /// It was in base64.
    pub(super) coded: bool,
}

/// Names as text, and the same in base64.
mod name {
    pub(super) const MODULE: [&str; 2] = ["module", "bW9kdWxl"];
    pub(super) const TOKEN_ZERO: [&str; 2] = ["TokenZero", "VG9rZW5aZXJv"];
    pub(super) const TOKEN_ONE: [&str; 2] = ["TokenOne", "VG9rZW5PbmU="];
    pub(super) const TOKEN_IN: [&str; 2] = ["TokenIn", "VG9rZW5Jbg=="];
    pub(super) const TICK_INDEX: [&str; 2] = ["TickIndex", "VGlja0luZGV4"];
    pub(super) const RESERVES: [&str; 2] = ["Reserves", "UmVzZXJ2ZXM="];
    pub(super) const RESERVES_DEC: [&str; 2] = ["ReservesDec", "UmVzZXJ2ZXNEZWM="];
    pub(super) const FEE: [&str; 2] = ["Fee", "RmVl"];
    pub(super) const TRANCHE_KEY: [&str; 2] = ["TrancheKey", "VHJhbmNoZUtleQ=="];
    pub(super) const MODE: [&str; 2] = ["mode", "bW9kZQ=="];

    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: [[&str; 2]; 10] =
        [MODULE, TOKEN_ZERO, TOKEN_ONE, TOKEN_IN, TICK_INDEX, RESERVES, RESERVES_DEC, FEE, TRANCHE_KEY, MODE];
}

/// What `mode` says of events before the transactions, as text and in base64.
const BEFORE: [&str; 4] = ["BeginBlock", "QmVnaW5CbG9jaw==", "PreBlock", "UHJlQmxvY2s="];

impl<'a> Attributes<'a> {
    /// Takes the next attribute, in the order of the event.
    pub(super) fn take(&mut self, key: &str, value: Cow<'a, str>) {
        let at = |[plain, coded]: [&str; 2]| key == plain || key == coded;
        let (slot, name) = match key.len() {
            3 | 4 if at(name::FEE) => {
                // The last one counts, so an earlier one is nothing that contradicts it.
                self.fee = None;
                (&mut self.fee, name::FEE)
            }
            4 | 8 if at(name::MODE) => {
                self.mode = if BEFORE.contains(&&*value) { Mode::Begin } else { Mode::End };
                return;
            }
            6 | 8 if at(name::MODULE) => (&mut self.module, name::MODULE),
            7 | 12 if at(name::TOKEN_IN) => (&mut self.token_in, name::TOKEN_IN),
            8 | 12 if at(name::TOKEN_ONE) => (&mut self.token_one, name::TOKEN_ONE),
            8 | 12 if at(name::RESERVES) => (&mut self.reserves, name::RESERVES),
            9 | 12 if at(name::TOKEN_ZERO) => (&mut self.token_zero, name::TOKEN_ZERO),
            9 | 12 if at(name::TICK_INDEX) => (&mut self.tick_index, name::TICK_INDEX),
            10 | 16 if at(name::TRANCHE_KEY) => (&mut self.tranche_key, name::TRANCHE_KEY),
            11 | 16 if at(name::RESERVES_DEC) => (&mut self.reserves_dec, name::RESERVES_DEC),
            _ => return,
        };
        let [plain, _] = name;
        self.plain |= key == plain;
        self.coded |= key != plain;
        if slot.as_ref().is_some_and(|known| *known != value) {
            self.twice = Some(plain);
        }
        *slot = Some(value);
    }

    /// The tick that a `TickUpdate` tells; none if the event is another module's.
    pub(super) fn event(mut self) -> Result<Option<Told<'a>>, TickFault> {
        let module = required(self.text(name::MODULE, |all| all.module.take())?, name::MODULE)?;
        if module == MODULE { self.tick().map(Some) } else { Ok(None) }
    }

    /// The tick that the attributes tell, whoever sent them.
    pub(super) fn tick(mut self) -> Result<Told<'a>, TickFault> {
        let coded = self.coded;
        if coded && self.plain {
            return Err(TickFault::Mixed);
        }
        if let Some(field) = self.twice {
            return Err(TickFault::Twice { field });
        }
        let token_zero = denom(self.text(name::TOKEN_ZERO, |all| all.token_zero.take())?, name::TOKEN_ZERO)?;
        let token_one = denom(self.text(name::TOKEN_ONE, |all| all.token_one.take())?, name::TOKEN_ONE)?;
        let token_in = required(self.text(name::TOKEN_IN, |all| all.token_in.take())?, name::TOKEN_IN)?;
        if token_zero >= token_one {
            return Err(value(name::TOKEN_ZERO, &token_zero));
        }
        let index = required(self.text(name::TICK_INDEX, |all| all.tick_index.take())?, name::TICK_INDEX)?;
        let within = |index: &i64| (-TICK_INDEX_MAX..=TICK_INDEX_MAX).contains(index);
        let taker_to_maker: i64 = index.parse().ok().filter(within).ok_or_else(|| value(name::TICK_INDEX, &index))?;
        let (side, tick_index) = match &*token_in {
            token if token == token_zero => (Side::Ask, taker_to_maker),
            token if token == token_one => (Side::Bid, -taker_to_maker),
            other => return Err(value(name::TOKEN_IN, other)),
        };
        let (fee, tranche) = self.maker()?;
        let whole = required(self.text(name::RESERVES, |all| all.reserves.take())?, name::RESERVES)?;
        let decimal = self.text(name::RESERVES_DEC, |all| all.reserves_dec.take())?;
        let reserves = reserves(&whole, decimal.as_deref())?;
        Ok(Told { token_zero, token_one, side, tick_index, fee, tranche, reserves, coded })
    }

    /// The pool's fee or the order's tranche. Where there is a tranche, a fee means nothing.
    fn maker(&mut self) -> Result<(u32, Box<str>), TickFault> {
        if let Some(tranche) = self.text(name::TRANCHE_KEY, |all| all.tranche_key.take())? {
            let good = !tranche.is_empty() && tranche.len() <= TRANCHE_BYTES_MAX;
            return if good { Ok((0, tranche.into())) } else { Err(value(name::TRANCHE_KEY, &tranche)) };
        }
        let missing = TickFault::Missing { field: "Fee or TrancheKey" };
        let fee = self.text(name::FEE, |all| all.fee.take())?.ok_or(missing)?;
        fee.parse().map(|fee| (fee, Box::default())).map_err(|_| value(name::FEE, &fee))
    }

    /// An attribute's value as text.
    fn text(
        &mut self,
        [field, _]: [&'static str; 2],
        take: impl FnOnce(&mut Self) -> Option<Cow<'a, str>>,
    ) -> Result<Option<Cow<'a, str>>, TickFault> {
        let coded = self.coded && !self.plain;
        match take(self) {
            Some(value) if coded => {
                let bytes = BASE64_STANDARD.decode(&*value).ok();
                let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                text.map(|text| Some(text.into())).ok_or(TickFault::Base64 { field })
            }
            plain => Ok(plain),
        }
    }
}

fn value([field, _]: [&'static str; 2], text: &str) -> TickFault {
    TickFault::Value { field, text: excerpt(text) }
}

fn required<'a>(text: Option<Cow<'a, str>>, [field, _]: [&'static str; 2]) -> Result<Cow<'a, str>, TickFault> {
    text.ok_or(TickFault::Missing { field })
}

/// A token's denomination, which can stand in a symbol beside another.
fn denom<'a>(text: Option<Cow<'a, str>>, name: [&'static str; 2]) -> Result<Cow<'a, str>, TickFault> {
    let text = required(text, name)?;
    let good = (1..=DENOM_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && !text.contains(BETWEEN_TOKENS);
    if good { Ok(text) } else { Err(value(name, &text)) }
}

/// Reserves in steps: what ReservesDec says, where it is there and no other than Reserves; else what Reserves says.
fn reserves(whole: &str, decimal: Option<&str>) -> Result<U256, TickFault> {
    let units = units(whole)?;
    let unit = U256::from(10_u128.pow(DECIMALS));
    let Some(decimal) = decimal else {
        let number = |why| TickFault::Number { field: name::RESERVES[0], text: excerpt(whole), why };
        return units.checked_mul(unit).ok_or_else(|| number(ScaleError::OutOfRange));
    };
    let (known, part) = parted(decimal, unit)?;
    if known != units {
        return Err(TickFault::Contradiction { reserves: excerpt(whole), decimal: excerpt(decimal) });
    }
    let number = |why| TickFault::Number { field: name::RESERVES_DEC[0], text: excerpt(decimal), why };
    let steps = known.checked_mul(unit).and_then(|steps| steps.checked_add(part));
    steps.ok_or_else(|| number(ScaleError::OutOfRange))
}

/// Whole units.
fn units(text: &str) -> Result<U256, TickFault> {
    if let Some(small) = digits(text) {
        return Ok(U256::from(small));
    }
    let number = |why| TickFault::Number { field: name::RESERVES[0], text: excerpt(text), why };
    let whole = Scale { price: 0, quantity: 0 };
    let decimal = Decimal::parse(text).map_err(|why| number(why.into()))?;
    whole.quantity(&decimal).map_err(number)
}

/// Whole units, and the steps beyond them.
fn parted(text: &str, unit: U256) -> Result<(U256, U256), TickFault> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let missing = u32::try_from(part.len()).ok().and_then(|length| DECIMALS.checked_sub(length));
    if let (Some(whole), Some(part), Some(missing)) = (digits(whole), digits(part), missing) {
        // At most 27 digits and zeros, so 128 bits hold them.
        return Ok((U256::from(whole), U256::from(part.saturating_mul(10_u128.pow(missing)))));
    }
    let number = |why| TickFault::Number { field: name::RESERVES_DEC[0], text: excerpt(text), why };
    let exact = Scale { price: 0, quantity: QUANTITY_EXPONENT };
    let decimal = Decimal::parse(text).map_err(|why| number(why.into()))?;
    exact.quantity(&decimal).map(|steps| steps.div_rem(unit)).map_err(number)
}

/// A number of digits alone that 128 bits hold.
fn digits(text: &str) -> Option<u128> {
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    let mut sum = 0_u128;
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return None;
        }
        sum = sum.wrapping_mul(10).wrapping_add(u128::from(byte.wrapping_sub(b'0')));
    }
    Some(sum)
}

#[cfg(test)]
mod tests;
