//! Live.
//!
//! Never: -

use crate::{
    live::protocol::{Answer, Protocol, RestRequest, SymbolAssets, Terms},
    venue_feed::Undecodable,
};
use market::Venue;
use std::borrow::Cow;

const TERMS: Terms = Terms {
    socket_url: "wss://example.invalid",
    rest_url: "https://example.invalid",
    silence_ms: 30_000,
    answer_ms: 10_000,
    data_ms: 10_000,
    data_each: true,
    pace_ms: 100,
    batch: 10,
    instruments_max: 100,
    weight_per_minute: 60,
    ping_ms: 0,
};

/// The venue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Okx;

impl Protocol for Okx {
    fn venue(&self) -> Venue {
        Venue::Okx
    }

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    fn subscribe(&self, _symbols: &[&str], _id: u64) -> String {
        String::new()
    }

    fn unsubscribe(&self, _symbol: &str, _handle: Option<&str>, _id: u64) -> String {
        String::new()
    }

    fn subscribe_beside(&self, _symbols: &[&str], _id: u64) -> Option<String> {
        None
    }

    fn understand<'a>(&self, _text: &'a str) -> Answer<'a> {
        Answer::Life
    }

    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        RestRequest { path: String::new(), weight: 1 }
    }

    fn assets(&self, _body: &str) -> Result<Vec<SymbolAssets>, Undecodable> {
        Ok(Vec::new())
    }
}
