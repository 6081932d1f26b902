//! The blocks of batch streams: a bucket of rows for each height, inserted as one, and the marks that tell up to where
//! everything of a stream is in the store.
//!
//! A bucket closes with a mark at its height or above, and it is whole then: all events of a block are given to the lanes
//! before its mark, in the same cut or an earlier one; a lane hands on what it admitted with the cut; and the hub steps
//! over a cut when every lane has closed it, changes first and marks behind them. The same holds for a late block and the
//! mark that follows it. Nothing else closes a bucket, neither its size nor its age, and at the end one that no mark has
//! closed is left to the log, from which the block comes again.
//!
//! Inserts of several blocks are under way at once, because the order of rows is in their versions; marks are confirmed
//! in the order in which they were pushed.
//!
//! Never: an insert of a part of a block; a mark confirmed before all that was pushed before it.

use super::{
    made::{Made, bytes_of},
    options::{BLOCK_INSERTS_MAX, backoff_ns},
    queue::{Batch, Marks, raise},
};
use crate::clickhouse::{
    rows::{Rows, Table, TickUpdate, block_token},
    trouble::StoreState,
};
use foldhash::HashMap;
use market::{LegId, SymbolId, Tranches, Venue, Version, batch::height_of};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// A batch stream whose blocks are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchStream {
    /// The leg that brings it.
    pub leg: LegId,
    /// Its venue.
    pub venue: Venue,
    /// Its name in the log.
    pub stream: Arc<str>,
}

/// The batch streams of a process, and the names of their tranches.
#[derive(Clone, Debug, Default)]
pub struct BatchStreams {
    /// The streams, each on a leg of its own.
    pub streams: Vec<BatchStream>,
    /// The names.
    pub tranches: Arc<Tranches>,
}

/// Up to where a batch stream is in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Through {
    /// How many of the marks that were pushed are confirmed, in their order.
    pub count: u64,
    /// The greatest place among these.
    pub place: u64,
}

/// Rows of one height that no mark has closed yet.
#[derive(Debug)]
struct Bucket {
    number: u64,
    opened_ns: u64,
    rows: Vec<TickUpdate>,
    marks: Marks,
}

/// Rows of one height that wait for their insert, or are under way.
#[derive(Debug)]
struct Closed {
    number: u64,
    leg: LegId,
    /// The mark that closed it.
    mark: u64,
    opened_ns: u64,
    bytes: u64,
    marks: Marks,
    batch: Arc<Batch>,
    under_way: bool,
    failures: u32,
    retry_at_ns: u64,
    /// What the last failure says.
    trouble: StoreState,
}

/// A place up to which everything was pushed, and what must be confirmed before it is.
#[derive(Debug)]
struct Mark {
    number: u64,
    /// How many pushed marks it stands for.
    count: u64,
    place: u64,
    /// Buckets that it closed and that are not confirmed.
    buckets: usize,
    /// Batches of ticks that must be confirmed: they hold whole books of the stream.
    ticks: u64,
    /// Instruments of the stream whose whole books wait for their live keys.
    holds: Vec<SymbolId>,
    /// What its confirmation brings instruments to.
    marks: Marks,
}

#[derive(Debug)]
struct Stream {
    of: BatchStream,
    open: BTreeMap<u64, Bucket>,
    marks: VecDeque<Mark>,
    /// Whole books since the last mark.
    wholes: Marks,
    ticks: u64,
    confirmed: Through,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    streams: Vec<Stream>,
    /// In the order in which they were closed.
    closed: VecDeque<Closed>,
    bytes: u64,
    buckets: u64,
    marks: u64,
}

impl Blocks {
    pub(super) fn new(streams: Vec<BatchStream>) -> Self {
        let stream = |of| Stream {
            of,
            open: BTreeMap::new(),
            marks: VecDeque::new(),
            wholes: Marks::default(),
            ticks: 0,
            confirmed: Through::default(),
        };
        Self { streams: streams.into_iter().map(stream).collect(), ..Self::default() }
    }

