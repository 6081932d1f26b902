//! What a scenario consists of: instruments, legs, the server's bounds, terminals and their links.
//!
//! Never: a default that is faulty; faults are what the scenario adds.

use market::{Venue, guard::Limits};
use server::fanout::outbox::RingBounds;
use wire::{Channel, SubscriptionItem};

/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000 * MS;

/// An instrument's place in [`Setup::markets`].
pub type Market = usize;

/// A leg's number: [`Setup::legs`] of the numbered venue first, then those of the other.
pub type Leg = usize;

/// A terminal's number, in the order of appearance.
pub type Viewer = usize;

/// An instrument at its venue.
#[derive(Clone, Debug)]
pub struct MarketSetup {
    /// As the venue spells it; `BASE/QUOTE` or `BASEUSDT`.
    pub symbol: String,
    /// How its stream is ordered.
    pub kind: MarketKind,
    /// Mean time between two changes that the venue makes by itself, nanoseconds; none if only the scenario makes them.
    pub every_ns: Option<u64>,
}

/// How a stream is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketKind {
    /// The venue numbers every change, equally on all legs, and answers snapshots over REST; the whole book.
    Numbered {
        /// The id of the book that it begins with.
        first_id: u64,
    },
    /// No ids: the order of arrival on one active leg counts; the best levels of each side, as many as this.
    Window(u32),
}

impl MarketKind {
    pub(super) fn venue(self) -> Venue {
        match self {
            Self::Numbered { .. } => Venue::BinanceSpot,
            Self::Window(_) => Venue::KrakenSpot,
        }
    }
}

/// The quality of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegLink {
    /// Least and greatest time under way, nanoseconds.
    pub delay_ns: (u64, u64),
    /// Messages lost, in 256.
    pub lost_in_256: u32,
    /// Messages that arrive twice, in 256.
    pub doubled_in_256: u32,
    /// Messages that later ones overtake, in 256.
    pub overtaken_in_256: u32,
}

impl LegLink {
    /// Nothing is lost, doubled or overtaken.
    pub const CLEAN: Self = Self { delay_ns: (5 * MS, 5 * MS), lost_in_256: 0, doubled_in_256: 0, overtaken_in_256: 0 };
}

/// How the venue answers when a snapshot is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// With its book as of the question.
    Current,
    /// With its book as of so many changes before.
    Lagging(usize),
    /// Not at all.
    Silent,
}

/// A terminal's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewerLink {
    /// Time under way in each direction, nanoseconds.
    pub delay_ns: u64,
    /// Bits per second towards the terminal; none for more than matters.
    pub bits_per_s: Option<u64>,
}

impl ViewerLink {
    /// A link in one building.
    pub const FAST: Self = Self { delay_ns: MS, bits_per_s: None };

    /// A link of so many kbit/s with 20 ms each way.
    #[must_use]
    pub const fn kbit(kbit_per_s: u64) -> Self {
        Self { delay_ns: 20 * MS, bits_per_s: Some(kbit_per_s * 1_000) }
    }

    /// How long so many bytes take to leave, nanoseconds.
    pub(super) fn transmit_ns(&self, bytes: u64) -> u64 {
        let bits = bytes.saturating_mul(8);
        self.bits_per_s.map_or(0, |rate| bits.saturating_mul(SECOND).checked_div(rate).unwrap_or(u64::MAX))
    }
}

/// Everything that a scenario begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The test's name, for the line that says how to run it again.
    pub name: &'static str,
    /// Everything random follows from this.
    pub seed: u64,
    /// Instruments.
    pub markets: Vec<MarketSetup>,
    /// Legs of each venue.
    pub legs: usize,
    /// Their quality.
    pub link: LegLink,
    /// Time that a snapshot takes from the question to its arrival, least and greatest, nanoseconds.
    pub rest_ns: (u64, u64),
    /// A leg without messages carries a heartbeat this often, nanoseconds.
    pub heartbeat_ns: u64,
    /// Lanes.
    pub workers: usize,
    /// A worker's cut reaches the hub within this time, nanoseconds.
    pub worker_lag_ns: u64,
    /// Bounds of the guards.
    pub limits: Limits,
    /// Silence that makes a leg's instruments stale, nanoseconds.
    pub silent_ns: u64,
    /// Time until what was admitted survives a kill, nanoseconds.
    pub store_lag_ns: u64,
    /// Bounds of each terminal's ring.
    pub ring: RingBounds,
    /// Legs carry the venues' own text, which the real decoders take; otherwise events come as they would decode.
    pub text: bool,
}

impl Setup {
    /// One server with the bounds that a live run has, two legs, and no instruments. `SPRAG_SEED` overrides the seed.
    #[must_use]
    pub fn new(name: &'static str, seed: u64) -> Self {
        Self {
            name,
            seed: named_seed().unwrap_or(seed),
            markets: Vec::new(),
            legs: 2,
            link: LegLink::CLEAN,
            rest_ns: (30 * MS, 30 * MS),
            heartbeat_ns: 500 * MS,
            workers: 1,
            worker_lag_ns: 0,
            limits: Limits::default(),
            silent_ns: 2 * SECOND,
            store_lag_ns: 200 * MS,
            // As `sprag run` has them by default.
            ring: RingBounds { frames: 64, bytes: 8 << 20, age_ms: 2_560 },
            text: false,
        }
    }

    /// Adds an instrument whose venue numbers its changes from an id on.
    #[must_use]
    pub fn numbered(mut self, symbol: &str, first_id: u64) -> Self {
        let kind = MarketKind::Numbered { first_id };
        self.markets.push(MarketSetup { symbol: symbol.to_owned(), kind, every_ns: None });
        self
    }

    /// Adds an instrument whose stream is ordered by arrival, seen to ten levels a side.
    #[must_use]
    pub fn window(mut self, symbol: &str) -> Self {
        let kind = MarketKind::Window(10);
        self.markets.push(MarketSetup { symbol: symbol.to_owned(), kind, every_ns: None });
        self
    }

    /// Lets the venue change the last instrument by itself, about this often.
    #[must_use]
    pub fn moving(mut self, every_ms: u64) -> Self {
        if let Some(market) = self.markets.last_mut() {
            market.every_ns = Some(every_ms * MS);
        }
        self
    }
}

/// The seed that `SPRAG_SEED` names.
#[must_use]
pub fn named_seed() -> Option<u64> {
    std::env::var("SPRAG_SEED").ok()?.parse().ok()
}

/// A subscription to all books.
#[must_use]
pub fn books() -> Vec<SubscriptionItem> {
    vec![SubscriptionItem { channel: Channel::Book, pattern: "*".into() }]
}

/// A subscription to all books as they change.
#[must_use]
pub fn ahead() -> Vec<SubscriptionItem> {
    vec![SubscriptionItem { channel: Channel::Priority, pattern: "*".into() }]
}

/// A subscription to all quotes.
#[must_use]
pub fn quotes() -> Vec<SubscriptionItem> {
    vec![SubscriptionItem { channel: Channel::Quote, pattern: "*".into() }]
}
