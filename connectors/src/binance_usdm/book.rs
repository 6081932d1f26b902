//! The place of a depth event among the others of its symbol.
//!
//! Never: an id compared with another symbol's.

use crate::binance_spot::combined::{DepthIds, Market};
use market::Venue;

/// The USD-M futures market.
#[derive(Clone, Copy, Debug)]
pub struct Usdm;

impl Market for Usdm {
    const VENUE: Venue = Venue::BinanceUsdm;

    /// Rule 2: an event says that nothing of its symbol lies between `pu` and `U`, so it covers `pu + 1 ..= u`.
    ///
    /// The guard applies an event if its first id is at most the shown one plus 1, that is if `pu <= shown`, and drops
    /// it if `u <= shown`. With a snapshot of id `L` shown this is rule 1:
    /// * `u < L` is dropped by both.
    /// * `u == L` is what rule 1 begins with, and what the guard drops. All of its changes are in the snapshot, since
    ///   quantities are absolute and none of its ids is above `L`; so applying it changes nothing. The next event has
    ///   `pu == L` and joins.
    /// * `U <= L < u` joins in both, since `pu < U`.
    /// * `pu <= L < U < u`: rule 1 fetches again for no reason; nothing of the symbol happened from `pu` to `L`, so the
    ///   snapshot is the book as of `pu`, and the event joins it.
    /// * `L < pu`: something between is missing, in both.
    ///
    /// Two legs may cut the same stream into different events. They overlap then, and absolute quantities of the
    /// greater `u` are the right ones, so the same comparison holds across legs.
    fn covered(ids: DepthIds) -> Option<(u64, u64)> {
        Some((ids.previous?.checked_add(1)?, ids.last))
    }
}
