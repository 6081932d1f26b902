//! The shapes of a block's results, in all three dialects of the node.
//!
//! Never: an attribute found by its place.

use std::borrow::Cow;

/// Base and quote asset of a pair's text, `TokenZero<>TokenOne`.
#[must_use]
pub fn assets(symbol: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (zero, one) = symbol.split_once("<>")?;
    (!zero.is_empty() && !one.is_empty()).then_some((zero.into(), one.into()))
}
