//! Fan-out: who wants what, and which bytes go to whom at the close of a frame. A state machine without sockets; bytes
//! leave through each terminal's [`outbox::Outbox`].
//!
//! Terminals with one subscription set and phase are a group: their frame is encoded once and shared by reference
//! count. A terminal enters a group only at the group's close and with the state of that cut, so shared bytes always
//! fit; until it holds everything it wants, it gets frames of its own, snapshots metered by what its socket takes.
//!
//! Never: a delta to a terminal that does not hold its base; a wait for a slow terminal.

mod blocks;
mod dictionary;
mod groups;
pub mod outbox;
mod selection;

use crate::hub::{Frame, Hub};
use blocks::Blocks;
use bytes::Bytes;
use foldhash::HashMap;
use groups::{GroupKey, Groups};
use market::Directory;
use outbox::Outbox;
use selection::Selection;
use std::{collections::BTreeSet, sync::Arc};
use wire::{Answer, Channel, ErrorCode, FrameBuilder, Gap, ServerError, ToServer, ToTerminal};

/// A channel of an instrument, or for [`Channel::Best`] of a pair.
pub type Entry = (Channel, u32);

/// Number of a terminal's connection in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Snapshot bytes that one terminal gets per frame while it catches up: 25 frames/s of it fill a 50 Mbit/s link.
const SNAPSHOT_BYTES_PER_FRAME: usize = 256 << 10;

/// How the fan-out behaves.
#[derive(Clone, Copy, Debug)]
pub struct FanoutConfig {
    /// Generation of this server; instrument numbers are valid within it.
    pub generation: u64,
    /// Phases that groups are spread over.
    pub phases: u64,
    /// Frame length, milliseconds.
    pub frame_ms: u16,
    /// Silence after which an empty frame is sent, milliseconds.
    pub heartbeat_ms: u64,
    /// Subscriptions that one terminal may hold.
    pub subscriptions_max: usize,
    /// Whether the data are simulated or replayed.
    pub simulated: bool,
}

/// What happened in the fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanoutCounts {
    /// Frames put together, shared ones counted once.
    pub encodes: u64,
    /// Frames handed to terminals.
    pub frames: u64,
    /// Bytes handed to terminals.
    pub bytes: u64,
    /// Terminals that lost frames because they did not read.
    pub gaps: u64,
    /// Snapshots sent.
    pub snapshots: u64,
    /// Requests refused.
    pub refused: u64,
    /// Blocks or frames that the wire's bounds do not allow.
    pub unencodable: u64,
}

struct Connection {
    outbox: Arc<Outbox>,
    selection: Selection,
    /// What it wants, sorted; shared with its group.
    target: Arc<[Entry]>,
    /// What it holds, if that is not all of `target`.
    partial: Option<BTreeSet<Entry>>,
    group: Option<GroupKey>,
    sent_ms: u64,
}

/// All terminals of this process.
pub struct Fanout {
    config: FanoutConfig,
    directory: Arc<Directory>,
    connections: HashMap<ConnectionId, Connection>,
    groups: Groups,
    blocks: Blocks,
    /// Instruments and pairs that terminals were told of.
    told: dictionary::Told,
    counts: FanoutCounts,
}

impl Fanout {
    /// A fan-out without terminals.
    #[must_use]
    pub fn new(config: FanoutConfig, directory: Arc<Directory>) -> Self {
        Self {
            config,
            directory,
            connections: HashMap::default(),
            groups: Groups::new(config.phases),
            blocks: Blocks::default(),
            told: dictionary::Told::default(),
            counts: FanoutCounts::default(),
        }
    }

