//! Coinbase's two public WebSockets, one beside the other: the Exchange feed, whose messages are bare, and Advanced Trade's,
//! with its envelope; and the list of products.
//!
//! Recorded frames are those of the Exchange feed: they are passed on there, and worded anew for Advanced Trade. Books are
//! told change by change, whole, and without a login; batches of 50 ms are not simulated. A heartbeat's `sequence` is 0
//! in captures, whose books have none.
//!
//! Never: a number on a message of the Exchange feed's books; the venue has none there.

use super::{
    bus::Bus,
    coinbase_advanced as advanced,
    dialect::{Act, Carries, Dialect, Levels, Piece, Said, Told, Trade, Unread, View, step},
    hall::{Instrument, Stock, Traded},
    http::{Reply, unix_ms, unix_ns},
    reference::{Change, Level, PriceKey, Side},
    session::{Marks, Session, Subscription},
};
use crate::simulator::{
    SimInstrument,
    text::{self, Calendar},
};
use market::Venue;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeMap, fmt::Write, sync::Arc};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The Exchange feed.
const EXCHANGE: usize = 0;
/// Advanced Trade.
const ADVANCED: usize = 1;
/// Channels of books; they differ in pace, which is not simulated.
const BOOKS: [&str; 2] = ["level2", "level2_batch"];
const TRADES: &str = "matches";
const HEARTBEAT: &str = "heartbeat";
const TICKER: &str = "ticker";
/// Who the simulated orders are of.
const ORDER_ID: &str = "00000000-0000-0000-0000-000000000000";

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    product_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    bids: Vec<[&'a str; 2]>,
    #[serde(borrow, default)]
    asks: Vec<[&'a str; 2]>,
    #[serde(borrow, default)]
    changes: Vec<[&'a str; 3]>,
    #[serde(default)]
    trade_id: Option<u64>,
    #[serde(borrow, default)]
    side: Option<&'a str>,
    #[serde(borrow, default)]
    price: Option<&'a str>,
    #[serde(borrow, default)]
    size: Option<&'a str>,
}

impl<'a> Frame<'a> {
    /// None when a price is no number.
    fn levels(&self) -> Option<Levels<'a>> {
        let sides = [(Side::Bid, &self.bids), (Side::Ask, &self.asks)];
        let whole = sides.iter().flat_map(|(side, levels)| levels.iter().map(|[price, size]| (*side, *price, *size)));
        let single = self.changes.iter().map(|[side, price, size]| match *side {
            "buy" => (Side::Bid, *price, *size),
            _ => (Side::Ask, *price, *size),
        });
        let change = |(side, price, quantity)| Some(Change { side, key: PriceKey::read(price)?, price, quantity });
        let changes = whole.chain(single).map(change).collect::<Option<Vec<_>>>()?;
        Some(Levels { changes, ..Levels::default() })
    }

    /// The side of a match is the maker's.
    fn trade(&self) -> Option<Trade<'a>> {
        Some(Trade { id: self.trade_id?, sold: self.side? == "buy", price: self.price?, quantity: self.size? })
    }
}

#[derive(Deserialize)]
struct Request {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    product_ids: Vec<String>,
    #[serde(default)]
    channels: Vec<Wanted>,
}

/// A channel, for the request's products or for its own.
#[derive(Deserialize)]
#[serde(untagged)]
enum Wanted {
    Name(String),
    Own {
        name: String,
        #[serde(default)]
        product_ids: Vec<String>,
    },
}

impl Wanted {
    fn parts<'a>(&'a self, common: &'a [String]) -> (&'a str, &'a [String]) {
        match self {
            Self::Name(name) => (name, common),
            Self::Own { name, product_ids } if product_ids.is_empty() => (name, common),
            Self::Own { name, product_ids } => (name, product_ids),
        }
    }
}

/// The venue.
#[derive(Debug)]
pub(super) struct Coinbase;

impl Dialect for Coinbase {
    fn venue(&self) -> Venue {
        Venue::Coinbase
    }

