//! Everything that is served, behind one lock: the venues with their books, the connections, and how far the tape is.
//!
//! Never: a wait.

use super::{
    binance::{self, Binance},
    bus::Bus,
    control,
    faults::{Ending, Fault, FaultError, OVERSIZED_BYTES},
    hall::Hall,
    kraken_spot::Kraken,
    outbox::End,
    reference::{Book, Ladder, Snapshot},
};
use crate::{raw::RawFrame, simulator::plain::Happening};
use market::Venue;
use serde::Serialize;
use std::{
    fmt::Write,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The reference book of one instrument, spelled as the venue did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VenueSimBook {
    /// Where it is traded.
    #[serde(serialize_with = "control::venue::serialize")]
    pub venue: Venue,
    /// As the venue spells it.
    pub symbol: String,
    /// Price and quantity, best first.
    pub bids: Vec<(String, String)>,
    /// Price and quantity, best first.
    pub asks: Vec<(String, String)>,
    /// The id of the last change, as served; none where the venue has none.
    pub last_update_id: Option<u64>,
}

/// One open connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VenueSimConnection {
    /// Of this venue.
    #[serde(serialize_with = "control::venue::serialize")]
    pub venue: Venue,
    /// Its place in the order of opening at its venue, from 1.
    pub connection: u64,
    /// Binance: stream names; Kraken: `book:BTC/USD:25`, `trade:BTC/USD`; Deribit: channels; others: `books:BTC-USDT`, as
    /// the venue names its channel.
    pub subscriptions: Vec<String>,
    /// Messages that were queued for it since it opened.
    pub sent: u64,
    /// Bytes that it has not taken yet.
    pub queued_bytes: usize,
    /// Protocol pings sent to it.
    pub pings: u64,
    /// Protocol pongs that came from it.
    pub pongs: u64,
}

/// How far the server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VenueSimState {
    /// Frames of the simulated market or of the captures that were served since the start.
    pub position: u64,
    /// How often the captures began anew.
    pub round: u64,
    /// Enough subscribers came, and frames are served.
    pub started: bool,
    /// Frozen by `pause`.
    pub paused: bool,
    /// The captures are at their end.
    pub ended: bool,
    /// Why the captures ended early, if they did.
    pub failed: Option<String>,
    /// Frames that were passed on although they could not be read.
    pub unread: u64,
    /// Recorded or worded checksums that the reference book confirms.
    pub checksums_confirmed: u64,
    /// Those that it does not.
    pub checksums_differing: u64,
    /// Connections opened since the start.
    pub opened: u64,
    /// Connections that were closed because they did not read.
    pub slow: u64,
    /// Those that are open, in the order of opening.
    pub connections: Vec<VenueSimConnection>,
}

/// Time that stands still while nothing is to be served.
#[derive(Debug, Default)]
pub(super) struct RunClock {
    before: Duration,
    since: Option<Instant>,
}

impl RunClock {
    pub(super) fn elapsed(&self) -> Duration {
        self.before + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    pub(super) fn run(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    fn stand(&mut self) {
        self.before = self.elapsed();
        self.since = None;
    }
}

/// How far the tape is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) position: u64,
    pub(super) round: u64,
    pub(super) started: bool,
    pub(super) paused: bool,
    pub(super) ended: bool,
    pub(super) failed: Option<String>,
    pub(super) clock: RunClock,
}

/// Pings that come by themselves for a while.
pub(super) struct Flood {
    pub(super) id: u64,
    pub(super) venue: Venue,
    pub(super) connection: Option<u64>,
    pub(super) every: Duration,
}

/// The server's whole state.
pub(super) struct World {
    /// Spot and USD-M, where they are served.
    pub(super) binances: Vec<Binance>,
    pub(super) kraken: Option<Kraken>,
    /// The venues that speak a dialect.
    pub(super) halls: Vec<Hall>,
    pub(super) bus: Bus,
    pub(super) progress: Progress,
}

impl World {
    pub(super) fn serves(&self, venue: Venue) -> bool {
        match venue {
            Venue::KrakenSpot => self.kraken.is_some(),
            _ => self.hall(venue).is_some() || self.binance(venue).is_some(),
        }
    }

