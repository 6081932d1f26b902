//! What the fuzz targets do with bytes: frames of one venue through its decoder and a lane, and through all that a live
//! connection reads. The same functions run for a short while as ordinary tests, with seeds made here.
//!
//! Input: one byte names the venue, then frames: one byte of kind and leg, two bytes of length (little-endian), the text.
//!
//! Never: a verdict about what a frame means; only what must hold whatever comes.

pub mod seeds;

use connectors::{
    decoder::Decoder,
    live::protocol::protocol,
    neutron_dex::{
        Block,
        message::{decode_block, decode_snapshot, locate},
    },
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::listings::Listings,
};
use dataflow::{
    clock::CutClock,
    cut::LaneCut,
    lane::{Lane, LaneConfig},
};
use foldhash::HashMap;
use market::{SymbolId, Venue, Version, guard::Limits};
use std::sync::Arc;

/// Time between two frames, nanoseconds: holes and bridges end within some hundred of them.
const STEP_NS: u64 = 5_000_000;
/// Where the time begins, Unix nanoseconds.
const START_NS: u64 = 1_700_000_000_000_000_000;
/// Frames of one input at most.
const FRAMES_MAX: usize = 512;
/// A silence that never comes within one input, nanoseconds.
const SILENT_NS: u64 = 1 << 62;
/// Legs that an input may name.
const LEGS: u8 = 3;

/// The kinds of frame in the order of their codes.
const KINDS: [RawKind; 5] = [RawKind::Ws, RawKind::Http, RawKind::Open, RawKind::Close, RawKind::Alive];

/// One frame of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzFrame {
    /// What it is.
    pub kind: RawKind,
    /// On which leg.
    pub leg: u8,
    /// Its text.
    pub text: Vec<u8>,
}

/// The bytes of an input.
#[must_use]
pub fn input(venue: Venue, frames: &[FuzzFrame]) -> Vec<u8> {
    let place = Venue::ALL.iter().position(|known| *known == venue).unwrap_or(0);
    let mut bytes = vec![u8::try_from(place).unwrap_or(0)];
    for frame in frames {
        let kind = KINDS.iter().position(|kind| *kind == frame.kind).unwrap_or(0);
        let length = frame.text.len().min(usize::from(u16::MAX));
        bytes.push(u8::try_from(kind).unwrap_or(0) * LEGS + frame.leg % LEGS);
        bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend(frame.text.iter().take(length));
    }
    bytes
}

/// The venue and the frames of an input; whatever the bytes are, it is some.
#[must_use]
pub fn frames(data: &[u8]) -> (Venue, Vec<FuzzFrame>) {
    let Some((place, mut rest)) = data.split_first() else { return (Venue::BinanceSpot, Vec::new()) };
    let venue = Venue::ALL.get(usize::from(*place) % Venue::ALL.len()).copied().unwrap_or(Venue::BinanceSpot);
    let mut frames = Vec::new();
    while let [code, low, high, tail @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (text, after) = tail.split_at(length);
        let kind = KINDS.get(usize::from(code / LEGS) % KINDS.len()).copied().unwrap_or(RawKind::Ws);
        frames.push(FuzzFrame { kind, leg: code % LEGS, text: text.to_vec() });
        rest = after;
        if frames.len() == FRAMES_MAX {
            break;
        }
    }
    (venue, frames)
}

/// Runs an input through the venue's decoder and a lane.
///
/// # Panics
/// If a version goes back, or a delta is not over what was published before: what must never be.
pub fn feed(data: &[u8]) {
    let (venue, frames) = frames(data);
    let listings = Listings::new(Arc::default()).with_epochs(HashMap::default(), 1);
    let mut decoder = Decoder::new(Arc::new(listings));
    let clock = CutClock { origin_ns: START_NS, cut_ns: STEP_NS };
    let limits = Limits::default();
    let mut lane = Lane::new(LaneConfig { clock, limits, silent_ns: SILENT_NS, silent_intervals: 0, admitted: true });
    let mut shown: HashMap<SymbolId, Version> = HashMap::default();
    let mut events = Vec::new();
    for (at, frame) in (0_u64..).zip(frames) {
        let raw = match String::from_utf8(frame.text) {
            Ok(text) => RawPayload::Text(text),
            Err(bytes) => RawPayload::Binary(bytes.into_bytes()),
        };
        let conn = Arc::from(format!("{venue}/{}", frame.leg));
        let frame = RawFrame { ts_ns: START_NS + at * STEP_NS, kind: frame.kind, conn, url: None, raw };
        // A frame that cannot be decoded is a dead letter, and what came before it holds.
        drop(decoder.decode(venue, &frame, at + 1, &mut events));
        events.drain(..).for_each(|event| lane.take(event));
        drop((decoder.repairs(), decoder.reconnects()));
        let mut cut = LaneCut::default();
        lane.close(at, true, &mut cut, &mut Vec::new());
        for instrument in &cut.instruments {
            let Some(version) = instrument.version else { continue };
            let before = shown.insert(instrument.symbol, version);
            assert!(before.is_none_or(|before| before <= version), "{venue}: {version} after {before:?}");
            if let dataflow::cut::BookCut::Delta { base, .. } = &instrument.book {
                assert_eq!(before, Some(*base), "{venue}: a delta over what was not published");
            }
        }
    }
}

/// Runs the texts of an input through what a live connection of the venue reads: answers, and lists of instruments; of a
/// venue of batches, through what reads those.
///
/// # Panics
/// If a decoded block contradicts itself.
pub fn answers(data: &[u8]) {
    let (venue, frames) = frames(data);
    if venue.sends_batches() {
        frames.iter().for_each(|frame| batch(&frame.text));
    }
    let Some(protocol) = protocol(venue) else { return };
    for frame in frames {
        let text = String::from_utf8_lossy(&frame.text);
        drop(protocol.understand(&text));
        drop(protocol.listed(&text));
    }
}

fn batch(content: &[u8]) {
    for block in [decode_block(content), decode_snapshot(content)].into_iter().flatten() {
        assert!(block.ticks.windows(2).all(|pair| pair[0].ordinal < pair[1].ordinal), "places rise");
        assert!(block.ticks.iter().all(|tick| tick.ordinal < block.events && tick.pair < block.pairs.len()));
    }
    if let Ok(Block { ticks, .. }) = decode_block(content)
        && let Some(last) = ticks.last()
    {
        // The other reader may find fault with what this one passes over; but not another event there.
        let found = locate(content, last.ordinal).map(|found| found.is_some_and(|found| !found.failed));
        assert!(found.unwrap_or(true), "event {} is not where it was", last.ordinal);
    }
}
