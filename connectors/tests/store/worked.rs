//! The worked queries of `docs/ANALYSTS.md`, each with its result, by each of the clients that analysts use: curl, Python's
//! clickhouse-connect and the official JavaScript client. `cargo xtask test` installs these two and says where they are.
//!
//! Never: a query in the document that is not run, but those without a result.

use super::*;
use serde_json::Value;
use std::{
    io::Write,
    process::{Command, Stdio},
};

const DOCUMENT: &str = include_str!("../../../docs/ANALYSTS.md");
/// A Python that has clickhouse-connect.
const PYTHON: &str = "SPRAG_ANALYST_PYTHON";
/// A directory whose `node_modules` has `@clickhouse/client`.
const NODE: &str = "SPRAG_ANALYST_NODE";

/// A query and its result: names, then rows of text.
struct Worked {
    sql: String,
    result: Vec<Vec<String>>,
}

/// Fences with `sql` that one with `text` follows at once.
fn worked() -> Vec<Worked> {
    let mut found = Vec::new();
    let mut blocks = DOCUMENT.split("```").enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, block)| block).peekable();
    while let Some(block) = blocks.next() {
        let (Some(sql), Some(result)) =
            (block.strip_prefix("sql\n"), blocks.peek().and_then(|next| next.strip_prefix("text\n")))
        else {
            continue;
        };
        let row = |line: &str| {
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(ToOwned::to_owned).collect()
        };
        found.push(Worked {
            sql: sql.trim().trim_end_matches(';').to_owned(),
            result: result.lines().map(row).collect(),
        });
    }
    found
}

/// The store of the document: what happened is written there.
async fn prepared() -> Store {
    let store = store().await;
    for table in ["tick_state", "tick_updates"] {
        execute(&store, &format!("SYSTEM STOP MERGES {table}")).await;
    }
    let (_, script) = DOCUMENT.split_once("```sql\n-- What happened\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    for statement in script.split(";\n").filter(|statement| !statement.trim().is_empty()) {
        execute(&store, statement).await;
    }
    store
}

fn analysts(store: &Store) -> String {
    store._engine.as_ref().map_or_else(|| store.url.clone(), InUse::analysts_url)
}

/// Where a tool is; nothing where it is absent, which is a fault in CI.
fn tool(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok();
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(found.is_some() || !ci, "{variable} is not set; `cargo xtask test` sets it");
    if found.is_none() {
        println!("skipped: {variable} is not set (`cargo xtask test` sets it)");
    }
    found
}

fn aligned(rows: &[Vec<String>]) -> String {
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, cell)| format!("{cell:<width$}", width = width(at)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn compare(client: &str, found: &[Vec<Vec<String>>]) {
    let worked = worked();
    assert_eq!(found.len(), worked.len());
    let mut wrong = String::new();
    for (worked, found) in worked.iter().zip(found) {
        if worked.result != *found {
            wrong += &format!("{}\n\nby {client}:\n{}\n\n", worked.sql, aligned(found));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn curl(url: &str, database: &str, sql: &str) -> String {
    let database = format!("{url}/?database={database}");
    let output =
        Command::new("curl").args(["-sS", "--fail-with-body", &database, "--data-binary", sql]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{sql}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[tokio::test]
async fn curl_runs_them() {
    let store = prepared().await;
    assert!(worked().len() >= 12, "{}", worked().len());
    let run = |worked: &Worked| {
        let text = curl(&analysts(&store), &store.database, &format!("{} FORMAT TSVWithNames", worked.sql));
        text.lines().map(|line| line.split('\t').map(ToOwned::to_owned).collect()).collect()
    };
    compare("curl", &worked().iter().map(run).collect::<Vec<_>>());
}

/// Runs a script with the queries on its standard input, and reads the results that it prints.
fn by_script(mut command: Command, store: &Store) -> Vec<Vec<Vec<String>>> {
    let queries: Vec<_> = worked().into_iter().map(|worked| worked.sql).collect();
    let input = serde_json::json!({"url": analysts(store), "database": store.database, "queries": queries});
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(results).unwrap()
}

#[tokio::test]
async fn python_runs_them() {
    let Some(python) = tool(PYTHON) else { return };
    let store = prepared().await;
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/worked.py"));
    compare("clickhouse-connect", &by_script(command, &store));
}

#[tokio::test]
async fn javascript_runs_them() {
    let Some(directory) = tool(NODE) else { return };
    let store = prepared().await;
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/worked.mjs")).env(NODE, directory);
    compare("@clickhouse/client", &by_script(command, &store));
}
