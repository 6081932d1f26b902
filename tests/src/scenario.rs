//! A seeded scenario runner: venues, legs, lanes, hub, fan-out, wire and receivers in virtual time on one thread. One
//! seed gives one trace, and at every step what the terminals show is held against what is true.
//!
//! Never: a socket, a thread, a real clock, or randomness that the seed does not give.

mod agenda;
mod chance;
mod check;
mod connector;
mod faults;
mod leg;
mod look;
mod process;
mod server;
pub mod setup;
mod store;
mod story;
mod text;
mod trace;
mod truth;
mod venues;
mod viewers;

pub use check::ShownBook;
pub use setup::Setup;
pub use trace::Trace;

use agenda::{Action, Agenda};
use chance::Chance;
use check::Checker;
use dataflow::cut::LaneCounts;
use leg::LegState;
use market::{FeedState, LegId, Venue};
use process::Process;
use setup::{Leg, MS, Market, Rest, SECOND, Viewer};
use std::collections::BTreeMap;
use store::{Journal, Store};
use trace::Clock;
use truth::{Truth, content};
use viewers::ViewerState;

/// The virtual time at which every scenario begins, Unix nanoseconds.
const START_NS: u64 = 1_800_000_000 * SECOND;

/// How long the venues move on after the last fault: longer than it takes to be certain of a venue's restart.
const MOVING_AFTER_NS: u64 = 14 * SECOND;

/// How long everybody may take, after the last change, to show what is true: the longest pauses of guards and
/// receivers, and a margin for what follows them.
const SETTLED_NS_MAX: u64 = 100 * SECOND;

/// Notes an event of a world.
macro_rules! note {
    ($world:expr, $($what:tt)*) => {
        $world.trace.note($world.now_ns - $crate::scenario::START_NS, format_args!($($what)*))
    };
}
use note;

/// A scenario under way.
pub struct World {
    setup: Setup,
    now_ns: u64,
    agenda: Agenda,
    trace: Trace,
    checker: Checker,
    truths: Vec<Truth>,
    legs: Vec<LegState>,
    rests: Vec<Rest>,
    quiet: Vec<bool>,
    bursts: Vec<u32>,
    /// Legs that go on with the ids from before an instrument's last restart.
    former_ids: Vec<(Market, Leg)>,
    /// By instrument: fetched since the present server's start.
    fetched: Vec<bool>,
    /// When anything of a venue reached a server last.
    heard_ns: BTreeMap<Venue, u64>,
    server: Option<Process>,
    runs: u64,
    past: LaneCounts,
    worker_lag_ns: u64,
    store: Store,
    journal: Journal,
    viewers: Vec<ViewerState>,
    connections: u64,
    faulty: bool,
    venue_chance: Chance,
    link_chance: Chance,
    rest_chance: Chance,
    server_chance: Chance,
    viewer_chance: Chance,
    fault_chance: Chance,
}

