//! The analysts' listener against the real engine: what it refuses, its limits, and that neither touches what writes.
//! Skipped with `CLICKHOUSE_URL`, where it is not under test.
//!
//! Never: another process's engine.

use super::*;
use connectors::clickhouse::{AnalystLimits, ChildOptions, analysts::judged, running_analysts_url};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

/// What came back: status, ClickHouse's code, and the body.
type Answer = (u16, Option<u32>, String);

/// Sends a statement as the body of a POST request.
fn post(url: &str, path: &str, sql: &str) -> Answer {
    sent(url, &format!("POST {path} HTTP/1.1\r\nHost: localhost"), sql.as_bytes())
}

fn sent(url: &str, head: &str, body: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all(head.as_bytes()).unwrap();
    // A refused body is not read to its end.
    let written = socket.write_all(body);
    let mut answer = Vec::new();
    let read = socket.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { panic!("{written:?} {read:?} {answer}") };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let code = head.lines().find_map(|line| line.strip_prefix("x-clickhouse-exception-code: "));
    (status, code.map(|code| code.parse().unwrap()), body.to_owned())
}

/// The listener beside this process's engine; nothing where a server is under test.
fn listener() -> Option<(InUse, String)> {
    if std::env::var_os("CLICKHOUSE_URL").is_some() {
        return None;
    }
    let (engine, _) = InUse::take();
    let url = engine.analysts_url();
    Some((engine, url))
}

#[test]
fn every_way_out_of_the_tables_is_closed() {
    let Some((_engine, url)) = listener() else { return };
    let secret = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = secret.lines().next().unwrap();
    let target = scratch("outfile");
    let outfile = format!("SELECT 1 INTO OUTFILE '{}'", target.display());
    for (sql, codes) in [
        ("SELECT file('/etc/passwd')", &[497][..]),
        ("SELECT `FILE`('/etc/passwd')", &[497]),
        ("SELECT \"file\" /* x */ ('/etc/passwd')", &[497]),
        ("SELECT `\\x66ile`('/etc/passwd')", &[62]),
        ("SELECT \u{201c}file\u{201d}('/etc/passwd')", &[62]),
        ("SELECT * APPLY file FROM (SELECT '/etc/passwd')", &[497]),
        ("SELECT * APPLY(file) FROM (SELECT '/etc/passwd')", &[497]),
        ("SELECT $ file('/etc/passwd') $ 1 $ file('/etc/passwd') $", &[62]),
        ("SELECT 1 /* /* */ , file('/etc/passwd') -- */", &[62]),
        ("SELECT 1 # \n, file('/etc/passwd')", &[62]),
        ("SELECT 1 // \n, file('/etc/passwd')", &[62]),
        ("SELECT * FROM file('/etc/passwd', 'LineAsString')", &[497]),
        ("SELECT * FROM '/etc/passwd'", &[497, 60, 62, 291]),
        ("SELECT * FROM default.`/etc/passwd`", &[497, 60]),
        ("SELECT * FROM `/etc/passwd`", &[497, 60]),
        ("SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", &[497]),
        ("SELECT * FROM remote('127.0.0.1', system.one)", &[497]),
        ("SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')", &[497]),
        ("SELECT * FROM executable('cat /etc/passwd', 'LineAsString', 's String')", &[497]),
        ("DESCRIBE TABLE file('/etc/passwd', 'LineAsString')", &[497]),
        ("EXPLAIN SELECT file('/etc/passwd')", &[497]),
        (outfile.as_str(), &[497]),
        ("SELECT * FROM system.stack_trace", &[497]),
        ("SELECT sleep(3)", &[497]),
        ("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV", &[164]),
        ("INSERT INTO t VALUES (1)", &[164]),
        ("CREATE TABLE t (a UInt8) ENGINE = Memory", &[164]),
        ("CREATE TEMPORARY TABLE t (a UInt8)", &[164]),
        ("DROP DATABASE system", &[164]),
        ("SET max_threads = 8", &[164]),
        ("SYSTEM STOP MERGES", &[164]),
        ("KILL QUERY WHERE 1", &[164]),
        ("BACKUP DATABASE system TO File('x')", &[164]),
        ("SELECT 1 SETTINGS max_threads = 8", &[164]),
        ("SELECT 1; DROP DATABASE system", &[62]),
        ("WITH 1 AS x INSERT INTO t SELECT x", &[164]),
        ("", &[62]),
    ] {
        let (status, code, body) = post(&url, "/", sql);
        assert!(status >= 400 && code.is_some_and(|code| codes.contains(&code)), "{sql}: {status} {code:?} {body}");
        assert!(!body.contains(line), "{sql}");
    }
    assert!(!target.exists());
    // The parameters of a statement are values and no names of functions.
    let (_, code, body) = post(&url, "/?param_f=file", "SELECT {f:Identifier}('/etc/passwd')");
    assert!(code.is_some() && !body.contains(line), "{body}");
    let (_, code, body) = post(&url, "/?param_f=file", "SELECT * APPLY {f:Identifier} FROM (SELECT '/etc/passwd')");
    assert!(code.is_some() && !body.contains(line), "{body}");
}

