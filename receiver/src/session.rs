//! The session: everything that a terminal knows, kept over reconnects and server generations by name.
//!
//! Never: input or output, a clock (`now_ms` is passed in, any monotonic milliseconds), a state keyed by a number of
//! the wire beyond its connection.

mod blocks;
mod standing;
mod view;

pub use standing::StandingView;
pub use view::{InstrumentView, ShownQuote};

use crate::{
    guard::BookGuard,
    notice::{Link, Notice},
    subscriptions::{SubscribeError, Subscriptions},
    trades::TradeTape,
};
use foldhash::{HashMap, HashMapExt};
use market::{Best, Feed, instrument::INSTRUMENTS_MAX};
use standing::{Standing, StandingNumbers};
use std::{collections::BTreeSet, sync::Arc};
use wire::{ChainKind, Channel, Dictionary, Gap, Hello, Resync, SubscriptionItem, ToServer, ToTerminal, WIRE_VERSION};

/// Heartbeats without a frame before the link counts as silent: one may be late, two are a fault.
pub const HEARTBEATS_MISSED_MAX: u64 = 3;

/// Shortest heartbeat that is believed, in milliseconds; below it ordinary jitter would look like silence.
pub const HEARTBEAT_MS_MIN: u64 = 100;

/// How long a server may take to say hello, in milliseconds.
pub const HELLO_MS_MAX: u64 = 10_000;

/// The server broke the protocol; the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The server speaks another wire version.
    #[error("the server speaks wire version {version}, not {WIRE_VERSION}")]
    UnsupportedVersion {
        /// The server's version.
        version: u16,
    },
    /// A message came before the hello, or without a connection.
    #[error("a message before the hello")]
    BeforeHello,
    /// A second hello on one connection.
    #[error("a second hello")]
    SecondHello,
    /// A dictionary of another generation than the hello's.
    #[error("a dictionary of generation {found}, after a hello of {expected}")]
    OtherGeneration {
        /// The hello's.
        expected: u64,
        /// The dictionary's.
        found: u64,
    },
    /// A number got a second meaning.
    #[error("the number {id} got a second meaning")]
    Renamed {
        /// The number.
        id: u32,
    },
    /// The standing views were told a second time, and otherwise.
    #[error("the standing views got a second meaning")]
    ViewsRenamed,
    /// More instruments or pairs than any server has.
    #[error("more than {INSTRUMENTS_MAX} names")]
    TooManyNames,
}

/// What a session has refused or repaired, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Deltas that did not fit their chain.
    pub deltas_refused: u64,
    /// Snapshots that were asked for.
    pub resyncs: u64,
    /// Snapshots and quotes older than what was shown.
    pub regressions_refused: u64,
    /// Trades that were shown already.
    pub trades_repeated: u64,
    /// Trades older than the last.
    pub trades_late: u64,
    /// Blocks with an unknown number.
    pub unknown_ids: u64,
    /// Digests that a chain matched.
    pub digests_matched: u64,
    /// Digests that a chain did not match; each asked for a snapshot.
    pub digests_failed: u64,
    /// Digests of a version that the chain was not at.
    pub digests_skipped: u64,
}

#[derive(Debug)]
struct InstrumentState {
    name: Arc<str>,
    books: BookGuard,
    quote: Option<ShownQuote>,
    /// The quote is of a former connection, and this one has not reached it.
    quote_kept: bool,
    trades: TradeTape,
    feed: Feed,
    /// The present connection told the feed's state; what a former one told is not believed.
    feed_told: bool,
    /// The age as told, and when.
    heard: Option<(u64, u64)>,
    /// When the present connection's priority chain last said something.
    priority_at_ms: Option<u64>,
}

#[derive(Debug)]
struct PairState {
    name: Arc<str>,
    best: Option<Best>,
}

/// What holds for one connection only.
#[derive(Debug)]
struct Attachment {
    since_ms: u64,
    hello: Option<Hello>,
    frame_at_ms: u64,
    /// Of the frames that wait for the server's cuts: while these stand still, nobody looks after feed states.
    conflated_at_ms: u64,
    instruments: HashMap<u32, usize>,
    pairs: HashMap<u32, usize>,
    standing: StandingNumbers,
    resyncs: BTreeSet<(Channel, u32)>,
}

/// The state machine of a terminal.
#[derive(Debug, Default)]
pub struct Session {
    instruments: Vec<InstrumentState>,
    by_name: HashMap<Arc<str>, usize>,
    pairs: Vec<PairState>,
    pair_by_name: HashMap<Arc<str>, usize>,
    standing: Standing,
    subscriptions: Subscriptions,
    attachment: Option<Attachment>,
    link: Link,
    counters: Counters,
}

impl Session {
    /// A session that knows and wants nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to the subscription set; asking twice is asking once.
    ///
    /// # Errors
    /// [`SubscribeError`] if an item cannot be sent; none is added then.
    pub fn subscribe(&mut self, items: &[SubscriptionItem]) -> Result<(), SubscribeError> {
        self.subscriptions.add(items)
    }

