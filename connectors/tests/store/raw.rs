//! Venue messages in the log, to the byte.
//!
//! Never: a message that is read as text.

use super::*;
use connectors::{
    clickhouse::RawEvent,
    raw::{RawFrame, RawKind, RawPayload},
};

/// Venue, stream, height, previous height, `part of parts: id`, payload in hex digits, both times.
type Stored = (String, String, u64, u64, String, String, i64, i64);

async fn stored(address: &StoreAddress) -> Vec<Stored> {
    let query = "SELECT venue, stream, height, previous_height, \
                 concat(toString(part), ' of ', toString(parts), ': ', message_id), \
                 hex(payload), \
                 published_at, ingestion_timestamp FROM raw_events ORDER BY stream, height";
    address.client().query(query).fetch_all().await.unwrap()
}

#[tokio::test]
async fn every_byte_of_a_message_is_kept_once() {
    let address = store().await;
    let (directory, instrument) = directory();
    let frame = |conn: &str, ts_ns: u64, raw: RawPayload| RawFrame {
        ts_ns,
        kind: RawKind::Ws,
        conn: conn.into(),
        url: None,
        raw,
    };
    let binary: Vec<u8> = (0..=u8::MAX).rev().collect();
    let text = "{\"u\": 1}\n\nwith a blank line, a tab\t, a quote ' and é";
    let frames = [
        (frame("a", RECEIVED_NS, RawPayload::Text(text.to_owned())), 1, 1),
        (frame("a", RECEIVED_NS + 1, RawPayload::Binary(binary.clone())), 5, 1),
        (frame("b", RECEIVED_NS + 2, RawPayload::Binary(Vec::new())), 7, 7),
    ];
    let mut events: Vec<_> = frames
        .iter()
        .map(|(frame, position, previous)| {
            SinkInput::Raw(RawEvent::of_frame(Venue::KrakenSpot, frame, *position, *previous))
        })
        .collect();
    events.push(SinkInput::Changes(changes(&instrument, Version::new(1, 1), &[(Side::Bid, 1, number(1))], false)));
    for _ in 0..2 {
        let report = write(&address, &directory, WriterOptions::default(), events.clone()).await;
        assert_eq!((report.counters.rows_pushed, report.counters.rows_inserted), (4, 4));
    }
    let row = |stream: &str, height, previous_height, bytes: &[u8], ns: u64| {
        let received = i64::try_from(ns).unwrap();
        let (venue, id) = ("kraken_spot".to_owned(), format!("0 of 1: {stream}/{height}"));
        let digits = bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        (venue, stream.to_owned(), height, previous_height, id, digits, received, received)
    };
    let right = [
        row("a", 1, 1, text.as_bytes(), RECEIVED_NS),
        row("a", 5, 1, &binary, RECEIVED_NS + 1),
        row("b", 7, 7, b"", RECEIVED_NS + 2),
    ];
    assert_eq!(stored(&address).await, right);
    assert_eq!(count(&address, "tick_updates").await, 1);
}

#[tokio::test]
async fn a_message_that_cannot_be_stored_yet_holds_up_no_change() {
    let address = store().await;
    let (directory, instrument) = directory();
    execute(&address, "RENAME TABLE raw_events TO elsewhere").await;
    let running = Running::start(&address, &directory, WriterOptions::default());
    let stream: Arc<str> = "a".into();
    let raw = RawEvent {
        venue: Venue::BinanceSpot,
        stream,
        position: 1,
        previous: 1,
        payload: b"x".as_slice().into(),
        received_ns: RECEIVED_NS,
    };
    running.input.send(SinkInput::Raw(raw)).await.unwrap();
    let event = changes(&instrument, Version::new(1, 1), &[(Side::Bid, 1, number(1))], false);
    running.input.send(SinkInput::Changes(event)).await.unwrap();
    while running.view.durable(instrument.id).is_none() || running.view.counters().retries < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    execute(&address, "RENAME TABLE elsewhere TO raw_events").await;
    assert_eq!(running.end().await.counters.rows_inserted, 2);
    assert_eq!(stored(&address).await.len(), 1);
}
