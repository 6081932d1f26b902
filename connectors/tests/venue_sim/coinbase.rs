//! Coinbase's two feeds: bare messages at the Exchange, counted envelopes at Advanced Trade; products; captures.
//!
//! Never: an envelope whose number is not looked at.

use super::{
    captures::{capture, frames, text},
    client::{Book, Ws, get},
    corpus, market_of, reference, until,
};
use connectors::{
    raw::RawKind,
    simulator::{Fault, VenueSim},
};
use market::Venue;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const VENUE: Venue = Venue::Coinbase;
const EXCHANGE: &str = "/coinbase/";
const ADVANCED: &str = "/coinbase/advanced";
const PRODUCTS: [&str; 2] = ["BTC-USDT", "ETH-USDT"];

/// The books of one connection, whichever of the feeds it is of.
#[derive(Default)]
struct Local {
    books: BTreeMap<String, Book>,
    updates: u64,
    /// Ids by product, in the order of coming.
    trades: BTreeMap<String, Vec<u64>>,
    heartbeats: Vec<Value>,
    acks: u64,
    /// The next number of an envelope.
    next: u64,
    holes: Vec<u64>,
    repeated: u64,
}

impl Local {
    fn take(&mut self, text: &str) {
        let value: Value = serde_json::from_str(text).unwrap();
        match value["channel"].as_str() {
            Some(channel) => self.envelope(channel, &value),
            None => self.bare(&value),
        }
    }

    fn book(&mut self, product: &Value, snapshot: bool) -> &mut Book {
        let book = self.books.entry(product.as_str().unwrap().to_owned()).or_default();
        if snapshot {
            *book = Book::default();
        } else {
            self.updates += 1;
        }
        book
    }

    fn bare(&mut self, value: &Value) {
        match value["type"].as_str().unwrap() {
            "snapshot" => {
                let book = self.book(&value["product_id"], true);
                for (bid, side) in [(true, "bids"), (false, "asks")] {
                    for level in value[side].as_array().unwrap() {
                        book.set(bid, level[0].as_str().unwrap(), level[1].as_str().unwrap());
                    }
                }
            }
            "l2update" => {
                let book = self.book(&value["product_id"], false);
                for change in value["changes"].as_array().unwrap() {
                    book.set(change[0] == "buy", change[1].as_str().unwrap(), change[2].as_str().unwrap());
                }
            }
            "match" => {
                assert!(["buy", "sell"].contains(&value["side"].as_str().unwrap()));
                let product = value["product_id"].as_str().unwrap().to_owned();
                self.trades.entry(product).or_default().push(value["trade_id"].as_u64().unwrap());
            }
            "heartbeat" => self.heartbeats.push(value.clone()),
            "subscriptions" => self.acks += 1,
            "last_match" | "ticker" => {}
            other => panic!("{other}"),
        }
    }

    fn envelope(&mut self, channel: &str, value: &Value) {
        let number = value["sequence_num"].as_u64().unwrap();
        if number + 1 == self.next {
            self.repeated += 1;
        } else {
            self.holes.extend(self.next..number);
            self.next = number + 1;
        }
        for event in value["events"].as_array().unwrap() {
            match channel {
                "l2_data" => {
                    let book = self.book(&event["product_id"], event["type"] == "snapshot");
                    for level in event["updates"].as_array().unwrap() {
                        let bid = level["side"] == "bid";
                        assert!(bid || level["side"] == "offer");
                        let (price, quantity) = (&level["price_level"], &level["new_quantity"]);
                        book.set(bid, price.as_str().unwrap(), quantity.as_str().unwrap());
                    }
                }
                "market_trades" if event["type"] == "update" => {
                    for trade in event["trades"].as_array().unwrap() {
                        let product = trade["product_id"].as_str().unwrap().to_owned();
                        self.trades
                            .entry(product)
                            .or_default()
                            .push(trade["trade_id"].as_str().unwrap().parse().unwrap());
                    }
                }
                "market_trades" => {}
                "heartbeats" => self.heartbeats.push(event.clone()),
                "subscriptions" => self.acks += 1,
                other => panic!("{other}"),
            }
        }
    }

    async fn until(&mut self, ws: &mut Ws, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            self.take(&ws.text().await);
        }
    }

    fn assert_trades_are_single(&self) {
        for ids in self.trades.values() {
            assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ids:?}");
        }
    }
}

fn exchange(kind: &str, channels: &[&str], products: &[&str]) -> Value {
    json!({"type": kind, "product_ids": products, "channels": channels})
}

fn advanced(kind: &str, channel: &str, products: &[&str]) -> Value {
    json!({"type": kind, "product_ids": products, "channel": channel})
}

/// Reads everything up to the answer to a last request.
async fn drain(ws: &mut Ws, local: &mut Local, request: &Value) {
    let acks = local.acks;
    ws.send(request).await;
    local.until(ws, |local| local.acks > acks).await;
}

