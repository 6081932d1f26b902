//! What is asked of the venue, and what its messages about the connection mean.
//!
//! Never: a socket.

use super::*;

fn understand(text: &str) -> Answer<'_> {
    Bitfinex.understand(text)
}

#[test]
fn requests_are_the_documented_ones() {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&Bitfinex.greeting(1)[0]), json!({"event": "conf", "flags": 196_608}));
    assert_eq!(
        value(&Bitfinex.subscribe(&["tBTCUSD"], 1)),
        json!({"event": "subscribe", "channel": "book", "symbol": "tBTCUSD", "prec": "P0", "freq": "F0", "len": "100"})
    );
    assert_eq!(
        value(&Bitfinex.subscribe_beside(&["tDUSK:USD"], 1).unwrap()),
        json!({"event": "subscribe", "channel": "trades", "symbol": "tDUSK:USD"})
    );
    assert_eq!(Bitfinex.subscribe_beside(&[], 1), None);
    assert_eq!(
        value(&Bitfinex.unsubscribe("tBTCUSD", Some("232957"), 1)),
        json!({"event": "unsubscribe", "chanId": 232_957})
    );
    assert_eq!(value(&Bitfinex.ping(9).unwrap()), json!({"event": "ping", "cid": 9}));
    assert!(Bitfinex.snapshot("tBTCUSD").is_none() && Bitfinex.ends_by_handle());
    assert_eq!(TERMS.instruments_max * 2, 24, "two channels each, of 25");
}

#[test]
fn answers_are_understood() {
    let refused = |text: &str| Some(Box::<str>::from(text));
    for (text, right) in [
        ("[232957,[[60400,1,0.68826974]],14]", Answer::Data("232957".into())),
        ("[232957,[],14]", Answer::Data("232957".into())),
        ("[225206,[215350,0,1],18]", Answer::Life),
        (r#"[225206,"hb",18]"#, Answer::Life),
        (r#"[225206,"cs",-190,18]"#, Answer::Life),
        (r#"[232959,"te",[1,1618665870435,1,2],18]"#, Answer::Life),
        (
            r#"{"event":"subscribed","channel":"book","chanId":232957,"symbol":"tBTCUSD","prec":"P0","freq":"F0","len":"100","pair":"BTCUSD"}"#,
            Answer::Subscribed { key: "tBTCUSD".into(), handle: "232957".into() },
        ),
        (
            r#"{"event":"subscribed","channel":"trades","chanId":232959,"symbol":"tBTCUSD","pair":"BTCUSD"}"#,
            Answer::Beside { key: "tBTCUSD".into(), refusal: None },
        ),
        (r#"{"event":"unsubscribed","status":"OK","chanId":232957}"#, Answer::Unsubscribed("232957".into())),
        (
            r#"{"event":"error","msg":"unsubscribe: invalid","code":10400,"chanId":232957}"#,
            Answer::Unsubscribed("232957".into()),
        ),
        (
            r#"{"channel":"trades","symbol":"tX","event":"error","msg":"limit","code":10305}"#,
            Answer::Beside { key: "tX".into(), refusal: refused("limit (10305)") },
        ),
        (
            r#"{"channel":"book","symbol":"tX","event":"error","msg":"subscribe: dup","code":10301}"#,
            Answer::Reply { request: None, key: Some("tX".into()), refusal: refused("subscribe: dup (10301)") },
        ),
        (
            r#"{"event":"error","msg":"unknown","code":10000}"#,
            Answer::Reply { request: None, key: None, refusal: refused("unknown (10000)") },
        ),
        (r#"{"event":"info","code":20051,"msg":"Stopping. Please try to reconnect"}"#, Answer::Leaving),
        (r#"{"event":"info","code":20061,"msg":"over"}"#, Answer::Leaving),
        (r#"{"event":"info","code":20060,"msg":"maintenance"}"#, Answer::Life),
        (r#"{"event":"info","version":2,"serverId":"083bd8d4","platform":{"status":1}}"#, Answer::Life),
        (r#"{"event":"pong","ts":1511545528111,"cid":1234}"#, Answer::Life),
        (r#"{"event":"conf","status":"OK","flags":196608}"#, Answer::Life),
    ] {
        assert_eq!(understand(text), right, "{text}");
    }
    for text in ["", "[", "[]", "[,", "{", "null", "{}", r#"{"event":1}"#, r#"{"event":"subscribed","channel":"book"}"#]
    {
        assert_eq!(understand(text), Answer::Life, "{text}");
    }
}

#[test]
fn pairs_are_listed_as_they_are_subscribed_to() {
    let listed = Bitfinex.listed(r#"[["BTCUSD","DUSK:USD","IOTUST","WHATEVER"]]"#).unwrap();
    let of: Vec<_> = listed.iter().map(|one| (&*one.symbol, &*one.asset_0, &*one.asset_1)).collect();
    assert!(listed.iter().all(|one| (&one.price_step, &one.quantity_step, &one.halted) == (&None, &None, &None)));
    assert_eq!(of, [("tBTCUSD", "BTC", "USD"), ("tDUSK:USD", "DUSK", "USD"), ("tIOTUST", "IOTA", "USDT")]);
    assert!(Bitfinex.listed("{}").is_err());
}
