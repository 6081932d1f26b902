//! Live connections to venues: legs that stay subscribed, snapshots by REST, and one bounded way of all frames to the
//! source's thread.
//!
//! ```text
//!  venue ──WebSocket──▶ leg task (socket) ──frames──▶ queue ──▶ source thread ──▶ decoder
//!                         │  asks: leg machine         ▲             │
//!                         ▼ carried                    │             │ wanted snapshots, books to repair
//!  venue ◀──REST──── snapshot task (rest) ──replies────┘             │
//!                      asks: snapshot machine ◀──────────────────────┘
//! ```
//!
//! What is decided, and when, is in two machines without I/O or a clock ([`leg`], [`snapshots`]); what differs by venue in
//! pure functions ([`protocol`]). All tasks run on one thread of their own, so that neither terminals nor a source that
//! waits keeps them from answering a ping.
//!
//! Never: a meaning given to prices; a frame lost without the connection's end being told.

pub mod address;
mod asked;
pub mod backoff;
pub mod dialect;
pub mod leg;
pub mod numbers;
pub mod protocol;
mod queue;
pub mod rest;
pub mod snapshots;
pub mod socket;

use crate::raw::RawFrame;
use address::AddressError;
use asked::{Asked, Candidate};
use dialect::Dialect;
use foldhash::HashMap;
use leg::Leg;
use market::Venue;
use numbers::{VenueNumbers, count};
use protocol::{Listed, Protocol, protocol, spoken};
use queue::FrameQueue;
use rest::{Rest, RestError};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use snapshots::Snapshots;
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet, time::Instant};

pub use leg::HELD_MS_MAX;
pub use queue::QUEUE_BYTES_MAX;

/// Legs of one venue at most; more bring no more safety.
pub const LEGS_MAX: usize = 8;

/// Names of legs.
const LEG_NAMES: [&str; LEGS_MAX] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// How far ahead a deadline that is none is put.
const FAR: Duration = Duration::from_secs(3_600);

/// What to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveVenue {
    /// The venue; each at most once.
    pub venue: Venue,
    /// Which of its protocols; its first if not told.
    pub dialect: Option<Dialect>,
    /// Instruments in its own spelling.
    pub instruments: Vec<Box<str>>,
    /// Connections that carry all of them; 1 to [`LEGS_MAX`].
    pub legs: usize,
    /// Where its WebSocket is; the real one if not told.
    pub socket_url: Option<String>,
    /// Where its REST is; the real one if not told.
    pub rest_url: Option<String>,
}

/// Bounds of the way to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// Bytes that wait for the source.
    pub queue_bytes_max: usize,
    /// Milliseconds that a connection is not read since nobody takes its frames; then it is given up.
    pub held_ms_max: u64,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self { queue_bytes_max: QUEUE_BYTES_MAX, held_ms_max: HELD_MS_MAX }
    }
}

