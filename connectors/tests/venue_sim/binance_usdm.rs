//! Binance USD-M's rules for a local order book (`pu`), its REST, its faults and its captures.
//!
//! Never: spot's rule; ids are shared by all symbols here.

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
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use tokio_tungstenite::tungstenite::Message;

const VENUE: Venue = Venue::BinanceUsdm;

/// One symbol's book by the venue's rules.
#[derive(Debug, Default)]
struct Local {
    book: Book,
    /// The snapshot's id, until an event bridges it.
    snapshot: Option<u64>,
    last: Option<u64>,
    buffered: Vec<Value>,
    /// Events whose `pu` is not the last `u`.
    gaps: u64,
    applied: u64,
    /// Events whose `U` was not the last `u` and one.
    jumps: u64,
    /// Best prices by the id that they were told with.
    tickers: Vec<(u64, Value)>,
    compared: u64,
}

fn id(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap()
}

impl Local {
    /// False when the snapshot is older than what is buffered.
    fn snapshot(&mut self, depth: &Value) -> bool {
        let last = id(depth, "lastUpdateId");
        assert!(depth["E"].is_u64() && depth["T"].is_u64(), "snapshots carry times");
        self.buffered.retain(|event| id(event, "u") >= last);
        if self.buffered.first().is_some_and(|event| id(event, "U") > last && id(event, "pu") > last) {
            return false;
        }
        self.book = Book::default();
        self.set(&depth["bids"], &depth["asks"]);
        (self.snapshot, self.last) = (Some(last), Some(last));
        std::mem::take(&mut self.buffered).iter().for_each(|event| self.event(event));
        true
    }

    fn set(&mut self, bids: &Value, asks: &Value) {
        for (bid, side) in [(true, bids), (false, asks)] {
            for level in side.as_array().unwrap() {
                self.book.set(bid, level[0].as_str().unwrap(), level[1].as_str().unwrap());
            }
        }
    }

    fn event(&mut self, event: &Value) {
        let Some(last) = self.last else {
            self.buffered.push(event.clone());
            return;
        };
        let (first, final_id, previous) = (id(event, "U"), id(event, "u"), id(event, "pu"));
        assert!(previous < first && first <= final_id);
        if final_id < last || (self.snapshot.is_none() && final_id == last) {
            return;
        }
        let continues = match self.snapshot.take() {
            Some(snapshot) => previous <= snapshot && final_id >= snapshot,
            None => previous == last,
        };
        self.gaps += u64::from(!continues);
        self.jumps += u64::from(first != last + 1);
        self.set(&event["b"], &event["a"]);
        self.last = Some(final_id);
        self.applied += 1;
        if self.gaps > 0 {
            return;
        }
        for (_, ticker) in
            self.tickers.extract_if(.., |(told, _)| *told <= final_id).filter(|(told, _)| *told == final_id)
        {
            let (bids, asks) = (self.book.bids(), self.book.asks());
            assert_eq!((&json!(bids[0].0), &json!(bids[0].1)), (&ticker["b"], &ticker["B"]));
            assert_eq!((&json!(asks[0].0), &json!(asks[0].1)), (&ticker["a"], &ticker["A"]));
            self.compared += 1;
        }
    }
}

/// Reads a connection into the books of some symbols.
#[derive(Default)]
struct Locals {
    books: BTreeMap<String, Local>,
    trades: Vec<u64>,
}

impl Locals {
    fn take(&mut self, text: &str) {
        let value: Value = serde_json::from_str(text).unwrap();
        let data = if value["data"].is_null() { &value } else { &value["data"] };
        let Some(symbol) = data["s"].as_str() else { return };
        let local = self.books.entry(symbol.to_owned()).or_default();
        match data["e"].as_str().unwrap() {
            "depthUpdate" => local.event(data),
            "bookTicker" => local.tickers.push((id(data, "u"), data.clone())),
            "aggTrade" => self.trades.push(id(data, "a")),
            _ => {}
        }
    }

