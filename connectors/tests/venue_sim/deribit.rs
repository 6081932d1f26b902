//! Deribit's rules: the chain of `change_id`, verbs that fit, heartbeats, its instrument list.
//!
//! Never: a number that went through a float.

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
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const VENUE: Venue = Venue::Deribit;
pub(super) const PATH: &str = "/deribit/ws/api/v2";

pub(super) fn call(method: &str, channels: &[&str]) -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": {"channels": channels}})
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(rename = "type")]
    kind: String,
    instrument_name: String,
    change_id: u64,
    prev_change_id: Option<u64>,
    #[serde(borrow)]
    bids: Vec<[&'a RawValue; 3]>,
    #[serde(borrow)]
    asks: Vec<[&'a RawValue; 3]>,
}

/// One book.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) book: Book,
    known: BTreeSet<(bool, String)>,
    pub(super) last: u64,
    pub(super) snapshots: u64,
    pub(super) updates: u64,
    pub(super) gaps: u64,
}

/// The books of a connection.
#[derive(Default)]
pub(super) struct Locals(pub(super) BTreeMap<String, Local>);

impl Locals {
    pub(super) fn take(&mut self, text: &str) {
        if !text.contains("\"channel\":\"book.") {
            return;
        }
        let Data { kind, instrument_name, change_id, prev_change_id, bids, asks } =
            serde_json::from_str::<Message<'_>>(text).unwrap().params.data;
        let local = self.0.entry(instrument_name).or_default();
        if kind == "snapshot" {
            assert_eq!(prev_change_id, None);
            *local = Local { snapshots: local.snapshots + 1, gaps: local.gaps, ..Local::default() };
        } else {
            local.updates += 1;
            local.gaps += u64::from(prev_change_id != Some(local.last));
        }
        local.last = change_id;
        for (bid, side) in [(true, bids), (false, asks)] {
            for [verb, price, quantity] in side {
                let key = (bid, price.get().to_owned());
                let (was_known, died) = (local.known.contains(&key), verb.get() == "\"delete\"");
                if local.gaps == 0 {
                    assert_eq!(was_known, verb.get() != "\"new\"", "{text}");
                }
                if died {
                    local.known.remove(&key);
                } else {
                    local.known.insert(key);
                }
                local.book.set(bid, price.get(), if died { "0" } else { quantity.get() });
            }
        }
    }

    pub(super) async fn catch_up(&mut self, ws: &mut Ws, sim: &VenueSim) {
        let behind = |locals: &Self| {
            locals.0.iter().any(|(symbol, local)| Some(local.last) < reference(sim, VENUE, symbol).last_update_id)
        };
        while behind(self) {
            self.take(&ws.text().await);
        }
    }
}

#[tokio::test]
async fn the_chain_leads_to_the_venues_book() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    let channels = ["book.BTC_USDT.100ms", "book.ETH_USDT.raw", "trades.BTC_USDT.raw", "book.NO_NE.raw"];
    ws.send(&call("public/subscribe", &channels)).await;
    let ack = ws.next(|value| value["id"] == 9).await;
    assert_eq!(ack["result"], json!(&channels[..3]), "those that exist");
    let mut locals = Locals::default();
    let mut trades = 0;
    while locals.0.len() < 2 || locals.0.values().any(|local| local.updates < 150) || trades < 5 {
        let text = ws.text().await;
        trades += usize::from(text.contains("\"channel\":\"trades.BTC_USDT.raw\""));
        locals.take(&text);
    }
    sim.pause();
    locals.catch_up(&mut ws, &sim).await;
    for (symbol, local) in &locals.0 {
        local.book.assert_is(&reference(&sim, VENUE, symbol), usize::MAX);
        assert_eq!((local.snapshots, local.gaps), (1, 0));
    }
    assert_eq!(sim.state().connections[0].subscriptions, [channels[0], channels[2], channels[1]]);
    ws.send(&call("public/unsubscribe", &channels[..1])).await;
    assert_eq!(ws.next(|value| value["id"] == 9).await["result"], json!([channels[0]]));
    ws.send(&call("public/unsubscribe_all", &[])).await;
    assert_eq!(ws.next(|value| value["id"] == 9).await["result"], "ok");
    assert!(sim.state().connections[0].subscriptions.is_empty());
}

