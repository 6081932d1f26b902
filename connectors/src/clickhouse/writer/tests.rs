//! The writer under a clock of the test's own.
//!
//! Never: the wall clock, or a store.

mod blocks;
mod overload;
mod random;

use super::*;
use crate::clickhouse::rows::StoredKey;
use market::{Side, TickChange, Trade, U256, Venue};

const SCALE: Scale = Scale { price: -2, quantity: -8 };

fn instrument(number: u32) -> Arc<Instrument> {
    let directory = market::Directory::default();
    for before in 0..number {
        directory.intern(Venue::BinanceSpot, &format!("S{before}"), &format!("A{before}"), "USD").unwrap();
    }
    directory.intern(Venue::BinanceSpot, &format!("S{number}"), &format!("A{number}"), "USD").unwrap()
}

fn changes(symbol: u32, seq: u64, rows: &[(Side, i64, u64)], whole: bool) -> AdmittedChanges {
    let change = |(side, index, reserves): &(Side, i64, u64)| TickChange::at(*side, *index, U256::from(*reserves));
    AdmittedChanges {
        symbol: SymbolId(symbol),
        version: Version::new(1, seq),
        received_ns: 1_000 + seq,
        venue_ns: 500 + seq,
        scale: SCALE,
        changes: rows.iter().map(change).collect(),
        whole,
        places: Vec::new(),
        leg: market::LegId(0),
        shown_ns: 0,
    }
}

fn delta(symbol: u32, seq: u64) -> AdmittedChanges {
    changes(symbol, seq, &[(Side::Bid, 100, seq), (Side::Ask, 101, seq)], false)
}

fn live(side: Side, index: i64, seq: u64) -> LiveKey {
    LiveKey { side, key: StoredKey::at(index), version: Version::new(1, seq) }
}

fn raw(position: u64, payload: &[u8]) -> RawEvent {
    let previous = position.saturating_sub(1);
    let (stream, payload) = ("a".into(), payload.into());
    RawEvent { venue: Venue::BinanceSpot, stream, position, previous, payload, received_ns: position }
}

fn trade(id: &str, order: u64) -> AdmittedTrade {
    let trade =
        Trade { id: id.into(), order, tick_index: 5, quantity: U256::from(7_u64), taker: Side::Bid, venue_ns: order };
    AdmittedTrade { symbol: SymbolId(0), received_ns: order, scale: SCALE, trade }
}

fn writer(options: WriterOptions) -> StoreWriter {
    StoreWriter::new("test", options)
}

fn small(rows: usize) -> WriterOptions {
    WriterOptions { batch_rows: rows, ..WriterOptions::default() }
}

#[track_caller]
fn inserting(writer: &mut StoreWriter, now_ns: u64) -> Arc<Batch> {
    match writer.poll(now_ns) {
        Some(Action::Insert(batch)) => batch,
        other => panic!("no insert but {other:?}"),
    }
}

fn ticks(batch: &Batch) -> Vec<(u64, Side, i64, u64)> {
    let Rows::Ticks(rows) = &batch.rows else { panic!("not ticks") };
    let row = |row: &TickUpdate| (row.version.seq, row.side, row.key.tick_index, u64::try_from(row.reserves).unwrap());
    rows.iter().map(row).collect()
}

#[test]
fn a_batch_closes_by_rows_bytes_or_age() {
    let row_bytes = count(size_of::<TickUpdate>());
    for (options, events, closes_at) in [
        (small(4), 2, 0),
        (WriterOptions { batch_bytes: 4 * row_bytes, ..WriterOptions::default() }, 2, 0),
        (WriterOptions::default(), 2, BATCH_AGE_NS),
    ] {
        let mut writer = writer(options);
        for seq in 1..=events {
            assert_eq!(writer.poll(0), None);
            writer.push_changes(0, &delta(0, seq), &instrument(0)).unwrap();
        }
        if closes_at > 0 {
            assert_eq!(writer.next_deadline_ns(0), Some(closes_at));
            assert_eq!(writer.poll(closes_at - 1), None);
        }
        assert_eq!(inserting(&mut writer, closes_at).rows.len(), 4);
    }
}

#[test]
fn an_event_is_never_split() {
    let mut writer = writer(small(3));
    let rows: Vec<_> = (0..10).map(|index| (Side::Bid, index, 1)).collect();
    writer.push_changes(0, &changes(0, 1, &rows, false), &instrument(0)).unwrap();
    assert_eq!(inserting(&mut writer, 0).rows.len(), 10);
}

