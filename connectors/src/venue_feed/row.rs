//! Arrays whose elements have a meaning by their place, as most venues write levels and trades.
//!
//! Never: a refusal because a venue added an element behind those that are known.

use super::number::token;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// The token texts of an array's first `N` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a, const N: usize>(pub(crate) [&'a str; N]);

struct First<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for First<N> {
    type Value = Row<'de, N>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an array of at least {N} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut row = [""; N];
        for (at, text) in row.iter_mut().enumerate() {
            let raw: Option<&'de RawValue> = elements.next_element()?;
            *text = token(raw.ok_or_else(|| Error::invalid_length(at, &self))?);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Row(row))
    }
}

impl<'de: 'a, 'a, const N: usize> Deserialize<'de> for Row<'a, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(First::<N>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_elements_are_taken_as_they_are_written_and_too_few_are_refused() {
        let rows: Vec<Row<'_, 2>> = serde_json::from_str(r#"[["1.50",1e-8],["2","0.10","x",{"y":[1]}]]"#).unwrap();
        assert_eq!([rows[0].0, rows[1].0], [["1.50", "1e-8"], ["2", "0.10"]]);
        for few in [r#"["1"]"#, "[]", "{}", "null", r#""12""#] {
            assert!(serde_json::from_str::<Row<'_, 2>>(few).is_err(), "{few}");
        }
    }
}
