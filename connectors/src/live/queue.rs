//! The way of frames from the connections to the source's thread, bounded in bytes.
//!
//! A frame that finds no room stays with its connection, which is not read meanwhile. The few frames that say what became
//! of a connection always find room: they have no payload, and there are few of them.
//!
//! Never: a frame dropped.

use crate::raw::{RawFrame, RawPayload};
use market::Venue;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, futures::Notified};

/// Bytes that wait for the source at most: some seconds of all of a large venue.
pub const QUEUE_BYTES_MAX: usize = 32 << 20;

/// Bytes that the source takes at once.
const TAKEN_BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<(Venue, RawFrame)>,
    bytes: usize,
}

/// The queue.
#[derive(Debug)]
pub(super) struct FrameQueue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    room: Notify,
    bytes_max: usize,
}

fn bytes_of(frame: &RawFrame) -> usize {
    let payload = match &frame.raw {
        RawPayload::Text(text) => text.len(),
        RawPayload::Binary(bytes) => bytes.len(),
    };
    size_of::<(Venue, RawFrame)>().saturating_add(payload)
}

impl FrameQueue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { waiting: Mutex::default(), filled: Condvar::new(), room: Notify::new(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing under the lock can panic half-way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, mut waiting: MutexGuard<'_, Waiting>, venue: Venue, frame: RawFrame) {
        waiting.bytes = waiting.bytes.saturating_add(bytes_of(&frame));
        waiting.frames.push_back((venue, frame));
        drop(waiting);
        self.filled.notify_one();
    }

    /// Queues a frame, or gives it back if there is no room. One alone always finds room.
    pub(super) fn push(&self, venue: Venue, frame: RawFrame) -> Result<(), RawFrame> {
        let waiting = self.lock();
        if !waiting.frames.is_empty() && waiting.bytes.saturating_add(bytes_of(&frame)) > self.bytes_max {
            return Err(frame);
        }
        self.put(waiting, venue, frame);
        Ok(())
    }

    /// Queues a frame without payload, whether there is room or not.
    pub(super) fn push_word(&self, venue: Venue, frame: RawFrame) {
        let waiting = self.lock();
        self.put(waiting, venue, frame);
    }

    /// Resolves when the source took something after this was enabled.
    pub(super) fn room(&self) -> Notified<'_> {
        self.room.notified()
    }

    /// Queues a frame once there is room.
    pub(super) async fn push_later(&self, venue: Venue, frame: RawFrame) {
        let mut frame = frame;
        loop {
            let mut room = std::pin::pin!(self.room());
            // From here on no word of room is missed.
            room.as_mut().enable();
            match self.push(venue, frame) {
                Ok(()) => return,
                Err(back) => frame = back,
            }
            room.await;
        }
    }

    /// Takes what waits, at most so much at once, and waits for the first for `wait` at most.
    pub(super) fn take(&self, wait: Duration, out: &mut Vec<(Venue, RawFrame)>) {
        let waiting = self.lock();
        let empty = |waiting: &mut Waiting| waiting.frames.is_empty();
        let mut waiting = match self.filled.wait_timeout_while(waiting, wait, empty) {
            Ok((waiting, _)) => waiting,
            Err(poisoned) => poisoned.into_inner().0,
        };
        let mut taken = 0_usize;
        while taken < TAKEN_BYTES_MAX
            && let Some((venue, frame)) = waiting.frames.pop_front()
        {
            taken = taken.saturating_add(bytes_of(&frame));
            out.push((venue, frame));
        }
        waiting.bytes = waiting.bytes.saturating_sub(taken);
        drop(waiting);
        if taken > 0 {
            self.room.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawKind;

    fn frame(bytes: usize) -> RawFrame {
        let raw = RawPayload::Text("x".repeat(bytes));
        RawFrame { ts_ns: 1, kind: RawKind::Ws, conn: "0".into(), url: None, raw }
    }

    #[test]
    fn a_full_queue_gives_back_what_it_cannot_take_and_always_takes_one_or_a_word() {
        let queue = FrameQueue::new(10_000);
        queue.push(Venue::KrakenSpot, frame(20_000)).unwrap();
        let back = queue.push(Venue::KrakenSpot, frame(1)).unwrap_err();
        assert_eq!(back, frame(1));
        queue.push_word(Venue::KrakenSpot, frame(0));
        let mut out = Vec::new();
        queue.take(Duration::ZERO, &mut out);
        assert_eq!(out.len(), 2);
        queue.push(Venue::KrakenSpot, back).unwrap();
        assert!(queue.lock().bytes < 1_000);
    }

    #[tokio::test]
    async fn who_waits_for_room_is_woken_by_who_takes() {
        let queue = std::sync::Arc::new(FrameQueue::new(1_000));
        queue.push(Venue::KrakenSpot, frame(900)).unwrap();
        let later = std::sync::Arc::clone(&queue);
        let waiter = tokio::spawn(async move { later.push_later(Venue::KrakenSpot, frame(901)).await });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        let mut out = Vec::new();
        queue.take(Duration::ZERO, &mut out);
        waiter.await.unwrap();
        queue.take(Duration::ZERO, &mut out);
        assert_eq!(out.iter().map(|(_, taken)| taken.clone()).collect::<Vec<_>>(), [frame(900), frame(901)]);
    }
}