    fn addresses(&self) -> (&'static [&'static str], &'static str) {
        (&["/", "/advanced"], "")
    }

    fn open(&self, path: &str, _query: &str) -> Option<Session> {
        match path {
            "" | "/" => Some(Session::at(EXCHANGE)),
            "/advanced" | "/advanced/" => Some(Session::at(ADVANCED)),
            _ => None,
        }
    }

    fn rest(&mut self, path: &str, _query: &str, stock: &Stock, _bus: &mut Bus) -> Reply {
        let done = |body: &Value| Reply::json(200, body.to_string());
        match path {
            "/time" => {
                let now = unix_ns();
                let (seconds, millis) = (now / 1_000_000_000, unix_ms() % 1_000);
                Reply::json(200, format!("{{\"iso\":\"{}\",\"epoch\":{seconds}.{millis:03}}}", time(now)))
            }
            "/products" | "/products/" => done(&stock.all().iter().map(listing).collect()),
            _ => match path.strip_prefix("/products/").and_then(|product| stock.get(product)) {
                Some(instrument) => done(&listing(instrument)),
                None => Reply::json(404, json!({"message": "NotFound"}).to_string()),
            },
        }
    }

    fn failed(&self, status: u16) -> Reply {
        let words = if status == 429 { "Public rate limit exceeded" } else { "Internal server error" };
        Reply::json(status, json!({"message": words}).to_string())
    }

    fn list(&self, symbol: &str) -> Option<SimInstrument> {
        let (base, quote) = symbol.split_once('-')?;
        Some(SimInstrument {
            venue: Venue::Coinbase,
            symbol: symbol.to_owned(),
            asset_0: base.to_owned(),
            asset_1: quote.to_owned(),
            price_decimals: 0,
            quantity_decimals: 0,
        })
    }

    fn carries(&self, channel: &str) -> Carries {
        if BOOKS.contains(&channel) || channel == advanced::BOOK {
            Carries::Book
        } else if [TRADES, advanced::TRADES].contains(&channel) {
            Carries::Trades
        } else {
            Carries::Other
        }
    }

    fn read<'a>(&mut self, _conn: &Arc<str>, text: &'a str) -> Result<Option<Piece<'a>>, Unread> {
        let frame: Frame<'a> = serde_json::from_str(text).map_err(|_| Unread)?;
        let (channel, said) = match &*frame.kind {
            "snapshot" => ("level2", Said::Snapshot(frame.levels().ok_or(Unread)?)),
            "l2update" => ("level2", Said::Update(frame.levels().ok_or(Unread)?)),
            "match" => (TRADES, Said::Trade(frame.trade().ok_or(Unread)?)),
            "last_match" => (TRADES, Said::Other),
            TICKER => (TICKER, Said::Other),
            "subscriptions" | "error" | HEARTBEAT => return Ok(None),
            _ => return Err(Unread),
        };
        let symbol = frame.product_id.ok_or(Unread)?;
        Ok(Some(Piece { channel: Cow::Borrowed(channel), symbol, text, what: said }))
    }

    fn receive(&mut self, session: &mut Session, stock: &Stock, text: &str) -> Vec<Act> {
        if session.marks.door == ADVANCED {
            return advanced::receive(session, stock, text);
        }
        let Ok(request) = serde_json::from_str::<Request>(text) else {
            return vec![error("Malformed JSON", None)];
        };
        match request.kind.as_str() {
            "subscribe" => subscribe(session, stock, &request),
            "unsubscribe" => {
                for wanted in &request.channels {
                    let (channel, products) = wanted.parts(&request.product_ids);
                    session.remove(|known| {
                        let meant = products.is_empty() || products.iter().any(|product| **product == *known.symbol);
                        meant && *known.channel == *channel
                    });
                }
                vec![subscriptions(session)]
            }
            _ => vec![error("Type has to be either subscribe or unsubscribe", None)],
        }
    }

    fn beat(&mut self, session: &mut Session, stock: &Stock) -> Vec<Act> {
        if session.marks.door == ADVANCED {
            return advanced::beat(session);
        }
        let now = time(unix_ns());
        let beats = session.all().filter(|known| &*known.channel == HEARTBEAT);
        let beat = |known: &Subscription| {
            let instrument = stock.get(&known.symbol);
            let sequence = instrument.and_then(Instrument::told).unwrap_or(0);
            let last = instrument.and_then(|instrument| instrument.trades().next()).map_or(0, |trade| trade.id);
            Act::Say(format!(
                "{{\"type\":\"{HEARTBEAT}\",\"last_trade_id\":{last},\"product_id\":\"{}\",\"sequence\":{sequence},\
                \"time\":\"{now}\"}}",
                known.symbol
            ))
        };
        beats.map(beat).collect()
    }

    fn snapshot(&self, channel: &str, view: &View<'_>) -> Vec<Utf8Bytes> {
        if channel == advanced::BOOK {
            return vec![advanced::snapshot(view).into()];
        }
        let side = |side| {
            let mut out = String::new();
            for Level { price, quantity, .. } in view.book.ladder(side).best_first() {
                let comma = if out.is_empty() { "" } else { "," };
                // Writing to a string cannot fail.
                let _written = write!(out, "{comma}[\"{price}\",\"{quantity}\"]");
            }
            out
        };
        let text = format!(
            "{{\"type\":\"snapshot\",\"product_id\":\"{}\",\"asks\":[{}],\"bids\":[{}],\"time\":\"{}\"}}",
            view.listed.symbol,
            side(Side::Ask),
            side(Side::Bid),
            time(view.at_ns)
        );
        vec![text.into()]
    }

    fn update(&self, channel: &str, view: &View<'_>, told: &[Told<'_>]) -> Vec<Utf8Bytes> {
        if channel == advanced::BOOK {
            return vec![advanced::update(view, told).into()];
        }
        let mut changes = String::new();
        for told in told {
            let comma = if changes.is_empty() { "" } else { "," };
            let side = if told.side == Side::Bid { "buy" } else { "sell" };
            // Writing to a string cannot fail.
            let _written = write!(changes, "{comma}[\"{side}\",\"{}\",\"{}\"]", told.price, told.quantity);
        }
        let text = format!(
            "{{\"type\":\"l2update\",\"product_id\":\"{}\",\"changes\":[{changes}],\"time\":\"{}\"}}",
            view.listed.symbol,
            time(view.at_ns)
        );
        vec![text.into()]
    }

    fn trade(&self, channel: &str, view: &View<'_>, trade: &Trade<'_>) -> Vec<Utf8Bytes> {
        let trade = Traded {
            id: trade.id,
            sold: trade.sold,
            price: trade.price.into(),
            quantity: trade.quantity.into(),
            at_ns: view.at_ns,
        };
        let symbol = &view.listed.symbol;
        let text = if channel == advanced::TRADES {
            advanced::trades("update", symbol, [&trade], view.at_ns)
        } else {
            matched("match", symbol, &trade, view.id)
        };
        vec![text.into()]
    }

    fn pass(&self, recorded: &str, wanted: &str, text: &str) -> Option<Utf8Bytes> {
        // No channel is named in a message.
        let same = recorded == wanted || (BOOKS.contains(&recorded) && BOOKS.contains(&wanted));
        same.then(|| text.into())
    }

    fn address(&self, marks: &mut Marks, _to: &Subscription, payload: &Utf8Bytes) -> Option<Utf8Bytes> {
        if marks.door == ADVANCED {
            return advanced::numbered(marks, payload).map(Utf8Bytes::from);
        }
        Some(payload.clone())
    }

    fn stamp(&self, marks: &mut Marks, reply: String) -> Utf8Bytes {
        let numbered = (marks.door == ADVANCED).then(|| advanced::numbered(marks, &reply)).flatten();
        numbered.unwrap_or(reply).into()
    }
}

