//! Case D10: ids beyond 2^53 keep their digits through every hop.
//!
//! Never: an id that passes through a JSON number of ours.

use crate::{
    books::{ask, over_http},
    watcher::{Watcher, all_of},
};
use anyhow::{Context, Result};
use market::Version;
use sprag_tests::process::{self, Server};
use std::{fs, path::Path};
use wire::Channel;

/// The first is not a double; the second is beyond any.
const IDS: [(&str, u64); 2] = [("BTCUSDT", 9_007_199_254_740_993), ("ETHUSDT", 8_389_765_929_445_198_309)];

fn line(ts_ns: u64, kind: &str, url: &str, raw: &str) -> String {
    let url = if url.is_empty() { String::new() } else { format!(r#","url":"{url}""#) };
    format!("{{\"ts_ns\":{ts_ns},\"kind\":\"{kind}\",\"conn\":\"0\"{url},\"raw\":{}}}\n", serde_json::Value::from(raw))
}

/// Per instrument: a snapshot two ids below, and two events that end at the id.
fn write_capture(path: &Path) -> Result<()> {
    let mut lines = String::new();
    let mut ts_ns = 1_700_000_000_000_000_000;
    for (symbol, id) in IDS {
        let url = format!("https://api.binance.com/api/v3/depth?symbol={symbol}&limit=1000");
        let (snapshot, next) = (id - 2, id - 1);
        let rest = format!(r#"{{"lastUpdateId":{snapshot},"bids":[["10.0","1"]],"asks":[["11.0","2"]]}}"#);
        let event = |first: u64, last: u64, quantity: u64| {
            format!(
                r#"{{"stream":"x@depth@100ms","data":{{"e":"depthUpdate","E":1700000000000,"s":"{symbol}","U":{first},"u":{last},"b":[["10.0","{quantity}"]],"a":[]}}}}"#
            )
        };
        let trade = format!(
            r#"{{"stream":"x@trade","data":{{"e":"trade","E":1700000000000,"s":"{symbol}","t":{id},"p":"10.0","q":"1","T":1700000000000,"m":true}}}}"#
        );
        let messages =
            [("ws", "", event(next, next, 3)), ("http", &*url, rest), ("ws", "", event(id, id, 4)), ("ws", "", trade)];
        for (kind, url, raw) in messages {
            ts_ns += 1_000_000;
            lines += &line(ts_ns, kind, url, &raw);
        }
    }
    Ok(fs::write(path, zstd::encode_all(lines.as_bytes(), 0)?)?)
}

#[tokio::test]
async fn ids_beyond_two_to_the_53_have_the_same_digits_at_every_hop() -> Result<()> {
    let data = tempfile::tempdir()?;
    let capture = data.path().join("ids.frames.jsonl.zst");
    write_capture(&capture)?;
    let file = capture.to_str().context("a path that is not text")?;
    let server = Server::start(data.path(), &["--capture", file, "--venue", "binance_spot"])?;
    let mut watcher = Watcher::new(&server.stream_url(), &all_of(&[Channel::Book, Channel::Quote, Channel::Trades]))?;
    let name = |symbol: &str| format!("binance_spot/{symbol}");
    let reached = |watcher: &Watcher| {
        IDS.iter().all(|(symbol, id)| {
            watcher.shown(&name(symbol)) == Some(Version::new(0, *id))
                && watcher.session().last_trade(&name(symbol)).is_some_and(|shown| shown.trade.order == *id)
        })
    };
    watcher.until("both ids on the wire", reached).await?;
    for (symbol, id) in IDS {
        assert_eq!(watcher.session().last_trade(&name(symbol)).unwrap().trade.id, id.to_string().into());
        let body = over_http(&server, &name(symbol))?;
        assert_eq!(body["seq"], id.to_string(), "{body}");
        let stored = |query: &str| {
            process::until(query, || {
                let row = ask(data.path(), query)?.into_iter().next();
                Ok(row.and_then(|row| row["id"].as_str().map(str::to_owned)).filter(|text| *text == id.to_string()))
            })
        };
        stored(&format!("SELECT toString(max(version)) AS id FROM tick_state FINAL WHERE symbol = '{symbol}'"))?;
        stored(&format!("SELECT trade_id AS id FROM trades WHERE symbol = '{symbol}'"))?;
        stored(&format!("SELECT toString(trade_order) AS id FROM trades WHERE symbol = '{symbol}'"))?;
    }
    Ok(())
}
