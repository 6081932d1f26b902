//! Batches in memory: as they came, and decoded until they are both in the log and delivered.
//!
//! Never: a receipt lost; whoever drops one gives its message back.

use bytes::Bytes;
use connectors::{
    neutron_dex::Block,
    pubsub::{header::BatchHeader, pull::Lease},
};
use market::batch::{BatchKind, BatchName};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What must be told once a batch is safe, or cannot be taken.
#[derive(Debug)]
pub(super) enum Receipt {
    /// A message of the subscription.
    Message(Lease),
    /// A dead letter that is tried again.
    Letter(Box<str>),
}

/// A batch as it came, whole.
#[derive(Debug)]
pub(super) struct Original {
    /// As they came; without those of a single part.
    pub(super) attributes: BTreeMap<String, String>,
    /// The bytes of its parts, in order.
    pub(super) data: Vec<Bytes>,
    /// Of its first part.
    pub(super) message_id: Box<str>,
    pub(super) published_ns: u64,
    pub(super) received_ns: u64,
    /// How often a dead letter was tried, this time included; 0 of what the subscription brought.
    pub(super) attempt: u32,
    pub(super) receipts: Vec<Receipt>,
}

impl Original {
    /// A batch of the log, as it is there or on its way there.
    pub(super) fn of_log(message_id: Box<str>, times: BatchTimes, content: Bytes) -> Self {
        Self {
            attributes: BTreeMap::new(),
            data: vec![content],
            message_id,
            published_ns: times.published_ns,
            received_ns: times.received_ns,
            attempt: 1,
            receipts: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
}

/// A batch whose header was read.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) header: BatchHeader,
    pub(super) original: Original,
}

/// A batch that was decoded.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) header: BatchHeader,
    pub(super) original: Original,
    pub(super) content: Bytes,
    pub(super) block: Arc<Block>,
}

/// When a batch came and was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BatchTimes {
    pub(super) block_ns: u64,
    pub(super) published_ns: u64,
    pub(super) received_ns: u64,
}

/// A batch that the guard has taken.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) times: BatchTimes,
    pub(super) parts: u32,
    pub(super) message_id: Box<str>,
    /// Until it is delivered, as far as there is room.
    pub(super) block: Option<Arc<Block>>,
    /// Until it is in the log.
    pub(super) content: Option<Bytes>,
    pub(super) receipts: Vec<Receipt>,
    pub(super) delivered: bool,
}

type Key = (u64, bool);

fn key(name: BatchName) -> Key {
    (name.height, name.kind == BatchKind::Snapshot)
}

/// Bytes that a decoded block occupies, about.
fn block_bytes(block: &Block) -> usize {
    const TICK_BYTES: usize = 128;
    block.ticks.len().saturating_mul(TICK_BYTES)
}

/// All batches in memory.
#[derive(Debug, Default)]
pub(super) struct Held {
    entries: BTreeMap<Key, Entry>,
    /// Heights of blocks that are not in the log yet.
    unlogged: BTreeSet<u64>,
    bytes: usize,
}