/// All of a request or nothing of it.
fn subscribe(session: &mut Session, stock: &Stock, request: &Request) -> Vec<Act> {
    let failed = |reason: &str| vec![error("Failed to subscribe", Some(reason))];
    if request.channels.is_empty() {
        return failed("No channels provided");
    }
    let wanted: Vec<(&str, &[String])> =
        request.channels.iter().map(|wanted| wanted.parts(&request.product_ids)).collect();
    for (channel, products) in &wanted {
        if !BOOKS.contains(channel) && ![TRADES, HEARTBEAT, TICKER].contains(channel) {
            return failed(&format!("{channel} is not a valid channel"));
        }
        if products.is_empty() {
            return failed("No product ids provided");
        }
        if let Some(product) = products.iter().find(|product| stock.get(product).is_none()) {
            return failed(&format!("{product} is not a valid product"));
        }
    }
    let mut follows = Vec::new();
    for (channel, products) in wanted {
        for product in products {
            let name = format!("{channel}:{product}");
            if !session.add(&name, channel, product, 0) {
                continue;
            }
            let last = stock.get(product).filter(|_| channel == TRADES).and_then(|known| known.trades().next());
            if BOOKS.contains(&channel) {
                follows.push(Act::Show(name.into()));
            } else if let Some(last) = last {
                follows.push(Act::Say(matched(
                    "last_match",
                    product,
                    last,
                    stock.get(product).and_then(Instrument::told),
                )));
            }
        }
    }
    follows.insert(0, subscriptions(session));
    follows
}