/// The account that may write is refused sources as well, by the engine's grants.
#[tokio::test]
async fn sources_are_closed_to_the_other_listener_too() {
    if std::env::var_os("CLICKHOUSE_URL").is_some() {
        return;
    }
    let address = store().await;
    for from in [
        "file('/etc/passwd', 'LineAsString')",
        "url('http://127.0.0.1:1/', 'LineAsString')",
        "remote('127.0.0.1:1', system.one)",
        "s3('http://127.0.0.1:1/bucket/a', 'LineAsString')",
        "sqlite('/tmp/a', 'b')",
        "default.`/etc/passwd`",
    ] {
        let error = address.client().query_raw(&format!("SELECT * FROM {from}")).execute().await.unwrap_err();
        assert!(error.to_string().contains("Code: 497"), "{from}: {error}");
    }
}

#[test]
fn every_table_function_of_the_engine_was_judged() {
    let Some((_engine, url)) = listener() else { return };
    let (status, _, names) = post(&url, "/", "SELECT name FROM system.table_functions");
    assert_eq!(status, 200);
    let unknown: Vec<_> = names.lines().filter(|name| judged(name).is_none()).collect();
    assert_eq!(unknown, [""; 0]);
    assert!(names.lines().count() > 50);
}

#[test]
fn what_reads_is_answered_in_every_form() {
    let Some((_engine, url)) = listener() else { return };
    for (path, sql, answer) in [
        ("/", "SELECT 1 + 1", "2\n"),
        ("/?query=SELECT", "4+5", "9\n"),
        ("/?param_x=7", "SELECT {x:UInt8}", "7\n"),
        ("/?database=system", "SELECT database()", "system\n"),
        ("/?session_id=a&session_timeout=60", "SELECT 1 FORMAT CSV;", "1\n"),
        ("/?max_threads=1&readonly=1", "SELECT getSetting('max_threads')", "1\n"),
        ("/?max_memory_usage=1000000", "SELECT getSetting('readonly')", "1\n"),
        ("/?default_format=JSONEachRow", "SELECT 1 AS a", "{\"a\":1}\n"),
        (
            "/?output_format_json_quote_64bit_integers=1",
            "SELECT toUInt64(1) AS a FORMAT JSONEachRow",
            "{\"a\":\"1\"}\n",
        ),
    ] {
        assert_eq!(post(&url, path, sql), (200, None, answer.to_owned()), "{path} {sql}");
    }
    for (path, code) in [
        ("/?max_threads=64", 452),
        ("/?max_memory_usage=0", 452),
        ("/?readonly=0", 164),
        ("/?allow_introspection_functions=1", 164),
        ("/?format_schema=x", 164),
        ("/?no_such_setting=1", 164),
        ("/?compress=1", 48),
        ("/?role=a", 48),
        ("/?user=root", 516),
        ("/?password=x", 516),
    ] {
        assert_eq!(post(&url, path, "SELECT 1").1, Some(code), "{path}");
    }
    assert_eq!(sent(&url, "GET /ping HTTP/1.1\r\nHost: elsewhere", b"").0, 200);
    assert_eq!(sent(&url, "POST / HTTP/1.1\r\nHost: evil.example", b"SELECT 1").1, Some(497));
    let large = format!("SELECT '{}'", "x".repeat(1 << 20));
    assert_eq!(post(&url, "/", &large).0, 413);
}