impl World {
    /// A world without server and terminals.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let truths: Vec<_> = setup.markets.iter().map(Truth::new).collect();
        let mut legs: Vec<LegState> = Vec::new();
        for venue in [Venue::BinanceSpot, Venue::KrakenSpot] {
            if truths.iter().any(|truth| truth.venue == venue) {
                for _ in 0..setup.legs {
                    let id = LegId(u16::try_from(legs.len()).unwrap_or(u16::MAX));
                    legs.push(LegState::new(id, venue, setup.link));
                }
            }
        }
        let markets = truths.len();
        let chance = |stream| Chance::new(setup.seed, stream);
        let mut world = Self {
            now_ns: START_NS,
            agenda: Agenda::default(),
            trace: Trace::default(),
            checker: Checker::default(),
            rests: vec![Rest::Current; markets],
            quiet: vec![false; markets],
            bursts: vec![0; markets],
            former_ids: Vec::new(),
            fetched: vec![false; markets],
            heard_ns: BTreeMap::new(),
            server: None,
            runs: 0,
            past: LaneCounts::default(),
            worker_lag_ns: setup.worker_lag_ns,
            store: Store::new(setup.store_lag_ns, markets),
            journal: Journal::default(),
            viewers: Vec::new(),
            connections: 0,
            faulty: false,
            venue_chance: chance(0),
            link_chance: chance(1),
            rest_chance: chance(2),
            server_chance: chance(3),
            viewer_chance: chance(4),
            fault_chance: chance(5),
            truths,
            legs,
            setup,
        };
        (0..world.legs.len()).for_each(|leg| world.agenda.plan(START_NS, Action::Heartbeat(leg)));
        (0..markets).for_each(|market| world.agenda.plan(START_NS + MS, Action::Move(market)));
        world
    }

    /// A world with a started server and one terminal that shows all books, after they have come.
    ///
    /// # Panics
    /// As everything here, if an invariant does not hold.
    #[must_use]
    pub fn live(setup: Setup, link: setup::ViewerLink) -> (Self, Viewer) {
        let mut world = Self::new(setup);
        world.start();
        let viewer = world.viewer(link, &setup::books());
        world.run_until("every book is live", 5_000, |world| world.amiss().is_none());
        (world, viewer)
    }

    /// The virtual time since the begin, milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.now_ns - START_NS) / MS
    }

    /// What happened so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Lets so much virtual time pass.
    pub fn run_ms(&mut self, ms: u64) {
        let until_ns = self.now_ns.saturating_add(ms * MS);
        while let Some((at_ns, action)) = self.agenda.next(until_ns) {
            self.now_ns = at_ns;
            self.act(action);
        }
        self.now_ns = until_ns;
    }

    /// Lets time pass until something is so; gives how many milliseconds that took.
    ///
    /// # Panics
    /// If it is not so after `ms_max`.
    pub fn run_until(&mut self, what: &str, ms_max: u64, so: impl Fn(&Self) -> bool) -> u64 {
        let begin_ms = self.now_ms();
        while !so(self) {
            if self.now_ms() >= begin_ms + ms_max {
                self.fail(&format!("not so within {ms_max} ms: {what}; {}", self.amiss().unwrap_or_default()));
            }
            self.run_ms(1);
        }
        self.now_ms() - begin_ms
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Move(market) => self.moves(market),
            Action::Heartbeat(leg) => self.heartbeat(leg),
            Action::Arrive { leg, generation, said } => self.arrived(leg, generation, &said),
            Action::Open { leg, run } => self.opened(leg, run),
            Action::Reply { run, market, whole } => self.replied(run, market, whole),
            Action::Resubscribe { run, market, leg } => self.resubscribed(run, market, leg),
            Action::GiveUp { run, market } => self.gave_up(run, market),
            Action::Cut { run } => self.cut(run),
            Action::Sink { run, messages } => self.sink(run, messages),
            Action::Dial { viewer, attempt } => self.dial(viewer, attempt),
            Action::Sent { viewer, connection } => self.sent(viewer, connection),
            Action::Down { viewer, connection, bytes } => self.down(viewer, connection, &bytes),
            Action::Up { run, connection, bytes } => self.up(run, connection, &bytes),
            Action::Gone { viewer, connection, wait_ms } => self.gone(viewer, connection, wait_ms),
            Action::Teardown { run, connection } => self.torn_down(run, connection),
            Action::Watch(viewer) => self.watch(viewer),
            Action::Fault(fault) => self.fault(fault),
        }
    }

    /// Faults end, the venues move on for a while and then rest: everybody must come to show what is true.
    ///
    /// # Panics
    /// If somebody does not.
    pub fn settle(&mut self) {
        self.heal();
        self.run_ms(MOVING_AFTER_NS / MS);
        self.quiet = vec![true; self.truths.len()];
        // One last message tells what was put off.
        (0..self.truths.len()).for_each(|market| self.changes_by_chance(market, 1));
        let begin_ns = self.now_ns;
        while let Some(amiss) = self.amiss() {
            if self.now_ns >= begin_ns + SETTLED_NS_MAX {
                self.fail(&amiss);
            }
            self.run_ms(50);
        }
        note!(self, "settled");
        if let Some(server) = &self.server {
            if !server.fanout.is_consistent() {
                self.fail("the groups do not hold what the terminals want");
            }
            if server.fanout.counts().unencodable > 0 {
                self.fail("something was too large for the wire");
            }
        }
    }

    /// What some terminal shows that is not true or not LIVE, if there is such a thing.
    #[must_use]
    pub fn amiss(&self) -> Option<String> {
        for viewer in 0..self.viewers.len() {
            for (market, truth) in self.truths.iter().enumerate().filter(|(market, _)| self.wants(viewer, *market)) {
                let (state, book) = (self.state(viewer, market), self.book(viewer, market));
                let shown = book.as_ref().map(|book| content(&book.bids, &book.asks));
                let right = shown.is_some() && shown == truth.content_at(truth.now());
                let kept = self.session(viewer).view(&truth.name, 0).is_some_and(|view| view.catching_up);
                if !right || state != FeedState::Live || kept {
                    return Some(format!(
                        "viewer {viewer} shows {} {state} at {:?} (right: {right}, kept: {kept}); the venue is at {}",
                        truth.name,
                        book.map(|book| book.version),
                        truth.id(),
                    ));
                }
            }
        }
        None
    }

    /// Says what does not hold, when, after what, and how to see it again.
    fn fail(&self, what: &str) -> ! {
        panic!(
            "{}seed {} at {}: {what}\nagain: SPRAG_SEED={} cargo nextest run -p sprag-tests --test scenarios {}",
            self.trace.tail(),
            self.setup.seed,
            Clock(self.now_ns - START_NS),
            self.setup.seed,
            self.setup.name,
        )
    }
}
