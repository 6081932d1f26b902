//! Messages.
//!
//! Never: -

use crate::venue_feed::{Assets, listings};

/// Assets.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    listings::separated(symbol, '-')
}
