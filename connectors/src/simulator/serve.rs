//! The venue simulator as a server: the simulated market, or captures of one of its venues, over real WebSocket and HTTP
//! in the venues' own protocols, with faults on demand.
//!
//! Paths, all on one address: `/binance_spot/stream`, `/binance_spot/ws`, `/binance_spot/api/v3/…`, the same below
//! `/binance_usdm` with `/fapi/v1/…`, `/kraken_spot/v2`, `/kraken_spot/0/public/…`, those of the dialects below their venues' names; `/sim/books`, `/sim/state`, `/sim/faults`, `/sim/pause`, `/sim/resume` for tests.
//!
//! What differs from the venues: depth messages come per event and not every 100 ms; connections are not ended after a
//! day; connects are not limited. When captures repeat, the venue restarts: connections are closed with 1001, books and
//! ids begin where they did before (Binance's therefore go back, as after a reset).
//!
//! Never: the venues' decoders or books; an address beyond loopback that was not asked for.

mod binance;
mod bitfinex;
mod bitfinex_rows;
mod bus;
mod coinbase;
mod coinbase_advanced;
mod control;
mod deribit;
mod dialect;
mod faults;
mod hall;
mod http;
mod kraken_spot;
mod okx;
mod outbox;
mod reference;
mod session;
mod socket;
mod tape;
mod world;

use super::{Simulator, SimulatorConfig};
use crate::capture::CaptureError;
use binance::Binance;
use bus::Bus;
pub use faults::{Ending, Fault, FaultError, FaultReport, FaultsReport, GarbageKind, Rates, UPDATES_AGO_MAX};
use hall::Hall;
use kraken_spot::{DEPTH_MAX, Kraken};
use market::Venue;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
};
use tokio_tungstenite::tungstenite::Message;
use world::{Flood, Progress, World};
pub use world::{VenueSimBook, VenueSimConnection, VenueSimState};

/// What waits for one connection, unless asked otherwise: a second of a very busy feed.
const CONNECTION_BYTES: usize = 8 << 20;
/// Request weight per minute and address, as Binance allows it.
const REQUEST_WEIGHT: u32 = 6_000;
/// Captures are not served slower than this.
const SPEED_MIN: f64 = 1e-3;
/// Captures are not served faster than this; 0 has no pace at all.
const SPEED_MAX: f64 = 1e6;

/// What is served.
#[derive(Clone, Debug, PartialEq)]
pub enum VenueSimSource {
    /// The market simulator, from its `start_ns` on by the clock. Its Kraken books are simulated whole, whatever its
    /// `kraken_depth`.
    Market(SimulatorConfig),
    /// Captures of one venue, merged by receive time.
    Captures {
        /// The files.
        files: Vec<PathBuf>,
        /// The venue that they are of.
        venue: Venue,
        /// Only the frames of these connections, by the captures' own ids; none means all. REST replies always count.
        legs: Vec<String>,
        /// Times the recorded pace, 0.001 to 1,000,000; 0 for as fast as the connections take it.
        speed: f64,
        /// Begin anew at the end, as a venue does that restarts.
        repeat: bool,
    },
}

/// How to serve it.
#[derive(Clone, Debug, PartialEq)]
pub struct VenueSimOptions {
    /// Where to listen; port 0 for any free one.
    pub address: SocketAddr,
    /// An address that is not loopback is meant.
    pub beyond_loopback: bool,
    /// What is served.
    pub source: VenueSimSource,
    /// Nothing is served before so many connections have subscribed to something.
    pub wait_for_subscribers: usize,
    /// Binance sends each connection a ping this often.
    pub ping_interval: Duration,
    /// Binance closes a connection that leaves a ping unanswered for longer, seen at the next ping.
    pub pong_max: Duration,
    /// Kraken sends each connection with a subscription a heartbeat this often; other venues' heartbeats are multiples.
    pub heartbeat_interval: Duration,
    /// OKX tells a book's subscribers that it stands still when it has for this long (in the simulated market).
    pub idle_interval: Duration,
    /// Bytes that may wait for one connection; one that passes it is closed.
    pub connection_bytes: usize,
    /// At speed 0: a connection that takes nothing for this long while half of its bound waits is closed.
    pub patience: Duration,
    /// Binance's request weight per minute; at USD-M it is at most 2,400.
    pub request_weight: u32,
}

