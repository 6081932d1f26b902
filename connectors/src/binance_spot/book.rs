//! Depth messages as changes in exact steps.
//!
//! Never: a message applied in part.

use super::message::{Depth, DepthSnapshot};
use crate::venue_feed::{
    Undecodable,
    number::{LevelText, Steps, Subject, token},
};
use market::{Delta, Sequence, Side, Snapshot, Venue, Window};
use serde_json::value::RawValue;

/// Levels a side that a snapshot of this venue knows.
const SNAPSHOT_LEVELS: u32 = 1_000;

type Rows<'m, 'a> = &'m [(&'a RawValue, &'a RawValue)];

fn rows<'m>(bids: Rows<'m, '_>, asks: Rows<'m, '_>) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side, rows: Rows<'m, '_>| {
        rows.iter().map(move |(price, quantity)| LevelText { side, price: token(price), quantity: token(quantity) })
    };
    side(Side::Bid, bids).chain(side(Side::Ask, asks))
}

/// A depth event. Rule 4: what the snapshot did not know is known only once touched.
pub(super) fn delta(depth: &Depth<'_>, steps: &mut Steps) -> Result<Delta, Undecodable> {
    let (first, last) = (depth.first, depth.last);
    let venue = Venue::BinanceSpot;
    if first > last {
        return Err(Undecodable::Ids { venue, symbol: depth.symbol.as_ref().into(), first, last });
    }
    let changes = Subject { venue, symbol: &depth.symbol }.levels(steps, rows(&depth.bids, &depth.asks))?;
    let sequence = Sequence::Venue { first, last };
    Ok(Delta { sequence, scale: steps.scale(), changes, window: Window::Known(SNAPSHOT_LEVELS) })
}

/// A REST snapshot of a symbol.
pub(super) fn snapshot(symbol: &str, message: &DepthSnapshot<'_>, steps: &mut Steps) -> Result<Snapshot, Undecodable> {
    let subject = Subject { venue: Venue::BinanceSpot, symbol };
    let ticks = subject.levels(steps, rows(&message.bids, &message.asks))?;
    let sequence = Sequence::Venue { first: message.last, last: message.last };
    Ok(Snapshot { sequence, scale: steps.scale(), ticks, window: Window::Known(SNAPSHOT_LEVELS) })
}
