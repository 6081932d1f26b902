//! A venue as a server whose protocol is a dialect: its instruments with their books, and who gets what of them.
//!
//! Recorded frames are passed on byte for byte to those who subscribed to their channel; everything else is worded from
//! the kept book.
//!
//! Never: a word of a protocol; an update that the kept book has not seen.

use super::{
    bus::{Bus, Kind, Subscriptions},
    dialect::{Act, Carries, Dialect, Levels, Piece, Said, Told, Trade, View},
    faults::{Stale, UPDATES_AGO_MAX},
    http::{Reply, unix_ns},
    outbox::End,
    reference::{self, Book, Change, PriceKey, Prior, Side, Snapshot},
    session::Session,
};
use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    simulator::{
        SimInstrument,
        plain::{Happening, Line, What},
    },
};
use foldhash::{HashMap, HashMapExt};
use market::Venue;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Trades of one instrument that are remembered: as many as Bitfinex begins with.
const TRADES_MAX: usize = 30;

/// A trade that was told.
#[derive(Debug)]
pub(super) struct Traded {
    pub(super) id: u64,
    /// The taker sold.
    pub(super) sold: bool,
    pub(super) price: Box<str>,
    pub(super) quantity: Box<str>,
    /// Unix time, nanoseconds.
    pub(super) at_ns: u64,
}

/// What one update replaced.
struct Undo {
    /// The id before it, as it was told.
    told: Option<u64>,
    priors: Vec<Prior>,
}

/// One instrument.
pub(super) struct Instrument {
    pub(super) listed: SimInstrument,
    book: Option<Book>,
    /// The last internal id; none in captures without ids.
    id: Option<u64>,
    /// The last id as it was told.
    told: Option<u64>,
    /// Told ids are the internal ones plus this.
    shift: i128,
    /// The next update gets this id.
    reset: Option<u64>,
    undo: VecDeque<Undo>,
    /// The last ones, the latest last.
    trades: VecDeque<Traded>,
    /// When its subscribers were last told something of the book.
    moved: Instant,
}

impl Instrument {
    fn new(listed: SimInstrument) -> Self {
        Self {
            listed,
            book: None,
            id: None,
            told: None,
            shift: 0,
            reset: None,
            undo: VecDeque::new(),
            trades: VecDeque::new(),
            moved: Instant::now(),
        }
    }

    pub(super) const fn book(&self) -> Option<&Book> {
        self.book.as_ref()
    }

    /// Trades, the latest first.
    pub(super) fn trades(&self) -> impl Iterator<Item = &Traded> {
        self.trades.iter().rev()
    }

    fn traded(&mut self, trade: &Trade<'_>, at_ns: u64) {
        if self.trades.len() >= TRADES_MAX {
            self.trades.pop_front();
        }
        let (price, quantity) = (trade.price.into(), trade.quantity.into());
        self.trades.push_back(Traded { id: trade.id, sold: trade.sold, price, quantity, at_ns });
    }

    /// The id of the last update, as it was told.
    pub(super) const fn told(&self) -> Option<u64> {
        self.told
    }

