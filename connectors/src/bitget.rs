//! Bitget, WebSocket v1, in the venue's own rules:
//!
//! 1. `books` begins with `action` `snapshot`, then come `update`s of absolute quantities; `"0"` deletes.
//! 2. After each message the CRC32 over the best 25 levels must match, as a signed 32-bit number: of each rank the bid's
//!    `price:quantity`, then the ask's, all joined by `:`, a side that has no such rank left out; in the venue's own
//!    spelling.
//! 3. There is no sequence: a mismatch means to drop the book, subscribe anew and wait for a snapshot.
//! 4. Spot (`instType` `sp`) and contracts (`mc`) are two sockets, on which the same `instId` is another market.
//! 5. `trade` has rows `[milliseconds, price, quantity, side]` without ids (`venue_feed/trades.rs` makes them). The
//!    subscription brings the last 50; the latest is the first.
//! 6. A `ping` as text is answered by a `pong` as text.
//!
//! So that rule 4 holds whatever is subscribed to, spot symbols are the `instId` as it is (`BTCUSDT`), and others have
//! their `instType` before it (`mc:BTCUSDT`).
//!
//! Without a sequence the connections of one instrument cannot be merged: one is active, the others stand by.
//!
//! Never: a checksum over anything but the venue's own spelling.

pub mod book;
pub mod feed;
pub mod message;
