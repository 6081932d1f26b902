//! The messages of one subscription that nobody has acknowledged: who has which until when, and what comes next. A pure
//! machine: `now` is passed in.
//!
//! A message is *ready*, *waiting* for its backoff to pass, or *leased* to a stream. A lease that ends without an ack, by
//! its deadline or by a nack, gives the message back: to the dead letters once it was delivered often enough, else to wait
//! or to be ready. Under an ordering key a message that is given back takes back the later ones of its key that are out,
//! and no other stream gets a message of a key that one has.
//!
//! Never: a clock, a lock or a socket.

use crate::{faults::rank, terms::Terms, topic::Stored};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Bytes of messages in one answer, as the service has it; a single message always fits.
const ANSWER_BYTES_MAX: u64 = 10_000_000;
/// Messages that are shuffled among themselves.
const SHUFFLE_BLOCK: u64 = 16;
/// How long a block that is not full yet waits for more messages, so that even a stream that keeps up gets them shuffled.
const SHUFFLE_HOLD: Duration = Duration::from_millis(50);
/// Ready messages that are looked at to be shuffled; a hundred times what an answer takes.
const SHUFFLE_LOOK_AHEAD: usize = 10_000;

/// What is acknowledged: a lease of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseId {
    /// Order in which messages came to the subscription, from 0.
    pub(crate) place: u64,
    pub(crate) number: u64,
}

/// A message with the number of its deliveries.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) message: Arc<Stored>,
    pub(crate) deliveries: u32,
}

#[derive(Debug)]
struct Ready {
    entry: Entry,
    since: Instant,
}

#[derive(Debug)]
struct Lease {
    number: u64,
    stream: Option<u64>,
    deadline: Instant,
}

/// A message that is out. It has one lease, or two if it was delivered twice on purpose.
#[derive(Debug)]
struct Leased {
    entry: Entry,
    leases: Vec<Lease>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Outstanding {
    messages: u64,
    bytes: u64,
}

/// What may be delivered now, and to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// `None` for a single pull.
    pub(crate) stream: Option<u64>,
    pub(crate) lease: Duration,
    /// Most that the stream may have out; `None` is no limit.
    pub(crate) messages_max: Option<u64>,
    pub(crate) bytes_max: Option<u64>,
    /// Most messages in this answer.
    pub(crate) answer_max: usize,
}

/// Faults that change what is delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Twist {
    pub(crate) duplicates: u32,
    pub(crate) shuffle: Option<u64>,
    /// How often each fired.
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
}

#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) lease: LeaseId,
    pub(crate) entry: Entry,
}

#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) deliveries: Vec<Delivery>,
    /// When held-back messages may be taken.
    pub(crate) look_again: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    terms: Terms,
    places: u64,
    numbers: u64,
    ready: BTreeMap<u64, Ready>,
    waiting: BTreeMap<(Instant, u64), Entry>,
    leased: BTreeMap<u64, Leased>,
    deadlines: BTreeSet<(Instant, LeaseId)>,
    streams: BTreeMap<u64, Outstanding>,
}

