//! Rounds and files: what a crash leaves at each moment, what a slow or broken disk does, what the tape is asked.
//!
//! Never: a taker's time other than the hub's.

use super::*;

/// Steps the taker cut by cut until as many checkpoints are there; its pieces come back from a thread.
fn step_until(taker: &mut CheckpointTaker, tape: &mut Tape, view: &CheckpointView, checkpoints: u64) {
    let patience = std::time::Instant::now() + Duration::from_secs(60);
    while written(view) < checkpoints {
        assert!(std::time::Instant::now() < patience, "the checkpoint does not get on");
        taker.step(&tape.hub);
        // Time passes only as long as there is something to copy: the next round must not become due meanwhile.
        if taker.progress().is_some() {
            tape.cut(Vec::new());
        }
        std::thread::yield_now();
    }
}

fn written(view: &CheckpointView) -> u64 {
    view.counts()[0].1
}

/// A piece with every book of the tape.
fn whole_part(tape: &Tape) -> Part {
    let mut part = Part::default();
    for held in tape.hub.instruments() {
        part.copy(held, &tape.directory.get(held.symbol()).unwrap());
    }
    part
}

const ONLY: Place = Place { first: true, last: true, now_ns: 5 };

#[test]
fn rounds_begin_at_their_time_and_not_while_one_is_being_written() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    let mut tape = Tape::with_books(20, 200);
    let mut taker = tape.taker(dir.path(), &view);
    taker.step(&tape.hub);
    tape.pass(Duration::from_secs(9));
    taker.step(&tape.hub);
    assert_eq!((taker.is_idle(), view.age_ms(tape.hub.now_ns())), (true, None));
    tape.pass(Duration::from_secs(1));
    step_until(&mut taker, &mut tape, &view, 1);
    assert_eq!(load(dir.path(), &view).unwrap().instruments, tape.books());
    // The next one is due ten seconds after this one began.
    taker.step(&tape.hub);
    assert!(taker.is_idle());
    tape.pass(Duration::from_secs(10));
    step_until(&mut taker, &mut tape, &view, 2);
    let last = view.last(tape.hub.now_ns() + 3_000_000);
    assert_eq!(last[2], ("instruments", 20));
    assert!(last[0].1 >= 3 && view.age_ms(tape.hub.now_ns()).is_some(), "{last:?}");
    assert_eq!(last[1].1, fs::metadata(path(dir.path())).unwrap().len());
}

#[test]
fn a_round_copies_a_bounded_piece_per_call_and_each_book_of_one_cut() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    // 2 x 2,000 levels are more than a piece holds, so each call takes one instrument.
    let mut tape = Tape::with_books(4, 2_000);
    let mut taker = tape.taker(dir.path(), &view);
    taker.step(&tape.hub);
    tape.pass(Duration::from_secs(10));
    let before = tape.books();
    assert!(taker.step(&tape.hub));
    assert_eq!(taker.progress(), Some(1));
    assert!(!taker.step(&tape.hub), "a second piece of one cut");
    // The first and the last instrument move on in the middle of the round.
    let moved = [SymbolId(0), SymbolId(3)].map(|symbol| {
        let base = tape.hub.instrument(symbol).unwrap().version().unwrap();
        let dead = LevelChange { side: Side::Bid, level: Level { tick_index: 999, quantity: U256::ZERO } };
        delta(symbol, base, Version::new(base.epoch, base.seq + 1), vec![dead])
    });
    tape.cut(moved.to_vec());
    step_until(&mut taker, &mut tape, &view, 1);
    let found = load(dir.path(), &view).unwrap().instruments;
    assert_eq!(found[..3], before[..3]);
    assert_eq!(found[3], tape.books()[3]);
    assert_eq!(found[3].restored.ticks.as_ref().unwrap().len(), 3_999);
}

#[test]
fn a_writer_that_has_every_piece_holds_up_the_round_and_not_the_tape() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    let mut tape = Tape::with_books(3, 10);
    let mut taker = tape.taker(dir.path(), &view);
    taker.step(&tape.hub);
    let held = taker.withhold();
    tape.pass(Duration::from_secs(10));
    taker.step(&tape.hub);
    assert_eq!((taker.is_idle(), written(&view)), (true, 0));
    taker.give_back(held);
    step_until(&mut taker, &mut tape, &view, 1);
}

#[test]
fn the_last_checkpoint_is_complete_whatever_was_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    let mut tape = Tape::with_books(6, 2_000);
    let mut taker = tape.taker(dir.path(), &view);
    taker.step(&tape.hub);
    tape.pass(Duration::from_secs(10));
    taker.step(&tape.hub);
    assert!(!taker.is_idle());
    let base = tape.hub.instrument(SymbolId(0)).unwrap().version().unwrap();
    tape.cut(vec![delta(SymbolId(0), base, Version::new(9, 9), Vec::new())]);
    taker.finish(&tape.hub).unwrap();
    let found = load(dir.path(), &view).unwrap();
    assert_eq!((found.greatest_epoch, found.instruments), (9, tape.books()));
}

