//! Topics, subscriptions and armed faults behind one lock, and every call on them that is more than a lookup.
//!
//! Memory is bounded: the messages that somebody has not acknowledged may take `backlog_bytes_max` together; a publish
//! beyond is refused with RESOURCE_EXHAUSTED, which the official libraries try again. Acknowledged messages are freed.
//!
//! Never: an await under the lock.

use crate::{
    error::Refusal,
    faults::{Faults, Method},
    subscription::{Backlog, Entry, LeaseId, Taken, Twist, Want},
    terms::{Terms, own_lease},
    topic::{Held, Stored, Topic, apart, check, check_name},
};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::Notify;
use tonic::Code;

/// Topics and subscriptions of one emulator; the service's own limit per project.
const NAMES_MAX: usize = 10_000;
/// Open streams of one emulator: far more than tests open, and a bound for tasks and buffers.
const STREAMS_MAX: usize = 1_024;
/// What the service calls the topic of a subscription that has lost its own.
const DELETED_TOPIC: &str = "_deleted-topic_";

/// What has happened to a subscription's messages since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// Messages handed out, each time counted, duplicates too.
    pub delivered: u64,
    /// Messages that are done with.
    pub acknowledged: u64,
    /// Leases that were given back.
    pub nacked: u64,
    /// Leases whose time was up.
    pub expired: u64,
    /// Messages that went to the dead letters.
    pub dead_lettered: u64,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) config: pb::Subscription,
    pub(crate) backlog: Backlog,
    pub(crate) deliveries: Deliveries,
    pub(crate) changed: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) topics: BTreeMap<String, Topic>,
    pub(crate) subscriptions: BTreeMap<String, Subscription>,
    pub(crate) faults: Faults,
    streams: usize,
    next_stream: u64,
    /// When the timer means to look; the earliest due moment that it knows of.
    planned: Option<Instant>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    ids: AtomicU64,
    /// First part of every ack id, so that one of an emulator before this one is not taken for ours.
    generation: u64,
    held: Held,
    held_max: u64,
    /// Woken when something is due earlier than planned.
    pub(crate) timer: Notify,
}

/// A message as it is handed out.
pub(crate) struct Handed {
    pub(crate) ack_id: String,
    pub(crate) entry: Entry,
    /// Of how many deliveries this is the last; 0 where there are no dead letters.
    pub(crate) attempt: i32,
    /// Whether its bytes are to be falsified.
    pub(crate) corrupted: bool,
}

