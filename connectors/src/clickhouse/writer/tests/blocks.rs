//! Blocks of batch streams: one insert each, whole or not at all, and marks in their order.
//!
//! Never: the wall clock, or a store.

use super::*;
use crate::clickhouse::rows::block_token;
use market::{
    TrancheId,
    batch::{end_of, place_of},
};

const LEG: LegId = LegId(7);
const DEX: Scale = Scale { price: market::scale::PRICE_POWERS, quantity: -27 };

fn pair(number: u32) -> Arc<Instrument> {
    let directory = market::Directory::default();
    for before in 0..number {
        directory.intern(Venue::NeutronDex, &format!("P{before}<>Q"), &format!("P{before}"), "Q").unwrap();
    }
    directory.intern(Venue::NeutronDex, &format!("P{number}<>Q"), &format!("P{number}"), "Q").unwrap()
}

/// What a block did to an instrument: ordinals, tick indices and reserves.
fn block(symbol: u32, height: u64, rows: &[(u64, i64, u64)]) -> AdmittedChanges {
    let places: Vec<u64> = rows.iter().map(|(ordinal, ..)| place_of(height, *ordinal).unwrap()).collect();
    let change = |(_, index, reserves): &(u64, i64, u64)| TickChange::at(Side::Ask, *index, U256::from(*reserves));
    AdmittedChanges {
        symbol: SymbolId(symbol),
        version: Version::new(1, places.last().copied().unwrap_or_else(|| end_of(height))),
        received_ns: 1_000 + height,
        venue_ns: 500 + height,
        scale: DEX,
        changes: rows.iter().map(change).collect(),
        places,
        leg: LEG,
        whole: false,
        shown_ns: 0,
    }
}

fn whole(symbol: u32, height: u64, rows: &[(i64, u64)]) -> AdmittedChanges {
    let change = |(index, reserves): &(i64, u64)| TickChange::at(Side::Ask, *index, U256::from(*reserves));
    AdmittedChanges {
        version: Version::new(1, end_of(height)),
        changes: rows.iter().map(change).collect(),
        places: Vec::new(),
        whole: true,
        ..block(symbol, height, &[])
    }
}

fn batches() -> BatchStreams {
    let stream = BatchStream { leg: LEG, venue: Venue::NeutronDex, stream: "neutron-1".into() };
    BatchStreams { streams: vec![stream], tranches: Arc::default() }
}

fn dex_writer(options: WriterOptions) -> StoreWriter {
    StoreWriter::new("test", options).with_batches(batches())
}

fn push(writer: &mut StoreWriter, changes: &AdmittedChanges) {
    writer.push_changes(0, changes, &pair(changes.symbol.0)).unwrap();
}

fn mark(writer: &mut StoreWriter, height: u64) {
    writer.push_through(LEG, end_of(height)).unwrap();
}

fn rows(batch: &Batch) -> &[TickUpdate] {
    let Rows::Ticks(rows) = &batch.rows else { panic!("not ticks") };
    rows
}

fn through(writer: &mut StoreWriter) -> (u64, u64) {
    assert!(!matches!(writer.poll(0), Some(Action::Insert(_))));
    let Through { count, place } = writer.through(LEG).unwrap();
    (count, market::batch::height_of(place))
}

fn confirm(writer: &mut StoreWriter) -> Arc<Batch> {
    let batch = inserting(writer, 0);
    writer.inserted(&batch.token);
    batch
}

#[test]
fn a_block_is_one_insert_and_nothing_but_its_mark_closes_it() {
    let mut writer = dex_writer(WriterOptions { batch_bytes: 1, ..small(2) });
    push(&mut writer, &block(1, 5, &[(4, 10, 1), (9, 11, 2)]));
    push(&mut writer, &block(0, 5, &[(1, 10, 3), (2, 10, 4), (8, 12, 5)]));
    push(&mut writer, &block(0, 6, &[(0, 10, 6)]));
    assert_eq!((writer.poll(u64::MAX), writer.is_idle()), (None, false));
    mark(&mut writer, 5);
    let batch = inserting(&mut writer, 0);
    let found: Vec<_> = rows(&batch).iter().map(|row| (row.instrument.id.0, row.version.seq & 0xF)).collect();
    assert_eq!(found, [(0, 1), (0, 2), (0, 8), (1, 4), (1, 9)], "by instrument, each row at its own place");
    assert!(rows(&batch).iter().all(|row| row.stream.as_deref() == Some("neutron-1")));
    assert_eq!(writer.poll(u64::MAX), None, "the next block has not ended");
    writer.inserted(&batch.token);
    assert_eq!(through(&mut writer), (1, 5));
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, place_of(5, 8).unwrap())));
    assert_eq!(writer.counters(0).rows_inserted, 5);
}