#[tokio::test]
async fn tests_heartbeats_and_the_instrument_list_are_answered() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "public/test"})).await;
    let test = ws.next(|value| value["id"] == 1).await;
    assert!(test["result"]["version"].is_string() && test["usOut"].is_u64() && test["testnet"] == false);
    let set = async |ws: &mut Ws, seconds: u64| {
        ws.send(&json!({"id": 2, "method": "public/set_heartbeat", "params": {"interval": seconds}})).await;
        ws.next(|value| value["id"] == 2).await
    };
    assert_eq!(set(&mut ws, 5).await["error"]["code"], -32_602);
    assert_eq!(set(&mut ws, 10).await["result"], "ok");
    ws.send(&json!({"id": 3, "method": "public/nothing"})).await;
    assert_eq!(ws.next(|value| value["id"] == 3).await["error"]["code"], -32_601);
    let list = async |query: &str| get(sim.address(), &format!("/deribit/api/v2/public/get_instruments{query}")).await;
    let all = list("?currency=any&kind=spot").await.body;
    assert_eq!(all["result"].as_array().unwrap().len(), 4);
    let bitcoin = &all["result"][0];
    assert_eq!((&bitcoin["instrument_name"], &bitcoin["kind"]), (&json!("BTC_USDT"), &json!("spot")));
    assert_eq!((&bitcoin["base_currency"], &bitcoin["quote_currency"]), (&json!("BTC"), &json!("USDT")));
    assert_eq!(bitcoin["tick_size"], 0.01);
    assert_eq!(list("?currency=any&kind=option").await.body["result"], json!([]));
    assert_eq!(list("").await.body["error"]["code"], -32_602);
}

#[tokio::test]
async fn ids_that_are_reset_do_not_chain() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send(&call("public/subscribe", &["book.BTC_USDT.raw"])).await;
    let mut locals = Locals::default();
    while locals.0.is_empty() {
        locals.take(&ws.text().await);
    }
    sim.set_fault(Fault::ResetIds { venue: VENUE, symbol: "BTC_USDT".to_owned(), next_id: 1_000 }).unwrap();
    while locals.0["BTC_USDT"].last != 1_000 {
        locals.take(&ws.text().await);
    }
    assert_eq!(locals.0["BTC_USDT"].gaps, 1);
    ws.send(&call("public/unsubscribe", &["book.BTC_USDT.raw"])).await;
    ws.send(&call("public/subscribe", &["book.BTC_USDT.raw"])).await;
    while locals.0["BTC_USDT"].snapshots < 2 || locals.0["BTC_USDT"].updates < 20 {
        locals.take(&ws.text().await);
    }
    assert!((1_000..1_000_000).contains(&locals.0["BTC_USDT"].last));
    sim.pause();
    locals.catch_up(&mut ws, &sim).await;
    locals.0["BTC_USDT"].book.assert_is(&reference(&sim, VENUE, "BTC_USDT"), usize::MAX);
    assert_eq!((locals.0["BTC_USDT"].gaps, sim.faults().fired["reset_ids"]), (1, 1));
}

#[tokio::test]
async fn deribit_2021_04_is_passed_on() {
    let Some(file) = corpus("deribit/deribit_2021-04.frames.jsonl.zst") else { return };
    let recorded: Vec<String> = frames(&file)
        .iter()
        .filter(|frame| frame.kind == RawKind::Ws && text(frame).contains("\"channel\":\""))
        .map(|frame| text(frame).to_owned())
        .collect();
    assert!(recorded.len() > 100, "{}", recorded.len());
    let sim = VenueSim::start(capture(file, VENUE, 2)).await.unwrap();
    let channels: BTreeSet<&str> =
        recorded.iter().map(|text| text.split("\"channel\":\"").nth(1).unwrap().split('"').next().unwrap()).collect();
    let channels: Vec<&str> = channels.into_iter().collect();
    let slow: Vec<String> = channels.iter().map(|channel| channel.replace(".raw", ".100ms")).collect();
    let slow: Vec<&str> = slow.iter().map(String::as_str).filter(|channel| channel.starts_with("book")).collect();
    let [mut same, mut other] = [Ws::open(sim.address(), PATH).await, Ws::open(sim.address(), PATH).await];
    other.send(&call("public/subscribe", &slow)).await;
    same.send(&call("public/subscribe", &channels)).await;
    let (mut locals, mut renamed) = (Locals::default(), Locals::default());
    let notice = async |ws: &mut Ws| loop {
        let text = ws.text().await;
        if text.contains("\"channel\":\"") {
            return text;
        }
    };
    for (place, recorded) in recorded.iter().enumerate() {
        let text = notice(&mut same).await;
        assert_eq!(text, *recorded, "message {place}, byte for byte");
        locals.take(&text);
        if recorded.contains("\"channel\":\"book.") {
            let text = notice(&mut other).await;
            assert_eq!(text, recorded.replacen(".raw\"", ".100ms\"", 1), "message {place}");
            renamed.take(&text);
        }
    }
    until("the capture ends", || sim.state().ended).await;
    for locals in [&locals, &renamed] {
        for (symbol, local) in &locals.0 {
            assert_eq!((local.snapshots, local.gaps), (1, 0), "{symbol}");
            let reference = reference(&sim, VENUE, symbol);
            assert_eq!((local.book.bids(), local.book.asks()), (reference.bids, reference.asks), "{symbol}");
        }
    }
    assert_eq!(sim.state().unread, 0);
    let options = get(sim.address(), "/deribit/api/v2/public/get_instruments?currency=ETH&kind=option").await.body;
    assert!(options["result"].as_array().unwrap().iter().all(|listed| listed["base_currency"] == "ETH"));
}
