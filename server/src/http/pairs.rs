//! `/v1/pairs/{asset_0}/{asset_1}/book` and `…/changes`: the same of every instrument of a pair, at one cut. Each has its own
//! version.
//!
//! Never: levels of two venues added up; a version for a pair, which has none.

use super::{
    Shared,
    body::{BookBody, Shown, TicksBody},
    books::{CHANGES, Parameters, Refusal, answer, ask_store, chosen, in_memory, listed, unkept, wish},
    format::Format,
    stored::{self, StoredAnswer},
    wish::{Source, Wish, WishError},
};
use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
};
use market::Instrument;
use serde::Serialize;
use std::sync::Arc;

/// Behind a pair's name: its books.
const BOOK: &str = "/book";

/// Instruments of a pair that are told at once: several of each venue, and not a venue's whole list under one name.
const INSTRUMENTS_MAX: usize = 64;

/// Answers with the books of a pair, or with what of them changed.
pub(super) async fn pairs(
    State(shared): State<Shared>,
    uri: Uri,
    rest: Result<Path<String>, PathRejection>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(rest) = rest.map_err(|_| Refusal::Address)?;
    let wish = wish(parameters)?;
    let of = |suffix: &str| rest.strip_suffix(suffix).filter(|_| uri.path().ends_with(suffix));
    if let Some(pair) = of(CHANGES) {
        return changes(&shared, pair, &wish, &headers).await;
    }
    let pair = of(BOOK).ok_or_else(|| Refusal::UnknownPair { name: rest.as_str().into() })?;
    books(&shared, pair, wish, &headers).await
}

/// The instruments of a pair by its name, assets in the spelling that venues share.
fn instruments(shared: &Shared, pair: &str) -> Result<Vec<Arc<Instrument>>, Refusal> {
    let pairs = shared.directory.pairs_from(0);
    let found = pairs.into_iter().find(|known| *known.text == *pair);
    let found = found.ok_or_else(|| Refusal::UnknownPair { name: pair.into() })?;
    let mut instruments = shared.directory.instruments_from(0);
    instruments.retain(|instrument| instrument.pair == found.id);
    match instruments.len() {
        count @ 0..=INSTRUMENTS_MAX => {
            tracing::trace!(pair, count, "the instruments of a pair");
            Ok(instruments)
        }
        count => Err(Refusal::TooMany { count, max: INSTRUMENTS_MAX }),
    }
}

/// The stored answers of all of them, one after the other, so that a pair is one question at a time.
async fn stored_answers(
    shared: &Shared,
    instruments: &[Arc<Instrument>],
    wish: &Wish,
) -> Result<Vec<Arc<StoredAnswer>>, Refusal> {
    let mut answers = Vec::with_capacity(instruments.len());
    for instrument in instruments {
        answers.push(ask_store(shared, instrument, wish.since_of(&instrument.text)).await?);
    }
    Ok(answers)
}

async fn books(shared: &Shared, pair: &str, wish: Wish, headers: &HeaderMap) -> Result<Response, Refusal> {
    let wish = wish.of_book()?;
    let format = chosen(headers, &[Format::Json, Format::Wire, Format::Octets])?;
    let instruments = instruments(shared, pair)?;
    let shown: Vec<Shown<'_>> = match wish.source {
        Source::Memory => in_memory(shared, &instruments.iter().collect::<Vec<_>>(), |_| None, wish.depth).await?,
        Source::Store => {
            let answers = stored_answers(shared, &instruments, &wish).await?;
            let books = instruments.iter().zip(&answers);
            let book = |(instrument, answer): (_, &Arc<StoredAnswer>)| {
                stored::shown(instrument, &answer.state, wish.depth).map_err(Refusal::Steps)
            };
            books.map(book).collect::<Result<_, _>>()?
        }
    };
    answer(shared, &shown, format, wish.depth, headers, || {
        let rows: Vec<_> = shown.iter().map(|shown| row(&BookBody::book(shown))).collect();
        listed(pair, "books", &rows)
    })
}

async fn changes(shared: &Shared, pair: &str, wish: &Wish, headers: &HeaderMap) -> Result<Response, Refusal> {
    if wish.depth.is_some() {
        return Err(WishError::Meaningless { name: "depth" }.into());
    }
    if wish.wait.is_some() {
        return Err(WishError::Meaningless { name: "wait_ms" }.into());
    }
    chosen(headers, &[Format::Json])?;
    let instruments = instruments(shared, pair)?;
    let of_pair = |since: &super::wish::Since| {
        let name = since.instrument.as_deref();
        instruments.iter().any(|instrument| name == Some(&*instrument.text))
    };
    if let Some(other) = wish.since.iter().find(|since| !of_pair(since)) {
        let text = other.instrument.as_deref().unwrap_or("(without INSTRUMENT@)");
        return Err(Refusal::Unknown { name: text.into() });
    }
    let rows: Vec<_> = match wish.source {
        Source::Memory => {
            let since = |instrument: &Instrument| wish.since_of(&instrument.text);
            let shown = in_memory(shared, &instruments.iter().collect::<Vec<_>>(), since, None).await?;
            shown.iter().map(|shown| row(&BookBody::changes(shown))).collect()
        }
        Source::Store => {
            let answers = stored_answers(shared, &instruments, wish).await?;
            let told = instruments.iter().zip(&answers).map(|(instrument, answer)| {
                let shown = stored::head(instrument, &answer.state);
                row(&TicksBody::of(&shown, &answer.state.ticks, answer.changes))
            });
            told.collect()
        }
    };
    let body: Json<_> = listed(pair, "changes", &rows);
    Ok(unkept(body.into_response()))
}

/// A row as JSON; its shapes are ours and have a form.
fn row(body: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(body).unwrap_or_default()
}
