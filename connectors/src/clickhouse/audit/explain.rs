//! What an audit found of a tick, in a sentence for whoever is called at night.
//!
//! Never: a number without its version.

use super::{
    compare::{Kind, Suspect},
    judge::{History, Ruling},
};
use market::{Instrument, Scale, U256, Version};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The tick was written again at the live version.
    Rewritten,
    /// The row was removed, and the tick written again.
    Removed,
    /// The instrument was marked, and its source asked for the book.
    Resynced,
    /// Nothing yet.
    Noted,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 4] = [Self::Rewritten, Self::Removed, Self::Resynced, Self::Noted];

    /// The column's text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rewritten => "rewritten",
            Self::Removed => "removed",
            Self::Resynced => "resynced",
            Self::Noted => "noted",
        }
    }

    /// What follows from a ruling.
    #[must_use]
    pub const fn of(ruling: Ruling) -> Self {
        match ruling {
            Ruling::Rewrite | Ruling::Confirmed => Self::Rewritten,
            Ruling::Remove => Self::Removed,
            Ruling::Resync => Self::Resynced,
            Ruling::Awaits | Ruling::Watch | Ruling::Foreign | Ruling::Behind => Self::Noted,
        }
    }
}

/// A suspect with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The tick, and what live book and `tick_state` say of it.
    pub suspect: Suspect,
    /// The version of the live book.
    pub version: Version,
    /// Its steps.
    pub scale: Scale,
    /// What `tick_updates` says.
    pub history: History,
    /// What was decided.
    pub ruling: Ruling,
}

fn says(reserves: U256, scale: Scale, version: Version) -> String {
    if reserves.is_zero() {
        format!("dead at {version}")
    } else {
        format!("{} at {version}", scale.quantity_text(reserves))
    }
}

/// The sentence.
#[must_use]
pub fn explain(instrument: &Instrument, finding: &Finding) -> String {
    let Finding { suspect, version, scale, history, ruling } = finding;
    let key = &suspect.name.key;
    // In the steps of whoever has the tick: a row in other steps names another price with the same number.
    let of = suspect.state.filter(|_| suspect.live.is_zero()).map_or(*scale, |row| row.scale);
    let price = if of.is_powers() { format!("1.0001^{}", key.tick_index) } else { of.price_text(key.tick_index) };
    let mut tick = format!("{} {} {price}", instrument.text, suspect.name.side.name());
    if key.fee > 0 {
        tick.push_str(&format!(" fee {}", key.fee));
    }
    if let Some(tranche) = &key.tranche {
        tick.push_str(&format!(" tranche {tranche}"));
    }
    let live = says(suspect.live, *scale, *version).replace("dead", "no such tick");
    let state = match suspect.state {
        Some(row) if suspect.kind == Kind::Changed && row.scale != *scale => {
            format!(
                "{} in steps of 10^{} and 10^{}",
                says(row.reserves, row.scale, row.version),
                row.scale.price,
                row.scale.quantity
            )
        }
        Some(row) => says(row.reserves, row.scale, row.version),
        None => "no row".to_owned(),
    };
    let history = history.shown(suspect.live).map_or_else(
        || "no row since the last whole book".to_owned(),
        |(version, reserves, scale)| says(reserves, scale, version),
    );
    format!(
        "{tick}: the live book has {live}, tick_state has {state}, tick_updates has {history}. {}",
        reason(*ruling, *version, suspect.live)
    )
}

