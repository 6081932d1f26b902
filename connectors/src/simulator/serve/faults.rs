//! Faults: what the simulated venues do wrong when they are told to, how often each did, and for how long.
//!
//! Never: a fault that was not asked for.

mod message;

use super::{control, reference::Snapshot};
use market::Venue;
pub(super) use message::Fate;
use message::{Draws, Drift};
pub use message::{GarbageKind, Rates};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Faults that are remembered, ended ones included; the oldest ended one makes room.
const FAULTS_MAX: usize = 256;
/// How many book updates back a snapshot may be asked from: the undo log of one symbol stays some 50 KB.
pub const UPDATES_AGO_MAX: u32 = 64;
/// No fault lasts longer than this, in milliseconds: one day.
const FOR_MS_MAX: u64 = 86_400_000;
/// No message is delayed for longer than this, in milliseconds: a minute.
const DELAY_MS_MAX: u64 = 60_000;
/// A text frame of an oversized message is longer than this, in bytes: 16 MiB, which many terminals' libraries refuse.
pub(super) const OVERSIZED_BYTES: usize = (16 << 20) + 1;
/// Pings of a flood come no faster than this, in milliseconds.
const EVERY_MS_MIN: u64 = 1;

/// How a connection is ended by a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// A close frame with code 1000.
    #[default]
    Normal,
    /// A close frame with code 1001.
    GoingAway,
    /// No close frame: the socket just ends.
    Abort,
    /// No close frame: the socket is reset, and what is on its way is lost.
    Reset,
}