impl Shared {
    pub(crate) fn new(held_max: u64) -> Self {
        // Ids begin at the clock, so that they do not repeat when a new process has forgotten the state of this one.
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let clock = u64::try_from(clock).unwrap_or_default();
        Self {
            state: Mutex::default(),
            ids: AtomicU64::new(clock.max(1)),
            generation: clock,
            held: Held::default(),
            held_max,
            timer: Notify::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// Refuses the call if it is to fail.
    pub(crate) fn admit(&self, method: Method) -> Result<(), Refusal> {
        match self.lock().faults.fails(method) {
            Some(code) => Err(Refusal::Injected { method, code }),
            None => Ok(()),
        }
    }

    pub(crate) fn create_topic(&self, topic: pb::Topic) -> Result<pb::Topic, Refusal> {
        check_name(&topic.name, "topics")?;
        let mut state = self.lock();
        if state.topics.contains_key(&topic.name) {
            return Err(Refusal::AlreadyExists { resource: topic.name.into() });
        }
        if state.topics.len() >= NAMES_MAX {
            return Err(Refusal::NoMore { what: "topics", max: NAMES_MAX });
        }
        state.topics.insert(topic.name.clone(), Topic { config: topic.clone(), published: 0 });
        Ok(topic)
    }

    /// Its subscriptions stay, with what they have.
    pub(crate) fn delete_topic(&self, name: &str) -> Result<(), Refusal> {
        let mut state = self.lock();
        state.topics.remove(name).ok_or_else(|| Refusal::not_found(name))?;
        for subscription in state.subscriptions.values_mut().filter(|subscription| subscription.config.topic == name) {
            DELETED_TOPIC.clone_into(&mut subscription.config.topic);
        }
        Ok(())
    }

    pub(crate) fn create_subscription(&self, mut config: pb::Subscription) -> Result<pb::Subscription, Refusal> {
        let terms = Terms::of(&mut config)?;
        let mut state = self.lock();
        if state.subscriptions.contains_key(&config.name) {
            return Err(Refusal::AlreadyExists { resource: config.name.into() });
        }
        let dead_letters = config.dead_letter_policy.as_ref().map(|policy| &policy.dead_letter_topic);
        for topic in std::iter::once(&config.topic).chain(dead_letters) {
            if !state.topics.contains_key(topic) {
                return Err(Refusal::not_found(topic));
            }
        }
        if state.subscriptions.len() >= NAMES_MAX {
            return Err(Refusal::NoMore { what: "subscriptions", max: NAMES_MAX });
        }
        config.state = pb::subscription::State::Active.into();
        let subscription = Subscription {
            config: config.clone(),
            backlog: Backlog::new(terms),
            deliveries: Deliveries::default(),
            changed: Arc::default(),
        };
        state.subscriptions.insert(config.name.clone(), subscription);
        Ok(config)
    }

    /// Its messages go, its streams end.
    pub(crate) fn delete_subscription(&self, name: &str) -> Result<(), Refusal> {
        let removed = self.lock().subscriptions.remove(name).ok_or_else(|| Refusal::not_found(name))?;
        removed.changed.notify_waiters();
        Ok(())
    }

    pub(crate) fn publish(&self, topic: &str, messages: Vec<pb::PubsubMessage>) -> Result<Vec<String>, Refusal> {
        check(&messages)?;
        let mut state = self.lock();
        if !state.topics.contains_key(topic) {
            return Err(Refusal::not_found(topic));
        }
        let held = self.held.bytes();
        if held >= self.held_max {
            return Err(Refusal::Full { held, max: self.held_max });
        }
        let now = Instant::now();
        Ok(apart(messages).into_iter().map(|message| self.deliver(&mut state, topic, message, now)).collect())
    }

    /// Gives the message to every subscription of the topic, and its id.
    fn deliver(&self, state: &mut State, topic: &str, mut message: pb::PubsubMessage, now: Instant) -> String {
        let id = self.ids.fetch_add(1, Ordering::Relaxed).to_string();
        message.message_id.clone_from(&id);
        message.publish_time = Some(SystemTime::now().into());
        let message = Arc::new(Stored::new(message, &self.held));
        if let Some(topic) = state.topics.get_mut(topic) {
            topic.published += 1;
        }
        for subscription in state.subscriptions.values_mut().filter(|subscription| subscription.config.topic == topic) {
            subscription.backlog.publish(Arc::clone(&message), now);
            subscription.changed.notify_waiters();
        }
        id
    }

    /// Moves dead letters of a subscription on; without their topic they stay where they are.
    fn bury(&self, state: &mut State, name: &str, dead: Vec<Entry>, now: Instant) {
        for entry in dead {
            let Some(subscription) = state.subscriptions.get_mut(name) else { return };
            let policy = subscription.config.dead_letter_policy.as_ref();
            let topic = policy.map(|policy| policy.dead_letter_topic.clone()).unwrap_or_default();
            if state.topics.contains_key(&topic) {
                subscription.deliveries.dead_lettered += 1;
                self.deliver(state, &topic, dead_letter(name, &entry), now);
            } else {
                subscription.backlog.keep(entry, now);
            }
        }
    }

    /// Runs `work` on a subscription that is advanced to now, and moves on what it leaves dead.
    fn on<T>(
        &self,
        name: &str,
        work: impl FnOnce(&mut Subscription, &mut Faults, Instant, &mut Vec<Entry>) -> T,
    ) -> Result<T, Refusal> {
        let now = Instant::now();
        let mut state = self.lock();
        let State { subscriptions, faults, .. } = &mut *state;
        let subscription = subscriptions.get_mut(name).ok_or_else(|| Refusal::not_found(name))?;
        let mut dead = subscription.backlog.advance(now, &mut subscription.deliveries.expired);
        let done = work(subscription, faults, now, &mut dead);
        let due = subscription.backlog.next_due();
        self.bury(&mut state, name, dead, now);
        self.plan(&mut state, due);
        Ok(done)
    }

    /// Wakes the timer if something is due earlier than it means to look.
    fn plan(&self, state: &mut State, due: Option<Instant>) {
        if let Some(due) = due
            && state.planned.is_none_or(|planned| due < planned)
        {
            state.planned = Some(due);
            self.timer.notify_one();
        }
    }

    /// Ends leases and pauses whose time has come; when to look again.
    pub(crate) fn advance(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        let mut dead = Vec::new();
        for (name, subscription) in &mut state.subscriptions {
            if subscription.backlog.next_due().is_some_and(|due| due <= now) {
                let letters = subscription.backlog.advance(now, &mut subscription.deliveries.expired);
                dead.push((name.clone(), letters));
                subscription.changed.notify_waiters();
            }
        }
        for (name, letters) in dead {
            self.bury(&mut state, &name, letters, now);
        }
        let due = state.subscriptions.values().filter_map(|subscription| subscription.backlog.next_due()).min();
        state.planned = due;
        due
    }

    /// Acknowledges leases; gives back the ids of those that did not stand.
    pub(crate) fn acknowledge(&self, name: &str, ack_ids: &[String]) -> Result<Vec<String>, Refusal> {
        self.on(name, |subscription, faults, _, _| {
            if faults.stall_acks {
                faults.counts.acks_forgotten += u64::try_from(ack_ids.len()).unwrap_or_default();
                return Vec::new();
            }
            let mut stale = Vec::new();
            for ack_id in ack_ids {
                match self.lease_of(ack_id) {
                    Some(lease) if subscription.backlog.ack(lease) => subscription.deliveries.acknowledged += 1,
                    _ => stale.push(ack_id.clone()),
                }
            }
            subscription.changed.notify_waiters();
            stale
        })
    }

    /// Moves deadlines to `from_now`, or ends leases if that is nothing; gives back the ids of those that did not stand.
    pub(crate) fn modify(&self, name: &str, ack_ids: &[String], from_now: Duration) -> Result<Vec<String>, Refusal> {
        self.on(name, |subscription, _, now, dead| {
            let mut stale = Vec::new();
            for ack_id in ack_ids {
                let lease = self.lease_of(ack_id).filter(|&lease| subscription.backlog.extend(lease, now + from_now));
                match lease {
                    Some(lease) if from_now.is_zero() => {
                        subscription.deliveries.nacked += 1;
                        dead.extend(subscription.backlog.give_back(lease, now));
                    }
                    Some(_) => {}
                    None => stale.push(ack_id.clone()),
                }
            }
            subscription.changed.notify_waiters();
            stale
        })
    }

    /// Leases what `want` may have now.
    pub(crate) fn hand_out(&self, name: &str, want: &Want) -> Result<(Vec<Handed>, Option<Instant>), Refusal> {
        self.on(name, |subscription, faults, now, _| {
            let mut twist = Twist { duplicates: faults.duplicates, shuffle: faults.shuffle, ..Twist::default() };
            let Taken { deliveries, look_again } = subscription.backlog.take(now, want, &mut twist);
            faults.duplicates = twist.duplicates;
            faults.counts.duplicated += twist.duplicated;
            faults.counts.reordered += twist.reordered;
            subscription.deliveries.delivered += u64::try_from(deliveries.len()).unwrap_or_default();
            let mut handed = Vec::with_capacity(deliveries.len());
            for delivery in deliveries {
                let corrupted = faults.corruptions > 0 && !delivery.entry.message.message.data.is_empty();
                if corrupted {
                    faults.corruptions -= 1;
                    faults.counts.corrupted += 1;
                }
                let counted = subscription.config.dead_letter_policy.is_some();
                let attempt = if counted { i32::try_from(delivery.entry.deliveries).unwrap_or(i32::MAX) } else { 0 };
                let ack_id = self.ack_id(delivery.lease);
                handed.push(Handed { ack_id, entry: delivery.entry, attempt, corrupted });
            }
            (handed, look_again)
        })
    }

    /// Registers a stream; its number, and what to wait on.
    pub(crate) fn open_stream(&self, name: &str) -> Result<(u64, Arc<Notify>), Refusal> {
        let mut state = self.lock();
        if state.streams >= STREAMS_MAX {
            return Err(Refusal::NoMore { what: "open streams", max: STREAMS_MAX });
        }
        let number = state.next_stream;
        let subscription = state.subscriptions.get_mut(name).ok_or_else(|| Refusal::not_found(name))?;
        subscription.backlog.open_stream(number);
        let changed = Arc::clone(&subscription.changed);
        state.streams += 1;
        state.next_stream += 1;
        Ok((number, changed))
    }

    pub(crate) fn close_stream(&self, name: &str, number: u64) {
        let mut state = self.lock();
        state.streams = state.streams.saturating_sub(1);
        if let Some(subscription) = state.subscriptions.get_mut(name) {
            subscription.backlog.close_stream(number);
            subscription.changed.notify_waiters();
        }
    }

    /// The lease of a single pull, which is the subscription's own.
    pub(crate) fn own_lease(&self, name: &str) -> Result<(Duration, Arc<Notify>), Refusal> {
        let state = self.lock();
        let subscription = state.subscriptions.get(name).ok_or_else(|| Refusal::not_found(name))?;
        Ok((own_lease(&subscription.config), Arc::clone(&subscription.changed)))
    }

    pub(crate) fn fail_next(&self, method: Method, code: Code, times: u32) {
        self.lock().faults.plan(method, code, times);
    }

    pub(crate) fn reset_streams(&self) {
        self.lock().arm(|faults, next| faults.reset_below = next);
    }

    pub(crate) fn silence_streams(&self) {
        self.lock().arm(|faults, next| faults.silent_below = next);
    }

    pub(crate) fn hold_streams(&self, on: bool) {
        self.lock().arm(|faults, _| faults.hold = on);
    }

    pub(crate) fn duplicate_next(&self, times: u32) {
        self.lock().arm(|faults, _| faults.duplicates = faults.duplicates.saturating_add(times));
    }

    pub(crate) fn shuffle(&self, seed: Option<u64>) {
        self.lock().arm(|faults, _| faults.shuffle = seed);
    }

    pub(crate) fn stall_acks(&self, on: bool) {
        self.lock().arm(|faults, _| faults.stall_acks = on);
    }

    pub(crate) fn corrupt_next(&self, times: u32) {
        self.lock().arm(|faults, _| faults.corruptions = faults.corruptions.saturating_add(times));
    }

    fn ack_id(&self, lease: LeaseId) -> String {
        format!("{:x}-{}-{}", self.generation, lease.place, lease.number)
    }

    fn lease_of(&self, ack_id: &str) -> Option<LeaseId> {
        let mut parts = ack_id.splitn(3, '-');
        let generation = u64::from_str_radix(parts.next()?, 16).ok()?;
        let (place, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        (generation == self.generation).then_some(LeaseId { place, number })
    }
}

impl State {
    /// Changes the faults, and lets every stream see it. Streams that are open have numbers below the one passed.
    fn arm(&mut self, change: impl FnOnce(&mut Faults, u64)) {
        change(&mut self.faults, self.next_stream);
        for subscription in self.subscriptions.values() {
            subscription.changed.notify_waiters();
        }
    }
}

/// The message as its dead-letter topic gets it, marked as the service does.
fn dead_letter(subscription: &str, entry: &Entry) -> pb::PubsubMessage {
    let mut message = entry.message.message.clone();
    let mut parts = subscription.split('/').skip(1);
    let (project, name) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
    let published = message.publish_time.map(|time| time.to_string()).unwrap_or_default();
    let marks = [
        ("CloudPubSubDeadLetterSourceDeliveryCount", entry.deliveries.to_string()),
        ("CloudPubSubDeadLetterSourceSubscription", name.to_owned()),
        ("CloudPubSubDeadLetterSourceSubscriptionProject", project.to_owned()),
        ("CloudPubSubDeadLetterSourceTopicPublishTime", published),
    ];
    message.attributes.extend(marks.map(|(name, value)| (name.to_owned(), value)));
    message
}
