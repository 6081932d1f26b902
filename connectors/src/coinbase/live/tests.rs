//! What is asked of the venue, and what its messages about the connection mean.
//!
//! Never: a socket.

use super::*;

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn requests_are_the_documented_ones() {
    let (advanced, exchange) = (AdvancedTrade, Exchange);
    let symbols = ["BTC-USD", "ETH-USD"];
    assert_eq!(value(&advanced.greeting(1)[0]), json!({"type": "subscribe", "channel": "heartbeats"}));
    for (text, right) in [
        (advanced.subscribe(&symbols, 1), json!({"type": "subscribe", "product_ids": symbols, "channel": "level2"})),
        (
            advanced.subscribe_beside(&symbols, 1).unwrap(),
            json!({"type": "subscribe", "product_ids": symbols, "channel": "market_trades"}),
        ),
        (
            advanced.unsubscribe("BTC-USD", None, 1),
            json!({"type": "unsubscribe", "product_ids": ["BTC-USD"], "channel": "level2"}),
        ),
        (
            exchange.subscribe(&symbols, 1),
            json!({"type": "subscribe", "product_ids": symbols, "channels": ["level2_batch"]}),
        ),
        (
            exchange.subscribe_beside(&symbols, 1).unwrap(),
            json!({"type": "subscribe", "product_ids": symbols, "channels": ["matches", "heartbeat"]}),
        ),
        (
            exchange.unsubscribe("BTC-USD", None, 1),
            json!({"type": "unsubscribe", "product_ids": ["BTC-USD"], "channels": ["level2_batch"]}),
        ),
    ] {
        assert_eq!(value(&text), right);
    }
    assert!(exchange.greeting(1).is_empty() && !advanced.ends_by_handle());
    assert!(advanced.snapshot("BTC-USD").is_none() && exchange.snapshot("BTC-USD").is_none());
    assert_eq!(advanced.terms().socket_url, "wss://advanced-trade-ws.coinbase.com");
    assert_eq!(exchange.terms().socket_url, "wss://ws-feed.exchange.coinbase.com");
}

#[test]
fn advanced_trade_answers_are_understood() {
    let of = |channel: &str, events: &str| {
        format!(
            r#"{{"channel":"{channel}","client_id":"","timestamp":"2026-01-01T00:00:00Z","sequence_num":0,"events":[{events}]}}"#
        )
    };
    let both = r#"{"type":"update","product_id":"A-USD","updates":[]},{"type":"snapshot","product_id":"B-USD","updates":[]},{"type":"snapshot","product_id":"C-USD","updates":[]}"#;
    let standing =
        r#"{"subscriptions":{"level2":["A-USD","B-USD"],"market_trades":["A-USD"],"heartbeats":["heartbeats"]}}"#;
    let error = r#"{"type":"error","message":"channel is not allowed"}"#;
    for (text, right) in [
        (of("l2_data", both), Answer::DataOf(vec!["B-USD".into(), "C-USD".into()])),
        (of("l2_data", &both.replace("snapshot", "update")), Answer::Life),
        (of("l2_data", both).replace(':', ": "), Answer::DataOf(vec!["B-USD".into(), "C-USD".into()])),
        (of("market_trades", r#"{"type":"snapshot","trades":[]}"#), Answer::Life),
        (of("heartbeats", "{}"), Answer::Life),
        (
            of("subscriptions", standing),
            Answer::Standing { books: vec!["A-USD".into(), "B-USD".into()], beside: vec!["A-USD".into()] },
        ),
        (of("subscriptions", r#"{"subscriptions":{"heartbeats":["heartbeats"]}}"#), Answer::Life),
        (of("status", "{}"), Answer::Life),
        (error.to_owned(), Answer::Reply { request: None, key: None, refusal: Some("channel is not allowed".into()) }),
    ] {
        assert_eq!(AdvancedTrade.understand(&text), right, "{text}");
    }
    for text in ["", "{", "[]", "null", "{}", r#"{"channel":"subscriptions"}"#, r#"{"channel":"l2_data","events":[1]}"#]
    {
        assert_eq!(AdvancedTrade.understand(text), Answer::Life, "{text}");
    }
}

#[test]
fn exchange_answers_are_understood() {
    let standing = r#"{"type":"subscriptions","channels":[{"name":"level2_batch","product_ids":["A-USD"]},{"name":"matches","product_ids":["A-USD","B-USD"]},{"name":"heartbeat","product_ids":["C-USD"]}]}"#;
    let error = r#"{"type":"error","message":"Failed to subscribe","reason":"X-USD is not a valid product"}"#;
    for (text, right) in [
        (r#"{"type":"snapshot","product_id":"A-USD","asks":[],"bids":[]}"#, Answer::Data("A-USD".into())),
        (r#"{"product_id":"A-USD","type":"snapshot","asks":[],"bids":[]}"#, Answer::Data("A-USD".into())),
        (r#"{"type":"l2update","product_id":"A-USD","changes":[]}"#, Answer::Life),
        (standing, Answer::Standing { books: vec!["A-USD".into()], beside: vec!["A-USD".into(), "B-USD".into()] }),
        (error, Answer::Reply { request: None, key: None, refusal: Some("X-USD is not a valid product".into()) }),
    ] {
        assert_eq!(Exchange.understand(text), right, "{text}");
    }
    for text in ["", "{", "[]", "null", "{}", r#"{"type":"subscriptions","channels":["x"]}"#, r#"{"type":"status"}"#] {
        assert_eq!(Exchange.understand(text), Answer::Life, "{text}");
    }
}

#[test]
fn the_products_name_their_assets_steps_and_state() {
    let body = r#"[
        {"id":"BTC-USD","base_currency":"BTC","quote_currency":"USD","quote_increment":"0.01","base_increment":"0.00000001",
            "display_name":"BTC/USD","min_market_funds":"1","status":"online","status_message":"","trading_disabled":false},
        {"id":"OLD-USD","base_currency":"OLD","quote_currency":"USD","status":"delisted","trading_disabled":true},
        {"id":"NEW-USD","base_currency":"NEW","quote_currency":"USD","status":"online","trading_disabled":true}]"#;
    let of = |base: &str, halted: Option<&str>| Listed {
        symbol: format!("{base}-USD").into(),
        asset_0: base.into(),
        asset_1: "USD".into(),
        price_step: None,
        quantity_step: None,
        halted: halted.map(Into::into),
    };
    let (price_step, quantity_step) = (Some("0.01".into()), Some("0.00000001".into()));
    let right = [
        Listed { price_step, quantity_step, ..of("BTC", None) },
        of("OLD", Some("delisted")),
        of("NEW", Some("trading_disabled")),
    ];
    assert_eq!(AdvancedTrade.listed(body).unwrap(), right);
    assert_eq!(Exchange.listed(body).unwrap(), right);
    assert!(Exchange.listed("{}").is_err());
    assert_eq!(Exchange.listing(), AdvancedTrade.listing());
}
