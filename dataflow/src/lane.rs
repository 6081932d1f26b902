//! The lane: the single writer of its instruments. Admits on arrival, applies at once, and says at the close of a cut
//! what changed. A pure state machine; `operator` runs it inside timely.
//!
//! Bounds in time are met at the first cut that ends no earlier, whichever cuts happen to be visited, so that output
//! depends on the input alone.
//!
//! Never: a clock, or anything of another instrument when one is broken.

mod ahead;
mod instrument;
mod kept;
mod leads;
mod legs;
mod pulse;
mod tally;
mod timers;
mod views;

use crate::{
    clock::CutClock,
    copy::BookCopy,
    cut::{LaneCut, PriorityUpdate},
    priority::PriorityBoard,
    views::ViewRules,
};
use instrument::Instrument;
use legs::Legs;
use market::{Ask, Best, Body, Event, FeedState, LegId, PairId, SymbolId, guard::Limits};
use std::sync::Arc;
use tally::Tally;
use timers::Timers;

pub use views::PartChange;

/// How a lane behaves.
#[derive(Clone, Copy, Debug)]
pub struct LaneConfig {
    /// The grid of cuts.
    pub clock: CutClock,
    /// Bounds of each guard.
    pub limits: Limits,
    /// A connection silent for this long makes its instruments stale, nanoseconds; an instrument is not silent before.
    pub silent_ns: u64,
    /// An instrument silent for so many times its median interval is stale although its connection ticks; 0 = never.
    pub silent_intervals: u64,
    /// Whether admitted changes are handed on for the store.
    pub admitted: bool,
}

/// A pair's candidate for its best: what an instrument offered before, and what it offers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuoteChange {
    /// The pair.
    pub pair: PairId,
    /// What it offered, if anything.
    pub before: Option<Best>,
    /// What it offers, if anything.
    pub now: Option<Best>,
}

/// All instruments of one worker.
pub struct Lane {
    config: LaneConfig,
    instruments: Vec<Option<Box<Instrument>>>,
    dirty: Vec<SymbolId>,
    timers: Timers,
    /// When instruments are looked at for their silence; apart, since a replay's end does not wait for it.
    silences: Timers,
    legs: Legs,
    tally: Tally,
    /// Positions of log streams that everything before has been taken of.
    through: Vec<(LegId, u64)>,
    /// Instruments that were kept later than where their log stream is.
    behind: Vec<(LegId, SymbolId)>,
    input_bytes: u64,
    /// Who is wanted ahead of its cut; none where nobody can be.
    board: Option<Arc<PriorityBoard>>,
    /// The board's number of wishes when it was last looked at.
    wishes: u64,
    ahead: Vec<PriorityUpdate>,
    /// The standing views; none where none are kept.
    rules: ViewRules,
    parts: Vec<PartChange>,
    /// What audits have asked for since the last close.
    asked: Vec<(SymbolId, Ask)>,
}

