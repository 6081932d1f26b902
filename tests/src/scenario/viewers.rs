//! The terminals' side of a scenario: real sessions behind links with latency and bandwidth, and the checks of what
//! they show.
//!
//! Never: a message taken in parts; a session told of what its link did not carry.

use super::{
    START_NS, World,
    agenda::Action,
    check::ShownBook,
    note,
    setup::{MS, Market, Viewer, ViewerLink},
    truth::SCALE,
};
use bytes::Bytes;
use market::{FeedState, Level, Scale, Side, Version};
use receiver::{Backoff, Notice, Session, connection::PROVEN_MS_MIN};
use server::fanout::{
    ConnectionId,
    outbox::{Next, Outbox},
};
use std::sync::Arc;
use wire::{SubscriptionItem, ToServer, ToTerminal};

/// How often a terminal looks at the clock.
const WATCH_NS: u64 = 100 * MS;

/// What the system takes from the server before the link has: as small as a live socket's buffer is set.
pub(super) const SOCKET_BYTES: u64 = 8 << 10;

/// An open connection.
pub(super) struct Open {
    pub(super) id: ConnectionId,
    run: u64,
    outbox: Arc<Outbox>,
    opened_ns: u64,
    /// When the link is done with what it has.
    free_ns: u64,
    /// Bytes are on their way into the link.
    sending: bool,
}

/// What a terminal shows of an instrument.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) state: Option<FeedState>,
    pub(super) states: Vec<FeedState>,
    pub(super) versions: Vec<Version>,
    /// Since when it has been LIVE; none if it is not.
    pub(super) live_ns: Option<u64>,
}

/// A terminal.
pub(super) struct ViewerState {
    pub(super) session: Session,
    pub(super) link: ViewerLink,
    pub(super) cut: bool,
    pub(super) stalled_until_ns: u64,
    pub(super) open: Option<Open>,
    backoff: Backoff,
    attempt: u64,
    pub(super) shown: Vec<Shown>,
    gaps: usize,
}

impl World {
    /// A terminal appears and connects.
    ///
    /// # Panics
    /// If an item cannot be subscribed to.
    pub fn viewer(&mut self, link: ViewerLink, items: &[SubscriptionItem]) -> Viewer {
        let mut session = Session::new();
        if let Err(error) = session.subscribe(items) {
            self.fail(&format!("{error}"));
        }
        let shown = vec![Shown::default(); self.truths.len()];
        let (stalled_until_ns, backoff, attempt) = (0, Backoff::default(), 0);
        self.viewers.push(ViewerState {
            session,
            link,
            cut: false,
            stalled_until_ns,
            open: None,
            backoff,
            attempt,
            shown,
            gaps: 0,
        });
        let viewer = self.viewers.len() - 1;
        self.agenda.plan(self.now_ns, Action::Dial { viewer, attempt });
        self.agenda.plan(self.now_ns.saturating_add(WATCH_NS), Action::Watch(viewer));
        viewer
    }

    /// A terminal wants more.
    ///
    /// # Panics
    /// If an item cannot be subscribed to.
    pub fn subscribe(&mut self, viewer: Viewer, items: &[SubscriptionItem]) {
        let subscribed = self.viewers.get_mut(viewer).map(|found| found.session.subscribe(items));
        if let Some(Err(error)) = subscribed {
            self.fail(&format!("{error}"));
        }
        self.ask(viewer);
    }

    /// What a terminal knows.
    ///
    /// # Panics
    /// If there is no such terminal.
    #[must_use]
    pub fn session(&self, viewer: Viewer) -> &Session {
        match self.viewers.get(viewer) {
            Some(found) => &found.session,
            None => self.fail(&format!("there is no viewer {viewer}")),
        }
    }

    /// The book that a terminal shows.
    #[must_use]
    pub fn book(&self, viewer: Viewer, market: Market) -> Option<ShownBook> {
        let book = self.session(viewer).book(&self.truths.get(market)?.name)?;
        let [bids, asks] = Side::BOTH.map(|side| self.in_steps(book.scale(), book.levels(side)));
        Some(ShownBook { version: book.version(), bids, asks })
    }

