//! What holds for every message and for every run of bytes.
//!
//! Never: a panic of a decoder; a message that loses a digit.

use crate::{arbitrary, samples};
use proptest::prelude::*;
use wire::{Block, EncodeError, FrameBuilder, ToServer, ToTerminal, decode_block, encode_block};

/// Decodes in both directions; whatever is accepted must be the one encoding of its value.
fn decode_everywhere(bytes: &[u8]) {
    if let Ok(message) = ToTerminal::decode(bytes) {
        assert_eq!(message.encode().unwrap(), bytes);
    }
    if let Ok(message) = ToServer::decode(bytes) {
        assert_eq!(message.encode().unwrap(), bytes);
    }
    if let Ok(block) = decode_block(bytes) {
        let mut again = Vec::new();
        encode_block(&block, &mut again).unwrap();
        assert_eq!(again, bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_message_to_a_terminal_round_trips(message in arbitrary::to_terminal()) {
        let bytes = message.encode().unwrap();
        prop_assert_eq!(ToTerminal::decode(&bytes), Ok(message));
        for length in 0..bytes.len() {
            prop_assert!(ToTerminal::decode(&bytes[..length]).is_err(), "a truncation at {} was accepted", length);
        }
        prop_assert!(ToTerminal::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn every_message_to_the_server_round_trips(message in arbitrary::to_server()) {
        let bytes = message.encode().unwrap();
        prop_assert_eq!(ToServer::decode(&bytes), Ok(message));
        for length in 0..bytes.len() {
            prop_assert!(ToServer::decode(&bytes[..length]).is_err(), "a truncation at {} was accepted", length);
        }
    }

    #[test]
    fn any_bytes_give_a_value_or_an_error(
        kind in prop_oneof![0..10_u8, 0x41..0x44_u8, any::<u8>()],
        rest in proptest::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..200),
    ) {
        decode_everywhere(&rest);
        decode_everywhere(&[&[kind][..], &rest].concat());
        decode_everywhere(&[&[3, 0, 0, kind][..], &rest].concat());
    }

    #[test]
    fn mutated_golden_bytes_give_a_value_or_an_error(
        mutations in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        for sample in samples::samples() {
            let mut bytes = sample.message.encode().to_vec();
            for (at, byte, way) in &mutations {
                let at = at.index(bytes.len().max(1));
                match way {
                    0 if at < bytes.len() => bytes[at] = *byte,
                    1 if at < bytes.len() => { bytes.remove(at); }
                    _ => bytes.insert(at, *byte),
                }
            }
            decode_everywhere(&bytes);
        }
    }
}

#[test]
fn a_digest_is_the_crc_of_the_level_section_of_the_snapshot() {
    for depth in [0, 1, 63, 64, 65, 200] {
        let side = |course: i64| (0..depth).map(|at| samples::level(course * at * 3, 7 + at.unsigned_abs())).collect();
        let book = wire::BookSnapshot { bids: side(-1), asks: side(1), horizon: [None, None], ..samples::snapshot() };
        let mut bytes = Vec::new();
        encode_block(&Block::BookSnapshot(book.clone()), &mut bytes).unwrap();
        // kind, instrument and version, then the scale; feed, age and marks of a byte each, then counts and levels.
        let head = 1 + 1 + 1 + 6;
        let section = [&bytes[head..head + 2], &bytes[head + 5..]].concat();
        let digest = |book: &wire::BookSnapshot| {
            wire::digest_of(book.scale, book.bids.iter().copied(), book.asks.iter().copied())
        };
        assert_eq!(digest(&book), Ok(crc32fast::hash(&section)), "{depth}");
        if depth > 1 {
            let mut other = book.clone();
            other.asks[0].quantity = samples::level(0, 1).quantity;
            assert_ne!(digest(&other), digest(&book));
            other.bids.reverse();
            assert_eq!(digest(&other), Err(EncodeError::OutOfOrder));
        }
    }
}

#[test]
fn a_frame_of_encoded_blocks_is_the_encoded_frame() {
    let blocks = [Block::BookDelta(samples::delta()), Block::Quote(samples::quote()), Block::Best(samples::best())];
    let mut builder = FrameBuilder::new(4, 5);
    for block in &blocks {
        let mut bytes = Vec::new();
        encode_block(block, &mut bytes).unwrap();
        assert_eq!(decode_block(&bytes).as_ref(), Ok(block));
        builder.push_encoded(&bytes).unwrap();
    }
    let frame = wire::Frame { chain: wire::ChainKind::Conflated, frame: 4, at_ms: 5, blocks: blocks.to_vec() };
    assert_eq!(builder.finish(), ToTerminal::Frame(frame).encode().unwrap());
}

#[test]
fn a_value_outside_the_wire_is_refused_and_leaves_no_bytes() {
    let mut out = vec![7];
    let mut delta = samples::delta();
    delta.changes.reverse();
    assert_eq!(encode_block(&Block::BookDelta(delta.clone()), &mut out), Err(EncodeError::OutOfOrder));
    wire::sort_changes(&mut delta.changes);
    delta.version = delta.base;
    assert_eq!(encode_block(&Block::BookDelta(delta), &mut out), Err(EncodeError::NotAfterBase));
    let mut snapshot = samples::snapshot();
    snapshot.bids.reverse();
    assert_eq!(encode_block(&Block::BookSnapshot(snapshot.clone()), &mut out), Err(EncodeError::OutOfOrder));
    snapshot.bids = vec![samples::level(5, 0)];
    assert_eq!(encode_block(&Block::BookSnapshot(snapshot), &mut out), Err(EncodeError::ZeroQuantity));
    assert_eq!(out, [7]);
}

#[test]
fn a_full_frame_refuses_the_next_block_and_stays_whole() {
    let mut builder = FrameBuilder::new(0, 0);
    let megabyte = vec![0; 1024 * 1024];
    let pushed = (0..20).take_while(|_| builder.push_encoded(&megabyte).is_ok()).count();
    assert_eq!(pushed, 15);
    assert!(builder.finish().len() <= wire::bounds::MESSAGE_BYTES_MAX);
}
