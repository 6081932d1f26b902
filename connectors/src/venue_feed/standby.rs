//! Books without ids of the venue: the connections of one instrument cannot be merged, so one leg's book is shown, and the
//! others stand by with books of their own, held to the same rules. One of them takes over when the shown one's leg ends,
//! fails its check, or is silent while another ticks.
//!
//! Never: a book shown after its check failed; two legs mixed in one book.

mod held;

use super::{
    Arrival, Books, FeedCounts, Undecodable,
    check::{Check, Evidence, Judgement},
    listings::Listings,
    number::{LevelText, Steps, Subject},
    numbered::BookText,
    pulse::Pulse,
    streams::Streams,
    text_book::TextBook,
    trades::{MadeIds, TradeText, UnnamedTrade},
};
use held::{Held, Row};
use market::{
    Body, Delta, Event, LegId, Sequence, Snapshot, SymbolId, Venue, Window, feed::SILENT_NS_MIN, guard::BreakReason,
};
use std::sync::Arc;

/// One instrument.
#[derive(Debug)]
pub(crate) struct StandbyStream {
    pub(crate) symbol: SymbolId,
    /// Of all legs, so that any of their books can be told in them.
    pub(crate) steps: Steps,
    /// The leg whose book is shown; none while no leg has one that is verified.
    active: Option<LegId>,
    /// Where in the order of arrival a book was taken over last.
    taken_at: Option<u64>,
    check: Check,
    books: Vec<LegBook>,
}

/// One instrument's book on one leg.
#[derive(Debug)]
struct LegBook {
    leg: LegId,
    text: TextBook,
    window: Window,
    /// A snapshot came, and nothing was wrong since.
    verified: bool,
    /// The venue's time of the last message, Unix nanoseconds.
    venue_ns: u64,
    pulse: Pulse,
    /// What waits for a checksum.
    held: Held,
}

/// All of one venue.
#[derive(Debug)]
pub(crate) struct Standby {
    streams: Streams<StandbyStream>,
    repairs: Vec<(LegId, Box<str>)>,
    ticking: Ticking,
    /// No change has waited long enough before, Unix nanoseconds; none while none waits.
    due_ns: Option<u64>,
    /// What happened to the feed.
    pub(crate) counts: FeedCounts,
}

/// When each leg was heard last, of whatever it carries.
#[derive(Debug)]
struct Ticking {
    /// See [`Listings::with_silent_intervals`].
    intervals: u64,
    legs: Vec<(LegId, u64)>,
}

impl Ticking {
    fn ticks(&mut self, leg: LegId, now_ns: u64) {
        match self.legs.iter_mut().find(|(known, _)| *known == leg) {
            Some((_, heard_ns)) => *heard_ns = now_ns,
            None => self.legs.push((leg, now_ns)),
        }
    }

    /// Whether a leg said anything lately; a book of one that did not may be as old as its silence.
    fn is(&self, leg: LegId, now_ns: u64) -> bool {
        let heard = self.legs.iter().find(|(known, _)| *known == leg);
        heard.is_some_and(|(_, heard_ns)| now_ns < heard_ns.saturating_add(SILENT_NS_MIN))
    }
}

/// What becomes of a book after a message was applied to it, if its check says nothing against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is the shown one.
    Shown,
    /// It is shown from now on: the leg that was is silent.
    TakesOver,
    StandsBy,
}

impl StandbyStream {
    fn new(symbol: SymbolId, steps: Steps) -> Self {
        Self { symbol, steps, active: None, taken_at: None, check: Check::default(), books: Vec::new() }
    }

    /// The book of a leg, an empty one if it had none.
    fn book(&mut self, leg: LegId) -> Option<&mut LegBook> {
        let at = self.books.iter().position(|book| book.leg == leg).unwrap_or_else(|| {
            let (text, pulse, held) = (TextBook::default(), Pulse::default(), Held::default());
            self.books.push(LegBook { leg, text, window: Window::Whole, verified: false, venue_ns: 0, pulse, held });
            self.books.len() - 1
        });
        self.books.get_mut(at)
    }

    fn place(&self, arrival: Arrival<'_>, whole: bool, intervals: u64) -> Place {
        let Some(active) = self.active else { return if whole { Place::Shown } else { Place::TakesOver } };
        if active == arrival.leg {
            return Place::Shown;
        }
        let of = |leg| self.books.iter().find(move |book| book.leg == leg);
        let (Some(own), Some(shown)) = (of(arrival.leg), of(active)) else { return Place::StandsBy };
        let silent = shown.pulse.is_silent(arrival.frame.ts_ns, intervals) && own.pulse.is_ahead_of(&shown.pulse);
        // Two whole books at one place in the order of arrival would be one too many.
        if silent && self.taken_at != Some(arrival.position) { Place::TakesOver } else { Place::StandsBy }
    }