#[test]
fn a_blocks_token_is_that_of_what_it_says_whoever_says_it_and_when() {
    let token = |identity: &str, blocks: &[AdmittedChanges]| {
        let mut writer = StoreWriter::new(identity, WriterOptions::default()).with_batches(batches());
        blocks.iter().for_each(|changes| push(&mut writer, changes));
        mark(&mut writer, 5);
        confirm(&mut writer).token.clone()
    };
    let (one, other) = (block(0, 5, &[(1, 10, 3), (2, 10, 4)]), block(1, 5, &[(4, 10, 1)]));
    let right = token("a", &[one.clone(), other.clone()]);
    let again = AdmittedChanges { received_ns: 9, venue_ns: 0, ..one.clone() };
    assert_eq!(token("b", &[other.clone(), again.clone()]), right);
    assert_eq!(token("b", &[other.clone(), again, one.clone()]), right, "what comes twice stands once");
    let epoch = AdmittedChanges { version: Version::new(2, one.version.seq), ..one.clone() };
    let part = block(0, 5, &[(1, 10, 3)]);
    let quantity = block(0, 5, &[(1, 10, 3), (2, 10, 5)]);
    let place = block(0, 5, &[(1, 10, 3), (3, 10, 4)]);
    for different in [epoch, part, quantity, place] {
        assert_ne!(token("a", &[different, other.clone()]), right);
    }
    assert_ne!(token("a", &[one]), right);
    assert_ne!(block_token(Venue::NeutronDex, "s", 5, &[]), block_token(Venue::NeutronDex, "s", 6, &[]));
    assert_ne!(block_token(Venue::NeutronDex, "s", 5, &[]), block_token(Venue::NeutronDex, "t", 5, &[]));
}

#[test]
fn marks_are_confirmed_in_their_order_and_four_blocks_are_under_way_at_most() {
    let mut writer = dex_writer(WriterOptions::default());
    for height in 1..=6 {
        push(&mut writer, &block(0, height, &[(1, 10, height)]));
        mark(&mut writer, height);
    }
    let under_way: Vec<_> = (0..BLOCK_INSERTS_MAX).map(|_| inserting(&mut writer, 0)).collect();
    assert_eq!((writer.poll(0), writer.counters(0).blocks_waiting), (None, 6));
    for batch in &under_way[1..] {
        writer.inserted(&batch.token);
    }
    let later = [inserting(&mut writer, 0), inserting(&mut writer, 0)];
    assert_eq!((through(&mut writer), writer.durable(SymbolId(0))), ((0, 0), None), "the first block is missing");
    writer.failed(0, &under_way[0].token, "no connection");
    assert_eq!(writer.next_deadline_ns(0), Some(BACKOFF_FIRST_NS));
    assert_eq!(writer.poll(BACKOFF_FIRST_NS - 1), None);
    assert_eq!(inserting(&mut writer, BACKOFF_FIRST_NS), under_way[0]);
    writer.inserted(&under_way[0].token);
    assert_eq!(through(&mut writer), (4, 4));
    later.iter().for_each(|batch| writer.inserted(&batch.token));
    assert_eq!(through(&mut writer), (6, 6));
    assert_eq!(
        (writer.durable(SymbolId(0)), writer.pending_bytes()),
        (Some(Version::new(1, place_of(6, 1).unwrap())), 0)
    );
    assert!(writer.is_idle());
}

#[test]
fn a_late_block_has_an_insert_of_its_own_and_waits_for_the_mark_behind_it() {
    let mut writer = dex_writer(WriterOptions::default());
    push(&mut writer, &block(0, 8, &[(1, 10, 8)]));
    mark(&mut writer, 8);
    confirm(&mut writer);
    push(&mut writer, &block(0, 5, &[(1, 10, 5)]));
    push(&mut writer, &block(0, 9, &[(1, 10, 9)]));
    assert_eq!((through(&mut writer), writer.poll(u64::MAX)), ((1, 8), None));
    mark(&mut writer, 8);
    let late = inserting(&mut writer, 0);
    assert_eq!(rows(&late).len(), 1);
    writer.inserted(&late.token);
    assert_eq!(through(&mut writer), (2, 8));
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, place_of(8, 1).unwrap())), "it never goes back");
    assert!(!writer.is_idle(), "block 9 has not ended");
}

