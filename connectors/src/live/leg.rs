//! One leg's connection as a state machine: when to connect, what to subscribe to, what is overdue, when to give up.
//! Nothing here does anything: the caller asks [`Leg::poll`] what to do, and says what happened.
//!
//! The subscription set is state. Each connection begins with none of it, and an acknowledgement proves nothing: only
//! data do.
//!
//! Never: I/O, a clock (`now_ns` is passed in, of any clock that does not go back), chance (64 random bits are passed in).

mod answers;
mod budget;
mod overdue;
mod prospect;
mod subscription;

use super::{backoff::Backoff, protocol::Protocol};
use budget::Budget;
use foldhash::HashMap;
pub use prospect::{Chance, Prospect};
use std::collections::VecDeque;
use subscription::{Purpose, Request, Stage, Subscription};

/// Time for name resolution, TCP, TLS and the upgrade together at most, in milliseconds.
pub const CONNECT_MS_MAX: u64 = 10_000;

/// Time that a connection is not read at most since nobody takes its frames, in milliseconds. A book that much late is
/// better built anew.
pub const HELD_MS_MAX: u64 = 5_000;

/// How long a connection must have lived, and brought data, to count as good, in milliseconds.
pub const PROVEN_MS_MIN: u64 = 10_000;

/// Time between the first connections of two legs, in milliseconds: legs of one age would end together, by the venue's
/// limit on it.
pub const STAGGER_MS: u64 = 2_000;

/// Time between two legs' leaving of a server that goes away, in milliseconds.
pub const LEAVE_SPREAD_MS: u64 = 15_000;

/// How long a subscription may be quiet after its acknowledgement before its book is asked for all the same, in
/// milliseconds.
pub const QUIET_MS: u64 = 1_000;

/// Longest wait that a server may ask for before the next connection, in milliseconds.
pub const ASKED_WAIT_MS_MAX: u64 = 300_000;

/// What the venues' numbers of connections are for, in milliseconds.
const MINUTE_MS: u64 = 60_000;

/// No time at all.
const NEVER: u64 = u64::MAX;

const fn ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// Why the machine gives a connection up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not there in time.
    #[error("no connection within {CONNECT_MS_MAX} ms")]
    ConnectDeadline,
    /// Not one frame in time, control frames included.
    #[error("the venue is silent")]
    Silent,
    /// A request was not answered in time.
    #[error("a request was not answered")]
    Unanswered,
    /// Everything was acknowledged, and nothing came.
    #[error("subscriptions were acknowledged, but no data came")]
    NoData,
    /// Its frames found no taker in time.
    #[error("frames found no taker for too long")]
    HeldUp,
    /// The server said that it goes away.
    #[error("the server goes away")]
    Leaving,
    /// A message of the connection is missing, by the venue's count of them.
    #[error("a message of the connection is missing")]
    Missing,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection; say [`Leg::opened`] or [`Leg::ended`].
    Connect,
    /// Send this text.
    Send(String),
    /// This instrument's stream flows, or is quiet; the venue's REST snapshot may be asked for. By its place in the set.
    Carried(usize),
    /// Something worth a count and a line.
    Note(Note),
    /// Drop the connection; say [`Leg::ended`].
    Drop(Fault),
}

/// What is worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// An instrument is subscribed to anew.
    Resubscribed(usize),
    /// The same for the so manieth time in a row that a person should look.
    Insisted(usize),
    /// The venue refused a subscription, in its own words.
    Refused(usize, Box<str>),
    /// A subscription was acknowledged, but its data did not come.
    Dataless(usize),
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since_ns: u64,
    heard_ns: u64,
    held_since_ns: Option<u64>,
    /// When the last subscription was acknowledged.
    acknowledged_ns: u64,
    /// Data came.
    proven: bool,
    leave_at_ns: u64,
    /// When a ping of ours was sent last, or the connection opened.
    pinged_ns: u64,
    /// A message is missing on it.
    missing: bool,
}

#[derive(Clone, Copy, Debug)]
enum Link {
    Down { retry_at_ns: u64 },
    Connecting { since_ns: u64 },
    Open(Open),
}

