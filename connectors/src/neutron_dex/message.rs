//! A block's results, in all three dialects of the node, with or without the envelope of JSON-RPC; a source snapshot; and
//! where in a block an event stands.
//!
//! Whether names and values are text or base64 is told by the names of the `TickUpdate`s themselves (see [`TickFault::Mixed`]),
//! so a document without any needs no decision, and one with both is refused. The lists' names tell the parts, whatever the
//! spelling.
//!
//! Never: something of a block of which anything that counts cannot be taken.

mod locate;
mod shape;
mod snapshot;

pub use locate::{Located, Part, locate};
pub use snapshot::decode_snapshot;

use super::{BETWEEN_TOKENS, Block, BlockTick, book::TickFault, book::Told};
use foldhash::HashMap;
use market::batch::{HEIGHT_MAX, ORDINAL_MAX};
use serde::de::DeserializeSeed;
use std::{borrow::Cow, str::Utf8Error};

/// Why a block or snapshot cannot be taken. Nothing of it is, then.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// Not text.
    #[error("not UTF-8: {0}")]
    Utf8(#[from] Utf8Error),
    /// Not JSON, or not of the documented shape.
    #[error("not the results of a block: {0}")]
    Json(#[from] serde_json::Error),
    /// The node answered with an error.
    #[error("the node answered with an error in place of a block")]
    Refused,
    /// No height, or none that a position can hold.
    #[error("height {text:?} is none up to {HEIGHT_MAX}")]
    Height {
        /// What stands there, cut to a sane length.
        text: Box<str>,
    },
    /// Events of a block in lists of both shapes, so that their order is not known.
    #[error("block events in both begin_block_events or end_block_events and finalize_block_events")]
    Shapes,
    /// More events than positions can count.
    #[error("{events} events, of which {ORDINAL_MAX} can be counted")]
    Events {
        /// How many.
        events: u64,
    },
    /// An event that counts tells no tick.
    #[error("event {ordinal}: {fault}")]
    Tick {
        /// Its place among all events of the block, or among the ticks of the snapshot.
        ordinal: u64,
        /// Why.
        fault: TickFault,
    },
}

/// Decodes the results of a block.
///
/// # Errors
/// [`BlockError`].
pub fn decode_block(content: &[u8]) -> Result<Block, BlockError> {
    let text = std::str::from_utf8(content)?;
    let mut reader = Reader::default();
    let mut json = serde_json::Deserializer::from_str(text);
    shape::Document(&mut reader, true).deserialize(&mut json)?;
    json.end()?;
    reader.finish()
}

/// A part of the block as it is read: its events are counted from 0.
#[derive(Debug, Default)]
struct Section {
    events: u64,
    ticks: Vec<BlockTick>,
    /// The first event that tells no tick.
    fault: Option<(u64, TickFault)>,
}

/// What a transaction takes back if it turns out to have failed.
#[derive(Clone, Copy, Debug)]
struct Mark {
    ticks: usize,
    faulty: bool,
    coded: Option<bool>,
}

/// A block as it is read, its parts in whatever order they come.
#[derive(Debug, Default)]
struct Reader {
    height: Option<Box<str>>,
    refused: bool,
    begin: Section,
    transactions: Section,
    end: Section,
    /// Events in lists of the older shapes, and of the newer.
    listed: [u64; 2],
    failed: u64,
    /// Whether the document is in base64, once an event has told.
    coded: Option<bool>,
    pairs: Pairs,
}

impl Reader {
    fn mark(&self) -> Mark {
        let section = &self.transactions;
        Mark { ticks: section.ticks.len(), faulty: section.fault.is_some(), coded: self.coded }
    }

    /// The transaction since the mark failed: it changed nothing, and what it says need not be right.
    fn take_back(&mut self, mark: Mark) {
        self.failed += 1;
        self.transactions.ticks.truncate(mark.ticks);
        if !mark.faulty {
            self.transactions.fault = None;
        }
        self.coded = mark.coded;
    }

    /// Takes the next event of a part.
    fn take(&mut self, part: Part, event: shape::Event<'_>) {
        let section = match part {
            Part::BeginBlock => &mut self.begin,
            Part::Transaction => &mut self.transactions,
            Part::EndBlock => &mut self.end,
        };
        let ordinal = section.events;
        section.events += 1;
        if !event.counts {
            return;
        }
        let told = event.attributes.event().and_then(|told| match told {
            Some(told) if *self.coded.get_or_insert(told.coded) != told.coded => Err(TickFault::Mixed),
            told => Ok(told),
        });
        match told {
            Ok(Some(told)) => section.ticks.push(self.pairs.tick(ordinal, told)),
            Ok(None) => {}
            Err(fault) => {
                section.fault.get_or_insert((ordinal, fault));
            }
        }
    }

    fn finish(self) -> Result<Block, BlockError> {
        if self.refused {
            return Err(BlockError::Refused);
        }
        let height = height(self.height.as_deref().unwrap_or_default())?;
        if self.listed.iter().all(|events| *events > 0) {
            return Err(BlockError::Shapes);
        }
        let mut events = 0;
        let mut ticks = Vec::new();
        for section in [self.begin, self.transactions, self.end] {
            if let Some((ordinal, fault)) = section.fault {
                return Err(BlockError::Tick { ordinal: events + ordinal, fault });
            }
            let placed = section.ticks.into_iter().map(|tick| BlockTick { ordinal: events + tick.ordinal, ..tick });
            // The first part with ticks is often the only one.
            if events == 0 {
                ticks = placed.collect()
            } else {
                ticks.extend(placed)
            }
            events += section.events;
        }
        if events > ORDINAL_MAX {
            return Err(BlockError::Events { events });
        }
        let pairs = self.pairs.in_order_of(&mut ticks);
        Ok(Block { height, events, failed: self.failed, pairs, ticks })
    }
}

/// A height that a position can hold.
fn height(text: &str) -> Result<u64, BlockError> {
    let known = text.parse().ok().filter(|height| *height <= HEIGHT_MAX);
    known.ok_or_else(|| BlockError::Height { text: crate::venue_feed::excerpt(text) })
}

/// The pairs of a block by their tokens.
#[derive(Debug, Default)]
struct Pairs {
    named: Vec<(Box<str>, Box<str>)>,
    by_tokens: HashMap<Box<str>, HashMap<Box<str>, usize>>,
    last: usize,
}

impl Pairs {
    fn tick(&mut self, ordinal: u64, told: Told<'_>) -> BlockTick {
        let Told { token_zero, token_one, side, tick_index, fee, tranche, reserves, coded: _ } = told;
        let pair = self.of(token_zero, token_one);
        BlockTick { ordinal, pair, side, tick_index, fee, tranche, reserves }
    }

    /// The place of a pair, given one if it is new. Most events are of the pair before them.
    fn of(&mut self, zero: Cow<'_, str>, one: Cow<'_, str>) -> usize {
        if self.named.get(self.last).is_some_and(|(last_zero, last_one)| **last_zero == *zero && **last_one == *one) {
            return self.last;
        }
        let known = self.by_tokens.get(&*zero).and_then(|ones| ones.get(&*one)).copied();
        self.last = known.unwrap_or_else(|| {
            let (zero, one): (Box<str>, Box<str>) = (zero.into(), one.into());
            let place = self.named.len();
            self.by_tokens.entry(zero.clone()).or_default().insert(one.clone(), place);
            self.named.push((zero, one));
            place
        });
        self.last
    }

    /// The pairs that ticks are of, in the order of the ticks, which get their new places.
    fn in_order_of(mut self, ticks: &mut [BlockTick]) -> Vec<(Box<str>, Box<str>)> {
        let mut places: Vec<Option<usize>> = vec![None; self.named.len()];
        let mut pairs = Vec::new();
        for tick in ticks {
            let Some((place, named)) = places.get_mut(tick.pair).zip(self.named.get_mut(tick.pair)) else { continue };
            tick.pair = *place.get_or_insert_with(|| {
                pairs.push(std::mem::take(named));
                pairs.len() - 1
            });
        }
        pairs
    }
}

/// The symbol of a pair.
#[must_use]
pub fn symbol(token_zero: &str, token_one: &str) -> String {
    [token_zero, BETWEEN_TOKENS, token_one].concat()
}

/// Base and quote asset of a pair's text, `TokenZero<>TokenOne`.
#[must_use]
pub fn assets(symbol: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (zero, one) = symbol.split_once(BETWEEN_TOKENS)?;
    (!zero.is_empty() && !one.is_empty()).then_some((zero.into(), one.into()))
}

#[cfg(test)]
mod tests;
