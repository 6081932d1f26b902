//! What the guard decides, and what follows: what is logged, delivered, refused, rebuilt; which holes show.
//!
//! Never: a batch delivered before the one before it; a receipt given before its batch is safe.

use super::{
    BatchError,
    cursor::Mark,
    driver::{Done, Driver, Fed},
    held::{Decoded, Original, Receipt},
    numbers::{BatchNumbers, count},
    rebuild::Rebuilt,
    tasks::{self, GapChange, Unreadable},
};
use connectors::{
    clickhouse::batch_log::{
        BatchLog, BatchLogError, DeadHead, DeadLetter, DeadState, Gap, GapState, LoggedBatch, dead_letter_id,
    },
    neutron_dex::{
        Block,
        feed::{At, BlockFeed},
        message::symbol,
    },
    pubsub::header::{BatchHeader, Encoding, check_stream},
};
use dataflow::ingest::FeedSender;
use foldhash::{HashSet, HashSetExt};
use market::{
    Body, Event, LegId,
    batch::{BatchGuard, BatchId, BatchKind, BatchName, BatchOffer, Hole, Loss, Rebuild, end_of},
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often the store is asked what an operator wants.
const OPERATOR_EVERY: Duration = Duration::from_secs(1);

/// The hole that is open.
#[derive(Debug, Default)]
pub(super) struct Watch {
    open: Option<(Hole, Instant, u64)>,
    /// It has lasted, and is noted.
    lasted: bool,
}

impl Watch {
    /// The hole, and since when, if it has lasted.
    pub(super) fn shown(&self) -> Option<(Hole, u64)> {
        self.open.filter(|_| self.lasted).map(|(hole, _, since_ns)| (hole, since_ns))
    }
}

/// The guard of a stream as log and store know it.
///
/// # Errors
/// What is stored cannot be used.
pub(super) async fn begun(
    log: &BatchLog,
    numbers: &BatchNumbers,
    position: u64,
    any: bool,
) -> Result<BatchGuard, BatchLogError> {
    let mut losses = Vec::new();
    let mut from = position;
    for gap in tasks::insist(numbers, "read the gaps", || log.gaps()).await? {
        let hole = Hole { after: gap.after, through: gap.through };
        let healed = match gap.state {
            GapState::Accepted => false,
            GapState::Healed => true,
            GapState::Open | GapState::Filled => continue,
        };
        let mut late = BTreeMap::new();
        if healed {
            let names = tasks::insist(numbers, "read late batches", || log.names_within(hole.after, hole.through));
            late.extend(names.await?.into_iter().map(|name| (name.height, name)));
        } else {
            from = from.min(hole.after);
        }
        losses.push(Loss { hole, healed, late });
    }
    let mut guard = BatchGuard::new(position, any).with_losses(losses);
    for name in tasks::names_within(log, numbers, from, u64::MAX).await? {
        guard.offer(name);
    }
    Ok(guard)
}

impl Driver {
    /// A batch was decoded.
    pub(super) fn offer(&mut self, decoded: Decoded) {
        let name = decoded.header.name();
        match self.guard.offer(name) {
            BatchOffer::Keep => {
                self.held.put(name, decoded);
                self.log(name);
            }
            BatchOffer::Heals => {
                self.held.put(name, decoded);
                // The stream is rebuilt from it as it is in the log.
                self.held.delivered(name);
                self.log(name);
            }
            BatchOffer::Late => {
                count(&self.numbers.late);
                self.held.put(name, decoded);
                self.late.push_back(name);
            }
            BatchOffer::Passed => {
                // A snapshot has said what holds instead; that it was there is all that is kept of it.
                count(&self.numbers.late);
                self.held.put(name, decoded);
                self.held.delivered(name);
                self.log(name);
            }
            BatchOffer::Duplicate => {
                count(&self.numbers.duplicates);
                let safe = self.held.also(name, decoded.original.receipts);
                self.settle(safe);
            }
            BatchOffer::Outdated => {
                count(&self.numbers.outdated);
                self.settle(decoded.original.receipts);
            }
            BatchOffer::Conflict { known } => {
                self.refuse(decoded.original, &BatchError::Conflict { height: name.height, known });
            }
            BatchOffer::Old if name.height <= self.options.begin_after => {
                count(&self.numbers.outdated);
                self.settle(decoded.original.receipts);
            }
            BatchOffer::Old => {
                let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
                self.tasks.spawn(async move {
                    let found = tasks::look_up(&log, &numbers, name).await;
                    Done::LookedUp(name, Box::new(decoded), found)
                });
            }
            // It comes again, and by then there may be room.
            BatchOffer::Full => {
                tracing::error!(height = name.height, "no room for another batch behind a hole");
                self.give_back(decoded.original);
            }
        }
    }

    /// Gives a batch back; it comes again, be it a message or a letter.
    fn give_back(&mut self, original: Original) {
        for receipt in &original.receipts {
            if let Receipt::Letter(id) = receipt {
                self.letters.remove(id);
            }
        }
        self.arrivals.give_back(original);
    }

    pub(super) fn looked_up(&mut self, name: BatchName, decoded: Decoded, found: Result<(), Option<BatchId>>) {
        match found {
            Ok(()) => {
                count(&self.numbers.duplicates);
                self.settle(decoded.original.receipts);
            }
            Err(known) => self.refuse(decoded.original, &no_place(name.height, known)),
        }
    }

    fn log(&mut self, name: BatchName) {
        let Some(entry) = self.held.get(name) else { return };
        let Some(content) = entry.content.clone() else { return };
        let batch = LoggedBatch {
            name,
            parts: entry.parts,
            message_id: entry.message_id.clone(),
            content,
            block_time_ns: entry.times.block_ns,
            published_ns: entry.times.published_ns,
            received_ns: entry.times.received_ns,
        };
        let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
        self.tasks.spawn(async move {
            let logged = tasks::log(&log, &numbers, batch).await;
            Done::Logged(name, logged)
        });
    }

    pub(super) fn logged(&mut self, name: BatchName, logged: Result<(), Option<BatchId>>) {
        if let Err(known) = logged {
            let height = name.height;
            // Somebody else writes this log: what is shown may be another batch than what is kept.
            tracing::error!(height, "the log has another batch at a height that this process has taken");
            return self.unusable(name, None, &no_place(height, known));
        }
        let receipts = self.held.logged(name, self.options.memory_bytes / 2);
        self.settle(receipts);
    }

    /// Tells those who wait that their batch is safe.
    pub(super) fn settle(&mut self, receipts: Vec<Receipt>) {
        for receipt in receipts {
            match receipt {
                Receipt::Message(lease) => lease.ack(),
                Receipt::Letter(id) => {
                    let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
                    let now_ns = (self.now_ns)();
                    self.tasks.spawn(async move {
                        let replayed = || log.set_dead_state(&id, DeadState::Replayed, None, None, now_ns);
                        drop(tasks::insist(&numbers, "close a dead letter", replayed).await);
                        Done::Settled(id)
                    });
                }
            }
        }
    }

    /// A batch cannot be taken: it comes again until it has been tried often enough, then it is buried.
    pub(super) fn refuse(&mut self, original: Original, error: &BatchError) {
        let failures = self.arrivals.failed(&original);
        let letter = original.receipts.iter().any(|receipt| matches!(receipt, Receipt::Letter(_)));
        let reason = reason_of(error);
        tracing::warn!(message = &*original.message_id, failures, reason, "a batch cannot be taken");
        if failures < self.options.attempts_max && !letter {
            count(&self.numbers.refused);
            self.give_back(original);
            return;
        }
        self.bury(original, failures, reason);
    }

    fn bury(&mut self, original: Original, attempts: u32, reason: String) {
        let Original { attributes, data, message_id, published_ns, received_ns, receipts, .. } = original;
        let (venue, payload) = (self.log.venue(), data.concat());
        // Filed where it says that it belongs: whoever takes that stream can try it again.
        let named = attributes.get("stream").filter(|name| check_stream(name).is_ok()).cloned();
        let stream: &str = named.as_deref().unwrap_or(self.log.stream());
        let head = DeadHead {
            id: dead_letter_id(venue, stream, &attributes, &payload),
            venue: venue.name().into(),
            stream: stream.into(),
            height: attributes.get("height").and_then(|height| height.parse().ok()).unwrap_or(0),
            message_id,
            attributes,
            reason: reason.into(),
            attempts,
            state: DeadState::Dead,
            published_ns,
            received_ns,
            changed_ns: (self.now_ns)(),
        };
        let letter = DeadLetter { head, payload };
        // A letter that is buried again keeps its place: it is the same one.
        let mut again = Vec::new();
        let mut messages = Vec::new();
        for receipt in receipts {
            match receipt {
                Receipt::Message(_) => messages.push(receipt),
                Receipt::Letter(id) => again.push(id),
            }
        }
        let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
        self.tasks.spawn(async move {
            let (id, attempts) = (letter.head.id.clone(), letter.head.attempts);
            let (reason, now_ns) = (letter.head.reason.clone(), letter.head.changed_ns);
            let buried = tasks::bury(&log, &numbers, letter).await;
            for other in again.iter().filter(|other| **other != id) {
                let dead = || log.set_dead_state(other, DeadState::Dead, Some(&reason), Some(attempts), now_ns);
                drop(tasks::insist(&numbers, "close a dead letter", dead).await);
            }
            Done::Buried(if buried { messages } else { Vec::new() }, again)
        });
    }

    /// Parts of a batch that came as a whole before, or whose others may never come: only the log knows.
    pub(super) fn ask(&mut self, name: BatchName, receipts: Vec<Receipt>) {
        let receipts = self.held.also(name, receipts);
        if receipts.is_empty() {
            return;
        }
        let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
        self.tasks.spawn(async move {
            let there =
                tasks::look_up(&log, &numbers, name).await.is_ok() || tasks::is_dead(&log, &numbers, name).await;
            // What is not in the log is given back, and comes again with the rest.
            Done::Asked(if there { receipts } else { Vec::new() })
        });
    }

    /// Feeds the lanes what is next: marks, then a rebuilt stream, a late batch, or the next batch.
    pub(super) fn deliver(&mut self) {
        if self.block_feed.is_none() {
            return;
        }
        if !self.outbox.is_empty() {
            let events = std::mem::take(&mut self.outbox);
            self.feed(Fed::Events, move |_, out| {
                out.extend(events);
                Ok(())
            });
            return;
        }
        if self.rebuilding || !self.store_has_room() {
            return;
        }
        if self.starts_rebuild() || self.starts_wished() {
            self.rebuilding = true;
            return;
        }
        // While the stream waits to be rebuilt nothing new is shown: else there would always be something that the log does
        // not have yet.
        let next = self.guard.next().filter(|_| self.guard.rebuild().is_none());
        match (next, self.late.front().copied()) {
            (Some(name), None) => self.deliver_next(name),
            (Some(name), Some(_)) if self.late_next => self.deliver_next(name),
            (_, Some(late)) => self.deliver_late(late),
            (None, None) => return,
        }
        self.late_next = !self.late_next;
    }

    /// Whether more may be made of the log: what was made of it waits for the store in memory, and the sink takes it all.
    /// Each batch brings its mark with it, so what waits can always go on by itself.
    fn store_has_room(&self) -> bool {
        usize::try_from(self.view.stream_bytes()).is_ok_and(|bytes| bytes < self.options.memory_bytes)
    }

    fn deliver_next(&mut self, name: BatchName) {
        let Some((times, block)) = self.block_of(name) else { return self.read(name) };
        let age_ns = (self.now_ns)().saturating_sub(times.published_ns);
        self.marks.delivered(Duration::from_nanos(age_ns));
        self.numbers.with(|state| state.published_ns = times.published_ns.to_string());
        let from = if name.kind == BatchKind::Snapshot { end_of(self.guard.position()) } else { self.base };
        let at = At { received_ns: times.received_ns, venue_ns: times.block_ns, from };
        let leg = self.leg;
        self.feed(Fed::Batch(name), move |block_feed, out| {
            match name.kind {
                BatchKind::Block => block_feed.deliver(&block, at, out)?,
                BatchKind::Snapshot => block_feed.snapshot(&block, at, out)?,
            }
            out.push(Event::of_leg(0, leg, at.received_ns, Body::LegHeard));
            Ok(())
        });
    }

    fn deliver_late(&mut self, name: BatchName) {
        let Some((times, block)) = self.block_of(name) else { return self.read(name) };
        self.late.pop_front();
        let from = end_of(self.guard.position());
        let at = At { received_ns: times.received_ns, venue_ns: times.block_ns, from };
        self.late_unlogged += 1;
        self.feed(Fed::Late(name), move |block_feed, out| block_feed.late(&block, at, out));
    }

    fn block_of(&self, name: BatchName) -> Option<(super::held::BatchTimes, Arc<Block>)> {
        let entry = self.held.get(name)?;
        entry.block.clone().map(|block| (entry.times, block))
    }

    /// Makes events and sends them, with the marker that tells when they are durable.
    pub(super) fn feed(
        &mut self,
        fed: Fed,
        make: impl FnOnce(&mut BlockFeed, &mut Vec<Event>) -> Result<(), connectors::venue_feed::Undecodable>
        + Send
        + 'static,
    ) {
        let Some(mut block_feed) = self.block_feed.take() else { return };
        let (feed, leg, now_ns): (FeedSender, LegId, u64) = (self.feed.clone(), self.leg, (self.now_ns)());
        let through = match &fed {
            Fed::Batch(name) | Fed::Late(name) => Some(end_of(name.height)),
            Fed::Rebuild(_) | Fed::Wished => Some(end_of(self.guard.position())),
            Fed::Events => None,
        };
        self.tasks.spawn_blocking(move || {
            let mut events = Vec::new();
            let made = make(&mut block_feed, &mut events).map_err(BatchError::from);
            if made.is_err() {
                events.clear();
            }
            // The marker goes in any case: markers are counted.
            events.extend(through.map(|place| Event::of_leg(0, leg, now_ns, Body::Through(place))));
            let sent = tasks::feed(&feed, events);
            Done::Fed(block_feed, fed, sent.map(|()| made))
        });
    }

    pub(super) fn fed(&mut self, fed: Fed, made: Result<(), BatchError>) {
        let mark = match (fed, made) {
            (Fed::Events, _) => return,
            (Fed::Batch(name), Ok(())) => {
                self.was_delivered(name);
                Mark::Through(name.height)
            }
            (Fed::Late(name), Ok(())) => Mark::Late(name),
            (Fed::Batch(name), Err(error)) => {
                self.unusable(name, None, &error);
                Mark::Nothing
            }
            (Fed::Late(name), Err(error)) => {
                self.late_unlogged = self.late_unlogged.saturating_sub(1);
                self.unusable(name, None, &error);
                Mark::Nothing
            }
            (Fed::Wished, made) => {
                self.rebuilding = false;
                if let Err(error) = made {
                    tracing::error!(%error, "books that an audit doubts cannot be shown; they stay marked");
                }
                Mark::Nothing
            }
            (Fed::Rebuild(rebuild), Ok(())) => {
                self.rebuilding = false;
                count(&self.numbers.rebuilds);
                Mark::Healed(self.guard.rebuilt(rebuild))
            }
            (Fed::Rebuild(rebuild), Err(error)) => {
                tracing::error!(%error, "the rebuilt stream cannot be shown; it stays as it is, marked");
                self.rebuilding = false;
                self.guard.unrebuildable(rebuild);
                Mark::Nothing
            }
        };
        self.cursor.sent(mark);
        self.cursor.also(Mark::Healed(std::mem::take(&mut self.healed)));
    }

    fn was_delivered(&mut self, name: BatchName) {
        count(&self.numbers.delivered);
        let (unhealed, before) = (self.unhealed(), self.guard.position());
        // What a snapshot has passed shows nothing any more.
        drop(self.guard.delivered(name));
        let still = self.unhealed();
        // On record once the snapshot is durable: what it made good, and what it passed.
        self.healed.extend(unhealed.into_iter().filter(|hole| !still.contains(hole)));
        if name.kind == BatchKind::Snapshot && name.height > before {
            self.healed.push(Hole { after: before, through: name.height });
        }
        self.held.delivered(name);
        self.held.forget_snapshots(self.guard.position());
        connectors::halt::point("batch-delivered");
    }

    /// Losses that were accepted and that nothing has healed.
    fn unhealed(&self) -> Vec<Hole> {
        self.guard.losses().iter().filter(|loss| !loss.healed).map(|loss| loss.hole).collect()
    }

    /// A batch that is in the log, or on its way there, cannot be delivered: it is a hole now, and a dead letter.
    fn unusable(&mut self, name: BatchName, original: Option<Original>, error: &BatchError) {
        let reason = reason_of(error);
        tracing::error!(height = name.height, reason, "a batch cannot be delivered");
        match original.or_else(|| self.held.take_original(name)) {
            Some(original) => self.bury_logged(name, original, reason),
            None => {
                let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
                self.tasks.spawn(async move {
                    let original = tasks::original_of(&log, &numbers, name).await;
                    Done::Unusable(name, original.map(Box::new), reason)
                });
            }
        }
        self.late.retain(|late| *late != name);
        self.guard.refused(name);
        self.held.delivered(name);
    }

    pub(super) fn bury_logged(&mut self, name: BatchName, mut original: Original, reason: String) {
        original.attributes = attributes_of(&self.options.stream, name);
        self.bury(original, 1, reason);
    }

    fn read(&mut self, name: BatchName) {
        if self.reading.is_some() {
            return;
        }
        self.reading = Some(name);
        let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
        self.tasks.spawn(async move { Done::Read(name, tasks::read_logged(&log, &numbers, name).await) });
    }

    pub(super) fn was_read(
        &mut self,
        name: BatchName,
        read: Result<(super::held::BatchTimes, Arc<Block>), Unreadable>,
    ) {
        self.reading = None;
        match read {
            Ok((times, block)) => self.held.put_logged(name, times, block),
            Err(Unreadable::Missing) => {
                tracing::error!(height = name.height, "a batch has vanished from the log: it is missing now");
                self.late.retain(|late| *late != name);
                self.guard.refused(name);
            }
            Err(Unreadable::Undecodable(original, error)) => self.unusable(name, Some(*original), &error),
        }
    }

    /// Begins to rebuild the stream if it must be, and if all that it is rebuilt from is in the log.
    fn starts_rebuild(&mut self) -> bool {
        let Some(rebuild) = self.guard.rebuild() else { return false };
        let from = match rebuild {
            Rebuild::From(after) => after,
            Rebuild::Snapshot(name) if self.held.is_unlogged(name) => return false,
            Rebuild::Snapshot(name) => name.height,
        };
        let position = self.guard.position();
        let unlogged = self.held.first_unlogged().is_some_and(|height| height <= position);
        if unlogged || self.late_unlogged > 0 || !self.late.is_empty() || self.cursor.written() < from {
            return false;
        }
        let late = self.unhealed();
        let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
        self.tasks.spawn(async move {
            let rebuilt = tasks::rebuild(&log, &numbers, rebuild, &late, position).await;
            Done::Rebuilt(rebuild, rebuilt)
        });
        true
    }

    pub(super) fn rebuilt(&mut self, rebuild: Rebuild, rebuilt: Result<Vec<Rebuilt>, Unreadable>) {
        let rebuilt = match rebuilt {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                tracing::error!(?error, "the stream cannot be rebuilt from its log; it stays as it is, marked");
                self.rebuilding = false;
                self.guard.unrebuildable(rebuild);
                return;
            }
        };
        let at = At { received_ns: (self.now_ns)(), venue_ns: 0, from: end_of(self.guard.position()) };
        let everything = matches!(rebuild, Rebuild::Snapshot(_));
        self.feed(Fed::Rebuild(rebuild), move |block_feed, out| {
            let mut named = HashSet::new();
            for rebuilt in &rebuilt {
                block_feed.rebuilt(&rebuilt.book, rebuilt.place, at, out)?;
                named.extend(rebuilt.book.pairs.iter().map(|(zero, one)| symbol(zero, one).into_boxed_str()));
            }
            if everything {
                block_feed.absent(&named, at, out);
            }
            Ok(())
        });
    }

    /// Something became true because all before it is durable.
    pub(super) fn became_durable(&mut self, mark: Mark) {
        match mark {
            Mark::Late(name) => {
                self.late_unlogged = self.late_unlogged.saturating_sub(1);
                self.held.delivered(name);
                self.log(name);
            }
            Mark::Healed(holes) => {
                for hole in holes {
                    self.note(hole, GapState::Healed);
                }
            }
            Mark::Through(_) | Mark::Nothing => {}
        }
    }

    /// Looks at holes, and tells the lanes what the stream is marked with.
    pub(super) fn look(&mut self) {
        let (now, now_ns) = (Instant::now(), (self.now_ns)());
        let hole = self.guard.hole();
        if self.watch.open.map(|(open, ..)| open) != hole {
            let shown = self.watch.shown();
            if let Some((before, _)) = shown {
                self.close(before);
            }
            // What is left of a hole that has shown is shown since then.
            self.watch.open = hole.map(|hole| (hole, now, shown.map_or(now_ns, |(_, since_ns)| since_ns)));
            self.watch.lasted = hole.is_some() && shown.is_some();
            if let Some(hole) = hole.filter(|_| self.watch.lasted) {
                self.note(hole, GapState::Open);
            }
        }
        if let Some((hole, since, _)) = self.watch.open
            && !self.watch.lasted
            && now.duration_since(since) >= self.options.hole
        {
            self.watch.lasted = true;
            count(&self.numbers.holes);
            tracing::error!(after = hole.after, through = hole.through, "batches are missing");
            self.note(hole, GapState::Open);
        }
        let lasted = self.watch.shown().is_some();
        let coming = self.guard.next().is_some() || !self.arrivals.is_empty() || self.decoding > 0;
        // Behind a full memory or a log that is slow there may be more.
        let busy = coming || !self.has_room() || self.held.waits_for_log();
        let gapped = lasted || self.guard.is_lossy() || (self.marks.is_gapped() && busy);
        if lasted && !busy {
            self.marks.blocked();
        }
        let marks = self.marks.change(now, now_ns, busy, gapped);
        self.outbox.extend(marks);
    }

    /// A hole that has shown is none any longer, because it was filled or has become smaller.
    fn close(&mut self, hole: Hole) {
        let accepted = self.guard.losses().iter().any(|loss| loss.hole == hole && !loss.healed);
        if !accepted {
            tracing::info!(after = hole.after, through = hole.through, "missing batches have come");
            self.note(hole, GapState::Filled);
        }
    }

    fn note(&mut self, hole: Hole, state: GapState) {
        self.gaps.push(GapChange { hole, state, now_ns: (self.now_ns)() });
    }

    /// Asks the store now and then what an operator wants: losses accepted, dead letters tried again.
    pub(super) fn poll_operator(&mut self) {
        if self.polling || self.polled.elapsed() < OPERATOR_EVERY {
            return;
        }
        (self.polling, self.polled) = (true, Instant::now());
        if self.guard.hole().is_some() {
            let (log, numbers) = (Arc::clone(&self.log), Arc::clone(&self.numbers));
            self.tasks.spawn(async move {
                let gaps = tasks::insist(&numbers, "read the gaps", || log.gaps()).await;
                Done::Polled(gaps.unwrap_or_default())
            });
        } else {
            self.poll_letters();
        }
    }

    fn poll_letters(&mut self) {
        let (log, numbers, known) = (Arc::clone(&self.log), Arc::clone(&self.numbers), self.letters.clone());
        self.tasks.spawn(async move {
            let (letters, unreadable) = tasks::letters(&log, &numbers, &known).await;
            Done::Letters(letters, unreadable)
        });
    }

    pub(super) fn polled(&mut self, gaps: &[Gap]) {
        if let Some(hole) = self.guard.hole() {
            let accepts =
                |gap: &&Gap| gap.state == GapState::Accepted && (gap.after, gap.through) == (hole.after, hole.through);
            if let Some(gap) = gaps.iter().find(accepts)
                && self.guard.accept(hole).is_ok()
            {
                count(&self.numbers.losses);
                let (operator, note) = (&*gap.operator, &*gap.note);
                tracing::error!(after = hole.after, through = hole.through, operator, note, "a loss was accepted");
            }
        }
        self.poll_letters();
    }
}

/// Why a batch has no place at a height: another one is there, or none belongs there.
fn no_place(height: u64, known: Option<BatchId>) -> BatchError {
    known.map_or(BatchError::Contradicts { height }, |known| BatchError::Conflict { height, known })
}

/// What was wrong, with its causes.
fn reason_of(error: &BatchError) -> String {
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        reason.push_str(": ");
        reason.push_str(&error.to_string());
        cause = error.source();
    }
    reason
}

/// The attributes of a batch of the log, as it could be published again.
fn attributes_of(stream: &str, name: BatchName) -> BTreeMap<String, String> {
    let header = BatchHeader {
        stream: stream.into(),
        kind: name.kind,
        height: name.height,
        previous: name.previous,
        id: name.id,
        encoding: Encoding::Identity,
        block_time_ns: 0,
        part: 0,
        parts: 1,
    };
    header.attributes().into_iter().collect()
}