/// The connections cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// A URL cannot be used.
    #[error("{venue}: {url:?} cannot be used")]
    Address {
        /// Of which venue.
        venue: Venue,
        /// The URL.
        url: Box<str>,
        /// What is wrong with it.
        #[source]
        source: AddressError,
    },
    /// A number of instruments or legs is out of its bounds.
    #[error("{venue}: {count} {what}: must be 1 to {max}")]
    Number {
        /// Of which venue.
        venue: Venue,
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// At most.
        max: usize,
    },
    /// A venue that is known from captures alone.
    #[error("{venue} is known from captures only; it cannot be connected to")]
    CapturesOnly {
        /// Which.
        venue: Venue,
    },
    /// A protocol that the venue does not speak.
    #[error("{venue} has no protocol {dialect} to choose, but {}", dialect::names(dialect::dialects(*.venue)))]
    Unspoken {
        /// Of which venue.
        venue: Venue,
        /// Which.
        dialect: Dialect,
    },
    /// A venue is named twice.
    #[error("{venue} is named twice")]
    Twice {
        /// Which.
        venue: Venue,
    },
    /// The TLS library refuses our settings.
    #[error("no TLS settings")]
    Tls(#[from] rustls::Error),
    /// No thread.
    #[error("the thread of the connections cannot be started")]
    Thread(#[source] io::Error),
}

/// The clock of the machines: nanoseconds since the start.
#[derive(Clone, Copy, Debug)]
struct Clock {
    origin: Instant,
}

impl Clock {
    fn now_ns(self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn instant(self, at_ns: Option<u64>) -> Instant {
        at_ns.map_or_else(|| Instant::now() + FAR, |at_ns| self.origin + Duration::from_nanos(at_ns))
    }
}

/// What all tasks share.
struct Shared {
    queue: FrameQueue,
    clock: Clock,
    /// Unix nanoseconds, for the stamps of frames.
    now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    tls: Arc<ClientConfig>,
    held_ms_max: u64,
}

/// One leg.
struct LegLink {
    conn: Arc<str>,
    machine: Mutex<Leg>,
    /// Its machine has something new to do.
    wake: Notify,
}

/// One venue.
struct Link {
    protocol: &'static dyn Protocol,
    numbers: Arc<VenueNumbers>,
    symbols: Vec<Box<str>>,
    by_symbol: HashMap<Box<str>, usize>,
    socket_url: Arc<str>,
    rest_conn: Arc<str>,
    legs: Vec<LegLink>,
    /// Which leg was asked for which book.
    asked: Mutex<Asked>,
    /// Snapshots come by REST.
    by_rest: bool,
    snapshots: Mutex<Snapshots>,
    /// The snapshot machine has something new to do.
    wanted: Notify,
}

impl LegLink {
    fn machine(&self) -> MutexGuard<'_, Leg> {
        // A panic under the lock ends the thread of all connections, and with it the run.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    fn new(venue: &LiveVenue, protocol: &'static dyn Protocol, held_ms_max: u64, now_ns: u64) -> Self {
        let symbols = venue.instruments.clone();
        let requests: Vec<_> = symbols.iter().filter_map(|symbol| protocol.snapshot(symbol)).collect();
        let weights = requests.iter().map(|request| request.weight).collect();
        let legs = LEG_NAMES.iter().take(venue.legs).enumerate().map(|(index, name)| LegLink {
            conn: format!("{}/{name}", venue.venue).into(),
            machine: Mutex::new(
                Leg::new(protocol, &symbols, index, now_ns).with_held_max(held_ms_max).among(venue.legs),
            ),
            wake: Notify::new(),
        });
        Self {
            protocol,
            numbers: Arc::new(VenueNumbers::new(venue.venue)),
            by_symbol: symbols.iter().enumerate().map(|(at, symbol)| (symbol.clone(), at)).collect(),
            socket_url: venue.socket_url().into(),
            rest_conn: format!("{}/rest", venue.venue).into(),
            legs: legs.collect(),
            asked: Mutex::default(),
            by_rest: !requests.is_empty(),
            snapshots: Mutex::new(Snapshots::new(weights, protocol.terms().weight_per_minute)),
            wanted: Notify::new(),
            symbols,
        }
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an instrument's subscription anew on the leg that serves it best; whether one does, now or later.
    fn begin_anew(&self, now_ns: u64, symbol: &str, active: Option<&str>) -> bool {
        let Some(at) = self.by_symbol.get(symbol).copied() else { return false };
        let candidate = |(leg, link): (usize, &LegLink)| {
            let prospect = link.machine().prospect(now_ns, symbol);
            Candidate { leg, named: active == Some(&*link.conn), prospect }
        };
        let candidates = self.legs.iter().enumerate().map(candidate).collect();
        let chosen = self.asked.lock().unwrap_or_else(PoisonError::into_inner).choose(now_ns, at, candidates);
        let Some(leg) = chosen.and_then(|leg| self.legs.get(leg)) else { return false };
        leg.machine().resubscribe(now_ns, symbol);
        leg.wake.notify_one();
        true
    }
}

impl LiveVenue {
    /// Its protocol.
    ///
    /// # Errors
    /// [`LiveError::CapturesOnly`], [`LiveError::Unspoken`].
    pub fn protocol(&self) -> Result<&'static dyn Protocol, LiveError> {
        let venue = self.venue;
        match (spoken(venue, self.dialect), self.dialect) {
            (Some(protocol), _) => Ok(protocol),
            (None, Some(dialect)) if protocol(venue).is_some() => Err(LiveError::Unspoken { venue, dialect }),
            (None, _) => Err(LiveError::CapturesOnly { venue }),
        }
    }

    /// Where its WebSocket is; nowhere if it cannot be connected to.
    #[must_use]
    pub fn socket_url(&self) -> &str {
        let own = || self.protocol().map_or("", |protocol| protocol.terms().socket_url);
        self.socket_url.as_deref().unwrap_or_else(own)
    }

    /// Where its REST is; nowhere if it cannot be connected to.
    #[must_use]
    pub fn rest_url(&self) -> &str {
        let own = || self.protocol().map_or("", |protocol| protocol.terms().rest_url);
        self.rest_url.as_deref().unwrap_or_else(own)
    }

    /// Checks URLs and numbers.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn check(&self) -> Result<(), LiveError> {
        let venue = self.venue;
        let terms = self.protocol()?.terms();
        let address = |url: &str, source| LiveError::Address { venue, url: url.into(), source };
        address::check_socket_url(self.socket_url()).map_err(|source| address(self.socket_url(), source))?;
        address::check_rest_url(self.rest_url()).map_err(|source| address(self.rest_url(), source))?;
        let instruments_max = terms.instruments_max;
        let numbers = [("instruments", self.instruments.len(), instruments_max), ("legs", self.legs, LEGS_MAX)];
        let wrong = numbers.into_iter().find(|(_, count, max)| !(1..=*max).contains(count));
        wrong.map_or(Ok(()), |(what, count, max)| Err(LiveError::Number { venue, what, count, max }))
    }

    /// What the venue itself says about its symbols, these among them, within a time.
    ///
    /// # Errors
    /// [`RestError`]; where the venue lists kinds of instruments apart, only if it says nothing of any.
    pub async fn listed(&self, within: Duration) -> Result<Vec<Listed>, RestError> {
        let Ok(protocol) = self.protocol() else { return Ok(Vec::new()) };
        let rest = Rest::new(self.rest_url(), tls()?);
        let asked = async {
            let (mut listed, mut failed) = (Vec::new(), None);
            for request in protocol.listings(&self.instruments) {
                let reply = rest.get(&request.path, rest::LISTING_BYTES_MAX).await;
                match reply.and_then(|reply| Ok(protocol.listed(&reply.body)?)) {
                    Ok(mut some) => listed.append(&mut some),
                    Err(error) => {
                        let (venue, path, cause) = (self.venue, request.path, &error as &dyn std::error::Error);
                        tracing::warn!(%venue, path, error = cause, "the venue does not tell a list of instruments");
                        failed = Some(error);
                    }
                }
            }
            failed.filter(|_| listed.is_empty()).map_or(Ok(listed), Err)
        };
        tokio::time::timeout(within, asked).await.map_err(|_| RestError::Deadline)?
    }
}