async fn lively() -> VenueSim {
    let mut options = market_of(&[VENUE], 2_000);
    options.heartbeat_interval = Duration::from_millis(40);
    VenueSim::start(options).await.unwrap()
}

#[tokio::test]
async fn the_exchange_feed_leads_to_the_venues_book() {
    let sim = lively().await;
    let mut ws = Ws::open(sim.address(), EXCHANGE).await;
    ws.send(&exchange("subscribe", &["level2_batch", "matches", "heartbeat"], &PRODUCTS)).await;
    let ack = ws.next(|_| true).await;
    assert_eq!((&ack["type"], &ack["channels"][1]["name"]), (&json!("subscriptions"), &json!("level2_batch")));
    assert_eq!(ack["channels"][1]["product_ids"], json!(PRODUCTS));
    let mut local = Local::default();
    let enough = |local: &Local| {
        local.updates >= 300 && local.heartbeats.len() >= 4 && local.trades.values().map(Vec::len).sum::<usize>() >= 10
    };
    local.until(&mut ws, enough).await;
    let beaten: Vec<&Value> = local.heartbeats.iter().map(|beat| &beat["product_id"]).take(2).collect();
    assert_eq!(beaten, PRODUCTS);
    assert!(local.heartbeats.windows(3).all(|beats| beats[0]["sequence"].as_u64() <= beats[2]["sequence"].as_u64()));
    local.assert_trades_are_single();
    sim.pause();
    drain(&mut ws, &mut local, &exchange("unsubscribe", &["heartbeat"], &[])).await;
    for product in PRODUCTS {
        local.books[product].assert_is(&reference(&sim, VENUE, product), usize::MAX);
        assert_eq!(reference(&sim, VENUE, product).last_update_id, None, "books have no ids here");
    }
    assert_eq!(
        sim.state().connections[0].subscriptions,
        ["level2_batch:BTC-USDT", "matches:BTC-USDT", "level2_batch:ETH-USDT", "matches:ETH-USDT"]
    );
}

#[tokio::test]
async fn advanced_trade_counts_every_message_of_the_connection() {
    let sim = lively().await;
    let mut ws = Ws::open(sim.address(), ADVANCED).await;
    for channel in ["level2", "market_trades", "heartbeats"] {
        ws.send(&advanced("subscribe", channel, &PRODUCTS)).await;
    }
    let mut local = Local::default();
    let enough = |local: &Local| {
        local.updates >= 300 && local.heartbeats.len() >= 4 && local.trades.values().map(Vec::len).sum::<usize>() >= 10
    };
    local.until(&mut ws, enough).await;
    assert!(local.heartbeats.windows(2).all(|beats| {
        beats[1]["heartbeat_counter"].as_u64() == beats[0]["heartbeat_counter"].as_u64().map(|count| count + 1)
    }));
    local.assert_trades_are_single();
    sim.pause();
    drain(&mut ws, &mut local, &advanced("unsubscribe", "heartbeats", &[])).await;
    for product in PRODUCTS {
        local.books[product].assert_is(&reference(&sim, VENUE, product), usize::MAX);
    }
    assert_eq!((local.holes.len(), local.repeated, local.acks), (0, 0, 4));
    assert_eq!(local.next, sim.state().connections[0].sent, "each message has a number");
}

#[tokio::test]
async fn bad_requests_and_the_products_are_answered() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    let mut ws = Ws::open(sim.address(), EXCHANGE).await;
    for (request, reason) in [
        (exchange("subscribe", &["level2"], &["NO-NE"]), "NO-NE is not a valid product"),
        (exchange("subscribe", &["level9"], &["BTC-USDT"]), "level9 is not a valid channel"),
    ] {
        ws.send(&request).await;
        let error = ws.next(|_| true).await;
        assert_eq!((&error["type"], &error["reason"]), (&json!("error"), &json!(reason)));
    }
    ws.send_text("{").await;
    assert_eq!(ws.next(|_| true).await["type"], "error");
    assert!(sim.state().connections[0].subscriptions.is_empty());
    let own = json!({"type": "subscribe", "channels": [{"name": "level2", "product_ids": ["BTC-USDT"]}]});
    ws.send(&own).await;
    ws.next(|value| value["type"] == "snapshot").await;
    let mut other = Ws::open(sim.address(), ADVANCED).await;
    other.send(&advanced("subscribe", "nothing", &["BTC-USDT"])).await;
    assert_eq!(other.next(|_| true).await["type"], "error");
    other.send(&advanced("subscribe", "level2", &["BTC-USDT"])).await;
    let first = other.next(|_| true).await;
    assert_eq!((&first["channel"], &first["sequence_num"]), (&json!("l2_data"), &json!(0)), "an error has no number");
    let ack = other.next(|_| true).await;
    assert_eq!(ack["events"][0]["subscriptions"], json!({"level2": ["BTC-USDT"]}));

    let products = get(sim.address(), "/coinbase/products").await.body;
    let bitcoin = &products[0];
    assert_eq!(products.as_array().unwrap().len(), 4);
    assert_eq!((&bitcoin["id"], &bitcoin["status"]), (&json!("BTC-USDT"), &json!("online")));
    assert_eq!((&bitcoin["base_currency"], &bitcoin["quote_currency"]), (&json!("BTC"), &json!("USDT")));
    assert_eq!((&bitcoin["quote_increment"], &bitcoin["base_increment"]), (&json!("0.01"), &json!("0.00001")));
    assert_eq!(get(sim.address(), "/coinbase/products/NO-NE").await.status, 404);
    sim.set_fault(Fault::FailRest { venue: VENUE, count: 1, status: 429, retry_after_s: None }).unwrap();
    assert_eq!(get(sim.address(), "/coinbase/products").await.status, 429);
}

