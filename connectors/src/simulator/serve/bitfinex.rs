//! Bitfinex's public WebSocket v2 and its list of pairs.
//!
//! Books are of precision P0 and frequency F0, `len` levels a side: what lies beyond them is not told; a level that leaves
//! them is told as deleted, and one that enters them is told. Recorded rows are passed on as they are, under the
//! connection's own channel and number; a level that is worded anew counts one order. Heartbeats come on every channel,
//! quiet or not. Of the flags, those for numbers and checksums do something.
//!
//! Never: the number or the channel of a recorded connection; a checksum that is not of the kept book.

use super::{
    bitfinex_rows::{checksum, level, payload, row, said, traded, window},
    bus::Bus,
    dialect::{Act, Carries, Dialect, Piece, Said, Told, Trade, Unread, View},
    hall::{Instrument, Stock, Traded},
    http::{Reply, unix_ms},
    reference::{Book, SIDES},
    session::{Marks, Session, Subscription},
};
use crate::simulator::SimInstrument;
use market::Venue;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{borrow::Cow, cell::Cell, collections::BTreeMap, fmt::Write, sync::Arc};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Each frame of a channel carries the connection's next number.
const SEQ_ALL: u64 = 65_536;
/// Books are followed by checksums.
const CHECKSUMS: u64 = 131_072;
/// Channels of one connection.
const CHANNELS_MAX: usize = 30;
/// Levels a side that may be asked for.
const LENGTHS: [usize; 4] = [1, 25, 100, 250];
/// The checksum covers this many best levels of each side.
const CHECKSUM_LEVELS: usize = 25;
/// Connections' channel ids begin so far apart, that none is mistaken for another's.
const HANDLES_APART: u64 = 100_003;
/// Channels of captures that are known, at most: far more than any capture has.
const RECORDED_MAX: usize = 10_000;
const SERVER_ID: &str = "083bd8d4-aca7-4690-a573-eabfc8103de8";
const TICKER: &str = "ticker";
const TRADES: &str = "trades";
/// Books' channels are named by their length here: `book:25`.
const BOOK: &str = "book:";
/// What a checksum's payload begins with.
const CS: &str = "\"cs\",";

/// An event of a capture, as far as it tells what a channel is.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    channel: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    symbol: Option<Cow<'a, str>>,
    #[serde(default, rename = "chanId")]
    handle: Option<u64>,
    #[serde(borrow, default)]
    prec: Option<Cow<'a, str>>,
    #[serde(default)]
    len: Option<Value>,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    event: String,
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    symbol: Option<String>,
    #[serde(default)]
    pair: Option<String>,
    #[serde(default)]
    prec: Option<String>,
    #[serde(default)]
    freq: Option<String>,
    #[serde(default)]
    len: Option<Value>,
    #[serde(default, rename = "subId")]
    sub_id: Option<Value>,
    #[serde(default, rename = "chanId")]
    handle: Option<u64>,
    #[serde(default)]
    flags: Option<u64>,
    #[serde(default)]
    cid: Option<Value>,
}

impl Request {
    /// As the venue spells it, whichever way it was asked for.
    fn symbol(&self) -> String {
        let asked = self.symbol.as_deref().or(self.pair.as_deref()).unwrap_or_default();
        if asked.starts_with('t') { asked.to_owned() } else { format!("t{asked}") }
    }
}

/// A length as a number, from a number or a text.
fn length_of(value: Option<&Value>) -> Option<usize> {
    match value {
        None => Some(25),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64().and_then(|length| usize::try_from(length).ok()),
    }
}

/// The levels of a book's channel.
fn length(channel: &str) -> Option<usize> {
    channel.strip_prefix(BOOK)?.parse().ok()
}

/// What a recorded channel is.
#[derive(Debug)]
struct Recorded {
    channel: String,
    symbol: String,
}

/// The venue.
#[derive(Debug, Default)]
pub(super) struct Bitfinex {
    /// Connections so far.
    opened: Cell<u64>,
    /// The channels of the captures' connections.
    recorded: BTreeMap<(Arc<str>, u64), Recorded>,
}

