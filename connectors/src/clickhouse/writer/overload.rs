//! What the writer does when the store takes less than comes, in a run: it conflates what waits, instrument by instrument,
//! by the rules of [`super::conflated`]; beyond a second bound it gives the largest instruments up and asks for their whole
//! books. A replay is never here: its source waits.
//!
//! * It begins when the changes of venues that wait pass `pending_bytes_max`. All that was never tried is taken back from
//!   the queue and conflated, and so is all that comes from then on. One batch of it is tried at a time, the instruments
//!   that wait longest first; a batch that was tried stays as it is, since it may be in the store.
//! * It ends when a batch was confirmed and no more than half of the bound waits. Then every change is a row again.
//! * An instrument of which something was left out has a row in `history_gaps`, which is confirmed before the batch
//!   with its changes is tried: the history is never thinner than it says.
//! * Conflated changes are bounded by twice the bound. Beyond it the instrument that occupies most is given up: all
//!   that waits of it is left out, and so is what comes, until a whole book of it comes. That is asked for when the store
//!   is no longer behind, buries what the store has beyond it, and makes the state right again; until then the state
//!   of that instrument is an old one. The book itself, and what follows it, is not given up again: it is bounded by the
//!   ticks that it has.
//! * Trades and messages of venues have bounds of their own. Beyond them the oldest go: trades with a row in
//!   `history_gaps`, messages counted; the next message that is kept names the one before it, which shows the hole.
//!
//! Never: a change of a batch stream left out, whose log is the truth; a gap without its row.

use super::{
    StoreWriter,
    conflated::{Conflated, events_of, one},
    count,
    made::Made,
    options::RECOVERED_PART,
    queue::{Marks, TakenBack, raise},
};
use crate::clickhouse::{
    rows::{GapReason, HistoryGap, LeftOut, Rows, Table},
    trouble::StoreState,
};
use market::{Instrument, LegId, SymbolId};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// What was left out of an instrument that was given up, or of its trades.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) instrument: Arc<Instrument>,
    pub(super) left_out: Option<LeftOut>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Overload {
    pub(super) on: bool,
    /// Instruments that were given up, until a whole book of theirs comes.
    pub(super) given_up: BTreeMap<SymbolId, Missing>,
    /// Those of them whose book has not been asked for.
    wanted: Vec<SymbolId>,
    /// Trades that were left out, until the store takes trades again.
    trades: BTreeMap<SymbolId, Missing>,
}

impl StoreWriter {
    /// Bytes of changes of venues that wait.
    pub(super) fn venue_bytes(&self) -> u64 {
        self.ticks.bytes() + self.held_bytes + self.waiting.bytes() + self.frames.bytes()
    }

    /// Takes an event of a venue.
    pub(super) fn take(&mut self, now_ns: u64, mut made: Made) {
        let symbol = made.symbol;
        if let Some(missing) = self.overload.given_up.get_mut(&symbol) {
            if !made.whole {
                made.rows.iter().for_each(|row| LeftOut::add(&mut missing.left_out, one(row)));
                self.counters.changes_left_out += count(made.rows.len());
                return;
            }
            made.after_loss = true;
            self.make_good(now_ns, symbol);
        }
        let conflate = self.overload.on;
        if let Some(hold) = self.holds.get_mut(&symbol) {
            let before = hold.bytes();
            self.counters.changes_left_out += hold.take(now_ns, made, conflate);
            self.held_bytes = self.held_bytes.saturating_sub(before) + hold.bytes();
        } else if conflate || self.waiting.contains(symbol) {
            self.counters.changes_left_out += self.waiting.take(now_ns, made);
        } else {
            self.store(now_ns, [made].into());
        }
        self.keep_bounds(now_ns);
    }

    /// Notes what was left out elsewhere of an instrument's changes: it is given up.
    pub fn push_left_out(&mut self, symbol: SymbolId, instrument: &Arc<Instrument>, left_out: LeftOut) {
        self.counters.rows_pushed += left_out.count;
        self.counters.changes_left_out += left_out.count;
        self.give_up(symbol, instrument, Some(left_out));
        if !self.overload.on {
            self.want(symbol);
        }
    }

