//! What is no request, no upgrade, or one terminal too many: refused by name, and nobody else notices.
//!
//! Never: a server that is not asked afterwards whether it still serves.

use crate::{
    raw::{RawTerminal, Received, UPGRADE},
    watcher::{Watcher, all_of},
};
use anyhow::{Result, bail};
use sprag_tests::process::{self, Server};
use wire::{Channel, ErrorCode, ToTerminal};

const ONE: [&str; 3] = ["--no-store", "--set", "sim.pairs=1"];

/// Everything until the end: whether the refusal came, and the close code.
fn farewell(terminal: &mut RawTerminal) -> Result<(Option<ErrorCode>, Option<u16>)> {
    let mut refused = None;
    loop {
        match terminal.next()? {
            Received::Binary(bytes) => {
                if let ToTerminal::Error(error) = ToTerminal::decode(&bytes)? {
                    refused = Some(error.code);
                }
            }
            Received::Close(code) => return Ok((refused, code)),
            Received::End => return Ok((refused, None)),
        }
    }
}

#[tokio::test]
async fn bytes_that_are_no_request_end_their_own_connection_only() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &ONE)?;
    let mut watcher = Watcher::new(&server.stream_url(), &all_of(&[Channel::Book]))?;
    watcher.until("a book", |watcher| watcher.versions.len() == 2).await?;

    // Codes of docs/WIRE.md, section 1.
    for junk in [&b"\xff\x00junk"[..], b"", b"\x41\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &[0x43; 9]] {
        let mut terminal = RawTerminal::connect(server.address())?;
        terminal.send_binary(junk)?;
        assert_eq!(farewell(&mut terminal)?, (Some(ErrorCode::Malformed), Some(1002)), "{junk:?}");
    }
    let mut terminal = RawTerminal::connect(server.address())?;
    terminal.send_text("subscribe book *")?;
    assert_eq!(farewell(&mut terminal)?, (Some(ErrorCode::Malformed), Some(1002)));
    let mut terminal = RawTerminal::connect(server.address())?;
    terminal.send_binary(&vec![0x41; wire::bounds::REQUEST_BYTES_MAX + 1])?;
    let (_, code) = farewell(&mut terminal)?;
    assert!(matches!(code, Some(1009)), "{code:?}");

    let before = watcher.shown("binance_spot/BTCUSDT");
    watcher.until("another version", |watcher| watcher.shown("binance_spot/BTCUSDT") > before).await?;
    assert!(watcher.is_clean() && watcher.gaps == 0);
    process::until("the others are gone", || {
        Ok((server.metric(r#"sprag_terminals{what="connected"}"#)? == 1).then_some(()))
    })
}

#[test]
fn what_is_no_upgrade_is_answered_400() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &ONE)?;
    let ask = |headers: &[(&str, &str)]| process::get(server.address(), "/v1/stream", headers);
    assert_eq!(ask(&[])?.status, 400);
    for missing in 0..UPGRADE.len() {
        let mut headers = UPGRADE.to_vec();
        let (name, _) = headers.remove(missing);
        let answer = ask(&headers)?;
        assert_eq!(answer.status, 400, "without {name}: {answer:?}");
        assert!(answer.json()?["error"].is_string());
    }
    for (name, value) in [("Sec-WebSocket-Protocol", "sprag.v9, mqtt"), ("Sec-WebSocket-Version", "8")] {
        let mut headers = UPGRADE.to_vec();
        headers.retain(|(held, _)| *held != name);
        headers.push((name, value));
        assert_eq!(ask(&headers)?.status, 400, "{name}: {value}");
    }
    Ok(())
}

#[test]
fn a_terminal_too_many_is_told_to_come_back() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &[&ONE[..], &["--set", "server.max_terminals=2"]].concat())?;
    let first = RawTerminal::connect(server.address())?;
    let _second = RawTerminal::connect(server.address())?;
    let refused = process::get(server.address(), "/v1/stream", &UPGRADE)?;
    assert_eq!(refused.status, 503);
    let Some(wait) = refused.header("retry-after") else { bail!("no Retry-After: {refused:?}") };
    assert!((1..=60).contains(&wait.parse::<u64>()?), "{wait}");
    // A place that is given back is taken again.
    drop(first);
    process::until("a free place", || Ok(RawTerminal::connect(server.address()).ok()))?;
    Ok(())
}
