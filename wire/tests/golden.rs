//! The golden bytes of wire version 1: what was once sent can be read for ever, by every implementation.
//!
//! Never: a rewrite of a golden file without `SPRAG_GOLDEN_WRITE=1`, which a released version does not get.

use crate::{json, samples};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{fs, path::PathBuf};
use wire::{DecodeError, ToServer, ToTerminal};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn folder() -> PathBuf {
    root().join("tests/golden/wire-v1")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes to a terminal that every decoder must refuse, and why.
fn refused() -> Vec<(&'static str, Vec<u8>, DecodeError)> {
    let unknown = |what, value| DecodeError::UnknownCode { what, value };
    vec![
        ("no bytes", vec![], DecodeError::Truncated),
        ("unknown message kind", vec![0x00], DecodeError::UnknownKind { kind: 0 }),
        ("a request is not for a terminal", vec![0x43, 0x00], DecodeError::UnknownKind { kind: 0x43 }),
        ("a frame without its end mark", vec![0x03, 0x01, 0x01], DecodeError::Truncated),
        ("bytes after the end mark", vec![0x03, 0x01, 0x01, 0x00, 0x00], DecodeError::Trailing { bytes: 1 }),
        ("unknown block kind", vec![0x03, 0x01, 0x01, 0x09], DecodeError::UnknownBlock { kind: 9 }),
        ("a varint with a needless byte", vec![0x05, 0x81, 0x00, 0x00], DecodeError::NotCanonical),
        ("a varint beyond its field", vec![0x05, 0x80, 0x80, 0x80, 0x80, 0x10, 0x00], DecodeError::NumberRange),
        ("a varint beyond 64 bits", [&[0x03][..], &[0xFF; 9], &[0x02]].concat(), DecodeError::NumberRange),
        ("unknown feed bits", vec![0x03, 0, 0, 0x06, 0, 0x40, 0, 0], unknown("feed", 0x40)),
        ("unknown error code", vec![0x06, 0x00, 0x63, 0x00], unknown("error", 99)),
        ("unknown channel", vec![0x07, 0x01, 0x09, 0x00], unknown("channel", 9)),
        (
            "a quote without quantity",
            vec![0x03, 0, 0, 0x03, 0, 1, 1, 0, 0, 1, 0, 1, 2, 0, 0],
            DecodeError::ZeroQuantity,
        ),
        (
            "a quantity with a leading zero",
            vec![0x03, 0, 0, 0x03, 0, 1, 1, 0, 0, 1, 0, 1, 2, 2, 0, 1, 0],
            DecodeError::NotCanonical,
        ),
        ("a delta to its own base", vec![0x03, 0, 0, 0x02, 0, 1, 5, 0, 0, 1, 0, 0, 0], DecodeError::NotAfterBase),
        (
            "two changes of one price",
            vec![0x03, 0, 0, 0x02, 0, 1, 5, 0, 1, 1, 2, 0, 2, 0, 0, 0, 0],
            DecodeError::OutOfOrder,
        ),
        (
            "a digest of more than 32 bits",
            vec![0x03, 0, 0, 0x07, 0, 1, 5, 0x80, 0x80, 0x80, 0x80, 0x10, 0],
            DecodeError::NumberRange,
        ),
        ("a count beyond the bytes", vec![0x07, 0xFF, 0x7F, 0x01, 0x01], DecodeError::Truncated),
        (
            "a trade id that its order already says",
            vec![0x03, 0, 0, 0x04, 0, 0, 0, 1, 2, 14, 1, 0x37, 0, 0, 0, 0],
            DecodeError::NotCanonical,
        ),
        ("unknown view kind", vec![0x08, 0, 1, 1, 0x61, 4], unknown("view kind", 4)),
        ("a view of more than the whole", vec![0x08, 0, 1, 1, 0x61, 1, 0xC1, 0x84, 0x3D], DecodeError::NumberRange),
        ("a view of no width", vec![0x08, 0, 1, 1, 0x61, 2, 0], DecodeError::NumberRange),
        ("more views than there can be", vec![0x08, 0, 33], DecodeError::TooMany { count: 33, max: 32 }),
        ("unknown view marks", vec![0x03, 0, 0, 0x08, 0, 6, 1, 0], unknown("view marks", 6)),
        ("no value, and partial", vec![0x03, 0, 0, 0x08, 0, 8, 0], unknown("view marks", 8)),
        ("an imbalance with a sign of its own", vec![0x03, 0, 0, 0x08, 0, 18, 1, 0, 0], unknown("view marks", 18)),
        ("a spread of zero below zero", vec![0x03, 0, 0, 0x08, 0, 19, 1, 0, 0, 0], DecodeError::NotCanonical),
        (
            "an imbalance beyond the whole",
            vec![0x03, 0, 0, 0x08, 0, 2, 1, 0x82, 0x89, 0x7A, 0],
            DecodeError::NumberRange,
        ),
        (
            "a price with a trailing zero in its digits",
            vec![0x03, 0, 0, 0x05, 0, 1, 1, 10, 0, 1, 1, 0, 0, 0],
            DecodeError::NotCanonical,
        ),
    ]
}

fn manifest() -> Value {
    let messages: serde_json::Map<_, _> = samples::samples()
        .iter()
        .map(|sample| {
            let direction = match sample.message {
                samples::Message::ToTerminal(_) => "to_terminal",
                samples::Message::ToServer(_) => "to_server",
            };
            let entry = json!({
                "description": sample.description, "direction": direction,
                "file": format!("{}.bin", sample.name), "message": json::message(&sample.message),
            });
            (sample.name.to_owned(), entry)
        })
        .collect();
    let refused: Vec<_> = refused()
        .into_iter()
        .map(|(description, bytes, error)| {
            let debug = format!("{error:?}");
            let name = debug.split([' ', '{']).next().unwrap_or_default();
            json!({"description": description, "bytes": hex(&bytes), "error": name})
        })
        .collect();
    json!({"wire_version": wire::WIRE_VERSION.to_string(), "messages": messages, "refused": refused})
}

/// SHA-256 over each file's name, a zero byte and its bytes in hex, a line each, in the order of the names.
fn digest() -> String {
    let mut lines: Vec<_> = samples::samples()
        .iter()
        .map(|sample| format!("{}\0{}\n", sample.name, hex(&sample.message.encode())))
        .collect();
    lines.sort();
    hex(&Sha256::digest(lines.concat().as_bytes()))
}

fn write_if_told() {
    if std::env::var("SPRAG_GOLDEN_WRITE").is_ok_and(|value| value == "1") {
        fs::create_dir_all(folder()).unwrap();
        for sample in samples::samples() {
            fs::write(folder().join(format!("{}.bin", sample.name)), sample.message.encode()).unwrap();
        }
        let text = serde_json::to_string_pretty(&manifest()).unwrap();
        fs::write(folder().join("manifest.json"), text + "\n").unwrap();
        println!("golden-sha256: {}", digest());
    }
}

#[test]
fn golden_bytes_are_what_is_sent_and_what_is_read() {
    write_if_told();
    for sample in samples::samples() {
        let bytes = fs::read(folder().join(format!("{}.bin", sample.name))).unwrap();
        assert_eq!(hex(&bytes), hex(&sample.message.encode()), "{}", sample.name);
        assert_eq!(sample.message.decode_like(&bytes).as_ref(), Ok(&sample.message), "{}", sample.name);
    }
    let text = fs::read_to_string(folder().join("manifest.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), manifest());
    let files = fs::read_dir(folder()).unwrap().count();
    assert_eq!(files, samples::samples().len() + 1, "a golden file without a sample");
}

#[test]
fn what_must_be_refused_is_refused() {
    for (description, bytes, error) in refused() {
        assert_eq!(ToTerminal::decode(&bytes), Err(error), "{description}");
    }
    let long = vec![0x41; wire::bounds::REQUEST_BYTES_MAX + 1];
    let too_long = DecodeError::MessageTooLong { bytes: long.len(), max: wire::bounds::REQUEST_BYTES_MAX };
    assert_eq!(ToServer::decode(&long), Err(too_long));
}

#[test]
fn the_specification_names_these_bytes() {
    let specification = fs::read_to_string(root().join("docs/WIRE.md")).unwrap();
    let line = format!("golden-sha256: {}", digest());
    assert!(specification.contains(&line), "docs/WIRE.md lacks the line `{line}`");
    for name in
        ["hello", "heartbeat", "snapshot", "dex-snapshot", "delta", "quote", "digest", "views", "view", "subscribe"]
    {
        let sample = samples::samples().into_iter().find(|sample| sample.name == name).unwrap();
        let bytes = hex(&sample.message.encode());
        let shown: String = specification.split_whitespace().collect();
        assert!(shown.contains(&bytes), "docs/WIRE.md lacks the bytes of {name}: {bytes}");
    }
}