#[test]
fn one_insert_per_table_is_under_way_and_order_is_kept() {
    let mut writer = writer(small(2));
    for seq in 1..=3 {
        writer.push_changes(0, &delta(0, seq), &instrument(0)).unwrap();
    }
    let first = inserting(&mut writer, 0);
    assert_eq!(writer.poll(0), None);
    writer.push_trade(0, trade("1", 1), &instrument(0));
    writer.push_trade(0, trade("2", 2), &instrument(0));
    assert_eq!(inserting(&mut writer, 0).table, Table::Trades);
    assert_eq!(writer.poll(0), None);
    writer.inserted(&first.token);
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, 1)));
    let second = inserting(&mut writer, 0);
    assert_eq!(ticks(&second).first().map(|row| row.0), Some(2));
}

#[test]
fn a_failure_is_repeated_with_the_same_token_after_a_growing_wait() {
    let mut writer = writer(small(2));
    writer.push_changes(0, &delta(0, 1), &instrument(0)).unwrap();
    let batch = inserting(&mut writer, 0);
    let mut now = 0;
    for wait in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000].map(|ms: u64| ms * 1_000_000) {
        writer.failed(now, &batch.token, "no connection");
        assert_eq!(writer.next_deadline_ns(now), Some(now + wait));
        assert_eq!(writer.poll(now + wait - 1), None);
        now += wait;
        assert_eq!(inserting(&mut writer, now), batch);
    }
    let counters = writer.counters(now);
    assert_eq!((counters.retries, counters.lag_ns), (9, now));
    assert_eq!(counters.last_error.as_deref(), Some("no connection"));
    writer.inserted(&batch.token);
    assert!(writer.is_idle());
    assert_eq!(writer.counters(now).rows_inserted, 2);
    assert_eq!(writer.counters(now).lag_ns, 0);
}

#[test]
fn reports_about_something_else_change_nothing() {
    let mut writer = writer(small(2));
    writer.push_changes(0, &delta(0, 1), &instrument(0)).unwrap();
    let batch = inserting(&mut writer, 0);
    writer.inserted("another");
    writer.failed(0, "another", "x");
    writer.live_keys(0, SymbolId(9), &[]);
    writer.load_failed(0, SymbolId(9), "x");
    assert_eq!(writer.poll(u64::MAX), None);
    writer.inserted(&batch.token);
    writer.inserted(&batch.token);
    assert_eq!(writer.counters(0).batches_inserted, 1);
}

#[test]
fn it_is_full_at_its_bound_and_forgets_nothing() {
    let row_bytes = count(size_of::<TickUpdate>());
    let options = WriterOptions { batch_rows: 2, pending_bytes_max: 4 * row_bytes, ..WriterOptions::replay() };
    let mut writer = writer(options);
    writer.push_changes(0, &delta(0, 1), &instrument(0)).unwrap();
    assert!(!writer.is_full());
    writer.push_changes(0, &delta(0, 2), &instrument(0)).unwrap();
    assert!(writer.is_full());
    writer.push_changes(0, &delta(0, 3), &instrument(0)).unwrap();
    assert_eq!(writer.pending_bytes(), 6 * row_bytes);
    for _ in 0..3 {
        let batch = inserting(&mut writer, 0);
        writer.inserted(&batch.token);
    }
    assert_eq!((writer.pending_bytes(), writer.is_full(), writer.is_idle()), (0, false, true));
}

#[test]
fn the_first_whole_book_waits_for_the_stores_live_keys_and_buries_what_it_lacks() {
    let mut writer = writer(small(2));
    writer.push_changes(0, &changes(0, 5, &[(Side::Bid, 100, 1), (Side::Ask, 102, 0)], true), &instrument(0)).unwrap();
    writer.push_changes(0, &changes(0, 6, &[(Side::Bid, 99, 0)], false), &instrument(0)).unwrap();
    writer.push_changes(0, &delta(1, 7), &instrument(1)).unwrap();
    let other = inserting(&mut writer, 0);
    assert_eq!(ticks(&other).len(), 2, "another instrument goes on");
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    assert_eq!(writer.poll(0), None);
    assert_eq!(writer.counters(10).instruments_held, 1);
    let stored = [(Side::Bid, 99), (Side::Bid, 100), (Side::Ask, 102), (Side::Ask, 100)];
    writer.live_keys(0, SymbolId(0), &stored.map(|(side, index)| live(side, index, 4)));
    let counters = writer.counters(0);
    assert_eq!((counters.tombstones, counters.loads, counters.instruments_held), (2, 1, 0));
    writer.inserted(&other.token);
    let batch = inserting(&mut writer, 0);
    let Rows::Ticks(all) = &batch.rows else { panic!("not ticks") };
    assert!(all.iter().all(|row| row.whole), "the tombstones are of the whole book too");
    let rows = ticks(&batch);
    let right = [(5, Side::Bid, 100, 1), (5, Side::Ask, 102, 0), (5, Side::Bid, 99, 0), (5, Side::Ask, 100, 0)];
    assert_eq!(rows, right);
}

