//! Batches put together from their parts, which come in any order, and more than once.
//!
//! Every message that is handed in comes out once: with its batch, as known, as displaced, or in a conflict; until then
//! it is held here. What is held is bounded in bytes.
//!
//! Never: I/O, a clock, or a batch with a part of another.

use super::header::BatchHeader;
use bytes::Bytes;
use foldhash::{HashSet, HashSetExt};
use market::batch::{BatchId, BatchKind};
use std::collections::{BTreeMap, VecDeque};

/// What each held message costs beside its data, in bytes: its attributes, its lease, its place here. It bounds repeated
/// parts, whose data is not kept.
const MESSAGE_BYTES: usize = 1_024;

/// Batches in parts that are remembered once they were complete: a part that is delivered again comes soon after.
const COMPLETE_MAX: usize = 1_024;

/// What is known of one batch; those of the lowest heights come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    height: u64,
    is_snapshot: bool,
    id: BatchId,
    stream: Box<str>,
}

impl Key {
    fn of(header: &BatchHeader) -> Self {
        let is_snapshot = header.kind == BatchKind::Snapshot;
        Self { height: header.height, is_snapshot, id: header.id, stream: header.stream.clone() }
    }
}

/// A batch of which not every part is here.
#[derive(Debug)]
struct Partial<M> {
    /// Of the part that came first.
    header: BatchHeader,
    data: BTreeMap<u32, Bytes>,
    messages: Vec<M>,
    bytes: usize,
}

/// How two messages of one batch contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartConflict {
    /// Attributes other than the part differ.
    #[error("the attributes of two parts of one batch differ")]
    Attributes,
    /// One part has two contents.
    #[error("part {0} came twice with different bytes")]
    Data(u32),
}

/// What becomes of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum PartsOffer<M> {
    /// The batch is complete.
    Complete {
        /// The data of its parts, in their order.
        data: Vec<Bytes>,
        /// All messages of it, repeated ones included: to be acknowledged together.
        messages: Vec<M>,
    },
    /// It is held until the others come.
    Waiting,
    /// A part of a batch that was complete before: to be acknowledged as soon as that batch is in the log.
    Known(M),
    /// No room: these are to come again. It is the incomplete batch of the greatest height that gives way, which may be
    /// that of the part just offered; the lowest is needed first.
    Displaced(Vec<M>),
    /// It contradicts a part that is held; that one stays.
    Conflict {
        /// In what.
        conflict: PartConflict,
        /// The one that was offered.
        message: M,
    },
}

/// What waits too long for its other parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Incomplete<M> {
    /// The header of one of its parts.
    pub header: BatchHeader,
    /// Its messages.
    pub messages: Vec<M>,
}

/// What may be under lease at most, as the subscription was asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Messages.
    pub messages: usize,
    /// Bytes of their data.
    pub bytes: usize,
}

/// Incomplete batches, each message with what it takes to acknowledge it.
#[derive(Debug)]
pub struct Parts<M> {
    bytes_max: usize,
    bytes: usize,
    messages: usize,
    batches: BTreeMap<Key, Partial<M>>,
    complete: HashSet<Key>,
    /// The same in the order in which they were complete.
    order: VecDeque<Key>,
}

impl<M> Parts<M> {
    /// None yet; at most this many bytes will be held.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            messages: 0,
            batches: BTreeMap::new(),
            complete: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// Messages that are held.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Bytes that are held, what each message costs beside its data included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Batches that are incomplete.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Takes one part of a batch.
    pub fn offer(&mut self, header: &BatchHeader, data: Bytes, message: M) -> PartsOffer<M> {
        let key = Key::of(header);
        if let Some(conflict) = self.conflict(&key, header, &data) {
            return PartsOffer::Conflict { conflict, message };
        }
        if header.parts <= 1 {
            return PartsOffer::Complete { data: vec![data], messages: vec![message] };
        }
        if self.complete.contains(&key) {
            return PartsOffer::Known(message);
        }
        self.hold(&key, header, data, message);
        if let Some(partial) = self.take_complete(&key) {
            self.remember(key);
            return PartsOffer::Complete { data: partial.data.into_values().collect(), messages: partial.messages };
        }
        if self.bytes <= self.bytes_max {
            return PartsOffer::Waiting;
        }
        let mut displaced = Vec::new();
        while self.bytes > self.bytes_max
            && let Some(partial) = self.take_greatest()
        {
            displaced.extend(partial.messages);
        }
        PartsOffer::Displaced(displaced)
    }

