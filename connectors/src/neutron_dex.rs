//! Neutron's exchange module (Duality), whose batches are the `block_results` of CometBFT, in the venue's own rules:
//!
//! 1. A `TickUpdate` event has attributes, looked up by key and never by place. TokenZero < TokenOne name the pair;
//!    TokenIn is the token that rests at the tick: TokenZero at an ask, TokenOne at a bid.
//! 2. The price is `1.0001^TickIndex` of the other token for one of TokenIn. As TokenOne for one of TokenZero that is
//!    `1.0001^TickIndex` at an ask and `1.0001^-TickIndex` at a bid; |TickIndex| is at most 559,680.
//! 3. Reserves are absolute; none remove the tick. ReservesDec, where it is there, is exact to 27 decimals: less than one
//!    unit is "0" in Reserves and lives all the same.
//! 4. The tick's key is (TokenZero, TokenOne, TokenIn, TickIndex, Fee or TrancheKey). Where TrancheKey is there, a Fee
//!    means nothing; of several Fees the last one counts.
//! 5. Events are ordered by (height, BeginBlock, transactions, EndBlock), then by transaction and place. A transaction whose
//!    code is not 0 changed nothing; its events are counted in the order all the same.
//! 6. Limit orders expire in the events of the block, not in transactions.
//! 7. Three shapes: base64 keys and values (Tendermint 0.34); text, with `begin_block_events` and `end_block_events`
//!    (CometBFT 0.37); text, with `finalize_block_events`, each of whose events has an attribute `mode` (0.38). One whose
//!    `mode` is neither BeginBlock nor PreBlock, or that has none, is of the block's end.
//! 8. Lists may be null, an event may have no `type`, a key or value may be null.
//!
//! Never: a tick of a transaction that failed.

mod book;
pub mod feed;
pub mod generator;
pub mod message;

pub use book::TickFault;

use market::{Side, U256};

/// Quantity steps of this venue: ReservesDec has 27 decimals.
pub const QUANTITY_EXPONENT: i8 = -27;

/// Greatest TickIndex, and its negative the least, of any release of the venue; later ones stop at 529,715.
pub const TICK_INDEX_MAX: i64 = 559_680;

/// Longest denomination of a token, in bytes: the chain's own bound.
pub const DENOM_BYTES_MAX: usize = 128;

/// What stands between the two tokens in an instrument's symbol; no denomination holds it.
pub const BETWEEN_TOKENS: &str = "<>";

/// The `TickUpdate`s of one block that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its height, as its content says it.
    pub height: u64,
    /// Events of all kinds, those of failed transactions included: ordinals are below it.
    pub events: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// The pairs that occur, TokenZero and TokenOne.
    pub pairs: Vec<(Box<str>, Box<str>)>,
    /// The ticks, in the order of their ordinals.
    pub ticks: Vec<BlockTick>,
}

/// A tick's new state, as one event of a block says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTick {
    /// The event's place among all events of the block.
    pub ordinal: u64,
    /// Which of the block's pairs.
    pub pair: usize,
    /// TokenZero rests at an ask, TokenOne at a bid.
    pub side: Side,
    /// The price's exponent, TokenOne for one of TokenZero: the venue's TickIndex at an ask, its negative at a bid.
    pub tick_index: i64,
    /// The pool's fee; 0 of a tranche.
    pub fee: u32,
    /// The limit order's tranche; empty of a pool.
    pub tranche: Box<str>,
    /// In steps of 10^[`QUANTITY_EXPONENT`]; zero removes.
    pub reserves: U256,
}