    /// A leg's whole book as an event.
    fn whole(&mut self, subject: Subject<'_>, leg: LegId, arrival: Arrival<'_>) -> Option<Event> {
        let book = self.books.iter().find(|book| book.leg == leg)?;
        // Every text was parsed before, so an error cannot be met; the book stays broken then.
        let ticks = subject.levels(&mut self.steps, book.text.levels()).ok()?;
        let (sequence, window) = (Sequence::Arrival(arrival.position), book.window);
        let body = Body::Snapshot(Snapshot { sequence, scale: self.steps.scale(), ticks, window });
        Some(Event::of(self.symbol, leg, arrival.frame.ts_ns, book.venue_ns, body))
    }

    /// The book of a leg counts no more. If it was the shown one, another verified book takes over: the one that ticked
    /// last. Whether one did.
    fn lost(
        &mut self,
        subject: Subject<'_>,
        arrival: Arrival<'_>,
        reason: BreakReason,
        ticking: &Ticking,
        out: &mut Vec<Event>,
    ) -> bool {
        if let Some(book) = self.books.iter_mut().find(|book| book.leg == arrival.leg) {
            book.verified = false;
            book.held.take();
        }
        if self.active != Some(arrival.leg) {
            return false;
        }
        let now_ns = arrival.frame.ts_ns;
        let shown = self.books.iter().find(|book| book.leg == arrival.leg);
        let behind = |book: &LegBook| shown.is_some_and(|shown| book.pulse.is_behind(&shown.pulse));
        let silent = |book: &LegBook| book.pulse.is_silent(now_ns, ticking.intervals);
        // A silence that it shares with the shown one is the market's.
        let lives = |book: &&LegBook| ticking.is(book.leg, now_ns) && !(silent(book) && behind(book));
        let verified = self.books.iter().filter(|book| book.verified).filter(lives);
        // Of several that ticked at one moment the first.
        let standby = verified.rev().max_by_key(|book| book.pulse.last_ns()).map(|book| book.leg);
        self.active = standby;
        let taken = standby.and_then(|leg| self.whole(subject, leg, arrival));
        let taken_over = taken.is_some();
        self.taken_at = taken_over.then_some(arrival.position);
        let broken = || Event::of(self.symbol, arrival.leg, arrival.frame.ts_ns, 0, Body::Broken(reason));
        out.push(taken.unwrap_or_else(broken));
        taken_over
    }
}

impl LegBook {
    /// Something of the instrument came on the leg, of use or not: its subscription lives.
    fn heard(&mut self, now_ns: u64) -> &mut Self {
        self.pulse.beat(now_ns);
        self
    }

    /// Applies levels in their order; whether all of them could be.
    fn apply<'a>(&mut self, levels: impl Iterator<Item = LevelText<'a>>) -> bool {
        for level in levels {
            // The same text was parsed just before, so an error here cannot be met; it would break the check.
            if self.text.apply(level).is_err() {
                return false;
            }
        }
        if let Window::Best(depth) = self.window {
            self.text.truncate(usize::try_from(depth).unwrap_or(usize::MAX));
        }
        true
    }
}

impl Standby {
    pub(crate) fn new(venue: Venue, listings: Arc<Listings>) -> Self {
        let streams = Streams::new(venue, listings);
        let ticking = Ticking { intervals: streams.silent_intervals(), legs: Vec::new() };
        Self { streams, repairs: Vec::new(), ticking, due_ns: None, counts: FeedCounts::default() }
    }

    /// What is known of a symbol, which is listed if it is new.
    ///
    /// # Errors
    /// [`Undecodable`] if it cannot be.
    pub(crate) fn stream(
        &mut self,
        symbol: &str,
        arrival: Arrival<'_>,
        out: &mut Vec<Event>,
    ) -> Result<&mut StandbyStream, Undecodable> {
        self.streams.listed(symbol, false, arrival, out, StandbyStream::new)
    }

