//! The channels of each leg's connection by their ids, and what came on one before the venue said which it is.
//!
//! Never: a frame dropped without being told; a channel that outlives its connection.

use crate::{
    raw::{RawFrame, RawPayload},
    venue_feed::Arrival,
};
use foldhash::HashMap;
use market::LegId;
use std::sync::Arc;

/// Channels of one connection at most; the venue allows 25, and its captures have fewer.
const CHANNELS_MAX: usize = 1_024;

/// Frames of one connection that wait for the name of their channel at most: it follows within some of them.
const EARLY_FRAMES_MAX: usize = 256;

/// Their bytes at most; a whole book has some 10 KB.
const EARLY_BYTES_MAX: usize = 1 << 20;

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Book,
    Trades,
    Other,
}

/// A channel.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) kind: Kind,
    pub(super) symbol: Arc<str>,
}

/// A frame that came before its channel was named.
#[derive(Debug)]
pub(super) struct Early {
    id: u64,
    pub(super) position: u64,
    pub(super) frame: RawFrame,
}

/// One leg's connection.
#[derive(Debug, Default)]
struct Connection {
    channels: HashMap<u64, Channel>,
    early: Vec<Early>,
    early_bytes: usize,
}

/// Those of all legs.
#[derive(Debug, Default)]
pub(super) struct Channels {
    by_leg: HashMap<LegId, Connection>,
}

fn bytes_of(frame: &RawFrame) -> usize {
    match &frame.raw {
        RawPayload::Text(text) => text.len(),
        RawPayload::Binary(bytes) => bytes.len(),
    }
}

impl Channels {
    /// The leg's connection began or ended.
    pub(super) fn begin(&mut self, leg: LegId) {
        self.by_leg.remove(&leg);
    }

    pub(super) fn get(&self, leg: LegId, id: u64) -> Option<&Channel> {
        self.by_leg.get(&leg)?.channels.get(&id)
    }

    /// Names a channel; gives what came on it before, in its order. None if there are too many.
    pub(super) fn name(&mut self, leg: LegId, id: u64, channel: Channel) -> Option<Vec<Early>> {
        let connection = self.by_leg.entry(leg).or_default();
        if connection.channels.len() >= CHANNELS_MAX && !connection.channels.contains_key(&id) {
            return None;
        }
        connection.channels.insert(id, channel);
        let early: Vec<Early> = connection.early.extract_if(.., |early| early.id == id).collect();
        let bytes = early.iter().map(|early| bytes_of(&early.frame)).sum();
        connection.early_bytes = connection.early_bytes.saturating_sub(bytes);
        Some(early)
    }

    pub(super) fn remove(&mut self, leg: LegId, id: u64) -> Option<Channel> {
        self.by_leg.get_mut(&leg)?.channels.remove(&id)
    }

    /// Keeps a frame until its channel is named. False if that would be too much: then all of the connection's are gone.
    pub(super) fn keep(&mut self, arrival: Arrival<'_>, id: u64) -> bool {
        let connection = self.by_leg.entry(arrival.leg).or_default();
        connection.early_bytes = connection.early_bytes.saturating_add(bytes_of(arrival.frame));
        if connection.early.len() >= EARLY_FRAMES_MAX || connection.early_bytes > EARLY_BYTES_MAX {
            connection.early.clear();
            connection.early_bytes = 0;
            return false;
        }
        connection.early.push(Early { id, position: arrival.position, frame: arrival.frame.clone() });
        true
    }
}
