//! One instrument's rows on their way to a [`Restored`]: which of them live, and in which steps.
//!
//! Never: input or output; a tick that does not fit the finest steps shown in others.

use market::{Restored, RestoredTick, Scale, Side, TickChange, TickKey, Tranches, U256, Version};
use std::fmt;

/// A row of `tick_state` that is not dead by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptTick<'a> {
    /// Base and quote asset.
    pub(super) assets: [&'a str; 2],
    pub(super) asset_in: &'a str,
    pub(super) tick_index: i64,
    pub(super) fee: u32,
    pub(super) tranche_key: &'a str,
    pub(super) reserves: U256,
    pub(super) version: Version,
    pub(super) scale: Scale,
    pub(super) received_ns: i64,
}

/// Why an instrument's ticks cannot be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Its rows have no common steps that hold all of their numbers.
    Steps,
    /// A tick rests what is none of its assets.
    Asset,
    /// A tick is of a tranche whose name is too long, or one too many.
    Tranche,
}

impl fmt::Display for Flaw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Steps => "its numbers do not fit common steps",
            Self::Asset => "a tick rests none of its assets",
            Self::Tranche => "a tick has a tranche that cannot be numbered",
        })
    }
}

/// What is kept of one instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The greatest version of anything in it.
    version: Version,
    /// A tick that changed last before this is dead.
    whole: Option<Version>,
    scale: Scale,
    ticks: Vec<RestoredTick>,
    /// There were rows in other steps.
    mixed: bool,
    heard_ns: i64,
    replaced: u64,
    flaw: Option<Flaw>,
}

impl Kept {
    /// An instrument at a version, without ticks so far.
    #[must_use]
    pub const fn new(version: Version, scale: Scale, heard_ns: i64) -> Self {
        let ticks = Vec::new();
        Self { version, whole: None, scale, ticks, mixed: false, heard_ns, replaced: 0, flaw: None }
    }

    /// The instrument was written whole at this version.
    pub fn replaced_at(&mut self, whole: Version) {
        self.whole = self.whole.max(Some(whole));
        self.version = self.version.max(whole);
    }

    /// How many live rows a whole book had replaced.
    #[must_use]
    pub const fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Why it has no ticks although there are rows.
    #[must_use]
    pub const fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    /// Takes a row, numbering its tranche; whether it is kept.
    pub(super) fn take(&mut self, row: &KeptTick<'_>, tranches: &Tranches) -> bool {
        self.version = self.version.max(row.version);
        self.heard_ns = self.heard_ns.max(row.received_ns);
        if self.whole.is_some_and(|whole| row.version < whole) {
            self.replaced += 1;
            return false;
        }
        if self.flaw.is_some() {
            return false;
        }
        match self.tick(row, tranches) {
            Ok(tick) => self.ticks.push(RestoredTick { tick, version: row.version }),
            Err(flaw) => {
                self.flaw = Some(flaw);
                self.ticks = Vec::new();
            }
        }
        self.flaw.is_none()
    }

    fn tick(&mut self, row: &KeptTick<'_>, tranches: &Tranches) -> Result<TickChange, Flaw> {
        let [asset_0, asset_1] = row.assets;
        let side = match row.asset_in {
            asset if asset == asset_1 => Side::Bid,
            asset if asset == asset_0 => Side::Ask,
            _ => return Err(Flaw::Asset),
        };
        let tranche = tranches.intern(row.tranche_key).map_err(|_| Flaw::Tranche)?;
        let key = TickKey { tick_index: row.tick_index, fee: row.fee, tranche };
        let tick = TickChange { side, key, reserves: row.reserves };
        let finest = self.scale.finest(row.scale);
        self.mixed |= row.scale != self.scale;
        if finest != self.scale {
            for kept in &mut self.ticks {
                kept.tick = in_steps(kept.tick, self.scale, finest).ok_or(Flaw::Steps)?;
            }
            self.scale = finest;
        }
        in_steps(tick, row.scale, finest).ok_or(Flaw::Steps)
    }

