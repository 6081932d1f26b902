//! REST: one request, and the task that fetches what the snapshot machine says.
//!
//! Never: a reply without a bound on its bytes and its time.

use super::{Link, Shared, numbers::count, snapshots::Outcome};
use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::Undecodable,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, StatusCode, Uri,
    header::{RETRY_AFTER, USER_AGENT},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::ClientConfig;
use std::{error::Error, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{sleep_until, timeout},
};

/// Time for one request, its reply included, at most.
pub const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Bytes of a snapshot at most: ten times one of 1,000 levels a side.
pub const SNAPSHOT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a list of instruments at most: four times the largest known.
pub const LISTING_BYTES_MAX: usize = 64 << 20;

/// What the venue calls us by.
const AGENT: &str = concat!("sprag/", env!("CARGO_PKG_VERSION"));

/// The venue's word for what was used of the allowance in this minute.
const USED_WEIGHT: &str = "x-mbx-used-weight-1m";

/// "I'm a teapot": too many requests in spite of 429.
const BANNED: u16 = 418;

/// A REST request failed.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// The TLS library refuses our settings.
    #[error("no TLS settings")]
    Tls(#[from] rustls::Error),
    /// The path cannot be requested.
    #[error("not a URL that can be requested")]
    Url(#[from] hyper::http::Error),
    /// Not answered in time.
    #[error("no answer in time")]
    Deadline,
    /// Not answered.
    #[error("no answer")]
    Unanswered(#[from] hyper_util::client::legacy::Error),
    /// Refused for the number of our requests.
    #[error("too many requests")]
    Limited {
        /// How long to wait, in milliseconds, if the venue says so.
        retry_after_ms: Option<u64>,
    },
    /// Answered with an error.
    #[error("answered with {status}")]
    Status {
        /// Which.
        status: StatusCode,
    },
    /// The reply broke off.
    #[error("the reply broke off")]
    BrokenOff(#[source] Box<dyn Error + Send + Sync>),
    /// The reply is longer than it may be.
    #[error("the reply is longer than {bytes_max} bytes")]
    TooLong {
        /// Its bound.
        bytes_max: usize,
    },
    /// The reply is no text.
    #[error("the reply is no text")]
    Text(#[from] std::string::FromUtf8Error),
    /// The reply is not what the venue documents.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
}

/// A reply.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) body: String,
    pub(super) used_weight: Option<u32>,
}

/// A client for one base URL.
#[derive(Clone)]
pub(super) struct Rest {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    base: Arc<str>,
}

impl Rest {
    pub(super) fn new(base: &str, tls: ClientConfig) -> Self {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { client, base: base.trim_end_matches('/').into() }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Fetches a path, within [`REQUEST_MAX`].
    pub(super) async fn get(&self, path: &str, bytes_max: usize) -> Result<Reply, RestError> {
        timeout(REQUEST_MAX, self.fetch(path, bytes_max)).await.map_err(|_| RestError::Deadline)?
    }

    async fn fetch(&self, path: &str, bytes_max: usize) -> Result<Reply, RestError> {
        let uri = Uri::try_from(self.url(path)).map_err(hyper::http::Error::from)?;
        let request = Request::get(uri).header(USER_AGENT, AGENT).body(Empty::new())?;
        let response = self.client.request(request).await?;
        let (head, body) = response.into_parts();
        if head.status == StatusCode::TOO_MANY_REQUESTS || head.status.as_u16() == BANNED {
            let seconds: Option<u64> = number(&head.headers, RETRY_AFTER.as_str());
            return Err(RestError::Limited { retry_after_ms: seconds.map(|seconds| seconds.saturating_mul(1_000)) });
        }
        if !head.status.is_success() {
            return Err(RestError::Status { status: head.status });
        }
        let collected = Limited::new(body, bytes_max).collect().await;
        let bytes = collected.map_err(|error| match error.downcast::<LengthLimitError>() {
            Ok(_) => RestError::TooLong { bytes_max },
            Err(error) => RestError::BrokenOff(error),
        })?;
        let body = String::from_utf8(bytes.to_bytes().into())?;
        Ok(Reply { body, used_weight: number(&head.headers, USED_WEIGHT) })
    }
}

fn number<N: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<N> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// Fetches what the snapshot machine of a venue says, for ever.
pub(super) async fn fetch_snapshots(shared: Arc<Shared>, link: Arc<Link>, rest: Rest) {
    let mut fetches = JoinSet::new();
    loop {
        let now_ns = shared.clock.now_ns();
        let due: Vec<usize> = {
            let mut machine = link.snapshots();
            std::iter::from_fn(|| machine.poll(now_ns)).collect()
        };
        for at in due {
            fetches.spawn(fetch_one(Arc::clone(&shared), Arc::clone(&link), rest.clone(), at));
        }
        let deadline = shared.clock.instant(link.snapshots().deadline_ns());
        tokio::select! {
            Some(done) = fetches.join_next() => {
                if done.is_err() {
                    return;
                }
            }
            () = link.wanted.notified() => {}
            () = sleep_until(deadline) => {}
        }
    }
}

async fn fetch_one(shared: Arc<Shared>, link: Arc<Link>, rest: Rest, at: usize) {
    let outcome = match link.symbols.get(at).and_then(|symbol| Some((symbol, link.protocol.snapshot(symbol)?))) {
        Some((symbol, request)) => {
            count(&link.numbers.rest_requests);
            match rest.get(&request.path, SNAPSHOT_BYTES_MAX).await {
                Ok(reply) => {
                    count(&link.numbers.snapshots);
                    hand_over(&shared, &link, rest.url(&request.path), reply).await
                }
                Err(error) => failed(&link, symbol, &error),
            }
        }
        None => Outcome::Failed,
    };
    link.snapshots().answered(shared.clock.now_ns(), at, outcome, rand::random());
}

/// A reply goes the way of all frames, and waits for its room no longer than a connection does.
async fn hand_over(shared: &Shared, link: &Link, url: String, reply: Reply) -> Outcome {
    let frame = RawFrame {
        ts_ns: (shared.now_ns)(),
        kind: RawKind::Http,
        conn: Arc::clone(&link.rest_conn),
        url: Some(url.into()),
        raw: RawPayload::Text(reply.body),
    };
    let wait = Duration::from_millis(shared.held_ms_max);
    if timeout(wait, shared.queue.push_later(link.protocol.venue(), frame)).await.is_err() {
        count(&link.numbers.rest_failures);
        return Outcome::Failed;
    }
    Outcome::Taken { used_weight: reply.used_weight }
}

fn failed(link: &Link, symbol: &str, error: &RestError) -> Outcome {
    count(&link.numbers.rest_failures);
    let venue = link.protocol.venue();
    if let RestError::Limited { retry_after_ms } = error {
        count(&link.numbers.rest_limited);
        tracing::warn!(%venue, symbol, retry_after_ms, "the venue wants fewer requests");
        return Outcome::Limited { retry_after_ms: *retry_after_ms };
    }
    if matches!(error, RestError::Status { status } if status.is_client_error()) {
        // Most likely an instrument that it does not have; nothing heals that but a person.
        count(&link.numbers.subscription_failures);
        tracing::error!(%venue, symbol, %error, "the venue refuses the snapshot of this instrument");
    } else {
        tracing::warn!(%venue, symbol, error = error as &dyn Error, "a snapshot could not be fetched");
    }
    Outcome::Failed
}
