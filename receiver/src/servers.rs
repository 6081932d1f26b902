//! The servers that a terminal may use, and which of them it tries when.
//!
//! Never: a decision about what is shown; a wait that a server named, cut short.

use crate::{
    backoff::Backoff,
    connection::{ReceiverError, SERVER_WAIT_MS_MAX},
};
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{
    client::{IntoClientRequest, uri_mode},
    handshake::client::Request,
    http::{HeaderValue, header},
};
use wire::SUBPROTOCOL;

struct Server {
    url: Box<str>,
    request: Request,
    /// It asked not to be tried before.
    not_before: Instant,
}

/// The servers in the order of preference, the one in use, and when it may be tried.
pub(crate) struct Servers {
    servers: Vec<Server>,
    at: usize,
    backoff: Backoff,
    retry_at: Instant,
}

impl Servers {
    /// # Errors
    /// [`ReceiverError::Url`] or [`ReceiverError::NoServer`].
    pub(crate) fn new<'a>(urls: impl Iterator<Item = &'a str>, now: Instant) -> Result<Self, ReceiverError> {
        let servers: Vec<_> = urls.map(|url| Server::new(url, now)).collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err(ReceiverError::NoServer);
        }
        Ok(Self { servers, at: 0, backoff: Backoff::default(), retry_at: now })
    }

    pub(crate) fn authorize(&mut self, value: &HeaderValue) {
        for server in &mut self.servers {
            server.request.headers_mut().insert(header::AUTHORIZATION, value.clone());
        }
    }

    /// The URL of the server in use.
    pub(crate) fn url(&self) -> &str {
        self.servers.get(self.at).map_or("", |server| &server.url)
    }

    /// What to ask the server in use for.
    pub(crate) fn request(&self) -> Option<Request> {
        self.servers.get(self.at).map(|server| server.request.clone())
    }

    /// When the server in use may be tried.
    pub(crate) fn retry_at(&self) -> Instant {
        self.retry_at
    }

    /// A connection proved itself: the next failure is the first one.
    pub(crate) fn proved(&mut self) {
        self.backoff.reset();
    }

    /// An attempt or connection ended; the next server is in use. Every attempt counts for the back-off, whichever
    /// server it was made at, so that many servers are not many times the load. A wait that a server named holds for
    /// that server alone and stands in place of the drawn one.
    pub(crate) fn failed(&mut self, asked_wait_ms: Option<u64>, random: u64, now: Instant) -> Duration {
        let drawn = Duration::from_millis(self.backoff.next_ms(random));
        let failed = self.at;
        if let (Some(wait_ms), Some(server)) = (asked_wait_ms, self.servers.get_mut(failed)) {
            server.not_before = now + Duration::from_millis(wait_ms.min(SERVER_WAIT_MS_MAX));
        }
        let count = self.servers.len();
        let ready = |at: &usize| self.servers.get(*at).map(|server| server.not_before.max(now));
        let others = (1..=count).map(|step| (failed + step) % count);
        // The first of the equally early ones: those without a wait in their order.
        self.at = others.min_by_key(ready).unwrap_or(0);
        let ready = ready(&self.at).unwrap_or(now);
        let named = self.at == failed && asked_wait_ms.is_some();
        self.retry_at = if named { ready } else { ready.max(now + drawn) };
        self.retry_at.saturating_duration_since(now)
    }
}

impl Server {
    fn new(url: &str, now: Instant) -> Result<Self, ReceiverError> {
        let mut request = url.into_client_request().map_err(|error| ReceiverError::Url(Box::new(error)))?;
        uri_mode(request.uri()).map_err(|error| ReceiverError::Url(Box::new(error)))?;
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
        Ok(Self { url: url.into(), request, not_before: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = u64::MAX;

    fn servers(count: usize, now: Instant) -> Servers {
        let urls: Vec<_> = (0..count).map(|at| format!("ws://server-{at}/")).collect();
        Servers::new(urls.iter().map(String::as_str), now).unwrap()
    }

    #[test]
    fn every_failure_moves_on_and_every_attempt_doubles_the_wait() {
        let now = Instant::now();
        let mut servers = servers(3, now);
        let mut seen = Vec::new();
        for _ in 0..7 {
            let wait = servers.failed(None, MOST, now);
            seen.push((servers.at, wait.as_millis()));
        }
        let waits = [(1, 250), (2, 500), (0, 1_000), (1, 2_000), (2, 4_000), (0, 8_000), (1, 16_000)];
        assert_eq!(seen, waits);
        servers.proved();
        assert_eq!(servers.failed(None, MOST, now).as_millis(), 250);
        assert_eq!(servers.url(), "ws://server-2/");
    }

    #[test]
    fn a_named_wait_holds_for_the_server_that_named_it() {
        let now = Instant::now();
        let mut alone = servers(1, now);
        assert_eq!(alone.failed(Some(5), MOST, now).as_millis(), 5);
        assert_eq!(alone.failed(Some(u64::MAX), 0, now).as_millis(), u128::from(SERVER_WAIT_MS_MAX));
        let mut pair = servers(2, now);
        assert_eq!(pair.failed(Some(60_000), MOST, now).as_millis(), 250);
        assert_eq!(pair.url(), "ws://server-1/");
        for _ in 0..5 {
            pair.failed(None, 0, now);
            assert_eq!(pair.url(), "ws://server-1/", "the first one asked for a minute");
        }
        let later = now + Duration::from_secs(60);
        pair.failed(None, 0, later);
        assert_eq!(pair.url(), "ws://server-0/");
        pair.failed(Some(40_000), 0, later);
        let wait = pair.failed(Some(30_000), 0, later);
        assert_eq!((pair.url(), wait.as_millis()), ("ws://server-1/", 30_000), "the one that is back first");
    }

    #[test]
    fn at_least_one_server_is_needed() {
        assert!(matches!(Servers::new(std::iter::empty(), Instant::now()), Err(ReceiverError::NoServer)));
    }
}
