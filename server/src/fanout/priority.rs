//! Priority chains: what lanes say ahead of their cut, on to the terminals that want it so, without waiting for a frame.
//!
//! Per wanted instrument there is one book, built from the lane's snapshot and deltas. A terminal's chain begins with a
//! snapshot of it, or of the hub's book while the lane's first one is still to come; each update is encoded once, and the
//! bytes are shared. Instruments that nobody wants so have no state here, and their lanes send nothing.
//!
//! Never: a delta to a terminal whose chain is not at its base; a wait for a cut.

use super::{
    Ahead, Connection, ConnectionId, Entry,
    blocks::whole_book,
    close::{Messages, gaps},
};
use crate::hub::{Frame, Hub, HubInstrument};
use bytes::Bytes;
use dataflow::{
    cut::{BookCut, PriorityUpdate},
    priority::PriorityBoard,
};
use foldhash::HashMap;
use market::{SymbolId, Version};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};
use wire::{Block, BookDelta, Channel, ErrorCode, FrameBuilder, StatusBlock};

/// Snapshot bytes that one terminal gets at once, each time that its priority ring has run empty.
const SNAPSHOT_BYTES_AT_ONCE: usize = 256 << 10;

/// Terminals that are looked after in one go: the tape comes by fifty times a second at the least, and has more to do.
const TENDED_MAX: usize = 64;

/// Without a closed frame for this long the cuts stand still, milliseconds; what waits for them waits no longer.
const STANDSTILL_MS: u64 = 1_000;

/// The instruments of a priority set, in order; a target is sorted by channel.
pub(super) fn ids_of(target: &[Entry]) -> impl Iterator<Item = u32> + '_ {
    let from = target.partition_point(|(channel, _)| *channel < Channel::Priority);
    target.iter().skip(from).take_while(|(channel, _)| *channel == Channel::Priority).map(|(_, id)| *id)
}

/// Instruments of one terminal whose chain waits for a snapshot.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    instruments: BTreeSet<u32>,
    /// The last one served: a terminal that loses its chains again and again gets to all of them.
    last: u32,
}

impl Lacking {
    pub(super) fn add(&mut self, id: u32) {
        self.instruments.insert(id);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.instruments.retain(|id| keep(*id));
    }

    fn next(&self) -> Option<u32> {
        let later = self.instruments.range(self.last.saturating_add(1)..).next();
        later.or_else(|| self.instruments.first()).copied()
    }

    /// Notes that the chain has begun; whether it was waited for.
    fn served(&mut self, id: u32) -> bool {
        self.last = id;
        self.instruments.remove(&id)
    }
}

#[derive(Debug, Default)]
struct Wanted {
    members: BTreeSet<ConnectionId>,
    /// None until the lane's snapshot is here.
    book: Option<HubInstrument>,
    /// Until then: what every member has at the least, of the hub's book that stands in for it or of the book before.
    stand_in: Option<Version>,
    /// The book as a block, and the revision that it is of.
    whole: Option<(u64, Bytes)>,
}

#[derive(Debug)]
pub(super) struct Priority {
    board: Arc<PriorityBoard>,
    wanted: HashMap<u32, Wanted>,
    /// Terminals of which some chain waits for a snapshot.
    waiting: BTreeSet<ConnectionId>,
    /// The last one of them that had its turn.
    tended: ConnectionId,
}

impl Default for Priority {
    fn default() -> Self {
        Self { board: Arc::default(), wanted: HashMap::default(), waiting: BTreeSet::new(), tended: ConnectionId(0) }
    }
}

impl Priority {
    pub(super) fn board(&self) -> Arc<PriorityBoard> {
        Arc::clone(&self.board)
    }

    /// Sum over the instruments of the terminals that want them.
    pub(super) fn subscriptions(&self) -> usize {
        self.wanted.values().map(|wanted| wanted.members.len()).sum()
    }

    /// The next terminals of which some chain waits for a snapshot, each in its turn.
    pub(super) fn waiting(&mut self) -> Vec<ConnectionId> {
        let later = self.waiting.range((Bound::Excluded(self.tended), Bound::Unbounded));
        let turn: Vec<_> = later.chain(self.waiting.range(..=self.tended)).take(TENDED_MAX).copied().collect();
        self.tended = turn.last().copied().unwrap_or(self.tended);
        turn
    }

