//! One pair of the made-up exchange: what rests where, and what users do to it.
//!
//! Never: a bid at or above an ask; a swap takes what is in its way.

use super::{LIFE_BLOCKS_MAX, LiveTick, TOUCHED_MAX, chance::Chance};
use market::U256;
use std::{collections::BTreeMap, sync::Arc};

/// Fees of pools.
const FEES: [u32; 6] = [1, 5, 10, 20, 50, 100];

/// How far from the price orders and pools are, in steps.
const AROUND: u32 = 300;

/// How far a swap moves the price at most, in steps.
const SWAP: u32 = 6;

/// Digits of a tranche's parts.
const ALPHABET: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

/// Digits of the hash in a token of another chain.
const HEX: &str = "0123456789ABCDEF";

/// The tokens that everything is traded for.
const MONEY: [&str; 2] = ["untrn", "ibc/B559A80D62249C8AA07A380E2A2BEA6E5CA9A6F079C912C3A9E9B494105E4F81"];

/// Which of both tokens rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rests {
    Zero,
    One,
}

/// Who put it there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Maker {
    Pool(u32),
    Tranche(Arc<str>),
}

/// What names a tick; the greater exponent is the worse for who takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) rests: Rests,
    pub(super) tick_index: i64,
    pub(super) maker: Maker,
}

/// What rests at a tick after something happened.
#[derive(Clone, Debug)]
pub(super) struct Resting {
    pub(super) key: Key,
    pub(super) reserves: U256,
    /// Amounts in and out of a swap.
    pub(super) swapped: Option<[U256; 2]>,
    /// The height that a new order ends at by itself.
    pub(super) ends: Option<u64>,
}

impl Resting {
    fn at(key: Key, reserves: U256) -> Self {
        Self { key, reserves, swapped: None, ends: None }
    }
}

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) token_zero: Arc<str>,
    pub(super) token_one: Arc<str>,
    ticks: BTreeMap<Key, U256>,
    /// Keys to draw from; those that died are sorted out when they are drawn.
    drawn: Vec<Key>,
    /// The price: asks are above it, bids at or below.
    price: i64,
    /// Orders so far.
    orders: u64,
    number: u64,
}

impl Pair {
    pub(super) fn new(number: usize, chance: &mut Chance) -> Self {
        let money = MONEY[number % MONEY.len()];
        let token = if number % 3 == 2 {
            let owner = chance.text(&ALPHABET.replace(['1', 'b', 'i', 'o'], ""), 38);
            format!("factory/neutron1{owner}/token{number}")
        } else {
            format!("ibc/{}", chance.text(HEX, 64))
        };
        let (token_zero, token_one) = if *token < *money { (&*token, money) } else { (money, &*token) };
        Self {
            token_zero: token_zero.into(),
            token_one: token_one.into(),
            ticks: BTreeMap::new(),
            drawn: Vec::new(),
            price: chance.step(60_000) - 30_000,
            orders: 0,
            number: u64::try_from(number).unwrap_or(0),
        }
    }

    pub(super) fn state(&self) -> Vec<LiveTick> {
        let tick = |(key, reserves): (&Key, &U256)| {
            let (fee, tranche_key) = match &key.maker {
                Maker::Pool(fee) => (Some(*fee), None),
                Maker::Tranche(tranche) => (None, Some(Arc::clone(tranche))),
            };
            LiveTick {
                token_zero: Arc::clone(&self.token_zero),
                token_one: Arc::clone(&self.token_one),
                token_in: Arc::clone(self.token_in(key.rests)),
                tick_index: key.tick_index,
                fee,
                tranche_key,
                reserves: *reserves,
            }
        };
        self.ticks.iter().map(tick).collect()
    }

    pub(super) fn token_in(&self, rests: Rests) -> &Arc<str> {
        match rests {
            Rests::Zero => &self.token_zero,
            Rests::One => &self.token_one,
        }
    }

