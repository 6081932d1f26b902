//! The weather of the simulated market: how fast things happen (calm or burst, for all pairs together), and the fair
//! price of each pair that all venues follow.
//!
//! Never: a price that is sent; what is sent is made of whole ticks, by the books.

use super::chance::Chance;

/// Mean length of a calm stretch.
const CALM_S: f64 = 0.9;
/// Mean length of a burst.
const BURST_S: f64 = 0.1;
/// How much faster a burst is than calm: about the ratio of the corpus' busiest second to its mean.
const BURST_FACTOR: f64 = 6.0;
/// Calm volatility per square root of a second, as a share of the price.
const VOLATILITY: f64 = 4e-5;
/// How much stronger prices move in a burst.
const BURST_VOLATILITY: f64 = 3.0;
/// Prices come back to where they began over this many seconds.
const REVERSION_S: f64 = 1_800.0;
/// No price leaves this distance (in logarithm) from its beginning: far from zero, and from the end of the integers.
const WANDER_MAX: f64 = 0.2;
/// A pair that was quiet for longer moves as after this many seconds, so that a book can follow in a few steps.
const MOVE_MAX_S: f64 = 1.0;

const NS_PER_S: f64 = 1e9;

/// Market-wide intensity: a two-state Markov-modulated Poisson process, and the common factor of all prices.
pub(super) struct Weather {
    bursting: bool,
    changes_ns: u64,
    per_second_calm: f64,
    common: Walk,
}

impl Weather {
    pub(super) fn new(per_second: u32, start_ns: u64, chance: &mut Chance) -> Self {
        let share = BURST_S / (BURST_S + CALM_S);
        let calm = f64::from(per_second) / (1.0 - share + share * BURST_FACTOR);
        let changes_ns = later(start_ns, CALM_S * chance.exponential());
        Self { bursting: false, changes_ns, per_second_calm: calm, common: Walk::new(start_ns) }
    }

    /// True in a burst.
    pub(super) const fn bursting(&self) -> bool {
        self.bursting
    }

    /// When the next thing after `now_ns` happens; never when nothing ever does.
    pub(super) fn next_ns(&mut self, mut now_ns: u64, chance: &mut Chance) -> u64 {
        if self.per_second_calm <= 0.0 {
            return super::NEVER;
        }
        loop {
            let rate = if self.bursting { self.per_second_calm * BURST_FACTOR } else { self.per_second_calm };
            let next = later(now_ns, chance.exponential() / rate).max(now_ns + 1);
            if next <= self.changes_ns {
                return next;
            }
            // Without memory, so drawing again from the change on is exact.
            now_ns = self.changes_ns;
            self.bursting = !self.bursting;
            let mean = if self.bursting { BURST_S } else { CALM_S };
            self.changes_ns = later(now_ns, mean * chance.exponential()).max(now_ns + 1);
        }
    }

    /// The common factor of all prices at `now_ns`, in logarithm.
    pub(super) fn common(&mut self, now_ns: u64, chance: &mut Chance) -> f64 {
        self.common.step(now_ns, self.bursting, 1.0, chance)
    }
}

/// A mean-reverting, bounded random walk of a logarithm.
struct Walk {
    at_ns: u64,
    value: f64,
}

impl Walk {
    const fn new(at_ns: u64) -> Self {
        Self { at_ns, value: 0.0 }
    }

    fn step(&mut self, now_ns: u64, bursting: bool, scale: f64, chance: &mut Chance) -> f64 {
        let seconds = (seconds(now_ns.saturating_sub(self.at_ns))).min(MOVE_MAX_S);
        self.at_ns = now_ns;
        let volatility = scale * if bursting { VOLATILITY * BURST_VOLATILITY } else { VOLATILITY };
        let shock = volatility * seconds.sqrt() * chance.normal();
        self.value += shock - self.value * seconds / REVERSION_S;
        self.value = self.value.clamp(-WANDER_MAX / 2.0, WANDER_MAX / 2.0);
        self.value
    }
}

/// The fair price of one pair, common to its venues.
pub(super) struct Fair {
    start_e8: f64,
    beta: f64,
    own: Walk,
}

impl Fair {
    pub(super) fn new(price_e8: u64, start_ns: u64, chance: &mut Chance) -> Self {
        Self { start_e8: model(price_e8), beta: 0.5 + chance.unit() * 0.5, own: Walk::new(start_ns) }
    }

    /// Moves to `now_ns` and tells the price in 10^-8 of the quote asset.
    pub(super) fn step(&mut self, now_ns: u64, weather: &mut Weather, chance: &mut Chance) -> f64 {
        let common = weather.common(now_ns, chance);
        let own = self.own.step(now_ns, weather.bursting(), 0.7, chance);
        self.start_e8 * (self.beta * common + own).exp()
    }
}

/// A model price (10^-8 of the quote asset) in whole ticks, downwards, at least 1.
pub(super) fn ticks(price_e8: f64, basis: f64, decimals: u32) -> u64 {
    let tick_e8 = f64::from(10_u32.pow(8_u32.saturating_sub(decimals)));
    whole(price_e8 * (1.0 + basis) / tick_e8).max(1)
}

/// A whole number in the random model, where 53 bits are plenty.
pub(super) fn model(whole: u64) -> f64 {
    // Two exact halves: `From` has no u64.
    let (high, low) = (u32::try_from(whole >> 32).unwrap_or(0), u32::try_from(whole & 0xffff_ffff).unwrap_or(0));
    f64::from(high) * 4_294_967_296.0 + f64::from(low)
}

/// A share from 0 to 1 in parts of 256; anything else is brought into that range.
pub(super) fn in_256(share: f64) -> u32 {
    u32::try_from(whole(share.clamp(0.0, 1.0) * 256.0)).unwrap_or(0)
}

fn later(now_ns: u64, after_s: f64) -> u64 {
    now_ns.saturating_add(whole(after_s * NS_PER_S))
}

fn seconds(ns: u64) -> f64 {
    model(ns) / NS_PER_S
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates: a negative or NaN model value becomes 0"
)]
fn whole(value: f64) -> u64 {
    value as u64
}