impl Bitfinex {
    /// Learns a recorded channel from its acknowledgement.
    fn learn(&mut self, conn: &Arc<str>, text: &str) -> Result<(), Unread> {
        let event: Event<'_> = serde_json::from_str(text).map_err(|_| Unread)?;
        let (Some(handle), "subscribed") = (event.handle, &*event.event) else { return Ok(()) };
        let (Some(channel), Some(symbol)) = (event.channel, event.symbol) else { return Ok(()) };
        let exact = event.prec.is_none_or(|prec| prec == "P0");
        let channel = match (&*channel, length_of(event.len.as_ref())) {
            ("book", Some(length)) if exact => format!("{BOOK}{length}"),
            ("book", _) => "aggregated".to_owned(),
            (other, _) => other.to_owned(),
        };
        let key = (Arc::clone(conn), handle);
        if self.recorded.len() < RECORDED_MAX || self.recorded.contains_key(&key) {
            self.recorded.insert(key, Recorded { channel, symbol: symbol.into_owned() });
        }
        Ok(())
    }

    fn subscribe(&self, session: &mut Session, stock: &Stock, request: &Request) -> Vec<Act> {
        let (symbol, asked) = (request.symbol(), request.channel.as_deref().unwrap_or_default());
        let refused = |code: u16, words: &str| vec![refused(request, &symbol, code, words)];
        let prec = request.prec.as_deref().unwrap_or("P0");
        let freq = request.freq.as_deref().unwrap_or("F0");
        let length = length_of(request.len.as_ref()).filter(|length| LENGTHS.contains(length));
        let (name, channel, about) = match (asked, length) {
            ("book", _) if prec != "P0" => return refused(10_300, "prec: invalid"),
            ("book", _) if freq != "F0" => return refused(10_300, "freq: invalid"),
            ("book", None) => return refused(10_300, "len: invalid"),
            ("book", Some(length)) => (
                format!("book:{symbol}:{prec}:{freq}:{length}"),
                format!("{BOOK}{length}"),
                format!(",\"prec\":\"{prec}\",\"freq\":\"{freq}\",\"len\":\"{length}\""),
            ),
            (TICKER | TRADES, _) => (format!("{asked}:{symbol}"), asked.to_owned(), String::new()),
            _ => return refused(10_302, "channel: unknown"),
        };
        let Some(instrument) = stock.get(&symbol) else { return refused(10_300, "symbol: invalid") };
        if session.of(&symbol).iter().any(|known| *known.name == *name) {
            return refused(10_301, "subscribe: dup");
        }
        if session.len() >= CHANNELS_MAX {
            return refused(10_305, "subscribe: limit");
        }
        session.marks.handles += 1;
        let handle = session.marks.handles;
        session.add(&name, &channel, &symbol, handle);
        let sub_id = request.sub_id.as_ref().map(|id| format!(",\"subId\":{id}")).unwrap_or_default();
        let pair = pair(&symbol);
        let mut acts = vec![Act::Say(format!(
            "{{\"event\":\"subscribed\",\"channel\":\"{asked}\",\"chanId\":{handle},\"symbol\":\"{symbol}\"{about}{sub_id},\
            \"pair\":\"{pair}\"}}"
        ))];
        match self.carries(&channel) {
            Carries::Book => acts.push(Act::Show(name.into())),
            Carries::Trades => acts.extend(self.trades(instrument, handle)),
            Carries::Other => {}
        }
        acts
    }

    /// What a channel of trades begins with; a capture brings its own until its trades are known.
    fn trades(&self, instrument: &Instrument, handle: u64) -> Option<Act> {
        let rows: Vec<String> = instrument.trades().map(row).collect();
        (self.recorded.is_empty() || !rows.is_empty()).then(|| Act::Say(format!("[{handle},[{}]", rows.join(","))))
    }
}

/// The count of a row whose level died.
const DIES: &str = ",0,";

impl Dialect for Bitfinex {
    fn venue(&self) -> Venue {
        Venue::Bitfinex
    }