    /// Levels in the scenario's steps; decoders may know coarser ones.
    fn in_steps(&self, scale: Scale, levels: impl Iterator<Item = Level>) -> Vec<Level> {
        let fine = |level: Level| {
            let tick_index = scale.price_in(SCALE, level.tick_index)?;
            Some(Level { tick_index, quantity: scale.quantity_in(SCALE, level.quantity)? })
        };
        match levels.map(fine).collect() {
            Some(levels) => levels,
            None => self.fail(&format!("steps of {scale:?} are finer than what the venue sends")),
        }
    }

    /// The mark that a terminal shows now; SYNCING where it knows nothing.
    #[must_use]
    pub fn state(&self, viewer: Viewer, market: Market) -> FeedState {
        let name = self.truths.get(market).map(|truth| &*truth.name).unwrap_or_default();
        self.session(viewer).feed(name, self.viewer_ms()).map(|feed| feed.state).unwrap_or_default()
    }

    /// The age that a terminal shows now, milliseconds.
    #[must_use]
    pub fn age_ms(&self, viewer: Viewer, market: Market) -> Option<u64> {
        self.session(viewer).age_ms(&self.truths.get(market)?.name, self.viewer_ms())
    }

    /// The marks that a terminal showed since the last call, one after another.
    pub fn take_states(&mut self, viewer: Viewer, market: Market) -> Vec<FeedState> {
        let shown = self.viewers.get_mut(viewer).and_then(|viewer| viewer.shown.get_mut(market));
        shown.map(|shown| std::mem::take(&mut shown.states)).unwrap_or_default()
    }

    /// The versions that a terminal showed since the last call, one after another.
    pub fn take_versions(&mut self, viewer: Viewer, market: Market) -> Vec<Version> {
        let shown = self.viewers.get_mut(viewer).and_then(|viewer| viewer.shown.get_mut(market));
        shown.map(|shown| std::mem::take(&mut shown.versions)).unwrap_or_default()
    }

    /// Gaps that a terminal was told of.
    #[must_use]
    pub fn gaps(&self, viewer: Viewer) -> usize {
        self.viewers.get(viewer).map_or(0, |viewer| viewer.gaps)
    }

    /// The number of a terminal's present connection, if it has one.
    #[must_use]
    pub fn connection(&self, viewer: Viewer) -> Option<ConnectionId> {
        Some(self.viewers.get(viewer)?.open.as_ref()?.id)
    }

    /// Breaks a terminal's link, which it sees at once and the server after a while, and bars it until
    /// [`World::mend`].
    pub fn cut_viewer(&mut self, viewer: Viewer, server_sees_ns: u64) {
        if let Some(found) = self.viewers.get_mut(viewer) {
            found.cut = true;
            if let Some(open) = &found.open {
                let action = Action::Teardown { run: open.run, connection: open.id };
                self.agenda.plan(self.now_ns.saturating_add(server_sees_ns), action);
            }
        }
        self.cut_off(viewer, 0, None);
    }

    /// Lets a terminal connect again.
    pub fn mend(&mut self, viewer: Viewer) {
        if let Some(found) = self.viewers.get_mut(viewer) {
            found.cut = false;
        }
    }

    /// A terminal's link carries nothing for a while, then what it held.
    pub fn stall(&mut self, viewer: Viewer, ns: u64) {
        let until_ns = self.now_ns.saturating_add(ns);
        if let Some(found) = self.viewers.get_mut(viewer) {
            found.stalled_until_ns = found.stalled_until_ns.max(until_ns);
            if let Some(open) = &mut found.open {
                open.free_ns = open.free_ns.max(until_ns);
            }
        }
    }

    /// The clock of the sessions: milliseconds since the scenario's begin, and one hour.
    pub(super) fn viewer_ms(&self) -> u64 {
        self.now_ns.saturating_sub(START_NS) / MS + 3_600_000
    }

