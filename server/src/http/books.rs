//! `/v1/books/{instrument}` and `/v1/books/{instrument}/changes`, of one instrument. A `/` of the name stands as it is or
//! as `%2F`; a name that ends with `/changes` itself has its last one as `%2F`. `<` and `>` are no characters of an address:
//! they are `%3C` and `%3E`.
//!
//! Never: a book without its feed state and age.

use super::{
    Shared,
    body::{self, BookBody, Shown, TicksBody},
    ended, failure,
    format::{self, Format},
    stored::{self, StoredAnswer, StoredError},
    wish::{Source, Wish, WishError},
};
use crate::{
    hub::{BookView, Look},
    run::unix_ns,
    single_flight::FlightError,
};
use axum::{
    Json,
    body::Body,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use market::{Instrument, Version};
use serde_json::json;
use std::sync::Arc;

/// Behind a book's address: what of it changed.
pub(super) const CHANGES: &str = "/changes";

/// What a reader is told to wait where everything is taken, seconds.
const RETRY_AFTER_S: u64 = 1;

/// The parameters of a request as they came.
pub(super) type Parameters = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// The forms that a book has.
const BOOK_FORMATS: [Format; 3] = [Format::Json, Format::Wire, Format::Octets];

/// Why a request for books is not answered with one.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the address cannot be read")]
    Address,
    #[error("unknown instrument {name:?}; see /v1/instruments")]
    Unknown { name: Box<str> },
    #[error("unknown pair {name:?}; see /v1/instruments")]
    UnknownPair { name: Box<str> },
    #[error("{count} instruments are of this pair, more than {max}; ask for them one by one")]
    TooMany { count: usize, max: usize },
    #[error(transparent)]
    Wish(#[from] WishError),
    #[error("none of the accepted media types is offered; there are {offered}")]
    NotAcceptable { offered: String },
    #[error("no store is configured; a book without source=store is from memory")]
    NoStore,
    #[error("too many requests wait for a change")]
    TooManyWaiting,
    #[error("the book is larger than a message may be; ask with depth, or for JSON")]
    TooLarge,
    #[error("the server is ending")]
    Ended,
    #[error(transparent)]
    Stored(#[from] FlightError<StoredError>),
    #[error(transparent)]
    Steps(StoredError),
}

impl From<crate::tape::TapeEnded> for Refusal {
    fn from(_: crate::tape::TapeEnded) -> Self {
        Self::Ended
    }
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Address | Self::Wish(_) | Self::TooMany { .. } => StatusCode::BAD_REQUEST,
            Self::Unknown { .. } | Self::UnknownPair { .. } | Self::NoStore => StatusCode::NOT_FOUND,
            Self::NotAcceptable { .. } => StatusCode::NOT_ACCEPTABLE,
            Self::TooManyWaiting | Self::Ended => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLarge | Self::Steps(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Stored(error) => match error {
                FlightError::TooManyQuestions | FlightError::TooManyWaiting | FlightError::Ended => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
                FlightError::Failed(error) => match **error {
                    StoredError::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
                    StoredError::Read(_) => StatusCode::BAD_GATEWAY,
                    StoredError::Steps { .. } => StatusCode::INTERNAL_SERVER_ERROR,
                },
                FlightError::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    /// What the reader is told; the store's own words stay in the log.
    fn text(&self) -> String {
        match self {
            Self::Stored(FlightError::Failed(error)) => error.to_string(),
            other => other.to_string(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if matches!(self, Self::Ended) {
            return ended(crate::tape::TapeEnded);
        }
        let status = self.status();
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            tracing::warn!(error = ?self, "a book could not be told");
        }
        let mut response = failure(status, &self.text());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        response
    }
}

/// Answers with a book, or with what of it changed.
pub(super) async fn books(
    State(shared): State<Shared>,
    uri: Uri,
    name: Result<Path<String>, PathRejection>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(name) = name.map_err(|_| Refusal::Address)?;
    let wish = wish(parameters)?;
    let find = |name: &str| shared.directory.find(name).ok_or_else(|| Refusal::Unknown { name: name.into() });
    match name.strip_suffix(CHANGES).filter(|_| uri.path().ends_with(CHANGES)) {
        Some(name) => changes(&shared, &find(name)?, &wish, &headers).await,
        None => book(&shared, &find(&name)?, wish, &headers).await,
    }
}

/// The parameters as a wish.
pub(super) fn wish(parameters: Parameters) -> Result<Wish, Refusal> {
    let Query(parameters) = parameters.map_err(|_| Refusal::Address)?;
    Ok(Wish::of(&parameters)?)
}

async fn book(
    shared: &Shared,
    instrument: &Arc<Instrument>,
    wish: Wish,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    let wish = wish.of_book()?;
    let format = chosen(headers, &BOOK_FORMATS)?;
    let shown = match wish.source {
        Source::Memory => in_memory(shared, &[instrument], |_| None, wish.depth).await?,
        Source::Store => {
            let answer = ask_store(shared, instrument, None).await?;
            vec![stored::shown(instrument, &answer.state, wish.depth).map_err(Refusal::Steps)?]
        }
    };
    let Some(first) = shown.first() else { return Err(Refusal::Ended) };
    let mut response = answer(shared, &shown, format, wish.depth, headers, || Json(BookBody::book(first)))?;
    mark(&mut response, first);
    Ok(response)
}

async fn changes(
    shared: &Shared,
    instrument: &Arc<Instrument>,
    wish: &Wish,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    let since = wish.of_changes()?;
    chosen(headers, &[Format::Json])?;
    let response = match wish.source {
        Source::Store => {
            let answer = ask_store(shared, instrument, Some(since)).await?;
            let shown = stored::head(instrument, &answer.state);
            Json(TicksBody::of(&shown, &answer.state.ticks, answer.changes)).into_response()
        }
        Source::Memory => {
            let look = Look { symbol: instrument.id, since: Some(since), depth: None };
            let view = once_changed(shared, look, wish).await?;
            let shown = Shown { instrument, source: Source::Memory, view, newer_ticks: None };
            Json(BookBody::changes(&shown)).into_response()
        }
    };
    Ok(unkept(response))
}

/// Looks at an instrument once it has changed, or when the reader waits no longer.
async fn once_changed(shared: &Shared, look: Look, wish: &Wish) -> Result<BookView, Refusal> {
    if let Some(wait) = wish.wait.filter(|wait| !wait.is_zero()) {
        let _place = shared.reads.wait().ok_or(Refusal::TooManyWaiting)?;
        if let Ok(view) = tokio::time::timeout(wait, shared.tape.wait(look)).await {
            return Ok(view?);
        }
    }
    shared.tape.look(vec![look]).await?.pop().ok_or(Refusal::Ended)
}

/// Instruments as they are shown, all at one cut.
pub(super) async fn in_memory<'a>(
    shared: &Shared,
    instruments: &[&'a Arc<Instrument>],
    since: impl Fn(&Instrument) -> Option<Version>,
    depth: Option<usize>,
) -> Result<Vec<Shown<'a>>, Refusal> {
    let look = |instrument: &&Arc<Instrument>| Look { symbol: instrument.id, since: since(instrument), depth };
    let views = shared.tape.look(instruments.iter().map(look).collect()).await?;
    let shown = |(instrument, view)| Shown { instrument, source: Source::Memory, view, newer_ticks: None };
    Ok(instruments.iter().copied().zip(views).map(shown).collect())
}

/// An instrument as it is stored.
pub(super) async fn ask_store(
    shared: &Shared,
    instrument: &Arc<Instrument>,
    since: Option<Version>,
) -> Result<Arc<StoredAnswer>, Refusal> {
    let store = shared.reads.store().ok_or(Refusal::NoStore)?;
    Ok(store.ask(instrument, since).await?)
}

/// The form that the reader wants.
pub(super) fn chosen(headers: &HeaderMap, offered: &[Format]) -> Result<Format, Refusal> {
    format::negotiate(headers, offered).ok_or_else(|| {
        let names: Vec<_> = offered.iter().map(|format| format.media_type()).collect();
        Refusal::NotAcceptable { offered: names.join(", ") }
    })
}

/// Books in a form, or the word that the reader has them.
pub(super) fn answer<J: IntoResponse>(
    shared: &Shared,
    shown: &[Shown<'_>],
    format: Format,
    depth: Option<usize>,
    headers: &HeaderMap,
    json: impl FnOnce() -> J,
) -> Result<Response, Refusal> {
    let tag = format::tag(shown, format, depth);
    let mut response = if format::has(headers, tag.as_deref()) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if format == Format::Json {
        json().into_response()
    } else {
        let bytes = body::bytes(shown, &shared.directory, unix_ns() / 1_000_000).map_err(|error| {
            tracing::error!(%error, "a book cannot be encoded");
            Refusal::TooLarge
        })?;
        ([(header::CONTENT_TYPE, format.media_type())], Body::from(bytes)).into_response()
    };
    let fields = response.headers_mut();
    fields.insert(header::VARY, HeaderValue::from_static("accept"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        fields.insert(header::ETAG, tag);
    }
    Ok(response)
}

/// What a reader must know of a book that he has already, too: its mark and age.
fn mark(response: &mut Response, shown: &Shown<'_>) {
    let fields = response.headers_mut();
    fields.insert(HeaderName::from_static("sprag-state"), HeaderValue::from_static(shown.state()));
    fields.insert(HeaderName::from_static("sprag-age-ms"), HeaderValue::from(shown.view.age_ms));
    let version = shown.view.version.and_then(|version| HeaderValue::from_str(&version.to_string()).ok());
    if let Some(version) = version {
        fields.insert(HeaderName::from_static("sprag-version"), version);
    }
}

/// An answer that nobody shall keep.
pub(super) fn unkept(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A named list as JSON.
pub(super) fn listed(pair: &str, name: &str, rows: &[serde_json::Value]) -> Json<serde_json::Value> {
    Json(json!({ "pair": pair, name: rows }))
}