    fn addresses(&self) -> (&'static [&'static str], &'static str) {
        (&["/ws/2"], "/v2")
    }

    fn open(&self, path: &str, _query: &str) -> Option<Session> {
        matches!(path, "/ws/2" | "/ws/2/").then(|| {
            let mut session = Session::at(0);
            self.opened.set(self.opened.get() + 1);
            session.marks.handles = self.opened.get() * HANDLES_APART;
            session
        })
    }

    fn greet(&self, _number: u64) -> Vec<Act> {
        let info =
            format!("{{\"event\":\"info\",\"version\":2,\"serverId\":\"{SERVER_ID}\",\"platform\":{{\"status\":1}}}}");
        vec![Act::Say(info)]
    }

    fn rest(&mut self, path: &str, _query: &str, stock: &Stock, _bus: &mut Bus) -> Reply {
        match path {
            "/v2/platform/status" => Reply::json(200, "[1]".to_owned()),
            "/v2/conf/pub:list:pair:exchange" => {
                let pairs: Vec<&str> = stock.all().iter().map(|known| pair(&known.listed.symbol)).collect();
                Reply::json(200, json!([pairs]).to_string())
            }
            _ => Reply::json(404, json!(["error", 10_020, "path: invalid"]).to_string()),
        }
    }

    fn failed(&self, status: u16) -> Reply {
        let body =
            if status == 429 { json!(["error", 11_010, "ratelimit: error"]) } else { json!(["error", 10_000, "ERR"]) };
        Reply::json(status, body.to_string())
    }

    fn list(&self, symbol: &str) -> Option<SimInstrument> {
        let pair = symbol.strip_prefix('t')?;
        let (base, quote) = match pair.split_once(':') {
            Some(parts) => parts,
            None => pair.split_at_checked(pair.len().checked_sub(3)?)?,
        };
        Some(SimInstrument {
            venue: Venue::Bitfinex,
            symbol: symbol.to_owned(),
            asset_0: base.to_owned(),
            asset_1: quote.to_owned(),
            price_decimals: 0,
            quantity_decimals: 0,
        })
    }

    fn carries(&self, channel: &str) -> Carries {
        match channel {
            TRADES => Carries::Trades,
            _ if length(channel).is_some() => Carries::Book,
            _ => Carries::Other,
        }
    }

    fn read<'a>(&mut self, conn: &Arc<str>, text: &'a str) -> Result<Option<Piece<'a>>, Unread> {
        if text.starts_with('{') {
            return self.learn(conn, text).map(|()| None);
        }
        let frame: Vec<&'a RawValue> = serde_json::from_str(text).map_err(|_| Unread)?;
        let [handle, first, rest @ ..] = frame.as_slice() else { return Err(Unread) };
        let (handle, first) = (handle.get().parse().map_err(|_| Unread)?, first.get());
        if matches!(first, "\"hb\"" | "\"cs\"") {
            return Ok(None);
        }
        let Recorded { channel, symbol } = self.recorded.get(&(Arc::clone(conn), handle)).ok_or(Unread)?;
        let named = first.starts_with('"');
        let said = match (self.carries(channel), first) {
            (Carries::Book, rows) if !named => said(rows).ok_or(Unread)?,
            (Carries::Trades, "\"te\"") => Said::Trade(rest.first().and_then(|row| traded(row.get())).ok_or(Unread)?),
            _ => Said::Other,
        };
        let text = payload(text, rest.len() > usize::from(named)).ok_or(Unread)?;
        Ok(Some(Piece { channel: channel.clone().into(), symbol: symbol.clone().into(), text, what: said }))
    }

    fn receive(&mut self, session: &mut Session, stock: &Stock, text: &str) -> Vec<Act> {
        let Ok(request) = serde_json::from_str::<Request>(text) else {
            return vec![Act::Say(json!({"event": "error", "msg": "json: invalid", "code": 10_000}).to_string())];
        };
        match request.event.as_str() {
            "subscribe" => self.subscribe(session, stock, &request),
            "unsubscribe" => {
                let gone = session.remove(|known| Some(known.handle) == request.handle);
                let handle = request.handle;
                vec![Act::Say(match gone.is_empty() {
                    false => json!({"event": "unsubscribed", "status": "OK", "chanId": handle}).to_string(),
                    true => {
                        let words = "unsubscribe: invalid";
                        json!({"event": "error", "msg": words, "code": 10_400, "chanId": handle}).to_string()
                    }
                })]
            }
            "conf" => {
                session.marks.flags = request.flags.unwrap_or(0);
                let flags = session.marks.flags;
                vec![Act::Say(format!("{{\"event\":\"conf\",\"status\":\"OK\",\"flags\":{flags}}}"))]
            }
            "ping" => {
                let cid = request.cid.as_ref().map(|cid| format!(",\"cid\":{cid}")).unwrap_or_default();
                vec![Act::Pong(format!("{{\"event\":\"pong\",\"ts\":{}{cid}}}", unix_ms()))]
            }
            _ => vec![Act::Say(json!({"event": "error", "msg": "event: unknown", "code": 10_000}).to_string())],
        }
    }

    fn beat(&mut self, session: &mut Session, _stock: &Stock) -> Vec<Act> {
        session.all().map(|known| Act::Say(format!("[{},\"hb\"", known.handle))).collect()
    }

    fn snapshot(&self, channel: &str, view: &View<'_>) -> Vec<Utf8Bytes> {
        let (mut rows, length) = (String::new(), length(channel).unwrap_or(0));
        for side in SIDES {
            for known in view.book.ladder(side).best_first().take(length) {
                let comma = if rows.is_empty() { "" } else { "," };
                // Writing to a string cannot fail.
                let _written = write!(rows, "{comma}{}", level(side, known));
            }
        }
        vec![format!("[{rows}]").into()]
    }

    fn update(&self, channel: &str, view: &View<'_>, told: &[Told<'_>]) -> Vec<Utf8Bytes> {
        let length = length(channel).unwrap_or(0);
        let mut rows: Vec<String> = SIDES.iter().flat_map(|side| window(view.book, *side, told, length)).collect();
        // Each row is a message of its own: what dies is told first, so that no book is crossed on the way.
        rows.sort_by_key(|row| !row.contains(DIES));
        rows.into_iter().map(Utf8Bytes::from).collect()
    }

    fn trade(&self, _channel: &str, view: &View<'_>, trade: &Trade<'_>) -> Vec<Utf8Bytes> {
        let row = row(&Traded {
            id: trade.id,
            sold: trade.sold,
            price: trade.price.into(),
            quantity: trade.quantity.into(),
            at_ns: view.at_ns,
        });
        ["te", "tu"].iter().map(|verb| format!("\"{verb}\",{row}").into()).collect()
    }

    fn pass(&self, recorded: &str, wanted: &str, text: &str) -> Option<Utf8Bytes> {
        // A recorded window is all that is known, so it is as good as a longer one.
        let longer = length(recorded).zip(length(wanted)).is_some_and(|(recorded, wanted)| recorded <= wanted);
        (recorded == wanted || longer).then(|| text.into())
    }

    fn trailer(&self, channel: &str, view: &View<'_>) -> Option<Utf8Bytes> {
        let length = length(channel)?.min(CHECKSUM_LEVELS);
        Some(format!("{CS}{}", checksum(view.book, length)).into())
    }

    fn address(&self, marks: &mut Marks, to: &Subscription, payload: &Utf8Bytes) -> Option<Utf8Bytes> {
        if payload.starts_with(CS) && marks.flags & CHECKSUMS == 0 {
            return None;
        }
        Some(closed(marks, format!("[{},{payload}", to.handle)).into())
    }

    fn stamp(&self, marks: &mut Marks, reply: String) -> Utf8Bytes {
        // Events have no number.
        if reply.starts_with('[') { closed(marks, reply).into() } else { reply.into() }
    }

    fn checks(&self) -> bool {
        true
    }

    fn checksum(&self, book: &Book) -> Option<i64> {
        Some(i64::from(checksum(book, CHECKSUM_LEVELS)))
    }

    fn corrupt(&self, payload: &str) -> Option<String> {
        let checksum: i32 = payload.strip_prefix(CS)?.parse().ok()?;
        Some(format!("{CS}{}", checksum ^ 1))
    }
}

