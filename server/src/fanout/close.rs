//! The close of a frame for one group or terminal: shared bytes, own bytes while it catches up, and the way back after a
//! loss.
//!
//! Never: a snapshot encoded that the socket cannot take yet; a message over the bound.

use super::{Connection, ConnectionId, Entry, FanoutCounts, blocks::Blocks};
use crate::hub::{Frame, Hub};
use bytes::Bytes;
use std::collections::BTreeSet;
use wire::{Channel, ErrorCode, FrameBuilder, Gap, ToTerminal, bounds::GAP_ENTRIES_MAX};

/// Snapshot bytes that one terminal gets per frame while it catches up: 25 frames/s of it fill a 50 Mbit/s link.
const SNAPSHOT_BYTES_PER_FRAME: usize = 256 << 10;

/// One frame on its way to the terminals of a phase.
pub(super) struct Close<'a> {
    pub(super) frame: &'a Frame,
    pub(super) at_ms: u64,
    pub(super) hub: &'a Hub,
    pub(super) bytes_max: usize,
    pub(super) blocks: &'a mut Blocks,
    pub(super) denials: &'a mut Vec<(ConnectionId, Entry, ErrorCode)>,
    pub(super) counts: &'a mut FanoutCounts,
}

impl Close<'_> {
    fn builder(&self) -> FrameBuilder {
        FrameBuilder::new(self.frame.frame, self.at_ms)
    }

    /// A group's frame; empty if nothing of the group changed and nothing is due.
    pub(super) fn encode(&mut self, target: &[Entry]) -> Vec<Bytes> {
        let mut out = Messages::new(self.builder(), self.bytes_max);
        self.blocks.changed(target, |block| out.add(block));
        self.blocks.timed(target, self.frame, self.hub, self.counts, |block| out.add(block));
        let messages = out.finish();
        self.counts.encodes += u64::from(!messages.is_empty());
        messages
    }

    pub(super) fn send_shared(&mut self, connection: &mut Connection, messages: &[Bytes], heartbeat_ms: u64) {
        if messages.is_empty() && self.at_ms >= connection.sent_ms.saturating_add(heartbeat_ms) {
            let heartbeat = self.builder().finish();
            return connection.push(heartbeat, self.at_ms, self.counts);
        }
        for message in messages {
            connection.push(message.clone(), self.at_ms, self.counts);
        }
    }

    /// A terminal that lost frames and has read all that was left begins anew on the same socket. Its priority chains
    /// are not among what it lost.
    pub(super) fn recover(&mut self, id: ConnectionId, connection: &mut Connection) {
        if !connection.outbox.begin_recovery() {
            return;
        }
        connection.partial = Some(BTreeSet::new());
        let lost: Vec<Entry> =
            connection.target.iter().copied().filter(|(channel, _)| *channel != Channel::Priority).collect();
        for message in gaps(&lost, self.counts) {
            // Ahead of the frames, which are none yet, and not to be lost with them.
            connection.outbox.push_control(message);
        }
        self.catch_up(id, connection);
    }

    /// A frame of the terminal's own: changes of what it holds, and snapshots of what it lacks as far as they fit.
    pub(super) fn catch_up(&mut self, id: ConnectionId, connection: &mut Connection) {
        let mut held = connection.partial.take().unwrap_or_default();
        let mut out = Messages::new(self.builder(), self.bytes_max);
        let mut holding: Vec<Entry> = held.iter().copied().collect();
        self.blocks.changed(&holding, |block| out.add(block));
        let (room, empty) = (connection.outbox.room(), connection.outbox.is_empty());
        let missing: Vec<Entry> = connection.target.iter().copied().filter(|entry| !held.contains(entry)).collect();
        for entry in missing {
            if out.bytes() >= room.min(SNAPSHOT_BYTES_PER_FRAME) {
                break;
            }
            match self.blocks.snapshot(entry, self.hub, self.counts) {
                Ok(blocks) => {
                    let bytes = blocks.iter().map(Bytes::len).sum::<usize>();
                    // What is larger than the whole ring goes in one message when nothing else waits.
                    if out.bytes().saturating_add(bytes) > room && !(empty && out.stays_one(bytes)) {
                        break;
                    }
                    blocks.iter().for_each(|block| out.add(block));
                    self.counts.snapshots += 1;
                }
                Err(code) => self.denials.push((id, entry, code)),
            }
            held.insert(entry);
        }
        holding.clear();
        holding.extend(&held);
        self.blocks.timed(&holding, self.frame, self.hub, self.counts, |block| out.add(block));
        connection.partial = (held.len() < connection.target.len()).then_some(held);
        self.counts.encodes += 1;
        for message in out.finish() {
            connection.push(message, self.at_ms, self.counts);
        }
    }
}

/// What tells a terminal that entries are lost.
pub(super) fn gaps(entries: &[Entry], counts: &mut FanoutCounts) -> Vec<Bytes> {
    let encode = |entries: &[Entry]| match (ToTerminal::Gap(Gap { entries: entries.to_vec() })).encode() {
        Ok(bytes) => Some(bytes),
        Err(_) => {
            counts.unencodable += 1;
            None
        }
    };
    entries.chunks(GAP_ENTRIES_MAX).filter_map(encode).collect()
}

/// Blocks put into as few messages as the bounds allow, all of one frame.
pub(super) struct Messages {
    empty: FrameBuilder,
    bytes_max: usize,
    open: FrameBuilder,
    done: Vec<Bytes>,
    done_bytes: usize,
}

impl Messages {
    pub(super) fn new(empty: FrameBuilder, bytes_max: usize) -> Self {
        Self { open: empty.clone(), empty, bytes_max, done: Vec::new(), done_bytes: 0 }
    }

    pub(super) fn add(&mut self, block: &[u8]) {
        // One more byte ends the frame.
        let fits = self.open.bytes().saturating_add(block.len()) < self.bytes_max;
        if fits && self.open.push_encoded(block).is_ok() {
            return;
        }
        if self.open.blocks() > 0 {
            let full = std::mem::replace(&mut self.open, self.empty.clone());
            self.done_bytes += full.bytes();
            self.done.push(full.finish());
        }
        if self.open.push_encoded(block).is_err() {
            // A block alone is within a frame's bounds, which the encoder of blocks has checked.
            tracing::error!(bytes = block.len(), "a block fits no frame");
        }
    }

    fn bytes(&self) -> usize {
        self.done_bytes + self.open.bytes()
    }

    /// Whether it is one message, and still is with that many more bytes.
    fn stays_one(&self, bytes: usize) -> bool {
        self.done.is_empty() && self.open.bytes().saturating_add(bytes) < self.bytes_max
    }

    pub(super) fn finish(mut self) -> Vec<Bytes> {
        if self.open.blocks() > 0 {
            self.done.push(self.open.finish());
        }
        self.done
    }
}
