//! Coinbase, in the venue's own rules. Two protocols carry the same market; live connections use Advanced Trade unless
//! told otherwise, since only there a loss can be noticed.
//!
//! Exchange feed:
//! 1. `snapshot` comes once per product after the subscription and replaces the book. `l2update` changes are absolute and
//!    are applied in the order of their arrival; size 0 deletes.
//! 2. `level2` has no sequence and no checksum: a lost message cannot be noticed. On any reconnection a new snapshot is
//!    waited for. The `sequence` of `match` and `ticker` counts all messages of a product and is not the book's.
//! 3. `match` and `last_match` carry a `trade_id` that rises by one per product; `side` is that of the maker.
//!
//! Advanced Trade:
//! 4. The envelope is `{channel, timestamp, sequence_num, events}`. `sequence_num` counts all messages of a connection
//!    over all of its channels, acknowledgements and heartbeats included, by one from 0. A hole means that any of the
//!    connection's books may be wrong: it is made anew.
//! 5. What is subscribed to as `level2` is delivered as `l2_data`. The side that sells is called `offer`. A snapshot's
//!    levels may have the `event_time` 1970-01-01; the time of a message is its `timestamp`.
//! 6. A subscription without updates is closed after 60 to 90 seconds unless `heartbeats` are subscribed to, which come
//!    every second.
//! 7. A product in USDC is another name for the one in USD; its data name the latter, so that is what to subscribe to.
//!
//! Both:
//! 8. A request is answered with all subscriptions of the connection, and without an id. What was asked for and is not
//!    among them was not heeded; an `error` names no request.
//! 9. A connection that subscribes to nothing for 5 seconds is closed.
//!
//! Without ids of the book the connections of one instrument cannot be merged: one is active, the others stand by.
//!
//! Never: a book that goes on over a hole in the connection's numbers.

pub mod book;
pub mod feed;
pub mod live;
pub mod message;
