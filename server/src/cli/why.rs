//! `sprag why`: which event gave an instrument, or one of its ticks, its present value, and what was before.
//!
//! Never: an origin that is guessed; where the store does not know it, the answer says so.

mod read;
mod show;

use super::{
    Failure, Settings, in_store,
    table::{self, Format},
};
use crate::{exit::Exit, run::unix_ns};
use anyhow::anyhow;
use clap::Args;
use connectors::{
    clickhouse::BatchLog,
    neutron_dex::message::{Located, locate},
};
use market::{Side, Venue, batch::BatchKind};
use read::{Change, Instrument, Key, Reader, TickValue};
use std::str::FromStr;

/// Ticks of a side that are shown as the best.
const BEST: u64 = 5;
/// Rows of a history, at most.
const HISTORY_MAX: u64 = 100_000;
/// Ticks that are named where a price has several.
const KEYS_MAX: u64 = 50;

#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    #[command(flatten)]
    settings: Settings,
    /// The instrument, as VENUE/SYMBOL.
    instrument: Name,
    /// A tick of it: `ask:123` or `bid:-5` with its tick index, and where a price has several, `:fee=1` or
    /// `:tranche=KEY` behind it.
    #[arg(allow_hyphen_values = true)]
    tick: Option<TickName>,
    /// Rows of its history.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=HISTORY_MAX))]
    limit: u64,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// An instrument as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    venue: Venue,
    symbol: Box<str>,
}

impl FromStr for Name {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (venue, symbol) = text.split_once('/').ok_or_else(|| anyhow!("VENUE/SYMBOL is meant"))?;
        Ok(Self { venue: venue.parse()?, symbol: symbol.into() })
    }
}

/// A tick as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TickName {
    side: Side,
    tick_index: i64,
    fee: Option<u32>,
    tranche: Option<Box<str>>,
}

impl FromStr for TickName {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let meant = || anyhow!("ask:INDEX or bid:INDEX is meant, with :fee=N or :tranche=KEY behind it if need be");
        let mut parts = text.splitn(3, ':');
        let side = Side::BOTH.into_iter().find(|side| parts.clone().next() == Some(side.name())).ok_or_else(meant)?;
        let tick_index = parts.nth(1).and_then(|index| index.parse().ok()).ok_or_else(meant)?;
        let mut name = Self { side, tick_index, fee: None, tranche: None };
        match parts.next().map(|part| part.split_once('=').ok_or_else(meant)).transpose()? {
            None => {}
            Some(("fee", fee)) => name.fee = Some(fee.parse().map_err(|_| meant())?),
            Some(("tranche", tranche)) => name.tranche = Some(tranche.into()),
            Some(_) => return Err(meant()),
        }
        Ok(name)
    }
}

/// The place of a source event, from a row's `raw_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    stream: Box<str>,
    height: u64,
    ordinal: u64,
}

impl Place {
    fn of(raw_id: &str) -> Option<Self> {
        let mut parts = raw_id.rsplitn(3, '/');
        let (ordinal, height) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { stream: parts.next()?.into(), height, ordinal })
    }
}

/// What is known of a source event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// The row names none: the venue has no batches, or the row is of a whole book.
    Unnamed,
    /// The log does not have the batch any more.
    NotLogged(Place),
    /// The batch is there and the event is not in it.
    NotFound(Place),
    /// Here it is.
    Found(Place, Located),
}

/// What `sprag why INSTRUMENT` answers.
#[derive(Debug)]
struct InstrumentAnswer {
    instrument: Instrument,
    last: Option<(Change, Event)>,
    /// Live ticks of asks and of bids.
    live: [u64; 2],
    /// The best asks and the best bids, the best first.
    best: [Vec<TickValue>; 2],
}

/// What `sprag why INSTRUMENT TICK` answers.
#[derive(Debug)]
struct TickAnswer {
    instrument: Instrument,
    key: Key,
    present: Option<TickValue>,
    /// The version of the whole book that made the tick dead by not naming it.
    replaced: Option<u128>,
    origin: Option<(Change, Event)>,
    history: Vec<Change>,
}