/// Something that a simulated venue does wrong. A `connection` is meant by its order of opening at its venue, from 1;
/// none means all of them. In JSON: `{"fault":"drop_depth","venue":"binance_spot","symbol":"BTCUSDT","count":1}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Ends connections now. Fires once per ended connection.
    Disconnect {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// Which one.
        #[serde(default)]
        connection: Option<u64>,
        /// With or without a close frame.
        #[serde(default)]
        ending: Ending,
    },
    /// Answers upgrades with 503. Fires once per refusal.
    RefuseConnections {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// For so many milliseconds.
        for_ms: u64,
    },
    /// Withholds the next book updates of a symbol; everything else goes on. Fires once per withheld update.
    DropDepth {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// As the venue spells it.
        symbol: String,
        /// So many.
        #[serde(default = "one")]
        count: u64,
        /// From whom.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Falsifies the checksum of the next book updates of a symbol, where they hold one. Fires once per update.
    CorruptChecksum {
        /// Of this venue.
        #[serde(with = "control::venue", default = "kraken")]
        venue: Venue,
        /// As the venue spells it.
        symbol: String,
        /// So many.
        #[serde(default = "one")]
        count: u64,
        /// For whom.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Answers the next depth requests of a symbol, or subscriptions to its book, with an old snapshot; the stream goes
    /// on from the present one. Fires once per answer.
    StaleSnapshots {
        /// Of this venue.
        #[serde(with = "control::venue", default = "binance")]
        venue: Venue,
        /// As the venue spells it.
        symbol: String,
        /// So many answers.
        #[serde(default = "one")]
        count: u64,
        /// From so many book updates before each answer, at most [`UPDATES_AGO_MAX`]; none: from the moment at which
        /// the fault was set.
        #[serde(default)]
        updates_ago: Option<u32>,
    },
    /// Answers the next REST requests of a venue with an error. Fires once per answer.
    FailRest {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// So many.
        #[serde(default = "one")]
        count: u64,
        /// 429, or 500 to 599.
        status: u16,
        /// The `Retry-After` header, seconds.
        #[serde(default)]
        retry_after_s: Option<u32>,
    },
    /// Restarts the update ids of a symbol: its next change has this id, and snapshots follow. Fires at once.
    ResetIds {
        /// Of this venue.
        #[serde(with = "control::venue", default = "binance")]
        venue: Venue,
        /// As the venue spells it.
        symbol: String,
        /// The next id.
        next_id: u64,
    },
    /// Sends nothing any more: of a symbol no data, or to a connection nothing at all, heartbeats and replies included;
    /// pings are still answered. What is not sent is lost. Fires once per message.
    Silence {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
        /// Of this symbol only.
        #[serde(default)]
        symbol: Option<String>,
        /// For so many milliseconds; none: until faults are cleared.
        #[serde(default)]
        for_ms: Option<u64>,
    },
    /// Sends nothing but protocol pings. What is not sent is lost. Fires once per ping.
    PingFlood {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
        /// A ping every so many milliseconds.
        every_ms: u64,
        /// For so many milliseconds.
        for_ms: u64,
    },
    /// Sends the next book updates twice. Fires once per update and connection.
    Duplicate {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// Of this symbol only.
        #[serde(default)]
        symbol: Option<String>,
        /// So many.
        #[serde(default = "one")]
        count: u64,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Sends the next book updates after the one that follows them in their symbol. Fires once per update and
    /// connection.
    Reorder {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// Of this symbol only.
        #[serde(default)]
        symbol: Option<String>,
        /// So many.
        #[serde(default = "one")]
        count: u64,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Sends garbage in place of the next book updates. Fires once per update and connection.
    Garbage {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// Of this symbol only.
        #[serde(default)]
        symbol: Option<String>,
        /// So many.
        #[serde(default = "one")]
        count: u64,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
        /// What kind.
        #[serde(default)]
        kind: GarbageKind,
        /// What is random follows from this.
        #[serde(default)]
        seed: u64,
    },
    /// Delays all messages by a time that drifts between two bounds, each connection's own; order is kept. Fires once
    /// per message.
    Delay {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
        /// At least so many milliseconds.
        #[serde(default = "six")]
        min_ms: u64,
        /// At most so many milliseconds.
        #[serde(default = "nine")]
        max_ms: u64,
        /// The drift follows from this.
        #[serde(default)]
        seed: u64,
        /// For so many milliseconds; none: until faults are cleared.
        #[serde(default)]
        for_ms: Option<u64>,
    },
    /// Leaves connections half-open: nothing is written or read any more, and nobody is told; then they are reset.
    /// What is not sent is lost. Fires at once, once per connection.
    HalfOpen {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// Which one.
        #[serde(default)]
        connection: Option<u64>,
        /// For so many milliseconds.
        for_ms: u64,
    },
    /// Sends one text of more than 16 MiB. Fires at once, once per connection.
    Oversized {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Draws for each message of data whether something happens to it. Fires once per message to which something does;
    /// each kind is counted apart as well.
    Chaos {
        /// Of this venue.
        #[serde(with = "control::venue")]
        venue: Venue,
        /// To whom.
        #[serde(default)]
        connection: Option<u64>,
        /// All draws follow from this, in the order of the messages.
        #[serde(default)]
        seed: u64,
        /// Of 10,000 messages, so many.
        per_10000: Rates,
        /// For so many milliseconds; none: until faults are cleared.
        #[serde(default)]
        for_ms: Option<u64>,
    },
}

const fn one() -> u64 {
    1
}

/// The delay of a good leg, unless asked otherwise: 6 to 9 ms.
const fn six() -> u64 {
    6
}

const fn nine() -> u64 {
    9
}

const fn binance() -> Venue {
    Venue::BinanceSpot
}

const fn kraken() -> Venue {
    Venue::KrakenSpot
}

/// Why a fault cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Nothing is served for that venue.
    #[error("the venue {0} is not served here")]
    UnknownVenue(Venue),
    /// The venue lists no such symbol.
    #[error("the venue {0} lists no such symbol")]
    UnknownSymbol(Venue),
    /// The venue's protocol has nothing that this could falsify.
    #[error("the venue {0} has no {1} here")]
    Unsupported(Venue, &'static str),
    /// There is no book of the symbol to take a snapshot of.
    #[error("there is no book of that symbol yet")]
    NoBook,
    /// A number is out of its range.
    #[error("{0} is out of its range")]
    OutOfRange(&'static str),
    /// Too many faults are active.
    #[error("{FAULTS_MAX} faults are active already")]
    TooMany,
}

/// A fault and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultReport {
    /// Its number.
    pub id: u64,
    /// As it was set.
    #[serde(flatten)]
    pub fault: Fault,
    /// How often it fired.
    pub fired: u64,
    /// Whether it may fire again.
    pub active: bool,
}

/// Every fault that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultsReport {
    /// How often each kind fired since the start.
    pub fired: BTreeMap<&'static str, u64>,
    /// One by one, in the order in which they were set.
    pub faults: Vec<FaultReport>,
}

impl Fault {
    /// As in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Disconnect { .. } => "disconnect",
            Self::RefuseConnections { .. } => "refuse_connections",
            Self::DropDepth { .. } => "drop_depth",
            Self::CorruptChecksum { .. } => "corrupt_checksum",
            Self::StaleSnapshots { .. } => "stale_snapshots",
            Self::FailRest { .. } => "fail_rest",
            Self::ResetIds { .. } => "reset_ids",
            Self::Silence { .. } => "silence",
            Self::PingFlood { .. } => "ping_flood",
            Self::Duplicate { .. } => "duplicate",
            Self::Reorder { .. } => "reorder",
            Self::Garbage { .. } => "garbage",
            Self::Delay { .. } => "delay",
            Self::HalfOpen { .. } => "half_open",
            Self::Oversized { .. } => "oversized",
            Self::Chaos { .. } => "chaos",
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn venue(&self) -> Venue {
        match self {
            Self::Disconnect { venue, .. }
            | Self::RefuseConnections { venue, .. }
            | Self::DropDepth { venue, .. }
            | Self::FailRest { venue, .. }
            | Self::Silence { venue, .. }
            | Self::PingFlood { venue, .. }
            | Self::CorruptChecksum { venue, .. }
            | Self::StaleSnapshots { venue, .. }
            | Self::ResetIds { venue, .. }
            | Self::Duplicate { venue, .. }
            | Self::Reorder { venue, .. }
            | Self::Garbage { venue, .. }
            | Self::Delay { venue, .. }
            | Self::HalfOpen { venue, .. }
            | Self::Oversized { venue, .. }
            | Self::Chaos { venue, .. } => *venue,
        }
    }

    pub(super) fn symbol(&self) -> Option<&str> {
        match self {
            Self::DropDepth { symbol, .. }
            | Self::CorruptChecksum { symbol, .. }
            | Self::StaleSnapshots { symbol, .. }
            | Self::ResetIds { symbol, .. } => Some(symbol),
            Self::Silence { symbol, .. }
            | Self::Duplicate { symbol, .. }
            | Self::Reorder { symbol, .. }
            | Self::Garbage { symbol, .. } => symbol.as_deref(),
            Self::Disconnect { .. }
            | Self::RefuseConnections { .. }
            | Self::FailRest { .. }
            | Self::PingFlood { .. }
            | Self::Delay { .. }
            | Self::HalfOpen { .. }
            | Self::Oversized { .. }
            | Self::Chaos { .. } => None,
        }
    }

    fn check(&self) -> Result<(), FaultError> {
        let within = |name, holds: bool| if holds { Ok(()) } else { Err(FaultError::OutOfRange(name)) };
        let lasts = |for_ms: u64| within("for_ms", (1..=FOR_MS_MAX).contains(&for_ms));
        match *self {
            Self::RefuseConnections { for_ms, .. } => lasts(for_ms),
            Self::Silence { for_ms, .. } => for_ms.map_or(Ok(()), lasts),
            Self::PingFlood { every_ms, for_ms, .. } => {
                within("every_ms", (EVERY_MS_MIN..=FOR_MS_MAX).contains(&every_ms)).and_then(|()| lasts(for_ms))
            }
            Self::DropDepth { count, .. } | Self::CorruptChecksum { count, .. } => within("count", count > 0),
            Self::StaleSnapshots { count, updates_ago, .. } => within("count", count > 0)
                .and_then(|()| within("updates_ago", updates_ago.is_none_or(|ago| ago <= UPDATES_AGO_MAX))),
            Self::FailRest { count, status, .. } => within("count", count > 0)
                .and_then(|()| within("status", status == 429 || (500..=599).contains(&status))),
            Self::Duplicate { count, .. } | Self::Reorder { count, .. } | Self::Garbage { count, .. } => {
                within("count", count > 0)
            }
            Self::Delay { min_ms, max_ms, for_ms, .. } => {
                within("max_ms", (min_ms..=DELAY_MS_MAX).contains(&max_ms)).and_then(|()| for_ms.map_or(Ok(()), lasts))
            }
            Self::HalfOpen { for_ms, .. } => lasts(for_ms),
            Self::Chaos { per_10000, for_ms, .. } => {
                within("per_10000", per_10000.fits()).and_then(|()| for_ms.map_or(Ok(()), lasts))
            }
            Self::Disconnect { .. } | Self::ResetIds { .. } | Self::Oversized { .. } => Ok(()),
        }
    }

    /// How often it may fire, and for how long; an immediate one never fires later.
    fn bounds(&self) -> (u64, Option<Duration>) {
        let lasts = |for_ms: u64| Some(Duration::from_millis(for_ms));
        match *self {
            Self::Disconnect { .. } | Self::ResetIds { .. } | Self::HalfOpen { .. } | Self::Oversized { .. } => {
                (0, None)
            }
            Self::RefuseConnections { for_ms, .. } | Self::PingFlood { for_ms, .. } => (u64::MAX, lasts(for_ms)),
            Self::Silence { for_ms, .. } | Self::Delay { for_ms, .. } | Self::Chaos { for_ms, .. } => {
                (u64::MAX, for_ms.map(Duration::from_millis))
            }
            Self::DropDepth { count, .. }
            | Self::CorruptChecksum { count, .. }
            | Self::StaleSnapshots { count, .. }
            | Self::FailRest { count, .. }
            | Self::Duplicate { count, .. }
            | Self::Reorder { count, .. }
            | Self::Garbage { count, .. } => (count, None),
        }
    }
}

/// Which snapshot an old answer holds.
#[derive(Clone, Debug)]
pub(super) enum Stale {
    /// Kept since the fault was set.
    Kept(Arc<Snapshot>),
    /// So many updates ago.
    Ago(u32),
}

struct Armed {
    id: u64,
    fault: Fault,
    left: u64,
    until: Option<Instant>,
    fired: u64,
    kept: Option<Arc<Snapshot>>,
    /// Of what is random.
    draws: Draws,
    /// The delays of connections.
    drifts: BTreeMap<u64, Drift>,
}

impl Armed {
    fn active(&self, now: Instant) -> bool {
        self.left > 0 && self.until.is_none_or(|until| now < until)
    }
}

/// The faults of a server.
#[derive(Default)]
pub(super) struct Faults {
    next: u64,
    armed: Vec<Armed>,
    fired: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// Remembers a fault; what fires at once fires `at_once` times. Gives its number.
    pub(super) fn arm(&mut self, fault: Fault, at_once: u64, kept: Option<Arc<Snapshot>>) -> Result<u64, FaultError> {
        let now = Instant::now();
        self.check(&fault)?;
        if self.armed.len() >= FAULTS_MAX
            && let Some(index) = self.armed.iter().position(|armed| !armed.active(now))
        {
            self.armed.remove(index);
        }
        self.next += 1;
        let (left, lasts) = fault.bounds();
        let until = lasts.map(|lasts| now + lasts);
        if at_once > 0 {
            *self.fired.entry(fault.name()).or_default() += at_once;
        }
        let (draws, drifts) = (Draws::of(&fault), BTreeMap::new());
        self.armed.push(Armed { id: self.next, fault, left, until, fired: at_once, kept, draws, drifts });
        Ok(self.next)
    }

    /// Whether a fault could be set.
    pub(super) fn check(&self, fault: &Fault) -> Result<(), FaultError> {
        fault.check()?;
        let now = Instant::now();
        if self.armed.iter().filter(|armed| armed.active(now)).count() >= FAULTS_MAX {
            return Err(FaultError::TooMany);
        }
        Ok(())
    }

    /// Ends every fault; what they did stays counted.
    pub(super) fn clear(&mut self) {
        for armed in &mut self.armed {
            armed.left = 0;
        }
    }

    /// Nothing was ever set.
    pub(super) const fn none(&self) -> bool {
        self.armed.is_empty()
    }

    /// Fires the first active fault that `meant` picks.
    fn fire<T>(&mut self, meant: impl Fn(&Armed) -> Option<T>) -> Option<T> {
        if self.armed.is_empty() {
            return None;
        }
        let now = Instant::now();
        let found = self.armed.iter_mut().filter(|armed| armed.active(now)).find_map(|armed| {
            let meant = meant(armed)?;
            Some((armed, meant))
        });
        let (armed, meant) = found?;
        count(armed, &mut self.fired);
        Some(meant)
    }

    /// Whether an upgrade is refused.
    pub(super) fn refuses(&mut self, at: Venue) -> bool {
        let meant = |armed: &Armed| matches!(&armed.fault, Fault::RefuseConnections { venue, .. } if *venue == at);
        self.fire(|armed| meant(armed).then_some(())).is_some()
    }

    /// Whether a message is not sent to a connection: `of` is the symbol of data, none for a reply or a heartbeat.
    pub(super) fn silences(&mut self, at: Venue, to: u64, of: Option<&str>) -> bool {
        let now = Instant::now();
        let flooded = self.armed.iter().any(|armed| {
            armed.active(now)
                && matches!(&armed.fault, Fault::PingFlood { venue, connection, .. }
                    if *venue == at && connection.is_none_or(|connection| connection == to))
        });
        let meant = |armed: &Armed| match &armed.fault {
            Fault::Silence { venue, connection, symbol, .. } => {
                *venue == at
                    && connection.is_none_or(|connection| connection == to)
                    && symbol.as_deref().is_none_or(|symbol| of == Some(symbol))
            }
            _ => false,
        };
        flooded || self.fire(|armed| meant(armed).then_some(())).is_some()
    }

    /// Whether a book update is withheld: from all (`to` is none), or from one connection.
    pub(super) fn drops_depth(&mut self, at: Venue, of: &str, to: Option<u64>) -> bool {
        let meant = |armed: &Armed| {
            matches!(&armed.fault, Fault::DropDepth { venue, symbol, connection, .. }
                if *venue == at && symbol == of && *connection == to)
        };
        self.fire(|armed| meant(armed).then_some(())).is_some()
    }

    /// Whether a checksum is falsified: for all (`to` is none), or for one connection.
    pub(super) fn corrupts(&mut self, at: Venue, of: &str, to: Option<u64>) -> bool {
        let meant = |armed: &Armed| {
            matches!(&armed.fault, Fault::CorruptChecksum { venue, symbol, connection, .. }
                if *venue == at && symbol == of && *connection == to)
        };
        self.fire(|armed| meant(armed).then_some(())).is_some()
    }

    /// Whether a checksum of a symbol may be falsified now.
    pub(super) fn may_corrupt(&self, at: Venue, of: &str) -> bool {
        self.armed.iter().any(|armed| {
            armed.left > 0
                && matches!(&armed.fault, Fault::CorruptChecksum { venue, symbol, .. } if *venue == at && symbol == of)
        })
    }

    /// Which old snapshot a depth request or a subscription gets, if any.
    pub(super) fn stale(&mut self, at: Venue, of: &str) -> Option<Stale> {
        self.fire(|armed| match &armed.fault {
            Fault::StaleSnapshots { venue, symbol, updates_ago, .. } if *venue == at && symbol == of => {
                match updates_ago {
                    Some(ago) => Some(Stale::Ago(*ago)),
                    None => armed.kept.clone().map(Stale::Kept),
                }
            }
            _ => None,
        })
    }

    /// The status and `Retry-After` of a REST request that fails.
    pub(super) fn fails_rest(&mut self, at: Venue) -> Option<(u16, Option<u32>)> {
        self.fire(|armed| match armed.fault {
            Fault::FailRest { venue, status, retry_after_s, .. } if venue == at => Some((status, retry_after_s)),
            _ => None,
        })
    }

    /// Counts the pings of one beat of a flood; none when the flood is over.
    pub(super) fn floods(&mut self, id: u64, pings: u64) -> Option<()> {
        let now = Instant::now();
        let armed = self.armed.iter_mut().find(|armed| armed.id == id && armed.active(now))?;
        armed.fired += pings;
        *self.fired.entry(armed.fault.name()).or_default() += pings;
        Some(())
    }

    pub(super) fn report(&self) -> FaultsReport {
        let now = Instant::now();
        let report = |armed: &Armed| FaultReport {
            id: armed.id,
            fault: armed.fault.clone(),
            fired: armed.fired,
            active: armed.active(now),
        };
        FaultsReport { fired: self.fired.clone(), faults: self.armed.iter().map(report).collect() }
    }
}

/// Counts one firing.
fn count(armed: &mut Armed, fired: &mut BTreeMap<&'static str, u64>) {
    armed.fired += 1;
    if armed.left != u64::MAX {
        armed.left -= 1;
    }
    *fired.entry(armed.fault.name()).or_default() += 1;
}
