//! Bitfinex v2, in the venue's own rules:
//!
//! 1. A channel is subscribed to by name and symbol, and is named by the `chanId` of its `subscribed` event from then on,
//!    on this connection alone. A heartbeat of a channel may come before that event.
//! 2. With the flag 65536 every array ends with a number that counts those of the connection, over all channels and their
//!    heartbeats, by one; events, which are objects, have none. A hole means that any of the connection's books may be
//!    wrong: it is made anew.
//! 3. A book's rows are `[price, count, amount]`: bids have a positive amount, asks a negative one. Count 0 deletes, its
//!    amount 1 for a bid and -1 for an ask. An array of rows is the whole book. What leaves the window is deleted by the
//!    venue.
//! 4. With the flag 131072 `[chanId, "cs", n]` follows changes: the signed CRC32 over the best 25 levels of each side,
//!    `price:amount` of bid and ask in turn, joined by colons, amounts with their sign, numbers as the venue spells them.
//!    A mismatch means to subscribe to that book anew. The rows of an event come in any order, so that a book may be
//!    crossed between two of them, and over a snapshot that is older than they are: on a connection that confirmed the flag
//!    they wait for their checksum and are one change then, as long as it comes at once.
//! 5. A trade is `[id, ms, amount, price]`, a positive amount a buyer's; it is told as `te` when it is executed and again
//!    as `tu`. The subscription brings the last trades, the newest first.
//! 6. `info` events: `platform.status` 0 is maintenance; 20051: the server restarts, connect anew; 20060: maintenance
//!    begins; 20061: it is over, subscribe to everything anew.
//! 7. 25 channels a connection, 20 connections a minute and address. Array lengths may grow.
//!
//! Without ids of the book the connections of one instrument cannot be merged: one is active, the others stand by.
//!
//! Never: a number parsed as a float; `0.00000017` has a checksum that `1.7e-7` has not.

pub mod book;
pub mod feed;
pub mod live;
pub mod message;
