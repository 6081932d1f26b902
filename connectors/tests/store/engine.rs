//! The embedded engine's HTTP interface, with the official client and by hand. Skipped with `CLICKHOUSE_URL`, where
//! it is not under test.
//!
//! Never: another process's engine.

use super::*;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// Sends a request and gives the status code, the exception code and the body.
fn request(head: &str, body: &[u8]) -> Option<(u16, Option<u32>, String)> {
    if std::env::var_os("CLICKHOUSE_URL").is_some() {
        return None;
    }
    let (_engine, url) = InUse::take();
    let mut socket = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!("{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all(head.as_bytes()).unwrap();
    // A refused body is not read to its end.
    let sent = socket.write_all(body);
    let mut answer = Vec::new();
    let read = socket.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { panic!("{sent:?} {read:?} {answer}") };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let code = head.lines().find_map(|line| line.strip_prefix("x-clickhouse-exception-code: "));
    Some((status, code.map(|code| code.parse().unwrap()), body.to_owned()))
}

#[track_caller]
fn answers(head: &str, body: &[u8], status: u16, code: Option<u32>, words: &str) {
    if let Some((found, found_code, text)) = request(head, body) {
        assert_eq!((found, found_code), (status, code), "{head}: {text}");
        assert!(text.contains(words), "{head}: {text}");
    }
}

#[test]
fn statements_come_by_url_body_or_both() {
    answers("GET /ping HTTP/1.1", b"", 200, None, "Ok.");
    answers("GET /?query=SELECT+1%2B1 HTTP/1.1", b"", 200, None, "2\n");
    answers("POST / HTTP/1.1", b"SELECT 3 FORMAT JSONEachRow", 200, None, "{\"3\":3}");
    answers("POST /?query=SELECT HTTP/1.1", b"4+5", 200, None, "9\n");
    answers("GET /?query=SELECT+1&default_format=JSON HTTP/1.1", b"", 200, None, "\"rows\": 1");
    answers("GET /?query=SELECT+%7Bx:UInt8%7D&param_x=7 HTTP/1.1", b"", 200, None, "7\n");
    answers("GET /?query=SELECT+database()&database=system HTTP/1.1", b"", 200, None, "system\n");
    answers("GET /?query=SELECT+getSetting('max_threads')&max_threads=3 HTTP/1.1", b"", 200, None, "3\n");
    answers("GET /elsewhere HTTP/1.1", b"", 404, None, "no handle");
    answers("DELETE / HTTP/1.1", b"", 405, None, "GET or POST");
}

#[test]
fn errors_carry_their_code() {
    answers("POST / HTTP/1.1", b"SELECT * FROM nowhere", 404, Some(60), "nowhere");
    answers("POST / HTTP/1.1", b"SELEKT", 400, Some(62), "Syntax error");
    answers(
        "GET /?query=SELECT+1&no_such_setting=1 HTTP/1.1",
        b"",
        400,
        Some(115),
        "Unknown setting 'no_such_setting'",
    );
    answers("GET /?query=SELECT+1&path=/ HTTP/1.1", b"", 400, Some(115), "Unknown setting 'path'");
    answers("GET /?query=SELECT+1&max_threads=many HTTP/1.1", b"", 400, Some(27), "");
    answers("GET /?query=SELECT+1&compress=1 HTTP/1.1", b"", 501, Some(48), "compress");
    answers("GET /?query=CREATE+DATABASE+never HTTP/1.1", b"", 403, Some(164), "");
    answers("POST /?query=SELECT+1&decompress=1 HTTP/1.1", b"nonsense", 400, Some(271), "truncated");
}

#[test]
fn a_body_beyond_the_bound_is_refused() {
    let body = vec![b' '; clickhouse::http::BODY_BYTES_MAX + 1];
    answers("POST / HTTP/1.1", &body, 413, Some(241), "send it in parts");
}

#[tokio::test]
async fn inserts_by_hand_keep_blank_lines_and_find_their_database() {
    let address = store().await;
    execute(&address, "CREATE TABLE texts (id UInt8, text String) ENGINE = MergeTree ORDER BY id").await;
    let head = format!("POST /?database={} HTTP/1.1", address.database);
    let body =
        b"INSERT INTO texts FORMAT JSONEachRow\n{\"id\":1,\"text\":\"a\"}\n\n\n{\"id\":2,\"text\":\"b\\n\\nc\"}\n";
    answers(&head, body, 200, None, "");
    answers(&head, b"INSERT INTO texts VALUES (3, 'd')", 200, None, "");
    let head = format!("POST /?database={}&query=INSERT+INTO+texts+FORMAT+CSV%0A HTTP/1.1", address.database);
    answers(&head, b"4,e\n", 200, None, "");
    if std::env::var_os("CLICKHOUSE_URL").is_none() {
        let found: Vec<String> =
            address.client().query("SELECT text FROM texts ORDER BY id").fetch_all().await.unwrap();
        assert_eq!(found, ["a", "b\n\nc", "d", "e"]);
    }
}

#[tokio::test]
async fn the_official_client_works_as_with_a_server() {
    let address = store().await;
    let client = address.client();
    let query = client.query("SELECT {a:UInt128}, {b:String}, ?").param("a", u128::MAX).param("b", "x\n\ny").bind(5_u8);
    let found: (u128, String, u8) = query.fetch_one().await.unwrap();
    assert_eq!(found, (u128::MAX, "x\n\ny".to_owned(), 5));
    let error =
        client.query("SELECT throwIf(number = 50000) FROM numbers(100000)").fetch_all::<u8>().await.unwrap_err();
    assert!(error.to_string().contains("395"), "{error}");
    let tasks = (0..40_u64).map(|addend| {
        let client = client.clone();
        let sum = async move {
            client.query("SELECT ? + sum(number) FROM numbers(1000)").bind(addend).fetch_one::<u64>().await.unwrap()
        };
        tokio::spawn(sum)
    });
    for (addend, task) in (0..).zip(tasks.collect::<Vec<_>>()) {
        assert_eq!(task.await.unwrap(), addend + 499_500);
    }
}
