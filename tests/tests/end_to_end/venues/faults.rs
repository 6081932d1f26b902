//! Everything that can go wrong on the way, in turn and all together: on the simulated market in each venue's present
//! protocol, and on recorded traffic.
//!
//! Never: a loss that the protocol cannot tell among the faults; `docs/VENUES.md` says which those are.

use super::{PLACES, Place, Stage, messages, pause};
use crate::{
    books::of_reference,
    market::{Books, Market, VENUES},
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sprag_tests::{corpus, process, reference};
use std::{path::Path, thread};

/// Levels a side that a snapshot by REST surely knows, whatever died since.
const REST_LEVELS: usize = 500;

/// What a venue's protocol can tell.
#[derive(Clone, Copy, Debug)]
struct Tells {
    /// A message that is missing, repeated or out of its place.
    losses: bool,
    /// A checksum.
    checksum: bool,
    /// A snapshot that is older than the stream.
    old_snapshots: bool,
    /// Snapshots come by REST.
    by_rest: bool,
    /// Updates have ids of the venue, which may restart.
    ids: bool,
}

impl Tells {
    /// What the protocol of a place tells on the simulated market; `recorded`: what it told when it was recorded.
    fn at(place: &Place, recorded: bool) -> Self {
        let (losses, checksum, old_snapshots, by_rest, ids) = match (place.venue, place.stream) {
            ("binance_spot" | "binance_usdm", _) => (true, false, true, true, true),
            ("kraken_spot", _) => (true, true, true, false, false),
            ("coinbase", "coinbase/advanced") => (true, false, false, false, false),
            // Its checksum covers the best 25 of 400 levels a side, and there were no ids yet.
            ("okx", _) if recorded => (false, true, false, false, false),
            ("bitfinex", _) => (true, true, true, false, false),
            ("okx" | "deribit", _) => (true, false, true, false, true),
            _ => (false, false, false, false, false),
        };
        Self { losses, checksum, old_snapshots, by_rest, ids }
    }
}

/// One venue with one thing after another going wrong.
struct Play {
    stage: Stage,
    venue: &'static str,
    /// A busy symbol.
    symbol: String,
    tells: Tells,
    /// What is served is a tape, which runs on.
    recorded: bool,
}

impl Play {
    /// The oldest of the venue's connections that are subscribed; of both, unless the tape runs on.
    fn leg(&self) -> Result<u64> {
        process::until(&format!("{}: the legs", self.venue), || {
            let numbers = self.legs()?;
            Ok(numbers.iter().min().copied().filter(|_| numbers.len() == 2 || self.recorded))
        })
    }

    fn legs(&self) -> Result<Vec<u64>> {
        let state = self.stage.market.state()?;
        let open = state["connections"].as_array().context("no connections")?;
        let subscribed = |open: &&Value| open["subscriptions"].as_array().is_some_and(|list| !list.is_empty());
        Ok(open.iter().filter(subscribed).filter_map(|open| open["connection"].as_u64()).collect())
    }

    /// Sets a fault of one leg until it fired: a leg may go for another reason before.
    fn leg_goes_wrong(&self, fault: &Value) -> Result<()> {
        let name = fault["fault"].as_str().context("no name")?.to_owned();
        let before = self.stage.market.fired(&name)?;
        process::until(&format!("{}: {fault}", self.venue), || {
            let leg = self.leg()?;
            let mut fault = fault.clone();
            fault["connection"] = leg.into();
            self.goes_wrong(&fault)?;
            process::until(&format!("{}: {fault} fires, or its leg goes", self.venue), || {
                let fired = self.stage.market.fired(&name)? > before;
                Ok((fired || !self.legs()?.contains(&leg)).then_some(fired.then_some(())))
            })
        })
    }

    fn goes_wrong(&self, fault: &Value) -> Result<()> {
        let mut fault = fault.clone();
        fault["venue"] = self.venue.into();
        self.stage.market.fault(&fault)
    }

    /// Sets a fault that comes to light when all connections end.
    fn goes_wrong_at_the_next_connection(&self, fault: &Value) -> Result<()> {
        let name = fault["fault"].as_str().context("no name")?;
        let before = self.stage.market.fired(name)?;
        self.goes_wrong(fault)?;
        self.goes_wrong(&json!({"fault": "disconnect", "ending": "abort"}))?;
        self.stage.market.await_fired(name, before + 1).with_context(|| format!("{}: {fault}", self.venue))?;
        Ok(())
    }

    /// Each fault in turn, on one leg, and then what concerns both.
    fn in_turn(&self, between: &dyn Fn() -> Result<()>) -> Result<()> {
        let symbol = &self.symbol;
        for kind in ["truncated", "random", "binary"] {
            self.leg_goes_wrong(&json!({"fault": "garbage", "count": 1, "kind": kind}))?;
            between()?;
        }
        if self.tells.losses {
            for fault in ["duplicate", "reorder"] {
                self.leg_goes_wrong(&json!({"fault": fault, "count": 1}))?;
                between()?;
            }
            self.leg_goes_wrong(&json!({"fault": "drop_depth", "symbol": symbol, "count": 1}))?;
            between()?;
            // Until it has swallowed something, and a little longer.
            self.leg_goes_wrong(&json!({"fault": "silence", "for_ms": 60_000}))?;
            pause(500);
            self.stage.market.clear_faults()?;
            between()?;
            // Nothing but pings: what is not sent meanwhile is lost.
            self.leg_goes_wrong(&json!({"fault": "ping_flood", "every_ms": 10, "for_ms": 300}))?;
            between()?;
        }
        if self.tells.checksum {
            self.leg_goes_wrong(&json!({"fault": "corrupt_checksum", "symbol": symbol, "count": 1}))?;
            between()?;
        }
        self.leg_goes_wrong(&json!({"fault": "delay", "min_ms": 6, "max_ms": 9, "for_ms": 1_000}))?;
        for ending in ["normal", "going_away", "abort", "reset"] {
            self.leg_goes_wrong(&json!({"fault": "disconnect", "ending": ending}))?;
            between()?;
        }
        self.leg_goes_wrong(&json!({"fault": "oversized"}))?;
        between()?;
        self.leg_goes_wrong(&json!({"fault": "half_open", "for_ms": 1_000}))?;
        between()?;
        self.of_both(between)
    }

    /// What concerns the venue and not one leg.
    fn of_both(&self, between: &dyn Fn() -> Result<()>) -> Result<()> {
        let symbol = &self.symbol;
        if self.tells.old_snapshots {
            let old = json!({"fault": "stale_snapshots", "symbol": symbol, "count": 1, "updates_ago": 2});
            self.goes_wrong_at_the_next_connection(&old)?;
            between()?;
        }
        if self.tells.by_rest {
            let limited = json!({"fault": "fail_rest", "status": 429, "count": 1, "retry_after_s": 1});
            for failing in [limited, json!({"fault": "fail_rest", "status": 500, "count": 1})] {
                self.goes_wrong_at_the_next_connection(&failing)?;
                between()?;
            }
        }
        if self.tells.ids {
            let before = self.stage.market.fired("reset_ids")?;
            self.goes_wrong(&json!({"fault": "reset_ids", "symbol": symbol, "next_id": 624_086}))?;
            self.stage.market.await_fired("reset_ids", before + 1)?;
            between()?;
        }
        // Until it has refused once, however long the legs wait before they try again.
        self.goes_wrong_at_the_next_connection(&json!({"fault": "refuse_connections", "for_ms": 60_000}))?;
        self.stage.market.clear_faults()?;
        between()
    }

    /// All of it together, on both legs, for a while.
    fn all_together(&self, for_ms: u64) -> Result<()> {
        let rates = if self.tells.losses {
            json!({"drop": 100, "duplicate": 100, "reorder": 100, "garbage": 30, "reset": 20})
        } else {
            json!({"garbage": 30, "reset": 20})
        };
        for connection in [None, Some(self.leg()?)] {
            let mut chaos =
                json!({"fault": "chaos", "venue": self.venue, "seed": 7, "for_ms": for_ms, "per_10000": rates});
            if let Some(connection) = connection {
                chaos["connection"] = connection.into();
            }
            self.stage.market.fault(&chaos)?;
        }
        let delay = json!({"fault": "delay", "venue": self.venue, "min_ms": 6, "max_ms": 9, "for_ms": for_ms});
        self.stage.market.fault(&delay)?;
        pause(for_ms);
        self.stage.market.fault(&json!({"fault": "disconnect", "venue": self.venue, "ending": "reset"}))?;
        self.stage.market.clear_faults()
    }
}

/// Runs something of each place side by side; all of them must be well.
fn side_by_side(what: impl Fn(&'static Place) -> Result<()> + Sync) -> Result<()> {
    let chosen = std::env::var("SPRAG_VENUES").unwrap_or_default();
    let wanted = |place: &&Place| chosen.is_empty() || chosen.split(',').any(|name| place.stream.starts_with(name));
    let ended: Vec<(&str, Result<()>)> = thread::scope(|scope| {
        let places: Vec<&'static Place> = PLACES.iter().filter(wanted).collect();
        let what = &what;
        let run = |place: &'static Place| (place.stream, scope.spawn(move || what(place)));
        let running: Vec<_> = places.into_iter().map(run).collect();
        let join = |running: thread::ScopedJoinHandle<'_, Result<()>>| {
            running.join().unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")))
        };
        running.into_iter().map(|(stream, running)| (stream, join(running))).collect()
    });
    let failed: Vec<_> = ended.iter().filter_map(|(stream, ended)| Some((stream, ended.as_ref().err()?))).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("{failed:#?}"),
    }
}