fn tls() -> Result<ClientConfig, rustls::Error> {
    let roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Running connections; they end with it.
pub struct Live {
    shared: Arc<Shared>,
    links: Vec<Arc<Link>>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Starts the connections. Frames are stamped by `now_ns`, Unix nanoseconds.
    ///
    /// # Errors
    /// [`LiveError`]; nothing was started then.
    pub fn start(
        venues: &[LiveVenue],
        options: LiveOptions,
        now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    ) -> Result<Self, LiveError> {
        for (at, venue) in venues.iter().enumerate() {
            venue.check()?;
            if venues.iter().take(at).any(|before| before.venue == venue.venue) {
                return Err(LiveError::Twice { venue: venue.venue });
            }
        }
        let clock = Clock { origin: Instant::now() };
        let tls = tls()?;
        let rests: Vec<_> = venues.iter().map(|venue| Rest::new(venue.rest_url(), tls.clone())).collect();
        let link = |venue: &LiveVenue| {
            let protocol = venue.protocol()?;
            Ok(Arc::new(Link::new(venue, protocol, options.held_ms_max, clock.now_ns())))
        };
        let links = venues.iter().map(link).collect::<Result<Vec<_>, LiveError>>()?;
        let queue = FrameQueue::new(options.queue_bytes_max);
        let shared = Arc::new(Shared { queue, clock, now_ns, tls: Arc::new(tls), held_ms_max: options.held_ms_max });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LiveError::Thread)?;
        let stop = Arc::new(Notify::new());
        let (stopped, tasks) = (Arc::clone(&stop), links.iter().cloned().zip(rests).collect());
        let own = Arc::clone(&shared);
        let body = move || {
            runtime.block_on(tend(own, tasks, &stopped));
            // A name that is still being resolved must not hold up the end.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("venues".to_owned()).spawn(body).map_err(LiveError::Thread)?;
        Ok(Self { shared, links, stop, thread: Some(thread) })
    }

    /// Takes what arrived, some of it if there is much, and waits for the first for `wait` at most. False once nothing
    /// can come any more.
    pub fn take(&self, wait: Duration, out: &mut Vec<(Venue, RawFrame)>) -> bool {
        self.shared.queue.take(wait, out);
        !out.is_empty() || self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Asks for a snapshot of one instrument: by REST, or by a subscription anew on the connection `active`, or on
    /// another that can serve it, in turn for who asks again. What none can serve is dropped and counted.
    pub fn request(&self, venue: Venue, symbol: &str, active: Option<&str>) {
        let Some(link) = self.link(venue) else { return };
        let now_ns = self.shared.clock.now_ns();
        if link.by_rest {
            let Some(at) = link.by_symbol.get(symbol) else { return };
            if link.snapshots().wanted(now_ns, *at) {
                count(&link.numbers.insisted);
                tracing::error!(%venue, symbol, "a snapshot is wanted again and again: none joins the stream");
            }
            link.wanted.notify_one();
            return;
        }
        if !link.begin_anew(now_ns, symbol, active) {
            count(&link.numbers.requests_dropped);
            tracing::debug!(%venue, symbol, "no connection can serve this request; the guard will ask again");
        }
    }

    /// Subscribes anew to one instrument on one connection, whose book of it broke.
    pub fn repair(&self, venue: Venue, conn: &str, symbol: &str) {
        if let Some(leg) = self.leg(venue, conn) {
            leg.machine().resubscribe(self.shared.clock.now_ns(), symbol);
            leg.wake.notify_one();
        }
    }

    /// Gives a connection up that missed a message; it is made anew.
    pub fn reconnect(&self, venue: Venue, conn: &str) {
        if let Some(leg) = self.leg(venue, conn) {
            leg.machine().give_up(self.shared.clock.now_ns());
            leg.wake.notify_one();
        }
    }

    /// The numbers of each venue.
    #[must_use]
    pub fn numbers(&self) -> Vec<Arc<VenueNumbers>> {
        self.links.iter().map(|link| Arc::clone(&link.numbers)).collect()
    }

    fn leg(&self, venue: Venue, conn: &str) -> Option<&LegLink> {
        self.link(venue)?.legs.iter().find(|leg| *leg.conn == *conn)
    }

    fn link(&self, venue: Venue) -> Option<&Link> {
        self.links.iter().map(|link| &**link).find(|link| link.protocol.venue() == venue)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop.notify_one();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the connections panicked");
        }
    }
}

/// Runs all tasks until they shall stop. A task that ends has panicked, which ends all of them: a leg that is silently
/// missing would be worse.
async fn tend(shared: Arc<Shared>, links: Vec<(Arc<Link>, Rest)>, stopped: &Notify) {
    let mut tasks = JoinSet::new();
    for (link, rest) in links {
        for index in 0..link.legs.len() {
            tasks.spawn(socket::run(Arc::clone(&shared), Arc::clone(&link), index));
        }
        if link.by_rest {
            tasks.spawn(rest::fetch_snapshots(Arc::clone(&shared), link, rest));
        }
    }
    tokio::select! {
        () = stopped.notified() => {}
        ended = tasks.join_next() => tracing::error!(?ended, "a task of the connections ended"),
    }
}
