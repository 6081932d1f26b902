//! Live connections in either protocol: subscriptions to books and trades, and to heartbeats, so that silence says
//! something. The rules are those of the venue's page, by number.
//!
//! Never: a login; whatever needs one is not asked for.

use crate::{
    live::protocol::{Answer, Listed, Protocol, RestRequest, Terms, halted},
    venue_feed::{self, Undecodable, number::told},
};
use market::Venue;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap};

const VENUE: Venue = Venue::Coinbase;

/// Terms that both protocols share.
const SHARED: Terms = Terms {
    socket_url: "",
    rest_url: "https://api.exchange.coinbase.com",
    // A heartbeat every second, ten times.
    silence_ms: 10_000,
    answer_ms: 10_000,
    // The snapshot follows at once.
    data_ms: 10_000,
    data_each: true,
    // Exchange takes 100 messages a second and address; faster than this is of no use.
    pace_ms: 50,
    // A refusal names no product, so all of a request are asked for anew, each alone.
    batch: 10,
    // None is documented. A book has up to tens of thousands of levels, and each connection brings all of them.
    instruments_max: 200,
    // The list of instruments is all that is asked by REST.
    weight_per_minute: 60,
    ping_ms: 0,
    // None is documented.
    requests_per_hour: None,
    too_often: None,
};

const ADVANCED_TRADE: Terms = Terms {
    socket_url: "wss://advanced-trade-ws.coinbase.com",
    // 8 messages a second and address without a login.
    pace_ms: 125,
    ..SHARED
};

const EXCHANGE: Terms = Terms { socket_url: "wss://ws-feed.exchange.coinbase.com", ..SHARED };

/// What `level2_batch` is: the changes of 50 ms in one message, which needs no login.
const EXCHANGE_BOOK: &str = "level2_batch";

/// Advanced Trade.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdvancedTrade;

/// The Exchange feed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange;

/// What a message about the connection may have.
#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    channel: Cow<'a, str>,
    #[serde(borrow, default)]
    events: Option<&'a RawValue>,
    #[serde(borrow, default)]
    channels: Option<&'a RawValue>,
    #[serde(borrow, default)]
    product_id: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
}

/// One channel of the Exchange feed's `subscriptions`.
#[derive(Deserialize)]
struct Channel<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    product_ids: Vec<Cow<'a, str>>,
}

/// The one event of Advanced Trade's.
#[derive(Deserialize)]
struct Subscriptions<'a> {
    #[serde(borrow)]
    subscriptions: BTreeMap<Cow<'a, str>, Vec<Cow<'a, str>>>,
}

/// The name alone of an event.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    product_id: Cow<'a, str>,
}

impl Said<'_> {
    /// Rule 8: an error names no request.
    fn refusal<'a>(&self) -> Answer<'a> {
        let refusal = if self.reason.is_empty() { &self.message } else { &self.reason };
        Answer::Reply { request: None, key: None, refusal: Some((**refusal).into()) }
    }
}

/// Rule 8. The heartbeats alone are nobody's answer: they are asked for before anything else.
fn standing<'a>(channels: impl Iterator<Item = (Cow<'a, str>, Vec<Cow<'a, str>>)>) -> Answer<'a> {
    let (mut books, mut beside) = (Vec::new(), Vec::new());
    for (name, products) in channels {
        match &*name {
            "matches" | "market_trades" => beside.extend(products),
            name if name.starts_with("level2") => books.extend(products),
            _ => {}
        }
    }
    if books.is_empty() && beside.is_empty() { Answer::Life } else { Answer::Standing { books, beside } }
}

impl Protocol for AdvancedTrade {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn terms(&self) -> &'static Terms {
        &ADVANCED_TRADE
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    /// Rule 6.
    fn greeting(&self, _id: u64) -> Vec<String> {
        vec![json!({ "type": "subscribe", "channel": "heartbeats" }).to_string()]
    }

    fn subscribe(&self, symbols: &[&str], _id: u64) -> String {
        json!({ "type": "subscribe", "product_ids": symbols, "channel": "level2" }).to_string()
    }

    fn unsubscribe(&self, symbol: &str, _handle: Option<&str>, _id: u64) -> String {
        json!({ "type": "unsubscribe", "product_ids": [symbol], "channel": "level2" }).to_string()
    }