    fn binance(&self, venue: Venue) -> Option<&Binance> {
        self.binances.iter().find(|binance| binance.venue() == venue)
    }

    /// Binance's spot or USD-M, and the connections.
    pub(super) fn binance_mut(&mut self, venue: Venue) -> Option<(&mut Binance, &mut Bus)> {
        let binance = self.binances.iter_mut().find(|binance| binance.venue() == venue)?;
        Some((binance, &mut self.bus))
    }

    pub(super) fn hall(&self, venue: Venue) -> Option<&Hall> {
        self.halls.iter().find(|hall| hall.venue() == venue)
    }

    /// The hall of a venue, and the connections.
    pub(super) fn hall_mut(&mut self, venue: Venue) -> Option<(&mut Hall, &mut Bus)> {
        let hall = self.halls.iter_mut().find(|hall| hall.venue() == venue)?;
        Some((hall, &mut self.bus))
    }

    /// Looks at a capture's frame before anything is served.
    pub(super) fn scan(&mut self, frame: &RawFrame) {
        for binance in &mut self.binances {
            binance.scan(frame);
        }
        if let Some(kraken) = &mut self.kraken {
            kraken.scan(frame);
        }
        for hall in &mut self.halls {
            hall.scan(frame);
        }
    }

    /// How many instruments are listed.
    pub(super) fn listed(&self) -> usize {
        self.binances.iter().map(|binance| binance.instruments().len()).sum::<usize>()
            + self.kraken.as_ref().map_or(0, |kraken| kraken.instruments().len())
            + self.halls.iter().map(|hall| hall.stock().all().len()).sum::<usize>()
    }

    /// Serves what happened in the simulated market.
    pub(super) fn happened(&mut self, happening: &Happening) {
        self.progress.position += 1;
        if let Some((hall, bus)) = self.hall_mut(happening.venue) {
            hall.happened(happening, bus);
        } else if let Some((binance, bus)) = self.binance_mut(happening.venue) {
            binance.happened(happening, bus);
        }
    }

    /// Tells the subscribers of books that stand still that they do.
    pub(super) fn idle(&mut self, idle: Duration, at_ns: u64) {
        for hall in &mut self.halls {
            hall.idle(idle, at_ns, &mut self.bus);
        }
    }

    /// Serves one frame.
    pub(super) fn frame(&mut self, venue: Venue, frame: &RawFrame) {
        self.progress.position += 1;
        match venue {
            Venue::BinanceSpot | Venue::BinanceUsdm => {
                if let Some((binance, bus)) = self.binance_mut(venue) {
                    binance.frame(frame, bus);
                }
            }
            Venue::KrakenSpot => {
                if let Some(kraken) = &mut self.kraken {
                    kraken.frame(frame, &mut self.bus);
                }
            }
            _ => {
                if let Some((hall, bus)) = self.hall_mut(venue) {
                    hall.frame(frame, bus);
                }
            }
        }
    }

    /// The captures begin anew, as a venue does that restarts: connections close, ids and books start where they did.
    pub(super) fn restart(&mut self) {
        self.binances.iter_mut().for_each(Binance::restart);
        if let Some(kraken) = &mut self.kraken {
            kraken.restart();
        }
        self.halls.iter_mut().for_each(Hall::restart);
        for connection in &self.bus.connections {
            connection.outbox.finish(End::Close(1001, ""));
        }
        // Each goes when its socket has ended; from now on it is no subscriber any more.
        self.bus.connections.clear();
        self.progress.round += 1;
        self.progress.started = false;
        self.progress.clock = RunClock::default();
    }

    pub(super) fn pause(&mut self) {
        self.progress.paused = true;
        self.progress.clock.stand();
    }

    pub(super) fn resume(&mut self) {
        self.progress.paused = false;
        if self.progress.started {
            self.progress.clock.run();
        }
    }

