//! Which events blocks come to, and what becomes of captures with holes.
//!
//! Never: a right value that the code under test has made.

use super::*;
use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::{Arrival, VenueFeed},
};
use market::U256;

/// A tick of a pair: its place in the block, side, price, tranche and reserves.
type Row<'a> = (usize, u64, Side, i64, &'a str, u64);

fn block(height: u64, rows: &[Row<'_>]) -> Block {
    let pairs = vec![("a".into(), "b".into()), ("a".into(), "c".into())];
    let tick = |(pair, ordinal, side, tick_index, tranche, reserves): &Row<'_>| BlockTick {
        ordinal: *ordinal,
        pair: *pair,
        side: *side,
        tick_index: *tick_index,
        fee: u32::from(tranche.is_empty()),
        tranche: (*tranche).into(),
        reserves: U256::from(*reserves),
    };
    let used = rows.iter().map(|row| row.0 + 1).max().unwrap_or(0);
    let pairs = pairs.into_iter().take(used).collect();
    Block { height, events: 100, failed: 0, pairs, ticks: rows.iter().map(tick).collect() }
}

fn feed() -> BlockFeed {
    let listings = Arc::new(Listings::new(Arc::default()));
    let tranches = Arc::clone(listings.tranches());
    BlockFeed::new(listings, tranches, LegId(3))
}

fn at(from: u64) -> At {
    At { received_ns: 50, venue_ns: 40, from: batch::end_of(from) }
}

fn place(height: u64, ordinal: u64) -> u64 {
    batch::place_of(height, ordinal).unwrap()
}

