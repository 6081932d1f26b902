//! Random changes, whole books, stalls, failures and recoveries against a model of the store: what is in it in the end is
//! the truth, and what is not in its history is on record.
//!
//! Never: an expectation about which changes are left out; only that those that are, are told.

use super::*;
use crate::clickhouse::rows::HistoryGap;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Key = (u32, Side, i64);

/// What happens next.
#[derive(Clone, Debug)]
enum Op {
    /// Changes of an instrument: prices and reserves.
    Delta(u32, Vec<(bool, i64, u64)>),
    /// A whole book of it.
    Whole(u32, Vec<(bool, i64, u64)>),
    /// Changes that are left out on the way to the writer.
    Lose(u32, Vec<(bool, i64, u64)>),
    /// The writer is asked what it wants.
    Poll,
    /// One of the actions under way ends: as it should, with an error, or with an error although it was done.
    End(usize, Outcome),
    /// Whole books that are wanted are given.
    Answer,
    /// Time passes, milliseconds.
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Done,
    Failed,
    Unknown,
}

fn op() -> impl Strategy<Value = Op> {
    let row = || (any::<bool>(), 0..6_i64, 0..4_u64);
    let outcome = prop_oneof![4 => Just(Outcome::Done), 1 => Just(Outcome::Failed), 1 => Just(Outcome::Unknown)];
    prop_oneof![
        12 => (0..3_u32, prop::collection::vec(row(), 1..4)).prop_map(|(symbol, rows)| Op::Delta(symbol, rows)),
        1 => (0..3_u32, prop::collection::vec(row(), 0..6)).prop_map(|(symbol, rows)| Op::Whole(symbol, rows)),
        1 => (0..3_u32, prop::collection::vec(row(), 1..3)).prop_map(|(symbol, rows)| Op::Lose(symbol, rows)),
        2 => Just(Op::Poll),
        2 => (any::<usize>(), outcome).prop_map(|(at, outcome)| Op::End(at, outcome)),
        1 => Just(Op::Answer),
        1 => (1..20_000_u64).prop_map(Op::Wait),
    ]
}

/// The store: what was inserted, each token once.
#[derive(Default)]
struct Model {
    tokens: BTreeSet<Box<str>>,
    /// Rows of `tick_updates`: key, version, reserves.
    updates: Vec<(Key, u64, u64)>,
    gaps: Vec<HistoryGap>,
}

impl Model {
    fn insert(&mut self, batch: &Batch) {
        if !self.tokens.insert(batch.token.clone()) {
            return;
        }
        match &batch.rows {
            Rows::Ticks(rows) => self.updates.extend(rows.iter().map(|row| {
                let reserves = u64::try_from(row.reserves).unwrap();
                ((row.instrument.id.0, row.side, row.key.tick_index), row.version.seq, reserves)
            })),
            Rows::Gaps(gaps) => self.gaps.extend(gaps.iter().cloned()),
            _ => panic!("nothing else was pushed"),
        }
    }

    /// `tick_state FINAL`: of each tick the row of the greatest version, of equal ones the last.
    fn state(&self) -> BTreeMap<Key, (u64, u64)> {
        let mut state: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        for (key, version, reserves) in &self.updates {
            let row = state.entry(*key).or_insert((*version, *reserves));
            if row.0 <= *version {
                *row = (*version, *reserves);
            }
        }
        state
    }

    fn live_keys(&self, symbol: SymbolId) -> Vec<LiveKey> {
        let state = self.state();
        let alive = state.iter().filter(|((of, ..), (_, reserves))| *of == symbol.0 && *reserves > 0);
        alive.map(|((_, side, index), (version, _))| live(*side, *index, *version)).collect()
    }

    fn covers(&self, symbol: u32, seq: u64) -> bool {
        let version = Version::new(1, seq).to_u128();
        let of = |gap: &&HistoryGap| gap.instrument.id.0 == symbol;
        self.gaps.iter().filter(of).any(|gap| gap.after() < version && version <= gap.left_out.last)
    }
}

struct Trial {
    writer: StoreWriter,
    store: Model,
    truth: BTreeMap<Key, u64>,
    /// All that was pushed.
    pushed: Vec<(Key, u64, u64)>,
    /// The newest event of each instrument, with or without rows.
    newest: BTreeMap<u32, u64>,
    seq: u64,
    now_ns: u64,
    under_way: Vec<Action>,
    wanted: Vec<SymbolId>,
    loses: bool,
}