impl Lane {
    /// An empty lane.
    #[must_use]
    pub fn new(config: LaneConfig) -> Self {
        Self {
            config,
            instruments: Vec::new(),
            dirty: Vec::new(),
            timers: Timers::default(),
            silences: Timers::default(),
            legs: Legs::new(config.silent_ns),
            tally: Tally::default(),
            through: Vec::new(),
            behind: Vec::new(),
            input_bytes: 0,
            board: None,
            wishes: 0,
            ahead: Vec::new(),
            rules: ViewRules::default(),
            parts: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// The same lane, which tells ahead of their cut what the board wants.
    #[must_use]
    pub fn with_priority(mut self, board: Arc<PriorityBoard>) -> Self {
        self.board = Some(board);
        self
    }

    /// The same lane, which tells what its books add to these standing views.
    #[must_use]
    pub fn with_views(self, rules: ViewRules) -> Self {
        Self { rules, ..self }
    }

    /// Moves what the last closed cuts changed of what books add to standing views, instruments by number.
    pub fn take_parts(&mut self, out: &mut Vec<PartChange>) {
        out.append(&mut self.parts);
    }

    /// Moves what is told ahead of its cut, in the order in which it happened. A wish that came since for a quiet
    /// instrument is served here.
    #[inline]
    pub fn tell_ahead(&mut self, out: &mut Vec<PriorityUpdate>) {
        if let Some(board) = &self.board {
            let wishes = board.wishes();
            if wishes != self.wishes {
                self.wishes = wishes;
                for instrument in self.instruments.iter_mut().flatten() {
                    instrument.tell_ahead(board.mark(instrument.symbol()), &mut self.ahead);
                }
            }
        }
        out.append(&mut self.ahead);
    }

    /// Takes an event: decides, and applies what is admitted.
    #[inline]
    pub fn take(&mut self, event: Event) {
        self.input_bytes = self.input_bytes.saturating_add(event.bytes());
        match event.body {
            Body::LegHeard => self.legs.heard(event.leg, event.received_ns, &mut self.dirty),
            Body::LegUp => self.leg_up(event.leg, event.received_ns),
            Body::LegDown => self.leg_down(event.leg, event.received_ns),
            Body::Halted => self.legs.halted(event.leg, event.received_ns, true, &mut self.dirty),
            Body::Resumed => self.resumed(event.leg, event.received_ns),
            Body::Hole => self.legs.incomplete(event.leg, true, &mut self.dirty),
            Body::Filled => self.legs.incomplete(event.leg, false, &mut self.dirty),
            Body::Through(place) => self.passed(event.leg, place, event.route == 0),
            Body::End => {}
            Body::Copy(ask) => self.asked.push((event.symbol, ask)),
            Body::Listing(listing) => {
                let at = index(event.symbol);
                if self.instruments.len() <= at {
                    self.instruments.resize_with(at + 1, || None);
                }
                if let Some(place) = self.instruments.get_mut(at).filter(|place| place.is_none()) {
                    *place = Some(Box::new(Instrument::new(event.symbol, listing, event.received_ns, &self.config)));
                    self.dirty.push(event.symbol);
                }
            }
            _ => self.take_instrument(event),
        }
    }

    /// Instruments that nothing carried yet are told too: their time to wait for the venue begins now.
    fn leg_up(&mut self, leg: LegId, now_ns: u64) {
        self.legs.up(leg);
        for instrument in self.instruments.iter_mut().flatten() {
            if instrument.leg_up(leg, now_ns) {
                self.dirty.push(instrument.symbol());
            }
        }
    }

    /// A log stream has passed a place. One lane tells it on for all of them.
    fn passed(&mut self, leg: LegId, place: u64, tells: bool) {
        if tells {
            self.through.push((leg, place));
        }
        let (instruments, dirty) = (&mut self.instruments, &mut self.dirty);
        self.behind.retain(|(of, symbol)| {
            if *of != leg {
                return true;
            }
            let Some(instrument) = instruments.get_mut(index(*symbol)).and_then(Option::as_mut) else { return false };
            instrument.passed(place);
            let behind = instrument.is_behind_kept();
            if !behind && instrument.mark_dirty() {
                dirty.push(*symbol);
            }
            behind
        });
    }

    /// What an instrument did not say while its market stood still is not held against it.
    fn resumed(&mut self, leg: LegId, now_ns: u64) {
        self.legs.halted(leg, now_ns, false, &mut self.dirty);
        for symbol in self.legs.carried(leg) {
            let instrument = self.instruments.get_mut(index(*symbol)).and_then(Option::as_mut);
            if let Some(instrument) = instrument {
                instrument.excuse(now_ns);
                note_silence(instrument, &self.config.clock, &mut self.silences);
            }
        }
    }

    fn leg_down(&mut self, leg: LegId, now_ns: u64) {
        for symbol in self.legs.down(leg, &mut self.dirty) {
            let instrument = self.instruments.get_mut(index(symbol)).and_then(Option::as_mut);
            if let Some(instrument) = instrument {
                let last = self.legs.down_all(instrument.legs());
                instrument.leg_down(leg, last.then_some(now_ns));
            }
        }
    }

    #[inline]
    fn take_instrument(&mut self, event: Event) {
        let symbol = event.symbol;
        let Some(instrument) = self.instruments.get_mut(index(symbol)).and_then(Option::as_mut) else {
            self.tally.lane.unanchored += 1;
            return;
        };
        if carries(&event.body) && instrument.joins(event.leg) {
            self.legs.join(event.leg, symbol);
        }
        if event.begins_synthesized() {
            // Without ids the stream is one leg's: the others' signs of life say nothing about it.
            for other in instrument.carried_alone_by(event.leg) {
                self.legs.leave(other, symbol);
            }
        }
        let (leg, restored) = (event.leg, matches!(event.body, Body::Restored(_)));
        instrument.take(event, &mut self.tally);
        if restored && instrument.is_behind_kept() {
            self.behind.push((leg, symbol));
        }
        if let Some(board) = &self.board {
            instrument.tell_ahead(board.mark(symbol), &mut self.ahead);
        }
        if instrument.mark_dirty() {
            self.dirty.push(symbol);
        }
        note_silence(instrument, &self.config.clock, &mut self.silences);
        if let Some(deadline_ns) = instrument.deadline_ns() {
            let due = self.config.clock.due(deadline_ns);
            if instrument.reschedule(due) {
                self.timers.schedule(due, symbol);
            }
        }
    }

    /// The next cut at which something is due even if no event arrives. Without `waiting`, only what the guards have
    /// pending of what they hold counts, for the end of a replay.
    #[must_use]
    pub fn next_due(&self, waiting: bool) -> Option<u64> {
        let timer = self.timers.next();
        if !waiting {
            return timer;
        }
        let leg = self.legs.deadline_ns().map(|deadline_ns| self.config.clock.due(deadline_ns));
        timer.into_iter().chain(leg).chain(self.silences.next()).min()
    }

    /// Closes a cut: everything due is done, and what changed is pushed, instruments by number. Silence of a leg or an
    /// instrument counts only while `waiting` for input.
    pub fn close(&mut self, cut: u64, waiting: bool, out: &mut LaneCut, quotes: &mut Vec<QuoteChange>) {
        out.cut = cut;
        out.input_bytes = std::mem::take(&mut self.input_bytes);
        if waiting {
            self.legs.expire(self.config.clock.end_ns(cut), &mut self.dirty);
            self.silences.due(cut, &mut self.dirty);
        }
        self.timers.due(cut, &mut self.dirty);
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        out.instruments.reserve(dirty.len());
        for symbol in &dirty {
            self.close_instrument(*symbol, cut, waiting, out, quotes);
        }
        dirty.clear();
        self.dirty = dirty;
        for (symbol, ask) in self.asked.drain(..) {
            let instrument = self.instruments.get(index(symbol)).and_then(Option::as_ref);
            out.copies.push(instrument.map_or_else(|| BookCopy::unknown(ask.ticket, symbol), |known| known.copy(ask)));
        }
        out.through.append(&mut self.through);
        self.tally.close(out);
    }

    fn close_instrument(
        &mut self,
        symbol: SymbolId,
        cut: u64,
        waiting: bool,
        out: &mut LaneCut,
        quotes: &mut Vec<QuoteChange>,
    ) {
        let end_ns = self.config.clock.end_ns(cut);
        let Some(instrument) = self.instruments.get_mut(index(symbol)).and_then(Option::as_mut) else { return };
        if instrument.poll(cut, end_ns, &mut self.tally) {
            out.requests.push(symbol);
        }
        if waiting && let Some(look_ns) = instrument.expire(end_ns) {
            self.silences.schedule(self.config.clock.due(look_ns), symbol);
        }
        if let Some(board) = &self.board {
            instrument.tell_ahead(board.mark(symbol), &mut self.ahead);
        }
        let marks = self.legs.marks(instrument.legs());
        if let Some(published) = instrument.publish(marks, end_ns, &mut self.tally.lane) {
            quotes.extend(instrument.quote_change());
            instrument.tell_parts(&self.rules, &published, &mut self.parts);
            out.instruments.push(published);
        }
        if let Some(deadline_ns) = instrument.deadline_ns() {
            // What could not be done at this close is due at the next one at the earliest.
            let due = self.config.clock.due(deadline_ns.max(end_ns.saturating_add(1)));
            if instrument.reschedule(due) {
                self.timers.schedule(due, symbol);
            }
        }
    }

    /// Live ticks of all books.
    #[must_use]
    pub fn live_ticks(&self) -> usize {
        self.instruments.iter().flatten().map(|instrument| instrument.live_ticks()).sum()
    }

    /// What an instrument's guard knows of its feed.
    #[must_use]
    pub fn state(&self, symbol: SymbolId) -> Option<FeedState> {
        self.instruments.get(index(symbol)).and_then(Option::as_ref).map(|instrument| instrument.state())
    }
}

/// Whether the event shows that its leg carries the instrument. A book that goes on from a log belongs to the log's leg.
fn carries(body: &Body) -> bool {
    match body {
        Body::Delta(_) | Body::Snapshot(_) => true,
        Body::Restored(restored) => restored.from_log,
        _ => false,
    }
}

/// Notes when the instrument is to be looked at for its silence.
#[inline]
fn note_silence(instrument: &mut Instrument, clock: &CutClock, silences: &mut Timers) {
    if let Some(look_ns) = instrument.silence_ns() {
        silences.schedule(clock.due(look_ns), instrument.symbol());
    }
}

fn index(symbol: SymbolId) -> usize {
    usize::try_from(symbol.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