    fn stream(&mut self, leg: LegId) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.of.leg == leg)
    }

    /// Whether a venue's books come from a batch stream.
    pub(super) fn are_of(&self, venue: Venue) -> bool {
        self.streams.iter().any(|stream| stream.of.venue == venue)
    }

    /// The name of the leg's stream, if it brings one.
    pub(super) fn name(&self, leg: LegId) -> Option<&Arc<str>> {
        self.streams.iter().find(|stream| stream.of.leg == leg).map(|stream| &stream.of.stream)
    }

    /// Number of the bucket that is opened next.
    pub(super) fn next_number(&self) -> u64 {
        self.buckets
    }

    /// Adds the changes that a block made to an instrument.
    pub(super) fn push(&mut self, now_ns: u64, made: Made) {
        let number = self.buckets;
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.of.leg == made.leg) else { return };
        let bucket = stream.open.entry(height_of(made.version.seq)).or_insert_with(|| {
            self.buckets += 1;
            Bucket { number, opened_ns: now_ns, rows: Vec::new(), marks: Marks::default() }
        });
        self.bytes += made.bytes();
        raise(&mut bucket.marks, made.symbol, made.version);
        bucket.rows.extend(made.rows);
    }

    /// Notes that a whole book of an instrument was pushed; it goes another way.
    pub(super) fn whole(&mut self, leg: LegId, symbol: SymbolId, version: Version) {
        if let Some(stream) = self.stream(leg) {
            raise(&mut stream.wholes, symbol, version);
        }
    }

    /// A whole book went on, into the last of this many batches of ticks.
    pub(super) fn appended(&mut self, leg: LegId, ticks: u64) {
        if let Some(stream) = self.stream(leg) {
            stream.ticks = stream.ticks.max(ticks);
        }
    }

    /// The last whole book of an instrument that was held went on, into the last of this many batches of ticks.
    pub(super) fn released(&mut self, leg: LegId, symbol: SymbolId, ticks: u64) {
        for mark in self.stream(leg).into_iter().flat_map(|stream| &mut stream.marks) {
            if mark.holds.contains(&symbol) {
                mark.holds.retain(|held| *held != symbol);
                mark.ticks = mark.ticks.max(ticks);
            }
        }
    }

    /// Takes a mark, while whole books of these instruments are held; whether the leg brings a stream.
    pub(super) fn through(&mut self, leg: LegId, place: u64, holds: Vec<SymbolId>) -> bool {
        let Some(at) = self.streams.iter().position(|stream| stream.of.leg == leg) else { return false };
        let Some(stream) = self.streams.get_mut(at) else { return false };
        let later = stream.open.split_off(&height_of(place).saturating_add(1));
        let whole = std::mem::replace(&mut stream.open, later);
        let mut mark = Mark {
            number: self.marks,
            count: 1,
            place,
            buckets: 0,
            ticks: stream.ticks,
            holds,
            marks: std::mem::take(&mut stream.wholes),
        };
        self.marks += 1;
        for (height, bucket) in whole {
            bucket.marks.iter().for_each(|(symbol, version)| raise(&mut mark.marks, *symbol, *version));
            // An event that changed nothing leaves no row.
            if !bucket.rows.is_empty() {
                mark.buckets += 1;
                self.closed.push_back(close(&stream.of, height, bucket, mark.number));
            }
        }
        match stream.marks.back_mut() {
            Some(last) if last.outlasts(&mark) => {
                last.count += 1;
                last.place = last.place.max(place);
            }
            _ => {
                self.bytes += MARK_BYTES;
                stream.marks.push_back(mark);
            }
        }
        true
    }

    /// Confirms the marks before which everything is confirmed, given how many batches of ticks are; whether there were
    /// any.
    pub(super) fn settle(&mut self, ticks: u64, durable: &mut HashMap<SymbolId, Version>) -> bool {
        let mut moved = false;
        for stream in &mut self.streams {
            while let Some(mark) = stream.marks.pop_front_if(|mark| mark.is_done(ticks)) {
                self.bytes = self.bytes.saturating_sub(MARK_BYTES);
                stream.confirmed.count += mark.count;
                stream.confirmed.place = stream.confirmed.place.max(mark.place);
                mark.marks.into_iter().for_each(|(symbol, version)| raise(durable, symbol, version));
                moved = true;
            }
        }
        moved
    }

    /// Up to where the leg's stream is in the store.
    pub(super) fn confirmed(&self, leg: LegId) -> Option<Through> {
        self.streams.iter().find(|stream| stream.of.leg == leg).map(|stream| stream.confirmed)
    }

    /// The same of all streams.
    pub(super) fn all_confirmed(&self) -> impl Iterator<Item = (LegId, Through)> {
        self.streams.iter().map(|stream| (stream.of.leg, stream.confirmed))
    }

    /// The next block to insert, if its time has come and not too many are under way, nor the same one.
    pub(super) fn start(&mut self, now_ns: u64) -> Option<Arc<Batch>> {
        let under_way = self.closed.iter().filter(|closed| closed.under_way);
        let tokens: Vec<Arc<Batch>> = under_way.map(|closed| Arc::clone(&closed.batch)).collect();
        if tokens.len() >= BLOCK_INSERTS_MAX {
            return None;
        }
        let same = |closed: &Closed| tokens.iter().any(|batch| batch.token == closed.batch.token);
        let next = self.closed.iter_mut().find(|closed| closed.retry_at_ns <= now_ns && !same(closed))?;
        next.under_way = true;
        Some(Arc::clone(&next.batch))
    }

    /// Confirms the block under way with this token; gives how many rows it had.
    pub(super) fn finish(&mut self, token: &str) -> Option<usize> {
        let at = self.closed.iter().position(|closed| closed.under_way && *closed.batch.token == *token)?;
        let closed = self.closed.remove(at)?;
        self.bytes = self.bytes.saturating_sub(closed.bytes);
        let stream = self.stream(closed.leg)?;
        if let Some(mark) = stream.marks.iter_mut().find(|mark| mark.number == closed.mark) {
            mark.buckets = mark.buckets.saturating_sub(1);
        }
        Some(closed.batch.rows.len())
    }

    /// The worst that the last attempts say of the store.
    pub(super) fn trouble(&self) -> StoreState {
        self.closed.iter().map(|closed| closed.trouble).max().unwrap_or_default()
    }

    pub(super) fn retry(&mut self, now_ns: u64, token: &str, trouble: StoreState) {
        let failed = self.closed.iter_mut().find(|closed| closed.under_way && *closed.batch.token == *token);
        if let Some(closed) = failed {
            closed.under_way = false;
            closed.trouble = trouble;
            closed.retry_at_ns = now_ns.saturating_add(backoff_ns(closed.failures));
            closed.failures = closed.failures.saturating_add(1);
        }
    }

    /// Whether rows of the instrument wait in a bucket with a number below this one, and whether in one that is open.
    pub(super) fn waiting(&self, symbol: SymbolId, before: u64) -> (bool, bool) {
        let holds = |number: u64, marks: &Marks| number < before && marks.contains_key(&symbol);
        let mut open = self.streams.iter().flat_map(|stream| stream.open.values());
        let open = open.any(|bucket| holds(bucket.number, &bucket.marks));
        (open || self.closed.iter().any(|closed| holds(closed.number, &closed.marks)), open)
    }

    /// Leaves what no mark has closed to the log, at the end; gives how many rows that is.
    pub(super) fn leave_open(&mut self) -> usize {
        let mut left = 0;
        for stream in &mut self.streams {
            for bucket in std::mem::take(&mut stream.open).into_values() {
                self.bytes = self.bytes.saturating_sub(bytes_of(&bucket.rows));
                left += bucket.rows.len();
            }
        }
        left
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks that wait for their insert, those under way included.
    pub(super) fn closed(&self) -> usize {
        self.closed.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.closed.is_empty() && self.streams.iter().all(|stream| stream.open.is_empty() && stream.marks.is_empty())
    }

    pub(super) fn oldest_ns(&self) -> Option<u64> {
        let open = self.streams.iter().flat_map(|stream| stream.open.values()).map(|bucket| bucket.opened_ns);
        self.closed.iter().map(|closed| closed.opened_ns).chain(open).min()
    }

    pub(super) fn deadline_ns(&self) -> Option<u64> {
        let failed = self.closed.iter().filter(|closed| !closed.under_way && closed.failures > 0);
        failed.map(|closed| closed.retry_at_ns).min()
    }
}

