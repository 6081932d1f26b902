//! The hand-over to the store: what waits in front of the sink's queue, bounded in bytes, and whole books that the sink
//! wants. The sink takes at once whatever the store does, so there is only something here while its task does not run.
//! Beyond the bound changes of venues are left out, instrument by instrument; the sink is told which, and asks for the
//! book. What batch streams became is never left out: their driver stops while too much of it waits.
//!
//! Never: a wait; a change left out without a word.

use crate::hub::{Hub, HubInstrument, Step};
use connectors::clickhouse::{LeftOut, SinkView, sink::SinkInput};
use market::{AdmittedChanges, AdmittedTrade, LegId, Side, SymbolId, TickChange};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tokio::sync::mpsc;

/// Bytes that wait in front of the sink's queue: seconds of a busy market, for a sink whose task is not run that long.
const BACKLOG_BYTES_MAX: u64 = 64 << 20;

/// The leg of a book that no leg brought: that of the hub. No connection has this number.
const NO_LEG: LegId = LegId(u16::MAX);

/// See the module.
#[derive(Debug)]
pub struct StorePort {
    queue: mpsc::Sender<SinkInput>,
    view: Arc<SinkView>,
    /// Legs of batch streams.
    batch_legs: Vec<LegId>,
    bytes_max: u64,
    backlog: VecDeque<SinkInput>,
    bytes: u64,
    left_out: BTreeMap<SymbolId, LeftOut>,
    trades_left_out: BTreeMap<SymbolId, LeftOut>,
    /// Books that the sink wants.
    wanted: Vec<SymbolId>,
    /// Inputs that the queue took.
    handed: u64,
}

impl StorePort {
    /// A hand-over to a sink's queue.
    #[must_use]
    pub fn new(queue: mpsc::Sender<SinkInput>, view: Arc<SinkView>, batch_legs: Vec<LegId>) -> Self {
        Self {
            queue,
            view,
            batch_legs,
            bytes_max: BACKLOG_BYTES_MAX,
            backlog: VecDeque::new(),
            bytes: 0,
            left_out: BTreeMap::new(),
            trades_left_out: BTreeMap::new(),
            wanted: Vec::new(),
            handed: 0,
        }
    }

    /// Events that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// Whether the sink has all that was handed over, and lacks no whole book.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_empty() && self.view.is_settled(self.handed)
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.left_out.is_empty() && self.trades_left_out.is_empty()
    }

    /// Takes what a step has for the store; the hub stands at that step.
    pub fn take(&mut self, step: &mut Step, hub: &Hub) {
        step.admitted.drain(..).for_each(|changes| self.changes(changes));
        step.admitted_trades.drain(..).for_each(|trade| self.trade(trade));
        for (leg, place) in step.through.drain(..) {
            self.push(SinkInput::Through { leg, place });
        }
        self.give_wanted(hub);
    }

    /// Takes the whole books that the sink wants.
    pub fn give_wanted(&mut self, hub: &Hub) {
        self.wanted.extend(self.view.take_wanted());
        for symbol in std::mem::take(&mut self.wanted) {
            match hub.instrument(symbol).and_then(|instrument| whole(instrument, hub.now_ns())) {
                Some(book) => self.changes(book),
                None => self.wanted.push(symbol),
            }
        }
    }

    fn push(&mut self, input: SinkInput) {
        self.bytes = self.bytes.saturating_add(input.bytes());
        self.backlog.push_back(input);
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    fn changes(&mut self, changes: AdmittedChanges) {
        let of_batches = self.batch_legs.contains(&changes.leg);
        let left_out = self.is_full() || self.left_out.contains_key(&changes.symbol);
        if of_batches || !left_out {
            return self.push(SinkInput::Changes(changes));
        }
        let version = changes.version.to_u128();
        let count = u64::try_from(changes.changes.len()).unwrap_or(u64::MAX);
        let more = LeftOut { first: version, last: version, count, received_ns: changes.received_ns };
        add(&mut self.left_out, changes.symbol, more);
    }

    fn trade(&mut self, trade: AdmittedTrade) {
        if !self.is_full() {
            return self.push(SinkInput::Trade(trade));
        }
        let more = LeftOut::one(u128::from(trade.trade.order), trade.received_ns);
        add(&mut self.trades_left_out, trade.symbol, more);
    }

    /// Hands over what the queue takes.
    pub fn drain(&mut self) {
        while let Some(input) = self.backlog.pop_front() {
            let bytes = input.bytes();
            match self.queue.try_send(input) {
                Ok(()) => {
                    self.bytes = self.bytes.saturating_sub(bytes);
                    self.handed += 1;
                }
                Err(mpsc::error::TrySendError::Full(input)) => {
                    self.backlog.push_front(input);
                    break;
                }
                // The sink's end is noticed where it is awaited; nothing of it is lost silently.
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    self.backlog.clear();
                    self.bytes = 0;
                }
            }
        }
        self.tell();
    }

    /// Tells what was left out, once there is room again: what comes after it is in its place behind it.
    fn tell(&mut self) {
        if self.bytes > self.bytes_max / 2 {
            return;
        }
        for (symbol, left_out) in std::mem::take(&mut self.left_out) {
            self.push(SinkInput::LeftOut { symbol, left_out });
        }
        for (symbol, left_out) in std::mem::take(&mut self.trades_left_out) {
            self.push(SinkInput::TradesLeftOut { symbol, left_out });
        }
    }
}

