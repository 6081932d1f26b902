//! The channels of each leg's connection by their ids, and what came on one before the venue said which it is.
//!
//! Never: a frame of a channel that lives dropped without being told; a channel that outlives its connection.

use crate::{
    raw::{RawFrame, RawPayload},
    venue_feed::Arrival,
};
use foldhash::HashMap;
use market::LegId;
use std::{collections::VecDeque, sync::Arc};

/// Channels of one connection at most; the venue allows 25, and its captures have fewer.
const CHANNELS_MAX: usize = 1_024;

/// Frames of one connection that wait for the name of their channel at most: it follows within some of them.
const EARLY_FRAMES_MAX: usize = 256;

/// Their bytes at most; a whole book has some 10 KB.
const EARLY_BYTES_MAX: usize = 1 << 20;

/// How long a frame waits for the name of its channel, in nanoseconds of frame time; it follows within some milliseconds.
const EARLY_NS_MAX: u64 = 10_000_000_000;

/// Ended channels of one connection that are remembered at most, the last ones: theirs may be some frames on the way.
const ENDED_MAX: usize = 256;

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
    /// Channels that ended, the oldest first.
    ended: VecDeque<u64>,
}

impl Connection {
    /// Forgets early frames that are not to be kept.
    fn retain_early(&mut self, keep: impl Fn(&Early) -> bool) {
        self.early.retain(keep);
        self.early_bytes = self.early.iter().map(|early| bytes_of(&early.frame)).sum();
    }
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

/// Whether a frame has a channel's first message, which is a list of rows.
fn is_whole(frame: &RawFrame) -> bool {
    let RawPayload::Text(text) = &frame.raw else { return false };
    text.split_once(',').is_some_and(|(_, payload)| payload.trim_start().starts_with("[["))
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
        connection.ended.retain(|ended| *ended != id);
        let early: Vec<Early> = connection.early.extract_if(.., |early| early.id == id).collect();
        let bytes = early.iter().map(|early| bytes_of(&early.frame)).sum();
        connection.early_bytes = connection.early_bytes.saturating_sub(bytes);
        Some(early)
    }

    pub(super) fn remove(&mut self, leg: LegId, id: u64) -> Option<Channel> {
        let connection = self.by_leg.get_mut(&leg)?;
        let channel = connection.channels.remove(&id)?;
        if connection.ended.len() >= ENDED_MAX {
            connection.ended.pop_front();
        }
        connection.ended.push_back(id);
        Some(channel)
    }

    /// Keeps a frame until its channel is named, or for so long as that may take; one of a channel that ended is of no
    /// use, unless it begins it anew. False if that would be too much: then all of the connection's are gone.
    pub(super) fn keep(&mut self, arrival: Arrival<'_>, id: u64) -> bool {
        let connection = self.by_leg.entry(arrival.leg).or_default();
        if connection.ended.contains(&id) {
            if !is_whole(arrival.frame) {
                return true;
            }
            connection.ended.retain(|ended| *ended != id);
        }
        let now_ns = arrival.frame.ts_ns;
        connection.retain_early(|early| now_ns < early.frame.ts_ns.saturating_add(EARLY_NS_MAX));
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