/// A mark counts as what it occupies: while the store is away, empty blocks wait as well.
const MARK_BYTES: u64 = 160;
const _: () = assert!(size_of::<Mark>() <= 160);

impl Mark {
    fn is_done(&self, ticks: u64) -> bool {
        self.buckets == 0 && self.holds.is_empty() && self.ticks <= ticks
    }

    /// Whether the next mark waits for nothing that this one does not wait for.
    fn outlasts(&self, next: &Self) -> bool {
        next.buckets == 0
            && next.marks.is_empty()
            && next.ticks <= self.ticks
            && next.holds.iter().all(|held| self.holds.contains(held))
    }
}

/// Closes a bucket. Rows are ordered by what does not depend on the process, and what came twice stands once, so that a
/// repeated block has the same rows.
fn close(of: &BatchStream, height: u64, bucket: Bucket, mark: u64) -> Closed {
    let Bucket { number, opened_ns, mut rows, marks } = bucket;
    let bytes = bytes_of(&rows);
    rows.sort_by(|one, other| {
        let text = if Arc::ptr_eq(&one.instrument, &other.instrument) {
            std::cmp::Ordering::Equal
        } else {
            one.instrument.text.cmp(&other.instrument.text)
        };
        text.then(one.version.cmp(&other.version)).then_with(|| (one.side, &one.key).cmp(&(other.side, &other.key)))
    });
    rows.dedup_by(|later, kept| {
        later.instrument.id == kept.instrument.id
            && (later.version, later.side, &later.key, later.reserves)
                == (kept.version, kept.side, &kept.key, kept.reserves)
    });
    let token = block_token(of.venue, &of.stream, height, &rows);
    let batch = Arc::new(Batch { table: Table::TickUpdates, token, rows: Rows::Ticks(rows) });
    Closed {
        number,
        leg: of.leg,
        mark,
        opened_ns,
        bytes,
        marks,
        batch,
        under_way: false,
        failures: 0,
        retry_at_ns: 0,
        trouble: StoreState::Ready,
    }
}