#[test]
fn each_fault_in_turn_and_all_together_on_the_simulated_market() -> Result<()> {
    side_by_side(|place| {
        let market = Market::start_at(&[place.venue], 2, 120)?;
        let names = market.books()?;
        let symbols: Vec<&str> = names.keys().filter_map(|name| Some(name.split_once('/')?.1)).collect();
        let stage = Stage::of_venue(market, place, &symbols, 2)?;
        stage.await_live(&names)?;
        let symbol = (*symbols.first().context("no symbol")?).to_owned();
        let mut play = Play { stage, venue: place.venue, symbol, tells: Tells::at(place, false), recorded: false };
        play.in_turn(&|| play.stage.await_live(&names))?;
        play.all_together(2_000)?;
        let books = play.stage.market.pause()?;
        play.stage.await_books(&books)?;
        play.stage.watched().map(drop)
    })
}

#[test]
fn each_fault_in_turn_on_recorded_traffic() -> Result<()> {
    side_by_side(|place| {
        let Some(capture) = corpus::file(place.capture) else {
            println!("corpus absent: skipped {} (set {} to its directory)", place.capture, corpus::VARIABLE);
            return Ok(());
        };
        recorded(place, &capture).with_context(|| place.capture.to_owned())
    })
}

/// Serves a capture to two legs while everything goes wrong; its end is that of a replay without faults.
fn recorded(place: &'static Place, capture: &Path) -> Result<()> {
    let right = reference::rebuild(corpus::format_of(capture), capture)?;
    let symbols: Vec<&str> = right.books.keys().map(String::as_str).collect();
    let busiest = right.books.iter().max_by_key(|(_, book)| book.applied).context("no book")?.0;
    // Where a lost message costs the connection, each fault takes its time.
    let speed = if place.venue == "bitfinex" { 0.4 } else { 1.0 };
    let market = Market::of_capture(place.venue, capture, speed, 2)?;
    let stage = Stage::of_venue(market, place, &symbols, 2)?;
    let mut tells = Tells::at(place, true);
    // What a recorded tape says next does not follow from ids that restarted.
    tells.ids = false;
    let mut play = Play { stage, venue: place.venue, symbol: busiest.clone(), tells, recorded: true };
    let last = messages(capture)?;
    let still = || -> Result<()> {
        let at = play.stage.market.state()?["position"].as_u64().context("no position")?;
        anyhow::ensure!(at < last, "the tape ended before every fault was there");
        Ok(())
    };
    play.in_turn(&still)?;
    play.stage.market.clear_faults()?;
    process::until_within("the end of the tape", std::time::Duration::from_secs(90), || {
        Ok(Some(()).filter(|()| play.stage.market.state().is_ok_and(|state| state["ended"] == true)))
    })?;
    let name = |symbol: &String| format!("{}/{symbol}", place.venue);
    let books: Books = right.books.iter().map(|(symbol, book)| (name(symbol), of_reference(book))).collect();
    // A snapshot by REST knows 1,000 levels a side; beyond them nothing can be compared after one.
    let depth = if play.tells.by_rest { REST_LEVELS } else { usize::MAX };
    // Nothing comes any more: what was busy counts as silent, which is no fault of its book.
    play.stage.await_books_in(&["LIVE", "STALE"], depth, &books)?;
    play.stage.watched().map(drop)
}

