//! Blocks of a frame, encoded once, and snapshots, encoded once per version; what the clock asks for is told as well:
//! digests, and the age of what is not LIVE.
//!
//! Never: an age from a cache; ages are told as of the frame that carries them.

use super::{Entry, FanoutConfig, FanoutCounts};
use crate::hub::{Frame, Hub, HubInstrument, Update};
use bytes::Bytes;
use dataflow::cut::BookCut;
use foldhash::HashMap;
use market::{FeedState, Level, PairId, Scale, Side, SymbolId, Trade, ViewKey};
use wire::{
    BestBlock, Block, BookDelta, BookSnapshot, Channel, DigestBlock, EncodeError, ErrorCode, QuoteBlock, StatusBlock,
    TradesBlock, ViewBlock, bounds::FRAME_BYTES_BESIDE_BLOCKS, digest_of, encode_block,
};

/// How often a terminal is told the state and age of an instrument that is not LIVE, milliseconds: a person's second.
const STATUS_EVERY_MS: u64 = 1_000;

/// Encoded blocks: of the frame at hand by entry, and of whole books by instrument.
#[derive(Debug)]
pub(super) struct Blocks {
    bytes_max: usize,
    /// Frames from one digest of an instrument to the next.
    digest_every: u32,
    /// Frames from one status of an instrument that is not LIVE to the next.
    status_every: u32,
    changed: HashMap<Entry, Vec<Bytes>>,
    /// What the clock asked for in the frame at hand.
    timed: HashMap<Entry, Option<Bytes>>,
    books: HashMap<u32, (u64, Bytes)>,
}

impl Blocks {
    pub(super) fn new(config: &FanoutConfig) -> Self {
        let frame_ms = u64::from(config.frame_ms).max(1);
        let frames = |ms: u64| u32::try_from(ms / frame_ms).unwrap_or(u32::MAX).max(1);
        Self {
            bytes_max: config.message_bytes_max.saturating_sub(FRAME_BYTES_BESIDE_BLOCKS),
            digest_every: frames(config.digest_ms),
            status_every: frames(STATUS_EVERY_MS),
            changed: HashMap::default(),
            timed: HashMap::default(),
            books: HashMap::default(),
        }
    }

