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
}

/// The queue of one connection.
#[derive(Debug)]
pub(super) struct Outbox {
    bytes_max: usize,
    state: Mutex<State>,
    pushed: Notify,
    ended: Notify,
    /// Told whenever something was taken.
    drained: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Message>,
    bytes: usize,
    end: Option<End>,
    /// The end that comes once the queue is empty.
    finish: Option<End>,
    /// When the socket last asked for more.
    taken: Instant,
}

impl Outbox {
    pub(super) fn new(bytes_max: usize, drained: Arc<Notify>) -> Self {
        let state = State { queue: VecDeque::new(), bytes: 0, end: None, finish: None, taken: Instant::now() };
        Self { bytes_max, state: Mutex::new(state), pushed: Notify::new(), ended: Notify::new(), drained }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message. False when that passed the bound, which ends the connection.
    pub(super) fn push(&self, message: Message) -> bool {
        let mut state = self.state();
        if state.end.is_some() || state.finish.is_some() {
            return true;
        }
        let bytes = cost(&message);
        if state.queue.is_empty() {
            // From here on the socket has something to take.
            state.taken = Instant::now();
        } else if state.bytes.saturating_add(bytes) > self.bytes_max {
            drop(state);
            self.end(End::Abort);
            return false;
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.queue.push_back(message);
        self.pushed.notify_one();
        true
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
            if self.state().end.is_some() {
                return None;
            }
            match self.take() {
                Some(batch) => return Some(batch),
                None if self.state().end.is_some() => return None,
                None => self.pushed.notified().await,
            }
        }
    }

    fn take(&self) -> Option<Vec<Message>> {
        let mut state = self.state();
        if state.queue.is_empty() {
            if state.end.is_none() {
                state.end = state.finish;
            }
            return None;
        }
        let some = state.queue.len().min(BATCH_MAX);
        let batch: Vec<Message> = state.queue.drain(..some).collect();
        let bytes: usize = batch.iter().map(cost).sum();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.taken = Instant::now();
        drop(state);
        self.drained.notify_one();
        Some(batch)
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

fn cost(message: &Message) -> usize {
    message.len().saturating_add(MESSAGE_OVERHEAD_BYTES)
}
