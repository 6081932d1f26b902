//! What becomes of a single message: lost, sent twice, sent late, garbled, delayed.
//!
//! Never: a draw that does not follow from a fault's seed.

use super::{Fault, Faults, count};
use crate::simulator::{chance::Chance, serve::bus::Kind};
use market::Venue;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Message;

/// All of ten thousand.
const ALL: u32 = 10_000;
/// Connections whose delay one fault remembers; the oldest one makes room, and begins anew if it still lives.
const DRIFTS_MAX: usize = 1_024;
/// A step of a drifting delay is at most this part of its span, up or down.
const DRIFT_STEPS: u64 = 8;
/// Bytes of random garbage.
const GARBAGE_BYTES: u64 = 64;
/// The printable characters of ASCII, from this on.
const PRINTABLE: u64 = 0x20;
/// So many of them.
const PRINTABLES: u64 = 95;

/// What is sent in place of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GarbageKind {
    /// The message, broken off somewhere.
    #[default]
    Truncated,
    /// A text of random characters.
    Random,
    /// A binary frame of random bytes.
    Binary,
}

/// Of 10,000 messages, how many meet what; together at most 10,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// Are not sent.
    pub drop: u32,
    /// Are sent twice.
    pub duplicate: u32,
    /// Are sent after the next one of their symbol.
    pub reorder: u32,
    /// Are replaced by garbage of any kind.
    pub garbage: u32,
    /// Are not sent, and their connection is reset.
    pub reset: u32,
}

impl Rates {
    pub(super) fn fits(self) -> bool {
        let all = [self.drop, self.duplicate, self.reorder, self.garbage, self.reset];
        all.into_iter().try_fold(0, u32::checked_add).is_some_and(|all| (1..=ALL).contains(&all))
    }
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::simulator::serve) enum Fate {
    Passes,
    Lost,
    Twice,
    /// After the next one of its symbol and kind.
    Later,
    Garbled(Garbage),
    /// It is lost, and its connection with it.
    Ends,
}

/// Garbage that was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::simulator::serve) enum Garbage {
    /// Broken off after this share of it, in 2^-32.
    Truncated(u32),
    Random(String),
    Binary(Vec<u8>),
}

impl Garbage {
    fn draw(kind: GarbageKind, chance: &mut Chance) -> Self {
        let byte = |number: u64| u8::try_from(number).unwrap_or(b'?');
        match kind {
            GarbageKind::Truncated => {
                Self::Truncated(u32::try_from(chance.below(u64::from(u32::MAX))).unwrap_or_default())
            }
            GarbageKind::Random => Self::Random(
                (0..GARBAGE_BYTES).map(|_| char::from(byte(PRINTABLE + chance.below(PRINTABLES)))).collect(),
            ),
            GarbageKind::Binary => Self::Binary((0..GARBAGE_BYTES).map(|_| byte(chance.below(256))).collect()),
        }
    }

    /// What is sent in place of a text.
    pub(in crate::simulator::serve) fn of(self, text: &str) -> Message {
        match self {
            Self::Truncated(share) => {
                let length = u64::try_from(text.len()).unwrap_or(0);
                let wide = (u128::from(length) * u128::from(share)) >> 32;
                let at = text.floor_char_boundary(usize::try_from(wide).unwrap_or(0));
                Message::text(text.get(..at).unwrap_or_default())
            }
            Self::Random(text) => Message::text(text),
            Self::Binary(bytes) => Message::binary(bytes),
        }
    }
}

/// Where a fault's randomness comes from.
pub(super) struct Draws(Option<Chance>);

impl Draws {
    pub(super) fn of(fault: &Fault) -> Self {
        match fault {
            Fault::Chaos { seed, .. } | Fault::Garbage { seed, .. } => Self(Some(Chance::new(*seed))),
            _ => Self(None),
        }
    }
}

/// A delay that drifts.
pub(super) struct Drift {
    us: u64,
    chance: Chance,
}

impl Drift {
    /// The next delay between two bounds, in microseconds.
    fn next(&mut self, least_us: u64, most_us: u64) -> u64 {
        let step = (most_us - least_us) / DRIFT_STEPS + 1;
        self.us = (self.us + self.chance.below(2 * step + 1)).saturating_sub(step).clamp(least_us, most_us);
        self.us
    }
}

/// Whether a fault that names a symbol and a connection, or does not, means this message.
fn means(symbol: Option<&str>, of: &str, connection: Option<u64>, to: u64) -> bool {
    symbol.is_none_or(|symbol| symbol == of) && connection.is_none_or(|connection| connection == to)
}