#[tokio::test]
async fn a_lost_message_is_a_hole_at_advanced_trade_and_nothing_at_the_exchange() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let (mut counted, mut bare) = (Ws::open(sim.address(), ADVANCED).await, Ws::open(sim.address(), EXCHANGE).await);
    counted.send(&advanced("subscribe", "level2", &PRODUCTS)).await;
    bare.send(&exchange("subscribe", &["level2"], &PRODUCTS)).await;
    let (mut local, mut other) = (Local::default(), Local::default());
    local.until(&mut counted, |local| local.updates >= 20).await;
    other.until(&mut bare, |local| local.updates >= 20).await;
    let symbol = "BTC-USDT".to_owned();
    sim.set_fault(Fault::DropDepth { venue: VENUE, symbol: symbol.clone(), count: 2, connection: None }).unwrap();
    local.until(&mut counted, |local| local.holes.len() == 2).await;
    until("both were withheld", || sim.faults().fired["drop_depth"] == 2).await;
    sim.set_fault(Fault::Duplicate { venue: VENUE, symbol: Some(symbol), count: 1, connection: Some(1) }).unwrap();
    local.until(&mut counted, |local| local.repeated == 1).await;
    sim.pause();
    drain(&mut counted, &mut local, &advanced("unsubscribe", "level2", &["ETH-USDT"])).await;
    drain(&mut bare, &mut other, &exchange("unsubscribe", &["level2"], &["ETH-USDT"])).await;
    assert_eq!((local.holes.len(), local.repeated), (2, 1));
    for books in [&local.books, &other.books] {
        books["ETH-USDT"].assert_is(&reference(&sim, VENUE, "ETH-USDT"), usize::MAX);
    }
    // A new subscription on the same socket heals it.
    drain(&mut bare, &mut other, &exchange("unsubscribe", &["level2"], &["BTC-USDT"])).await;
    bare.send(&exchange("subscribe", &["level2"], &["BTC-USDT"])).await;
    drain(&mut bare, &mut other, &exchange("unsubscribe", &["level2"], &["ETH-USDT"])).await;
    other.until(&mut bare, |local| local.acks >= 5).await;
    other.books["BTC-USDT"].assert_is(&reference(&sim, VENUE, "BTC-USDT"), usize::MAX);
}

#[tokio::test]
async fn the_capture_is_passed_on_at_the_exchange_and_worded_anew_at_advanced_trade() {
    let Some(file) = corpus("coinbase/coinbase_2021-04.frames.jsonl.zst") else { return };
    let products = ["SKL-BTC", "YFI-BTC", "NMR-EUR"];
    let recorded: Vec<String> = frames(&file)
        .iter()
        .filter(|frame| frame.kind == RawKind::Ws && !text(frame).contains("\"type\":\"subscriptions\""))
        .map(text)
        .filter(|text| products.iter().any(|product| text.contains(&format!("\"product_id\":\"{product}\""))))
        .map(str::to_owned)
        .collect();
    assert!(recorded.len() > 1_000, "{}", recorded.len());
    let sim = VenueSim::start(capture(file, VENUE, 2)).await.unwrap();
    let mut counted = Ws::open(sim.address(), ADVANCED).await;
    counted.send(&advanced("subscribe", "level2", &products)).await;
    let mut worded = Local::default();
    worded.until(&mut counted, |local| local.acks == 1).await;
    let mut same = Ws::open(sim.address(), EXCHANGE).await;
    same.send(&exchange("subscribe", &["level2", "matches", "ticker"], &products)).await;
    same.next(|value| value["type"] == "subscriptions").await;
    let mut local = Local::default();
    for (place, recorded) in recorded.iter().enumerate() {
        let text = same.text().await;
        assert_eq!(text, *recorded, "message {place}, byte for byte");
        local.take(&text);
    }
    local.assert_trades_are_single();
    until("the capture ends", || sim.state().ended).await;
    drain(&mut counted, &mut worded, &advanced("unsubscribe", "heartbeats", &[])).await;
    for product in products {
        let reference = reference(&sim, VENUE, product);
        local.books[product].assert_is(&reference, usize::MAX);
        worded.books[product].assert_is(&reference, usize::MAX);
    }
    assert_eq!((worded.updates, worded.holes.len(), sim.state().unread), (local.updates, 0, 0));
}