    /// Notes what was left out elsewhere of an instrument's trades.
    pub fn push_trades_left_out(&mut self, symbol: SymbolId, instrument: &Arc<Instrument>, left_out: LeftOut) {
        self.counters.rows_pushed += left_out.count;
        self.counters.trades_left_out += left_out.count;
        self.trade_missing(symbol, instrument, left_out);
    }

    /// Instruments whose whole books are to be pushed, at the version that they are shown at: what was pushed of them
    /// is not in the store. Each is told once, and again if it is given up again.
    pub fn take_wanted(&mut self) -> Vec<SymbolId> {
        std::mem::take(&mut self.overload.wanted)
    }

    /// Whether whole books are lacking, or may be asked for when the store is no longer behind.
    #[must_use]
    pub fn lacks_books(&self) -> bool {
        self.overload.on || !self.overload.given_up.is_empty()
    }

    fn want(&mut self, symbol: SymbolId) {
        if !self.overload.wanted.contains(&symbol) {
            self.overload.wanted.push(symbol);
        }
    }

    fn keep_bounds(&mut self, now_ns: u64) {
        if self.options.replay {
            return;
        }
        if !self.overload.on && self.venue_bytes() > self.options.pending_bytes_max {
            self.begin_overload(now_ns);
        }
        while self.overload.on && self.venue_bytes() > self.options.conflated_bytes_max() {
            let Some(symbol) = self.largest() else { break };
            self.drop_changes(symbol);
        }
    }

    fn begin_overload(&mut self, now_ns: u64) {
        self.overload.on = true;
        self.counters.overloads += 1;
        for hold in self.holds.values_mut().filter(|hold| self.blocks.name(hold.leg).is_none()) {
            let before = hold.bytes();
            self.counters.changes_left_out += hold.conflate();
            self.held_bytes = self.held_bytes.saturating_sub(before) + hold.bytes();
        }
        let mut reached = Marks::default();
        for back in self.ticks.take_all_back() {
            self.conflate(now_ns, back, &mut reached);
        }
        for (symbol, version) in reached {
            if self.waiting.contains(symbol) {
                self.waiting.reach(symbol, version);
            } else if !self.holds.contains_key(&symbol) {
                // It came there by an event without changes.
                self.ticks.append(now_ns, Rows::none(Table::TickUpdates), 0, Some((symbol, version)));
            }
        }
    }

    fn conflate(&mut self, now_ns: u64, back: TakenBack, reached: &mut Marks) {
        let TakenBack { rows: Rows::Ticks(rows), marks, opened_ns } = back else { return };
        marks.into_iter().for_each(|(symbol, version)| raise(reached, symbol, version));
        let known = &self.known;
        let leg_of = |symbol: SymbolId| known.get(&symbol).map_or(LegId(0), |known| known.leg);
        for made in events_of(rows, leg_of) {
            match self.holds.get_mut(&made.symbol) {
                // Rows from before a book that waits for the store's live keys: what it does not name is buried with it.
                Some(hold) => {
                    made.rows.iter().for_each(|row| LeftOut::add(&mut hold.left_out, one(row)));
                    self.counters.changes_left_out += count(made.rows.len());
                }
                None => self.counters.changes_left_out += self.waiting.take(opened_ns.min(now_ns), made),
            }
        }
    }

    /// The instrument of which most waits, among those of which something can be given up: none whose book has come to
    /// make good a loss, or a book that is larger than the bound would be asked for for ever.
    fn largest(&self) -> Option<SymbolId> {
        let held = self.holds.iter().filter(|(_, hold)| self.blocks.name(hold.leg).is_none() && !hold.makes_good());
        let held = held.map(|(symbol, hold)| (*symbol, hold.bytes())).max_by_key(|(symbol, bytes)| (*bytes, symbol.0));
        let largest =
            self.waiting.largest().into_iter().chain(held).max_by_key(|(symbol, bytes)| (*bytes, symbol.0))?;
        Some(largest.0)
    }