    /// A whole book. `check` compares it with what the venue says of it, if it says anything.
    ///
    /// # Errors
    /// [`Undecodable`]; the leg's book is lost then.
    pub(crate) fn snapshot<'a>(
        &mut self,
        arrival: Arrival<'_>,
        text: BookText<'_, impl Iterator<Item = LevelText<'a>> + Clone>,
        check: impl FnOnce(&TextBook) -> Option<bool>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        self.ticking.ticks(arrival.leg, arrival.frame.ts_ns);
        let stream = self.stream(text.symbol, arrival, out)?;
        if let Some(book) = stream.book(arrival.leg) {
            book.heard(arrival.frame.ts_ns).text.clear();
            (book.window, book.held) = (text.window, Held::default());
        }
        self.apply(arrival, true, text, check, out)
    }

    /// Changes of a book; without effect before its snapshot.
    ///
    /// # Errors
    /// [`Undecodable`]; the leg's book is lost then.
    pub(crate) fn update<'a>(
        &mut self,
        arrival: Arrival<'_>,
        text: BookText<'_, impl Iterator<Item = LevelText<'a>> + Clone>,
        check: impl FnOnce(&TextBook) -> Option<bool>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        self.ticking.ticks(arrival.leg, arrival.frame.ts_ns);
        let stream = self.stream(text.symbol, arrival, out)?;
        if !stream.book(arrival.leg).is_some_and(|book| book.heard(arrival.frame.ts_ns).verified) {
            self.counts.ignored += 1;
            return Ok(());
        }
        self.apply(arrival, false, text, check, out)
    }

    fn apply<'a>(
        &mut self,
        arrival: Arrival<'_>,
        snapshot: bool,
        text: BookText<'_, impl Iterator<Item = LevelText<'a>> + Clone>,
        check: impl FnOnce(&TextBook) -> Option<bool>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let BookText { symbol, levels, venue_ns, .. } = text;
        let subject = Subject { venue: self.streams.venue(), symbol };
        let Some(stream) = self.streams.get_mut(symbol) else { return Ok(()) };
        let changes = match subject.levels(&mut stream.steps, levels.clone()) {
            Ok(changes) => changes,
            Err(error) => {
                self.fail(arrival, symbol, BreakReason::Undecodable, out);
                return Err(error);
            }
        };
        let (place, now_ns) = (stream.place(arrival, snapshot, self.ticking.intervals), arrival.frame.ts_ns);
        let Some(book) = stream.book(arrival.leg) else { return Ok(()) };
        let window = book.window;
        let matched = if book.apply(levels) { check(&book.text) } else { Some(false) };
        let evidence = if snapshot { Evidence::Whole } else { Evidence::Change };
        if !judge(&mut stream.check, evidence, matched, &mut self.counts) {
            self.fail(arrival, symbol, BreakReason::Checksum, out);
            return Ok(());
        }
        let Some(book) = stream.book(arrival.leg) else { return Ok(()) };
        (book.verified, book.venue_ns) = (true, venue_ns);
        match place {
            Place::StandsBy => {
                self.counts.ignored += 1;
                return Ok(());
            }
            Place::TakesOver => {
                let silent = stream.active.replace(arrival.leg);
                stream.taken_at = Some(arrival.position);
                out.extend(stream.whole(subject, arrival.leg, arrival));
                self.counts.switches += 1;
                if let Some(silent) = silent {
                    // Should it speak again, nobody knows what it left out.
                    if let Some(book) = stream.book(silent) {
                        book.verified = false;
                    }
                    self.repair(silent, symbol);
                }
                return Ok(());
            }
            Place::Shown => stream.active = Some(arrival.leg),
        }
        let (sequence, scale) = (Sequence::Arrival(arrival.position), stream.steps.scale());
        let body = if snapshot {
            Body::Snapshot(Snapshot { sequence, scale, ticks: changes, window })
        } else {
            Body::Delta(Delta { sequence, scale, changes, window, places: Vec::new() })
        };
        out.push(Event::of(stream.symbol, arrival.leg, now_ns, venue_ns, body));
        Ok(())
    }

    /// Changes of a book which the venue's checksum follows in a message of its own: they wait for it, see
    /// [`Standby::verify`], and are one change then.
    ///
    /// # Errors
    /// [`Undecodable`]; the leg's book is lost then.
    pub(crate) fn hold<'a>(
        &mut self,
        arrival: Arrival<'_>,
        text: BookText<'_, impl Iterator<Item = LevelText<'a>> + Clone>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let (symbol, leg, now_ns) = (text.symbol, arrival.leg, arrival.frame.ts_ns);
        let subject = Subject { venue: self.streams.venue(), symbol };
        let book = self.streams.get_mut(symbol).and_then(|stream| {
            let book = stream.books.iter_mut().find(|book| book.leg == leg && book.verified)?;
            book.held.waits(now_ns).then_some((&mut book.held, &mut stream.steps))
        });
        let Some((held, steps)) = book else { return self.update(arrival, text, |_| None, out) };
        if let Err(error) = subject.levels(steps, text.levels.clone()) {
            self.fail(arrival, symbol, BreakReason::Undecodable, out);
            return Err(error);
        }
        held.keep(text.levels);
        if held.is_full(now_ns) {
            return self.tell_unchecked(arrival, symbol, out);
        }
        self.due_ns = [self.due_ns, held.due_ns()].into_iter().flatten().min();
        self.ticking.ticks(leg, now_ns);
        Ok(())
    }

    /// Compares a leg's book with what the venue says of it in a message of its own, which comes after the changes that
    /// it covers; those that waited for it are told. Without effect where the leg has no book.
    ///
    /// # Errors
    /// [`Undecodable`]; the leg's book is lost then.
    pub(crate) fn verify(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        check: impl FnOnce(&TextBook) -> bool,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let Some(stream) = self.streams.get_mut(symbol) else { return Ok(()) };
        let book = stream.books.iter_mut().find(|book| book.leg == arrival.leg && book.verified);
        let Some(book) = book else { return Ok(()) };
        book.held.checked(arrival.frame.ts_ns);
        let rows = book.held.take();
        if !rows.is_empty() {
            return self.tell_held(arrival, symbol, &rows, |book| Some(check(book)), out);
        }
        let matched = check(&book.text);
        if !judge(&mut stream.check, Evidence::Change, Some(matched), &mut self.counts) {
            self.fail(arrival, symbol, BreakReason::Checksum, out);
        }
        Ok(())
    }

    /// Tells what has waited long enough for a checksum, of every book but that of `but`, of which the arrival itself may
    /// tell something: two changes of one book at one place in the order of arrival would be one too many.
    ///
    /// # Errors
    /// [`Undecodable`]; the leg's book is lost then.
    pub(crate) fn release(
        &mut self,
        arrival: Arrival<'_>,
        but: Option<&str>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let now_ns = arrival.frame.ts_ns;
        if self.due_ns.is_none_or(|due_ns| now_ns < due_ns) {
            return Ok(());
        }
        let (mut due, mut next_ns): (Vec<(LegId, Box<str>)>, Option<u64>) = (Vec::new(), None);
        for (symbol, stream) in self.streams.sorted_mut() {
            for book in &stream.books {
                match book.held.due_ns() {
                    Some(due_ns) if due_ns <= now_ns && but != Some(symbol) => due.push((book.leg, symbol.into())),
                    due_ns => next_ns = [next_ns, due_ns].into_iter().flatten().min(),
                }
            }
        }
        self.due_ns = next_ns;
        let mut all = Ok(());
        for (leg, symbol) in due {
            all = all.and(self.tell_unchecked(Arrival { leg, ..arrival }, &symbol, out));
        }
        all
    }

    /// Tells what waits although no checksum came.
    fn tell_unchecked(&mut self, arrival: Arrival<'_>, symbol: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let book = self.streams.get_mut(symbol).and_then(|stream| stream.book(arrival.leg));
        let Some(book) = book else { return Ok(()) };
        book.held.missed();
        let rows = book.held.take();
        self.tell_held(arrival, symbol, &rows, |_| None, out)
    }

    fn tell_held(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        rows: &[Row],
        check: impl FnOnce(&TextBook) -> Option<bool>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let levels = rows.iter().map(Row::text);
        // An update is of the window that the snapshot named.
        self.update(arrival, BookText { symbol, levels, window: Window::Whole, venue_ns: 0 }, check, out)
    }

    /// A leg's book of one instrument counts no more, and the leg is to subscribe to it anew.
    pub(crate) fn fail(&mut self, arrival: Arrival<'_>, symbol: &str, reason: BreakReason, out: &mut Vec<Event>) {
        self.lose(arrival, symbol, reason, out);
        self.repair(arrival.leg, symbol);
    }

    /// A leg's book of one instrument counts no more; another leg's takes over if one can.
    pub(crate) fn lose(&mut self, arrival: Arrival<'_>, symbol: &str, reason: BreakReason, out: &mut Vec<Event>) {
        let subject = Subject { venue: self.streams.venue(), symbol };
        if let Some(stream) = self.streams.get_mut(symbol) {
            self.counts.switches += u64::from(stream.lost(subject, arrival, reason, &self.ticking, out));
        }
    }

    /// All books of a leg count no more: its connection began, ended, or missed something.
    pub(crate) fn lose_all(&mut self, arrival: Arrival<'_>, reason: BreakReason, out: &mut Vec<Event>) {
        let venue = self.streams.venue();
        let mut switches = 0;
        for (symbol, stream) in self.streams.sorted_mut() {
            switches += u64::from(stream.lost(Subject { venue, symbol }, arrival, reason, &self.ticking, out));
            if let Some(book) = stream.books.iter_mut().find(|book| book.leg == arrival.leg) {
                book.pulse.forget();
            }
        }
        self.counts.switches += switches;
        self.repairs.retain(|(leg, _)| *leg != arrival.leg);
    }

    /// A trade.
    ///
    /// # Errors
    /// [`Undecodable`]: no id, or a number that cannot be taken.
    pub(crate) fn trade(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        text: TradeText<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let subject = Subject { venue: self.streams.venue(), symbol };
        let stream = self.stream(symbol, arrival, out)?;
        out.push(text.event(subject, stream.symbol, stream.steps, arrival)?);
        Ok(())
    }

    /// The trades of one message, the oldest first, to which the venue gives no ids. Their order is that of arrival.
    ///
    /// # Errors
    /// [`Undecodable`]; the trades before it hold.
    pub(crate) fn unnamed_trades<'a>(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        trades: impl Iterator<Item = Result<UnnamedTrade<'a>, Undecodable>>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let mut ids = MadeIds::default();
        for (at, trade) in trades.enumerate() {
            let trade = trade?;
            let (id, at) = (ids.next(&trade), u16::try_from(at).unwrap_or(u16::MAX));
            let UnnamedTrade { price, quantity, taker, venue_ns } = trade;
            let text = TradeText { id: &id, order: None, at, price, quantity, taker, venue_ns };
            self.trade(arrival, symbol, text, out)?;
        }
        Ok(())
    }

    /// Asks for a subscription anew to one instrument on one leg, if it is one that is known.
    pub(crate) fn repair(&mut self, leg: LegId, symbol: &str) {
        if self.streams.get(symbol).is_some()
            && !self.repairs.iter().any(|(wanted, known)| *wanted == leg && **known == *symbol)
        {
            self.repairs.push((leg, symbol.into()));
        }
    }
}