impl Backlog {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { terms, ..Self::default() }
    }

    pub(crate) fn publish(&mut self, message: Arc<Stored>, now: Instant) {
        self.put(self.places, Entry { message, deliveries: 0 }, now);
        self.places += 1;
    }

    /// (ready or waiting, leased).
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.ready.len() + self.waiting.len(), self.leased.len())
    }

    /// When [`Backlog::advance`] has something to do.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|&(at, _)| at);
        let waiting = self.waiting.first_key_value().map(|(&(at, _), _)| at);
        [deadline, waiting].into_iter().flatten().min()
    }

    /// Ends leases and pauses whose time has come. Gives back the dead letters; `expired` counts leases.
    pub(crate) fn advance(&mut self, now: Instant, expired: &mut u64) -> Vec<Entry> {
        let mut dead = Vec::new();
        while let Some(&(at, lease)) = self.deadlines.first() {
            if at > now {
                break;
            }
            *expired += 1;
            dead.extend(self.give_back(lease, now));
        }
        while let Some(waiting) = self.waiting.first_entry() {
            let &(at, place) = waiting.key();
            if at > now {
                break;
            }
            let entry = waiting.remove();
            self.put(place, entry, now);
        }
        dead
    }

    pub(crate) fn open_stream(&mut self, stream: u64) {
        self.streams.insert(stream, Outstanding::default());
    }

    /// What the stream has stays leased until it is acknowledged or its time is up, as at the service.
    pub(crate) fn close_stream(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }

    /// Whether the lease stood; the message is gone then, with every lease on it.
    pub(crate) fn ack(&mut self, lease: LeaseId) -> bool {
        if !self.stands(lease) {
            return false;
        }
        self.take_back(lease.place);
        true
    }

    /// Whether the lease stood.
    pub(crate) fn extend(&mut self, lease: LeaseId, deadline: Instant) -> bool {
        let Some(leased) = self.leased.get_mut(&lease.place) else { return false };
        let Some(found) = leased.leases.iter_mut().find(|found| found.number == lease.number) else { return false };
        self.deadlines.remove(&(found.deadline, lease));
        found.deadline = deadline;
        self.deadlines.insert((deadline, lease));
        true
    }

    /// Ends a lease without an ack; nothing happens if it does not stand. Gives back a dead letter.
    pub(crate) fn give_back(&mut self, lease: LeaseId, now: Instant) -> Option<Entry> {
        let entry = self.end(lease)?;
        if self.terms.attempts_max.is_some_and(|max| entry.deliveries >= max) {
            return Some(entry);
        }
        self.take_back_later(lease.place, &entry, now);
        match self.terms.backoff {
            Some(backoff) => {
                self.waiting.insert((now + backoff.after(entry.deliveries), lease.place), entry);
            }
            None => self.put(lease.place, entry, now),
        }
        None
    }

    /// A dead letter that has nowhere to go is ready again, behind all others.
    pub(crate) fn keep(&mut self, entry: Entry, now: Instant) {
        self.put(self.places, entry, now);
        self.places += 1;
    }

    /// Leases what `want` may have of what is ready.
    pub(crate) fn take(&mut self, now: Instant, want: &Want, twist: &mut Twist) -> Taken {
        let (picked, look_again) = match twist.shuffle.filter(|_| !self.terms.ordered) {
            Some(seed) => {
                let (order, look_again) = self.shuffled(seed, now);
                (self.pick(order.into_iter(), want), look_again)
            }
            None => (self.pick(self.ready.keys().copied(), want), None),
        };
        let mut deliveries = Vec::with_capacity(picked.len());
        for place in picked {
            let earlier = self.ready.first_key_value().is_some_and(|(&first, _)| first < place);
            let Some(Ready { mut entry, .. }) = self.ready.remove(&place) else { continue };
            twist.reordered += u64::from(twist.shuffle.is_some() && earlier);
            entry.deliveries = entry.deliveries.saturating_add(1);
            self.leased.insert(place, Leased { entry: entry.clone(), leases: Vec::new() });
            let copies = if twist.duplicates > 0 { 2 } else { 1 };
            if copies == 2 {
                twist.duplicates -= 1;
                twist.duplicated += 1;
            }
            for _ in 0..copies {
                let lease = self.lease(place, &entry, now + want.lease, want.stream);
                deliveries.push(Delivery { lease, entry: entry.clone() });
            }
        }
        Taken { deliveries, look_again }
    }

    fn put(&mut self, place: u64, entry: Entry, since: Instant) {
        self.ready.insert(place, Ready { entry, since });
    }

    fn stands(&self, lease: LeaseId) -> bool {
        let leased = self.leased.get(&lease.place);
        leased.is_some_and(|leased| leased.leases.iter().any(|found| found.number == lease.number))
    }

    fn lease(&mut self, place: u64, entry: &Entry, deadline: Instant, stream: Option<u64>) -> LeaseId {
        let lease = LeaseId { place, number: self.numbers };
        self.numbers += 1;
        if let Some(leased) = self.leased.get_mut(&place) {
            leased.leases.push(Lease { number: lease.number, stream, deadline });
            self.deadlines.insert((deadline, lease));
            if let Some(outstanding) = stream.and_then(|stream| self.streams.get_mut(&stream)) {
                outstanding.messages += 1;
                outstanding.bytes += entry.message.bytes;
            }
        }
        lease
    }

    fn forget(&mut self, place: u64, lease: &Lease, bytes: u64) {
        self.deadlines.remove(&(lease.deadline, LeaseId { place, number: lease.number }));
        if let Some(outstanding) = lease.stream.and_then(|stream| self.streams.get_mut(&stream)) {
            outstanding.messages = outstanding.messages.saturating_sub(1);
            outstanding.bytes = outstanding.bytes.saturating_sub(bytes);
        }
    }

    /// Ends one lease; gives back the message if it was the last.
    fn end(&mut self, lease: LeaseId) -> Option<Entry> {
        let leased = self.leased.get_mut(&lease.place)?;
        let at = leased.leases.iter().position(|found| found.number == lease.number)?;
        let ended = leased.leases.swap_remove(at);
        let (last, bytes) = (leased.leases.is_empty(), leased.entry.message.bytes);
        self.forget(lease.place, &ended, bytes);
        if last { self.leased.remove(&lease.place).map(|leased| leased.entry) } else { None }
    }

    /// Ends all leases of a message.
    fn take_back(&mut self, place: u64) -> Option<Entry> {
        let Leased { entry, leases } = self.leased.remove(&place)?;
        for lease in &leases {
            self.forget(place, lease, entry.message.bytes);
        }
        Some(entry)
    }

    /// In order per key: what is out after `entry` under its key is to come again after it.
    fn take_back_later(&mut self, place: u64, entry: &Entry, now: Instant) {
        let key = &entry.message.message.ordering_key;
        if !self.terms.ordered || key.is_empty() {
            return;
        }
        let later = self.leased.range(place.saturating_add(1)..);
        let later = later.filter(|(_, leased)| leased.entry.message.message.ordering_key == *key);
        for place in later.map(|(&place, _)| place).collect::<Vec<_>>() {
            if let Some(entry) = self.take_back(place) {
                self.put(place, entry, now);
            }
        }
    }

    /// Ready messages in the seed's order, block by block; and when the first block that is not full yet may go.
    fn shuffled(&self, seed: u64, now: Instant) -> (Vec<u64>, Option<Instant>) {
        let mut order = Vec::new();
        let mut look_again: Option<Instant> = None;
        let (mut current, mut open) = (None, false);
        for (&place, ready) in self.ready.iter().take(SHUFFLE_LOOK_AHEAD) {
            let block = place / SHUFFLE_BLOCK;
            if current != Some(block) {
                current = Some(block);
                let full = self.places >= (block + 1) * SHUFFLE_BLOCK;
                let due = ready.since + SHUFFLE_HOLD;
                open = full || ready.entry.deliveries > 0 || due <= now;
                if !open {
                    look_again = Some(look_again.map_or(due, |at| at.min(due)));
                }
            }
            if open {
                order.push((block, rank(seed, place), place));
            }
        }
        order.sort_unstable();
        (order.into_iter().map(|(.., place)| place).collect(), look_again)
    }

    /// Those of the candidates, in their order, that fit flow control, the answer and the order of keys.
    fn pick(&self, candidates: impl Iterator<Item = u64>, want: &Want) -> Vec<u64> {
        let mut out = want.stream.and_then(|stream| self.streams.get(&stream)).copied().unwrap_or_default();
        let blocked = if self.terms.ordered { self.blocked(want.stream) } else { BTreeMap::new() };
        let mut picked = Vec::new();
        let mut answer = 0;
        for place in candidates {
            let Some(ready) = self.ready.get(&place) else { continue };
            let message = &ready.entry.message;
            let key = message.message.ordering_key.as_str();
            if !key.is_empty() && blocked.get(key).is_some_and(|&from| place >= from) {
                continue;
            }
            let bytes = message.bytes;
            let full = want.messages_max.is_some_and(|max| out.messages >= max)
                || want.bytes_max.is_some_and(|max| out.messages > 0 && out.bytes.saturating_add(bytes) > max)
                || (!picked.is_empty() && bytes.saturating_add(answer) > ANSWER_BYTES_MAX)
                || picked.len() >= want.answer_max;
            if full {
                break;
            }
            out.messages += 1;
            out.bytes = out.bytes.saturating_add(bytes);
            answer = bytes.saturating_add(answer);
            picked.push(place);
        }
        picked
    }

    /// Keys of which this stream gets nothing from the place on: another stream has a message of it, or one waits.
    fn blocked(&self, stream: Option<u64>) -> BTreeMap<&str, u64> {
        let mut blocked = BTreeMap::new();
        for leased in self.leased.values() {
            if stream.is_none() || leased.leases.iter().any(|lease| lease.stream != stream) {
                blocked.insert(leased.entry.message.message.ordering_key.as_str(), 0);
            }
        }
        for (&(_, place), entry) in &self.waiting {
            let from: &mut u64 = blocked.entry(entry.message.message.ordering_key.as_str()).or_insert(place);
            *from = place.min(*from);
        }
        blocked
    }
}

#[cfg(test)]
mod tests;
