//! OKX v5, in the venue's own rules:
//!
//! 1. `books` and `books-l2-tbt` carry the best 400 levels of each side, `books50-l2-tbt` the best 50. A snapshot replaces,
//!    also a second one that comes without notice; an update's sizes are absolute, and a size of zero ends its level. The
//!    venue itself sends the end of what leaves its window.
//! 2. `prevSeqId` of an update is the `seqId` of the message before; that of a snapshot is -1. The ids of an instrument
//!    and channel are the same on every connection, and rise by more than one.
//! 3. `seqId` equal to `prevSeqId`, without levels, says only that nothing happened.
//! 4. After a maintenance `seqId` may once be below `prevSeqId`; the chain goes on from there.
//! 5. `checksum` is the CRC32, as a signed number, over the best 25 levels of each side, bid and ask by turns, as
//!    `price:size:price:size…` in the venue's own spelling; a rank that a side lacks is left out. 0 means that there is none, as
//!    on production since June 2026.
//! 6. Messages of 2021 and 2022 have no ids: their books are numbered by arrival, one connection at a time, and the
//!    checksum alone says whether a message was lost.
//! 7. `tradeId` rises with each trade of an instrument.
//! 8. `status` tells of maintenances. Those of the WebSocket service and of trading as a whole stop the market from
//!    `ongoing`, or `pre_open` which takes orders but matches none, to `completed` or `canceled`; others concern some
//!    accounts or products, nobody says which.
//! 9. In `tickers` an empty or zero price means that there is none; in books only a size of zero has a meaning. The former
//!    are not read.
//! 10. Times are Unix milliseconds, as text. Contracts count in contracts, spot in the base asset.
//!
//! Never: an instrument that changes between rules 2 and 6, or two channels mixed in one book.

pub mod book;
pub mod feed;
pub mod live;
pub mod message;
mod mirrors;