    /// Longest message that blocks are put into, bytes.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.bytes_max.saturating_add(FRAME_BYTES_BESIDE_BLOCKS)
    }

    /// Encodes what changed in a frame.
    pub(super) fn load(&mut self, frame: &Frame, counts: &mut FanoutCounts) {
        self.changed.clear();
        self.timed.clear();
        for update in &frame.updates {
            self.update(update, frame.at_ns, counts);
        }
        for (pair, best) in &frame.best {
            let block = Block::Best(BestBlock { pair: pair.0, best: best.unwrap_or_default() });
            self.put((Channel::Best, pair.0), &[block], counts);
        }
        for (key, value) in &frame.views {
            let id = key.number();
            self.put((Channel::View, id), &[Block::View(ViewBlock { id, value: *value })], counts);
        }
    }

    fn update(&mut self, update: &Update, at_ns: u64, counts: &mut FanoutCounts) {
        let id = update.symbol.0;
        let age_ms = at_ns.saturating_sub(update.received_ns) / 1_000_000;
        let status = Block::Status(StatusBlock { id, version: update.version, feed: update.feed, age_ms });
        if update.feed_changed {
            // Whatever a terminal has of an instrument, it is told of a feed that dies.
            for channel in [Channel::Status, Channel::Priority, Channel::Digest] {
                self.put((channel, id), std::slice::from_ref(&status), counts);
            }
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
            (_, _, true) => self.put((Channel::Quote, id), std::slice::from_ref(&status), counts),
            _ => {}
        }
        let mut trades = if update.feed_changed { vec![status] } else { Vec::new() };
        trades.append(&mut trade_blocks(id, &update.trades));
        if !trades.is_empty() {
            self.put((Channel::Trades, id), &trades, counts);
        }
    }

    fn put(&mut self, entry: Entry, blocks: &[Block], counts: &mut FanoutCounts) {
        let encoded: Vec<Bytes> = blocks.iter().filter_map(|block| self.encode(block, counts).ok()).collect();
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

    /// Gives what the clock asks for at the end of a frame, for a sorted set: digests of books, at the version that their
    /// chains have after this frame, and the state and age of what is not LIVE. Each instrument has its own frame, so
    /// that the work is spread.
    pub(super) fn timed(
        &mut self,
        target: &[Entry],
        frame: &Frame,
        hub: &Hub,
        counts: &mut FanoutCounts,
        mut take: impl FnMut(&[u8]),
    ) {
        let timed = target.partition_point(|(channel, _)| *channel < Channel::Status);
        if target.get(timed).is_none_or(|(channel, _)| *channel > Channel::Digest) {
            return;
        }
        for (channel, every) in [(Channel::Status, self.status_every), (Channel::Digest, self.digest_every)] {
            for id in due(frame.frame, every, hub.numbers()) {
                let entry = (channel, id);
                if target.binary_search(&entry).is_err() {
                    continue;
                }
                if !self.timed.contains_key(&entry) {
                    let block =
                        hub.instrument(SymbolId(id)).and_then(|instrument| self.timed_block(entry, instrument, hub));
                    counts.digests += u64::from(matches!(block, Some(Block::Digest(_))));
                    let encoded = block.and_then(|block| self.encode(&block, counts).ok());
                    self.timed.insert(entry, encoded);
                }
                if let Some(Some(block)) = self.timed.get(&entry) {
                    take(block);
                }
            }
        }
    }

    fn timed_block(&self, entry: Entry, instrument: &HubInstrument, hub: &Hub) -> Option<Block> {
        let (channel, id) = entry;
        if channel == Channel::Digest {
            let levels = |side| instrument.levels(side).collect::<Vec<Level>>().into_iter();
            let crc = digest_of(instrument.scale(), levels(Side::Bid), levels(Side::Ask)).ok()?;
            return Some(Block::Digest(DigestBlock { id, version: instrument.version()?, crc }));
        }
        let (feed, age_ms) = (instrument.feed(), instrument.age_ms(hub.now_ns()));
        let quiet = feed.state != FeedState::Live && !self.changed.contains_key(&entry);
        quiet.then(|| Block::Status(StatusBlock { id, version: instrument.version(), feed, age_ms }))
    }

    /// An entry's whole state at the last cut; an instrument without data has an explicit empty one.
    ///
    /// # Errors
    /// The code that a terminal is refused the entry with.
    pub(super) fn snapshot(
        &mut self,
        entry: Entry,
        hub: &Hub,
        counts: &mut FanoutCounts,
    ) -> Result<Vec<Bytes>, ErrorCode> {
        let (channel, id) = entry;
        if channel == Channel::Best {
            let best = hub.best(PairId(id)).unwrap_or_default();
            return Ok(vec![self.encode(&Block::Best(BestBlock { pair: id, best }), counts)?]);
        }
        if channel == Channel::View {
            let value = hub.view(ViewKey::of_number(id)).and_then(|held| held.value);
            return Ok(vec![self.encode(&Block::View(ViewBlock { id, value }), counts)?]);
        }
        let instrument = hub.instrument(SymbolId(id));
        let age_ms = instrument.map_or(0, |instrument| instrument.age_ms(hub.now_ns()));
        let version = instrument.and_then(HubInstrument::version);
        let feed = instrument.map(HubInstrument::feed).unwrap_or_default();
        let mut blocks = match channel {
            Channel::Book => vec![self.book(id, instrument, counts)?],
            Channel::Quote => {
                let (version, scale) =
                    (version.unwrap_or_default(), instrument.map_or_else(unit, HubInstrument::scale));
                let quote = instrument.map(HubInstrument::quote).unwrap_or_default();
                vec![self.encode(&Block::Quote(QuoteBlock { id, version, scale, quote, feed, age_ms }), counts)?]
            }
            Channel::Trades => {
                let trade = instrument.and_then(HubInstrument::last_trade);
                let blocks = trade_blocks(id, trade.map(std::slice::from_ref).unwrap_or_default());
                blocks.iter().map(|block| self.encode(block, counts)).collect::<Result<_, _>>()?
            }
            // The priority chain has frames of its own; digests come when they are due.
            Channel::Priority | Channel::Digest | Channel::Best | Channel::Status | Channel::View => Vec::new(),
        };
        blocks.push(self.encode(&Block::Status(StatusBlock { id, version, feed, age_ms }), counts)?);
        Ok(blocks)
    }

    /// The whole book of an instrument as the hub has it; its age is 0, and a status tells the true one.
    ///
    /// # Errors
    /// The code that a terminal is refused the book with.
    pub(super) fn book(
        &mut self,
        id: u32,
        instrument: Option<&HubInstrument>,
        counts: &mut FanoutCounts,
    ) -> Result<Bytes, ErrorCode> {
        let revision = instrument.map_or(0, HubInstrument::revision);
        if let Some((_, book)) = self.books.get(&id).filter(|(held, _)| *held == revision) {
            return Ok(book.clone());
        }
        let book = self.encode(&Block::BookSnapshot(whole_book(id, instrument)), counts)?;
        self.books.insert(id, (revision, book.clone()));
        Ok(book)
    }

    /// A block's bytes; one that the bounds do not allow is counted, and refused with a code for the terminal.
    pub(super) fn encode(&self, block: &Block, counts: &mut FanoutCounts) -> Result<Bytes, ErrorCode> {
        let mut bytes = Vec::new();
        let written = encode_block(block, &mut bytes);
        let max = self.bytes_max;
        let fits = if bytes.len() > max { Err(EncodeError::TooLong { bytes: bytes.len(), max }) } else { Ok(()) };
        written.and(fits).map(|()| bytes.into()).map_err(|error| {
            tracing::error!(%error, "a block cannot be encoded");
            counts.unencodable += 1;
            match error {
                EncodeError::TooLong { .. } | EncodeError::TooMany { .. } => ErrorCode::TooLarge,
                _ => ErrorCode::Internal,
            }
        })
    }
}

/// The instruments whose turn is in a frame, each every so many frames.
fn due(frame: u64, every: u32, numbers: u32) -> impl Iterator<Item = u32> {
    let first = u32::try_from(frame % u64::from(every)).unwrap_or(0);
    (first..numbers).step_by(usize::try_from(every).unwrap_or(usize::MAX))
}

/// The steps of an instrument that has no data yet.
fn unit() -> Scale {
    Scale { price: 0, quantity: 0 }
}

/// The whole book as a block; its age is 0.
pub(super) fn whole_book(id: u32, instrument: Option<&HubInstrument>) -> BookSnapshot {
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

/// What a book did over a frame.
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