pub(super) fn why(args: &WhyArgs) -> Result<(), Failure> {
    in_store(&args.settings, async |store| {
        let reader = Reader::new(store.address().client(), &args.instrument).await?;
        match &args.tick {
            None => {
                let answer = about_instrument(reader).await?;
                match args.format {
                    Format::Table => table::print(show::instrument(&answer, unix_ns()).as_bytes()),
                    Format::Json => table::print_json(&show::instrument_json(&answer)),
                }
            }
            Some(tick) => {
                let answer = about_tick(reader, tick, args.limit).await?;
                match args.format {
                    Format::Table => table::print(show::tick(&answer, unix_ns()).as_bytes()),
                    Format::Json => table::print_json(&show::tick_json(&answer)),
                }
            }
        }
    })
}

async fn about_instrument(reader: Reader) -> Result<InstrumentAnswer, Failure> {
    let last = match reader.last_change().await? {
        Some(change) => {
            let event = event_of(&reader, &change).await?;
            Some((change, event))
        }
        None => None,
    };
    let sides = [Side::Ask, Side::Bid];
    let mut live = [0; 2];
    let mut best = [Vec::new(), Vec::new()];
    for ((side, live), best) in sides.into_iter().zip(&mut live).zip(&mut best) {
        *live = reader.live(side).await?;
        *best = reader.best(side, BEST).await?;
    }
    Ok(InstrumentAnswer { instrument: reader.into_instrument(), last, live, best })
}

async fn about_tick(reader: Reader, tick: &TickName, limit: u64) -> Result<TickAnswer, Failure> {
    let key = reader.key(tick, KEYS_MAX).await?;
    let stored = reader.value(&key).await?;
    let whole = reader.instrument().whole;
    let replaced = stored.as_ref().filter(|tick| !tick.reserves.is_zero() && tick.version < whole).map(|_| whole);
    let present = stored.filter(|tick| !tick.reserves.is_zero() && replaced.is_none());
    let origin = match reader.origin(&key).await? {
        Some(change) => {
            let event = event_of(&reader, &change).await?;
            Some((change, event))
        }
        None => None,
    };
    let history = reader.history(&key, limit).await?;
    Ok(TickAnswer { instrument: reader.into_instrument(), key, present, replaced, origin, history })
}

async fn event_of(reader: &Reader, change: &Change) -> Result<Event, Failure> {
    let Some(place) = Place::of(&change.raw_id) else { return Ok(Event::Unnamed) };
    let log = BatchLog::new(reader.client(), reader.instrument().venue, &place.stream);
    let logged = log.read(place.height, BatchKind::Block).await;
    let Some(logged) = logged.map_err(|error| Failure::new(Exit::Store, error))? else {
        return Ok(Event::NotLogged(place));
    };
    let located = locate(&logged.content, place.ordinal).map_err(|error| Failure::new(Exit::Store, error))?;
    Ok(match located {
        Some(located) => Event::Found(place, located),
        None => Event::NotFound(place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_named_by_side_index_and_what_tells_it_from_others() {
        let tick = |side, tick_index, fee, tranche: Option<&str>| TickName {
            side,
            tick_index,
            fee,
            tranche: tranche.map(Into::into),
        };
        let cases = [
            ("ask:123", tick(Side::Ask, 123, None, None)),
            ("bid:-5:fee=1", tick(Side::Bid, -5, Some(1), None)),
            ("ask:0:tranche=a:b=c", tick(Side::Ask, 0, None, Some("a:b=c"))),
        ];
        for (text, right) in cases {
            assert_eq!(text.parse::<TickName>().unwrap(), right, "{text}");
        }
        for wrong in ["", "ask", "ask:", "sell:1", "ask:1.5", "ask:1:fee", "ask:1:fee=x", "ask:1:depth=2"] {
            assert!(wrong.parse::<TickName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_instrument_and_a_source_event_may_have_slashes_in_their_names() {
        let name: Name = "neutron_dex/ibc/AA<>untrn".parse().unwrap();
        assert_eq!((name.venue, &*name.symbol), (Venue::NeutronDex, "ibc/AA<>untrn"));
        assert!("BTCUSDT".parse::<Name>().is_err() && "mtgox/BTC".parse::<Name>().is_err());
        let place = Place { stream: "a/b".into(), height: 7, ordinal: 3 };
        assert_eq!(Place::of("a/b/7/3"), Some(place));
        assert_eq!([Place::of(""), Place::of("7/3"), Place::of("a/7/x")], [None, None, None]);
    }
}
