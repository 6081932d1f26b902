//! What waits for one connection: bounded in bytes; a connection that does not read is closed at its bound, as venues
//! do.
//!
//! Never: a message dropped with the connection going on, unless a fault says so.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;

/// Messages that are handed to the socket before it is flushed.
const BATCH_MAX: usize = 128;
/// What a queued message costs besides its payload.
const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A close frame with this code and reason.
    Close(u16, &'static str),
    /// The socket is dropped without a word.
    Abort,
    /// The socket is reset: what is on its way is lost too.
    Reset,
}

/// The queue of one connection.
#[derive(Debug)]
pub(super) struct Outbox {
    bytes_max: usize,
    state: Mutex<State>,
    pushed: Notify,
    ended: Notify,
    frozen: Notify,
    /// Told whenever something was taken.
    drained: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    /// Each with the time before which it does not go out.
    queue: VecDeque<(Message, Option<Instant>)>,
    /// The latest of these times: order is kept.
    due: Option<Instant>,
    /// Until then nothing is written or read; what comes is lost, and then the socket is reset.
    frozen: Option<Instant>,
    bytes: usize,
    end: Option<End>,
    /// The end that comes once the queue is empty.
    finish: Option<End>,
    /// When the socket last asked for more.
    taken: Instant,
}

impl Outbox {
    pub(super) fn new(bytes_max: usize, drained: Arc<Notify>) -> Self {
        let state = State {
            queue: VecDeque::new(),
            due: None,
            frozen: None,
            bytes: 0,
            end: None,
            finish: None,
            taken: Instant::now(),
        };
        let (pushed, ended, frozen) = (Notify::new(), Notify::new(), Notify::new());
        Self { bytes_max, state: Mutex::new(state), pushed, ended, frozen, drained }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message, to go out after a delay. False when that passed the bound, which ends the connection.
    pub(super) fn push(&self, message: Message, delay: Option<Duration>) -> bool {
        let bytes = cost(&message);
        let mut state = self.state();
        let fits = state.queue.is_empty() || state.bytes.saturating_add(bytes) <= self.bytes_max;
        if !fits && state.end.is_none() && state.finish.is_none() && state.frozen.is_none() {
            drop(state);
            self.end(End::Abort);
            return false;
        }
        self.append(&mut state, message, delay);
        true
    }

    /// Queues a message whatever its size.
    pub(super) fn push_huge(&self, message: Message) {
        self.append(&mut self.state(), message, None);
    }

    fn append(&self, state: &mut State, message: Message, delay: Option<Duration>) {
        if state.end.is_some() || state.finish.is_some() || state.frozen.is_some() {
            return;
        }
        if state.queue.is_empty() {
            // From here on the socket has something to take.
            state.taken = Instant::now();
        }
        if let Some(delay) = delay {
            state.due = state.due.max(Some(Instant::now() + delay));
        }
        let due = state.due.filter(|due| *due > Instant::now());
        state.bytes = state.bytes.saturating_add(cost(&message));
        state.queue.push_back((message, due));
        self.pushed.notify_one();
    }

    /// From now on nothing is written or read for a while; then the socket is reset.
    pub(super) fn freeze(&self, lasts: Duration) {
        let mut state = self.state();
        state.frozen = Some(Instant::now() + lasts);
        state.queue.clear();
        state.bytes = 0;
        drop(state);
        self.pushed.notify_one();
        self.frozen.notify_one();
        self.drained.notify_one();
    }

    /// Waits until nothing is written or read any more.
    pub(super) async fn until_frozen(&self) {
        while self.state().frozen.is_none() {
            self.frozen.notified().await;
        }
    }

    /// Ends the connection; the first end counts, and what is queued is not sent.
    pub(super) fn end(&self, end: End) {
        let mut state = self.state();
        state.end.get_or_insert(end);
        state.queue.clear();
        state.bytes = 0;
        drop(state);
        self.pushed.notify_one();
        self.ended.notify_one();
        self.drained.notify_one();
    }

    /// Ends the connection after what is queued.
    pub(super) fn finish(&self, end: End) {
        self.state().finish.get_or_insert(end);
        self.pushed.notify_one();
    }

    /// What to send next; waits for it. None when the connection ends.
    pub(super) async fn next(&self) -> Option<Vec<Message>> {
        loop {
            match self.take() {
                Taken::Batch(batch) => return Some(batch),
                Taken::End => return None,
                Taken::Nothing => self.pushed.notified().await,
                Taken::Later(due) => {
                    // In vain, it is time.
                    let _pushed = tokio::time::timeout_at(due.into(), self.pushed.notified()).await;
                }
            }
        }
    }

    fn take(&self) -> Taken {
        let now = Instant::now();
        let mut state = self.state();
        if let Some(until) = state.frozen.filter(|_| state.end.is_none()) {
            if now < until {
                return Taken::Later(until);
            }
            state.end = Some(End::Reset);
            self.ended.notify_one();
        }
        if state.queue.is_empty() && state.end.is_none() {
            state.end = state.finish;
        }
        if state.end.is_some() {
            return Taken::End;
        }
        let ready = |(_, due): &&(Message, Option<Instant>)| due.is_none_or(|due| due <= now);
        let some = state.queue.iter().take(BATCH_MAX).take_while(ready).count();
        if some == 0 {
            let due = state.queue.front().and_then(|(_, due)| *due);
            return due.map_or(Taken::Nothing, Taken::Later);
        }
        let batch: Vec<Message> = state.queue.drain(..some).map(|(message, _)| message).collect();
        let bytes: usize = batch.iter().map(cost).sum();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.taken = now;
        drop(state);
        self.drained.notify_one();
        Taken::Batch(batch)
    }

    /// How the connection ends, once it does.
    pub(super) fn ending(&self) -> Option<End> {
        self.state().end
    }

    /// Waits until the connection ends.
    pub(super) async fn until_end(&self) -> End {
        loop {
            let end = self.state().end;
            if let Some(end) = end {
                return end;
            }
            self.ended.notified().await;
        }
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Whether more than half of the bound waits.
    pub(super) fn is_filling(&self) -> bool {
        self.state().bytes > self.bytes_max / 2
    }

    /// How long the socket has taken nothing of what waits.
    pub(super) fn stuck(&self) -> Duration {
        self.state().taken.elapsed()
    }
}

/// What there is to send.
enum Taken {
    Batch(Vec<Message>),
    /// Nothing before this time.
    Later(Instant),
    Nothing,
    End,
}

fn cost(message: &Message) -> usize {
    message.len().saturating_add(MESSAGE_OVERHEAD_BYTES)
}
