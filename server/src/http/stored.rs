//! Books from the store, each question asked once however many want its answer.
//!
//! Never: a stored book shown as what the venue says now.

use super::{body::Shown, wish::Source};
use crate::{
    config,
    hub::{BookView, Content, WholeReason},
    run::unix_ns,
    single_flight::{FlightBounds, FlightError, FlightNumbers, SingleFlight},
};
use clickhouse::Client;
use connectors::clickhouse::{
    StoredTick,
    read::{self, ReadError, StoredState},
};
use foldhash::HashMap;
use market::{
    Book, Feed, FeedState, Instrument, Level, Scale, Side, SymbolId, TickChange, TickKey, TrancheId, Version, Window,
};
use std::{sync::Arc, time::Duration};

/// What is asked of one instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Question {
    symbol: SymbolId,
    since: Option<Version>,
}

/// The store's answer.
#[derive(Debug)]
pub struct StoredAnswer {
    /// The ticks: those that changed, or all that live.
    pub state: StoredState,
    /// Since when, or why these are all that live.
    pub changes: Result<Version, WholeReason>,
}

/// Why there is no stored book.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The store.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It took too long.
    #[error("the store did not answer within {ms} ms")]
    TimedOut {
        /// The bound.
        ms: u128,
    },
    /// Ticks of one instrument in steps that have nothing in common.
    #[error("the stored ticks of {instrument} are in steps that have nothing in common")]
    Steps {
        /// The instrument.
        instrument: Box<str>,
    },
}

/// The store as readers use it.
#[derive(Debug)]
pub struct StoreReads {
    client: Client,
    flight: SingleFlight<Question, StoredAnswer, StoredError>,
    time_max: Duration,
}

impl StoreReads {
    pub(super) fn new(config: &config::Http, client: Client) -> Self {
        let bounds = FlightBounds { questions_max: config.store_questions_max, waiting_max: config.store_waiting_max };
        let time_max = Duration::from_millis(config.store_timeout_ms);
        Self { client, flight: SingleFlight::new(bounds), time_max }
    }

    /// What became of questions.
    #[must_use]
    pub fn numbers(&self) -> &FlightNumbers {
        self.flight.numbers()
    }

    /// The stored state of an instrument, or what of it changed since a version.
    ///
    /// # Errors
    /// [`FlightError`].
    pub(super) async fn ask(
        &self,
        instrument: &Arc<Instrument>,
        since: Option<Version>,
    ) -> Result<Arc<StoredAnswer>, FlightError<StoredError>> {
        let question = Question { symbol: instrument.id, since };
        let (client, instrument, time_max) = (self.client.clone(), Arc::clone(instrument), self.time_max);
        let ask = move || {
            let (client, instrument) = (client.clone(), Arc::clone(&instrument));
            async move {
                let answer = tokio::time::timeout(time_max, look(&client, &instrument, since, time_max)).await;
                Ok(answer.map_err(|_| StoredError::TimedOut { ms: time_max.as_millis() })??)
            }
        };
        self.flight.ask(question, ask).await
    }
}

async fn look(
    client: &Client,
    instrument: &Instrument,
    since: Option<Version>,
    time_max: Duration,
) -> Result<StoredAnswer, ReadError> {
    let reason = match since {
        None => WholeReason::NoSince,
        Some(since) => {
            let state = read::changes(client, instrument, since, time_max).await?;
            // Asked after the ticks: rows that are missing in them had their floor by then.
            let limits = read::limits(client, instrument, time_max).await?;
            match state.version {
                None => WholeReason::NoBook,
                Some(now) if now.epoch != since.epoch => WholeReason::OtherEpoch,
                Some(now) if now < since => WholeReason::Ahead,
                Some(_) if limits.floor.is_some_and(|floor| floor > since) => WholeReason::TooOld,
                Some(_) if !limits.allow(since) => WholeReason::Replaced,
                Some(_) => return Ok(StoredAnswer { state, changes: Ok(since) }),
            }
        }
    };
    let state = read::state(client, instrument, time_max).await?;
    Ok(StoredAnswer { state, changes: Err(reason) })
}

/// A stored state as a book of levels. Nobody vouches for it, so its mark in bytes is STALE.
///
/// # Errors
/// [`StoredError::Steps`].
pub(super) fn shown<'a>(
    instrument: &'a Arc<Instrument>,
    state: &StoredState,
    depth: Option<usize>,
) -> Result<Shown<'a>, StoredError> {
    let (ticks, scale) =
        in_common_steps(&state.ticks).ok_or_else(|| StoredError::Steps { instrument: (*instrument.text).into() })?;
    let mut book = Book::default();
    book.replace(&ticks, scale, Window::Whole, &mut Vec::new());
    let mut horizon = [None; 2];
    let [bids, asks] = Side::BOTH.map(|side| {
        let mut levels = book.levels(side);
        let taken: Vec<Level> = levels.by_ref().take(depth.unwrap_or(usize::MAX)).collect();
        (taken, levels.next().is_some())
    });
    for ((taken, more), horizon) in [&bids, &asks].into_iter().zip(&mut horizon) {
        *horizon = taken.last().map(|level| level.tick_index).filter(|_| *more);
    }
    let view = BookView {
        version: state.version,
        scale,
        feed: Feed { state: FeedState::Stale, flags: book.flags() },
        age_ms: age_ms(&state.ticks),
        horizon,
        content: Content::Whole { reason: WholeReason::NoSince, bids: bids.0, asks: asks.0 },
    };
    Ok(Shown { instrument, source: Source::Store, view, newer_ticks: Some(state.newer_ticks) })
}