    /// Whether the tick lived until now.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.ticks.remove(key).is_some()
    }

    fn set(&mut self, key: &Key, reserves: U256) {
        if reserves.is_zero() {
            self.ticks.remove(key);
        } else if self.ticks.insert(key.clone(), reserves).is_none() {
            self.drawn.push(key.clone());
        }
        if self.drawn.len() > 64 + 2 * self.ticks.len() {
            self.drawn = self.ticks.keys().cloned().collect();
        }
    }

    fn draw(&mut self, chance: &mut Chance) -> Option<Key> {
        while !self.drawn.is_empty() {
            let at = chance.index(self.drawn.len());
            let key = self.drawn.get(at)?.clone();
            if self.ticks.contains_key(&key) {
                return Some(key);
            }
            self.drawn.swap_remove(at);
        }
        None
    }

    /// What a user does, and what rests then.
    pub(super) fn action(&mut self, height: u64, wanted: usize, chance: &mut Chance) -> Vec<Resting> {
        let few = self.ticks.len() < wanted;
        match chance.below(16) {
            0..4 => vec![self.order(height, chance)],
            4..7 => self.pool(chance),
            7..10 if few => vec![self.order(height, chance)],
            7..10 => self.change(chance, true),
            10..12 => self.change(chance, false),
            _ => self.swap(chance),
        }
    }

    /// The exponent of a price for who takes what rests there.
    fn key(rests: Rests, price: i64, maker: Maker) -> Key {
        let tick_index = match rests {
            Rests::Zero => price,
            Rests::One => -price,
        };
        Key { rests, tick_index, maker }
    }

    fn order(&mut self, height: u64, chance: &mut Chance) -> Resting {
        self.orders += 1;
        let tranche = [sortable(height), sortable(self.orders << 16 | self.number)].concat();
        let away = chance.step(AROUND);
        let (rests, price) =
            if chance.in_256(128) { (Rests::Zero, self.price + 1 + away) } else { (Rests::One, self.price - away) };
        let key = Self::key(rests, price, Maker::Tranche(tranche.into()));
        let ends = match chance.below(4) {
            // Just in time: with this block's successor.
            0 => Some(height + 1),
            1 | 2 => Some(height + 1 + chance.below(LIFE_BLOCKS_MAX)),
            _ => None,
        };
        let reserves = chance.reserves();
        self.set(&key, reserves);
        Resting { ends, ..Resting::at(key, reserves) }
    }

    /// A deposit, or a withdrawal: the chain tells both sides, also the one that did not change, and now and then neither did.
    fn pool(&mut self, chance: &mut Chance) -> Vec<Resting> {
        let fee = FEES[chance.index(FEES.len())];
        let width = i64::from(fee);
        // The ask is above the price and the bid at or below it.
        let center = self.price - width + 1 + chance.step(2 * fee);
        let sides = [
            Self::key(Rests::Zero, center + width, Maker::Pool(fee)),
            Self::key(Rests::One, center - width, Maker::Pool(fee)),
        ];
        let changed = chance.below(4);
        let of = |(at, key): (u64, Key)| {
            let before = self.ticks.get(&key).copied().unwrap_or_default();
            let emptied = chance.in_256(32);
            let now = if emptied { U256::ZERO } else { chance.reserves() };
            let reserves = if changed == at || changed == 2 { now } else { before };
            self.set(&key, reserves);
            Resting::at(key, reserves)
        };
        (0..).zip(sides).map(of).collect()
    }

    /// A tick is cancelled, or some of it taken.
    fn change(&mut self, chance: &mut Chance, all: bool) -> Vec<Resting> {
        let Some(key) = self.draw(chance) else { return self.pool(chance) };
        let before = self.ticks.get(&key).copied().unwrap_or_default();
        let reserves = if all { U256::ZERO } else { before / U256::from(2 + chance.below(3)) };
        self.set(&key, reserves);
        vec![Resting::at(key, reserves)]
    }

    /// A swap moves the price, and takes all that is in its way.
    fn swap(&mut self, chance: &mut Chance) -> Vec<Resting> {
        let up = chance.in_256(128);
        let far = 1 + chance.step(SWAP);
        let price = self.price + if up { far } else { -far };
        // An ask at the new price is below it no longer; a bid at it may stay.
        let (rests, through) = if up { (Rests::Zero, price) } else { (Rests::One, -price - 1) };
        let least = Key { rests, tick_index: i64::MIN, maker: Maker::Pool(0) };
        let in_way = self.ticks.range(least..).take_while(|(key, _)| key.rests == rests && key.tick_index <= through);
        let taken: Vec<(Key, U256)> = in_way.take(TOUCHED_MAX + 1).map(|(key, out)| (key.clone(), *out)).collect();
        if taken.len() > TOUCHED_MAX {
            // Too much is in its way; it takes some of the best, and the price stays.
            let Some((key, before)) = taken.into_iter().next() else { return Vec::new() };
            let left = before / U256::from(3_u64);
            self.set(&key, left);
            return vec![Resting { swapped: Some([before - left, before - left]), ..Resting::at(key, left) }];
        }
        self.price = price;
        let mut resting = Vec::new();
        for (key, out) in taken {
            self.set(&key, U256::ZERO);
            resting.push(Resting { swapped: Some([out, out]), ..Resting::at(key.clone(), U256::ZERO) });
            if let Maker::Pool(fee) = key.maker {
                // What was paid rests on the pool's other side, two fees away.
                let other = Key {
                    rests: if rests == Rests::Zero { Rests::One } else { Rests::Zero },
                    tick_index: -(key.tick_index - 2 * i64::from(fee)),
                    maker: key.maker,
                };
                let paid = self.ticks.get(&other).copied().unwrap_or_default().saturating_add(out);
                self.set(&other, paid);
                resting.push(Resting::at(other, paid));
            }
        }
        resting
    }

    /// What a transaction that fails would have done: nothing of it holds.
    pub(super) fn in_vain(&mut self, chance: &mut Chance) -> Vec<Resting> {
        let Some(key) = self.draw(chance) else { return Vec::new() };
        let new = Key { maker: Maker::Tranche("invain".into()), ..key };
        vec![Resting::at(key, U256::ZERO), Resting::at(new, chance.reserves())]
    }
}

/// A number in digits whose texts are in its order: how many there are comes first.
fn sortable(number: u64) -> String {
    let mut rest = number;
    let mut digits = Vec::new();
    while rest > 0 || digits.is_empty() {
        let at = usize::try_from(rest % 36).unwrap_or(0);
        digits.push(ALPHABET.get(at..=at).unwrap_or("0"));
        rest /= 36;
    }
    digits.reverse();
    let length = (digits.len() + 9).min(35);
    format!("{}{}", ALPHABET.get(length..=length).unwrap_or("z"), digits.concat())
}