    fn conflict(&self, key: &Key, header: &BatchHeader, data: &Bytes) -> Option<PartConflict> {
        let partial = self.batches.get(key)?;
        if !partial.header.agrees(header) {
            return Some(PartConflict::Attributes);
        }
        let known = partial.data.get(&header.part)?;
        (known != data).then_some(PartConflict::Data(header.part))
    }

    fn hold(&mut self, key: &Key, header: &BatchHeader, data: Bytes, message: M) {
        let partial = self.batches.entry(key.clone()).or_insert_with(|| Partial {
            header: header.clone(),
            data: BTreeMap::new(),
            messages: Vec::new(),
            bytes: 0,
        });
        let known = partial.data.contains_key(&header.part);
        let bytes = MESSAGE_BYTES + if known { 0 } else { data.len() };
        partial.data.entry(header.part).or_insert(data);
        partial.messages.push(message);
        partial.bytes += bytes;
        self.bytes += bytes;
        self.messages += 1;
    }

    fn take_complete(&mut self, key: &Key) -> Option<Partial<M>> {
        let partial = self.batches.get(key)?;
        // Parts are below `parts`, so as many of them are all of them.
        let complete = u32::try_from(partial.data.len()) == Ok(partial.header.parts);
        if complete { self.take(key) } else { None }
    }

    fn take(&mut self, key: &Key) -> Option<Partial<M>> {
        let partial = self.batches.remove(key)?;
        self.bytes -= partial.bytes;
        self.messages -= partial.messages.len();
        Some(partial)
    }

    fn take_greatest(&mut self) -> Option<Partial<M>> {
        let key = self.batches.last_key_value()?.0.clone();
        self.take(&key)
    }

    fn remember(&mut self, key: Key) {
        if self.complete.insert(key.clone()) {
            self.order.push_back(key);
        }
        if self.order.len() > COMPLETE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.complete.remove(&oldest);
        }
    }

    /// A batch that was complete is to come again, all of it: its parts are not known any more.
    pub fn forget(&mut self, header: &BatchHeader) {
        let key = Key::of(header);
        if self.complete.remove(&key) {
            self.order.retain(|known| *known != key);
        }
    }

    /// If parts of incomplete batches are all that may be under lease, nothing else can come: gives up those of the
    /// greatest height.
    pub fn stuck(&mut self, outstanding: Outstanding) -> Vec<M> {
        let data = self.bytes.saturating_sub(self.messages * MESSAGE_BYTES);
        let full = self.messages >= outstanding.messages || data >= outstanding.bytes;
        let greatest = if full { self.take_greatest() } else { None };
        greatest.map(|partial| partial.messages).unwrap_or_default()
    }

    /// Gives up incomplete batches all of whose messages are stale: whoever knows the log decides whether they were
    /// acknowledged in part before.
    pub fn take_stale(&mut self, is_stale: impl Fn(&M) -> bool) -> Vec<Incomplete<M>> {
        let stale = self.batches.iter().filter(|(_, partial)| partial.messages.iter().all(&is_stale));
        let stale: Vec<_> = stale.map(|(key, _)| key.clone()).collect();
        let taken = stale.iter().filter_map(|key| self.take(key));
        taken.map(|partial| Incomplete { header: partial.header, messages: partial.messages }).collect()
    }
}

#[cfg(test)]
mod tests;