fn add(all: &mut BTreeMap<SymbolId, LeftOut>, symbol: SymbolId, more: LeftOut) {
    all.entry(symbol).and_modify(|left_out| *left_out = left_out.and(more)).or_insert(more);
}

/// A book as it is shown, whole; none if there is none.
fn whole(instrument: &HubInstrument, shown_ns: u64) -> Option<AdmittedChanges> {
    let version = instrument.version()?;
    let side =
        |side: Side| instrument.levels(side).map(move |level| TickChange::at(side, level.tick_index, level.quantity));
    Some(AdmittedChanges {
        symbol: instrument.symbol(),
        version,
        received_ns: instrument.received_ns(),
        venue_ns: 0,
        scale: instrument.scale(),
        changes: Side::BOTH.into_iter().flat_map(side).collect(),
        places: Vec::new(),
        leg: NO_LEG,
        whole: true,
        shown_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::HubConfig;
    use dataflow::{
        clock::CutClock,
        cut::{BookCut, InstrumentCut, LaneCut},
        sink::SinkMessage,
    };
    use market::{Level, Scale, U256, Version};

    const BATCH: LegId = LegId(0);
    const VENUE: LegId = LegId(1);

    fn changes(symbol: u32, seq: u64, leg: LegId) -> AdmittedChanges {
        AdmittedChanges {
            symbol: SymbolId(symbol),
            version: Version::new(1, seq),
            received_ns: seq,
            venue_ns: 0,
            scale: Scale { price: -2, quantity: -8 },
            changes: vec![TickChange::at(Side::Bid, 100, U256::from(seq))],
            places: Vec::new(),
            leg,
            whole: false,
            shown_ns: 0,
        }
    }

    fn hub() -> Hub {
        let clock = CutClock { origin_ns: 0, cut_ns: 4_000_000 };
        Hub::new(HubConfig { workers: 1, clock, cuts_per_frame: 10, idle_frames: true })
    }

    fn step(admitted: Vec<AdmittedChanges>) -> Step {
        Step { admitted, through: vec![(BATCH, 7)], ..Step::default() }
    }

    #[test]
    fn beyond_the_bound_a_venues_changes_are_left_out_and_told_and_a_batch_streams_never() {
        let (queue, mut taken) = mpsc::channel(1);
        let view = Arc::new(SinkView::default());
        let bytes = SinkInput::Changes(changes(0, 1, VENUE)).bytes();
        let mut port = StorePort { bytes_max: 4 * bytes, ..StorePort::new(queue, view, vec![BATCH]) };
        for seq in 1..=100 {
            let admitted = vec![changes(0, seq, VENUE), changes(1, seq, VENUE), changes(9, seq, BATCH)];
            port.take(&mut step(admitted), &hub());
            port.drain();
        }
        let mut found = Vec::new();
        while !port.is_empty() || !taken.is_empty() {
            found.extend(taken.try_recv());
            port.drain();
        }
        let of_batches =
            found.iter().filter(|input| matches!(input, SinkInput::Changes(changes) if changes.leg == BATCH));
        assert_eq!(of_batches.count(), 100);
        assert_eq!(found.iter().filter(|input| matches!(input, SinkInput::Through { .. })).count(), 100);
        for symbol in [0, 1] {
            let mut next = 1;
            for input in &found {
                match input {
                    SinkInput::Changes(changes) if changes.symbol == SymbolId(symbol) => {
                        assert_eq!(changes.version.seq, next, "nothing after it before it is told");
                        next += 1;
                    }
                    SinkInput::LeftOut { symbol: of, left_out } if *of == SymbolId(symbol) => {
                        assert_eq!(left_out.first, Version::new(1, next).to_u128());
                        assert_eq!(u128::from(left_out.count), left_out.last - left_out.first + 1);
                        next += left_out.count;
                    }
                    _ => {}
                }
            }
            assert_eq!(next, 101, "all is there or told");
        }
    }

    #[test]
    fn a_wanted_book_is_given_as_it_is_shown() {
        let level = |tick_index, quantity: u64| Level { tick_index, quantity: U256::from(quantity) };
        let mut hub = hub();
        let book = BookCut::Snapshot { bids: vec![level(99, 5)], asks: vec![level(101, 6)], horizon: [None; 2] };
        let cut = InstrumentCut {
            symbol: SymbolId(3),
            version: Some(Version::new(1, 8)),
            received_ns: 5,
            scale: Scale { price: -2, quantity: -8 },
            book,
            quote: None,
            feed: None,
            trades: Vec::new(),
            admitted: Vec::new(),
            admitted_trades: Vec::new(),
        };
        hub.take(SinkMessage::Cut(LaneCut { cut: 0, instruments: vec![cut], ..LaneCut::default() }));
        hub.take(SinkMessage::Closed { worker: 0, before: 1 });
        assert!(hub.step().is_some());
        let book = whole(hub.instrument(SymbolId(3)).unwrap(), 4).unwrap();
        assert_eq!((book.version, book.whole, book.shown_ns), (Version::new(1, 8), true, 4));
        let right = [(Side::Bid, 99, 5), (Side::Ask, 101, 6)];
        let right =
            right.map(|(side, index, reserves): (Side, i64, u64)| TickChange::at(side, index, U256::from(reserves)));
        assert_eq!(book.changes, right);
        assert_eq!(whole(&HubInstrument::new(SymbolId(4)), 4), None);
    }
}
