//! What a frame weighs, against the same content as JSON.
//!
//! Never: a goal for the network; only that binary is worth its trouble.

use crate::{
    json,
    samples::{self, Message, change, level},
};
use wire::{Block, BookDelta, BookSnapshot, ChainKind, Frame, QuoteBlock, ToTerminal};

/// Twenty instruments: each a delta of six levels and a quote.
fn typical() -> Vec<Block> {
    (0..20_u32)
        .flat_map(|id| {
            let price = 6_173_763 + i64::from(id) * 1_000;
            let changes = (0..6)
                .map(|at| {
                    let side = if at < 3 { market::Side::Bid } else { market::Side::Ask };
                    change(side, price + at * 3, 1_250_000 * u64::from(id + 1))
                })
                .collect();
            let quote = market::Quote { bid: Some(level(price, 50_000_000)), ask: Some(level(price + 1, 7_500)) };
            [
                Block::BookDelta(BookDelta { id, changes, ..samples::delta() }),
                Block::Quote(QuoteBlock { id, quote, ..samples::quote() }),
            ]
        })
        .collect()
}

fn deep() -> Vec<Block> {
    let side = |course: i64| (0..1_000).map(|at| level(6_173_763 + course * at * 2, 12_345_678)).collect();
    vec![Block::BookSnapshot(BookSnapshot { bids: side(-1), asks: side(1), ..samples::snapshot() })]
}

#[test]
fn a_frame_is_less_than_half_of_its_json() {
    for (name, blocks) in [("20 deltas and quotes", typical()), ("snapshot of 2 x 1,000 levels", deep())] {
        let frame = Frame { chain: ChainKind::Conflated, frame: 1, at_ms: 1_717_430_400_040, blocks };
        let message = Message::ToTerminal(ToTerminal::Frame(frame));
        let binary = message.encode().len();
        let text = serde_json::to_vec(&json::message(&message)).unwrap().len();
        println!("{name}: {binary} bytes, as JSON {text}");
        assert!(binary * 2 < text, "{name}: {binary} of {text}");
    }
}
