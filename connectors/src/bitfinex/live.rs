//! Live connections: a channel for each book and for each instrument's trades. The rules are those of the venue's page, by
//! number.
//!
//! Never: a checksum that is not asked for.

use super::message::{RESTARTS, RESUMES, Said, assets};
use crate::{
    live::protocol::{Answer, Listed, Protocol, RestRequest, Terms},
    venue_feed::{self, Undecodable},
};
use market::Venue;
use serde_json::json;
use std::borrow::Cow;

const VENUE: Venue = Venue::Bitfinex;

/// Levels a side that are subscribed to, of 1, 25, 100 and 250: the checksum covers 25, a screen can show 100, and a longer
/// book only costs the venue's bandwidth and ours.
const LEVELS: &str = "100";

/// Rules 2 and 4.
const FLAGS: u32 = 65_536 + 131_072;

/// The error of a channel that cannot be ended since it is none.
const NO_CHANNEL: i64 = 10_400;

const TERMS: Terms = Terms {
    socket_url: "wss://api-pub.bitfinex.com/ws/2",
    rest_url: "https://api-pub.bitfinex.com",
    // Ten pings without an answer.
    silence_ms: 10_000,
    answer_ms: 10_000,
    // The whole book follows the event at once.
    data_ms: 10_000,
    data_each: true,
    // No number is documented for messages; faster than this is of no use.
    pace_ms: 50,
    // Rule 1: a request is one channel's.
    batch: 1,
    // Rule 7: two channels each.
    instruments_max: 12,
    // The list of instruments is all that is asked by REST.
    weight_per_minute: 60,
    // Heartbeats are too rare to tell a quiet market from a dead connection in time.
    ping_ms: 1_000,
    // None is documented.
    requests_per_hour: None,
    too_often: None,
};

/// Bitfinex v2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bitfinex;

impl Protocol for Bitfinex {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    /// Rule 7.
    fn connections_per_minute(&self) -> Option<u64> {
        Some(20)
    }

    fn greeting(&self, _id: u64) -> Vec<String> {
        vec![json!({ "event": "conf", "flags": FLAGS }).to_string()]
    }

    fn ping(&self, id: u64) -> Option<String> {
        Some(json!({ "event": "ping", "cid": id }).to_string())
    }

    fn subscribe(&self, symbols: &[&str], _id: u64) -> String {
        let symbol = symbols.first().copied().unwrap_or_default();
        let book = json!({ "event": "subscribe", "channel": "book", "symbol": symbol, "prec": "P0", "freq": "F0", "len": LEVELS });
        book.to_string()
    }

    fn ends_by_handle(&self) -> bool {
        true
    }

    fn unsubscribe(&self, _symbol: &str, handle: Option<&str>, _id: u64) -> String {
        let channel: u64 = handle.and_then(|handle| handle.parse().ok()).unwrap_or_default();
        json!({ "event": "unsubscribe", "chanId": channel }).to_string()
    }

    /// The last trades come with it, which are those that a reconnection missed.
    fn subscribe_beside(&self, symbols: &[&str], _id: u64) -> Option<String> {
        let symbol = symbols.first()?;
        Some(json!({ "event": "subscribe", "channel": "trades", "symbol": symbol }).to_string())
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        if let Some(array) = text.strip_prefix('[') {
            let (channel, payload) = array.split_once(',').unwrap_or_default();
            let whole = payload.starts_with("[[") || payload.starts_with("[]");
            return if whole { Answer::Data(channel.into()) } else { Answer::Life };
        }
        let Ok(said) = serde_json::from_str::<Said<'a>>(text) else { return Answer::Life };
        let handle = said.chan_id.map(|raw| Cow::Borrowed(raw.get()));
        match (&*said.event, &*said.channel, handle) {
            ("info", ..) if matches!(said.code, Some(RESTARTS | RESUMES)) => Answer::Leaving,
            ("subscribed", "book", Some(handle)) => Answer::Subscribed { key: said.symbol, handle },
            ("subscribed", "trades", _) => Answer::Beside { key: said.symbol, refusal: None },
            ("unsubscribed", _, Some(handle)) => Answer::Unsubscribed(handle),
            ("error", _, Some(handle)) if said.code == Some(NO_CHANNEL) => Answer::Unsubscribed(handle),
            ("error", ..) => refused(said),
            _ => Answer::Life,
        }
    }

    /// Only a subscription anew brings it.
    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        RestRequest { path: "/v2/conf/pub:list:pair:exchange".to_owned(), weight: 1 }
    }

    /// It tells no steps: prices have five digits, wherever the point is.
    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        let lists: Vec<Vec<Cow<'_, str>>> = venue_feed::json(VENUE, body)?;
        let named = |pair: &Cow<'_, str>| {
            let symbol: Box<str> = format!("t{pair}").into();
            let (asset_0, asset_1) = assets(&symbol).map(|(base, quote)| ((*base).into(), (*quote).into()))?;
            Some(Listed { symbol, asset_0, asset_1, price_step: None, quantity_step: None, halted: None })
        };
        Ok(lists.iter().flatten().filter_map(named).collect())
    }
}

/// A refusal repeats what was asked for: 10300 it failed, 10301 it is subscribed to already, 10305 too many channels.
fn refused(said: Said<'_>) -> Answer<'_> {
    let refusal = Some(format!("{} ({})", said.msg, said.code.unwrap_or_default()).into());
    match &*said.channel {
        "trades" => Answer::Beside { key: said.symbol, refusal },
        "book" => Answer::Reply { request: None, key: Some(said.symbol), refusal },
        "" => Answer::Reply { request: None, key: None, refusal },
        _ => Answer::Life,
    }
}

#[cfg(test)]
mod tests;
