//! Blocks of a frame, encoded once, and snapshots, encoded once per version.
//!
//! Never: an age from a cache; ages are told as of the frame that carries them.

use super::{Entry, FanoutCounts};
use crate::hub::{Frame, Hub, HubInstrument, Update};
use bytes::Bytes;
use dataflow::cut::BookCut;
use foldhash::HashMap;
use market::{PairId, Scale, Side, SymbolId, Trade};
use wire::{BestBlock, Block, BookDelta, BookSnapshot, Channel, QuoteBlock, StatusBlock, TradesBlock, encode_block};

/// Encoded blocks: of the frame at hand by entry, and of whole books by instrument.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    changed: HashMap<Entry, Vec<Bytes>>,
    books: HashMap<u32, (u64, Bytes)>,
}

impl Blocks {
    /// Encodes what changed in a frame.
    pub(super) fn load(&mut self, frame: &Frame, counts: &mut FanoutCounts) {
        self.changed.clear();
        for update in &frame.updates {
            self.update(update, frame.at_ns, counts);
        }
        for (pair, best) in &frame.best {
            let block = Block::Best(BestBlock { pair: pair.0, best: best.unwrap_or_default() });
            self.put((Channel::Best, pair.0), &[block], counts);
        }
    }

    fn update(&mut self, update: &Update, at_ns: u64, counts: &mut FanoutCounts) {
        let id = update.symbol.0;
        let age_ms = at_ns.saturating_sub(update.received_ns) / 1_000_000;
        let status = Block::Status(StatusBlock { id, version: update.version, feed: update.feed, age_ms });
        if update.feed_changed {
            self.put((Channel::Status, id), std::slice::from_ref(&status), counts);
        }
        match (book_block(update, age_ms), update.feed_changed) {
            (Some(book), _) => self.put((Channel::Book, id), &[book], counts),
            (None, true) => self.put((Channel::Book, id), std::slice::from_ref(&status), counts),
            (None, false) => {}
        }
        match (update.quote, update.version, update.feed_changed) {
            (Some(quote), Some(version), _) => {
                let block = QuoteBlock { id, version, scale: update.scale, quote, feed: update.feed, age_ms };
                self.put((Channel::Quote, id), &[Block::Quote(block)], counts);
            }
            (_, _, true) => self.put((Channel::Quote, id), &[status], counts),
            _ => {}
        }
        if !update.trades.is_empty() {
            self.put((Channel::Trades, id), &trade_blocks(id, &update.trades), counts);
        }
    }

    fn put(&mut self, entry: Entry, blocks: &[Block], counts: &mut FanoutCounts) {
        let encoded: Vec<Bytes> = blocks.iter().filter_map(|block| encode(block, counts)).collect();
        if !encoded.is_empty() {
            self.changed.insert(entry, encoded);
        }
    }

    /// Gives the blocks of the frame that belong to a sorted set, in the set's order.
    pub(super) fn changed(&self, target: &[Entry], mut take: impl FnMut(&[u8])) {
        if target.len() <= self.changed.len() {
            target.iter().filter_map(|entry| self.changed.get(entry)).flatten().for_each(|block| take(block));
            return;
        }
        let mut entries: Vec<_> =
            self.changed.iter().filter(|(entry, _)| target.binary_search(entry).is_ok()).collect();
        entries.sort_unstable_by_key(|(entry, _)| **entry);
        entries.into_iter().flat_map(|(_, blocks)| blocks).for_each(|block| take(block));
    }