    /// Whether the fault's venue and symbol are served, and have what it falsifies.
    fn can(&self, fault: &Fault) -> Result<(), FaultError> {
        let venue = fault.venue();
        if !self.serves(venue) {
            return Err(FaultError::UnknownVenue(venue));
        }
        let listed = |symbol: &str| match venue {
            Venue::KrakenSpot => self.kraken.as_ref().is_some_and(|at| at.instrument(symbol).is_some()),
            _ => match self.binance(venue) {
                Some(binance) => binance.instrument(symbol).is_some(),
                None => self.hall(venue).is_some_and(|hall| hall.stock().get(symbol).is_some()),
            },
        };
        if fault.symbol().is_some_and(|symbol| !listed(symbol)) {
            return Err(FaultError::UnknownSymbol(venue));
        }
        let dialect = self.hall(venue).map(Hall::dialect);
        let (has, what) = match fault {
            Fault::CorruptChecksum { .. } => {
                (dialect.map_or(venue == Venue::KrakenSpot, |dialect| dialect.checks()), "checksums")
            }
            Fault::ResetIds { .. } => (dialect.map_or(venue != Venue::KrakenSpot, |dialect| dialect.numbers()), "ids"),
            _ => (true, ""),
        };
        if has { Ok(()) } else { Err(FaultError::Unsupported(venue, what)) }
    }

    /// The book of a symbol as it is told now.
    fn snapshot(&self, venue: Venue, symbol: &str) -> Option<Arc<Snapshot>> {
        match venue {
            Venue::BinanceSpot | Venue::BinanceUsdm => {
                self.binance(venue)?.instrument(symbol)?.snapshot().map(Arc::new)
            }
            Venue::KrakenSpot => self.kraken.as_ref()?.instrument(symbol)?.ago(0).map(Arc::new),
            _ => self.hall(venue)?.stock().get(symbol)?.snapshot().map(Arc::new),
        }
    }

    /// Does what a fault does at once; gives how often.
    fn at_once(&mut self, fault: &Fault) -> u64 {
        let mut fired = 0;
        match fault {
            Fault::Disconnect { venue, connection, ending } => {
                let end = match ending {
                    Ending::Normal => End::Close(1000, ""),
                    Ending::GoingAway => End::Close(1001, ""),
                    Ending::Abort => End::Abort,
                    Ending::Reset => End::Reset,
                };
                for connection in self.bus.chosen(*venue, *connection) {
                    connection.outbox.end(end);
                    fired += 1;
                }
            }
            Fault::HalfOpen { venue, connection, for_ms } => {
                for connection in self.bus.chosen(*venue, *connection) {
                    connection.outbox.freeze(Duration::from_millis(*for_ms));
                    fired += 1;
                }
            }
            Fault::Oversized { venue, connection } => {
                let text = Utf8Bytes::from(format!("{{\"pad\":\"{}\"}}", "x".repeat(OVERSIZED_BYTES)));
                for connection in self.bus.chosen(*venue, *connection) {
                    connection.outbox.push_huge(Message::Text(text.clone()));
                    fired += 1;
                }
            }
            Fault::ResetIds { venue, symbol, next_id } => {
                let reset = match self.binance_mut(*venue) {
                    Some((binance, _)) => binance.reset(symbol, *next_id),
                    None => self.hall_mut(*venue).is_some_and(|(hall, _)| hall.reset(symbol, *next_id)),
                };
                fired += u64::from(reset);
            }
            _ => {}
        }
        fired
    }

    /// Sets a fault; a flood of pings is given back, to be sent.
    pub(super) fn set_fault(&mut self, fault: Fault) -> Result<(u64, Option<Flood>), FaultError> {
        self.can(&fault)?;
        self.bus.faults.check(&fault)?;
        let kept = match &fault {
            Fault::StaleSnapshots { venue, symbol, .. } => {
                Some(self.snapshot(*venue, symbol).ok_or(FaultError::NoBook)?)
            }
            _ => None,
        };
        let every = match &fault {
            Fault::PingFlood { venue, connection, every_ms, .. } => {
                Some((*venue, *connection, Duration::from_millis(*every_ms)))
            }
            _ => None,
        };
        let at_once = self.at_once(&fault);
        let id = self.bus.faults.arm(fault, at_once, kept)?;
        Ok((id, every.map(|(venue, connection, every)| Flood { id, venue, connection, every })))
    }

