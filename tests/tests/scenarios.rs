//! Scenarios in virtual time, each named after its story. `docs/SCENARIOS.md` says how to read, write and rerun them.
//!
//! Never: a socket or a wall clock; a check that the runner makes at every step anyway.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "scenarios/books.rs"]
mod books;
#[path = "scenarios/buffers.rs"]
mod buffers;
#[path = "scenarios/decoders.rs"]
mod decoders;
#[path = "scenarios/mix.rs"]
mod mix;
#[path = "scenarios/restarts.rs"]
mod restarts;
#[path = "scenarios/terminals.rs"]
mod terminals;

use market::{Level, Side, TickChange, U256};

/// The first instrument of a scenario.
const BTC: usize = 0;

/// The second.
const ETH: usize = 1;

fn bid(price: i64, quantity: u64) -> TickChange {
    TickChange::at(Side::Bid, price, U256::from(quantity))
}

fn level(tick_index: i64, quantity: u64) -> Level {
    Level { tick_index, quantity: U256::from(quantity) }
}
