//! Fan-out: who wants what, and which bytes go to whom at the close of a frame. A state machine without sockets; bytes
//! leave through each terminal's [`outbox::Outbox`].
//!
//! Terminals with one subscription set and phase are a group: their frame is encoded once and shared by reference
//! count. A terminal enters a group only at the group's close and with the state of that cut, so shared bytes always
//! fit; until it holds everything it wants, it gets frames of its own, snapshots metered by what its socket takes.
//! What goes ahead of frames, `priority` has.
//!
//! Never: a delta to a terminal that does not hold its base; a wait for a slow terminal.

mod blocks;
mod close;
mod counts;
mod dictionary;
mod groups;
pub mod outbox;
mod priority;
mod selection;

pub use counts::FanoutCounts;

use crate::{
    hub::{Frame, Hub},
    views::ViewTable,
};
use blocks::Blocks;
use bytes::Bytes;
use close::Close;
use dataflow::{cut::PriorityUpdate, priority::PriorityBoard};
use foldhash::HashMap;
use groups::{GroupKey, Groups};
use market::Directory;
use outbox::Outbox;
use priority::Priority;
use selection::Selection;
use std::{collections::BTreeSet, sync::Arc};
use wire::{Answer, Channel, ErrorCode, FrameBuilder, ServerError, Subscription, ToServer, ToTerminal};

/// A channel of an instrument; for [`Channel::Best`] of a pair, for [`Channel::View`] of a view and pair.
pub type Entry = (Channel, u32);

/// Number of a terminal's connection in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

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
    /// Time from one digest of an instrument to the next, milliseconds; in whole frames, at least one.
    pub digest_ms: u64,
    /// Longest message to a terminal, bytes; no more than [`wire::bounds::MESSAGE_BYTES_MAX`].
    pub message_bytes_max: usize,
    /// Whether the data are simulated or replayed.
    pub simulated: bool,
}

struct Connection {
    outbox: Arc<Outbox>,
    selection: Selection,
    /// What it wants, sorted; shared with its group.
    target: Arc<[Entry]>,
    /// What it holds, if that is not all of `target`.
    partial: Option<BTreeSet<Entry>>,
    /// Entries that it selected and cannot have, until it asks for them again.
    denied: BTreeSet<Entry>,
    /// Instruments of its priority chains that wait for a snapshot.
    lacking: priority::Lacking,
    group: Option<GroupKey>,
    /// It was told the standing views.
    views_told: bool,
    sent_ms: u64,
}

/// All terminals of this process.
pub struct Fanout {
    config: FanoutConfig,
    directory: Arc<Directory>,
    views: Arc<ViewTable>,
    connections: HashMap<ConnectionId, Connection>,
    groups: Groups,
    blocks: Blocks,
    /// Instruments and pairs that terminals were told of.
    told: dictionary::Told,
    priority: Priority,
    /// Entries that turned out to fit no message, for the terminals to be told.
    denials: Vec<(ConnectionId, Entry, ErrorCode)>,
    /// The last closed frame, and the present as last told, Unix milliseconds.
    present: Present,
    counts: FanoutCounts,
}

/// Where the fan-out is in time; without a clock of its own.
#[derive(Clone, Copy, Debug, Default)]
struct Present {
    frame: u64,
    /// The end of the last closed frame.
    closed_ms: u64,
    now_ms: u64,
}

impl Fanout {
    /// A fan-out without terminals.
    #[must_use]
    pub fn new(config: FanoutConfig, directory: Arc<Directory>) -> Self {
        Self {
            config,
            directory,
            views: Arc::default(),
            connections: HashMap::default(),
            groups: Groups::new(config.phases),
            blocks: Blocks::new(&config),
            told: dictionary::Told::default(),
            priority: Priority::default(),
            denials: Vec::new(),
            present: Present::default(),
            counts: FanoutCounts::default(),
        }
    }

    /// The same fan-out with standing views.
    #[must_use]
    pub fn with_views(self, views: Arc<ViewTable>) -> Self {
        Self { views, ..self }
    }

    /// The standing views.
    #[must_use]
    pub fn views(&self) -> &Arc<ViewTable> {
        &self.views
    }

    /// Where lanes see which instruments are wanted ahead of their cut.
    #[must_use]
    pub fn board(&self) -> Arc<PriorityBoard> {
        self.priority.board()
    }