#[test]
fn what_changed_after_the_whole_book_gets_no_tombstone() {
    let mut writer = writer(WriterOptions::default());
    writer.push_changes(0, &changes(0, 5, &[(Side::Bid, 100, 1)], true), &instrument(0)).unwrap();
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    let keys = [live(Side::Bid, 98, 4), live(Side::Bid, 97, 5), live(Side::Bid, 96, 6), live(Side::Bid, 100, 9)];
    writer.live_keys(0, SymbolId(0), &keys);
    assert_eq!(writer.counters(0).tombstones, 2);
    writer.flush();
    let right = [(5, Side::Bid, 100, 1), (5, Side::Bid, 98, 0), (5, Side::Bid, 97, 0)];
    assert_eq!(ticks(&inserting(&mut writer, 0)), right, "a book at the stored version heals as a later one does");
}

#[test]
fn a_message_goes_ahead_of_what_was_made_of_it_and_counts_as_waiting() {
    let mut writer = writer(WriterOptions { pending_bytes_max: 1_000, ..WriterOptions::replay() });
    writer.push_changes(0, &delta(0, 1), &instrument(0)).unwrap();
    writer.push_raw(0, raw(1, b"one"));
    let small = writer.pending_bytes();
    writer.push_raw(0, raw(2, &[7; 1_000]));
    assert_eq!((writer.pending_bytes(), writer.is_full()), (small + raw(2, &[7; 1_000]).bytes(), true));
    writer.flush();
    let (first, second) = (inserting(&mut writer, 0), inserting(&mut writer, 0));
    assert_eq!((first.table, second.table), (Table::RawEvents, Table::TickUpdates));
    assert_eq!(first.rows, Rows::Raw(vec![raw(1, b"one"), raw(2, &[7; 1_000])]));
    writer.failed(0, &first.token, "x");
    writer.inserted(&second.token);
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, 1)), "it waits for no message");
    assert_eq!(inserting(&mut writer, BACKOFF_FIRST_NS), first);
    writer.inserted(&first.token);
    assert_eq!((writer.pending_bytes(), writer.is_idle()), (0, true));
}

#[test]
fn every_part_of_a_message_is_in_its_token() {
    let token = |event: RawEvent| Rows::Raw(vec![event]).token(Table::RawEvents, "s");
    let first = raw(3, b"x");
    let others = [
        RawEvent { venue: Venue::KrakenSpot, ..first.clone() },
        RawEvent { stream: "b".into(), ..first.clone() },
        RawEvent { previous: 1, ..first.clone() },
        RawEvent { received_ns: 9, ..first.clone() },
        raw(4, b"x"),
        raw(3, b"y"),
    ];
    assert_eq!(token(first.clone()), token(first.clone()));
    assert!(others.into_iter().all(|other| token(other) != token(first.clone())));
}

#[test]
fn only_a_first_or_rescaled_whole_book_asks_and_only_when_its_rows_are_stored() {
    let mut writer = writer(WriterOptions::default());
    writer.push_changes(0, &delta(0, 1), &instrument(0)).unwrap();
    writer.push_changes(0, &changes(0, 2, &[(Side::Bid, 100, 1)], true), &instrument(0)).unwrap();
    let before = inserting(&mut writer, 0);
    assert_eq!(writer.poll(0), None, "rows of the instrument are under way");
    writer.inserted(&before.token);
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    writer.live_keys(0, SymbolId(0), &[]);
    writer.push_changes(0, &changes(0, 3, &[(Side::Bid, 100, 1)], true), &instrument(0)).unwrap();
    assert_eq!(writer.counters(0).instruments_held, 0, "the same steps");
    let finer =
        AdmittedChanges { scale: Scale { price: -3, ..SCALE }, ..changes(0, 4, &[(Side::Bid, 1_000, 1)], true) };
    writer.push_changes(0, &finer, &instrument(0)).unwrap();
    assert_eq!(writer.counters(0).instruments_held, 1);
    let before = inserting(&mut writer, 0);
    writer.inserted(&before.token);
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, 3)));
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
}

