//! Everything that is served, behind one lock: the venues with their books, the connections, and how far the tape is.
//!
//! Never: a wait.

use super::{
    binance_spot::Binance,
    bus::Bus,
    control,
    faults::{Ending, Fault, FaultError},
    kraken_spot::Kraken,
    outbox::End,
    reference::{Book, Ladder},
};
use crate::raw::RawFrame;
use market::Venue;
use serde::Serialize;
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

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
    /// The id of the last change, as served (Binance); none where the venue has none.
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
    /// Binance: stream names; Kraken: `book:BTC/USD:25`, `trade:BTC/USD`.
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
    /// Served Kraken checksums that the reference book confirms.
    pub checksums_confirmed: u64,
    /// Served Kraken checksums that it does not.
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
    pub(super) binance: Option<Binance>,
    pub(super) kraken: Option<Kraken>,
    pub(super) bus: Bus,
    pub(super) progress: Progress,
}

impl World {
    pub(super) const fn serves(&self, venue: Venue) -> bool {
        match venue {
            Venue::BinanceSpot => self.binance.is_some(),
            Venue::KrakenSpot => self.kraken.is_some(),
            _ => false,
        }
    }

    /// Serves one frame.
    pub(super) fn frame(&mut self, venue: Venue, frame: &RawFrame) {
        self.progress.position += 1;
        match venue {
            Venue::BinanceSpot => {
                if let Some(binance) = &mut self.binance {
                    binance.frame(frame, &mut self.bus);
                }
            }
            Venue::KrakenSpot => {
                if let Some(kraken) = &mut self.kraken {
                    kraken.frame(frame, &mut self.bus);
                }
            }
            _ => {}
        }
    }

    /// The captures begin anew, as a venue does that restarts: connections close, ids and books start where they did.
    pub(super) fn restart(&mut self) {
        if let Some(binance) = &mut self.binance {
            binance.restart();
        }
        if let Some(kraken) = &mut self.kraken {
            kraken.restart();
        }
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

    /// Sets a fault; a flood of pings is given back, to be sent.
    pub(super) fn set_fault(&mut self, fault: Fault) -> Result<(u64, Option<Flood>), FaultError> {
        let venue = fault.venue();
        if !self.serves(venue) {
            return Err(FaultError::UnknownVenue(venue));
        }
        if let Some(symbol) = fault.symbol() {
            let listed = match venue {
                Venue::BinanceSpot => self.binance.as_ref().is_some_and(|at| at.instrument(symbol).is_some()),
                Venue::KrakenSpot => self.kraken.as_ref().is_some_and(|at| at.instrument(symbol).is_some()),
                _ => false,
            };
            if !listed {
                return Err(FaultError::UnknownSymbol(venue));
            }
        }
        self.bus.faults.check(&fault)?;
        let (mut at_once, mut kept, mut every) = (0, None, None);
        match &fault {
            Fault::Disconnect { venue, connection, ending } => {
                let end = match ending {
                    Ending::Normal => End::Close(1000, ""),
                    Ending::GoingAway => End::Close(1001, ""),
                    Ending::Abort => End::Abort,
                };
                for connection in self.bus.chosen(*venue, *connection) {
                    connection.outbox.end(end);
                    at_once += 1;
                }
            }
            Fault::ResetIds { symbol, next_id } => {
                if let Some(binance) = &mut self.binance {
                    at_once = u64::from(binance.reset(symbol, *next_id));
                }
            }
            Fault::StaleSnapshots { symbol, .. } => {
                let book = self.binance.as_ref().and_then(|binance| binance.instrument(symbol)?.snapshot());
                kept = Some(book.ok_or(FaultError::NoBook)?.into());
            }
            Fault::PingFlood { venue, connection, every_ms, .. } => {
                every = Some((*venue, *connection, Duration::from_millis(*every_ms)));
            }
            _ => {}
        }
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
        for instrument in self.binance.iter().flat_map(Binance::instruments) {
            if let Some(kept) = instrument.snapshot() {
                books.push(of(Venue::BinanceSpot, &instrument.listed.symbol, &kept.book, Some(kept.last)));
            }
        }
        for instrument in self.kraken.iter().flat_map(Kraken::instruments) {
            if let Some(book) = instrument.book() {
                books.push(of(Venue::KrakenSpot, &instrument.listed.symbol, book, None));
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
        let checksums = self.kraken.as_ref().map_or((0, 0), |kraken| kraken.checksums);
        let unread = self.binance.as_ref().map_or(0, |binance| binance.unread)
            + self.kraken.as_ref().map_or(0, |kraken| kraken.unread);
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
        let binance = self.binance.is_some().then(|| {
            format!("binance_spot  ws://{address}/binance_spot/stream  http://{address}/binance_spot/api/v3\n")
        });
        let kraken = self
            .kraken
            .is_some()
            .then(|| format!("kraken_spot   ws://{address}/kraken_spot/v2  http://{address}/kraken_spot/0/public\n"));
        let control =
            format!("control       http://{address}/sim/books /sim/state /sim/faults /sim/pause /sim/resume\n");
        [binance, kraken, Some(control)].into_iter().flatten().collect()
    }
}
