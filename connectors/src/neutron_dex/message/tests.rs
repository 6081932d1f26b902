//! What whole documents come to, in each dialect, and which are refused as a whole.
//!
//! Never: a right value that the code under test has made.

use super::*;
use base64::{Engine, prelude::BASE64_STANDARD};
use market::Side;

/// An attribute in JSON.
fn attribute(coded: bool, key: &str, value: &str) -> String {
    let spelled = |text: &str| if coded { BASE64_STANDARD.encode(text) } else { text.to_owned() };
    format!(r#"{{"key":"{}","value":"{}","index":true}}"#, spelled(key), spelled(value))
}

/// An event that tells a pool's bid, with further attributes.
fn update(coded: bool, reserves: &str, more: &[(&str, &str)]) -> String {
    let fields =
        [("module", "dex"), ("TokenZero", "a"), ("TokenOne", "b"), ("TokenIn", "b"), ("TickIndex", "3"), ("Fee", "1")];
    let reserves = [("Reserves", reserves)];
    let all = fields.iter().chain(&reserves).chain(more);
    let all: Vec<_> = all.map(|(key, value)| attribute(coded, key, value)).collect();
    format!(r#"{{"type":"TickUpdate","attributes":[{}]}}"#, all.join(","))
}

fn reserves(block: &Block) -> Vec<(u64, String)> {
    let unit = market::U256::from(10_u128.pow(27));
    block.ticks.iter().map(|tick| (tick.ordinal, (tick.reserves / unit).to_string())).collect()
}

fn right(pairs: &[(u64, &str)]) -> Vec<(u64, String)> {
    pairs.iter().map(|(ordinal, reserves)| (*ordinal, (*reserves).to_owned())).collect()
}

const OTHER: &str = r#"{"type":"transfer","attributes":[{"key":"amount","value":null},{"key":null}]}"#;

#[test]
fn the_three_dialects_say_the_same() {
    for coded in [false, true] {
        let at = |reserves| update(coded, reserves, &[]);
        let (begin, first, second, end) = (at("1"), at("2"), at("3"), at("4"));
        let txs = format!(r#"[{{"code":0,"events":[{OTHER},{first}]}},null,{{"events":[{second}]}}]"#);
        // In the order of Go's encoder, and in another.
        let older = [
            format!(
                r#"{{"height":"7","txs_results":{txs},"begin_block_events":[{begin}],"end_block_events":[{end},{OTHER}]}}"#
            ),
            format!(
                r#"{{"end_block_events":[{end},{OTHER}],"begin_block_events":[{begin}],"txs_results":{txs},"height":"7"}}"#
            ),
        ];
        let mode = |event: String, mode| event.replace("]}", &format!(",{}]}}", attribute(coded, "mode", mode)));
        let (begin, end) = (mode(begin, "BeginBlock"), mode(end, "EndBlock"));
        let newer = format!(r#"{{"height":"7","txs_results":{txs},"finalize_block_events":[{begin},{end},{OTHER}]}}"#);
        let envelope = |bare: &str| format!(r#"{{"jsonrpc":"2.0","id":-1,"result":{bare}}}"#);
        let [go, shuffled] = older;
        for document in [envelope(&go), go, shuffled, envelope(&newer), newer] {
            let block = decode_block(document.as_bytes()).unwrap();
            assert_eq!((block.height, block.events, block.failed), (7, 6, 0), "{document}");
            assert_eq!(reserves(&block), right(&[(0, "1"), (2, "2"), (3, "3"), (4, "4")]), "{document}");
            assert_eq!(block.pairs, [("a".into(), "b".into())]);
            assert!(block.ticks.iter().all(|tick| (tick.side, tick.tick_index, tick.fee) == (Side::Bid, -3, 1)));
            for tick in &block.ticks {
                let found = locate(document.as_bytes(), tick.ordinal).unwrap().unwrap();
                assert!(found.json.contains("TickUpdate"), "{found:?}");
            }
            assert_eq!(locate(document.as_bytes(), 6).unwrap(), None);
        }
    }
}

#[test]
fn an_event_is_found_where_it_stands() {
    let at = |reserves| update(false, reserves, &[]);
    let document = format!(
        r#"{{"height":"7","txs_results":[{{"code":5,"events":[{OTHER}]}},{{"events":[{OTHER},{}]}}],"finalize_block_events":[{},{OTHER}]}}"#,
        at("2"),
        update(false, "1", &[("mode", "BeginBlock")]),
    );
    let found = |ordinal| {
        let located = locate(document.as_bytes(), ordinal).unwrap().unwrap();
        (located.part.name(), located.transaction, located.failed, located.event)
    };
    assert_eq!(found(0), ("BeginBlock", None, false, 0));
    assert_eq!(found(1), ("Tx", Some(0), true, 0));
    assert_eq!(found(3), ("Tx", Some(1), false, 1));
    assert_eq!(found(4), ("EndBlock", None, false, 1), "its place in the list that it stands in");
}

#[test]
fn a_failed_transaction_changes_nothing_and_counts_its_events() {
    let at = |reserves| update(false, reserves, &[]);
    let bad = at("NaN");
    for failed in [
        format!(r#"{{"code":5,"events":[{},{OTHER},{bad}]}}"#, at("8")),
        format!(r#"{{"events":[{},{OTHER},{bad}],"code":5}}"#, at("8")),
        format!(r#"{{"events":[{OTHER},{OTHER},{}],"code":5}}"#, update(true, "8", &[("TokenOne", "c")])),
    ] {
        let document = format!(r#"{{"height":"7","txs_results":[{failed},{{"code":0,"events":[{}]}}]}}"#, at("2"));
        let block = decode_block(document.as_bytes()).unwrap();
        assert_eq!((block.events, block.failed), (4, 1));
        assert_eq!(reserves(&block), right(&[(3, "2")]));
        assert_eq!(block.pairs, [("a".into(), "b".into())], "no pair that occurs in it alone");
    }
}

#[test]
fn nothing_is_an_empty_block_whatever_is_null() {
    for document in [
        r#"{"height":"7"}"#,
        r#"{"height":"7","txs_results":null,"begin_block_events":null,"end_block_events":null}"#,
        r#"{"height":"7","txs_results":[],"finalize_block_events":null}"#,
        r#"{"height":"7","txs_results":[{"code":null,"events":null}],"validator_updates":[{"power":5}],"app_hash":""}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null,"result":{"height":"7","txs_results":null}}"#,
    ] {
        let block = decode_block(document.as_bytes()).unwrap();
        assert_eq!(block, Block { height: 7, ..Block::default() }, "{document}");
    }
    let document =
        r#"{"height":"7","finalize_block_events":[null,{},{"attributes":null},{"type":null,"attributes":[{}]}]}"#;
    assert_eq!(decode_block(document.as_bytes()).unwrap().events, 4);
}

#[test]
fn an_event_that_cannot_be_taken_is_named_and_takes_the_block_with_it() {
    let good = update(false, "1", &[]);
    let bad = update(false, "-1", &[]);
    let block = |begin: &str, tx: &str, end: &str| {
        let document = format!(
            r#"{{"txs_results":[{{"events":[{tx}]}}],"end_block_events":[{end}],"begin_block_events":[{begin}],"height":"7"}}"#
        );
        decode_block(document.as_bytes()).unwrap_err().to_string()
    };
    let named = |ordinal| {
        format!(r#"event {ordinal}: Reserves "-1" cannot be taken: negative where only zero or more has a meaning"#)
    };
    assert_eq!(block(&bad, &bad, &bad), named(0));
    assert_eq!(block(&good, &format!("{OTHER},{bad}"), &bad), named(2));
    assert_eq!(block(&good, &good, &bad), named(2));
    let missing = good.replace("TickIndex", "TickIndices");
    assert_eq!(block(OTHER, &missing, ""), "event 1: TickIndex is missing");
    let coded = update(true, "1", &[]);
    let mixed = block(&good, &coded, "");
    assert!(mixed.ends_with("names of attributes as text and in base64"), "{mixed}");
    let other = good.replace(r#""dex""#, r#""amm""#).replace("Reserves", "Amount");
    let document = format!(r#"{{"height":"7","end_block_events":[{other},{good}]}}"#);
    assert_eq!(reserves(&decode_block(document.as_bytes()).unwrap()), right(&[(1, "1")]), "another module's");
}

#[test]
fn what_is_no_block_is_refused() {
    for (document, reason) in [
        ("", "EOF while parsing"),
        ("[]", "the results of a block"),
        ("{}", r#"height "" is none"#),
        (r#"{"height":"x"}"#, r#"height "x" is none"#),
        (r#"{"height":"-1"}"#, r#"height "-1" is none"#),
        (r#"{"height":"17179869184"}"#, r#"height "17179869184" is none"#),
        (r#"{"height":7}"#, "a text or null"),
        (r#"{"height":"7"} x"#, "trailing characters"),
        (r#"{"height":"7","height":"7"}"#, "twice"),
        (r#"{"height":"7","txs_results":[],"txs_results":[]}"#, "twice"),
        (r#"{"height":"7","result":{"height":"8"}}"#, "beside an envelope"),
        (
            r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"height 5 is not available"}}"#,
            "answered with an error",
        ),
        (r#"{"result":{"result":{"height":"7"}}}"#, r#"height "" is none"#),
        (r#"{"height":"7","txs_results":{}}"#, "transactions"),
        (r#"{"height":"7","txs_results":[{"code":-1}]}"#, "invalid value"),
        (r#"{"height":"7","txs_results":[{"events":[{"type":5}]}]}"#, "a text or null"),
        (r#"{"height":"7","begin_block_events":[{}],"finalize_block_events":[{}]}"#, "both"),
    ] {
        let error = decode_block(document.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{document}: {error}");
    }
    assert!(matches!(decode_block(b"{\"height\":\"\xff\"}"), Err(BlockError::Utf8(_))));
    let greatest = decode_block(br#"{"height":"17179869183"}"#).unwrap();
    assert_eq!(greatest.height, HEIGHT_MAX);
}

#[test]
fn escaped_texts_are_read_like_others() {
    let document = format!(
        r#"{{"h\u0065ight":"7","end_block_events":[{}]}}"#,
        update(false, "1", &[])
            .replace("TokenZero", "Token\\u005aero")
            .replace("TickUpdate", "Tick\\u0055pdate")
            .replace(r#""a""#, r#""ibc\/A""#)
    );
    let block = decode_block(document.as_bytes()).unwrap_err();
    assert_eq!(block.to_string(), r#"event 0: TokenZero is "ibc/A""#, "it is after b");
}

#[test]
fn a_snapshot_is_every_live_tick() {
    let content = r#"{"height":"9","ticks":[
        {"TokenZero":"a","TokenOne":"b","TokenIn":"a","TickIndex":"-4","Fee":"10","Reserves":"0","ReservesDec":"0.5"},
        {"TokenZero":"a","TokenOne":"c","TokenIn":"c","TickIndex":"4","TrancheKey":"t","Reserves":"3"}]}"#;
    let block = decode_snapshot(content.as_bytes()).unwrap();
    assert_eq!((block.height, block.events, block.pairs.len()), (9, 2, 2));
    let [pool, order] = block.ticks.as_slice() else { panic!("two ticks: {block:?}") };
    assert_eq!((pool.pair, pool.side, pool.tick_index, pool.fee, &*pool.tranche), (0, Side::Ask, -4, 10, ""));
    assert_eq!((order.pair, order.side, order.tick_index, order.fee, &*order.tranche), (1, Side::Bid, -4, 0, "t"));
    assert_eq!(pool.reserves, market::U256::from(5 * 10_u128.pow(26)));
    for (wrong, reason) in [
        (content.replace("-4", "x"), r#"event 0: TickIndex is "x""#),
        (content.replace("TrancheKey", "Tranche"), "event 1: Fee or TrancheKey is missing"),
        (content.replace(r#""9""#, "null"), "height"),
        (content.replace("ticks", "tick"), "missing field `ticks`"),
    ] {
        let error = decode_snapshot(wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