impl Held {
    /// Bytes of content and blocks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn put(&mut self, name: BatchName, decoded: Decoded) {
        let Decoded { header, original, content, block } = decoded;
        self.remove(name);
        self.bytes = self.bytes.saturating_add(content.len()).saturating_add(block_bytes(&block));
        if name.kind == BatchKind::Block {
            self.unlogged.insert(name.height);
        }
        let times = BatchTimes {
            block_ns: header.block_time_ns,
            published_ns: original.published_ns,
            received_ns: original.received_ns,
        };
        let entry = Entry {
            times,
            parts: header.parts,
            message_id: original.message_id,
            block: Some(block),
            content: Some(content),
            receipts: original.receipts,
            delivered: false,
        };
        self.entries.insert(key(name), entry);
    }

    /// A block that was read from the log, until it is delivered.
    pub(super) fn put_logged(&mut self, name: BatchName, times: BatchTimes, block: Arc<Block>) {
        self.remove(name);
        self.bytes = self.bytes.saturating_add(block_bytes(&block));
        let entry = Entry {
            times,
            parts: 1,
            message_id: Box::default(),
            block: Some(block),
            content: None,
            receipts: Vec::new(),
            delivered: false,
        };
        self.entries.insert(key(name), entry);
    }

    pub(super) fn get(&self, name: BatchName) -> Option<&Entry> {
        self.entries.get(&key(name))
    }

    /// Whether a batch waits for the log.
    pub(super) fn is_unlogged(&self, name: BatchName) -> bool {
        self.get(name).is_some_and(|entry| entry.content.is_some())
    }

    /// The least height of a block that is not in the log yet.
    pub(super) fn first_unlogged(&self) -> Option<u64> {
        self.unlogged.first().copied()
    }

    /// Adds what must be told once the batch is in the log; gives it back if the batch does not wait for it.
    pub(super) fn also(&mut self, name: BatchName, mut receipts: Vec<Receipt>) -> Vec<Receipt> {
        match self.entries.get_mut(&key(name)).filter(|entry| entry.content.is_some()) {
            Some(entry) => {
                entry.receipts.append(&mut receipts);
                Vec::new()
            }
            None => receipts,
        }
    }

    /// The batch is in the log; gives what must be told. Its block stays if it is not delivered and there is room.
    pub(super) fn logged(&mut self, name: BatchName, bytes_max: usize) -> Vec<Receipt> {
        self.is_logged(name);
        let Some(entry) = self.entries.get_mut(&key(name)) else { return Vec::new() };
        let content = entry.content.take().map_or(0, |content| content.len());
        self.bytes = self.bytes.saturating_sub(content);
        let receipts = std::mem::take(&mut entry.receipts);
        if entry.delivered {
            self.remove(name);
        } else if self.bytes > bytes_max {
            self.forget_block(name);
        }
        receipts
    }

    fn is_logged(&mut self, name: BatchName) {
        if name.kind == BatchKind::Block {
            self.unlogged.remove(&name.height);
        }
    }

    /// Whether something waits for the log.
    pub(super) fn waits_for_log(&self) -> bool {
        !self.unlogged.is_empty()
    }

    /// The batch is delivered, or will never be.
    pub(super) fn delivered(&mut self, name: BatchName) {
        let Some(entry) = self.entries.get_mut(&key(name)) else { return };
        entry.delivered = true;
        if entry.content.is_none() {
            self.remove(name);
        } else {
            self.forget_block(name);
        }
    }

    fn forget_block(&mut self, name: BatchName) {
        let Some(entry) = self.entries.get_mut(&key(name)) else { return };
        if let Some(block) = entry.block.take() {
            self.bytes = self.bytes.saturating_sub(block_bytes(&block));
        }
        if entry.content.is_none() {
            self.remove(name);
        }
    }

    fn remove(&mut self, name: BatchName) {
        self.forget_in_place(name);
        self.entries.remove(&key(name));
    }

    fn forget_in_place(&mut self, name: BatchName) {
        let Some(entry) = self.entries.get_mut(&key(name)) else { return };
        let block = entry.block.take().map_or(0, |block| block_bytes(&block));
        let content = entry.content.take().map_or(0, |content| content.len());
        self.bytes = self.bytes.saturating_sub(block.saturating_add(content));
    }

    /// Snapshots up to a height are of no use any more.
    pub(super) fn forget_snapshots(&mut self, height: u64) {
        let old = self.entries.range(..=(height, true)).filter(|((_, snapshot), _)| *snapshot);
        let old: Vec<u64> = old.map(|((height, _), _)| *height).collect();
        for height in old {
            let id = market::batch::BatchId([0; 32]);
            self.delivered(BatchName { height, previous: height, kind: BatchKind::Snapshot, id });
        }
    }

    /// A batch as it came, for the dead letters; whoever waits for it is told once it is there.
    pub(super) fn take_original(&mut self, name: BatchName) -> Option<Original> {
        let entry = self.entries.get_mut(&key(name))?;
        let content = entry.content.take()?;
        self.bytes = self.bytes.saturating_sub(content.len());
        let receipts = std::mem::take(&mut entry.receipts);
        let original = Original { receipts, ..Original::of_log(entry.message_id.clone(), entry.times, content) };
        self.is_logged(name);
        Some(original)
    }

    /// Forgets everything; what was not told is given back.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.unlogged.clear();
        self.bytes = 0;
    }
}
