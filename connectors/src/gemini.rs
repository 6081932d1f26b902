//! Gemini, WebSocket market data v2, in the venue's own rules:
//!
//! 1. The first `l2_updates` of a symbol after its subscription is the whole book: it alone has `trades` (and
//!    `auction_events`). Every later one has changes, `["buy"|"sell", price, quantity]`, and nothing else.
//! 2. Quantities are absolute; `"0"` deletes.
//! 3. There is no sequence and no checksum: a lost message cannot be known. A connection that is silent is made anew; a
//!    `heartbeat` comes every 5 s.
//! 4. A trade has an `event_id` that rises with each trade of its symbol. The `trades` of the first message are the last
//!    50, the latest first, with ids of the same kind.
//!
//! Without a sequence the connections of one instrument cannot be merged: one is active, the others stand by.
//!
//! Never: a message with changes alone taken for a book.

pub mod book;
pub mod feed;
pub mod message;
