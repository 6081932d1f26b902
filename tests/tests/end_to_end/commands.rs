//! The small commands, and what the process ends with.
//!
//! Never: a code that `docs/OPERATIONS.md` does not list.

use anyhow::{Context, Result};
use sprag_tests::process::{self, Server};
use std::{net::TcpListener, process::Output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let Output { status, stdout, stderr } = process::output(arguments)?;
    Ok((status.code(), text(&stdout), text(&stderr)))
}

#[test]
fn the_configuration_is_printed_and_checked() -> Result<()> {
    let (code, printed, _) = run(&["config", "print", "--set", "sim.pairs=7"])?;
    assert_eq!(code, Some(0));
    assert!(printed.contains("pairs = 7"), "{printed}");
    // What is printed is a file that says the same.
    let data = tempfile::tempdir()?;
    let file = data.path().join("sprag.toml");
    std::fs::write(&file, &printed)?;
    let file = file.to_str().context("a path that is not text")?;
    assert_eq!(run(&["config", "print", "--config", file])?.1, printed);
    assert_eq!(run(&["config", "check", "--config", file])?.0, Some(0));

    let (code, documented, _) = run(&["config", "print", "--documented"])?;
    assert!(code == Some(0) && documented.contains("# "), "{documented}");
    Ok(())
}

#[test]
fn an_unknown_key_or_a_value_over_its_limit_is_refused_by_name() -> Result<()> {
    let data = tempfile::tempdir()?;
    let file = data.path().join("sprag.toml");
    std::fs::write(&file, "[server]\nprot = 1\n")?;
    let file = file.to_str().context("a path that is not text")?;
    for (arguments, named) in [
        (["--config", file], "server.prot"),
        (["--set", "sim.piars=1"], "sim.piars"),
        (["--set", "sim.pairs=0"], "sim.pairs"),
        (["--set", "nonsense"], "nonsense"),
        (["--config", "/nowhere/sprag.toml"], "/nowhere/sprag.toml"),
    ] {
        let (code, _, said) = run(&[&["config", "check"], &arguments[..]].concat())?;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(named), "{said:?} does not name {named}");
    }
    Ok(())
}

#[test]
fn the_version_names_build_wire_and_schema_and_there_are_completions() -> Result<()> {
    let (code, said, _) = run(&["--version"])?;
    assert_eq!(code, Some(0));
    for part in [&format!("sprag {}", env!("CARGO_PKG_VERSION")), wire::SUBPROTOCOL, "schema"] {
        assert!(said.contains(part), "{said}");
    }
    let (code, script, _) = run(&["completions", "bash"])?;
    assert!(code == Some(0) && script.contains("_sprag") && script.contains("replay"), "{script}");
    Ok(())
}

#[test]
fn each_way_to_fail_has_its_code() -> Result<()> {
    let data = tempfile::tempdir()?;
    let dir = data.path().to_str().context("a path that is not text")?;
    let run_here = ["run", "--port", "0", "--data-dir", dir];
    let missing = [&run_here[..], &["--capture", "/nowhere.zst", "--venue", "binance_spot"]].concat();
    let (code, _, said) = run(&missing)?;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("/nowhere.zst"), "{said}");
    let (code, _, said) = run(&["replay", "/nowhere.zst", "--venue", "kraken_spot"])?;
    assert_eq!(code, Some(3), "{said}");

    let unknown = [&run_here[..], &["--capture", "/nowhere.zst", "--venue", "nowhere"]].concat();
    let (code, _, said) = run(&unknown)?;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("nowhere") && said.contains("binance_spot"), "{said}");
    assert_eq!(run(&["replay", "/nowhere.zst", "--venue", "nowhere"])?.0, Some(2));

    for (arguments, named) in [
        (&["--venue", "binance_spot"][..], "--instrument"),
        (&["--ws-url", "ws://127.0.0.1:1"], "--instrument"),
        (&["--rest-url", "http://127.0.0.1:1"], "--instrument"),
        (&["--legs", "2"], "--instrument"),
        (&["--instrument", "BTCUSDT"], "--venue"),
        (&["--venue", "binance_spot", "--instrument", "BTCUSDT", "--ws-url", "ws://127.0.0.1:1"], "rest_url"),
    ] {
        let (code, _, said) = run(&[&run_here[..], arguments].concat())?;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(named), "{said:?} does not name {named}");
    }

    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let (code, _, said) = run(&["run", "--port", &port, "--data-dir", dir])?;
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains(&port), "{said}");
    Ok(())
}

#[test]
fn a_data_directory_has_one_server() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &["--set", "sim.pairs=1"])?;
    let dir = data.path().to_str().context("a path that is not text")?;
    for store in [None, Some("--no-store")] {
        let second: Vec<&str> = ["run", "--port", "0", "--data-dir", dir].into_iter().chain(store).collect();
        let (code, _, said) = run(&second)?;
        assert_eq!(code, Some(6), "{said}");
        assert!(said.contains(dir), "{said}");
    }
    // The first one does not mind.
    assert_eq!(server.get("/readyz")?.status, 200);
    assert!(server.terminate()?.success());
    assert!(Server::start(data.path(), &["--set", "sim.pairs=1"])?.terminate()?.success());
    Ok(())
}
