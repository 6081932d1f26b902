//! A store that is behind: what is kept, what is left out, and what is on record of it.
//!
//! Never: the wall clock, or a store.

use super::*;
use crate::clickhouse::{
    rows::{GapReason, HistoryGap},
    trouble::StoreState,
    writer::options::FrameHistory,
};

/// A run whose bound is that many rows.
fn bounded(rows: u64, batch_rows: usize) -> WriterOptions {
    WriterOptions { pending_bytes_max: rows * count(size_of::<TickUpdate>()), ..small(batch_rows) }
}

fn push(writer: &mut StoreWriter, event: &AdmittedChanges) {
    writer.push_changes(0, event, &instrument(event.symbol.0)).unwrap();
}

/// Confirms all that the writer wants inserted, with no live keys in the store; gives the batches.
fn take_all(writer: &mut StoreWriter, now_ns: u64) -> Vec<Arc<Batch>> {
    let mut batches = Vec::new();
    while let Some(action) = writer.poll(now_ns) {
        match action {
            Action::Insert(batch) => {
                writer.inserted(&batch.token);
                batches.push(batch);
            }
            Action::LoadLiveKeys(symbol) => writer.live_keys(now_ns, symbol, &[]),
        }
    }
    batches
}

fn gaps(batches: &[Arc<Batch>]) -> Vec<&HistoryGap> {
    let mut found = Vec::new();
    for batch in batches {
        if let Rows::Gaps(gaps) = &batch.rows {
            found.extend(gaps);
        }
    }
    found
}

fn all_ticks(batches: &[Arc<Batch>]) -> Vec<(u64, Side, i64, u64)> {
    batches.iter().filter(|batch| batch.table == Table::TickUpdates).flat_map(|batch| ticks(batch)).collect()
}

fn at(seq: u64) -> u128 {
    Version::new(1, seq).to_u128()
}

#[test]
fn a_run_is_never_full_and_of_what_waits_the_newest_of_each_tick_is_kept() {
    let mut writer = writer(bounded(8, 2));
    push(&mut writer, &delta(0, 1));
    let tried = inserting(&mut writer, 0);
    for seq in 2..=100 {
        push(&mut writer, &delta(0, seq));
        assert!(!writer.is_full());
        assert!(writer.pending_bytes() <= 10 * count(size_of::<TickUpdate>()));
    }
    assert_eq!(writer.poll(u64::MAX), None, "one batch is under way");
    let counters = writer.counters(7);
    assert_eq!((counters.state, counters.overloads, counters.lag_ns), (StoreState::Behind, 1, 7));
    assert_eq!(counters.changes_left_out, 2 * 98, "two rows of each of the versions 2 to 99");
    assert_eq!(writer.durable(SymbolId(0)), None);
    writer.inserted(&tried.token);
    let batches = take_all(&mut writer, u64::MAX);
    let found: Vec<_> = batches.iter().map(|batch| batch.table).collect();
    assert_eq!(found, [Table::HistoryGaps, Table::TickUpdates], "the gap is on record first");
    let gaps = gaps(&batches);
    let gap = gaps.first().unwrap();
    assert_eq!((gap.after(), gap.left_out.last, gap.left_out.count), (at(1), at(99), 196));
    assert_eq!((gap.reason, gap.left_out.received_ns), (GapReason::StoreBehind, 1_000 + 99));
    assert_eq!(all_ticks(&batches), [(100, Side::Bid, 100, 100), (100, Side::Ask, 101, 100)]);
    assert_eq!(writer.durable(SymbolId(0)), Some(Version::new(1, 100)));
    let counters = writer.counters(0);
    assert_eq!((counters.state, counters.rows_unconfirmed(), counters.gaps_noted), (StoreState::Ready, 0, 1));
    push(&mut writer, &delta(0, 101));
    push(&mut writer, &delta(0, 102));
    assert_eq!(all_ticks(&take_all(&mut writer, u64::MAX)).len(), 4, "every change is a row again");
}

#[test]
fn a_batch_that_was_tried_stays_as_it_is() {
    let mut writer = writer(bounded(8, 2));
    push(&mut writer, &delta(0, 1));
    let tried = inserting(&mut writer, 0);
    writer.failed(0, &tried.token, "its outcome is unknown");
    (2..=50).for_each(|seq| push(&mut writer, &delta(0, seq)));
    assert_eq!(inserting(&mut writer, BACKOFF_FIRST_NS), tried);
}