    /// A terminal's set changes; gives the instruments that are new in it.
    pub(super) fn change(&mut self, id: ConnectionId, before: &[Entry], after: &[Entry]) -> Vec<u32> {
        let gone = |target: &[Entry], other: &[Entry]| -> Vec<u32> {
            ids_of(target).filter(|id| other.binary_search(&(Channel::Priority, *id)).is_err()).collect()
        };
        self.leave(id, gone(before, after).into_iter());
        let news = gone(after, before);
        for instrument in &news {
            let wanted = self.wanted.entry(*instrument).or_insert_with(|| {
                self.board.want(SymbolId(*instrument));
                Wanted::default()
            });
            wanted.members.insert(id);
        }
        news
    }

    /// A terminal no longer wants these instruments.
    pub(super) fn leave(&mut self, id: ConnectionId, instruments: impl Iterator<Item = u32>) {
        for instrument in instruments {
            let Some(wanted) = self.wanted.get_mut(&instrument) else { continue };
            wanted.members.remove(&id);
            if wanted.members.is_empty() {
                self.wanted.remove(&instrument);
                self.board.forget(SymbolId(instrument));
            }
        }
    }

    /// Takes updates of the lanes, and sends each instrument's in one frame to those that want it.
    pub(super) fn publish(&mut self, updates: &[PriorityUpdate], ahead: &mut Ahead<'_>) {
        let mut batches: BTreeMap<u32, Batch> = BTreeMap::new();
        for update in updates {
            let id = update.symbol.0;
            // What was under way when the last terminal left.
            let Some(wanted) = self.wanted.get_mut(&id) else { continue };
            match wanted.follow(update, ahead) {
                Followed::Block(bytes, whole) => {
                    ahead.counts.priority_updates += 1;
                    batches.entry(id).or_insert_with(|| Batch::new(ahead)).add(&bytes, whole, ahead);
                }
                Followed::Lost => self.board.want(update.symbol),
                Followed::Nothing => {}
                Followed::Denied(code) => {
                    for member in &wanted.members {
                        if let Some(connection) = ahead.connections.get_mut(member) {
                            connection.lacking.add(id);
                            ahead.denials.push((*member, (Channel::Priority, id), code));
                        }
                    }
                }
            }
        }
        for (id, batch) in batches {
            let (whole, messages) = (batch.whole, batch.out.finish());
            let Some(wanted) = self.wanted.get(&id) else { continue };
            for member in &wanted.members {
                let Some(connection) = ahead.connections.get_mut(member) else { continue };
                let waits = connection.lacking.instruments.contains(&id);
                if connection.outbox.is_priority_lost() || (waits && !whole) {
                    continue;
                }
                connection.lacking.served(id);
                if !push(connection, &messages, ahead.present.now_ms, ahead.counts) {
                    self.waiting.insert(*member);
                }
            }
        }
    }

    /// Holds the books against the hub's at the close of a frame. One that the hub has passed is no longer told by its
    /// lane, or the lane's first snapshot is still to come: its terminals get the hub's book then.
    pub(super) fn reconcile(&mut self, frame: &Frame, hub: &Hub, connections: &mut HashMap<ConnectionId, Connection>) {
        // Lanes tell nothing ahead when only a mark changes, and a chain that begins later must not unsay it.
        for update in frame.updates.iter().filter(|update| update.feed_changed) {
            if let Some(book) = self.wanted.get_mut(&update.symbol.0).and_then(|wanted| wanted.book.as_mut()) {
                book.mark(update.feed);
            }
        }
        let changed = frame.updates.iter().map(|update| update.symbol.0);
        let passed: Vec<u32> = if self.wanted.len() < frame.updates.len() {
            self.wanted.iter().filter(|(id, wanted)| wanted.is_passed(**id, hub)).map(|(id, _)| *id).collect()
        } else {
            changed.filter(|id| self.wanted.get(id).is_some_and(|wanted| wanted.is_passed(*id, hub))).collect()
        };
        for id in passed {
            let Some(wanted) = self.wanted.get_mut(&id) else { continue };
            if wanted.begin_anew() {
                self.board.want(SymbolId(id));
            }
            wanted.stand_in = hub.instrument(SymbolId(id)).and_then(HubInstrument::version);
            for member in &wanted.members {
                if let Some(connection) = connections.get_mut(member) {
                    connection.lacking.add(id);
                    self.waiting.insert(*member);
                }
            }
        }
    }