/// One leg, one message lost: as many gaps and as many books built anew as the protocol leaves uncertain.
#[test]
fn a_message_lost_on_the_only_leg_is_counted_once_where_it_is_known() -> Result<()> {
    let venues: Vec<_> = VENUES.iter().map(|(venue, ..)| *venue).collect();
    let market = Market::start_at(&venues, 2, 300)?;
    let mut stage = Stage::set(market, &venues, 1, "")?;
    let names = stage.market.books()?;
    stage.await_live(&names)?;
    for venue in venues {
        let of_venue: Vec<&String> = names.keys().filter(|name| name.starts_with(venue)).collect();
        let symbol = of_venue.first().and_then(|name| Some(name.split_once('/')?.1)).context("no symbol")?;
        let counted = |stage: &Stage| -> Result<(u64, u64)> { Ok((stage.lanes("gaps")?, stage.lanes("resyncs")?)) };
        let before = counted(&stage)?;
        let drop = json!({"fault": "drop_depth", "venue": venue, "symbol": symbol, "count": 1});
        stage.market.fault(&drop)?;
        // Where a whole connection has one count of messages, all of its books are uncertain.
        let uncertain = if matches!(venue, "coinbase" | "bitfinex") { u64::try_from(of_venue.len())? } else { 1 };
        stage.server.await_metric("sprag_lane_events_total{event=\"resyncs\"}", before.1 + uncertain)?;
        stage.await_live(&names)?;
        let after = counted(&stage)?;
        assert_eq!((after.0 - before.0, after.1 - before.1), (uncertain, uncertain), "{venue}");
    }
    let books = stage.market.pause()?;
    stage.await_books(&books)?;
    stage.watched().map(|_| ())
}
