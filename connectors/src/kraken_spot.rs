//! Kraken spot, WebSocket v2 and v1, in the venue's own rules:
//!
//! 1. A snapshot replaces. An update's levels are applied in order; several of one price may be in one message.
//! 2. After each message both sides are truncated to the subscribed depth; no zero is sent for what leaves it.
//! 3. Then the CRC32 over the best 10 asks, then bids, must match: price text without point and leading zeros, the
//!    quantity's likewise, in the venue's own spelling.
//! 4. There is no sequence: a mismatch means to drop the book, subscribe anew and wait for a snapshot.
//!
//! What v1 has of its own:
//!
//! 5. Data are arrays `[channelID, {payload}(, {payload2}), "book-1000", "XMR/USD"]`; the number in the channel's name is
//!    the subscribed depth. Everything else is an object with an `event`; v2 has objects alone, without one.
//! 6. A snapshot has the keys `as` and `bs`, an update `a` or `b`; one that touches both sides has two maps, and the
//!    checksum `c` is in the last map. Snapshots have none.
//! 7. A level is `[price, volume, time]`, or has a fourth element `"r"` when it comes back into the window.
//! 8. Trades have no ids (`venue_feed/trades.rs` makes them).
//! 9. Symbols are spelled `XBT/USD`; they are other instruments than v2's, of the same pairs.
//!
//! Without a sequence the connections of one instrument cannot be merged: one is active, the others stand by with books
//! of their own, held to the same rules. One of them takes over when the active one ends or fails.
//!
//! Never: a number parsed as a float; `0.50930100` has a checksum that `0.509301` has not.

pub mod book;
pub mod feed;
pub mod live;
pub mod message;
pub(crate) mod v1;