    /// Terminals, groups, and the sum of their subscriptions.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        let subscriptions = self.connections.values().map(|connection| connection.target.len()).sum();
        (self.connections.len(), self.groups.len(), subscriptions)
    }

    /// Whether the groups hold exactly what the terminals want; anything else is a leak.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let (_, _, subscriptions) = self.sizes();
        self.groups.subscriptions() == subscriptions
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> FanoutCounts {
        self.counts
    }

    /// Takes a new terminal and greets it.
    pub fn connect(&mut self, id: ConnectionId, outbox: Arc<Outbox>, now_ms: u64) {
        let hello = wire::Hello {
            wire_version: wire::WIRE_VERSION,
            generation: self.config.generation,
            build: crate::BUILD.into(),
            frame_ms: self.config.frame_ms,
            heartbeat_ms: u32::try_from(self.config.heartbeat_ms).unwrap_or(u32::MAX),
            simulated: self.config.simulated,
        };
        let connection = Connection {
            outbox,
            selection: Selection::default(),
            target: Arc::from([]),
            partial: None,
            group: None,
            sent_ms: now_ms,
        };
        self.connections.insert(id, connection);
        self.tell(id, &ToTerminal::Hello(hello));
        for dictionary in self.told.everything(&self.directory, self.config.generation) {
            self.tell(id, &ToTerminal::Dictionary(dictionary));
        }
    }

    /// Sends some terminals away, each with its own time to come back; gives how many are left.
    pub fn drain(&mut self, count: usize, mut reconnect_after_ms: impl FnMut() -> u32) -> usize {
        let open = |connection: &&Connection| !connection.outbox.is_closed();
        let leaving: Vec<_> = self.connections.values().filter(open).take(count).collect();
        for connection in &leaving {
            connection.outbox.close(Some(wire::CloseNotice { reconnect_after_ms: reconnect_after_ms() }));
        }
        self.connections.values().filter(open).count()
    }

    /// Forgets a terminal: index first, its entry last. May be called more than once.
    pub fn teardown(&mut self, id: ConnectionId, hub: &mut Hub) {
        if let Some(key) = self.connections.get(&id).and_then(|connection| connection.group) {
            self.groups.leave(key, id, hub);
        }
        self.connections.remove(&id);
    }

    /// Carries out a terminal's request.
    pub fn request(&mut self, id: ConnectionId, request: ToServer, hub: &mut Hub) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (number, changed) = match request {
            ToServer::Subscribe(subscription) => (
                Some(subscription.request),
                connection.selection.add(&subscription.items, &self.directory, self.config.subscriptions_max),
            ),
            ToServer::Unsubscribe(subscription) => {
                (Some(subscription.request), Ok(connection.selection.remove(&subscription.items, &self.directory)))
            }
            ToServer::Resync(resync) => {
                let held = connection.partial.get_or_insert_with(|| connection.target.iter().copied().collect());
                resync.items.iter().for_each(|entry| {
                    held.remove(entry);
                });
                return;
            }
        };
        match changed {
            Ok(matched) => {
                let matched = u32::try_from(matched).unwrap_or(u32::MAX);
                self.retarget(id, hub);
                if let Some(request) = number {
                    self.tell(id, &ToTerminal::Answer(Answer { request, matched }));
                }
            }
            Err(code) => self.refuse(id, number, code),
        }
    }

    /// Tells a terminal that its request is refused.
    pub fn refuse(&mut self, id: ConnectionId, request: Option<u32>, code: ErrorCode) {
        self.counts.refused += 1;
        let text = match code {
            ErrorCode::Malformed => "not a message of this wire version",
            ErrorCode::TooManySubscriptions => "more subscriptions than one terminal may hold",
            ErrorCode::PatternInvalid => "not a pattern",
            ErrorCode::UnknownChannel => "this server does not offer the channel",
            _ => "refused",
        };
        self.tell(id, &ToTerminal::Error(ServerError { request, code, text: text.into() }));
    }

    /// Moves a terminal to the group of what it wants now. It keeps its phase, so that what it holds goes on without
    /// a new snapshot.
    fn retarget(&mut self, id: ConnectionId, hub: &mut Hub) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let target = connection.selection.entries();
        if *target == *connection.target {
            return;
        }
        let mut held = connection.partial.take().unwrap_or_else(|| connection.target.iter().copied().collect());
        let phase = connection.group.map(|key| key.phase);
        if let Some(key) = connection.group.take() {
            // The phase must stay active for the terminal while it changes groups.
            hub.activate(key.phase);
            if !target.is_empty() {
                connection.group = Some(self.groups.join(Arc::clone(&target), Some(key.phase), id, hub));
            }
            self.groups.leave(key, id, hub);
        } else if !target.is_empty() {
            connection.group = Some(self.groups.join(Arc::clone(&target), phase, id, hub));
        }
        held.retain(|entry| target.binary_search(entry).is_ok());
        connection.partial = (held.len() < target.len()).then_some(held);
        connection.target = target;
    }

    /// Tells every terminal of instruments that are new, and lets patterns match them.
    pub fn grow(&mut self, hub: &mut Hub) {
        let news = self.told.news(&self.directory, self.config.generation);
        if news.is_empty() {
            return;
        }
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            for dictionary in &news {
                self.tell(id, &ToTerminal::Dictionary(dictionary.clone()));
            }
            let connection = self.connections.get_mut(&id);
            if connection.is_some_and(|connection| connection.selection.refresh(&self.directory)) {
                self.retarget(id, hub);
            }
        }
    }

    /// Sends a closed frame to the terminals of its phase.
    pub fn close(&mut self, frame: &Frame, phase: u64, hub: &Hub) {
        self.blocks.load(frame, &mut self.counts);
        let at_ms = frame.at_ns / 1_000_000;
        for (target, members) in self.groups.of_phase(phase) {
            let mut shared: Option<Vec<Bytes>> = None;
            for id in members {
                let Some(connection) = self.connections.get_mut(id) else { continue };
                let mut close = Close { frame, at_ms, hub, blocks: &mut self.blocks, counts: &mut self.counts };
                if connection.outbox.is_lost() {
                    close.recover(connection);
                } else if connection.partial.is_some() {
                    close.catch_up(connection, Vec::new());
                } else {
                    let messages = shared.get_or_insert_with(|| close.encode(target));
                    close.send_shared(connection, messages, self.config.heartbeat_ms);
                }
            }
        }
        self.heartbeats(frame, at_ms);
    }

    /// Terminals without subscriptions are in no group, but must see that the feed lives.
    fn heartbeats(&mut self, frame: &Frame, at_ms: u64) {
        let heartbeat_ms = self.config.heartbeat_ms;
        let idle = self.connections.values_mut().filter(|connection| connection.group.is_none());
        for connection in idle.filter(|connection| at_ms >= connection.sent_ms.saturating_add(heartbeat_ms)) {
            connection.push(FrameBuilder::new(frame.frame, at_ms).finish(), at_ms, &mut self.counts);
        }
    }

    fn tell(&mut self, id: ConnectionId, message: &ToTerminal) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match message.encode() {
            Ok(bytes) => connection.outbox.push_control(bytes),
            Err(_) => self.counts.unencodable += 1,
        }
    }
}

