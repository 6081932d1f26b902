//! dYdX v3, in the venue's own rules:
//!
//! 1. `subscribed` of channel `v3_orderbook` is the whole book; each of its levels has an `offset`, dead ones too, with a
//!    size of 0 (the subscription must say `includeOffsets`).
//! 2. `channel_data` has one `offset` and levels `[price, size]`; sizes are absolute, 0 deletes.
//! 3. Messages come out of order, and the offset of a market goes back in a good part of its updates. So every price of a
//!    side has an offset of its own: a level is applied only if its message's offset is greater than that. An order of
//!    arrival is never required.
//! 4. `message_id` counts the messages of a connection over all channels, from 0, each exactly once, but it comes permuted
//!    within a small distance too (ids 1 to 10 after 11 to 20 in the first 131 ms of a connection).
//! 5. `v3_trades` has trades without ids (`venue_feed/trades.rs` makes them). Its `subscribed` has the last 100; the latest
//!    is the first.
//!
//! An id that stays away is a lost message of nobody knows which market: the connection's books are lost, and only
//! another connection brings them back. Offsets are no sequence: the connections of one instrument cannot be merged; one
//! is active, the others stand by.
//!
//! Never: a level over a newer one, in whatever order messages come.

pub mod book;
pub mod feed;
pub mod message;
pub(crate) mod message_ids;
