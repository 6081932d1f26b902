//! A terminal's outbox: bounded in frames, bytes and age. Frames are lossy, and losing one empties it, since what
//! follows would build on what is gone; control messages are lossless up to their own bound.
//!
//! Never: an old frame behind a lost one; growth beyond the bounds.

use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};
use tokio::sync::Notify;
use wire::CloseNotice;

/// Bytes of control messages that may wait: a dictionary of the largest directory, twice.
const CONTROL_BYTES_MAX: usize = 64 << 20;

/// Bounds of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingBounds {
    /// Frames.
    pub frames: usize,
    /// Bytes; a single larger frame is taken by an empty ring.
    pub bytes: usize,
    /// Age of the oldest frame, milliseconds of frame time.
    pub age_ms: u64,
}

/// The frames that wait for a socket; a state machine.
#[derive(Debug)]
pub struct Ring {
    bounds: RingBounds,
    frames: VecDeque<(Bytes, u64)>,
    bytes: usize,
    /// Frames were lost, and the terminal has not been told yet.
    lost: bool,
}

impl Ring {
    /// An empty ring.
    #[must_use]
    pub fn new(bounds: RingBounds) -> Self {
        Self { bounds, frames: VecDeque::new(), bytes: 0, lost: false }
    }

    /// Takes a frame of the given time, or empties the ring and marks the loss.
    pub fn push(&mut self, frame: Bytes, at_ms: u64) -> bool {
        if self.lost {
            return false;
        }
        let old = self.frames.front().is_some_and(|(_, oldest)| at_ms > oldest.saturating_add(self.bounds.age_ms));
        let full = !self.frames.is_empty()
            && (self.frames.len() >= self.bounds.frames || self.bytes.saturating_add(frame.len()) > self.bounds.bytes);
        if old || full {
            self.frames.clear();
            self.bytes = 0;
            self.lost = true;
            return false;
        }
        self.bytes += frame.len();
        self.frames.push_back((frame, at_ms));
        true
    }

    /// The next frame for the socket.
    pub fn pop(&mut self) -> Option<Bytes> {
        let (frame, _) = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    /// Whether frames were lost and the terminal has not begun anew.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Begins anew: the next frames build on nothing that is gone.
    pub fn begin_recovery(&mut self) {
        self.lost = false;
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bounds.bytes.saturating_sub(self.bytes)
    }
}

#[derive(Debug)]
struct Inner {
    ring: Ring,
    control: VecDeque<Bytes>,
    control_bytes: usize,
    /// The socket is busy with something that was popped.
    busy: bool,
    closed: bool,
    notice: Option<CloseNotice>,
}

/// What the socket's task does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Send these bytes.
    Send(Bytes),
    /// Nothing to send; wait.
    Wait,
    /// Close the socket, with this notice if there is one.
    Close(Option<CloseNotice>),
}

/// A ring shared by the fan-out and a socket's task.
#[derive(Debug)]
pub struct Outbox {
    inner: Mutex<Inner>,
    notify: Notify,
}

impl Outbox {
    /// An empty outbox.
    #[must_use]
    pub fn new(bounds: RingBounds) -> Self {
        let inner = Inner {
            ring: Ring::new(bounds),
            control: VecDeque::new(),
            control_bytes: 0,
            busy: false,
            closed: false,
            notice: None,
        };
        Self { inner: Mutex::new(inner), notify: Notify::new() }
    }

    fn with<T>(&self, use_inner: impl FnOnce(&mut Inner) -> T) -> T {
        use_inner(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a frame; false if the terminal lost it.
    pub fn push(&self, frame: Bytes, at_ms: u64) -> bool {
        let taken = self.with(|inner| inner.ring.push(frame, at_ms));
        self.notify.notify_one();
        taken
    }

    /// Takes a control message. Beyond their bound the terminal is closed: it asks without reading.
    pub fn push_control(&self, message: Bytes) {
        self.with(|inner| {
            inner.control_bytes += message.len();
            inner.closed |= inner.control_bytes > CONTROL_BYTES_MAX;
            inner.control.push_back(message);
        });
        self.notify.notify_one();
    }

    /// Ends the socket after the control messages that are queued.
    pub fn close(&self, notice: Option<CloseNotice>) {
        self.with(|inner| {
            inner.closed = true;
            inner.notice = notice;
        });
        self.notify.notify_one();
    }

    /// Whether the socket is being ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.with(|inner| inner.closed)
    }

    /// Whether frames were lost and recovery has not begun.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.with(|inner| inner.ring.is_lost())
    }