    /// The book as the lane takes it. A stream that goes on from a log starts behind the `cursor`, the last place that
    /// is durable, and what is kept beyond that comes again; any other goes on from the greatest version.
    ///
    /// Of a log stream a place means the same in every epoch, and the log repeats its events in the epoch of now. So
    /// every tick is brought to that epoch: else one of an earlier epoch would look older than what is repeated of it.
    #[must_use]
    pub fn into_restored(mut self, cursor: Option<u64>) -> Restored {
        if self.mixed {
            // One price may be kept in two steps; the later change is the one that counts.
            self.ticks.sort_unstable_by_key(|kept| (kept.tick.side, kept.tick.key, std::cmp::Reverse(kept.version)));
            self.ticks.dedup_by_key(|kept| (kept.tick.side, kept.tick.key));
        }
        // Without its ticks a book cannot go on from a log, and waits for a snapshot.
        let cursor = cursor.filter(|_| self.flaw.is_none());
        let version = cursor.map_or(self.version, |place| Version::new(self.version.epoch, place));
        let places = self.ticks.iter().map(|kept| kept.version.seq).filter(|_| cursor.is_some());
        let greatest = places.fold(self.version.seq, u64::max);
        let restored = Restored {
            version,
            through: version.max(Version::new(self.version.epoch, greatest)),
            scale: self.scale,
            ticks: self.flaw.is_none().then_some(self.ticks),
            from_log: cursor.is_some(),
            heard_ns: u64::try_from(self.heard_ns).unwrap_or(0),
        };
        if restored.from_log { in_epoch(restored, version.epoch) } else { restored }
    }
}

/// A book of a log stream in another epoch, with all its versions.
#[must_use]
pub fn in_epoch(mut restored: Restored, epoch: u64) -> Restored {
    let ticks = restored.ticks.iter_mut().flatten().map(|tick| &mut tick.version);
    for version in ticks.chain([&mut restored.version, &mut restored.through]) {
        version.epoch = epoch;
    }
    restored
}