    /// The book as it is told now.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        self.ago(0)
    }

    fn shifted(&self, id: u64) -> u64 {
        u64::try_from(i128::from(id).saturating_add(self.shift)).unwrap_or(0)
    }

    /// The book as it was some updates ago, as far back as is known.
    fn ago(&self, updates: u32) -> Option<Snapshot> {
        let mut book = self.book.clone()?;
        let mut told = self.told;
        for undo in self.undo.iter().rev().take(usize::try_from(updates).unwrap_or(usize::MAX)) {
            for prior in undo.priors.iter().rev() {
                book.undo(prior.clone());
            }
            told = undo.told;
        }
        Some(Snapshot { last: told.unwrap_or(0), book })
    }

    fn replace(&mut self, book: Book, id: Option<u64>) {
        self.book = Some(book);
        self.id = id;
        self.told = id.map(|id| self.shifted(id));
        self.undo.clear();
    }

    /// Applies an update; gives what it replaced, and the id before it as it is to be told. None without a book.
    fn apply(&mut self, changes: &[Change<'_>], id: Option<u64>, chains: bool) -> Option<(Vec<bool>, Option<u64>)> {
        let book = self.book.as_mut()?;
        let priors: Vec<Prior> = changes.iter().map(|change| book.apply(change)).collect();
        let existed = priors.iter().map(|prior| prior.level.is_some()).collect();
        if self.undo.len() >= usize::try_from(UPDATES_AGO_MAX).unwrap_or(usize::MAX) {
            self.undo.pop_front();
        }
        self.undo.push_back(Undo { told: self.told, priors });
        if let (Some(id), Some(reset)) = (id, self.reset) {
            self.shift = i128::from(reset) - i128::from(id);
            self.reset = None;
        }
        let previous = if chains { self.told } else { self.id.map(|id| self.shifted(id)) };
        self.id = id;
        self.told = id.map(|id| self.shifted(id));
        self.moved = Instant::now();
        Some((existed, previous))
    }

    fn restart(&mut self) {
        *self = Self::new(self.listed.clone());
    }
}

/// The instruments of a venue.
pub(super) struct Stock {
    venue: Venue,
    instruments: Vec<Instrument>,
    by_symbol: HashMap<String, usize>,
}

impl Stock {
    fn list(&mut self, listed: SimInstrument) -> Option<&mut Instrument> {
        let next = self.instruments.len();
        let index = *self.by_symbol.entry(listed.symbol.clone()).or_insert(next);
        if index == next {
            self.instruments.push(Instrument::new(listed));
        }
        self.instruments.get_mut(index)
    }

    pub(super) fn all(&self) -> &[Instrument] {
        &self.instruments
    }

    pub(super) fn get(&self, symbol: &str) -> Option<&Instrument> {
        self.instruments.get(*self.by_symbol.get(symbol)?)
    }

    fn get_mut(&mut self, symbol: &str) -> Option<&mut Instrument> {
        self.instruments.get_mut(*self.by_symbol.get(symbol)?)
    }

    /// The book that a new subscription or a request gets: the present one, unless a fault says otherwise.
    pub(super) fn snapshot(&self, symbol: &str, bus: &mut Bus) -> Option<Arc<Snapshot>> {
        let instrument = self.get(symbol)?;
        instrument.book.as_ref()?;
        match bus.faults.stale(self.venue, symbol) {
            Some(Stale::Kept(kept)) => Some(kept),
            Some(Stale::Ago(updates)) => instrument.ago(updates).map(Arc::new),
            None => instrument.snapshot().map(Arc::new),
        }
    }
}

/// One subscription that gets a message.
struct Hearer {
    /// Of the connection.
    index: usize,
    number: u64,
    /// Among the connection's subscriptions to the symbol.
    place: usize,
    channel: Arc<str>,
}

/// A venue.
pub(super) struct Hall {
    dialect: Box<dyn Dialect>,
    stock: Stock,
    /// The last id that was given in the simulated market: one count for all instruments, so that each has gaps.
    counted: u64,
    /// Messages that could not be read.
    pub(super) unread: u64,
    /// Recorded checksums that the kept book confirms, and those that it does not.
    pub(super) checksums: (u64, u64),
}

impl Hall {
    pub(super) fn new(dialect: Box<dyn Dialect>, listed: impl IntoIterator<Item = SimInstrument>) -> Self {
        let venue = dialect.venue();
        let stock = Stock { venue, instruments: Vec::new(), by_symbol: HashMap::new() };
        let mut hall = Self { dialect, stock, counted: 0, unread: 0, checksums: (0, 0) };
        for listed in listed {
            hall.stock.list(listed);
        }
        hall
    }

