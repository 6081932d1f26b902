//! The standing views of a server generation: what view numbers mean.
//!
//! Never: a number that changes its meaning; a view's number is its place in the one list there is.

use crate::{
    bounds::{VIEW_NAME_BYTES_MAX, VIEWS_MAX},
    error::{DecodeError, EncodeError},
    varint::{Reader, put_count, put_text, put_varint},
};
use market::{ViewRule, view::Band};

/// Name and kind have at least a byte each.
const VIEW_BYTES_MIN: usize = 2;

const RESERVES_WITHIN: u8 = 1;
const IMBALANCE_WITHIN: u8 = 2;
const SPREAD: u8 = 3;

/// All standing views of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewList {
    /// The generation that the numbers belong to.
    pub generation: u64,
    /// The views; the first one's number is 0.
    pub views: Vec<ListedView>,
}

/// One standing view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedView {
    /// Its name, which the operator gave.
    pub name: Box<str>,
    /// What it is kept of.
    pub rule: ViewRule,
}

impl ViewList {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        put_varint(out, self.generation);
        put_count(out, self.views.len(), VIEWS_MAX)?;
        for view in &self.views {
            put_text(out, &view.name, VIEW_NAME_BYTES_MAX)?;
            out.push(match view.rule {
                ViewRule::ReservesWithin(_) => RESERVES_WITHIN,
                ViewRule::ImbalanceWithin(_) => IMBALANCE_WITHIN,
                ViewRule::Spread => SPREAD,
            });
            if let Some(band) = view.rule.band() {
                put_varint(out, u64::from(band.ppm()));
            }
        }
        Ok(())
    }

    pub(crate) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let generation = reader.varint()?;
        let count = reader.count(VIEWS_MAX, VIEW_BYTES_MIN)?;
        let mut views = Vec::with_capacity(count);
        for _ in 0..count {
            let name = reader.text(VIEW_NAME_BYTES_MAX)?;
            let rule = match reader.byte()? {
                RESERVES_WITHIN => ViewRule::ReservesWithin(band(reader)?),
                IMBALANCE_WITHIN => ViewRule::ImbalanceWithin(band(reader)?),
                SPREAD => ViewRule::Spread,
                code => return Err(DecodeError::UnknownCode { what: "view kind", value: u64::from(code) }),
            };
            views.push(ListedView { name, rule });
        }
        Ok(Self { generation, views })
    }
}

fn band(reader: &mut Reader<'_>) -> Result<Band, DecodeError> {
    Band::of_ppm(reader.u32()?).ok_or(DecodeError::NumberRange)
}
