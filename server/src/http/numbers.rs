//! Requests by route and outcome.
//!
//! Never: a label made of what a caller sent.

use super::reads::Reads;
use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::Response,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Routes as metrics name them; the last one is any other.
const ROUTES: [&str; 12] = [
    "index",
    "health",
    "metrics",
    "instruments",
    "legs",
    "batches",
    "book",
    "book_changes",
    "pair_book",
    "pair_changes",
    "stream",
    "other",
];

/// Outcomes as metrics name them.
const OUTCOMES: [&str; 5] = ["ok", "not_modified", "refused", "busy", "failed"];

/// Requests by route and outcome.
#[derive(Debug, Default)]
pub struct HttpNumbers([[AtomicU64; OUTCOMES.len()]; ROUTES.len()]);

impl HttpNumbers {
    /// Route, outcome and count of every pair that there was.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, &'static str, u64)> {
        let routes = ROUTES.iter().zip(&self.0);
        let all = routes.flat_map(|(route, counts)| {
            OUTCOMES.iter().zip(counts).map(|(outcome, count)| (*route, *outcome, count.load(Relaxed)))
        });
        all.filter(|(.., count)| *count > 0).collect()
    }

    fn note(&self, route: &str, outcome: &str) {
        let at = |names: &[&str], name| names.iter().position(|known| *known == name);
        let counts = at(&ROUTES, route).and_then(|at| self.0.get(at));
        if let Some(count) = counts.zip(at(&OUTCOMES, outcome)).and_then(|(counts, at)| counts.get(at)) {
            count.fetch_add(1, Relaxed);
        }
    }
}

fn route(path: &str) -> &'static str {
    let changes = path.ends_with("/changes");
    match path {
        "/" => "index",
        "/healthz" | "/readyz" => "health",
        "/metrics" => "metrics",
        "/v1/instruments" => "instruments",
        "/v1/legs" => "legs",
        "/v1/batches" => "batches",
        "/v1/stream" => "stream",
        _ if path.starts_with("/v1/books/") => {
            if changes {
                "book_changes"
            } else {
                "book"
            }
        }
        _ if path.starts_with("/v1/pairs/") => {
            if changes {
                "pair_changes"
            } else {
                "pair_book"
            }
        }
        _ => "other",
    }
}

fn outcome(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_MODIFIED => "not_modified",
        StatusCode::SERVICE_UNAVAILABLE => "busy",
        status if status.is_server_error() => "failed",
        status if status.is_client_error() => "refused",
        _ => "ok",
    }
}

/// Counts every request once it is answered.
pub(super) async fn count(State(reads): State<Arc<Reads>>, request: Request, next: Next) -> Response {
    let route = route(request.uri().path());
    let response = next.run(request).await;
    reads.numbers().note(route, outcome(response.status()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_one_of_the_routes_and_every_status_one_of_the_outcomes() {
        let numbers = HttpNumbers::default();
        for (path, expected) in [
            ("/", "index"),
            ("/readyz", "health"),
            ("/v1/books/kraken_spot/BTC/USD", "book"),
            ("/v1/books/kraken_spot/BTC/USD/changes", "book_changes"),
            ("/v1/books/kraken_spot/BTC%2Fchanges", "book"),
            ("/v1/pairs/BTC/USD/changes", "pair_changes"),
            ("/v2/\u{7f}", "other"),
        ] {
            assert_eq!(route(path), expected);
            numbers.note(route(path), outcome(StatusCode::OK));
        }
        for (status, expected) in [(101, "ok"), (304, "not_modified"), (406, "refused"), (503, "busy"), (504, "failed")]
        {
            assert_eq!(outcome(StatusCode::from_u16(status).unwrap()), expected);
            numbers.note("stream", expected);
        }
        assert_eq!(numbers.values().iter().map(|(.., count)| count).sum::<u64>(), 12);
        assert!(numbers.values().contains(&("book", "ok", 2)));
    }
}
