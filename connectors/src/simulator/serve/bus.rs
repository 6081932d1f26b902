//! The open connections, and the one way in which messages get to them: past the faults, into a bounded queue.
//!
//! Never: what a message means; that is the venues' business.

use super::{
    binance::Streams,
    faults::{Fate, Faults},
    kraken_spot::Channels,
    outbox::{End, Outbox},
    session::Session,
};
use market::Venue;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// What a connection asked for.
#[derive(Debug)]
pub(super) enum Subscriptions {
    Binance(Streams),
    Kraken(Channels),
    Hall(Session),
}

/// What a message of data is to the book of its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The whole book.
    Snapshot,
    /// A change of it.
    Update,
    /// Nothing: trades, prices, a word that nothing changed.
    Other,
}

/// Messages of one connection that wait for the next one of their symbol and kind, at most; a fault holds one of each.
const HELD_MAX: usize = 256;

impl Subscriptions {
    /// One text per subscription.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Binance(streams) => streams.names().map(str::to_owned).collect(),
            Self::Kraken(channels) => channels.names(),
            Self::Hall(session) => session.all().map(|known| known.name.to_string()).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Binance(streams) => streams.len() == 0,
            Self::Kraken(channels) => channels.is_empty(),
            Self::Hall(session) => session.len() == 0,
        }
    }
}

/// One open connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) venue: Venue,
    /// Its place in the order of opening at its venue, from 1.
    pub(super) number: u64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) subscriptions: Subscriptions,
    pub(super) sent: u64,
    pub(super) pings: u64,
    pub(super) pongs: u64,
    /// The oldest ping that no pong followed yet.
    pub(super) unanswered: Option<Instant>,
    /// Messages that come after the next one of their symbol and kind.
    held: BTreeMap<(Box<str>, Kind), Message>,
}

/// All of them.
pub(super) struct Bus {
    pub(super) faults: Faults,
    pub(super) connections: Vec<Connection>,
    pub(super) opened: BTreeMap<Venue, u64>,
    /// Connections that were closed because they did not read.
    pub(super) slow: u64,
    bytes_max: usize,
    drained: Arc<Notify>,
}

impl Bus {
    pub(super) fn new(bytes_max: usize, drained: Arc<Notify>) -> Self {
        let (faults, connections, opened) = (Faults::default(), Vec::new(), BTreeMap::new());
        Self { faults, connections, opened, slow: 0, bytes_max, drained }
    }

    /// A new connection; gives its number and its queue.
    pub(super) fn open(&mut self, venue: Venue, subscriptions: Subscriptions) -> (u64, Arc<Outbox>) {
        let opened = self.opened.entry(venue).or_default();
        *opened += 1;
        let number = *opened;
        let outbox = Arc::new(Outbox::new(self.bytes_max, Arc::clone(&self.drained)));
        self.connections.push(Connection {
            venue,
            number,
            outbox: Arc::clone(&outbox),
            subscriptions,
            sent: 0,
            pings: 0,
            pongs: 0,
            unanswered: None,
            held: BTreeMap::new(),
        });
        (number, outbox)
    }

    pub(super) fn close(&mut self, venue: Venue, number: u64) {
        self.connections.retain(|connection| connection.venue != venue || connection.number != number);
    }

    pub(super) fn connection(&mut self, venue: Venue, number: u64) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.venue == venue && connection.number == number)
    }

    /// Those of a venue, or one of them.
    pub(super) fn chosen(&self, venue: Venue, number: Option<u64>) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter(move |connection| {
            connection.venue == venue && number.is_none_or(|number| connection.number == number)
        })
    }

    /// Sends data of a symbol to the connection at an index, past the faults of single messages.
    pub(super) fn data(&mut self, index: usize, symbol: &str, kind: Kind, text: Utf8Bytes) {
        let Some(connection) = self.connections.get(index) else { return };
        let (venue, number) = (connection.venue, connection.number);
        if self.faults.silences(venue, number, Some(symbol)) {
            return;
        }
        if self.faults.none() && connection.held.is_empty() {
            return self.push(index, Message::Text(text));
        }
        if connection.outbox.ending().is_some() {
            return;
        }
        let key = (symbol.into(), kind);
        let holds = connection.held.len() >= HELD_MAX || connection.held.contains_key(&key);
        match self.faults.fate(venue, number, symbol, kind, holds) {
            Fate::Passes => self.forward(index, &key, Message::Text(text)),
            Fate::Lost => {}
            Fate::Twice => {
                self.push(index, Message::Text(text.clone()));
                self.forward(index, &key, Message::Text(text));
            }
            Fate::Later => {
                if let Some(connection) = self.connections.get_mut(index) {
                    connection.held.insert(key, Message::Text(text));
                }
            }
            Fate::Garbled(garbage) => self.forward(index, &key, garbage.of(&text)),
            Fate::Ends => connection.outbox.end(End::Reset),
        }
    }

    /// Sends a message, and what waited for it.
    fn forward(&mut self, index: usize, key: &(Box<str>, Kind), message: Message) {
        self.push(index, message);
        let held = self.connections.get_mut(index).and_then(|connection| connection.held.remove(key));
        if let Some(held) = held {
            self.push(index, held);
        }
    }

    /// Sends a reply or a heartbeat.
    pub(super) fn reply(&mut self, venue: Venue, number: u64, text: impl Into<Utf8Bytes>) {
        if !self.faults.silences(venue, number, None) {
            self.answer(venue, number, Message::Text(text.into()));
        }
    }

    /// Sends what even a silenced connection gets: pings, and answers to pings.
    pub(super) fn answer(&mut self, venue: Venue, number: u64, message: Message) {
        let mut connections = self.connections.iter();
        if let Some(index) = connections.position(|connection| connection.venue == venue && connection.number == number)
        {
            self.push(index, message);
        }
    }

    fn push(&mut self, index: usize, message: Message) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let delay = self.faults.delay(connection.venue, connection.number);
        if connection.outbox.push(message, delay) {
            connection.sent += 1;
        } else {
            self.slow += 1;
            tracing::warn!(venue = %connection.venue, number = connection.number, "a connection did not read; closed");
        }
    }

    /// Sends a protocol ping; false when an earlier one is unanswered for longer than `pong_max`.
    pub(super) fn ping(&mut self, venue: Venue, number: u64, payload: String, pong_max: Duration) -> bool {
        let Some(connection) = self.connection(venue, number) else { return true };
        if connection.unanswered.is_some_and(|since| since.elapsed() > pong_max) {
            return false;
        }
        connection.pings += 1;
        connection.unanswered.get_or_insert_with(Instant::now);
        self.answer(venue, number, Message::Ping(payload.into()));
        true
    }

    pub(super) fn pong(&mut self, venue: Venue, number: u64) {
        if let Some(connection) = self.connection(venue, number) {
            connection.pongs += 1;
            connection.unanswered = None;
        }
    }

    /// How many connections have subscribed to something.
    pub(super) fn subscribers(&self) -> usize {
        self.connections.iter().filter(|connection| !connection.subscriptions.is_empty()).count()
    }

    /// True when no connection has more than half of its bound waiting. One that has, and took nothing for `patience`,
    /// is closed.
    pub(super) fn takes_more(&mut self, patience: Duration) -> bool {
        let mut takes = true;
        for connection in self.connections.iter().filter(|connection| connection.outbox.is_filling()) {
            if connection.outbox.stuck() > patience {
                connection.outbox.end(End::Abort);
                self.slow += 1;
            } else {
                takes = false;
            }
        }
        takes
    }
}