    async fn fetch(&mut self, ws: &mut Ws, address: SocketAddr, symbol: &str) {
        loop {
            let answer = get(address, &format!("/binance_usdm/fapi/v1/depth?symbol={symbol}&limit=1000")).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            if self.books.entry(symbol.to_owned()).or_default().snapshot(&answer.body) {
                return;
            }
            self.take(&ws.text().await);
        }
    }

    /// Reads until every book is where the paused server's is.
    async fn catch_up(&mut self, ws: &mut Ws, sim: &VenueSim) {
        let behind = |locals: &Self| {
            locals.books.iter().any(|(symbol, local)| local.last < reference(sim, VENUE, symbol).last_update_id)
        };
        while behind(self) {
            self.take(&ws.text().await);
        }
    }

    fn assert_are(&self, sim: &VenueSim) {
        for (symbol, local) in &self.books {
            let reference = reference(sim, VENUE, symbol);
            assert_eq!((local.last, local.gaps), (reference.last_update_id, 0), "{symbol}");
            local.book.assert_is(&reference, usize::MAX);
        }
    }
}

const STREAMS: &str = "btcusdt@depth@100ms/ethusdt@depth@100ms/btcusdt@bookTicker/btcusdt@aggTrade";

async fn follow(sim: &VenueSim, path: &str) -> (Ws, Locals) {
    let mut ws = Ws::open(sim.address(), &format!("/binance_usdm{path}")).await;
    let mut locals = Locals::default();
    while locals.books.len() < 2 || locals.books.values().any(|local| local.buffered.is_empty()) {
        locals.take(&ws.text().await);
    }
    for symbol in ["BTCUSDT", "ETHUSDT"] {
        locals.fetch(&mut ws, sim.address(), symbol).await;
    }
    while locals.books.values().any(|local| local.applied < 100) || locals.trades.len() < 5 {
        locals.take(&ws.text().await);
    }
    (ws, locals)
}

#[tokio::test]
async fn the_rules_lead_to_the_venues_book_on_either_path() {
    let sim = VenueSim::start(market_of(&[VENUE, Venue::BinanceSpot], 4_000)).await.unwrap();
    let (combined, raw) = (format!("/stream?streams={STREAMS}"), format!("/ws/{STREAMS}"));
    let followed = tokio::join!(follow(&sim, &combined), follow(&sim, &raw));
    sim.pause();
    for (mut ws, mut locals) in [followed.0, followed.1] {
        locals.catch_up(&mut ws, &sim).await;
        locals.assert_are(&sim);
        assert!(locals.trades.windows(2).all(|pair| pair[1] == pair[0] + 1), "{:?}", locals.trades);
        let bitcoin = &locals.books["BTCUSDT"];
        assert!(bitcoin.jumps + 1 >= bitcoin.applied, "ids are shared: {} of {}", bitcoin.jumps, bitcoin.applied);
        assert!(bitcoin.compared > 20, "{}", bitcoin.compared);
        let price = &bitcoin.book.bids()[0].0;
        assert_eq!(price.split_once('.').unwrap().1.len(), 2, "{price}");
    }
    // The same symbols at spot are another venue's.
    let mut spot = Ws::open(sim.address(), "/binance_spot/ws/btcusdt@depth").await;
    sim.resume();
    assert!(spot.next(|_| true).await["pu"].is_null());
}