    /// Gives up all that waits of an instrument.
    fn drop_changes(&mut self, symbol: SymbolId) {
        let mut sum: Option<LeftOut> = None;
        let mut instrument: Option<Arc<Instrument>> = None;
        if let Some(hold) = self.holds.remove(&symbol) {
            self.held_bytes = self.held_bytes.saturating_sub(hold.bytes());
            hold.left_out.into_iter().for_each(|left_out| LeftOut::add(&mut sum, left_out));
            for made in hold.events {
                made.rows.iter().for_each(|row| LeftOut::add(&mut sum, one(row)));
                self.counters.changes_left_out += count(made.rows.len());
                instrument.get_or_insert_with(|| Arc::clone(&made.instrument));
            }
            self.drop_conflated(hold.later, &mut sum, &mut instrument);
        }
        let waiting = self.waiting.remove(symbol);
        self.drop_conflated(waiting, &mut sum, &mut instrument);
        if let Some(instrument) = instrument {
            self.give_up(symbol, &instrument, sum);
        }
    }

    fn drop_conflated(
        &mut self,
        conflated: Option<Conflated>,
        sum: &mut Option<LeftOut>,
        instrument: &mut Option<Arc<Instrument>>,
    ) {
        let Some(conflated) = conflated else { return };
        let before = conflated.changes_left_out();
        let (head, left_out) = conflated.into_left_out();
        let all = left_out.map_or(0, |left_out| left_out.count);
        self.counters.changes_left_out += all.saturating_sub(before);
        left_out.into_iter().for_each(|left_out| LeftOut::add(sum, left_out));
        instrument.get_or_insert_with(|| Arc::clone(&head.instrument));
    }

    fn give_up(&mut self, symbol: SymbolId, instrument: &Arc<Instrument>, left_out: Option<LeftOut>) {
        let new = || Missing { instrument: Arc::clone(instrument), left_out: None };
        let missing = self.overload.given_up.entry(symbol).or_insert_with(new);
        left_out.into_iter().for_each(|left_out| LeftOut::add(&mut missing.left_out, left_out));
        self.counters.instruments_given_up += 1;
    }

    /// A whole book of an instrument that was given up is here: it asks the store what it has beyond it.
    fn make_good(&mut self, now_ns: u64, symbol: SymbolId) {
        let Some(missing) = self.overload.given_up.remove(&symbol) else { return };
        self.overload.wanted.retain(|wanted| *wanted != symbol);
        self.note_gap(now_ns, &missing.instrument, GapReason::StoreBehind, missing.left_out);
    }

    /// Puts a gap on record; it is confirmed before the batch that is being filled is tried.
    pub(super) fn note_gap(
        &mut self,
        now_ns: u64,
        instrument: &Arc<Instrument>,
        reason: GapReason,
        left_out: Option<LeftOut>,
    ) {
        let Some(left_out) = left_out else { return };
        let gap = HistoryGap { instrument: Arc::clone(instrument), reason, left_out };
        self.counters.gaps_noted += 1;
        self.counters.rows_pushed += 1;
        self.gaps.append(now_ns, Rows::Gaps(vec![gap]), count(size_of::<HistoryGap>()), None);
        if reason == GapReason::StoreBehind {
            self.ticks.wait_for_gaps(self.gaps.needed());
        }
    }

    /// Stores events of an instrument, in their order; beginning with a book that needs the store's live keys they are held.
    pub(super) fn store(&mut self, now_ns: u64, mut events: VecDeque<Made>) {
        while let Some(made) = events.pop_front() {
            if self.needs_live_keys(&made) {
                events.push_front(made);
                self.hold(now_ns, events);
                return;
            }
            self.append(now_ns, made, Vec::new());
        }
    }

    /// Stores what waited of an instrument, with its gap.
    pub(super) fn release(&mut self, now_ns: u64, conflated: Conflated) {
        let (events, left_out) = conflated.into_events();
        let Some(instrument) = events.front().map(|made| Arc::clone(&made.instrument)) else { return };
        self.note_gap(now_ns, &instrument, GapReason::StoreBehind, left_out);
        self.store(now_ns, events);
    }