impl Books for Standby {
    fn counts(&self) -> FeedCounts {
        self.counts
    }

    fn counts_mut(&mut self) -> &mut FeedCounts {
        &mut self.counts
    }

    /// The leg's books are those of no connection.
    fn reconnected(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.lose_all(arrival, BreakReason::Unsubscribed, out);
    }

    /// The leg whose book of a symbol is shown.
    fn active(&self, symbol: &str) -> Option<LegId> {
        self.streams.get(symbol)?.active
    }

    /// A message of a leg is lost, and nobody knows what it was about. Whether the leg had a book that it may have changed.
    fn torn(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> bool {
        let of_leg = |book: &LegBook| book.leg == arrival.leg && book.verified;
        let carried = self.streams.sorted_mut().iter().any(|(_, stream)| stream.books.iter().any(of_leg));
        if carried {
            self.lose_all(arrival, BreakReason::Undecodable, out);
        }
        carried
    }

    /// The instruments whose subscription on a leg that ticks counts as dead are to be subscribed to anew.
    fn look_after(&mut self, leg: LegId, now_ns: u64) {
        self.ticking.ticks(leg, now_ns);
        if self.ticking.intervals == 0 {
            return;
        }
        let mut dead: Vec<Box<str>> = Vec::new();
        for (symbol, stream) in self.streams.sorted_mut() {
            let others = stream.books.iter().filter(|book| book.leg != leg);
            let elsewhere_ns = others.filter_map(|book| book.pulse.last_ns()).max();
            let book = stream.books.iter_mut().find(|book| book.leg == leg);
            if book.is_some_and(|book| book.pulse.dies(now_ns, elsewhere_ns)) {
                dead.push(symbol.into());
            }
        }
        dead.iter().for_each(|symbol| self.repair(leg, symbol));
    }

    /// Takes what is to be subscribed to anew.
    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        std::mem::take(&mut self.repairs)
    }
}

/// Whether a book may go on being shown.
pub(crate) fn judge(check: &mut Check, evidence: Evidence, matched: Option<bool>, counts: &mut FeedCounts) -> bool {
    let Some(matched) = matched else { return true };
    let counted = if matched { &mut counts.checksums_matched } else { &mut counts.checksums_failed };
    *counted += 1;
    match check.judge(evidence, matched) {
        Judgement::Right | Judgement::Tolerated => true,
        Judgement::PutAside => {
            counts.checks_put_aside += 1;
            tracing::error!("a venue's checksum fails on book after book; it is put aside, the data are kept");
            true
        }
        Judgement::Wrong => false,
    }
}

#[cfg(test)]
mod tests;