#[tokio::test]
async fn rest_has_its_own_weights_limits_and_contracts() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    let depth = async |query: &str| get(sim.address(), &format!("/binance_usdm/fapi/v1/depth{query}")).await;
    let whole = depth("?symbol=BTCUSDT&limit=1000").await;
    assert_eq!((whole.status, &whole.headers["x-mbx-used-weight-1m"]), (200, &"20".parse().unwrap()));
    assert_eq!(whole.body["lastUpdateId"].as_u64(), reference(&sim, VENUE, "BTCUSDT").last_update_id);
    for (query, code) in [("?symbol=BTCUSDT&limit=7", -1130), ("?symbol=NONE", -1121), ("", -1102)] {
        let refused = depth(query).await;
        assert_eq!((refused.status, refused.body["code"].as_i64()), (400, Some(code)), "{query}");
    }
    let info = get(sim.address(), "/binance_usdm/fapi/v1/exchangeInfo").await.body;
    let listed = &info["symbols"][0];
    assert_eq!(info["symbols"].as_array().unwrap().len(), 4);
    assert_eq!((&listed["contractType"], &listed["status"]), (&json!("PERPETUAL"), &json!("TRADING")));
    assert_eq!((&listed["baseAsset"], &listed["marginAsset"]), (&json!("BTC"), &json!("USDT")));
    assert_eq!(
        (&listed["filters"][0]["tickSize"], &listed["filters"][1]["stepSize"]),
        (&json!("0.01"), &json!("0.00001"))
    );
    assert_eq!(get(sim.address(), "/binance_usdm/api/v3/depth?symbol=BTCUSDT").await.status, 404);
    let mut statuses = Vec::new();
    while statuses.len() < 130 && statuses.last() != Some(&429) {
        statuses.push(depth("?symbol=BTCUSDT&limit=1000").await.status);
    }
    // A new minute may begin on the way.
    assert!(statuses.len() > 100, "2,400 is the bound: {}", statuses.len());
}

#[tokio::test]
async fn lost_and_repeated_depth_shows_in_pu() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let (mut ws, mut locals) = follow(&sim, &format!("/stream?streams={STREAMS}")).await;
    let symbol = "BTCUSDT".to_owned();
    sim.set_fault(Fault::DropDepth { venue: VENUE, symbol: symbol.clone(), count: 1, connection: Some(1) }).unwrap();
    while locals.books["BTCUSDT"].gaps == 0 {
        locals.take(&ws.text().await);
    }
    assert_eq!((sim.faults().fired["drop_depth"], locals.books["ETHUSDT"].gaps), (1, 0));
    let duplicate = Fault::Duplicate { venue: VENUE, symbol: Some(symbol), count: 1, connection: Some(1) };
    sim.set_fault(duplicate).unwrap();
    let mut last = 0;
    loop {
        let text = ws.text().await;
        let value: Value = serde_json::from_str(&text).unwrap();
        locals.take(&text);
        if value["data"]["e"] == "depthUpdate" && value["data"]["s"] == "BTCUSDT" {
            let told = id(&value["data"], "u");
            if told == last {
                break;
            }
            last = told;
        }
    }
    assert_eq!((sim.faults().fired["duplicate"], locals.books["BTCUSDT"].gaps), (1, 1));
    let corrupt = Fault::CorruptChecksum { venue: VENUE, symbol: "BTCUSDT".to_owned(), count: 1, connection: None };
    assert!(sim.set_fault(corrupt).is_err(), "there are no checksums");
}

#[tokio::test]
async fn ids_that_are_reset_begin_a_new_chain() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let (mut ws, mut locals) = follow(&sim, &format!("/ws/{STREAMS}")).await;
    sim.set_fault(Fault::ResetIds { venue: VENUE, symbol: "BTCUSDT".to_owned(), next_id: 1_000 }).unwrap();
    let back = ws
        .next(|value| value["e"] == "depthUpdate" && value["s"] == "BTCUSDT" && value["u"].as_u64() < Some(1_000_000))
        .await;
    assert_eq!(id(&back, "pu"), 999);
    assert!(id(&back, "U") >= 1_000);
    locals.books.insert("BTCUSDT".to_owned(), Local::default());
    locals.books.get_mut("BTCUSDT").unwrap().event(&back);
    locals.fetch(&mut ws, sim.address(), "BTCUSDT").await;
    while locals.books["BTCUSDT"].applied < 50 {
        locals.take(&ws.text().await);
    }
    sim.pause();
    locals.books.remove("ETHUSDT");
    while locals.books["BTCUSDT"].last < reference(&sim, VENUE, "BTCUSDT").last_update_id {
        locals.take(&ws.text().await);
    }
    locals.books.retain(|symbol, _| symbol == "BTCUSDT");
    locals.assert_are(&sim);
}