fn reason(ruling: Ruling, version: Version, live: U256) -> String {
    let written = if live.is_zero() { "buried" } else { "written again" };
    match ruling {
        Ruling::Rewrite => format!(
            "Live book and history agree, so the row in tick_state was changed behind our back; it was {written} at {version}."
        ),
        Ruling::Confirmed => format!(
            "The source has sent the whole book since the last audit found this, and it agrees with the live book, so \
             history and tick_state are wrong; the row was {written} at {version}."
        ),
        Ruling::Remove => format!(
            "The row was ahead of everything that the instrument has shown at the last audit too, so nobody of us wrote it; \
             it was removed, and the tick {written} at {version}."
        ),
        Ruling::Resync => {
            "The history does not agree with the live book, so the live book is in doubt: the instrument is \
                           GAPPED until its source has sent the whole book again. Nothing was written."
                .to_owned()
        }
        Ruling::Awaits => {
            "The live book is in doubt, and its source has not sent the whole book yet. Nothing was written.".to_owned()
        }
        Ruling::Watch => {
            "The row's version is above everything that the instrument has shown. If it is still there at the \
                          next audit, it will be removed."
                .to_owned()
        }
        Ruling::Foreign => {
            "The row's version is above everything that the instrument has shown here, but another host has \
                            reserved epochs of this store after us and may have written it; it was left alone."
                .to_owned()
        }
        Ruling::Behind => {
            "The row's version is above everything that the instrument has shown, but the instrument does not \
                           follow its source now; the row was left alone."
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clickhouse::{
        audit::compare::{StateTick, TickName},
        rows::StoredKey,
    };
    use market::{Directory, Side, Venue};

    const SCALE: Scale = Scale { price: -2, quantity: -1 };

    #[test]
    fn a_sentence_tells_what_each_says_and_what_was_done() {
        let directory = Directory::default();
        let instrument = directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
        let row = |reserves: u64, seq| StateTick {
            reserves: U256::from(reserves),
            version: Version::new(3, seq),
            scale: SCALE,
        };
        let finding = |kind, live: u64, state, said: Option<u64>, ruling| Finding {
            suspect: Suspect {
                name: TickName { side: Side::Bid, key: StoredKey::at(6_173_763) },
                kind,
                live: U256::from(live),
                state,
            },
            version: Version::new(3, 20),
            scale: SCALE,
            history: History {
                last: said.map(|said| (Version::new(3, 9), vec![(U256::from(said), SCALE)])),
                has_row: false,
            },
            ruling,
        };
        let text = |finding| explain(&instrument, &finding);
        assert_eq!(
            text(finding(Kind::Changed, 5, Some(row(7, 9)), Some(5), Ruling::Rewrite)),
            "binance_spot/BTCUSDT bid 61737.63: the live book has 0.5 at 3:20, tick_state has 0.7 at 3:9, tick_updates has \
             0.5 at 3:9. Live book and history agree, so the row in tick_state was changed behind our back; it was written \
             again at 3:20."
        );
        let phantom = text(finding(Kind::Phantom, 0, Some(row(7, 9)), None, Ruling::Rewrite));
        assert!(phantom.contains("the live book has no such tick at 3:20, tick_state has 0.7 at 3:9"), "{phantom}");
        assert!(phantom.contains("no row since the last whole book") && phantom.ends_with("it was buried at 3:20."));
        let missing = text(finding(Kind::Missing, 5, Some(row(0, 8)), Some(5), Ruling::Rewrite));
        assert!(missing.contains("tick_state has dead at 3:8"), "{missing}");
        let all = [
            (Ruling::Rewrite, Action::Rewritten),
            (Ruling::Confirmed, Action::Rewritten),
            (Ruling::Remove, Action::Removed),
            (Ruling::Resync, Action::Resynced),
            (Ruling::Awaits, Action::Noted),
            (Ruling::Watch, Action::Noted),
            (Ruling::Foreign, Action::Noted),
            (Ruling::Behind, Action::Noted),
        ];
        for (ruling, action) in all {
            assert_eq!(Action::of(ruling), action);
            let text = text(finding(Kind::Ahead, 5, None, None, ruling));
            assert!(text.contains("tick_state has no row") && text.ends_with('.'), "{text}");
        }
        let key = StoredKey { fee: 5, tranche: Some("t".into()), ..StoredKey::at(-7) };
        let mut powers = finding(Kind::Missing, 5, None, None, Ruling::Resync);
        powers.suspect.name.key = key;
        powers.scale.price = market::scale::PRICE_POWERS;
        assert!(text(powers).starts_with("binance_spot/BTCUSDT bid 1.0001^-7 fee 5 tranche t: "));
    }
}