    pub(super) const fn venue(&self) -> Venue {
        self.stock.venue
    }

    pub(super) const fn stock(&self) -> &Stock {
        &self.stock
    }

    pub(super) fn dialect(&self) -> &dyn Dialect {
        &*self.dialect
    }

    /// The next update of a symbol gets this id; false when it is not listed.
    pub(super) fn reset(&mut self, symbol: &str, next: u64) -> bool {
        self.stock.get_mut(symbol).map(|instrument| instrument.reset = Some(next)).is_some()
    }

    /// A capture begins anew.
    pub(super) fn restart(&mut self) {
        self.stock.instruments.iter_mut().for_each(Instrument::restart);
    }

    /// Looks at a capture's frame before anything is served: symbols and decimals.
    pub(super) fn scan(&mut self, frame: &RawFrame) {
        let (RawKind::Ws, RawPayload::Text(text)) = (frame.kind, &frame.raw) else { return };
        let Ok(Some(piece)) = self.dialect.read(&frame.conn, text) else { return };
        let Some(listed) = self.dialect.list(&piece.symbol) else { return };
        let Some(instrument) = self.stock.list(listed) else { return };
        if let Said::Snapshot(levels) | Said::Update(levels) = &piece.what {
            for change in &levels.changes {
                reference::note(&mut instrument.listed, change.price, change.quantity);
            }
        }
    }

    /// Serves a recorded frame.
    pub(super) fn frame(&mut self, frame: &RawFrame, bus: &mut Bus) {
        let (RawKind::Ws, RawPayload::Text(text)) = (frame.kind, &frame.raw) else { return };
        match self.dialect.read(&frame.conn, text) {
            Ok(None) => {}
            Ok(Some(piece)) => self.piece(&piece, frame.ts_ns, bus),
            Err(_) => self.unread += 1,
        }
    }

    fn piece(&mut self, piece: &Piece<'_>, at_ns: u64, bus: &mut Bus) {
        let Some(index) = self.stock.by_symbol.get(&*piece.symbol).copied() else { return };
        match &piece.what {
            Said::Snapshot(levels) => self.whole(index, levels, piece, at_ns, bus),
            Said::Update(levels) => self.update(index, levels, Some(piece), at_ns, bus),
            Said::Trade(trade) => self.trade(index, trade, Some(piece), at_ns, bus),
            Said::Other => self.pass_on(piece, Kind::Other, bus),
        }
    }

    /// Serves what happened in the simulated market.
    pub(super) fn happened(&mut self, happening: &Happening, bus: &mut Bus) {
        let Some(index) = self.stock.by_symbol.get(&*happening.symbol).copied() else { return };
        match &happening.what {
            What::Book(lines) => {
                // Ids begin at the time in microseconds, so that a later start has greater ones.
                self.counted = self.counted.max(happening.at_ns / 1_000);
                let (id, mut book) = (self.counted, Book::new());
                for change in changes(&spelled(&*self.dialect, lines)) {
                    book.apply(&change);
                }
                if let Some(instrument) = self.stock.instruments.get_mut(index) {
                    instrument.replace(book, Some(id));
                }
            }
            What::Changes(lines) => {
                let spelled = spelled(&*self.dialect, lines);
                let changes = changes(&spelled);
                self.counted += u64::try_from(changes.len()).unwrap_or(1).max(1);
                let levels = Levels { changes, id: Some(self.counted), previous: None, checksum: None };
                self.update(index, &levels, None, happening.at_ns, bus);
            }
            What::Trade { id, sold, price, quantity } => {
                let (price, quantity) = (self.dialect.spell(price), self.dialect.spell(quantity));
                let (price, quantity) = (price.into_owned(), quantity.into_owned());
                let trade = Trade { id: *id, sold: *sold, price: &price, quantity: &quantity };
                self.trade(index, &trade, None, happening.at_ns, bus);
            }
        }
    }