#[tokio::test]
async fn connections_are_pinged_and_may_ask_ten_times_a_second() {
    let mut options = market_of(&[VENUE], 0);
    options.ping_interval = Duration::from_millis(20);
    let sim = VenueSim::start(options).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/binance_usdm/ws").await;
    let ping = ws.any().await.unwrap().unwrap();
    assert!(matches!(ping, Message::Ping(_)), "{ping:?}");
    for id in 0..10 {
        ws.send(&json!({"method": "LIST_SUBSCRIPTIONS", "id": id})).await;
        assert_eq!(ws.next(|_| true).await, json!({"result": [], "id": id}));
    }
}

/// Every symbol of a capture by the venue's rules, from REST at the served position.
async fn usdm_capture(rel: &str, symbols: &[&str], depth: &str) {
    let Some(file) = corpus(rel) else { return };
    let streams: Vec<String> = symbols
        .iter()
        .flat_map(|symbol| [depth, "bookTicker"].map(|kind| format!("{}@{kind}", symbol.to_lowercase())))
        .collect();
    let wanted = |text: &str| streams.iter().any(|stream| text.starts_with(&format!("{{\"stream\":\"{stream}\"")));
    let frames = frames(&file);
    let recorded: Vec<&str> =
        frames.iter().filter(|frame| frame.kind == RawKind::Ws).map(text).filter(|text| wanted(text)).collect();
    assert!(recorded.len() > 500, "{}", recorded.len());
    let sim = VenueSim::start(capture(file, VENUE, 1)).await.unwrap();
    let mut ws = Ws::open(sim.address(), &format!("/binance_usdm/stream?streams={}", streams.join("/"))).await;
    let mut locals = Locals::default();
    for (place, expected) in recorded.iter().enumerate() {
        let text = ws.text().await;
        assert_eq!(text, *expected, "message {place}, byte for byte");
        locals.take(&text);
        if place == recorded.len() / 40 {
            for symbol in symbols {
                let body =
                    get(sim.address(), &format!("/binance_usdm/fapi/v1/depth?symbol={symbol}&limit=1000")).await.body;
                assert!(locals.books.entry((*symbol).to_owned()).or_default().snapshot(&body), "{symbol}");
            }
        }
    }
    until("the capture ends", || sim.state().ended).await;
    for symbol in symbols {
        let (local, reference) = (&locals.books[*symbol], reference(&sim, VENUE, symbol));
        assert_eq!((local.last, local.gaps), (reference.last_update_id, 0), "{symbol}");
        // REST ends after a thousand levels; what is beyond is known as far as it was touched.
        for (own, known) in [(local.book.bids(), &reference.bids), (local.book.asks(), &reference.asks)] {
            assert!(own.len() >= 100 && own[..100] == known[..100], "{symbol}");
        }
    }
    assert_eq!(sim.state().unread, 0);
}

#[tokio::test]
async fn usdm_2021_is_passed_on_and_rest_fits() {
    let symbols = ["SUSHIUSDT", "AKROUSDT", "KEEPUSDT", "CTKUSDT"];
    usdm_capture("binance_usdm/binance_usdm_2021-07.frames.jsonl.zst", &symbols, "depth@100ms").await;
}

#[tokio::test]
async fn usdm_2024_is_passed_on_and_rest_fits() {
    usdm_capture("binance_usdm/binance_usdm_btcusdt_2024-08-08.frames.jsonl.zst", &["BTCUSDT"], "depth@0ms").await;
}