#[test]
fn a_hub_without_books_leaves_the_file_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    let tape = Tape::with_books(2, 2);
    tape.taker(dir.path(), &view).finish(&tape.hub).unwrap();
    let empty = Tape::new();
    empty.taker(dir.path(), &view).finish(&empty.hub).unwrap();
    assert_eq!(load(dir.path(), &view).unwrap().instruments, tape.books());
    assert_eq!(view.counts(), [("written", 1), ("failures", 0)]);
    assert!(!dir.path().join("checkpoint.tmp").exists());
}

#[test]
fn an_end_before_the_start_is_over_leaves_the_file_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    let (old, partly) = (Tape::with_books(3, 2), Tape::with_books(2, 2));
    let finish = |tape: &Tape| {
        let directory = Arc::clone(&tape.directory);
        let every = Duration::from_secs(10);
        let view = Arc::clone(&view);
        let config = TakerConfig { data_dir: dir.path(), directory, every, block: 7, restored: 3, view };
        CheckpointTaker::start(config).unwrap().finish(&tape.hub).unwrap();
        load(dir.path(), &CheckpointView::default()).map(|checkpoint| checkpoint.instruments)
    };
    assert_eq!(finish(&partly), None);
    assert_eq!(finish(&old), Some(old.books()));
    assert_eq!(finish(&partly), Some(old.books()));
}

#[test]
fn a_crash_before_the_rename_leaves_the_file_that_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (Tape::with_books(2, 2), Tape::with_books(3, 5));
    let mut writer = Writer::new(dir.path(), 7, Arc::default());
    writer.take(&Part { place: Some(ONLY), ..whole_part(&old) });
    let books = || read(&path(dir.path())).unwrap().unwrap().instruments;
    assert_eq!(books(), old.books());
    // In the middle of the levels, then with everything durable but the name.
    let part = whole_part(&new);
    writer.add(&part, Place { last: false, ..ONLY }).unwrap();
    assert_eq!(books(), old.books());
    assert!(writer.complete(ONLY).unwrap().is_some());
    drop(writer);
    assert_eq!(books(), old.books());
    // What lies aside is whole, and the next run writes over it.
    assert_eq!(read(&dir.path().join("checkpoint.tmp")).unwrap().unwrap().instruments, new.books());
    new.taker(dir.path(), &Arc::default()).finish(&new.hub).unwrap();
    assert_eq!(books(), new.books());
}

#[test]
fn a_disk_that_refuses_is_counted_and_the_next_round_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    let tape = Tape::with_books(2, 2);
    let part = Part { place: Some(ONLY), ..whole_part(&tape) };
    let mut writer = Writer::new(dir.path(), 7, Arc::clone(&view));
    writer.take(&part);
    // A folder in the way of the file aside.
    fs::create_dir(dir.path().join("checkpoint.tmp")).unwrap();
    view.writing.store(true, Relaxed);
    writer.take(&part);
    assert_eq!(view.counts(), [("written", 1), ("failures", 1)]);
    assert!(!view.writing.load(Relaxed));
    assert_eq!(read(&path(dir.path())).unwrap().unwrap().instruments, tape.books());
    let failed = tape.taker(dir.path(), &view).finish(&tape.hub);
    assert!(matches!(failed, Err(FinishError::Write(WriteError::Io(_)))), "{failed:?}");
    fs::remove_dir(dir.path().join("checkpoint.tmp")).unwrap();
    writer.take(&part);
    assert_eq!(view.counts(), [("written", 2), ("failures", 2)]);
}

#[test]
fn a_checkpoint_beyond_its_bound_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let view = Arc::new(CheckpointView::default());
    let mut writer = Writer::new(dir.path(), 7, Arc::clone(&view));
    let tape = Tape::with_books(1, 1);
    let names = vec![b'x'; 64 << 20];
    let first = Part { place: Some(Place { last: false, ..ONLY }), names: names.clone(), ..whole_part(&tape) };
    writer.take(&first);
    let more = Part { place: Some(Place { first: false, last: false, now_ns: 5 }), names, ..Part::default() };
    (0..16).for_each(|_| writer.take(&more));
    assert_eq!(view.counts(), [("written", 0), ("failures", 1)]);
    assert!(!path(dir.path()).exists() && !dir.path().join("checkpoint.tmp").exists());
}

#[test]
fn a_file_that_is_not_usable_is_named_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let view = CheckpointView::default();
    assert_eq!((load(dir.path(), &view), view.ignored()), (None, None));
    fs::write(path(dir.path()), [b'x'; Header::BYTES]).unwrap();
    assert_eq!((load(dir.path(), &view), view.ignored()), (None, Some("magic")));
    assert!(path(dir.path()).exists());
    let large = tempfile::tempdir().unwrap();
    fs::File::create(path(large.path())).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    assert!(matches!(read(&path(large.path())), Err(Ignored::TooLarge { bytes }) if bytes == FILE_BYTES_MAX + 1));
}