    /// Terminals, groups, and the sum of their subscriptions.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        let subscriptions = self.connections.values().map(|connection| connection.target.len()).sum();
        (self.connections.len(), self.groups.len(), subscriptions)
    }

    /// Whether groups and priority chains hold exactly what the terminals want; anything else is a leak.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let (_, _, subscriptions) = self.sizes();
        let ahead: usize =
            self.connections.values().map(|connection| priority::ids_of(&connection.target).count()).sum();
        self.groups.subscriptions() == subscriptions && self.priority.subscriptions() == ahead
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
            selection: Selection::new(Arc::clone(&self.views)),
            target: Arc::from([]),
            partial: None,
            denied: BTreeSet::new(),
            lacking: priority::Lacking::default(),
            group: None,
            views_told: false,
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
        if let Some(connection) = self.connections.get(&id) {
            self.priority.leave(id, priority::ids_of(&connection.target));
            if let Some(key) = connection.group {
                self.groups.leave(key, id, hub);
            }
        }
        self.connections.remove(&id);
    }

    /// Carries out a terminal's request.
    pub fn request(&mut self, id: ConnectionId, request: ToServer, hub: &mut Hub) {
        // What it names may be newer than what terminals were told of.
        self.grow(hub);
        if let ToServer::Subscribe(subscription) = &request {
            self.tell_views(id, subscription);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (number, changed) = match request {
            ToServer::Subscribe(subscription) => (
                Some(subscription.request),
                connection.selection.add(&subscription.items, &self.directory, self.config.subscriptions_max),
            ),
            ToServer::Unsubscribe(subscription) => {
                (Some(subscription.request), Ok(connection.selection.remove(&subscription.items, &self.directory)))
            }
            ToServer::Resync(resync) => return self.resync(id, &resync.items, hub),
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

    /// Tells a terminal the standing views before it asks for any: only then, for who does not know the channel does not
    /// know the message either.
    fn tell_views(&mut self, id: ConnectionId, subscription: &Subscription) {
        let asks = subscription.items.iter().any(|item| item.channel == Channel::View);
        let connection = self.connections.get_mut(&id).filter(|connection| asks && !connection.views_told);
        if let Some(connection) = connection {
            connection.views_told = true;
            self.tell(id, &ToTerminal::Views(self.views.list(self.config.generation)));
        }
    }

    /// Begins chains of a terminal anew: those of frames at the next close, priority chains at once.
    fn resync(&mut self, id: ConnectionId, entries: &[Entry], hub: &mut Hub) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let held = connection.partial.get_or_insert_with(|| connection.target.iter().copied().collect());
        let mut asked_again = false;
        for entry in entries {
            asked_again |= connection.denied.remove(entry);
            if entry.0 != Channel::Priority {
                held.remove(entry);
            } else if connection.target.binary_search(entry).is_ok() {
                connection.lacking.add(entry.1);
            }
        }
        if asked_again {
            self.retarget(id, hub);
        }
        self.give_priority(id, hub);
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

    /// Takes entries that fit no message from the terminals that were to get them, and tells these.
    fn deny(&mut self, hub: &mut Hub) {
        for (id, entry, code) in std::mem::take(&mut self.denials) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if connection.target.binary_search(&entry).is_err() || !connection.denied.insert(entry) {
                continue;
            }
            self.counts.refused += 1;
            let instrument = self.directory.get(market::SymbolId(entry.1));
            let name = instrument.as_ref().map_or("?", |instrument| &instrument.text);
            let text = format!("{name}: {} fits into no message; it is tried again when asked for", entry.0.name());
            self.retarget(id, hub);
            self.tell(id, &ToTerminal::Error(ServerError { request: None, code, text: text.into() }));
        }
    }

    /// Moves a terminal to the group of what it wants now. It keeps its phase, so that what it holds goes on without
    /// a new snapshot.
    fn retarget(&mut self, id: ConnectionId, hub: &mut Hub) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut target = connection.selection.entries();
        connection.denied.retain(|entry| target.binary_search(entry).is_ok());
        if !connection.denied.is_empty() {
            target = target.iter().copied().filter(|entry| !connection.denied.contains(entry)).collect();
        }
        if *target == *connection.target {
            return;
        }
        let news = self.priority.change(id, &connection.target, &target);
        connection.lacking.retain(|instrument| target.binary_search(&(Channel::Priority, instrument)).is_ok());
        news.into_iter().for_each(|instrument| connection.lacking.add(instrument));
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
        self.give_priority(id, hub);
    }

    /// Sends what happened ahead of its cut to the terminals that want it so.
    pub fn priority(&mut self, updates: &[PriorityUpdate], now_ms: u64) {
        self.present.now_ms = self.present.now_ms.max(now_ms);
        let (priority, mut ahead) = self.ahead();
        priority.publish(updates, &mut ahead);
    }

    /// What is due without a frame: priority chains that wait for a snapshot, and denials. Cheap if there is nothing; to
    /// be called again and again, whether the cuts go on or not.
    pub fn tend(&mut self, now_ms: u64, hub: &mut Hub) {
        self.present.now_ms = self.present.now_ms.max(now_ms);
        for id in self.priority.waiting() {
            self.give_priority(id, hub);
        }
        if !self.denials.is_empty() {
            self.deny(hub);
        }
    }

    /// The priority chains, and what is lent to them.
    fn ahead(&mut self) -> (&mut Priority, Ahead<'_>) {
        let ahead = Ahead {
            present: self.present,
            blocks: &mut self.blocks,
            connections: &mut self.connections,
            denials: &mut self.denials,
            counts: &mut self.counts,
        };
        (&mut self.priority, ahead)
    }

    fn give_priority(&mut self, id: ConnectionId, hub: &Hub) {
        let (priority, mut ahead) = self.ahead();
        priority.give(id, hub, &mut ahead);
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
        let now_ms = self.present.now_ms.max(at_ms);
        self.present = Present { frame: frame.frame, closed_ms: at_ms, now_ms };
        for (target, members) in self.groups.of_phase(phase) {
            let mut shared: Option<Vec<Bytes>> = None;
            for id in members {
                let Some(connection) = self.connections.get_mut(id) else { continue };
                let mut close = Close {
                    frame,
                    at_ms,
                    hub,
                    bytes_max: self.config.message_bytes_max,
                    blocks: &mut self.blocks,
                    denials: &mut self.denials,
                    counts: &mut self.counts,
                };
                if connection.outbox.is_lost() {
                    close.recover(*id, connection);
                } else if connection.partial.is_some() {
                    close.catch_up(*id, connection);
                } else {
                    let messages = shared.get_or_insert_with(|| close.encode(target));
                    close.send_shared(connection, messages, self.config.heartbeat_ms);
                }
            }
        }
        self.priority.reconcile(frame, hub, &mut self.connections);
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

/// What goes ahead of frames needs of the fan-out.
struct Ahead<'a> {
    present: Present,
    blocks: &'a mut Blocks,
    connections: &'a mut HashMap<ConnectionId, Connection>,
    denials: &'a mut Vec<(ConnectionId, Entry, ErrorCode)>,
    counts: &'a mut FanoutCounts,
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