impl Trial {
    fn new(rows_max: u64, loses: bool) -> Self {
        let row_bytes = count(size_of::<TickUpdate>());
        let options = WriterOptions { pending_bytes_max: rows_max * row_bytes, ..small(5) };
        let mut store = Model::default();
        // An earlier process left ticks that nobody knows of.
        store
            .updates
            .extend((0..3).flat_map(|symbol| [((symbol, Side::Bid, 77), 1, 9), ((symbol, Side::Ask, 2), 2, 9)]));
        let mut trial = Self {
            writer: writer(options),
            store,
            truth: BTreeMap::new(),
            pushed: Vec::new(),
            newest: BTreeMap::new(),
            seq: 2,
            now_ns: 0,
            under_way: Vec::new(),
            wanted: Vec::new(),
            loses,
        };
        (0..3).for_each(|symbol| trial.whole(symbol, &[(true, 3, 1)]));
        trial
    }

    fn push(&mut self, symbol: u32, rows: &BTreeMap<Key, u64>, whole: bool) {
        let seq = self.seq;
        let list: Vec<_> = rows.iter().map(|((_, side, index), reserves)| (*side, *index, *reserves)).collect();
        self.pushed.extend(rows.iter().map(|(key, reserves)| (*key, seq, *reserves)));
        self.newest.insert(symbol, seq);
        self.writer.push_changes(self.now_ns, &changes(symbol, seq, &list, whole), &instrument(symbol)).unwrap();
        assert!(!self.writer.is_full());
    }

    fn rows(symbol: u32, rows: &[(bool, i64, u64)]) -> BTreeMap<Key, u64> {
        let key = |bid: bool, index: i64| (symbol, if bid { Side::Bid } else { Side::Ask }, index);
        rows.iter().map(|(bid, index, reserves)| (key(*bid, *index), *reserves)).collect()
    }

    fn apply(&mut self, rows: &BTreeMap<Key, u64>) {
        for (key, reserves) in rows {
            if *reserves == 0 {
                self.truth.remove(key)
            } else {
                self.truth.insert(*key, *reserves)
            };
        }
    }

    fn whole(&mut self, symbol: u32, rows: &[(bool, i64, u64)]) {
        let mut book = Self::rows(symbol, rows);
        book.retain(|_, reserves| *reserves > 0);
        let dead: Vec<Key> =
            self.truth.keys().filter(|key| key.0 == symbol && !book.contains_key(key)).copied().collect();
        book.extend(dead.into_iter().map(|key| (key, 0)));
        self.seq += 1;
        self.apply(&book);
        self.push(symbol, &book, true);
    }

    fn poll(&mut self) {
        while let Some(action) = self.writer.poll(self.now_ns) {
            self.under_way.push(action);
        }
        self.wanted.extend(self.writer.take_wanted());
    }

    fn end(&mut self, at: usize, outcome: Outcome) {
        if self.under_way.is_empty() {
            return;
        }
        let action = self.under_way.remove(at % self.under_way.len());
        match (action, outcome) {
            (Action::Insert(batch), Outcome::Failed) => self.writer.failed(self.now_ns, &batch.token, "x"),
            (Action::Insert(batch), outcome) => {
                self.store.insert(&batch);
                self.nothing_older_is_missing_without_a_word(&batch);
                match outcome {
                    Outcome::Done => self.writer.inserted(&batch.token),
                    _ => self.writer.failed(self.now_ns, &batch.token, "x"),
                }
            }
            (Action::LoadLiveKeys(symbol), Outcome::Done) => {
                let keys = self.store.live_keys(symbol);
                self.writer.live_keys(self.now_ns, symbol, &keys);
            }
            (Action::LoadLiveKeys(symbol), _) => self.writer.load_failed(self.now_ns, symbol, "x"),
        }
    }

    /// Up to the newest version of an instrument in a batch, every change is in the store, or a gap that is in it says so.
    fn nothing_older_is_missing_without_a_word(&self, batch: &Batch) {
        let Rows::Ticks(rows) = &batch.rows else { return };
        let stored: BTreeSet<(Key, u64)> =
            self.store.updates.iter().map(|(key, version, _)| (*key, *version)).collect();
        for row in rows {
            let symbol = row.instrument.id.0;
            let older = self.pushed.iter().filter(|(key, version, _)| key.0 == symbol && *version < row.version.seq);
            for (key, version, _) in older {
                let told = stored.contains(&(*key, *version)) || self.store.covers(symbol, *version);
                assert!(told, "{key:?} of {version} is missing behind {}", row.version);
            }
        }
    }