/// A tick of one scale in a finer one.
fn in_steps(tick: TickChange, from: Scale, finer: Scale) -> Option<TickChange> {
    let tick_index = from.price_in(finer, tick.key.tick_index)?;
    let reserves = from.quantity_in(finer, tick.reserves)?;
    Some(TickChange { key: TickKey { tick_index, ..tick.key }, reserves, ..tick })
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::scale::PRICE_POWERS;

    const SCALE: Scale = Scale { price: -2, quantity: -8 };

    fn row(asset_in: &'static str, tick_index: i64, reserves: u64, seq: u64) -> KeptTick<'static> {
        KeptTick {
            assets: ["BTC", "USD"],
            asset_in,
            tick_index,
            fee: 0,
            tranche_key: "",
            reserves: U256::from(reserves),
            version: Version::new(1, seq),
            scale: SCALE,
            received_ns: i64::try_from(seq).unwrap(),
        }
    }

    fn kept(rows: &[KeptTick<'_>]) -> Kept {
        let mut kept = Kept::new(Version::new(1, 9), SCALE, 3);
        for row in rows {
            kept.take(row, &Tranches::default());
        }
        kept
    }

    fn short(restored: &Restored) -> Vec<(Side, i64, u64, u64)> {
        let short = |kept: &RestoredTick| {
            let reserves = u64::try_from(kept.tick.reserves).unwrap();
            (kept.tick.side, kept.tick.key.tick_index, reserves, kept.version.seq)
        };
        restored.ticks.iter().flatten().map(short).collect()
    }

    #[test]
    fn a_book_goes_on_from_its_greatest_version_or_from_the_cursor() {
        let kept = kept(&[row("USD", 100, 1, 4), row("BTC", 101, 2, 7)]);
        let live = kept.clone().into_restored(None);
        assert_eq!((live.version, live.through, live.heard_ns), (Version::new(1, 9), Version::new(1, 9), 7));
        assert_eq!(short(&live), [(Side::Bid, 100, 1, 4), (Side::Ask, 101, 2, 7)]);
        assert!(!live.from_log);
        for (cursor, through) in [(5, 9), (9, 9), (12, 12)] {
            let batch = kept.clone().into_restored(Some(cursor));
            assert_eq!((batch.version, batch.through), (Version::new(1, cursor), Version::new(1, through)));
            assert_eq!((batch.from_log, batch.ticks), (true, live.ticks.clone()));
        }
        let behind = super::tests::kept(&[row("USD", 100, 1, 11)]).into_restored(None);
        assert_eq!(behind.version, Version::new(1, 11), "no tick is above its instrument");
    }

    #[test]
    fn what_a_whole_book_replaced_is_dead() {
        let mut kept = Kept::new(Version::new(1, 9), SCALE, 0);
        kept.replaced_at(Version::new(1, 6));
        let taken =
            [5, 6, 7].map(|seq| kept.take(&row("USD", i64::try_from(seq).unwrap(), 1, seq), &Tranches::default()));
        assert_eq!((taken, kept.replaced()), ([false, true, true], 1));
        assert_eq!(short(&kept.into_restored(None)), [(Side::Bid, 6, 1, 6), (Side::Bid, 7, 1, 7)]);
    }

    #[test]
    fn mixed_steps_become_the_finest() {
        let finer = KeptTick { scale: Scale { price: -3, quantity: -9 }, ..row("USD", 1_005, 30, 5) };
        let same_price = KeptTick { tick_index: 1_000, version: Version::new(1, 3), ..finer };
        let coarse = row("BTC", 101, 2, 7);
        let restored = kept(&[row("USD", 100, 1, 4), finer, same_price, coarse]).into_restored(None);
        assert_eq!(restored.scale, Scale { price: -3, quantity: -9 });
        let right = [(Side::Bid, 1_000, 10, 4), (Side::Bid, 1_005, 30, 5), (Side::Ask, 1_010, 20, 7)];
        assert_eq!(short(&restored), right);
    }

    #[test]
    fn what_cannot_be_used_leaves_the_version_without_ticks() {
        let wide = KeptTick { scale: Scale { price: -38, quantity: -8 }, ..row("USD", 1, 1, 5) };
        let whole = KeptTick { reserves: U256::MAX, ..row("USD", 1, 1, 5) };
        let fine = KeptTick { scale: Scale { price: -2, quantity: -9 }, ..row("USD", 2, 1, 5) };
        let long = "t".repeat(market::tranche::TRANCHE_BYTES_MAX + 1);
        let tranche = KeptTick { tranche_key: &long, ..row("USD", 1, 1, 5) };
        let powers = KeptTick { scale: Scale { price: PRICE_POWERS, ..SCALE }, ..row("USD", 0, 1, 5) };
        let before = row("USD", 100, 1, 4);
        for (rows, flaw) in [
            (vec![before, wide], Flaw::Steps),
            (vec![whole, fine], Flaw::Steps),
            (vec![fine, whole], Flaw::Steps),
            (vec![before, powers], Flaw::Steps),
            (vec![before, row("ETH", 1, 1, 5)], Flaw::Asset),
            (vec![before, tranche, before], Flaw::Tranche),
        ] {
            let kept = kept(&rows);
            assert_eq!(kept.flaw(), Some(flaw));
            for cursor in [None, Some(7)] {
                let restored = kept.clone().into_restored(cursor);
                assert_eq!((restored.version, restored.ticks), (Version::new(1, 9), None), "{flaw}");
                assert!(!restored.from_log, "it waits for a snapshot");
            }
        }
    }

    #[test]
    fn a_log_stream_has_all_its_versions_in_the_epoch_of_now() {
        let mut kept = Kept::new(Version::new(2, 6), SCALE, 0);
        let old = KeptTick { version: Version::new(1, 8), ..row("USD", 100, 1, 0) };
        let new = KeptTick { version: Version::new(2, 6), ..row("USD", 101, 1, 0) };
        [old, new].iter().for_each(|row| assert!(kept.take(row, &Tranches::default())));
        let places = |restored: &Restored| {
            let ticks = restored.ticks.iter().flatten().map(|tick| tick.version);
            [restored.version, restored.through].into_iter().chain(ticks).collect::<Vec<_>>()
        };
        let restored = kept.clone().into_restored(Some(5));
        let versions = |epoch| [5, 8, 8, 6].map(|place| Version::new(epoch, place));
        assert_eq!(places(&restored), versions(2));
        assert_eq!(places(&in_epoch(restored, 7)), versions(7));
        let [_, _, old, new] = versions(2);
        let live = [new, new, Version::new(1, old.seq), new];
        assert_eq!(places(&kept.into_restored(None)), live, "of a venue's stream a version is what it was");
    }

    #[test]
    fn powers_and_tranches_come_back_as_they_were() {
        let scale = Scale { price: PRICE_POWERS, quantity: -27 };
        let tranches = Tranches::default();
        tranches.intern("other").unwrap();
        let mut kept = Kept::new(Version::new(1, 9), scale, 3);
        let pool = KeptTick { scale, fee: 5, ..row("USD", -559_680, 1, 4) };
        let order = KeptTick { scale, tranche_key: "t", ..row("BTC", 559_680, 2, 5) };
        [pool, order].iter().for_each(|row| assert!(kept.take(row, &tranches)));
        let restored = kept.into_restored(Some(4));
        assert_eq!((restored.scale, restored.from_log), (scale, true));
        let keys: Vec<_> = restored.ticks.iter().flatten().map(|kept| kept.tick.key).collect();
        let tranche = tranches.intern("t").unwrap();
        let right = [TickKey { fee: 5, ..TickKey::at(-559_680) }, TickKey { tranche, ..TickKey::at(559_680) }];
        assert_eq!(keys, right);
    }
}