    /// Begins recovery if the socket has taken all that was left.
    pub fn begin_recovery(&self) -> bool {
        self.with(|inner| {
            let drained = !inner.busy && inner.control.is_empty();
            if drained {
                inner.ring.begin_recovery();
            }
            drained
        })
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.with(|inner| inner.ring.room())
    }

    /// What the socket's task does next; control first. Calling it says that the last bytes are sent.
    pub fn next(&self) -> Next {
        self.with(|inner| {
            inner.busy = false;
            let control = inner.control.pop_front().inspect(|message| inner.control_bytes -= message.len());
            if inner.closed && (control.is_none() || inner.control_bytes > CONTROL_BYTES_MAX) {
                return Next::Close(inner.notice);
            }
            match control.or_else(|| inner.ring.pop()) {
                Some(bytes) => {
                    inner.busy = true;
                    Next::Send(bytes)
                }
                None => Next::Wait,
            }
        })
    }

    /// Waits until something was pushed since the last [`Outbox::next`].
    pub async fn pushed(&self) {
        self.notify.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> Bytes {
        Bytes::from(vec![0; length])
    }

    fn ring(frames: usize, bytes: usize, age_ms: u64) -> Ring {
        Ring::new(RingBounds { frames, bytes, age_ms })
    }

    #[test]
    fn a_lost_frame_empties_the_ring_until_recovery_begins() {
        let mut ring = ring(3, 1_000, 10_000);
        for at_ms in 0..3 {
            assert!(ring.push(frame(10), at_ms));
        }
        assert!(!ring.push(frame(10), 3));
        assert!(ring.is_lost() && ring.pop().is_none());
        assert!(!ring.push(frame(10), 4), "nothing is taken after a loss");
        ring.begin_recovery();
        assert!(ring.push(frame(10), 5) && !ring.is_lost());
    }

    #[test]
    fn bytes_and_age_are_bounds_too() {
        let mut by_bytes = ring(100, 25, 10_000);
        assert!(by_bytes.push(frame(40), 0), "an empty ring takes a single larger frame");
        assert!(!by_bytes.push(frame(1), 0));
        let mut by_age = ring(100, 1_000, 50);
        assert!(by_age.push(frame(1), 0) && by_age.push(frame(1), 50));
        assert!(!by_age.push(frame(1), 51));
    }

    #[test]
    fn a_terminal_that_stops_reading_costs_a_bounded_number_of_bytes() {
        let outbox = Outbox::new(RingBounds { frames: 64, bytes: 64 << 10, age_ms: u64::MAX });
        let mut lost = 0;
        for at_ms in 0..1_000_000 {
            lost += u64::from(!outbox.push(frame(310), at_ms));
        }
        assert!(lost > 0 && outbox.is_lost());
        assert!(outbox.room() <= 64 << 10 && outbox.room() > 0);
        assert!(outbox.begin_recovery());
    }

    #[test]
    fn control_goes_before_frames_and_recovery_waits_for_the_socket() {
        let outbox = Outbox::new(RingBounds { frames: 1, bytes: 1_000, age_ms: 1_000 });
        outbox.push(frame(1), 0);
        outbox.push_control(frame(2));
        assert_eq!(outbox.next(), Next::Send(frame(2)));
        assert!(!outbox.begin_recovery(), "the socket is busy");
        assert_eq!(outbox.next(), Next::Send(frame(1)));
        assert_eq!(outbox.next(), Next::Wait);
        assert!(outbox.begin_recovery());
    }
}