    fn answer(&mut self) {
        for symbol in std::mem::take(&mut self.wanted) {
            // As the hub gives it: at the version that is shown, which is not a new one.
            let book: BTreeMap<Key, u64> = self
                .truth
                .iter()
                .filter(|(key, _)| key.0 == symbol.0)
                .map(|(key, reserves)| (*key, *reserves))
                .collect();
            self.push(symbol.0, &book, true);
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Delta(symbol, rows) => {
                let rows = Self::rows(*symbol, rows);
                self.seq += 1;
                self.apply(&rows);
                self.push(*symbol, &rows, false);
            }
            Op::Whole(symbol, rows) => self.whole(*symbol, rows),
            Op::Lose(symbol, rows) if self.loses => {
                let rows = Self::rows(*symbol, rows);
                self.seq += 1;
                self.apply(&rows);
                self.pushed.extend(rows.iter().map(|(key, reserves)| (*key, self.seq, *reserves)));
                let version = Version::new(1, self.seq).to_u128();
                let left_out = LeftOut { first: version, last: version, count: count(rows.len()), received_ns: 0 };
                self.writer.push_left_out(SymbolId(*symbol), &instrument(*symbol), left_out);
            }
            Op::Lose(..) => {}
            Op::Poll => self.poll(),
            Op::End(at, outcome) => self.end(*at, *outcome),
            Op::Answer => self.answer(),
            Op::Wait(ms) => self.now_ns += ms * 1_000_000,
        }
    }

    /// The store takes everything from now on; the input ends.
    fn finish(&mut self) {
        for _ in 0..200 {
            self.now_ns += BACKOFF_MAX_NS;
            self.poll();
            while !self.under_way.is_empty() {
                self.end(0, Outcome::Done);
                self.poll();
            }
            self.answer();
        }
        self.writer.flush();
        for _ in 0..200 {
            self.now_ns += BACKOFF_MAX_NS;
            self.poll();
            while !self.under_way.is_empty() {
                self.end(0, Outcome::Done);
            }
        }
        assert!(self.writer.is_idle());
    }

    fn check(&self) {
        let state = self.store.state();
        let alive: BTreeMap<Key, u64> =
            state.iter().filter(|(_, row)| row.1 > 0).map(|(key, row)| (*key, row.1)).collect();
        assert_eq!(alive, self.truth);
        let stored: BTreeSet<(Key, u64)> =
            self.store.updates.iter().map(|(key, version, _)| (*key, *version)).collect();
        let missing: BTreeSet<(Key, u64)> =
            self.pushed.iter().map(|(key, version, _)| (*key, *version)).filter(|row| !stored.contains(row)).collect();
        for (key, version) in &missing {
            assert!(self.store.covers(key.0, *version), "{key:?} of {version} is missing without a word");
        }
        let counters = self.writer.counters(self.now_ns);
        assert_eq!(counters.rows_unconfirmed(), 0);
        let told: u64 = self.store.gaps.iter().map(|gap| gap.left_out.count).sum();
        assert_eq!((told, count(self.store.gaps.len())), (counters.changes_left_out, counters.gaps_noted));
        if counters.instruments_given_up == 0 {
            // A tombstone for a tick of the store is a change too, of which nobody here knows.
            let most = count(missing.len()) + counters.tombstones;
            assert!((count(missing.len())..=most).contains(&told), "{told} told of {}", missing.len());
        }
        if counters.instruments_given_up == 0 && told == count(missing.len()) {
            for gap in &self.store.gaps {
                let is_missing = |seq: u128| {
                    missing.iter().any(|(key, version)| {
                        key.0 == gap.instrument.id.0 && Version::new(1, *version).to_u128() == seq
                    })
                };
                let narrow = is_missing(gap.left_out.first) && is_missing(gap.left_out.last);
                assert!(narrow, "a gap is no wider than it must be");
            }
        }
        for symbol in 0..3 {
            let last = self.newest.get(&symbol).copied();
            assert_eq!(self.writer.durable(SymbolId(symbol)).map(|version| version.seq), last, "durable in the end");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_state_is_right_and_every_gap_is_told(rows_max in 4_u64..40, loses in any::<bool>(), ops in prop::collection::vec(op(), 1..300)) {
        let mut trial = Trial::new(rows_max, loses);
        for op in &ops {
            trial.step(op);
            let bound = trial.writer.options.conflated_bytes_max() + 2 * trial.writer.options.pending_bytes_max;
            // Books that make good a loss are bounded by their ticks: three of thirteen each, and as many changes of them.
            let books = 2 * 3 * 13 + 16;
            prop_assert!(trial.writer.pending_bytes() <= bound + 2 * books * count(size_of::<TickUpdate>()));
        }
        trial.finish();
        trial.check();
    }
}