    /// A recorded snapshot: the book is replaced, and everybody is told.
    fn whole(&mut self, index: usize, levels: &Levels<'_>, piece: &Piece<'_>, at_ns: u64, bus: &mut Bus) {
        let Some(instrument) = self.stock.instruments.get_mut(index) else { return };
        let mut book = Book::new();
        for change in &levels.changes {
            book.apply(change);
        }
        confirm(&*self.dialect, &mut self.checksums, &book, levels.checksum);
        instrument.replace(book, levels.id);
        let instrument = &*instrument;
        let Some(view) = view(instrument, None, at_ns) else { return };
        let hearers = hearers(&*self.dialect, bus, &piece.symbol, Carries::Book, true);
        for hearer in hearers {
            let passed = self.dialect.pass(&piece.channel, &hearer.channel, piece.text);
            let mut payloads = match passed {
                Some(passed) => vec![renumbered(&*self.dialect, instrument, passed, None)],
                None => self.dialect.snapshot(&hearer.channel, &view),
            };
            payloads.extend(self.dialect.trailer(&hearer.channel, &view));
            for payload in payloads {
                deliver(&*self.dialect, bus, &hearer, &piece.symbol, &payload, Kind::Snapshot);
            }
        }
    }

    fn update(&mut self, index: usize, levels: &Levels<'_>, piece: Option<&Piece<'_>>, at_ns: u64, bus: &mut Bus) {
        let chains = self.dialect.chains_over_reset();
        let Some(instrument) = self.stock.instruments.get_mut(index) else { return };
        if levels.previous.is_some() && instrument.id.is_some() && levels.previous != instrument.id {
            // A hole in the capture: the book is unknown until its next snapshot.
            instrument.book = None;
        }
        let Some((existed, previous)) = instrument.apply(&levels.changes, levels.id, chains) else {
            // Who was told a book before sees the hole too.
            return piece.into_iter().for_each(|piece| self.pass_on(piece, Kind::Update, bus));
        };
        let Some(instrument) = self.stock.instruments.get(index) else { return };
        let Some(view) = view(instrument, previous, at_ns) else { return };
        confirm(&*self.dialect, &mut self.checksums, view.book, levels.checksum);
        let symbol = instrument.listed.symbol.as_str();
        let hearers = hearers(&*self.dialect, bus, symbol, Carries::Book, false);
        if hearers.is_empty() {
            return;
        }
        let told: Vec<Told<'_>> =
            levels.changes.iter().zip(existed).map(|(change, existed)| Told::of(change, existed)).collect();
        let mut worded: Vec<(Arc<str>, Vec<Utf8Bytes>)> = Vec::new();
        for hearer in &hearers {
            if worded.iter().any(|(channel, _)| *channel == hearer.channel) {
                continue;
            }
            let passed = piece.and_then(|piece| self.dialect.pass(&piece.channel, &hearer.channel, piece.text));
            let mut payloads = match passed {
                Some(passed) => vec![renumbered(&*self.dialect, instrument, passed, previous)],
                None => self.dialect.update(&hearer.channel, &view, &told),
            };
            if !payloads.is_empty() {
                payloads.extend(self.dialect.trailer(&hearer.channel, &view));
            }
            worded.push((Arc::clone(&hearer.channel), payloads));
        }
        self.send(symbol, &hearers, &worded, bus);
    }