/// One leg of a venue.
pub struct Leg {
    protocol: &'static dyn Protocol,
    /// Which of the venue's legs.
    index: u64,
    held_max_ms: u64,
    /// Least time between two of its connections, in milliseconds.
    spacing_ms: u64,
    /// When the last connection was begun.
    connected_ns: Option<u64>,
    /// Snapshots come by REST.
    by_rest: bool,
    subscriptions: Vec<Subscription>,
    by_key: HashMap<Box<str>, usize>,
    /// The connection's own names of instruments.
    by_handle: HashMap<Box<str>, usize>,
    /// Names in data that no instrument has yet; the oldest first.
    early: VecDeque<Box<str>>,
    link: Link,
    backoff: Backoff,
    next_id: u64,
    outbox: VecDeque<Request>,
    next_send_ns: u64,
    /// What the venue lets the connection ask for.
    budget: Budget,
    /// Sent and not wholly answered, in the order of their sending.
    asked: Vec<Request>,
    /// Actions that wait to be taken.
    due: VecDeque<Action>,
    /// When the next look at all deadlines is worth it.
    scan_at_ns: u64,
}

impl Leg {
    /// A leg that connects at once, or a little later than those of a lower index.
    #[must_use]
    pub fn new(protocol: &'static dyn Protocol, symbols: &[Box<str>], index: usize, now_ns: u64) -> Self {
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        let keys = symbols.iter().enumerate().map(|(at, symbol)| (protocol.key(symbol).into(), at));
        Self {
            protocol,
            index,
            held_max_ms: HELD_MS_MAX,
            spacing_ms: 0,
            connected_ns: None,
            by_rest: symbols.first().is_some_and(|symbol| protocol.snapshot(symbol).is_some()),
            by_key: keys.collect(),
            by_handle: HashMap::default(),
            early: VecDeque::new(),
            subscriptions: symbols.iter().map(|symbol| Subscription::new(symbol)).collect(),
            link: Link::Down { retry_at_ns: now_ns.saturating_add(ms(STAGGER_MS.saturating_mul(index))) },
            backoff: Backoff::default(),
            next_id: 1,
            outbox: VecDeque::new(),
            next_send_ns: 0,
            budget: Budget::new(protocol.terms().requests_per_hour),
            asked: Vec::new(),
            due: VecDeque::new(),
            scan_at_ns: NEVER,
        }
    }

    /// The same with another bound than [`HELD_MS_MAX`].
    #[must_use]
    pub fn with_held_max(mut self, held_max_ms: u64) -> Self {
        self.held_max_ms = held_max_ms;
        self
    }

    /// The same as one of so many legs, which share the connections that the venue allows within a minute.
    #[must_use]
    pub fn among(mut self, legs: usize) -> Self {
        let legs = u64::try_from(legs).unwrap_or(u64::MAX);
        let allowed = self.protocol.connections_per_minute();
        self.spacing_ms = allowed.map_or(0, |allowed| MINUTE_MS.saturating_mul(legs).div_ceil(allowed.max(1)));
        self
    }