    /// Takes from the subscription set.
    pub fn unsubscribe(&mut self, items: &[SubscriptionItem]) {
        self.subscriptions.remove(items);
    }

    /// The subscription set, in order.
    pub fn subscriptions(&self) -> impl ExactSizeIterator<Item = &SubscriptionItem> {
        self.subscriptions.wanted()
    }

    /// A connection was made; one that was there before is over.
    pub fn connected(&mut self, now_ms: u64) -> Vec<Notice> {
        let mut notices = self.disconnected();
        self.attachment = Some(Attachment {
            since_ms: now_ms,
            hello: None,
            frame_at_ms: now_ms,
            conflated_at_ms: now_ms,
            instruments: HashMap::new(),
            pairs: HashMap::new(),
            standing: StandingNumbers::default(),
            resyncs: BTreeSet::new(),
        });
        notices.extend(self.tick(now_ms));
        notices
    }

    /// The connection ended: its chains are over, what is shown stays.
    pub fn disconnected(&mut self) -> Vec<Notice> {
        self.attachment = None;
        self.subscriptions.forget_asked();
        for instrument in &mut self.instruments {
            instrument.books.disconnect();
            instrument.quote_kept = instrument.quote.is_some();
            instrument.priority_at_ms = None;
            instrument.feed_told = false;
        }
        self.tick(0)
    }