    /// The last trades come with it, which are those that a reconnection missed.
    fn subscribe_beside(&self, symbols: &[&str], _id: u64) -> Option<String> {
        Some(json!({ "type": "subscribe", "product_ids": symbols, "channel": "market_trades" }).to_string())
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        let update = text.starts_with(r#"{"channel":"l2_data""#) && !text.contains(r#""type":"snapshot""#);
        let other = [r#"{"channel":"market_trades""#, r#"{"channel":"heartbeats""#];
        if update || other.iter().any(|start| text.starts_with(start)) {
            return Answer::Life;
        }
        let Ok(said) = serde_json::from_str::<Said<'a>>(text) else { return Answer::Life };
        let events = said.events.map_or("[]", RawValue::get);
        match &*said.channel {
            "l2_data" => {
                let events: Vec<Named<'a>> = serde_json::from_str(events).unwrap_or_default();
                let snapshots = events.into_iter().filter(|event| event.kind == "snapshot");
                let keys: Vec<_> = snapshots.map(|event| event.product_id).collect();
                if keys.is_empty() { Answer::Life } else { Answer::DataOf(keys) }
            }
            "subscriptions" => {
                let events: Vec<Subscriptions<'a>> = serde_json::from_str(events).unwrap_or_default();
                standing(events.into_iter().flat_map(|event| event.subscriptions))
            }
            _ if said.kind == "error" => said.refusal(),
            _ => Answer::Life,
        }
    }

    /// Rule 1: only a subscription anew brings it.
    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        listing()
    }

    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        listed(body)
    }
}

impl Protocol for Exchange {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn terms(&self) -> &'static Terms {
        &EXCHANGE
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    fn subscribe(&self, symbols: &[&str], _id: u64) -> String {
        json!({ "type": "subscribe", "product_ids": symbols, "channels": [EXCHANGE_BOOK] }).to_string()
    }

    fn unsubscribe(&self, symbol: &str, _handle: Option<&str>, _id: u64) -> String {
        json!({ "type": "unsubscribe", "product_ids": [symbol], "channels": [EXCHANGE_BOOK] }).to_string()
    }

    /// A heartbeat is by product here.
    fn subscribe_beside(&self, symbols: &[&str], _id: u64) -> Option<String> {
        let channels = ["matches", "heartbeat"];
        Some(json!({ "type": "subscribe", "product_ids": symbols, "channels": channels }).to_string())
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        const LIFE: [&str; 4] =
            [r#"{"type":"l2update""#, r#"{"type":"match""#, r#"{"type":"heartbeat""#, r#"{"type":"ticker""#];
        if LIFE.iter().any(|start| text.starts_with(start)) {
            return Answer::Life;
        }
        let named = text.strip_prefix(r#"{"type":"snapshot","product_id":""#).and_then(|rest| rest.split_once('"'));
        if let Some((symbol, _)) = named {
            return Answer::Data(symbol.into());
        }
        let Ok(said) = serde_json::from_str::<Said<'a>>(text) else { return Answer::Life };
        match &*said.kind {
            "snapshot" => Answer::Data(said.product_id),
            "subscriptions" => {
                let channels = said.channels.map_or("[]", RawValue::get);
                let channels: Vec<Channel<'a>> = serde_json::from_str(channels).unwrap_or_default();
                standing(channels.into_iter().map(|channel| (channel.name, channel.product_ids)))
            }
            "error" => said.refusal(),
            _ => Answer::Life,
        }
    }

    /// Rule 1: only a subscription anew brings it.
    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        listing()
    }

    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        listed(body)
    }
}

/// Both protocols carry the products of one market.
fn listing() -> RestRequest {
    RestRequest { path: "/products".to_owned(), weight: 1 }
}

#[derive(Deserialize)]
struct Product<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    base_currency: Cow<'a, str>,
    #[serde(borrow)]
    quote_currency: Cow<'a, str>,
    #[serde(borrow, default)]
    quote_increment: Option<&'a RawValue>,
    #[serde(borrow, default)]
    base_increment: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    trading_disabled: Option<&'a RawValue>,
}

fn listed(body: &str) -> Result<Vec<Listed>, Undecodable> {
    let products: Vec<Product<'_>> = venue_feed::json(VENUE, body)?;
    let disabled = |product: &Product<'_>| {
        let disabled = product.trading_disabled.is_some_and(|disabled| disabled.get() == "true");
        disabled.then(|| "trading_disabled".into())
    };
    let listed = |product: &Product<'_>| Listed {
        symbol: (*product.id).into(),
        asset_0: (*product.base_currency).into(),
        asset_1: (*product.quote_currency).into(),
        price_step: told(product.quote_increment),
        quantity_step: told(product.base_increment),
        halted: halted(product.status, "online").or_else(|| disabled(product)),
    };
    Ok(products.iter().map(listed).collect())
}

#[cfg(test)]
mod tests;
