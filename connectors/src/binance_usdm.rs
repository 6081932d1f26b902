//! Binance USD-M futures, in the venue's own rules:
//!
//! 1. Buffer depth events; GET a snapshot. Drop events with `u < lastUpdateId`; the first applied has
//!    `U <= lastUpdateId <= u`.
//! 2. Afterwards each `pu == previous u`, else a gap. `U` is not the previous `u + 1`: ids are shared by all symbols.
//! 3. A snapshot knows 1,000 levels a side; those beyond are unknown until touched.
//! 4. `bookTicker` has times (`e`, `E`, `T`) and ids, but is not ordered against depth: 246 of 6,551 depth events of one
//!    recording came after a ticker with a larger `u`. It is no part of the state.
//!
//! Rules 1 and 2 are the guard's, fed with `pu + 1`, `u` and `lastUpdateId` by [`book`], which says why that is the same.
//! What spot and futures have in common is in [`crate::binance_spot`].
//!
//! Never: spot's rule for `U`; a contract counted as the asset that it is about.

pub mod book;
pub mod feed;
pub mod live;
pub mod message;