    /// Every reference book that is known.
    pub(super) fn books(&self) -> Vec<VenueSimBook> {
        let spelled = |ladder: &Ladder| -> Vec<(String, String)> {
            ladder.best_first().map(|level| (level.price.to_string(), level.quantity.to_string())).collect()
        };
        let of = |venue, symbol: &str, book: &Book, last_update_id| VenueSimBook {
            venue,
            symbol: symbol.to_owned(),
            bids: spelled(&book.bids),
            asks: spelled(&book.asks),
            last_update_id,
        };
        let mut books = Vec::new();
        for binance in &self.binances {
            for instrument in binance.instruments() {
                if let Some(kept) = instrument.snapshot() {
                    books.push(of(binance.venue(), &instrument.listed.symbol, &kept.book, Some(kept.last)));
                }
            }
        }
        for instrument in self.kraken.iter().flat_map(Kraken::instruments) {
            if let Some(book) = instrument.book() {
                books.push(of(Venue::KrakenSpot, &instrument.listed.symbol, book, None));
            }
        }
        for hall in &self.halls {
            for instrument in hall.stock().all() {
                if let Some(book) = instrument.book() {
                    let id = instrument.told().filter(|_| hall.dialect().numbers());
                    books.push(of(hall.venue(), &instrument.listed.symbol, book, id));
                }
            }
        }
        books
    }

    pub(super) fn state(&self) -> VenueSimState {
        let connection = |open: &super::bus::Connection| VenueSimConnection {
            venue: open.venue,
            connection: open.number,
            subscriptions: open.subscriptions.names(),
            sent: open.sent,
            queued_bytes: open.outbox.bytes(),
            pings: open.pings,
            pongs: open.pongs,
        };
        let own = self.kraken.as_ref().map_or((0, 0), |kraken| kraken.checksums);
        let checksums = self.halls.iter().fold(own, |sum, hall| (sum.0 + hall.checksums.0, sum.1 + hall.checksums.1));
        let unread = self.binances.iter().map(|binance| binance.unread).sum::<u64>()
            + self.kraken.as_ref().map_or(0, |kraken| kraken.unread)
            + self.halls.iter().map(|hall| hall.unread).sum::<u64>();
        VenueSimState {
            position: self.progress.position,
            round: self.progress.round,
            started: self.progress.started,
            paused: self.progress.paused,
            ended: self.progress.ended,
            failed: self.progress.failed.clone(),
            unread,
            checksums_confirmed: checksums.0,
            checksums_differing: checksums.1,
            opened: self.bus.opened.values().sum(),
            slow: self.bus.slow,
            connections: self.bus.connections.iter().map(connection).collect(),
        }
    }

    /// The addresses of the venues that are served, one a line.
    pub(super) fn addresses(&self, address: SocketAddr) -> String {
        let mut binances = String::new();
        for binance in &self.binances {
            let (name, root) = (binance.venue().name(), binance::root(binance.venue()));
            // Writing to a string cannot fail.
            let _written =
                writeln!(binances, "{name:<12}  ws://{address}/{name}/stream  http://{address}/{name}{root}");
        }
        let kraken = self
            .kraken
            .is_some()
            .then(|| format!("kraken_spot   ws://{address}/kraken_spot/v2  http://{address}/kraken_spot/0/public\n"));
        let mut halls = String::new();
        for hall in &self.halls {
            let (name, (sockets, rest)) = (hall.venue().name(), hall.dialect().addresses());
            // Writing to a string cannot fail.
            let _written = write!(halls, "{name:<13}");
            for socket in sockets {
                let _written = write!(halls, " ws://{address}/{name}{socket} ");
            }
            let _written = writeln!(halls, " http://{address}/{name}{rest}");
        }
        let control =
            format!("control       http://{address}/sim/books /sim/state /sim/faults /sim/pause /sim/resume\n");
        [Some(binances), kraken, Some(halls), Some(control)].into_iter().flatten().collect()
    }
}
