//! Kraken Futures, in the venue's own rules:
//!
//! 1. A subscription to `book` brings a `book_snapshot` with its `seq` on the same connection. It replaces.
//! 2. Each `book` message is one level, with the product's next `seq`: exactly one more, else a gap. A quantity of 0 is
//!    the level's end.
//! 3. A gap means to subscribe to the product anew.
//! 4. Prices and quantities are JSON numbers; times are in milliseconds.
//! 5. `trade` has a `uid`, which is a text, and a `seq` of its own, which orders the product's trades.
//!    `trade_snapshot` repeats what was traded before.
//!
//! Rule 2 is the guard's, fed with `seq` as first and last id by [`feed`]: the snapshot tells everything up to its `seq`,
//! so the next message joins it if nothing is missing between. `seq` is the product's and not the connection's, so all
//! legs feed one stream.
//!
//! Never: a number parsed as a float.

pub mod book;
pub mod feed;
pub mod message;