    /// Sends a terminal the snapshots that its chains wait for, as far as its socket takes them.
    pub(super) fn give(&mut self, id: ConnectionId, hub: &Hub, ahead: &mut Ahead<'_>) {
        self.waiting.remove(&id);
        // Taken out, so that the rest can be lent while it is served.
        let Some(mut connection) = ahead.connections.remove(&id) else { return };
        if !self.serve(id, &mut connection, hub, ahead) {
            self.waiting.insert(id);
        }
        ahead.connections.insert(id, connection);
    }

    /// Whether nothing is left to be served.
    fn serve(&mut self, id: ConnectionId, connection: &mut Connection, hub: &Hub, ahead: &mut Ahead<'_>) -> bool {
        if connection.outbox.is_priority_lost() && !recover(connection, ahead) {
            return false;
        }
        let mut sent = 0;
        while let Some(instrument) = connection.lacking.next() {
            let (room, empty) = connection.outbox.priority_room();
            if sent >= SNAPSHOT_BYTES_AT_ONCE || (sent == 0 && !empty) {
                return false;
            }
            match self.snapshot(instrument, hub, ahead) {
                Ok(frame) if frame.len() <= room || empty => {
                    sent += frame.len();
                    connection.lacking.served(instrument);
                    ahead.counts.snapshots += 1;
                    if !push(connection, &[frame], ahead.present.now_ms, ahead.counts) {
                        return false;
                    }
                }
                Ok(_) => return false,
                Err(code) => {
                    connection.lacking.served(instrument);
                    ahead.denials.push((id, (Channel::Priority, instrument), code));
                }
            }
        }
        true
    }

    /// A frame that begins a chain: the book, and its true age.
    fn snapshot(&mut self, id: u32, hub: &Hub, ahead: &mut Ahead<'_>) -> Result<Bytes, ErrorCode> {
        // What waits for a snapshot is wanted.
        let Wanted { book, whole, stand_in, .. } = self.wanted.get_mut(&id).ok_or(ErrorCode::UnknownId)?;
        let (instrument, block) = if let Some(book) = book {
            let cached = whole.as_ref().filter(|(revision, _)| *revision == book.revision());
            let block = match cached {
                Some((_, block)) => block.clone(),
                None => ahead.blocks.encode(&Block::BookSnapshot(whole_book(id, Some(book))), ahead.counts)?,
            };
            *whole = Some((book.revision(), block.clone()));
            (Some(&*book), block)
        } else {
            // The lane's snapshot comes with the next event of the instrument; until then the hub's book is the newest.
            let instrument = hub.instrument(SymbolId(id));
            *stand_in = stand_in.or(instrument.and_then(HubInstrument::version));
            (instrument, ahead.blocks.book(id, instrument, ahead.counts)?)
        };
        let now_ns = ahead.present.now_ms.saturating_mul(1_000_000);
        let status = StatusBlock {
            id,
            version: instrument.and_then(HubInstrument::version),
            feed: instrument.map(HubInstrument::feed).unwrap_or_default(),
            age_ms: instrument.map_or(0, |instrument| instrument.age_ms(now_ns)),
        };
        let status = ahead.blocks.encode(&Block::Status(status), ahead.counts)?;
        let mut frame = FrameBuilder::priority(ahead.present.frame, ahead.present.now_ms);
        let written = frame.push_encoded(&block).and_then(|()| frame.push_encoded(&status));
        written.map(|()| frame.finish()).map_err(|_| ErrorCode::TooLarge)
    }
}

/// What became of an update.
enum Followed {
    /// Its block, and whether it is a whole book.
    Block(Bytes, bool),
    /// It does not begin where the book stands: the lane must send a snapshot.
    Lost,
    /// It is for a book that is not here yet.
    Nothing,
    /// It fits into no message.
    Denied(ErrorCode),
}