impl Connection {
    fn push(&mut self, bytes: Bytes, at_ms: u64, counts: &mut FanoutCounts) {
        counts.frames += 1;
        counts.bytes = counts.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(0));
        self.sent_ms = at_ms;
        if !self.outbox.push(bytes, at_ms) {
            counts.gaps += 1;
        }
    }
}

/// One frame on its way to the terminals of a phase.
struct Close<'a> {
    frame: &'a Frame,
    at_ms: u64,
    hub: &'a Hub,
    blocks: &'a mut Blocks,
    counts: &'a mut FanoutCounts,
}

impl Close<'_> {
    fn builder(&self) -> FrameBuilder {
        FrameBuilder::new(self.frame.frame, self.at_ms)
    }

    /// A group's frame; empty if nothing of the group changed.
    fn encode(&mut self, target: &[Entry]) -> Vec<Bytes> {
        let mut out = Messages::new(self.builder());
        self.blocks.changed(target, |block| out.add(block));
        let messages = out.finish();
        self.counts.encodes += u64::from(!messages.is_empty());
        messages
    }

    fn send_shared(&mut self, connection: &mut Connection, messages: &[Bytes], heartbeat_ms: u64) {
        if messages.is_empty() && self.at_ms >= connection.sent_ms.saturating_add(heartbeat_ms) {
            let heartbeat = self.builder().finish();
            return connection.push(heartbeat, self.at_ms, self.counts);
        }
        for message in messages {
            connection.push(message.clone(), self.at_ms, self.counts);
        }
    }

    /// A terminal that lost frames and has read all that was left begins anew on the same socket.
    fn recover(&mut self, connection: &mut Connection) {
        if !connection.outbox.begin_recovery() {
            return;
        }
        connection.partial = Some(BTreeSet::new());
        let mut gaps = Vec::new();
        for entries in connection.target.chunks(wire::bounds::GAP_ENTRIES_MAX) {
            match ToTerminal::Gap(Gap { entries: entries.to_vec() }).encode() {
                Ok(bytes) => gaps.push(bytes),
                Err(_) => self.counts.unencodable += 1,
            }
        }
        self.catch_up(connection, gaps);
    }

    /// A frame of the terminal's own: changes of what it holds, and snapshots of what it lacks as far as they fit.
    fn catch_up(&mut self, connection: &mut Connection, first: Vec<Bytes>) {
        let mut held = connection.partial.take().unwrap_or_default();
        let mut out = Messages::new(self.builder());
        let holding: Vec<Entry> = held.iter().copied().collect();
        self.blocks.changed(&holding, |block| out.add(block));
        let room = connection.outbox.room().min(SNAPSHOT_BYTES_PER_FRAME);
        let missing: Vec<Entry> = connection.target.iter().copied().filter(|entry| !held.contains(entry)).collect();
        for entry in missing {
            if out.bytes() >= room {
                break;
            }
            self.blocks.snapshot(entry, self.hub, self.counts, |block| out.add(block));
            held.insert(entry);
            self.counts.snapshots += 1;
        }
        connection.partial = (held.len() < connection.target.len()).then_some(held);
        self.counts.encodes += 1;
        for message in first.into_iter().chain(out.finish()) {
            connection.push(message, self.at_ms, self.counts);
        }
    }
}

/// Blocks put into as few messages as the wire's bounds allow, all of one frame.
struct Messages {
    empty: FrameBuilder,
    open: FrameBuilder,
    done: Vec<Bytes>,
    done_bytes: usize,
}

impl Messages {
    fn new(empty: FrameBuilder) -> Self {
        Self { open: empty.clone(), empty, done: Vec::new(), done_bytes: 0 }
    }

    fn add(&mut self, block: &[u8]) {
        if self.open.push_encoded(block).is_ok() {
            return;
        }
        let full = std::mem::replace(&mut self.open, self.empty.clone());
        self.done_bytes += full.bytes();
        self.done.push(full.finish());
        if self.open.push_encoded(block).is_err() {
            // A block alone is within a frame's bounds, which the encoder of blocks has checked.
            tracing::error!(bytes = block.len(), "a block fits no frame");
        }
    }

    fn bytes(&self) -> usize {
        self.done_bytes + self.open.bytes()
    }

    fn finish(mut self) -> Vec<Bytes> {
        if self.open.blocks() > 0 {
            self.done.push(self.open.finish());
        }
        self.done
    }
}