#[test]
fn the_newest_whole_book_is_kept_whole_and_what_it_does_not_name_keeps_its_last_change() {
    let mut writer = writer(bounded(6, 2));
    push(&mut writer, &changes(0, 1, &[(Side::Bid, 90, 1), (Side::Bid, 91, 1)], true));
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(0))));
    writer.live_keys(0, SymbolId(0), &[]);
    let tried = inserting(&mut writer, 0);
    push(&mut writer, &changes(0, 2, &[(Side::Bid, 90, 0)], false));
    push(&mut writer, &changes(0, 3, &[(Side::Bid, 91, 5), (Side::Ask, 95, 5)], false));
    // It names 91 as dead and 95 as living; of 90, which died before, it says nothing.
    push(&mut writer, &changes(0, 4, &[(Side::Bid, 91, 0), (Side::Ask, 95, 7), (Side::Ask, 96, 7)], true));
    push(&mut writer, &changes(0, 5, &[(Side::Ask, 95, 8)], false));
    push(&mut writer, &changes(0, 6, &[(Side::Ask, 95, 9)], false));
    assert_eq!(writer.counters(0).state, StoreState::Behind);
    writer.inserted(&tried.token);
    let batches = take_all(&mut writer, u64::MAX);
    let right = [
        (2, Side::Bid, 90, 0),
        (4, Side::Bid, 91, 0),
        (4, Side::Ask, 95, 7),
        (4, Side::Ask, 96, 7),
        (6, Side::Ask, 95, 9),
    ];
    assert_eq!(all_ticks(&batches), right);
    let gap = gaps(&batches).first().map(|gap| (gap.after(), gap.left_out.last, gap.left_out.count));
    assert_eq!(gap, Some((at(2), at(5), 3)), "91 and 95 of 3, 95 of 5");
}

#[test]
fn beyond_the_second_bound_the_largest_instrument_is_given_up_until_its_whole_book_comes() {
    let mut writer = writer(bounded(16, 4));
    push(&mut writer, &changes(1, 1, &[(Side::Bid, 1, 1)], true));
    assert_eq!(writer.poll(0), Some(Action::LoadLiveKeys(SymbolId(1))));
    writer.live_keys(0, SymbolId(1), &[]);
    let tried = inserting(&mut writer, BATCH_AGE_NS);
    for seq in 2..=60 {
        push(&mut writer, &changes(0, seq, &[(Side::Bid, i64::try_from(seq).unwrap(), 1)], false));
        push(&mut writer, &changes(1, seq, &[(Side::Bid, 1, seq)], false));
    }
    let counters = writer.counters(0);
    assert_eq!((counters.overloads, counters.instruments_given_up), (1, 1));
    assert!(writer.pending_bytes() <= 32 * count(size_of::<TickUpdate>()), "{} bytes", writer.pending_bytes());
    assert_eq!(writer.take_wanted(), [], "not while the store is behind");
    writer.inserted(&tried.token);
    take_all(&mut writer, u64::MAX);
    assert_eq!(writer.take_wanted(), [SymbolId(0)]);
    push(&mut writer, &changes(0, 61, &[(Side::Bid, 61, 1)], false));
    assert_eq!(all_ticks(&take_all(&mut writer, u64::MAX)), [], "nothing is said of it before its book");
    push(&mut writer, &changes(0, 61, &[(Side::Bid, 60, 1), (Side::Bid, 61, 1)], true));
    let gap = inserting(&mut writer, u64::MAX);
    assert_eq!(gap.table, Table::HistoryGaps, "its loss is on record first");
    writer.inserted(&gap.token);
    let action = writer.poll(u64::MAX);
    assert_eq!(action, Some(Action::LoadLiveKeys(SymbolId(0))), "whatever the store has of it is buried");
    writer.live_keys(0, SymbolId(0), &[live(Side::Bid, 7, 1)]);
    push(&mut writer, &changes(0, 62, &[(Side::Bid, 61, 2)], false));
    writer.flush();
    let batches = take_all(&mut writer, u64::MAX);
    let right = [(61, Side::Bid, 60, 1), (61, Side::Bid, 61, 1), (61, Side::Bid, 7, 0), (62, Side::Bid, 61, 2)];
    assert_eq!(all_ticks(&batches), right);
    let gap = gaps(&[gap]).first().map(|gap| (gap.after(), gap.left_out.last, gap.left_out.count));
    assert_eq!(gap, Some((at(1), at(61), 60)));
    assert_eq!(writer.counters(0).rows_unconfirmed(), 0);
}

#[test]
fn what_is_left_out_on_the_way_here_is_asked_for_whole() {
    let mut writer = writer(WriterOptions::default());
    push(&mut writer, &delta(0, 1));
    let left_out = LeftOut { first: at(2), last: at(9), count: 8, received_ns: 3 };
    writer.push_left_out(SymbolId(0), &instrument(0), left_out);
    assert_eq!(writer.take_wanted(), [SymbolId(0)]);
    assert_eq!(writer.take_wanted(), [], "told once");
    push(&mut writer, &changes(0, 9, &[(Side::Bid, 100, 9)], true));
    writer.flush();
    let batches = take_all(&mut writer, u64::MAX);
    assert_eq!(all_ticks(&batches).last(), Some(&(9, Side::Bid, 100, 9)));
    assert_eq!(gaps(&batches).first().map(|gap| gap.left_out), Some(left_out));
}