fn refused(request: &Request, symbol: &str, code: u16, words: &str) -> Act {
    let body = json!({
        "channel": request.channel,
        "symbol": symbol,
        "event": "error",
        "msg": words,
        "code": code,
        "pair": pair(symbol),
    });
    Act::Say(body.to_string())
}

/// A symbol without its `t`.
fn pair(symbol: &str) -> &str {
    symbol.strip_prefix('t').unwrap_or(symbol)
}

/// A frame that is still open, closed with the connection's next number where it asked for numbers.
fn closed(marks: &mut Marks, mut frame: String) -> String {
    if marks.flags & SEQ_ALL != 0 {
        marks.sequence += 1;
        // Writing to a string cannot fail.
        let _written = write!(frame, ",{}", marks.sequence);
    }
    frame.push(']');
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::serve::reference::Side;

    #[test]
    fn a_recorded_frame_is_stripped_of_its_connection() {
        let (mut bitfinex, conn) = (Bitfinex::default(), Arc::from("a"));
        let subscribed = |channel: &str, handle: u64| {
            format!(
                "{{\"event\":\"subscribed\",\"channel\":\"{channel}\",\"chanId\":{handle},\"symbol\":\"tIOTETH\",\"len\":\"100\"}}"
            )
        };
        bitfinex.read(&conn, &subscribed("book", 7)).unwrap();
        bitfinex.read(&conn, &subscribed("trades", 8)).unwrap();
        let piece = bitfinex.read(&conn, "[7,[0.0010314,1,-317.2429],757]").unwrap().unwrap();
        assert_eq!((piece.text, &*piece.channel, &*piece.symbol), ("[0.0010314,1,-317.2429]", "book:100", "tIOTETH"));
        let Said::Update(levels) = piece.what else { panic!("it is an update") };
        assert_eq!((levels.changes[0].side, levels.changes[0].quantity), (Side::Ask, "317.2429"));
        let piece = bitfinex.read(&conn, "[8,\"te\",[5,1618677537660,-76.5,0.5],9]").unwrap().unwrap();
        assert_eq!(piece.text, "\"te\",[5,1618677537660,-76.5,0.5]");
        let Said::Trade(trade) = piece.what else { panic!("it is a trade") };
        assert_eq!((trade.id, trade.sold, trade.quantity), (5, true, "76.5"));
        assert!(bitfinex.read(&conn, "[9,\"hb\",9]").unwrap().is_none(), "before its acknowledgement");
        assert_eq!(bitfinex.read(&conn, "[9,[1,1,1],9]").err(), Some(Unread));
        let snapshot = bitfinex.read(&conn, "[7,[[1,1,1],[2,1,-1]]]").unwrap().unwrap();
        assert!(snapshot.text == "[[1,1,1],[2,1,-1]]" && matches!(snapshot.what, Said::Snapshot(_)));
    }

    #[test]
    fn only_a_checksum_is_falsified() {
        assert_eq!(Bitfinex::default().corrupt("\"cs\",-6").unwrap(), "\"cs\",-5");
        assert_eq!(Bitfinex::default().corrupt("[1,1,1]"), None);
    }

    #[test]
    fn symbols_have_assets() {
        let assets = |symbol| Bitfinex::default().list(symbol).map(|listed| (listed.asset_0, listed.asset_1));
        assert_eq!(assets("tBTCUSD"), Some(("BTC".to_owned(), "USD".to_owned())));
        assert_eq!(assets("tTESTBTC:TESTUSD"), Some(("TESTBTC".to_owned(), "TESTUSD".to_owned())));
        assert_eq!(assets("fUSD"), None);
    }
}