    /// Sends an update to those who hear it, past the faults of book updates.
    fn send(&self, symbol: &str, hearers: &[Hearer], worded: &[(Arc<str>, Vec<Utf8Bytes>)], bus: &mut Bus) {
        if worded.iter().all(|(_, payloads)| payloads.is_empty()) {
            // It happened beyond what anybody sees.
            return;
        }
        let venue = self.stock.venue;
        let dropped = bus.faults.drops_depth(venue, symbol, None);
        let falsified: Vec<(&Arc<str>, Vec<Option<Utf8Bytes>>)> = match bus.faults.may_corrupt(venue, symbol) {
            true => worded
                .iter()
                .map(|(channel, payloads)| {
                    let falsify = |payload: &Utf8Bytes| self.dialect.corrupt(payload).map(Utf8Bytes::from);
                    (channel, payloads.iter().map(falsify).collect())
                })
                .collect(),
            false => Vec::new(),
        };
        let can = falsified.iter().any(|(_, payloads)| payloads.iter().any(Option::is_some));
        let all = can && bus.faults.corrupts(venue, symbol, None);
        for hearer in hearers {
            let told = worded.iter().find(|(channel, payloads)| *channel == hearer.channel && !payloads.is_empty());
            let Some((_, payloads)) = told else { continue };
            let false_ones =
                falsified.iter().find(|(channel, _)| **channel == hearer.channel).filter(|(_, payloads)| {
                    payloads.iter().any(Option::is_some)
                        && (all || bus.faults.corrupts(venue, symbol, Some(hearer.number)))
                });
            let dropped = dropped || bus.faults.drops_depth(venue, symbol, Some(hearer.number));
            for (place, payload) in payloads.iter().enumerate() {
                let falsified = false_ones.and_then(|(_, payloads)| payloads.get(place)?.as_ref());
                let payload = falsified.unwrap_or(payload);
                if dropped {
                    // Its numbers are used up all the same.
                    let _lost = addressed(&*self.dialect, bus, hearer, symbol, payload);
                } else {
                    deliver(&*self.dialect, bus, hearer, symbol, payload, Kind::Update);
                }
            }
        }
    }

    fn trade(&mut self, index: usize, trade: &Trade<'_>, piece: Option<&Piece<'_>>, at_ns: u64, bus: &mut Bus) {
        let Some(instrument) = self.stock.instruments.get_mut(index) else { return };
        instrument.traded(trade, at_ns);
        let symbol = instrument.listed.symbol.as_str();
        let nothing = Book::new();
        let view = View {
            listed: &instrument.listed,
            book: instrument.book.as_ref().unwrap_or(&nothing),
            id: instrument.told,
            previous: None,
            at_ns,
        };
        for hearer in hearers(&*self.dialect, bus, symbol, Carries::Trades, false) {
            let passed = piece.and_then(|piece| self.dialect.pass(&piece.channel, &hearer.channel, piece.text));
            let payloads =
                passed.map_or_else(|| self.dialect.trade(&hearer.channel, &view, trade), |passed| vec![passed]);
            for payload in payloads {
                deliver(&*self.dialect, bus, &hearer, symbol, &payload, Kind::Other);
            }
        }
    }

    /// What is only passed on.
    fn pass_on(&self, piece: &Piece<'_>, kind: Kind, bus: &mut Bus) {
        let carries = self.dialect.carries(&piece.channel);
        for hearer in hearers(&*self.dialect, bus, &piece.symbol, carries, false) {
            if let Some(passed) = self.dialect.pass(&piece.channel, &hearer.channel, piece.text) {
                deliver(&*self.dialect, bus, &hearer, &piece.symbol, &passed, kind);
            }
        }
    }

    /// Tells the subscribers of books that stand still that they do.
    pub(super) fn idle(&mut self, idle: Duration, at_ns: u64, bus: &mut Bus) {
        for instrument in &mut self.stock.instruments {
            if instrument.moved.elapsed() < idle {
                continue;
            }
            instrument.moved = Instant::now();
            let Some(view) = view(instrument, instrument.told, at_ns) else { continue };
            let symbol = instrument.listed.symbol.as_str();
            for hearer in hearers(&*self.dialect, bus, symbol, Carries::Book, false) {
                if let Some(payload) = self.dialect.keepalive(&hearer.channel, &view) {
                    deliver(&*self.dialect, bus, &hearer, symbol, &payload, Kind::Other);
                }
            }
        }
    }

