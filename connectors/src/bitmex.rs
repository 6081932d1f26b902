//! BitMEX, table `orderBookL2`, in the venue's own rules:
//!
//! 1. `partial` is the whole book of the symbol in its `filter`, of every symbol where the filter names none. All that
//!    came before a symbol's partial is to be discarded.
//! 2. Then rows are inserted, updated and deleted. A row's key is (symbol, id, side).
//! 3. In 2021 `update` and `delete` carry no price: it is that of the row with this key. Since 2023 the price is always
//!    there and ids are arbitrary: a price is never derived from an id.
//! 4. There is no sequence and no checksum. A row that is updated or deleted but was never told of means that something
//!    was missed: drop the book, subscribe anew and wait for a partial.
//! 5. Sizes are contracts, absolute. Prices are JSON numbers in any spelling (`1e-8`).
//! 6. Trades have a `trdMatchID`, unique, which orders nothing. The partial of table `trade` is the last one.
//!
//! Without a sequence the connections of one instrument cannot be merged: one is active, the others stand by.
//!
//! Never: a price made out of an id; a change of a row that nobody knows.

pub mod book;
pub mod feed;
pub mod message;