#[test]
fn what_is_missing_at_the_end_is_on_record() {
    let mut writer = writer(WriterOptions::default());
    let left_out = LeftOut { first: at(2), last: at(9), count: 8, received_ns: 3 };
    writer.push_left_out(SymbolId(0), &instrument(0), left_out);
    writer.push_trades_left_out(SymbolId(1), &instrument(1), left_out);
    writer.flush();
    let batches = take_all(&mut writer, 0);
    let found: Vec<_> = gaps(&batches).iter().map(|gap| (gap.instrument.id.0, gap.reason)).collect();
    assert_eq!(found, [(1, GapReason::TradesLeftOut), (0, GapReason::StoreBehind)]);
    assert!(writer.is_idle());
}

#[test]
fn the_oldest_trades_go_first_and_are_on_record() {
    let mut writer = writer(WriterOptions { pending_bytes_max: 64_000, ..WriterOptions::default() });
    let bound = writer.options.trades_bytes_max();
    for order in 1..=1_000 {
        writer.push_trade(0, trade(&order.to_string(), order), &instrument(0));
        assert!(writer.trades.bytes() <= bound);
    }
    let left_out = writer.counters(0).trades_left_out;
    assert!(left_out > 500);
    writer.flush();
    let batches = take_all(&mut writer, 0);
    let kept: Vec<u64> = batches
        .iter()
        .flat_map(|batch| match &batch.rows {
            Rows::Trades(rows) => rows.iter().map(|row| row.admitted.trade.order).collect(),
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(kept.last(), Some(&1_000));
    let gap = *gaps(&batches).first().unwrap();
    assert_eq!((gap.reason, gap.left_out.count), (GapReason::TradesLeftOut, left_out));
    let in_gap = |order: u64| gap.after() < u128::from(order) && u128::from(order) <= gap.left_out.last;
    assert!((1..=1_000).all(|order| kept.contains(&order) || in_gap(order)));
    assert_eq!(kept.len(), usize::try_from(1_000 - left_out).unwrap());
}

#[test]
fn the_oldest_messages_go_first_and_the_next_one_shows_the_hole() {
    let mut writer = writer(WriterOptions { pending_bytes_max: 64_000, ..WriterOptions::default() });
    let bound = writer.options.raw_bytes_max();
    for position in 1..=1_000 {
        writer.push_raw(0, raw(position, &[1; 100]));
        assert!(writer.raw.bytes() <= bound);
    }
    let left_out = writer.counters(0).raw_left_out;
    writer.flush();
    let batches = take_all(&mut writer, 0);
    let kept: Vec<(u64, u64)> = batches
        .iter()
        .flat_map(|batch| match &batch.rows {
            Rows::Raw(rows) => rows.iter().map(|row| (row.previous, row.position)).collect(),
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(kept.first(), Some(&(left_out, left_out + 1)), "it names one that is not there");
    assert_eq!(kept.last(), Some(&(999, 1_000)));
}

#[test]
fn by_frames_the_last_change_of_a_tick_in_a_frame_is_its_row() {
    let frames = FrameHistory { venues: vec![Venue::BinanceSpot], frame_ns: 40 };
    let mut writer = writer(WriterOptions { frames: Some(frames), ..WriterOptions::default() });
    let shown = |seq: u64, shown_ns: u64| AdmittedChanges { shown_ns, ..delta(0, seq) };
    for (seq, shown_ns) in [(1, 41), (2, 44), (3, 80), (4, 81), (5, 120), (6, 124)] {
        push(&mut writer, &shown(seq, shown_ns));
    }
    assert_eq!(writer.counters(0).frame_conflated, 2 * 3);
    writer.flush();
    let batches = take_all(&mut writer, 0);
    assert_eq!(all_ticks(&batches).iter().map(|row| row.0).collect::<Vec<_>>(), [3, 3, 5, 5, 6, 6]);
    assert_eq!(gaps(&batches).len(), 0, "nobody wants more");
    assert_eq!(writer.counters(0).rows_unconfirmed(), 0);
    // A frame that nothing follows ends after the age of a batch.
    push(&mut writer, &shown(7, 200));
    assert_eq!(writer.next_deadline_ns(0), Some(BATCH_AGE_NS));
    writer.poll(BATCH_AGE_NS);
    assert_eq!(all_ticks(&take_all(&mut writer, 2 * BATCH_AGE_NS)).len(), 2);
}

#[test]
fn the_state_is_full_until_a_batch_is_taken() {
    let mut writer = writer(small(2));
    push(&mut writer, &delta(0, 1));
    let batch = inserting(&mut writer, 0);
    writer.failed(0, &batch.token, "Code: 243. DB::Exception: not enough (NOT_ENOUGH_SPACE)");
    assert_eq!(writer.counters(0).state, StoreState::Full);
    let again = inserting(&mut writer, BACKOFF_MAX_NS);
    writer.failed(0, &again.token, "connection refused");
    assert_eq!(writer.counters(0).state, StoreState::Failing);
    take_all(&mut writer, u64::MAX);
    assert_eq!(writer.counters(0).state, StoreState::Ready);
}