/// What chaos draws for one message, and how it is counted.
fn chaotic(rates: Rates, chance: &mut Chance) -> Option<(Fate, &'static str)> {
    let mut drawn = u32::try_from(chance.below(u64::from(ALL))).unwrap_or(ALL);
    let mut falls = |rate: u32| {
        let falls = drawn < rate;
        drawn = drawn.wrapping_sub(rate);
        falls
    };
    if falls(rates.drop) {
        Some((Fate::Lost, "chaos_drop"))
    } else if falls(rates.duplicate) {
        Some((Fate::Twice, "chaos_duplicate"))
    } else if falls(rates.reorder) {
        Some((Fate::Later, "chaos_reorder"))
    } else if falls(rates.garbage) {
        let kinds = [GarbageKind::Truncated, GarbageKind::Random, GarbageKind::Binary];
        let kind = kinds.get(chance.index(kinds.len())).copied().unwrap_or_default();
        Some((Fate::Garbled(Garbage::draw(kind, chance)), "chaos_garbage"))
    } else if falls(rates.reset) {
        Some((Fate::Ends, "chaos_reset"))
    } else {
        None
    }
}

impl Faults {
    /// What becomes of a message of data. Where another one is held already, none is held.
    pub(in crate::simulator::serve) fn fate(&mut self, at: Venue, to: u64, of: &str, kind: Kind, holds: bool) -> Fate {
        let now = Instant::now();
        let update = kind == Kind::Update;
        for armed in self.armed.iter_mut().filter(|armed| armed.active(now) && armed.fault.venue() == at) {
            let fate = match (&armed.fault, &mut armed.draws.0) {
                (Fault::Duplicate { symbol, connection, .. }, _)
                    if update && means(symbol.as_deref(), of, *connection, to) =>
                {
                    Fate::Twice
                }
                (Fault::Reorder { symbol, connection, .. }, _)
                    if update && !holds && means(symbol.as_deref(), of, *connection, to) =>
                {
                    Fate::Later
                }
                (Fault::Garbage { symbol, connection, kind, .. }, Some(chance))
                    if update && means(symbol.as_deref(), of, *connection, to) =>
                {
                    Fate::Garbled(Garbage::draw(*kind, chance))
                }
                (Fault::Chaos { connection, per_10000, .. }, Some(chance)) if means(None, of, *connection, to) => {
                    match chaotic(*per_10000, chance) {
                        Some((Fate::Later, _)) if holds => continue,
                        Some((fate, name)) => {
                            *self.fired.entry(name).or_default() += 1;
                            fate
                        }
                        None => continue,
                    }
                }
                _ => continue,
            };
            count(armed, &mut self.fired);
            return fate;
        }
        Fate::Passes
    }

    /// How long a message is delayed.
    pub(in crate::simulator::serve) fn delay(&mut self, at: Venue, to: u64) -> Option<Duration> {
        if self.armed.is_empty() {
            return None;
        }
        let now = Instant::now();
        for armed in self.armed.iter_mut().filter(|armed| armed.active(now)) {
            let Fault::Delay { venue, connection, min_ms, max_ms, seed, .. } = armed.fault else { continue };
            if venue != at || connection.is_some_and(|connection| connection != to) {
                continue;
            }
            if armed.drifts.len() >= DRIFTS_MAX && !armed.drifts.contains_key(&to) {
                armed.drifts.pop_first();
            }
            let (least_us, most_us) = (min_ms * 1_000, max_ms * 1_000);
            let drift = armed.drifts.entry(to).or_insert_with(|| {
                let mut chance = Chance::new(seed.wrapping_add(to));
                Drift { us: least_us + chance.below(most_us - least_us + 1), chance }
            });
            let us = drift.next(least_us, most_us);
            count(armed, &mut self.fired);
            return Some(Duration::from_micros(us));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_drifts_within_its_bounds_in_small_steps() {
        let mut drift = Drift { us: 6_000, chance: Chance::new(3) };
        let mut last = 6_000;
        let mut seen = (u64::MAX, 0);
        for _ in 0..10_000 {
            let us = drift.next(6_000, 9_000);
            assert!((6_000..=9_000).contains(&us) && us.abs_diff(last) <= 376, "{last} {us}");
            seen = (seen.0.min(us), seen.1.max(us));
            last = us;
        }
        assert!(seen.0 < 6_500 && seen.1 > 8_500, "{seen:?}");
    }

    #[test]
    fn chaos_follows_from_its_seed_and_its_rates() {
        let rates = Rates { drop: 1_000, duplicate: 500, reorder: 500, garbage: 300, reset: 10 };
        let draw = |seed| -> Vec<Option<&str>> {
            let mut chance = Chance::new(seed);
            (0..10_000).map(|_| chaotic(rates, &mut chance).map(|(_, name)| name)).collect()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let dropped = draw(1).iter().filter(|name| **name == Some("chaos_drop")).count();
        assert!((800..1_200).contains(&dropped), "{dropped}");
        assert!(rates.fits() && !Rates { drop: 10_001, ..rates }.fits() && !Rates::default().fits());
    }

    #[test]
    fn a_text_is_broken_off_between_characters() {
        let text = "{\"a\":\"äöü\"}";
        for share in (0..u32::MAX).step_by(1 << 24) {
            let Message::Text(broken) = Garbage::Truncated(share).of(text) else { panic!("it is a text") };
            assert!(broken.len() < text.len() && text.starts_with(&*broken));
        }
    }
}