/// An engine of its own, for limits of its own.
async fn limited(name: &str, limits: AnalystLimits) -> Option<(connectors::clickhouse::EngineChild, String)> {
    if std::env::var_os("CLICKHOUSE_URL").is_some() {
        return None;
    }
    let data_dir = scratch(name);
    let database = "default".to_owned();
    let analysts = AnalystOptions { password: "secret".into(), database, limits, ..AnalystOptions::default() };
    let options = ChildOptions { analysts: Some(analysts), ..ChildOptions::default() };
    let child = child::start_with(&data_dir, options).await.unwrap();
    let url = running_analysts_url(&data_dir).unwrap();
    Some((child, url))
}

const ACCOUNT: &str = "/?user=analyst&password=secret";
/// Never done within the time that it has.
const ENDLESS: &str = "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)";

#[tokio::test]
async fn a_heavy_statement_takes_its_own_place_and_nobody_else_s() {
    let limits = AnalystLimits {
        statements: 1,
        waiting: 1,
        wait_ms: 200,
        seconds: 3,
        read_rows: u64::MAX >> 1,
        ..AnalystLimits::default()
    };
    let Some((child, url)) = limited("heavy", limits).await else { return };
    assert_eq!(post(&url, "/?user=analyst", "SELECT 1").1, Some(516));
    let address = StoreAddress::at(child.url());
    clickhouse::schema::apply(&address).await.unwrap();
    let started = Instant::now();
    let heavy_url = url.clone();
    let heavy = std::thread::spawn(move || post(&heavy_url, ACCOUNT, ENDLESS));
    let running =
        "SELECT count() FROM system.processes WHERE query LIKE '%cityHash64(number)%' AND query NOT LIKE '%processes%'";
    while address.client().query(running).fetch_one::<u64>().await.unwrap() == 0 {
        assert!(started.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // One waits in vain, one more is refused at once, and what writes goes on.
    let waiting_url = url.clone();
    let waiting = std::thread::spawn(move || post(&waiting_url, ACCOUNT, "SELECT 1"));
    let (directory, instrument) = directory();
    let event = changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1))], false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    assert_eq!(live(&address, &instrument).await.len(), 1);
    let (status, code, body) = waiting.join().unwrap();
    assert_eq!((status, code), (503, Some(202)), "{body}");
    assert!(body.contains("within 200 ms"), "{body}");
    let (_, code, body) = heavy.join().unwrap();
    assert_eq!(code, Some(159), "{body}");
    assert_eq!(post(&url, ACCOUNT, "SELECT 1"), (200, None, "1\n".to_owned()));
    child.stop().await.unwrap();
}

#[tokio::test]
async fn results_memory_and_quota_are_bounded() {
    let limits = AnalystLimits {
        result_rows: 1_000,
        result_bytes: 1 << 20,
        memory_bytes: 50_000_000,
        read_rows: 5_000_000,
        quota_statements: 9,
        ..AnalystLimits::default()
    };
    let Some((child, url)) = limited("bounded", limits).await else { return };
    let written = format!("SELECT toUInt8(1) AS {} FROM numbers(1000) FORMAT JSONEachRow", "x".repeat(2_000));
    for (sql, code) in [
        ("SELECT number FROM numbers(100000)", 396),
        ("SELECT repeat('x', 10000) FROM numbers(500)", 396),
        // Small in the engine's blocks, and large as it is written.
        (written.as_str(), 396),
        ("SELECT groupArray(number) FROM numbers(4900000)", 241),
        ("SELECT count() FROM numbers(6000000) WHERE number % 7 = 1", 158),
    ] {
        let found = post(&url, ACCOUNT, sql);
        assert_eq!(found.1.unwrap_or(0), code, "{sql}: {}", found.2.get(..300).unwrap_or(&found.2));
    }
    for _ in 5..9 {
        assert_eq!(post(&url, ACCOUNT, "SELECT 1").0, 200);
    }
    let (status, code, body) = post(&url, ACCOUNT, "SELECT 1");
    assert_eq!((status, code), (429, Some(201)), "{body}");
    assert!(body.contains("queries = 9 of 9"), "{body}");
    child.stop().await.unwrap();
}