    /// Looks at the clock; tells if the link's state changed.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Notice> {
        let link = self.link(now_ms);
        if link == self.link {
            return Vec::new();
        }
        self.link = link;
        vec![Notice::Link(link)]
    }

    /// Takes a message of the server.
    ///
    /// # Errors
    /// [`SessionError`] if it breaks the protocol; the caller ends the connection.
    pub fn receive(&mut self, message: ToTerminal, now_ms: u64) -> Result<Vec<Notice>, SessionError> {
        let mut notices = Vec::new();
        match message {
            ToTerminal::Hello(hello) => self.greet(hello, now_ms, &mut notices)?,
            ToTerminal::Dictionary(dictionary) => self.learn(&dictionary, &mut notices)?,
            ToTerminal::Frame(frame) => {
                let attachment = self.greeted()?;
                attachment.frame_at_ms = now_ms;
                if frame.chain == ChainKind::Conflated {
                    attachment.conflated_at_ms = now_ms;
                }
                for block in frame.blocks {
                    self.take_block(frame.chain, block, now_ms, &mut notices)?;
                }
            }
            ToTerminal::Gap(gap) => {
                self.greeted()?;
                self.take_gap(&gap, now_ms, &mut notices);
            }
            ToTerminal::Views(list) => self.learn_views(list)?,
            ToTerminal::Answer(answer) => {
                notices.push(Notice::Answered { request: answer.request, matched: answer.matched });
            }
            ToTerminal::Error(error) => {
                notices.push(Notice::Refused { request: error.request, code: error.code, text: error.text });
            }
        }
        notices.extend(self.tick(now_ms));
        Ok(notices)
    }

    /// The next message to the server, if there is one; none before its hello.
    pub fn next_outgoing(&mut self) -> Option<ToServer> {
        let attachment = self.attachment.as_mut().filter(|attachment| attachment.hello.is_some())?;
        if !attachment.resyncs.is_empty() {
            let mut items = Vec::new();
            while items.len() < wire::bounds::ITEMS_MAX
                && let Some(item) = attachment.resyncs.pop_first()
            {
                items.push(item);
            }
            return Some(ToServer::Resync(Resync { items }));
        }
        self.subscriptions.next_request()
    }

    /// The state of the link.
    #[must_use]
    pub fn link(&self, now_ms: u64) -> Link {
        match (&self.attachment, self.silent_at_ms()) {
            (None, _) => Link::Down,
            (Some(_), Some(silent_at)) if now_ms >= silent_at => Link::Silent,
            (Some(attachment), _) if attachment.hello.is_none() => Link::Opening,
            _ => Link::Up,
        }
    }

    /// When the link will count as silent unless a message comes; `None` without a connection.
    #[must_use]
    pub fn silent_at_ms(&self) -> Option<u64> {
        let attachment = self.attachment.as_ref()?;
        let Some(hello) = &attachment.hello else { return Some(attachment.since_ms.saturating_add(HELLO_MS_MAX)) };
        Some(silent_at(attachment.frame_at_ms, hello))
    }

    /// Whether a LIVE of the instrument still holds: the server's cuts go on, or its own priority chain does.
    fn vouches(&self, state: &InstrumentState, now_ms: u64) -> bool {
        let Some(attachment) = &self.attachment else { return false };
        let Some(hello) = &attachment.hello else { return false };
        let fresh = |at_ms| now_ms < silent_at(at_ms, hello);
        if !state.feed_told {
            return false;
        }
        fresh(attachment.conflated_at_ms) || state.priority_at_ms.is_some_and(fresh)
    }

    /// The present server's hello.
    #[must_use]
    pub fn hello(&self) -> Option<&Hello> {
        self.attachment.as_ref()?.hello.as_ref()
    }

    fn greeted(&mut self) -> Result<&mut Attachment, SessionError> {
        self.attachment.as_mut().filter(|attachment| attachment.hello.is_some()).ok_or(SessionError::BeforeHello)
    }

    fn greet(&mut self, hello: Hello, now_ms: u64, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        if hello.wire_version != WIRE_VERSION {
            return Err(SessionError::UnsupportedVersion { version: hello.wire_version });
        }
        let attachment = self.attachment.as_mut().ok_or(SessionError::BeforeHello)?;
        if attachment.hello.is_some() {
            return Err(SessionError::SecondHello);
        }
        attachment.frame_at_ms = now_ms;
        attachment.conflated_at_ms = now_ms;
        attachment.hello = Some(hello.clone());
        notices.push(Notice::Hello(hello));
        Ok(())
    }

    fn take_gap(&mut self, gap: &Gap, now_ms: u64, notices: &mut Vec<Notice>) {
        for (channel, id) in &gap.entries {
            let at = self.lookup(*channel, *id);
            let name = match channel {
                Channel::Best => at.and_then(|at| self.pairs.get(at)).map(|pair| Arc::clone(&pair.name)),
                Channel::View => self.standing_name(*id).map(|(name, _)| name),
                _ => at.and_then(|at| self.instruments.get(at)).map(|state| Arc::clone(&state.name)),
            };
            let Some(name) = name else {
                self.unknown(*id, notices);
                continue;
            };
            if let (Some(kind), Some(state)) = (chain_of(*channel), at.and_then(|at| self.instruments.get_mut(at))) {
                state.books.gap(kind, now_ms);
            }
            notices.push(Notice::Gap { channel: *channel, name });
        }
    }

    fn lookup(&self, channel: Channel, id: u32) -> Option<usize> {
        let attachment = self.attachment.as_ref()?;
        let ids = if channel == Channel::Best { &attachment.pairs } else { &attachment.instruments };
        ids.get(&id).copied()
    }

    fn unknown(&mut self, id: u32, notices: &mut Vec<Notice>) {
        self.counters.unknown_ids = self.counters.unknown_ids.saturating_add(1);
        notices.push(Notice::UnknownId { id });
    }

    fn learn(&mut self, dictionary: &Dictionary, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        let expected = self.greeted()?.hello.as_ref().map_or(0, |hello| hello.generation);
        if dictionary.generation != expected {
            return Err(SessionError::OtherGeneration { expected, found: dictionary.generation });
        }
        for entry in &dictionary.pairs {
            let at = self.pair_at(&entry.text())?;
            bind(&mut self.greeted()?.pairs, entry.id, at)?;
        }
        for entry in &dictionary.instruments {
            let at = self.instrument_at(&entry.text(), notices)?;
            bind(&mut self.greeted()?.instruments, entry.id, at)?;
        }
        Ok(())
    }

    fn instrument_at(&mut self, text: &str, notices: &mut Vec<Notice>) -> Result<usize, SessionError> {
        if let Some(at) = self.by_name.get(text) {
            return Ok(*at);
        }
        let at = room(self.instruments.len())?;
        let name: Arc<str> = text.into();
        self.by_name.insert(Arc::clone(&name), at);
        notices.push(Notice::Listed { instrument: Arc::clone(&name) });
        self.instruments.push(InstrumentState {
            name,
            books: BookGuard::default(),
            quote: None,
            quote_kept: false,
            trades: TradeTape::default(),
            feed: Feed::default(),
            feed_told: false,
            heard: None,
            priority_at_ms: None,
        });
        Ok(at)
    }

    fn pair_at(&mut self, text: &str) -> Result<usize, SessionError> {
        if let Some(at) = self.pair_by_name.get(text) {
            return Ok(*at);
        }
        let at = room(self.pairs.len())?;
        let name: Arc<str> = text.into();
        self.pair_by_name.insert(Arc::clone(&name), at);
        self.pairs.push(PairState { name, best: None });
        Ok(at)
    }
}

fn silent_at(heard_at_ms: u64, hello: &Hello) -> u64 {
    let patience = u64::from(hello.heartbeat_ms).max(HEARTBEAT_MS_MIN).saturating_mul(HEARTBEATS_MISSED_MAX);
    heard_at_ms.saturating_add(patience).saturating_add(1)
}

const fn chain_of(channel: Channel) -> Option<ChainKind> {
    match channel {
        Channel::Book => Some(ChainKind::Conflated),
        Channel::Priority => Some(ChainKind::Priority),
        Channel::Quote | Channel::Trades | Channel::Best | Channel::Status | Channel::Digest | Channel::View => None,
    }
}

fn room(length: usize) -> Result<usize, SessionError> {
    let full = u32::try_from(length).map_or(true, |length| length >= INSTRUMENTS_MAX);
    if full { Err(SessionError::TooManyNames) } else { Ok(length) }
}

fn bind(ids: &mut HashMap<u32, usize>, id: u32, at: usize) -> Result<(), SessionError> {
    match ids.insert(id, at) {
        Some(before) if before != at => Err(SessionError::Renamed { id }),
        _ => Ok(()),
    }
}