    /// Whether the connection is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.link, Link::Open(_))
    }

    /// When [`Leg::poll`] has something to do, if nothing else happens; none for now.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let at = match self.link {
            Link::Down { retry_at_ns } => retry_at_ns,
            Link::Connecting { since_ns } => since_ns.saturating_add(ms(CONNECT_MS_MAX)),
            Link::Open(_) if !self.due.is_empty() => 0,
            Link::Open(_) => {
                let send_at_ns = self.next_request().map_or(NEVER, |(_, free_ns)| free_ns.max(self.next_send_ns));
                send_at_ns.min(self.scan_at_ns)
            }
        };
        (at != NEVER).then_some(at)
    }

    /// The next thing to do, if any; to be asked until there is none.
    pub fn poll(&mut self, now_ns: u64) -> Option<Action> {
        match self.link {
            Link::Down { retry_at_ns } if now_ns >= retry_at_ns => {
                self.link = Link::Connecting { since_ns: now_ns };
                self.connected_ns = Some(now_ns);
                Some(Action::Connect)
            }
            Link::Connecting { since_ns } if now_ns >= since_ns.saturating_add(ms(CONNECT_MS_MAX)) => {
                Some(Action::Drop(Fault::ConnectDeadline))
            }
            Link::Down { .. } | Link::Connecting { .. } => None,
            Link::Open(open) => {
                if now_ns >= self.scan_at_ns
                    && let Some(fault) = self.scan(now_ns, open)
                {
                    return Some(Action::Drop(fault));
                }
                self.due.pop_front().or_else(|| self.send(now_ns))
            }
        }
    }

    /// Which request is sent next, and when the budget allows it; what was refused comes last.
    fn next_request(&self) -> Option<(usize, u64)> {
        let found = self.outbox.iter().position(|request| !request.late).unwrap_or(0);
        self.outbox.get(found).map(|request| (found, self.budget.free_ns(request.late)))
    }

    fn send(&mut self, now_ns: u64) -> Option<Action> {
        let (found, free_ns) = self.next_request()?;
        if now_ns < self.next_send_ns.max(free_ns) {
            return None;
        }
        let mut request = self.outbox.remove(found)?;
        self.budget.spend(now_ns);
        self.next_send_ns = now_ns.saturating_add(ms(self.protocol.terms().pace_ms));
        let text = std::mem::take(&mut request.text);
        if request.purpose == Purpose::Subscribe {
            for at in &request.symbols {
                self.stage(*at, Stage::Asked);
            }
        }
        request.sent_ns = now_ns;
        self.look_at(now_ns.saturating_add(ms(self.protocol.terms().answer_ms)));
        self.asked.push(request);
        Some(Action::Send(text))
    }

    /// The connection is open: the whole set is to be subscribed to.
    pub fn opened(&mut self, now_ns: u64) {
        self.clear();
        let terms = self.protocol.terms();
        self.link = Link::Open(Open {
            since_ns: now_ns,
            heard_ns: now_ns,
            held_since_ns: None,
            acknowledged_ns: now_ns,
            proven: false,
            leave_at_ns: NEVER,
            pinged_ns: now_ns,
            missing: false,
        });
        self.next_send_ns = now_ns;
        self.greet(now_ns);
        let all: Vec<usize> = (0..self.subscriptions.len()).collect();
        for batch in all.chunks(terms.batch.max(1)) {
            self.ask(Purpose::Subscribe, batch);
            self.ask(Purpose::Beside, batch);
        }
        self.scan_at_ns = now_ns.saturating_add(ms(terms.silence_ms));
        if terms.ping_ms > 0 {
            self.look_at(now_ns.saturating_add(ms(terms.ping_ms)));
        }
    }

    fn greet(&mut self, now_ns: u64) {
        for text in self.protocol.greeting(self.next_id) {
            self.budget.spend(now_ns);
            self.next_id += 1;
            self.due.push_back(Action::Send(text));
            self.next_send_ns = self.next_send_ns.saturating_add(ms(self.protocol.terms().pace_ms));
        }
    }

    /// The connection lacks a message, or its books cannot be mended on it: it is given up.
    pub fn give_up(&mut self, now_ns: u64) {
        if let Link::Open(open) = &mut self.link {
            open.missing = true;
            self.look_at(now_ns);
        }
    }

    /// A connection ended or was not made. The next one is for later, by 64 random bits, or by what the server asked for.
    pub fn ended(&mut self, now_ns: u64, random: u64, asked_wait_ms: Option<u64>) {
        if let Link::Open(open) = self.link
            && open.proven
            && now_ns >= open.since_ns.saturating_add(ms(PROVEN_MS_MIN))
        {
            self.backoff.reset();
        }
        let drawn_ms = self.backoff.next_ms(random);
        let wait_ms = asked_wait_ms.map_or(drawn_ms, |asked_ms| asked_ms.min(ASKED_WAIT_MS_MAX).max(drawn_ms));
        let spaced_ns = self.connected_ns.map_or(0, |last_ns| last_ns.saturating_add(ms(self.spacing_ms)));
        self.link = Link::Down { retry_at_ns: now_ns.saturating_add(ms(wait_ms)).max(spaced_ns) };
        self.clear();
    }

    /// Nothing of an ended connection counts for the next.
    fn clear(&mut self) {
        self.outbox.clear();
        self.asked.clear();
        self.budget.clear();
        self.due.clear();
        self.by_handle.clear();
        self.early.clear();
        self.scan_at_ns = NEVER;
        self.subscriptions.iter_mut().for_each(Subscription::forget);
    }

    /// A frame came, of whatever kind.
    pub fn heard(&mut self, now_ns: u64) {
        if let Link::Open(open) = &mut self.link {
            open.heard_ns = now_ns;
        }
    }

    /// Nobody takes what was read: the connection is not read for now.
    pub fn held(&mut self, now_ns: u64) {
        if let Link::Open(open) = &mut self.link {
            open.held_since_ns.get_or_insert(now_ns);
            let until_ns = now_ns.saturating_add(ms(self.held_max_ms));
            self.look_at(until_ns);
        }
    }

    /// It is read again. What could not be heard meanwhile is not overdue.
    pub fn released(&mut self, now_ns: u64) {
        let Link::Open(open) = &mut self.link else { return };
        if open.held_since_ns.take().is_none() {
            return;
        }
        open.heard_ns = now_ns;
        open.acknowledged_ns = open.acknowledged_ns.max(now_ns);
        self.asked.iter_mut().for_each(|request| request.sent_ns = now_ns);
        self.subscriptions.iter_mut().for_each(|subscription| subscription.wait_from(now_ns));
        self.look_at(now_ns);
    }

    fn again(&mut self, now_ns: u64, at: usize) {
        let Some(subscription) = self.subscriptions.get_mut(at) else { return };
        let due_ns = subscription.due_ns(now_ns);
        subscription.again_at_ns.get_or_insert(due_ns);
        self.look_at(due_ns);
    }

    /// The same for one that was refused or stays quiet.
    fn retry(&mut self, now_ns: u64, at: usize) {
        if let Some(subscription) = self.subscriptions.get_mut(at) {
            subscription.unproven = true;
        }
        self.again(now_ns, at);
    }

    fn look_at(&mut self, at_ns: u64) {
        self.scan_at_ns = self.scan_at_ns.min(at_ns);
    }

    fn stage(&mut self, at: usize, stage: Stage) {
        if let Some(subscription) = self.subscriptions.get_mut(at) {
            subscription.stage = stage;
        }
    }

    fn ask(&mut self, purpose: Purpose, symbols: &[usize]) {
        let id = self.next_id;
        let names: Vec<&str> =
            symbols.iter().filter_map(|at| self.subscriptions.get(*at)).map(|one| &*one.symbol).collect();
        let text = match (purpose, &*names) {
            (Purpose::Subscribe, names) => Some(self.protocol.subscribe(names, id)),
            (Purpose::Beside, names) => self.protocol.subscribe_beside(names, id),
            (Purpose::Unsubscribe, [name, ..]) => {
                let handle = symbols.first().and_then(|at| self.handle(*at));
                Some(self.protocol.unsubscribe(name, handle, id))
            }
            (Purpose::Unsubscribe, []) => None,
        };
        if let Some(text) = text {
            self.next_id += 1;
            let unproven = |at: &usize| self.subscriptions.get(*at).is_some_and(|one| one.unproven);
            let late = symbols.iter().all(unproven);
            self.outbox.push_back(Request { id, purpose, symbols: symbols.to_vec(), text, late, sent_ns: NEVER });
        }
    }

    /// Ends the subscription to one and begins it anew; at once where there is nothing that could be ended.
    fn begin_anew(&mut self, at: usize) {
        if self.protocol.ends_by_handle() && self.handle(at).is_none() {
            self.stage(at, Stage::Absent);
            self.ask(Purpose::Subscribe, &[at]);
        } else {
            self.stage(at, Stage::Leaving);
            self.ask(Purpose::Unsubscribe, &[at]);
        }
    }
}

#[cfg(test)]
mod tests;
