//! Seeds for the fuzz targets: recorded frames as they are, and the same bent, cut, doubled, spliced and mixed up, each from
//! one number.
//!
//! Never: the operating system's randomness.

use super::FuzzFrame;
use crate::corpus;
use anyhow::Result;
use connectors::{
    capture::MergedCaptures,
    neutron_dex::generator::{DexGenerator, DexOptions, Dialect},
    raw::{RawKind, RawPayload},
};
use market::Venue;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// Frames of one case.
pub const FRAMES: usize = 64;
/// Longest frame that is taken from a capture; longer ones only cost time.
const FRAME_BYTES_MAX: usize = 4_096;
/// Frames taken from each capture.
const RECORDED_MAX: usize = 2_000;

/// Words that numbers and texts are replaced by.
const WORDS: [&str; 16] = [
    "0",
    "-1",
    "null",
    "\"\"",
    "1e400",
    "18446744073709551616",
    "9007199254740993",
    "-0",
    "NaN",
    "\"NaN\"",
    "[]",
    "{}",
    "0E-8",
    "1.7e-7",
    "\"\\u0000\"",
    "true",
];

struct Chance(ChaCha8Rng);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.0.next_u64() % bound).unwrap_or(0)
    }

    /// A number below a bound of a byte.
    fn byte(&mut self, bound: u8) -> u8 {
        u8::try_from(self.below(usize::from(bound))).unwrap_or(0)
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// Blocks of a made-up chain, small enough to be a frame each, in all dialects.
fn made_up() -> impl Iterator<Item = FuzzFrame> {
    let options = DexOptions {
        pairs: 2,
        ticks_per_pair: 20,
        events_per_block: 3,
        dialect: Dialect::Mixed,
        ..DexOptions::default()
    };
    let blocks = DexGenerator::new(options).take(FRAMES * 4);
    blocks.map(|batch| FuzzFrame { kind: RawKind::Http, leg: 0, text: batch.content })
}

/// The frames that seeds of a venue are made of.
///
/// # Errors
/// When a capture cannot be read.
pub fn recorded(venue: Venue) -> Result<Vec<FuzzFrame>> {
    let mut all = Vec::new();
    for file in corpus::of(venue) {
        for line in MergedCaptures::open(&[file])?.take(RECORDED_MAX) {
            let frame = line?.frame;
            let RawPayload::Text(text) = frame.raw else { continue };
            let kind = if frame.kind == RawKind::Http { RawKind::Http } else { RawKind::Ws };
            if text.len() <= FRAME_BYTES_MAX {
                all.push(FuzzFrame { kind, leg: 0, text: text.into_bytes() });
            }
        }
    }
    if venue == Venue::NeutronDex {
        // Of this venue blocks are recorded one by one, and none of them joins another.
        all.extend(made_up());
    }
    if all.is_empty() {
        println!("{venue}: no recordings; made from words alone");
        all.extend(WORDS.iter().map(|word| FuzzFrame { kind: RawKind::Ws, leg: 0, text: word.as_bytes().to_vec() }));
    }
    Ok(all)
}

/// Bends one text.
fn bend(text: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = chance.below(text.len());
    match chance.below(6) {
        0 => text.truncate(at),
        1 => {
            if let Some(byte) = text.get_mut(at) {
                *byte = chance.byte(u8::MAX);
            }
        }
        2 => {
            let end = text[at..].iter().position(|byte| matches!(byte, b',' | b']' | b'}')).map_or(at, |end| at + end);
            let word = WORDS[chance.below(WORDS.len())];
            text.splice(at..end, word.bytes());
        }
        3 => {
            let from = chance.below(other.len());
            text.splice(at.., other[from..].iter().copied());
        }
        4 => {
            let piece: Vec<u8> = text[at..].iter().copied().take(32).collect();
            text.splice(at..at, piece);
        }
        _ => {
            let digit = text.iter().skip(at).position(u8::is_ascii_digit).map(|found| at + found);
            if let Some(digit) = digit.and_then(|digit| text.get_mut(digit)) {
                *digit = b'0' + chance.byte(10);
            }
        }
    }
}

/// One input of a venue.
#[must_use]
pub fn case(venue: Venue, recorded: &[FuzzFrame], seed: u64) -> Vec<u8> {
    let mut chance = Chance(ChaCha8Rng::seed_from_u64(seed));
    let start = chance.below(recorded.len());
    let run = recorded.iter().cycle().skip(if chance.one_in(3) { 0 } else { start });
    let mut frames = Vec::new();
    for frame in run.take(FRAMES) {
        let mut frame = frame.clone();
        frame.leg = chance.byte(3);
        if chance.one_in(4) {
            let other = &recorded[chance.below(recorded.len())].text;
            bend(&mut frame.text, other, &mut chance);
        }
        if chance.one_in(40) {
            let kind = [RawKind::Open, RawKind::Close, RawKind::Alive, RawKind::Http][chance.below(4)];
            frames.push(FuzzFrame { kind, ..frame.clone() });
        }
        if chance.one_in(10) {
            frames.push(frame.clone());
        }
        frames.push(frame);
    }
    if frames.len() > 2 && chance.one_in(2) {
        let at = chance.below(frames.len() - 1);
        frames.swap(at, at + 1);
    }
    super::input(venue, &frames)
}