    /// The first messages of a connection.
    pub(super) fn greet(&self, bus: &mut Bus, number: u64) {
        self.act(bus, number, self.dialect.greet(number));
    }

    /// A text message.
    pub(super) fn receive(&mut self, bus: &mut Bus, number: u64, text: &str) {
        let Some(session) = session(bus, self.stock.venue, number) else { return };
        let acts = self.dialect.receive(session, &self.stock, text);
        self.act(bus, number, acts);
    }

    /// A beat of a connection.
    pub(super) fn beat(&mut self, bus: &mut Bus, number: u64) {
        let Some(session) = session(bus, self.stock.venue, number) else { return };
        let acts = self.dialect.beat(session, &self.stock);
        self.act(bus, number, acts);
    }

    fn act(&self, bus: &mut Bus, number: u64, acts: Vec<Act>) {
        let venue = self.stock.venue;
        for act in acts {
            match act {
                Act::Say(reply) => {
                    let Some(session) = session(bus, venue, number) else { return };
                    let text = self.dialect.stamp(&mut session.marks, reply);
                    bus.reply(venue, number, text);
                }
                Act::Pong(reply) => {
                    let Some(session) = session(bus, venue, number) else { return };
                    let text = self.dialect.stamp(&mut session.marks, reply);
                    bus.answer(venue, number, Message::Text(text));
                }
                Act::Show(name) => self.show(bus, number, &name),
                Act::End(code, reason) => {
                    if let Some(connection) = bus.connection(venue, number) {
                        connection.outbox.end(End::Close(code, reason));
                    }
                }
            }
        }
    }

    /// Sends the snapshot of a subscription, or owes it until there is a book.
    fn show(&self, bus: &mut Bus, number: u64, name: &str) {
        let venue = self.stock.venue;
        let connections = &bus.connections;
        let Some(index) = connections.iter().position(|known| known.venue == venue && known.number == number) else {
            return;
        };
        let Some(session) = session(bus, venue, number) else { return };
        let Some(symbol) = session.all().find(|known| *known.name == *name).map(|known| Arc::clone(&known.symbol))
        else {
            return;
        };
        let snapshot = self.stock.snapshot(&symbol, bus);
        let Some(session) = session_at(bus, index) else { return };
        let (_, subscriptions) = session.of_mut(&symbol);
        let Some(place) = subscriptions.iter().position(|known| *known.name == *name) else { return };
        let Some(subscription) = subscriptions.get_mut(place) else { return };
        subscription.waiting = snapshot.is_none();
        let channel = Arc::clone(&subscription.channel);
        let (Some(snapshot), Some(instrument)) = (snapshot, self.stock.get(&symbol)) else { return };
        let view = View {
            listed: &instrument.listed,
            book: &snapshot.book,
            id: instrument.told.map(|_| snapshot.last),
            previous: None,
            at_ns: unix_ns(),
        };
        let hearer = Hearer { index, number, place, channel };
        let mut payloads = self.dialect.snapshot(&hearer.channel, &view);
        payloads.extend(self.dialect.trailer(&hearer.channel, &view));
        for payload in payloads {
            deliver(&*self.dialect, bus, &hearer, &symbol, &payload, Kind::Snapshot);
        }
    }

    /// Answers a REST request to a path below the venue's.
    pub(super) fn get(&mut self, path: &str, query: &str, bus: &mut Bus) -> Reply {
        if let Some((status, retry_after_s)) = bus.faults.fails_rest(self.stock.venue) {
            let reply = self.dialect.failed(status);
            return match retry_after_s {
                Some(seconds) => reply.with("retry-after", seconds.to_string()),
                None => reply,
            };
        }
        self.dialect.rest(path, query, &self.stock, bus)
    }
}

