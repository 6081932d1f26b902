//! KuCoin spot, in the venue's own rules:
//!
//! 1. Keep `/market/level2` messages; GET a snapshot with its `sequence` S. Drop messages with `sequenceEnd <= S`; the
//!    first applied has `sequenceStart <= S + 1`.
//! 2. Afterwards `sequenceStart == previous sequenceEnd + 1`, else a gap.
//! 3. Rows have a sequence each; they hold in its order. A row of price 0 changes nothing but the sequence.
//! 4. The order of trades is that of their `sequence`; `tradeId` is an opaque text. A trade's `time` is in nanoseconds,
//!    all other times are in milliseconds.
//!
//! Rules 1 and 2 are the guard's, fed with the sequences by [`feed`]; rule 3 is [`book`]'s, which says why the message
//! that bridges a snapshot is applied whole.
//!
//! Never: `/market/ticker`, which the venue does not order against `/market/level2`.

pub mod book;
pub mod feed;
pub mod message;