fn deltas(events: &[Event]) -> Vec<(u32, u64, u64, Vec<u64>)> {
    let told = |event: &Event| match &event.body {
        Body::Delta(Delta { sequence: Sequence::Venue { first, last }, places, .. }) => {
            Some((event.symbol.0, *first, *last, places.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(told).collect()
}

#[test]
fn each_instrument_gets_one_event_of_a_block_that_joins_its_last_one() {
    let mut feed = feed();
    let mut out = Vec::new();
    let first = block(5, &[(0, 2, Side::Ask, 7, "", 1), (1, 3, Side::Bid, 1, "", 1), (0, 9, Side::Bid, 6, "", 1)]);
    feed.deliver(&first, at(4), &mut out).unwrap();
    let kinds: Vec<_> = out.iter().map(|event| (event.symbol.0, std::mem::discriminant(&event.body))).collect();
    assert_eq!((kinds.len(), kinds[0].0, kinds[1].0, kinds[2].0), (6, 0, 0, 1));
    let Body::Restored(empty) = &out[1].body else { panic!("it begins empty: {out:?}") };
    assert_eq!((empty.version.seq, empty.through, empty.from_log), (batch::end_of(4), empty.version, true));
    assert_eq!((empty.scale, empty.ticks.as_deref()), (SCALE, Some(&[][..])));
    assert_eq!((out[5].leg, out[5].received_ns, out[5].venue_ns), (LegId(3), 50, 40));
    let begin = batch::end_of(4) + 1;
    let told = deltas(&out);
    let right = [(0, begin, place(5, 9), vec![place(5, 2), place(5, 9)]), (1, begin, place(5, 3), vec![place(5, 3)])];
    assert_eq!(told, right);
    out.clear();
    // The second pair is not in block 6; its next event joins all the same.
    feed.deliver(&block(6, &[(0, 0, Side::Ask, 7, "", 2)]), at(5), &mut out).unwrap();
    feed.deliver(&block(7, &[(1, 1, Side::Bid, 1, "", 0)]), at(6), &mut out).unwrap();
    let right =
        [(0, place(5, 9) + 1, place(6, 0), vec![place(6, 0)]), (1, place(5, 3) + 1, place(7, 1), vec![place(7, 1)])];
    assert_eq!(deltas(&out), right);
    assert_eq!(out.len(), 2, "nothing is introduced again: {out:?}");
}

#[test]
fn restored_instruments_go_on_from_where_the_stream_does() {
    let mut feed = feed();
    let instrument = feed.listings.directory().intern(VENUE, "a<>c", "a", "c").unwrap();
    feed.known(&[instrument]);
    let mut out = Vec::new();
    feed.deliver(&block(6, &[(0, 0, Side::Ask, 7, "", 2)]), at(5), &mut out).unwrap();
    feed.deliver(&block(9, &[(1, 1, Side::Bid, 1, "", 5)]), at(8), &mut out).unwrap();
    let of_restored: Vec<_> = out.iter().filter(|event| event.symbol.0 == 0).collect();
    assert_eq!(of_restored.len(), 1, "{of_restored:?}");
    assert_eq!(deltas(&out)[1], (0, batch::end_of(5) + 1, place(9, 1), vec![place(9, 1)]));
}

#[test]
fn a_tranche_is_dead_when_none_of_its_ticks_lives() {
    let mut feed = feed();
    let tranches = Arc::clone(&feed.tranches);
    let known = |height: u64| {
        tranches.forget_dead(height);
        tranches.len()
    };
    let mut out = Vec::new();
    let born = [(0, 0, Side::Ask, 7, "t", 1), (1, 1, Side::Ask, 7, "t", 1), (0, 2, Side::Bid, 1, "u", 1)];
    feed.deliver(&block(5, &born), at(4), &mut out).unwrap();
    feed.deliver(&block(6, &[(0, 0, Side::Ask, 7, "t", 0)]), at(5), &mut out).unwrap();
    assert_eq!(known(6), 2, "it lives at the other pair");
    let revived = [(1, 0, Side::Ask, 7, "t", 0), (0, 1, Side::Bid, 1, "u", 0), (0, 2, Side::Bid, 1, "u", 4)];
    feed.deliver(&block(7, &revived), at(6), &mut out).unwrap();
    assert_eq!(known(6), 2, "not before it is durable");
    assert_eq!(known(7), 1, "one was filled again in the same block");
    feed.snapshot(&block(8, &[(0, 0, Side::Ask, 7, "v", 1)]), at(7), &mut out).unwrap();
    assert_eq!(known(8), 1, "what a snapshot lacks is dead");
}

#[test]
fn a_snapshot_replaces_every_known_book() {
    let mut feed = feed();
    let mut out = Vec::new();
    feed.deliver(&block(5, &[(0, 0, Side::Ask, 7, "", 1)]), at(4), &mut out).unwrap();
    feed.known(&[feed.listings.directory().intern(VENUE, "x<>y", "x", "y").unwrap()]);
    out.clear();
    let whole = [(1, 0, Side::Ask, 7, "", 1), (1, 1, Side::Ask, 7, "", 2), (1, 2, Side::Ask, 8, "", 0)];
    feed.snapshot(&block(9, &whole), at(5), &mut out).unwrap();
    let told: Vec<_> = out
        .iter()
        .filter_map(|event| match &event.body {
            Body::Snapshot(snapshot) => Some((event.symbol.0, snapshot.sequence, snapshot.ticks.len())),
            _ => None,
        })
        .collect();
    let end = Sequence::Venue { first: batch::end_of(9), last: batch::end_of(9) };
    assert_eq!(told, [(0, end, 0), (2, end, 1), (1, end, 0)]);
    out.clear();
    feed.deliver(&block(10, &[(0, 0, Side::Ask, 7, "", 1)]), at(9), &mut out).unwrap();
    assert_eq!(deltas(&out), [(0, batch::end_of(9) + 1, place(10, 0), vec![place(10, 0)])]);
}

#[test]
fn what_came_too_late_is_for_the_store_alone() {
    let mut feed = feed();
    let mut out = Vec::new();
    feed.deliver(&block(9, &[(0, 0, Side::Ask, 7, "", 1)]), at(8), &mut out).unwrap();
    out.clear();
    feed.late(&block(7, &[(0, 4, Side::Ask, 7, "", 3), (0, 6, Side::Ask, 8, "", 3)]), at(9), &mut out).unwrap();
    let [Event { body: Body::Late(late), .. }] = out.as_slice() else { panic!("one: {out:?}") };
    assert_eq!((late.sequence.last(), late.places.as_slice()), (place(7, 6), &[place(7, 4), place(7, 6)][..]));
    feed.deliver(&block(10, &[(0, 0, Side::Ask, 7, "", 2)]), at(9), &mut out).unwrap();
    assert_eq!(deltas(&out)[0].1, place(9, 0) + 1, "the stream goes on where it was");
}

#[test]
fn nothing_of_a_block_is_told_if_a_tranche_cannot_be_numbered() {
    let mut feed = feed();
    let long = "x".repeat(market::tranche::TRANCHE_BYTES_MAX + 1);
    let mut out = Vec::new();
    let refused =
        feed.deliver(&block(5, &[(0, 0, Side::Ask, 7, "", 1), (0, 1, Side::Ask, 7, &long, 1)]), at(4), &mut out);
    assert!(matches!(refused, Err(Undecodable::Tranche(_))) && out.is_empty(), "{refused:?}");
}

/// What the feed of a capture tells of documents, by height; `None` for one that cannot be read.
fn captured(documents: &[Option<u64>]) -> (Vec<String>, crate::venue_feed::FeedCounts) {
    let mut feed = Feed::new(Arc::new(Listings::new(Arc::default())));
    let mut out = Vec::new();
    for document in documents {
        let text = document.map_or("{".to_owned(), |height| {
            let attributes =
                [("module", "dex"), ("TokenZero", "a"), ("TokenOne", "b"), ("TokenIn", "a"), ("TickIndex", "1")];
            let attributes = attributes.into_iter().chain([("Fee", "1"), ("Reserves", "5")]);
            let attributes: Vec<_> =
                attributes.map(|(key, value)| format!(r#"{{"key":"{key}","value":"{value}"}}"#)).collect();
            let event = format!(r#"{{"type":"TickUpdate","attributes":[{}]}}"#, attributes.join(","));
            format!(r#"{{"height":"{height}","txs_results":null,"end_block_events":[{event}]}}"#)
        });
        let raw = RawPayload::Text(text);
        let frame = RawFrame { ts_ns: 1, kind: RawKind::Http, conn: "node".into(), url: None, raw };
        drop(feed.decode(Arrival { frame: &frame, position: 1, leg: LegId(0) }, &mut out));
    }
    let told = |event: &Event| match &event.body {
        Body::Delta(delta) => Some(batch::height_of(delta.sequence.last()).to_string()),
        Body::Hole => Some("hole".to_owned()),
        Body::Filled => Some("filled".to_owned()),
        _ => None,
    };
    (out.iter().filter_map(told).collect(), feed.counts())
}

#[test]
fn a_capture_goes_on_over_no_block_that_could_not_be_read() {
    let (told, counts) = captured(&[Some(5), Some(5), Some(8), Some(6), Some(9)]);
    assert_eq!((told, counts.passed), (["5", "8", "9"].map(String::from).to_vec(), 2), "repeated, and older");
    let (told, counts) = captured(&[None, Some(5), None, Some(7), Some(6), Some(7), Some(8)]);
    let right = ["5", "hole", "6", "7", "filled", "8"].map(String::from).to_vec();
    assert_eq!((told, counts.missing, counts.undecodable), (right, 1, 2));
    let (told, counts) = captured(&[Some(5), None, Some(8), Some(9)]);
    assert_eq!((told, counts.missing), (["5", "hole"].map(String::from).to_vec(), 2));
}
