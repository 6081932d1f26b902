//! `/v1/views`: the standing views, as they are declared and as they are at the last cut. A `/` of a pair's name stands as it
//! is or as `%2F`.
//!
//! Never: a rounded number but an imbalance; a value without the cut that it holds since.

use super::{Shared, ended, failure};
use crate::{hub::HeldView, views::DeclaredView};
use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use market::{PairId, ViewRule, instrument::Pair, quote::Exact, view::ViewNumber};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Serialize)]
struct Declared<'a> {
    view: &'a str,
    kind: &'static str,
    /// How far from the mid, in percent; none of a spread.
    percent: Option<String>,
    pairs: &'a [Box<str>],
}

/// A view of a pair. Of a view without any book in it `instruments` is 0; when one was, `cut` and `at_ms` are of its end.
#[derive(Serialize)]
struct Value<'a> {
    view: &'a str,
    pair: &'a str,
    asset_0: &'a str,
    asset_1: &'a str,
    #[serde(flatten)]
    number: Number,
    /// The band of some book reaches beyond what is known of it.
    partial: bool,
    /// 256 bits do not hold the number.
    overflow: bool,
    /// Books that it is made of.
    instruments: u32,
    /// The cut that it holds since, and the end of it in Unix milliseconds.
    cut: Option<u64>,
    at_ms: Option<u64>,
    /// The end of the last cut, as of which this is told, in Unix milliseconds.
    now_ms: u64,
}

/// The number, none of which is told as null.
#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    Reserves { bids: Option<String>, asks: Option<String> },
    Imbalance { imbalance: Option<String> },
    Spread { spread: Option<String> },
}

impl<'a> Declared<'a> {
    fn of(view: &'a DeclaredView) -> Self {
        let percent = view.rule.band().map(|band| band.to_string());
        Self { view: &view.name, kind: view.rule.name(), percent, pairs: &view.pairs }
    }
}

impl Number {
    fn of(view: &DeclaredView, number: Option<ViewNumber>) -> Self {
        match (view.rule, number) {
            (_, Some(ViewNumber::Reserves { bids, asks })) => {
                let text = |value: Exact| Some(value.decimal().to_string());
                Self::Reserves { bids: text(bids), asks: text(asks) }
            }
            (_, Some(ViewNumber::Imbalance(imbalance))) => Self::Imbalance { imbalance: Some(imbalance.to_string()) },
            (_, Some(ViewNumber::Spread(spread))) => Self::Spread { spread: Some(spread.to_string()) },
            (ViewRule::ReservesWithin(_), _) => Self::Reserves { bids: None, asks: None },
            (ViewRule::ImbalanceWithin(_), _) => Self::Imbalance { imbalance: None },
            (ViewRule::Spread, _) => Self::Spread { spread: None },
        }
    }
}

fn value<'a>(view: &'a DeclaredView, pair: &'a Pair, held: Option<&HeldView>, now_ns: u64) -> Value<'a> {
    let value = held.and_then(|held| held.value);
    Value {
        view: &view.name,
        pair: &pair.text,
        asset_0: &pair.asset_0,
        asset_1: &pair.asset_1,
        number: Number::of(view, value.map(|value| value.number)),
        partial: value.is_some_and(|value| value.partial),
        overflow: value.is_some_and(|value| value.number == ViewNumber::Overflow),
        instruments: value.map_or(0, |value| value.instruments),
        cut: held.map(|held| held.cut),
        at_ms: held.map(|held| held.at_ns / 1_000_000),
        now_ms: now_ns / 1_000_000,
    }
}

fn unknown(name: &str) -> Response {
    failure(StatusCode::NOT_FOUND, &format!("unknown view {name:?}; see /v1/views"))
}

/// What is declared.
pub(super) async fn views(State(shared): State<Shared>) -> Response {
    match shared.tape.views().await {
        Ok(table) => Json(table.iter().map(|(_, view)| Declared::of(view)).collect::<Vec<_>>()).into_response(),
        Err(error) => ended(error),
    }
}

/// One view of all its pairs.
pub(super) async fn view(State(shared): State<Shared>, Path(name): Path<String>) -> Response {
    let answer = async {
        let table = shared.tape.views().await?;
        let Some((id, view)) = table.find(&name) else { return Ok(unknown(&name)) };
        let (held, now_ns) = shared.tape.view_values(id, None).await?;
        let held: BTreeMap<PairId, HeldView> = held.into_iter().collect();
        let pairs: Vec<Arc<Pair>> = shared.directory.pairs_from(0);
        let within = pairs.iter().filter(|pair| view.takes(&pair.text));
        let values: Vec<_> = within.map(|pair| value(view, pair, held.get(&pair.id), now_ns)).collect();
        Ok(Json(values).into_response())
    };
    answer.await.unwrap_or_else(ended)
}

/// One view of one pair.
pub(super) async fn of_pair(State(shared): State<Shared>, Path((name, pair)): Path<(String, String)>) -> Response {
    let answer = async {
        let table = shared.tape.views().await?;
        let Some((id, view)) = table.find(&name) else { return Ok(unknown(&name)) };
        let found = shared.directory.find_pair(&pair).filter(|found| view.takes(&found.text));
        let Some(found) = found else {
            let text = format!("the view {name} is not kept for a pair {pair:?}; see /v1/views/{name}");
            return Ok(failure(StatusCode::NOT_FOUND, &text));
        };
        let (held, now_ns) = shared.tape.view_values(id, Some(found.id)).await?;
        Ok(Json(value(view, &found, held.first().map(|(_, held)| held), now_ns)).into_response())
    };
    answer.await.unwrap_or_else(ended)
}