#[test]
fn a_mark_waits_for_the_whole_books_before_it_and_they_for_the_blocks_before_them() {
    let mut writer = dex_writer(WriterOptions::default());
    push(&mut writer, &block(0, 5, &[(1, 10, 1)]));
    push(&mut writer, &whole(0, 5, &[(11, 1)]));
    assert_eq!(writer.poll(u64::MAX), None, "a tick of block 5 may be one that the book lacks");
    mark(&mut writer, 5);
    push(&mut writer, &block(0, 6, &[(1, 12, 1)]));
    mark(&mut writer, 6);
    let (fifth, sixth) = (inserting(&mut writer, 0), inserting(&mut writer, 0));
    writer.inserted(&sixth.token);
    assert_eq!(writer.poll(u64::MAX), None);
    writer.inserted(&fifth.token);
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    assert_eq!(through(&mut writer), (0, 0));
    let keys = [(10, 5), (12, 6)].map(|(index, height)| LiveKey {
        side: Side::Ask,
        key: StoredKey::at(index),
        version: Version::new(1, place_of(height, 1).unwrap()),
    });
    writer.live_keys(0, SymbolId(0), &keys);
    assert_eq!(through(&mut writer), (0, 0), "the book is not in yet");
    let batch = inserting(&mut writer, BATCH_AGE_NS);
    let found: Vec<_> = rows(&batch).iter().map(|row| (row.key.tick_index, row.reserves.is_zero())).collect();
    assert_eq!(found, [(11, false), (10, true)], "what block 6 brought is no business of the book's");
    assert!(rows(&batch).iter().all(|row| row.whole && row.stream.is_none()));
    writer.inserted(&batch.token);
    assert_eq!(through(&mut writer), (2, 6));
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, place_of(6, 1).unwrap())));
    assert!(writer.is_idle());
}

#[test]
fn a_mark_waits_for_a_book_that_is_written_at_once_but_for_no_other_instruments() {
    let mut writer = dex_writer(WriterOptions::default());
    push(&mut writer, &whole(0, 5, &[(11, 1)]));
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    writer.live_keys(0, SymbolId(0), &[]);
    writer.flush();
    confirm(&mut writer);
    assert_eq!(writer.poll(0), None);
    push(&mut writer, &whole(0, 6, &[(12, 1)]));
    mark(&mut writer, 6);
    // A book of another venue that is held for ever, and rows of one that are not in.
    writer.push_changes(0, &changes(9, 1, &[(Side::Bid, 1, 1)], true), &instrument(9)).unwrap();
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(9))));
    let book = inserting(&mut writer, BATCH_AGE_NS);
    writer.push_changes(0, &delta(8, 1), &instrument(8)).unwrap();
    mark(&mut writer, 7);
    assert_eq!(through(&mut writer), (0, 0));
    writer.inserted(&book.token);
    assert_eq!(through(&mut writer), (2, 7));
}

#[test]
fn a_book_asks_again_once_a_late_block_was_written_below_the_last_one() {
    let mut writer = dex_writer(WriterOptions::default());
    push(&mut writer, &whole(0, 5, &[(11, 1)]));
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    writer.live_keys(0, SymbolId(0), &[]);
    push(&mut writer, &block(0, 6, &[(1, 12, 1)]));
    push(&mut writer, &whole(0, 6, &[(11, 1)]));
    assert_eq!(writer.counters(0).instruments_held, 0, "nothing late");
    push(&mut writer, &block(0, 4, &[(1, 12, 1)]));
    push(&mut writer, &whole(0, 7, &[(11, 1)]));
    assert_eq!(writer.counters(0).instruments_held, 1);
}

#[test]
fn it_is_never_full_of_a_block_whose_end_has_to_come_first() {
    let mut writer = dex_writer(WriterOptions { pending_bytes_max: 1, ..WriterOptions::replay() });
    assert!(!writer.is_full());
    push(&mut writer, &block(0, 5, &[(1, 10, 1)]));
    push(&mut writer, &whole(0, 5, &[(11, 1)]));
    assert_eq!((writer.is_full(), writer.pending_bytes() > 1), (false, true));
    mark(&mut writer, 5);
    assert!(writer.is_full());
    confirm(&mut writer);
    assert!(writer.is_full(), "live keys are to be read");
}

