//! `/v1/books/{instrument}`: one book at its version, from memory. A `/` of the name stands as it is or as `%2F`. `<` and `>`
//! are no characters of an address: they are `%3C` and `%3E`.
//!
//! Never: a book without its feed state and age.

use super::{Shared, ended, failure};
use crate::{hub::HubInstrument, row::Row};
use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use market::Side;
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct BookBody<'a> {
    instrument: &'a str,
    epoch: Option<u64>,
    seq: Option<String>,
    state: &'static str,
    flags: Vec<&'static str>,
    age_ms: u64,
    bids: Vec<Row>,
    asks: Vec<Row>,
    /// Worst prices known of bids and asks, where the venue has more.
    horizon: [Option<String>; 2],
}

/// What of the book is wanted.
#[derive(Deserialize)]
pub(super) struct Wish {
    /// The best levels of each side only.
    depth: Option<usize>,
}

/// Answers with a book; its ETag is the version.
pub(super) async fn book(
    State(shared): State<Shared>,
    Path(instrument): Path<String>,
    Query(wish): Query<Wish>,
    headers: HeaderMap,
) -> Response {
    let Some(found) = shared.directory.find(&instrument) else {
        return failure(StatusCode::NOT_FOUND, &format!("unknown instrument {instrument:?}; see /v1/instruments"));
    };
    match shared.tape.book(found.id).await {
        Ok(Some((book, now_ns))) => answer(&found.text, &book, now_ns, wish.depth, &headers),
        Ok(None) => answer(&found.text, &HubInstrument::new(found.id), 0, wish.depth, &headers),
        Err(error) => ended(error),
    }
}

fn answer(instrument: &str, book: &HubInstrument, now_ns: u64, depth: Option<usize>, headers: &HeaderMap) -> Response {
    let cut_off = depth.map(|depth| format!("-{depth}")).unwrap_or_default();
    let tag = book.version().map(|version| format!("\"{version}{cut_off}\""));
    let asked = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let etag = tag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok());
    if asked.is_some() && asked == tag.as_deref() {
        return with_tag(StatusCode::NOT_MODIFIED.into_response(), etag);
    }
    let feed = book.feed();
    let rows = |side: Side| {
        book.levels(side).take(depth.unwrap_or(usize::MAX)).map(|level| Row::of(book.scale(), level)).collect()
    };
    let body = BookBody {
        instrument,
        epoch: book.version().map(|version| version.epoch),
        seq: book.version().map(|version| version.seq.to_string()),
        state: feed.state.name(),
        flags: feed.flags.names(),
        age_ms: book.age_ms(now_ns),
        bids: rows(Side::Bid),
        asks: rows(Side::Ask),
        horizon: book.horizon().map(|price| price.map(|price| book.scale().price_text(price))),
    };
    with_tag(Json(body).into_response(), etag)
}

fn with_tag(mut response: Response, etag: Option<HeaderValue>) -> Response {
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}