impl VenueSimOptions {
    /// A server of this source on a free port of loopback, with the venues' own intervals and bounds.
    #[must_use]
    pub const fn new(source: VenueSimSource) -> Self {
        Self {
            address: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            beyond_loopback: false,
            source,
            wait_for_subscribers: 0,
            ping_interval: Duration::from_secs(20),
            pong_max: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(1),
            idle_interval: Duration::from_secs(60),
            connection_bytes: CONNECTION_BYTES,
            patience: Duration::from_secs(5),
            request_weight: REQUEST_WEIGHT,
        }
    }
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum VenueSimError {
    /// The address is not loopback, and that was not asked for.
    #[error("{0} is not loopback; whoever reaches it could set faults")]
    BeyondLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The protocol of a venue is not spoken here.
    #[error("the venue simulator does not speak the protocol of {0}")]
    NotSpoken(Venue),
    /// No venue or no pair, or captures in which the venue lists nothing.
    #[error("there is nothing to serve")]
    Nothing,
    /// The pace is no number in its range.
    #[error("the speed is 0, or {SPEED_MIN} to {SPEED_MAX}")]
    Speed,
    /// An interval is zero.
    #[error("an interval is zero")]
    Interval,
    /// The capture's reader broke.
    #[error("the captures could not be looked through")]
    Scan(#[source] tokio::task::JoinError),
}

/// How often venues send what they send by themselves.
struct Beats {
    ping: Duration,
    pong_max: Duration,
    heartbeat: Duration,
}

/// What all tasks share.
struct Shared {
    address: SocketAddr,
    world: Mutex<World>,
    /// A subscription, or the end of a pause.
    changed: Notify,
    /// A connection took something.
    drained: Arc<Notify>,
    stop: watch::Sender<bool>,
    beats: Beats,
    idle: Duration,
    patience: Duration,
    wait_for_subscribers: usize,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self) {
        self.world().pause();
    }

    fn resume(&self) {
        self.world().resume();
        self.changed.notify_one();
    }

    /// Sets a fault. Must run inside a tokio runtime, for floods of pings.
    fn set_fault(self: &Arc<Self>, fault: Fault) -> Result<u64, FaultError> {
        let (id, flood) = self.world().set_fault(fault)?;
        if let Some(flood) = flood {
            tokio::spawn(flood_pings(flood, Arc::clone(self)));
        }
        Ok(id)
    }
}

/// Sends pings until the fault is over or the server stops.
async fn flood_pings(flood: Flood, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    let mut beat = tokio::time::interval(flood.every);
    loop {
        tokio::select! {
            _ = beat.tick() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let mut world = shared.world();
        let chosen: Vec<u64> = world.bus.chosen(flood.venue, flood.connection).map(|at| at.number).collect();
        let pings = u64::try_from(chosen.len()).unwrap_or(u64::MAX);
        if world.bus.faults.floods(flood.id, pings).is_none() {
            return;
        }
        for number in chosen {
            if let Some(connection) = world.bus.connection(flood.venue, number) {
                connection.pings += 1;
            }
            world.bus.answer(flood.venue, number, Message::Ping(http::unix_ms().to_string().into()));
        }
    }
}

/// A running server; it ends when this is dropped.
pub struct VenueSim {
    shared: Arc<Shared>,
    ended: mpsc::Receiver<()>,
}

impl VenueSim {
    /// Reads what is needed, listens and serves.
    ///
    /// # Errors
    /// [`VenueSimError`].
    pub async fn start(options: VenueSimOptions) -> Result<Self, VenueSimError> {
        let requested = options.address;
        if !requested.ip().is_loopback() && !options.beyond_loopback {
            return Err(VenueSimError::BeyondLoopback(requested));
        }
        if [options.ping_interval, options.heartbeat_interval, options.idle_interval].contains(&Duration::ZERO) {
            return Err(VenueSimError::Interval);
        }
        let venues = match &options.source {
            VenueSimSource::Market(config) => config.venues.as_slice(),
            VenueSimSource::Captures { venue, .. } => std::slice::from_ref(venue),
        };
        let speaks = |venue: &Venue| {
            super::SIMULATED.contains(venue) || binance::VENUES.contains(venue) || dialect::SPOKEN.contains(venue)
        };
        if let Some(venue) = venues.iter().find(|venue| !speaks(venue)) {
            return Err(VenueSimError::NotSpoken(*venue));
        }
        let drained = Arc::new(Notify::new());
        let bus = Bus::new(options.connection_bytes, Arc::clone(&drained));
        let weight = options.request_weight;
        let (source, world) = match options.source {
            VenueSimSource::Market(config) => market(config, weight, bus)?,
            VenueSimSource::Captures { files, venue, legs, speed, repeat } => {
                if speed != 0.0 && !(SPEED_MIN..=SPEED_MAX).contains(&speed) {
                    return Err(VenueSimError::Speed);
                }
                let captures = tape::Captures { files, venue, legs, speed, repeat };
                let looked = tokio::task::spawn_blocking(move || look_through(captures, weight, bus)).await;
                looked.map_err(VenueSimError::Scan)??
            }
        };
        let listen = |source| VenueSimError::Listen { address: requested, source };
        let listener = TcpListener::bind(requested).await.map_err(listen)?;
        let shared = Arc::new(Shared {
            address: listener.local_addr().map_err(listen)?,
            world: Mutex::new(world),
            changed: Notify::new(),
            drained,
            stop: watch::Sender::new(false),
            beats: Beats {
                ping: options.ping_interval,
                pong_max: options.pong_max,
                heartbeat: options.heartbeat_interval,
            },
            idle: options.idle_interval,
            patience: options.patience,
            wait_for_subscribers: options.wait_for_subscribers,
        });
        let (alive, ended) = mpsc::channel(1);
        tokio::spawn(tape::run(source, Arc::clone(&shared)));
        tokio::spawn(http::accept(listener, Arc::clone(&shared), alive));
        Ok(Self { shared, ended })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The venues' addresses, one a line, for people.
    #[must_use]
    pub fn addresses(&self) -> String {
        self.shared.world().addresses(self.shared.address)
    }

    /// Sets a fault; gives its number. Must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// [`FaultError`].
    pub fn set_fault(&self, fault: Fault) -> Result<u64, FaultError> {
        self.shared.set_fault(fault)
    }

    /// Ends every fault; what they did stays counted.
    pub fn clear_faults(&self) {
        self.shared.world().bus.faults.clear();
    }

    /// What became of the faults.
    #[must_use]
    pub fn faults(&self) -> FaultsReport {
        self.shared.world().bus.faults.report()
    }

    /// Every reference book at the served position.
    #[must_use]
    pub fn books(&self) -> Vec<VenueSimBook> {
        self.shared.world().books()
    }

    /// How far it is, and who is connected.
    #[must_use]
    pub fn state(&self) -> VenueSimState {
        self.shared.world().state()
    }

    /// Serves nothing new any more; connections stay alive. No frame is served after this returns.
    pub fn pause(&self) {
        self.shared.pause();
    }

    /// Goes on where it stood.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// Closes every connection with 1001, and waits until all have ended.
    pub async fn stop(mut self) {
        self.shared.stop.send_replace(true);
        while self.ended.recv().await.is_some() {}
    }
}

impl Drop for VenueSim {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
    }
}

/// A server for each of the venues that are served.
fn served<T>(venues: &[Venue], serves: impl Fn(Venue) -> bool, server: impl Fn(Venue) -> T) -> Vec<T> {
    venues.iter().copied().filter(|venue| serves(*venue)).map(server).collect()
}

/// The simulated market with its first books.
fn market(config: SimulatorConfig, weight: u32, bus: Bus) -> Result<(tape::Source, World), VenueSimError> {
    let depth = u32::try_from(DEPTH_MAX).unwrap_or(u32::MAX);
    let venues = config.venues.clone();
    let spoken: Vec<Venue> = dialect::SPOKEN.into_iter().filter(|venue| venues.contains(venue)).collect();
    let usdm = venues.contains(&Venue::BinanceUsdm).then_some(Venue::BinanceUsdm);
    let plain: Vec<Venue> = spoken.iter().copied().chain(usdm).collect();
    let mut simulator = Simulator::with_plain(SimulatorConfig { kraken_depth: depth, ..config }, &plain);
    let listed = simulator.instruments();
    if listed.is_empty() {
        return Err(VenueSimError::Nothing);
    }
    let of = |venue| listed.iter().filter(move |listed| listed.venue == venue).cloned();
    let serves = |venue| venues.contains(&venue);
    let mut world = World {
        binances: served(&binance::VENUES, serves, |venue| Binance::new(venue, of(venue), weight)),
        kraken: serves(Venue::KrakenSpot).then(|| Kraken::new(of(Venue::KrakenSpot))),
        halls: spoken.iter().filter_map(|venue| Some(Hall::new(dialect::of(*venue)?, of(*venue)))).collect(),
        bus,
        progress: Progress::default(),
    };
    let mut frames = Vec::new();
    simulator.opening(&mut frames);
    for (venue, frame) in &frames {
        world.frame(*venue, frame);
    }
    let mut happened = Vec::new();
    simulator.plain_opening(&mut happened);
    for happening in &happened {
        world.happened(happening);
    }
    world.progress.position = 0;
    Ok((tape::Source::Market(Box::new(simulator)), world))
}

/// The captures with what their venue lists.
fn look_through(captures: tape::Captures, weight: u32, bus: Bus) -> Result<(tape::Source, World), VenueSimError> {
    let serves = |venue| captures.venue == venue;
    let mut world = World {
        binances: served(&binance::VENUES, serves, |venue| Binance::new(venue, [], weight)),
        kraken: serves(Venue::KrakenSpot).then(|| Kraken::new([])),
        halls: dialect::of(captures.venue).map(|dialect| Hall::new(dialect, [])).into_iter().collect(),
        bus,
        progress: Progress::default(),
    };
    captures.scan(&mut world)?;
    if world.listed() == 0 {
        return Err(VenueSimError::Nothing);
    }
    Ok((tape::Source::Captures(captures), world))
}
