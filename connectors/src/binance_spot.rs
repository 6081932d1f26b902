//! Binance spot, in the venue's own rules:
//!
//! 1. Buffer depth events; GET a snapshot. If `lastUpdateId` is below the first buffered `U`, fetch again.
//! 2. Drop events with `u <= lastUpdateId`. The first applied has `U <= lastUpdateId + 1 <= u`.
//! 3. Afterwards each `U == previous u + 1`, else a gap.
//! 4. A snapshot knows 1,000 levels a side; those beyond are unknown until touched.
//!
//! Rules 1 to 3 are the guard's, fed with `U`, `u` and `lastUpdateId` by [`feed`]. What futures have in common with spot
//! is in [`combined`], [`message`] and [`live`].
//!
//! Never: an order taken from `@bookTicker`, which the venue does not order against `@depth`.

pub mod book;
pub mod combined;
pub mod feed;
pub mod live;
pub mod message;
