//! Bitstamp, in the venue's own rules:
//!
//! 1. Keep the diffs of `diff_order_book_PAIR`; GET `/api/v2/order_book/PAIR`. Drop diffs with
//!    `microtimestamp <= snapshot.microtimestamp`, apply the others.
//! 2. On one connection `microtimestamp` strictly rises. It numbers no diffs: the next one may be anything greater.
//! 3. So a lost diff is undetectable by the protocol; there is no sequence and no checksum. Losses come as a lost
//!    connection only.
//! 4. `timestamp` is in seconds, `microtimestamp` in microseconds. A trade's `id` rises; `type` 0 is a buy, 1 a sale.
//! 5. `bts:request_reconnect` says that the connection ends soon.
//!
//! The guard wants to know what an update covers. [`chain`] tells it what a connection can vouch for: everything between
//! two of its own diffs. All legs feed one stream, so a diff that one leg lost is filled by another that comes first. If
//! the leg that lost it is ahead, its next diff hides the loss, and the other leg's diff comes too late; but then it
//! contradicts what the first has vouched for, which is seen: the book is declared wrong and fetched again. So with two
//! legs a loss that rule 3 calls undetectable is detected.
//!
//! Never: the end of one connection and the start of the next taken for neighbours.

pub mod book;
pub(crate) mod chain;
pub mod feed;
pub mod message;