    pub(super) fn dial(&mut self, viewer: Viewer, attempt: u64) {
        let now_ms = self.viewer_ms();
        let Some(found) = self.viewers.get_mut(viewer) else { return };
        if found.open.is_some() || found.attempt != attempt {
            return;
        }
        let (Some(server), false) = (&mut self.server, found.cut) else {
            return self.redial(viewer, None);
        };
        self.connections += 1;
        let id = ConnectionId(self.connections);
        let outbox = Arc::new(Outbox::new(self.setup.ring));
        let (opened_ns, run) = (self.now_ns, server.run);
        found.session.connected(now_ms);
        let free_ns = opened_ns.max(found.stalled_until_ns);
        found.open = Some(Open { id, run, outbox: Arc::clone(&outbox), opened_ns, free_ns, sending: false });
        server.fanout.connect(id, outbox, server.hub.now_ns() / MS);
        note!(self, "viewer {viewer} connects as {}", id.0);
        self.pump(viewer);
    }

    /// Plans the next attempt by the receiver's own back-off.
    fn redial(&mut self, viewer: Viewer, asked_ms: Option<u64>) {
        let bits = self.viewer_chance.bits();
        let Some(found) = self.viewers.get_mut(viewer) else { return };
        let drawn_ms = found.backoff.next_ms(bits);
        found.attempt += 1;
        let (attempt, wait_ms) = (found.attempt, asked_ms.unwrap_or(drawn_ms));
        self.agenda.plan(self.now_ns.saturating_add(wait_ms * MS), Action::Dial { viewer, attempt });
    }

    /// A terminal will notice that its connection is gone.
    pub(super) fn cut_off(&mut self, viewer: Viewer, after_ns: u64, wait_ms: Option<u64>) {
        if let Some(connection) = self.connection(viewer) {
            self.agenda.plan(self.now_ns.saturating_add(after_ns), Action::Gone { viewer, connection, wait_ms });
        }
    }

    pub(super) fn gone(&mut self, viewer: Viewer, connection: ConnectionId, wait_ms: Option<u64>) {
        let Some(found) = self.viewers.get_mut(viewer) else { return };
        let Some(open) = found.open.take_if(|open| open.id == connection) else { return };
        found.session.disconnected();
        if self.now_ns.saturating_sub(open.opened_ns) >= PROVEN_MS_MIN * MS {
            found.backoff.reset();
        }
        note!(self, "viewer {viewer} is cut off");
        self.redial(viewer, wait_ms);
        self.look(viewer);
    }

    pub(super) fn torn_down(&mut self, run: u64, connection: ConnectionId) {
        if let Some(server) = self.server.as_mut().filter(|server| server.run == run) {
            server.fanout.teardown(connection, &mut server.hub);
        }
    }

    pub(super) fn pump_all(&mut self) {
        (0..self.viewers.len()).for_each(|viewer| self.pump(viewer));
    }

    /// Gives the link what the outbox holds, one message after another.
    fn pump(&mut self, viewer: Viewer) {
        let now_ns = self.now_ns;
        let Some(found) = self.viewers.get_mut(viewer) else { return };
        let (link, stalled_ns) = (found.link, found.stalled_until_ns);
        let Some(open) = found.open.as_mut().filter(|open| !open.sending) else { return };
        let connection = open.id;
        match open.outbox.next() {
            Next::Wait => {}
            Next::Close(notice) => {
                let wait_ms = notice.map(|notice| u64::from(notice.reconnect_after_ms));
                let run = open.run;
                self.agenda.plan(now_ns, Action::Teardown { run, connection });
                self.cut_off(viewer, link.delay_ns, wait_ms);
            }
            Next::Send(bytes) => {
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                open.free_ns = open.free_ns.max(now_ns).max(stalled_ns).saturating_add(link.transmit_ns(length));
                open.sending = true;
                let sent_ns = open.free_ns.saturating_sub(link.transmit_ns(SOCKET_BYTES)).max(now_ns);
                let sent_ns = if stalled_ns > now_ns { open.free_ns } else { sent_ns };
                let down_ns = open.free_ns.saturating_add(link.delay_ns);
                self.agenda.plan(sent_ns, Action::Sent { viewer, connection });
                self.agenda.plan(down_ns, Action::Down { viewer, connection, bytes });
            }
        }
    }

    pub(super) fn sent(&mut self, viewer: Viewer, connection: ConnectionId) {
        let found = self.viewers.get_mut(viewer).and_then(|viewer| viewer.open.as_mut());
        if let Some(open) = found.filter(|open| open.id == connection) {
            open.sending = false;
            self.pump(viewer);
        }
    }

