//! Legs that go and come back, at all venues at once.
//!
//! Never: a mark or a gap while one leg is there.

use super::{Stage, pause};
use crate::market::{Market, VENUES};
use anyhow::{Context, Result};
use serde_json::json;
use sprag_tests::process;

/// How long a leg is away, milliseconds.
const AWAY_MS: u64 = 10_000;

fn stage() -> Result<(Stage, Vec<&'static str>)> {
    let venues: Vec<_> = VENUES.iter().map(|(venue, ..)| *venue).collect();
    let market = Market::start_at(&venues, 2, 400)?;
    let stage = Stage::set(market, &venues, 2, "")?;
    let books = stage.market.books()?;
    stage.await_live(&books)?;
    process::until("both legs of every venue", || {
        let subscriptions = stage.subscriptions()?;
        let both = |venue: &&&str| subscriptions.get(**venue).is_some_and(|legs| legs.len() == 2 && legs[0] == legs[1]);
        Ok((venues.iter().filter(both).count() == venues.len()).then_some(()))
    })?;
    // Long enough for every leg to have its books.
    pause(1_000);
    Ok((stage, venues))
}

#[test]
fn a_leg_that_is_away_for_ten_seconds_is_not_seen() -> Result<()> {
    let (mut stage, venues) = stage()?;
    let subscribed = stage.subscriptions()?;
    let names = stage.market.books()?;
    let gaps = stage.lanes("gaps")?;
    for venue in &venues {
        stage.market.fault(&json!({"fault": "refuse_connections", "venue": venue, "for_ms": AWAY_MS}))?;
        stage.market.fault(&json!({"fault": "disconnect", "venue": venue, "connection": 1, "ending": "reset"}))?;
    }
    stage.market.await_fired("disconnect", u64::try_from(venues.len())?)?;
    for _ in 0..AWAY_MS / 500 {
        let states = stage.states(&names)?;
        let marked: Vec<_> = states.iter().filter(|(_, state)| *state != "LIVE").collect();
        assert!(marked.is_empty(), "{marked:?}");
        pause(500);
    }
    assert!(stage.market.fired("refuse_connections")? >= u64::try_from(venues.len())?);
    process::until("the legs are back", || Ok((stage.subscriptions()? == subscribed).then_some(())))?;
    let books = stage.market.pause()?;
    stage.await_books(&books)?;
    assert_eq!(stage.lanes("gaps")?, gaps);
    let watcher = stage.watched()?;
    assert_eq!(watcher.gaps, 0);
    Ok(())
}

#[test]
fn without_any_leg_books_are_stale_with_their_age_and_come_back_by_themselves() -> Result<()> {
    let (mut stage, venues) = stage()?;
    let subscribed = stage.subscriptions()?;
    let names = stage.market.books()?;
    for venue in &venues {
        stage.market.fault(&json!({"fault": "refuse_connections", "venue": venue, "for_ms": 4_000}))?;
        stage.market.fault(&json!({"fault": "disconnect", "venue": venue, "ending": "abort"}))?;
    }
    process::until("every book is stale", || {
        Ok(stage.states(&names)?.values().all(|state| state == "STALE").then_some(()))
    })?;
    let age = |name: &String| stage.book(name)?["age_ms"].as_u64().context("no age");
    let first: Result<Vec<u64>> = names.keys().map(age).collect();
    pause(1_000);
    for (name, first) in names.keys().zip(first?) {
        let now = age(name)?;
        assert!(now >= first + 900, "{name}: {first} ms, then {now} ms");
    }
    process::until("the same subscriptions", || Ok((stage.subscriptions()? == subscribed).then_some(())))?;
    stage.await_live(&names)?;
    let books = stage.market.pause()?;
    stage.await_books(&books)?;
    stage.watched().map(drop)
}