#[test]
fn nothing_of_a_batch_stream_is_left_out_whatever_waits() {
    let mut writer = dex_writer(WriterOptions { pending_bytes_max: 1, ..WriterOptions::default() });
    push(&mut writer, &whole(0, 4, &[(11, 1)]));
    for height in 5..50 {
        push(&mut writer, &block(0, height, &[(1, 10, height), (2, 10, height + 1)]));
        mark(&mut writer, height);
    }
    let counters = writer.counters(0);
    assert!(!writer.is_full());
    assert_eq!((counters.overloads, counters.changes_left_out), (0, 0));
    assert_eq!((counters.stream_bytes, counters.pending_bytes), (writer.stream_bytes(), writer.stream_bytes()));
    assert!(counters.stream_bytes > 90 * count(size_of::<TickUpdate>()), "whoever reads the log must see it");
    let mut inserted = Vec::new();
    writer.flush();
    while let Some(action) = writer.poll(0) {
        match action {
            Action::Insert(batch) => {
                inserted.push(rows(&batch).len());
                writer.inserted(&batch.token);
            }
            Action::LoadLiveKeys(symbol) => writer.live_keys(0, symbol, &[]),
        }
    }
    assert_eq!((inserted.len(), inserted.iter().sum::<usize>()), (46, 2 * 45 + 1), "45 blocks and the book");
    assert_eq!((through(&mut writer).1, writer.stream_bytes()), (49, 0));
}

#[test]
fn empty_blocks_are_confirmed_with_what_is_before_them_and_hardly_weigh() {
    let mut writer = dex_writer(WriterOptions::default());
    mark(&mut writer, 1);
    assert_eq!(through(&mut writer), (1, 1));
    push(&mut writer, &block(0, 2, &[(1, 10, 1)]));
    mark(&mut writer, 2);
    let weight = writer.pending_bytes();
    (3..=1_000).for_each(|height| mark(&mut writer, height));
    assert_eq!(writer.pending_bytes(), weight);
    push(&mut writer, &block(1, 1_001, &[]));
    mark(&mut writer, 1_001);
    assert_eq!(writer.durable(SymbolId(1)), None);
    confirm(&mut writer);
    assert_eq!(through(&mut writer), (1_001, 1_001));
    assert_eq!(writer.durable(SymbolId(1)), Some(Version::new(1, end_of(1_001))));
    assert_eq!((writer.pending_bytes(), writer.is_idle()), (0, true));
}

#[test]
fn a_block_that_has_not_ended_is_left_to_its_log() {
    let mut writer = dex_writer(WriterOptions::default());
    push(&mut writer, &block(0, 5, &[(1, 10, 1)]));
    mark(&mut writer, 5);
    push(&mut writer, &block(0, 6, &[(1, 10, 2), (2, 11, 2)]));
    push(&mut writer, &whole(0, 6, &[(11, 1)]));
    writer.flush();
    confirm(&mut writer);
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    writer.live_keys(0, SymbolId(0), &[]);
    assert!(rows(&confirm(&mut writer)).iter().all(|row| row.whole));
    let counters = writer.counters(0);
    assert_eq!((counters.rows_left, counters.rows_pushed, counters.rows_inserted), (2, 2, 2));
    assert_eq!((writer.is_idle(), writer.pending_bytes(), through(&mut writer)), (true, 0, (1, 5)));
}

#[test]
fn tranches_are_named_when_they_are_pushed() {
    let batches = batches();
    let mut writer = StoreWriter::new("test", WriterOptions::default()).with_batches(batches.clone());
    let tranche = batches.tranches.intern("a-tranche").unwrap();
    let mut event = block(0, 5, &[(1, 10, 1), (2, 10, 0)]);
    event.changes[0].key.tranche = tranche;
    push(&mut writer, &event);
    batches.tranches.died(tranche, 5);
    batches.tranches.forget_dead(5);
    mark(&mut writer, 5);
    let batch = confirm(&mut writer);
    let names: Vec<_> = rows(&batch).iter().map(|row| row.key.tranche_key()).collect();
    assert_eq!(names, ["a-tranche", ""]);
    let refused = writer.push_changes(0, &event, &pair(0));
    assert!(matches!(refused, Err(PushError::UnnamedTranche { .. })), "{refused:?}");
    event.changes[0].key.tranche = TrancheId(0);
    assert_eq!(writer.push_changes(0, &event, &pair(0)), Ok(()));
    let unknown = LegId(1);
    assert_eq!(writer.push_through(unknown, 5), Err(PushError::UnknownStream { leg: unknown }));
    assert_eq!(writer.through(unknown), None);
}