    pub(super) fn up(&mut self, run: u64, connection: ConnectionId, bytes: &Bytes) {
        let Some(server) = self.server.as_mut().filter(|server| server.run == run) else { return };
        match ToServer::decode(bytes) {
            Ok(request) => server.fanout.request(connection, request, &mut server.hub),
            Err(error) => self.fail(&format!("a session's request does not decode: {error}")),
        }
        self.look_ahead();
    }

    pub(super) fn down(&mut self, viewer: Viewer, connection: ConnectionId, bytes: &Bytes) {
        let now_ms = self.viewer_ms();
        if self.connection(viewer) != Some(connection) {
            return;
        }
        let message = match ToTerminal::decode(bytes) {
            Ok(message) => message,
            Err(error) => self.fail(&format!("a message to viewer {viewer} does not decode: {error}")),
        };
        if let ToTerminal::Frame(frame) = &message {
            self.check_frame_age(viewer, frame.at_ms);
        }
        let Some(found) = self.viewers.get_mut(viewer) else { return };
        let notices = match found.session.receive(message, now_ms) {
            Ok(notices) => notices,
            Err(error) => self.fail(&format!("viewer {viewer} leaves: {error}")),
        };
        for notice in notices {
            self.noticed(viewer, notice);
        }
        self.ask(viewer);
        self.look(viewer);
    }

    fn noticed(&mut self, viewer: Viewer, notice: Notice) {
        match notice {
            Notice::BookChanged { instrument, .. } => {
                let market = self.truths.iter().position(|truth| *truth.name == *instrument);
                if let Some(market) = market {
                    self.showed(viewer, market);
                }
            }
            Notice::Gap { channel, name } => {
                note!(self, "viewer {viewer} has a gap in {channel:?} {name}");
                if let Some(found) = self.viewers.get_mut(viewer) {
                    found.gaps += 1;
                }
            }
            Notice::NeedsResync { instrument, .. } => {
                self.fail(&format!(
                    "viewer {viewer} was sent a delta of {instrument} over a base that it does not hold"
                ));
            }
            Notice::DigestMismatch { instrument, version } => {
                self.fail(&format!("viewer {viewer} holds another {instrument} at {version} than the server"));
            }
            Notice::Refused { code, .. } => self.fail(&format!("viewer {viewer} is refused: {code:?}")),
            Notice::UnknownId { id } => self.fail(&format!("viewer {viewer} was told of {id} before its name")),
            _ => {}
        }
    }

    /// Sends what the session wants to ask.
    fn ask(&mut self, viewer: Viewer) {
        let now_ns = self.now_ns;
        let Some(found) = self.viewers.get_mut(viewer) else { return };
        let Some(open) = &found.open else { return };
        let (connection, run, at_ns) = (open.id, open.run, now_ns.saturating_add(found.link.delay_ns));
        let mut asked = Vec::new();
        while let Some(request) = found.session.next_outgoing() {
            asked.push(request.encode());
        }
        for bytes in asked {
            match bytes {
                Ok(bytes) => self.agenda.plan(at_ns, Action::Up { run, connection, bytes }),
                Err(error) => self.fail(&format!("a session's request does not encode: {error}")),
            }
        }
    }

    /// A terminal looks at the clock: a silent link is left.
    pub(super) fn watch(&mut self, viewer: Viewer) {
        let now_ms = self.viewer_ms();
        self.agenda.plan(self.now_ns.saturating_add(WATCH_NS), Action::Watch(viewer));
        let Some(found) = self.viewers.get_mut(viewer) else { return };
        found.session.tick(now_ms);
        let silent = found.session.silent_at_ms().is_some_and(|silent_ms| now_ms >= silent_ms);
        if silent {
            note!(self, "viewer {viewer} leaves a silent link");
            if let Some(open) = &found.open {
                let action = Action::Teardown { run: open.run, connection: open.id };
                self.agenda.plan(self.now_ns, action);
            }
            self.cut_off(viewer, 0, None);
        }
        self.ask(viewer);
        self.look(viewer);
    }
}
