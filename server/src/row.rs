//! A level as a row of JSON text, the same in `/v1/books` and in the lines of `replay`.
//!
//! Never: a rounded price without the tick index that is exact.

use market::{Level, Scale};
use serde::Serialize;

/// `[price, quantity]`, or `[price, quantity, tick_index]` where the price is a power, whose text is rounded.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Row {
    /// A price in decimal steps.
    Steps([String; 2]),
    /// A price that is a power.
    Power([String; 3]),
}

impl Row {
    /// A level in the steps of its book.
    pub(crate) fn of(scale: Scale, level: Level) -> Self {
        let (price, quantity) = (scale.price_text(level.tick_index), scale.quantity_text(level.quantity));
        match tick_index(scale, level.tick_index) {
            Some(tick_index) => Self::Power([price, quantity, tick_index]),
            None => Self::Steps([price, quantity]),
        }
    }
}

/// The tick index as text, where the price's text is rounded.
pub(crate) fn tick_index(scale: Scale, tick_index: i64) -> Option<String> {
    scale.is_powers().then(|| tick_index.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::{U256, scale::PRICE_POWERS};

    #[test]
    fn a_rounded_price_has_its_tick_index_beside_it() {
        let json = |price, tick_index| {
            let level = Level { tick_index, quantity: U256::from(2_500_u64) };
            serde_json::to_string(&Row::of(Scale { price, quantity: -3 }, level)).unwrap()
        };
        assert_eq!(json(-2, 6_173_760), r#"["61737.60","2.500"]"#);
        assert_eq!(json(PRICE_POWERS, -6_932), r#"["0.499990919207187761","2.500","-6932"]"#);
        assert_eq!(json(PRICE_POWERS, i64::MIN), r#"["1.0001^-9223372036854775808","2.500","-9223372036854775808"]"#);
    }
}