fn error(message: &str, reason: Option<&str>) -> Act {
    let body = match reason {
        Some(reason) => json!({"type": "error", "message": message, "reason": reason}),
        None => json!({"type": "error", "message": message}),
    };
    Act::Say(body.to_string())
}

/// What the connection is subscribed to, by channel.
pub(super) fn by_channel(session: &Session) -> BTreeMap<&str, Vec<&str>> {
    let mut channels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for known in session.all() {
        let name = known.name.split(':').next().unwrap_or_default();
        channels.entry(name).or_default().push(&known.symbol);
    }
    channels
}

fn subscriptions(session: &Session) -> Act {
    let channels: Vec<Value> = by_channel(session)
        .into_iter()
        .map(|(name, products)| json!({"name": name, "product_ids": products}))
        .collect();
    Act::Say(format!("{{\"type\":\"subscriptions\",\"channels\":{}}}", Value::from(channels)))
}

/// A match; its sequence counts what happens to the product.
fn matched(kind: &str, symbol: &str, trade: &Traded, sequence: Option<u64>) -> String {
    format!(
        "{{\"type\":\"{kind}\",\"trade_id\":{},\"maker_order_id\":\"{ORDER_ID}\",\"taker_order_id\":\"{ORDER_ID}\",\
        \"side\":\"{}\",\"size\":\"{}\",\"price\":\"{}\",\"product_id\":\"{symbol}\",\"sequence\":{},\"time\":\"{}\"}}",
        trade.id,
        maker(trade.sold),
        trade.quantity,
        trade.price,
        sequence.unwrap_or(0),
        time(trade.at_ns)
    )
}

/// The maker's side of a trade.
pub(super) const fn maker(sold: bool) -> &'static str {
    if sold { "buy" } else { "sell" }
}

/// RFC 3339, with microseconds.
pub(super) fn time(at_ns: u64) -> String {
    let mut out = Vec::new();
    Calendar::new().write(&mut out, at_ns);
    text::take(&mut out)
}

fn listing(instrument: &Instrument) -> Value {
    let listed = &instrument.listed;
    json!({
        "id": listed.symbol,
        "base_currency": listed.asset_0,
        "quote_currency": listed.asset_1,
        "quote_increment": step(listed.price_decimals),
        "base_increment": step(listed.quantity_decimals),
        "display_name": listed.symbol,
        "min_market_funds": "1",
        "margin_enabled": false,
        "post_only": false,
        "limit_only": false,
        "cancel_only": false,
        "status": "online",
        "status_message": "",
        "trading_disabled": false,
        "fx_stablecoin": false,
        "max_slippage_percentage": "0.02",
        "auction_mode": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_frames_say_what_they_are() {
        let mut coinbase = Coinbase;
        let mut read = |text| coinbase.read(&"a".into(), text);
        let text = "{\"type\":\"l2update\",\"product_id\":\"SKL-BTC\",\"changes\":[[\"sell\",\"0.00001306\",\"660.5\"]],\
            \"time\":\"2021-04-17T16:43:37.075687Z\"}";
        let piece = read(text).unwrap().unwrap();
        let Said::Update(levels) = piece.what else { panic!("it is an update") };
        assert_eq!((levels.changes[0].side, levels.changes[0].quantity), (Side::Ask, "660.5"));
        assert_eq!((&*piece.symbol, &*piece.channel), ("SKL-BTC", "level2"));
        let text = "{\"type\":\"match\",\"trade_id\":7,\"side\":\"sell\",\"size\":\"985\",\"price\":\"0.1\",\
            \"product_id\":\"SKL-BTC\",\"sequence\":9}";
        let Some(Piece { what: Said::Trade(trade), .. }) = read(text).unwrap() else { panic!("it is a trade") };
        assert_eq!((trade.id, trade.sold), (7, false), "the maker sold, so the taker bought");
        assert!(read("{\"type\":\"subscriptions\",\"channels\":[]}").unwrap().is_none());
        assert_eq!(read("{\"type\":\"nonsense\"}").err(), Some(Unread));
    }
}