#[test]
fn held_changes_that_need_keys_again_are_held_again_in_order() {
    let mut writer = writer(WriterOptions::default());
    let finer = |changes| AdmittedChanges { scale: Scale { price: -3, ..SCALE }, ..changes };
    writer.push_changes(0, &changes(0, 1, &[(Side::Bid, 100, 1)], true), &instrument(0)).unwrap();
    writer.push_changes(0, &delta(0, 2), &instrument(0)).unwrap();
    writer.push_changes(0, &finer(changes(0, 3, &[(Side::Bid, 1_000, 1)], true)), &instrument(0)).unwrap();
    writer.push_changes(0, &finer(delta(0, 4)), &instrument(0)).unwrap();
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    writer.live_keys(0, SymbolId(0), &[]);
    let first = inserting(&mut writer, 0);
    assert_eq!(ticks(&first).iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2, 2]);
    writer.inserted(&first.token);
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    writer.live_keys(0, SymbolId(0), &[live(Side::Bid, 100, 2), live(Side::Ask, 101, 2)]);
    writer.flush();
    let second = inserting(&mut writer, 0);
    assert_eq!(ticks(&second).iter().map(|row| row.0).collect::<Vec<_>>(), [3, 3, 3, 4, 4]);
    writer.inserted(&second.token);
    assert_eq!((writer.pending_bytes(), writer.poll(0), writer.is_idle()), (0, None, true));
}

#[test]
fn loads_are_bounded_and_repeated_when_they_fail() {
    let mut writer = writer(WriterOptions::default());
    let many = u32::try_from(LOADS_MAX).unwrap() + 1;
    for symbol in 0..many {
        writer.push_changes(0, &changes(symbol, 1, &[(Side::Bid, 1, 1)], true), &instrument(symbol)).unwrap();
    }
    let asked: Vec<_> = std::iter::from_fn(|| writer.poll(0)).collect();
    assert_eq!(asked, (0..many - 1).map(|symbol| Action::LoadLiveKeys(SymbolId(symbol))).collect::<Vec<_>>());
    writer.load_failed(0, SymbolId(0), "gone");
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(many - 1))));
    writer.live_keys(0, SymbolId(1), &[]);
    assert_eq!(writer.next_deadline_ns(0), Some(BACKOFF_FIRST_NS));
    assert_eq!(writer.poll(BACKOFF_FIRST_NS), Some(Action::LoadLiveKeys(SymbolId(0))));
}

#[test]
fn an_event_without_changes_still_moves_the_durable_version() {
    let mut writer = writer(WriterOptions::default());
    writer.push_changes(0, &changes(0, 1, &[], false), &instrument(0)).unwrap();
    assert_eq!(writer.durable(SymbolId(0)), None);
    assert_eq!(writer.poll(BATCH_AGE_NS), None);
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, 1)));
    assert!(writer.is_idle());
}

#[test]
fn a_replay_gives_the_same_batches_whatever_the_store_held_and_whenever_it_answered() {
    let run = |stored: &[LiveKey], answer_at: u64, stream: &str| {
        let mut writer = StoreWriter::new(stream, WriterOptions { batch_rows: 4, ..WriterOptions::replay() });
        let mut input: VecDeque<_> = (1..20_u64)
            .map(|seq| match seq {
                3 | 12 => changes(0, seq, &[(Side::Bid, 100, 1)], true),
                7 => changes(1, seq, &[(Side::Bid, 100, 1)], true),
                seq => delta(u32::try_from(seq % 2).unwrap(), seq),
            })
            .collect();
        let (mut tokens, mut now, mut flushed) = (Vec::new(), 0, false);
        while !flushed || !writer.is_idle() {
            now += 1;
            while !writer.is_full() && !input.is_empty() {
                let next = input.pop_front().unwrap();
                let of = instrument(next.symbol.0);
                writer.push_changes(now, &next, &of).unwrap();
            }
            if input.is_empty() && !flushed {
                writer.flush();
                flushed = true;
            }
            match writer.poll(now) {
                Some(Action::Insert(batch)) => {
                    writer.inserted(&batch.token);
                    tokens.push(batch.token.clone());
                }
                Some(Action::LoadLiveKeys(symbol)) => {
                    now += answer_at;
                    writer.live_keys(now, symbol, stored);
                }
                None => {}
            }
        }
        assert_eq!(writer.durable(SymbolId(1)), Some(Version::new(1, 19)));
        tokens
    };
    let first = run(&[], 0, "a");
    assert_eq!(run(&[], 1_000_000_000_000, "a"), first);
    assert!(run(&[], 0, "b").iter().all(|token| !first.contains(token)));
    let with_leftovers = run(&[live(Side::Ask, 7, 1)], 5, "a");
    assert!(first.iter().all(|token| with_leftovers.contains(token)));
    assert_eq!(with_leftovers.len(), first.len() + 2);
}

#[test]
fn a_tranche_without_a_name_is_refused_whole() {
    let mut writer = writer(WriterOptions::default());
    let mut event = delta(0, 1);
    event.changes[1].key.tranche = market::TrancheId(3);
    let error = writer.push_changes(0, &event, &instrument(0)).unwrap_err();
    assert_eq!(error.to_string(), "binance_spot/S0 has a tick of tranche 3, which has no name in the store");
    assert!(writer.is_idle());
}