fn session(bus: &mut Bus, venue: Venue, number: u64) -> Option<&mut Session> {
    match &mut bus.connection(venue, number)?.subscriptions {
        Subscriptions::Hall(session) => Some(session),
        _ => None,
    }
}

fn session_at(bus: &mut Bus, index: usize) -> Option<&mut Session> {
    match &mut bus.connections.get_mut(index)?.subscriptions {
        Subscriptions::Hall(session) => Some(session),
        _ => None,
    }
}

/// The subscriptions of a symbol to one kind of channel; a snapshot ends the waiting for it.
fn hearers(dialect: &dyn Dialect, bus: &mut Bus, symbol: &str, carries: Carries, snapshot: bool) -> Vec<Hearer> {
    let venue = dialect.venue();
    let mut found = Vec::new();
    for (index, connection) in bus.connections.iter_mut().enumerate().filter(|(_, known)| known.venue == venue) {
        let Subscriptions::Hall(session) = &mut connection.subscriptions else { continue };
        for (place, subscription) in session.of_mut(symbol).1.iter_mut().enumerate() {
            if dialect.carries(&subscription.channel) != carries {
                continue;
            }
            subscription.waiting &= !snapshot;
            if !subscription.waiting {
                let channel = Arc::clone(&subscription.channel);
                found.push(Hearer { index, number: connection.number, place, channel });
            }
        }
    }
    found
}

/// A payload as one subscription gets it.
fn addressed(
    dialect: &dyn Dialect,
    bus: &mut Bus,
    to: &Hearer,
    symbol: &str,
    payload: &Utf8Bytes,
) -> Option<Utf8Bytes> {
    let (marks, subscriptions) = session_at(bus, to.index)?.of_mut(symbol);
    dialect.address(marks, subscriptions.get(to.place)?, payload)
}

fn deliver(dialect: &dyn Dialect, bus: &mut Bus, to: &Hearer, symbol: &str, payload: &Utf8Bytes, kind: Kind) {
    if let Some(text) = addressed(dialect, bus, to, symbol, payload) {
        bus.data(to.index, symbol, kind, text);
    }
}

/// The book of an instrument after an update.
fn view(instrument: &Instrument, previous: Option<u64>, at_ns: u64) -> Option<View<'_>> {
    Some(View { listed: &instrument.listed, book: instrument.book.as_ref()?, id: instrument.told, previous, at_ns })
}

/// A recorded text, with other ids after they were reset.
fn renumbered(dialect: &dyn Dialect, instrument: &Instrument, text: Utf8Bytes, previous: Option<u64>) -> Utf8Bytes {
    match instrument.told {
        Some(told) if instrument.shift != 0 => dialect.renumber(&text, told, previous).into(),
        _ => text,
    }
}

/// Compares a recorded checksum with the kept book.
fn confirm(dialect: &dyn Dialect, checksums: &mut (u64, u64), book: &Book, recorded: Option<i64>) {
    match recorded.zip(dialect.checksum(book)) {
        Some((recorded, own)) if recorded == own => checksums.0 += 1,
        Some(_) => checksums.1 += 1,
        None => {}
    }
}

/// The lines of the simulated market as the venue spells them.
fn spelled(dialect: &dyn Dialect, lines: &[Line]) -> Vec<Line> {
    let spell = |line: &Line| Line {
        bid: line.bid,
        price: dialect.spell(&line.price).into_owned(),
        quantity: dialect.spell(&line.quantity).into_owned(),
    };
    lines.iter().map(spell).collect()
}

/// The lines of the simulated market as changes of a book.
fn changes(lines: &[Line]) -> Vec<Change<'_>> {
    let mut all = Vec::with_capacity(lines.len());
    for line in lines {
        let side = if line.bid { Side::Bid } else { Side::Ask };
        if let Some(key) = PriceKey::read(&line.price) {
            all.push(Change { side, key, price: &line.price, quantity: &line.quantity });
        }
    }
    all
}

#[cfg(test)]
mod tests;