impl Wanted {
    /// Waits for the lane's snapshot again; whether it did not before.
    fn begin_anew(&mut self) -> bool {
        let Some(book) = self.book.take() else { return false };
        self.stand_in = book.version();
        // Another book counts its revisions anew.
        self.whole = None;
        true
    }

    fn is_passed(&self, id: u32, hub: &Hub) -> bool {
        let here = self.book.as_ref().map_or(self.stand_in, HubInstrument::version);
        hub.instrument(SymbolId(id)).and_then(HubInstrument::version) > here
    }

    fn follow(&mut self, update: &PriorityUpdate, ahead: &mut Ahead<'_>) -> Followed {
        let (id, version, feed) = (update.symbol.0, update.version, update.feed);
        let received_ms = update.received_ns / 1_000_000;
        let block = match (&update.book, &mut self.book) {
            (BookCut::Unchanged, _) | (BookCut::Delta { .. }, None) => return Followed::Nothing,
            (BookCut::Delta { base, changes }, Some(book)) => {
                if !book.follow(update) {
                    self.begin_anew();
                    return Followed::Lost;
                }
                let mut changes = changes.clone();
                wire::sort_changes(&mut changes);
                Block::BookDelta(BookDelta { id, base: *base, version, feed, changes })
            }
            (BookCut::Snapshot { .. }, book) => {
                let book = book.get_or_insert_with(|| HubInstrument::new(update.symbol));
                book.follow(update);
                let mut whole = whole_book(id, Some(book));
                whole.age_ms = ahead.present.now_ms.saturating_sub(received_ms);
                Block::BookSnapshot(whole)
            }
        };
        match (ahead.blocks.encode(&block, ahead.counts), &block) {
            (Ok(bytes), block) => Followed::Block(bytes, matches!(block, Block::BookSnapshot(_))),
            (Err(code), Block::BookSnapshot(_)) => Followed::Denied(code),
            (Err(_), block) => {
                self.begin_anew();
                // The members are where the delta began.
                self.stand_in = if let Block::BookDelta(delta) = block { Some(delta.base) } else { None };
                Followed::Lost
            }
        }
    }
}

/// One instrument's blocks on their way.
struct Batch {
    out: Messages,
    /// They begin with a whole book, so that they fit any chain.
    whole: bool,
}

impl Batch {
    fn new(ahead: &Ahead<'_>) -> Self {
        Self { out: messages(ahead), whole: false }
    }

    fn add(&mut self, block: &[u8], whole: bool, ahead: &Ahead<'_>) {
        if whole {
            // What came before is in it.
            *self = Self { out: messages(ahead), whole };
        }
        self.out.add(block);
    }
}

fn messages(ahead: &Ahead<'_>) -> Messages {
    let head = FrameBuilder::priority(ahead.present.frame, ahead.present.now_ms);
    Messages::new(head, ahead.blocks.message_bytes_max())
}

/// Whether the terminal has all of them.
fn push(connection: &Connection, messages: &[Bytes], now_ms: u64, counts: &mut super::FanoutCounts) -> bool {
    for message in messages {
        if !connection.outbox.push_priority(message.clone(), now_ms) {
            counts.priority_gaps += 1;
            return false;
        }
        counts.priority_frames += 1;
        counts.priority_bytes = counts.priority_bytes.saturating_add(u64::try_from(message.len()).unwrap_or(0));
    }
    true
}

/// A terminal that lost priority frames and has read all that was left begins its priority chains anew. If it lost other
/// frames as well these are first, as long as the cuts go on: a flood must not keep them out.
fn recover(connection: &mut Connection, ahead: &mut Ahead<'_>) -> bool {
    let cuts_go_on = ahead.present.now_ms < ahead.present.closed_ms.saturating_add(STANDSTILL_MS);
    if (connection.outbox.is_lost() && cuts_go_on) || !connection.outbox.begin_priority_recovery() {
        return false;
    }
    let lost: Vec<Entry> = ids_of(&connection.target).map(|id| (Channel::Priority, id)).collect();
    lost.iter().for_each(|(_, id)| connection.lacking.add(*id));
    for message in gaps(&lost, ahead.counts) {
        // Ahead of the frames, which are none yet, and not to be lost with them.
        connection.outbox.push_control(message);
    }
    true
}
