//! Deribit, JSON-RPC over WebSocket, in the venue's own rules:
//!
//! 1. The first notification of `book.INSTRUMENT.INTERVAL` is the whole book, also an empty one; those after it are changes
//!    `[new | change | delete, price, amount]` of whole levels, with absolute amounts. The verb `delete` ends a level,
//!    whatever its amount says.
//! 2. `prev_change_id` of a change is the `change_id` of the notification before; a snapshot has none. The ids are the same on
//!    every connection and rise by more than one. The slower intervals join what the raw one tells apart.
//! 3. `trade_seq` counts an instrument's trades, and orders them; `trade_id` is text.
//! 4. Numbers are JSON numbers, with exponents at times (`2.0e3`). Times are Unix milliseconds.
//! 5. Amounts of inverse perpetuals and futures are US dollars, else the base coin.
//! 6. `platform_state` tells of maintenances of the whole platform, and of single price indices that are locked. Only the
//!    former stop the market as a whole.
//! 7. `book.INSTRUMENT.GROUP.DEPTH.INTERVAL` sends whole views of a few grouped levels, which are no book.
//!
//! Combinations (`BTC-FS-…`, `BTC-CS-…`) have negative prices, which no book here can hold: they are refused by name.
//!
//! Never: a zero of the quote fields (`best_bid_price`), where it means that there is none, taken for a price.

pub mod book;
pub mod feed;
pub mod live;
pub mod message;
