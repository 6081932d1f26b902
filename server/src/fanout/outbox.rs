//! A terminal's outbox: two rings bounded in frames, bytes and age, one for frames and one for what goes ahead of them.
//! Both are lossy, and losing one frame empties its ring, since what follows would build on what is gone; the other ring
//! is not touched. Control messages are lossless up to their own bound.
//!
//! The order is control, priority, frames; yet after a run of priority frames one other frame has its turn, so that an
//! instrument that never rests delays the others and does not stop them.
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

/// Bounds of the priority ring. Its frames are small and many; what an order ticket has not seen within a second, it
/// had better get as a snapshot.
pub const PRIORITY_BOUNDS: RingBounds = RingBounds { frames: 1_024, bytes: 1 << 20, age_ms: 1_000 };

/// Priority frames in a row while another frame waits: of the smallest, about one packet's worth.
const PRIORITY_RUN_MAX: usize = 32;

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

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes that still fit; none if no further frame does.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.frames.len() < self.bounds.frames { self.bounds.bytes.saturating_sub(self.bytes) } else { 0 }
    }
}

#[derive(Debug)]
struct Inner {
    ring: Ring,
    priority: Ring,
    /// Priority frames given since another one was.
    run: usize,
    control: VecDeque<Bytes>,
    control_bytes: usize,
    /// The socket is busy with something that was popped.
    busy: bool,
    closed: bool,
    notice: Option<CloseNotice>,
}

impl Inner {
    /// The next frame of the two rings.
    fn pop(&mut self) -> Option<Bytes> {
        let frame = if self.run < PRIORITY_RUN_MAX { None } else { self.ring.pop() };
        let ahead = if frame.is_none() { self.priority.pop() } else { None };
        self.run = if ahead.is_some() { self.run.saturating_add(1) } else { 0 };
        frame.or(ahead).or_else(|| self.ring.pop())
    }
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
    /// An empty outbox, its priority ring of [`PRIORITY_BOUNDS`].
    #[must_use]
    pub fn new(bounds: RingBounds) -> Self {
        Self::with_priority(bounds, PRIORITY_BOUNDS)
    }

    /// An empty outbox with bounds for its frames and for what goes ahead of them.
    #[must_use]
    pub fn with_priority(bounds: RingBounds, priority: RingBounds) -> Self {
        let inner = Inner {
            ring: Ring::new(bounds),
            priority: Ring::new(priority),
            run: 0,
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

    /// Takes a frame that goes ahead of the others; false if the terminal lost it.
    pub fn push_priority(&self, frame: Bytes, now_ms: u64) -> bool {
        let taken = self.with(|inner| inner.priority.push(frame, now_ms));
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

    /// Whether priority frames were lost and their recovery has not begun.
    #[must_use]
    pub fn is_priority_lost(&self) -> bool {
        self.with(|inner| inner.priority.is_lost())
    }

    /// Begins recovery of the priority frames if the socket has taken all that was left.
    pub fn begin_priority_recovery(&self) -> bool {
        self.with(|inner| {
            let drained = !inner.busy && inner.control.is_empty();
            if drained {
                inner.priority.begin_recovery();
            }
            drained
        })
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

    /// Bytes of priority frames that still fit, and whether none waits.
    #[must_use]
    pub fn priority_room(&self) -> (usize, bool) {
        self.with(|inner| (inner.priority.room(), inner.priority.is_empty()))
    }

    /// Whether no frame waits, so that a single larger one is taken too.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.with(|inner| inner.ring.is_empty())
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.with(|inner| inner.ring.room())
    }

    /// What the socket's task does next; control first, then priority, then frames. Calling it says that the last bytes are sent.
    pub fn next(&self) -> Next {
        self.with(|inner| {
            inner.busy = false;
            let control = inner.control.pop_front().inspect(|message| inner.control_bytes -= message.len());
            if inner.closed && (control.is_none() || inner.control_bytes > CONTROL_BYTES_MAX) {
                return Next::Close(inner.notice);
            }
            match control.or_else(|| inner.pop()) {
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
    fn priority_goes_before_frames_and_stops_none() {
        let bounds = RingBounds { frames: 100, bytes: 100_000, age_ms: 1_000 };
        let outbox = Outbox::with_priority(bounds, bounds);
        for _ in 0..2 {
            outbox.push(frame(1), 0);
        }
        for _ in 0..PRIORITY_RUN_MAX + 2 {
            outbox.push_priority(frame(2), 0);
        }
        outbox.push_control(frame(3));
        let lengths: Vec<_> = std::iter::from_fn(|| match outbox.next() {
            Next::Send(bytes) => Some(bytes.len()),
            _ => None,
        })
        .collect();
        let run = vec![2; PRIORITY_RUN_MAX];
        assert_eq!(lengths, [&[3][..], &run, &[1, 2, 2, 1]].concat());
    }

    #[test]
    fn each_ring_loses_alone() {
        let (frames, priority) = (RingBounds { frames: 9, bytes: 900, age_ms: 99 }, PRIORITY_BOUNDS);
        let outbox = Outbox::with_priority(frames, RingBounds { frames: 2, ..priority });
        assert!(outbox.push(frame(1), 0));
        assert!(outbox.push_priority(frame(2), 0) && outbox.push_priority(frame(2), 0));
        assert!(!outbox.push_priority(frame(2), 0));
        assert!(outbox.is_priority_lost() && !outbox.is_lost());
        assert_eq!(outbox.next(), Next::Send(frame(1)));
        assert!(!outbox.begin_priority_recovery(), "the socket is busy");
        assert!(outbox.push(frame(4), 0) && outbox.next() == Next::Send(frame(4)) && outbox.next() == Next::Wait);
        assert!(outbox.begin_priority_recovery() && outbox.push_priority(frame(2), 0));
        for _ in 0..10 {
            outbox.push(frame(1), 0);
        }
        assert!(outbox.is_lost() && !outbox.is_priority_lost());
        assert_eq!(outbox.next(), Next::Send(frame(2)));
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