/// What an answer about single ticks begins with.
pub(super) fn head<'a>(instrument: &'a Arc<Instrument>, state: &StoredState) -> Shown<'a> {
    let view = BookView {
        version: state.version,
        scale: Scale::default(),
        feed: Feed::default(),
        age_ms: age_ms(&state.ticks),
        horizon: [None; 2],
        content: Content::Whole { reason: WholeReason::NoSince, bids: Vec::new(), asks: Vec::new() },
    };
    Shown { instrument, source: Source::Store, view, newer_ticks: Some(state.newer_ticks) }
}

/// Time since the last of some ticks was received; 0 without any.
fn age_ms(ticks: &[StoredTick]) -> u64 {
    let newest = ticks.iter().map(|tick| tick.received_ns).max().and_then(|newest| u64::try_from(newest).ok());
    newest.map_or(0, |newest| unix_ns().saturating_sub(newest) / 1_000_000)
}

/// Ticks in the finest of their steps; none where they have no common ones. Tranches are numbered for the moment alone.
fn in_common_steps(ticks: &[StoredTick]) -> Option<(Vec<TickChange>, Scale)> {
    let scale = ticks.iter().map(|tick| tick.scale).reduce(Scale::finest).unwrap_or_default();
    let mut tranches: HashMap<Arc<str>, u32> = HashMap::default();
    let mut change = |tick: &StoredTick| {
        let number = match &tick.key.tranche {
            None => 0,
            Some(name) => {
                let next = u32::try_from(tranches.len()).ok()?.checked_add(1)?;
                *tranches.entry(Arc::clone(name)).or_insert(next)
            }
        };
        let tick_index = tick.scale.price_in(scale, tick.key.tick_index)?;
        let key = TickKey { tick_index, fee: tick.key.fee, tranche: TrancheId(number) };
        Some(TickChange { side: tick.side, key, reserves: tick.scale.quantity_in(scale, tick.reserves)? })
    };
    let ticks: Option<Vec<_>> = ticks.iter().map(&mut change).collect();
    Some((ticks?, scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::clickhouse::StoredKey;
    use market::{Directory, U256, Venue, scale::PRICE_POWERS};

    fn tick(side: Side, tick_index: i64, tranche: &str, reserves: u64, price: i8) -> StoredTick {
        let tranche = (!tranche.is_empty()).then(|| tranche.into());
        StoredTick {
            side,
            key: StoredKey { tick_index, fee: 0, tranche },
            reserves: U256::from(reserves),
            version: Version::new(1, 5),
            scale: Scale { price, quantity: -1 },
            updated_ns: 0,
            received_ns: 0,
        }
    }

    fn instrument() -> Arc<Instrument> {
        Directory::default().intern(Venue::NeutronDex, "A<>B", "A", "B").unwrap()
    }

    fn state(ticks: Vec<StoredTick>) -> StoredState {
        StoredState { version: Some(Version::new(1, 5)), newer_ticks: 0, ticks }
    }

    #[test]
    fn ticks_at_one_price_are_one_level_and_steps_become_the_finest() {
        let instrument = instrument();
        let ticks = vec![
            tick(Side::Bid, 10, "", 1, 0),
            tick(Side::Bid, 100, "x", 2, -1),
            tick(Side::Bid, 100, "y", 4, -1),
            tick(Side::Bid, 99, "", 8, -1),
            tick(Side::Ask, 101, "", 16, -1),
        ];
        let shown = shown(&instrument, &state(ticks), Some(1)).unwrap();
        let level = |tick_index, quantity: u64| Level { tick_index, quantity: U256::from(quantity) };
        let Content::Whole { bids, asks, .. } = &shown.view.content else { panic!("{shown:?}") };
        assert_eq!((&bids[..], &asks[..]), (&[level(100, 7)][..], &[level(101, 16)][..]));
        assert_eq!(shown.view.horizon, [Some(100), None]);
        assert_eq!((shown.state(), shown.view.scale.price), ("stored", -1));
    }

    #[test]
    fn steps_without_anything_in_common_are_an_error() {
        let ticks = vec![tick(Side::Bid, 10, "", 1, 0), tick(Side::Bid, 10, "", 1, PRICE_POWERS)];
        assert!(matches!(shown(&instrument(), &state(ticks), None), Err(StoredError::Steps { .. })));
    }
}