    /// Gives an entry's whole state at the last cut; an instrument without data has an explicit empty one.
    pub(super) fn snapshot(&mut self, entry: Entry, hub: &Hub, counts: &mut FanoutCounts, mut take: impl FnMut(&[u8])) {
        let (channel, id) = entry;
        if channel == Channel::Best {
            let best = hub.best(PairId(id)).unwrap_or_default();
            encode(&Block::Best(BestBlock { pair: id, best }), counts).iter().for_each(|block| take(block));
            return;
        }
        let instrument = hub.instrument(SymbolId(id));
        let age_ms = instrument.map_or(0, |instrument| instrument.age_ms(hub.now_ns()));
        let version = instrument.and_then(HubInstrument::version);
        let feed = instrument.map(HubInstrument::feed).unwrap_or_default();
        match channel {
            Channel::Book => {
                let revision = instrument.map_or(0, HubInstrument::revision);
                let cached = self.books.get(&id).filter(|(held, _)| *held == revision);
                let fresh = if cached.is_none() {
                    encode(&Block::BookSnapshot(whole_book(id, instrument)), counts)
                } else {
                    None
                };
                if let Some(bytes) = fresh {
                    self.books.insert(id, (revision, bytes));
                }
                if let Some((_, book)) = self.books.get(&id).filter(|(held, _)| *held == revision) {
                    take(book);
                }
            }
            Channel::Quote => {
                let (version, scale) =
                    (version.unwrap_or_default(), instrument.map_or_else(unit, HubInstrument::scale));
                let quote = instrument.map(HubInstrument::quote).unwrap_or_default();
                let block = Block::Quote(QuoteBlock { id, version, scale, quote, feed, age_ms });
                encode(&block, counts).iter().for_each(|block| take(block));
            }
            Channel::Trades => {
                let trade = instrument.and_then(HubInstrument::last_trade);
                let blocks = trade_blocks(id, trade.map(std::slice::from_ref).unwrap_or_default());
                blocks.iter().filter_map(|block| encode(block, counts)).for_each(|block| take(&block));
            }
            Channel::Best | Channel::Priority | Channel::Status => {}
        }
        let status = Block::Status(StatusBlock { id, version, feed, age_ms });
        encode(&status, counts).iter().for_each(|block| take(block));
    }
}

/// A block's bytes; one that the wire's bounds do not allow is counted and left out.
fn encode(block: &Block, counts: &mut FanoutCounts) -> Option<Bytes> {
    let mut bytes = Vec::new();
    match encode_block(block, &mut bytes) {
        Ok(()) => Some(bytes.into()),
        Err(error) => {
            tracing::error!(%error, "a block cannot be encoded");
            counts.unencodable += 1;
            None
        }
    }
}

/// The steps of an instrument that has no data yet.
fn unit() -> Scale {
    Scale { price: 0, quantity: 0 }
}

fn whole_book(id: u32, instrument: Option<&HubInstrument>) -> BookSnapshot {
    let levels = |side| instrument.map(|instrument| instrument.levels(side).collect()).unwrap_or_default();
    let shown = instrument.filter(|instrument| instrument.version().is_some());
    BookSnapshot {
        id,
        version: instrument.and_then(HubInstrument::version).unwrap_or_default(),
        scale: shown.map_or_else(unit, HubInstrument::scale),
        feed: instrument.map(HubInstrument::feed).unwrap_or_default(),
        age_ms: 0,
        horizon: instrument.map(HubInstrument::horizon).unwrap_or_default(),
        bids: levels(Side::Bid),
        asks: levels(Side::Ask),
    }
}

fn book_block(update: &Update, age_ms: u64) -> Option<Block> {
    let (id, version, feed) = (update.symbol.0, update.version?, update.feed);
    match &update.book {
        BookCut::Unchanged => None,
        BookCut::Delta { base, changes } => {
            Some(Block::BookDelta(BookDelta { id, base: *base, version, feed, changes: changes.clone() }))
        }
        BookCut::Snapshot { bids, asks, horizon } => Some(Block::BookSnapshot(BookSnapshot {
            id,
            version,
            scale: update.scale,
            feed,
            age_ms,
            horizon: *horizon,
            bids: bids.clone(),
            asks: asks.clone(),
        })),
    }
}

/// Trades of one scale share a block.
fn trade_blocks(id: u32, trades: &[(Scale, Trade)]) -> Vec<Block> {
    let block = |run: &[(Scale, Trade)]| {
        run.first().map(|(scale, _)| {
            let trades = run.iter().map(|(_, trade)| trade.clone()).collect();
            Block::Trades(TradesBlock { id, scale: *scale, trades })
        })
    };
    trades.chunk_by(|(a, _), (b, _)| a == b).filter_map(block).collect()
}