    /// Fills the next batch from what waits conflated, once there is no other.
    pub(super) fn hand_over(&mut self, now_ns: u64) {
        if !self.overload.on || !self.ticks.is_idle() {
            return;
        }
        while !self.ticks.has_closed()
            && let Some(conflated) = self.waiting.pop()
        {
            self.release(now_ns, conflated);
        }
        self.ticks.close();
        let nothing_tried = self.ticks.is_idle() && self.waiting.is_empty() && self.state() < StoreState::Failing;
        if nothing_tried {
            // No confirmation will tell that the store takes rows again.
            self.recover(now_ns);
        }
    }

    /// A batch of changes was confirmed, or none waits.
    pub(super) fn recover(&mut self, now_ns: u64) {
        if !self.overload.on || self.venue_bytes() > self.options.pending_bytes_max / RECOVERED_PART {
            return;
        }
        self.overload.on = false;
        while let Some(conflated) = self.waiting.pop() {
            self.release(now_ns, conflated);
        }
        let given_up: Vec<SymbolId> = self.overload.given_up.keys().copied().collect();
        given_up.into_iter().for_each(|symbol| self.want(symbol));
    }

    fn trade_missing(&mut self, symbol: SymbolId, instrument: &Arc<Instrument>, left_out: LeftOut) {
        let new = || Missing { instrument: Arc::clone(instrument), left_out: None };
        let missing = self.overload.trades.entry(symbol).or_insert_with(new);
        LeftOut::add(&mut missing.left_out, left_out);
    }

    /// Leaves out the oldest trades beyond their bound.
    pub(super) fn shorten_trades(&mut self) {
        if self.options.replay {
            return;
        }
        for back in self.trades.shorten(self.options.trades_bytes_max()) {
            let Rows::Trades(rows) = back.rows else { continue };
            self.counters.trades_left_out += count(rows.len());
            for row in rows {
                let admitted = &row.admitted;
                let left_out = LeftOut::one(u128::from(admitted.trade.order), admitted.received_ns);
                self.trade_missing(admitted.symbol, &row.instrument, left_out);
            }
        }
    }

    /// Leaves out the oldest messages beyond their bound.
    pub(super) fn shorten_raw(&mut self) {
        if !self.options.replay {
            let dropped = self.raw.shorten(self.options.raw_bytes_max());
            self.counters.raw_left_out += dropped.iter().map(|back| count(back.rows.len())).sum::<u64>();
        }
    }

    /// Puts the trades that were left out on record: the store takes trades again, or it is the end.
    pub(super) fn note_trades(&mut self, now_ns: u64) {
        for missing in std::mem::take(&mut self.overload.trades).into_values() {
            self.note_gap(now_ns, &missing.instrument, GapReason::TradesLeftOut, missing.left_out);
        }
    }

    /// Puts all that is missing on record, at the end.
    pub(super) fn note_all(&mut self, now_ns: u64) {
        self.note_trades(now_ns);
        // They stay given up: only a whole book makes them right.
        let given_up = self.overload.given_up.values_mut();
        let missing: Vec<_> =
            given_up.map(|missing| (Arc::clone(&missing.instrument), missing.left_out.take())).collect();
        for (instrument, left_out) in missing {
            self.note_gap(now_ns, &instrument, GapReason::StoreBehind, left_out);
        }
    }

    /// How the store does.
    pub(super) fn state(&self) -> StoreState {
        let queues = [&self.gaps, &self.raw, &self.wholes, &self.ticks, &self.trades].map(super::TableQueue::trouble);
        let unread = self.holds.values().any(|hold| hold.failures > 0).then_some(StoreState::Failing);
        let behind = self.overload.on.then_some(StoreState::Behind);
        let all = queues.into_iter().chain([self.blocks.trouble()]).chain(unread).chain(behind);
        all.max().unwrap_or_default()
    }
}
