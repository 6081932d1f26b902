//! A source snapshot: every live tick at the end of a block.
//!
//! Never: part of one.

use super::{BlockError, Pairs, height, shape::Text};
use crate::neutron_dex::{Block, book::Attributes};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use std::fmt;

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    height: Text<'a>,
    #[serde(borrow)]
    ticks: Vec<Row<'a>>,
}

/// The attributes of one tick, by their names.
struct Row<'a>(Attributes<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Row<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Row<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a tick")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut attributes = Attributes::default();
                while let Some((key, value)) = map.next_entry::<Text<'de>, Text<'de>>()? {
                    if let (Some(key), Some(value)) = (key.0, value.0) {
                        attributes.take(&key, value);
                    }
                }
                Ok(Row(attributes))
            }
        }
        deserializer.deserialize_map(Rows)
    }
}

/// Decodes a source snapshot. The places of its ticks are those in the list; a tick without reserves is no live one, and
/// of several with one key the last counts.
///
/// # Errors
/// [`BlockError`].
pub fn decode_snapshot(content: &[u8]) -> Result<Block, BlockError> {
    let content: Content<'_> = serde_json::from_str(std::str::from_utf8(content)?)?;
    let height = height(content.height.0.as_deref().unwrap_or_default())?;
    let mut pairs = Pairs::default();
    let told = (0..).zip(content.ticks).map(|(ordinal, Row(attributes))| {
        let told = attributes.tick().map_err(|fault| BlockError::Tick { ordinal, fault })?;
        Ok(pairs.tick(ordinal, told))
    });
    let mut ticks = told.collect::<Result<Vec<_>, BlockError>>()?;
    let events = u64::try_from(ticks.len()).unwrap_or(u64::MAX);
    let pairs = pairs.in_order_of(&mut ticks);
    Ok(Block { height, events, failed: 0, pairs, ticks })
}
