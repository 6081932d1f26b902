//! A WebSocket and an HTTP client, and books as sorted maps.
//!
//! Never: a rule of a venue.

use super::LONG;
use bytes::Bytes;
use connectors::simulator::VenueSimBook;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use std::{collections::BTreeMap, net::SocketAddr};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message},
};

/// A connection to a simulated venue.
pub(super) struct Ws(pub(super) WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Ws {
    pub(super) async fn open(address: SocketAddr, path: &str) -> Self {
        Self::try_open(address, path).await.unwrap()
    }

    pub(super) async fn try_open(address: SocketAddr, path: &str) -> Result<Self, Error> {
        connect_async(format!("ws://{address}{path}")).await.map(|(socket, _)| Self(socket))
    }

    pub(super) async fn send(&mut self, request: &Value) {
        self.0.send(Message::text(request.to_string())).await.unwrap();
    }

    pub(super) async fn send_text(&mut self, text: &str) {
        self.0.send(Message::text(text.to_owned())).await.unwrap();
    }

    /// The next message of any kind; none at the end.
    pub(super) async fn any(&mut self) -> Option<Result<Message, Error>> {
        tokio::time::timeout(LONG, self.0.next()).await.unwrap()
    }

    /// The next text; pings and pongs are passed over.
    pub(super) async fn text(&mut self) -> String {
        loop {
            match self.any().await.unwrap().unwrap() {
                Message::Text(text) => return text.to_string(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next text for which something holds, as JSON.
    pub(super) async fn next(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let value: Value = serde_json::from_str(&self.text().await).unwrap();
            if holds(&value) {
                return value;
            }
        }
    }

    /// How the connection ends: the code of its close frame, if there is one.
    pub(super) async fn end(&mut self) -> Option<u16> {
        loop {
            match self.any().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

/// An answer over HTTP.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

pub(super) async fn request(method: Method, address: SocketAddr, path: &str, body: &str) -> Answer {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::builder().method(method).uri(format!("http://{address}{path}"));
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = tokio::time::timeout(LONG, client.request(request)).await.unwrap().unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
}

pub(super) async fn get(address: SocketAddr, path: &str) -> Answer {
    request(Method::GET, address, path, "").await
}

/// A price in 10^-12, to sort by.
fn sorted_by(text: &str) -> u128 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    assert!(part.len() <= 12, "{text}");
    format!("{whole}{part:0<12}").parse().unwrap()
}

fn is_zero(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

type Side = BTreeMap<u128, (String, String)>;

/// A book as a client keeps it, spelled as the venue did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Book {
    bids: Side,
    asks: Side,
}

impl Book {
    pub(super) fn set(&mut self, bid: bool, price: &str, quantity: &str) {
        let side = if bid { &mut self.bids } else { &mut self.asks };
        if is_zero(quantity) {
            side.remove(&sorted_by(price));
        } else {
            side.insert(sorted_by(price), (price.to_owned(), quantity.to_owned()));
        }
    }

    pub(super) fn truncate(&mut self, depth: usize) {
        while self.bids.len() > depth {
            self.bids.pop_first();
        }
        while self.asks.len() > depth {
            self.asks.pop_last();
        }
    }

    pub(super) fn bids(&self) -> Vec<(String, String)> {
        self.bids.values().rev().cloned().collect()
    }

    pub(super) fn asks(&self) -> Vec<(String, String)> {
        self.asks.values().cloned().collect()
    }

    /// Compares with the best `depth` levels of a reference book.
    pub(super) fn assert_is(&self, reference: &VenueSimBook, depth: usize) {
        assert!(!self.bids.is_empty() && !self.asks.is_empty(), "{}", reference.symbol);
        let best = |side: &[(String, String)]| -> Vec<(String, String)> { side.iter().take(depth).cloned().collect() };
        assert_eq!(self.bids(), best(&reference.bids), "bids of {}", reference.symbol);
        assert_eq!(self.asks(), best(&reference.asks), "asks of {}", reference.symbol);
    }
}
