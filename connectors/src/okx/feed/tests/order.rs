//! What orders books: chains of ids over a real guard, arrival, and what checksums do about either.
//!
//! Never: a look into the guard but by what it answers.

use super::*;
use market::{
    FeedState, Guard, Version,
    guard::{Limits, Offer},
};

const MS: u64 = 1_000_000;

/// A guard that is told what the feed says.
struct Guarded {
    guard: Guard<(), ()>,
    now_ns: u64,
    applied: Vec<Version>,
}

impl Guarded {
    fn new() -> Self {
        Self { guard: Guard::new(Limits::default(), 0, 0), now_ns: MS, applied: Vec::new() }
    }

    fn take(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            let now_ns = self.now_ns;
            match event.body {
                Body::Snapshot(snapshot) => {
                    let taken = self.guard.offer_snapshot(now_ns, snapshot.sequence, ());
                    self.applied.extend(taken.ok().flatten().map(|(version, ())| version));
                }
                Body::Delta(delta) => match self.guard.offer(now_ns, event.leg, delta.sequence) {
                    Offer::Apply(version) => self.applied.push(version),
                    Offer::Hold => self.guard.hold(now_ns, event.leg, delta.sequence, (), 100),
                    _ => {}
                },
                Body::Broken(_) => self.guard.broken(now_ns),
                _ => {}
            }
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.applied.extend(self.guard.poll(self.now_ns).map(|(version, ())| version));
        while let Some((version, ())) = self.guard.next_ready() {
            self.applied.push(version);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ns += ms * MS;
        self.settle();
    }
}

#[test]
fn a_chain_of_ids_is_told_as_it_is() {
    let mut wire = Wire::new();
    wire.book(0, Said::snapshot(BTC, &[("100", "1"), ("99", "2")]).ids(-1, 10));
    wire.book(0, Said::update(BTC, &[("99", "0.000"), ("98", "3")]).ids(10, 15));
    wire.book(1, Said::update(BTC, &[]).ids(15, 15));
    wire.book(0, Said::update(BTC, &[("97", "3")]).ids(15, 17));
    let told = wire.told();
    let right = [
        ("snapshot", 0, venue(10, 10), 2),
        ("delta", 0, venue(11, 10), 0),
        ("delta", 0, venue(11, 15), 2),
        ("delta", 0, venue(16, 15), 0),
        ("delta", 0, venue(16, 17), 1),
    ];
    assert_eq!(told, right);
    let repeated = wire.say(0, &Said::update(BTC, &[("97", "3")]).ids(17, 17).text());
    assert!(matches!(repeated, Err(Undecodable::Ids { .. })), "no id, but levels: {repeated:?}");
    let unchained = wire.say(0, &Said::update(BTC, &[("97", "3")]).ids(-1, 18).text());
    assert!(matches!(unchained, Err(Undecodable::Field { field: "prevSeqId", .. })), "{unchained:?}");
}

#[test]
fn an_idle_word_tells_the_guard_that_something_is_missing() {
    let (mut wire, mut guarded) = (Wire::new(), Guarded::new());
    wire.book(0, Said::snapshot(BTC, &[("100", "1")]).ids(-1, 10));
    wire.book(0, Said::update(BTC, &[("99", "1")]).ids(10, 15));
    wire.book(0, Said::update(BTC, &[]).ids(15, 15));
    guarded.take(&mut wire.events);
    assert_eq!(guarded.applied, [Version::new(0, 10), Version::new(0, 15)]);
    assert_eq!(guarded.guard.state(), FeedState::Live);
    // 15 to 20 was lost.
    wire.book(0, Said::update(BTC, &[]).ids(20, 20));
    guarded.take(&mut wire.events);
    guarded.pass(250);
    assert_eq!((guarded.guard.state(), guarded.guard.version()), (FeedState::Gapped, Some(Version::new(0, 15))));
    assert!(guarded.guard.wants_snapshot(guarded.now_ns));
}

#[test]
fn ids_that_maintenance_resets_open_a_new_epoch_with_a_snapshot() {
    let (mut wire, mut guarded) = (Wire::new(), Guarded::new());
    for leg in [0, 1] {
        wire.book(leg, Said::snapshot(BTC, &[("100", "1")]).ids(-1, 10));
        wire.book(leg, Said::update(BTC, &[("99", "1")]).ids(10, 15));
    }
    guarded.take(&mut wire.events);
    assert_eq!(guarded.guard.version(), Some(Version::new(0, 15)));
    // The venue's own example: 15, then 3 after 15, then 5 after 3.
    for leg in [0, 1] {
        wire.book(leg, Said::update(BTC, &[("98", "1")]).ids(15, 3));
        wire.book(leg, Said::update(BTC, &[("97", "1")]).ids(3, 5));
    }
    guarded.take(&mut wire.events);
    assert_eq!(guarded.guard.version(), Some(Version::new(0, 15)), "nothing of the new count is shown yet");
    assert_eq!((guarded.guard.counts().resets, guarded.guard.state()), (1, FeedState::Gapped));
    assert!(guarded.guard.wants_snapshot(guarded.now_ns));
    wire.book(0, Said::snapshot(BTC, &[("97", "1")]).ids(-1, 5));
    wire.book(0, Said::update(BTC, &[("96", "1")]).ids(5, 9));
    guarded.take(&mut wire.events);
    let shown: Vec<_> = guarded.applied.iter().rev().take(2).rev().copied().collect();
    assert_eq!(shown, [Version::new(1, 5), Version::new(1, 9)]);
    assert_eq!((guarded.guard.counts().resets, guarded.guard.state()), (1, FeedState::Live));
}

#[test]
fn what_orders_an_instrument_is_decided_at_its_first_book_and_stays() {
    let mut wire = Wire::new();
    wire.book(0, Said::snapshot(BTC, &[("100", "1")]).ids(-1, 10));
    wire.book(0, Said::snapshot("ETH-USDT", &[("10", "1")]));
    let arrived = Some(Sequence::Arrival(2));
    let right = [("snapshot", 0, venue(10, 10), 1), ("delta", 0, venue(11, 10), 0), ("snapshot", 1, arrived, 1)];
    assert_eq!(wire.told(), right);
    for other in [Said::update(BTC, &[("99", "1")]), Said::update("ETH-USDT", &[("9", "1")]).ids(10, 11)] {
        let error = wire.say(0, &other.text()).unwrap_err();
        assert!(matches!(error, Undecodable::Field { field: "seqId", .. }), "{error}");
    }
    wire.book(0, Said { channel: "books-l2-tbt", ..Said::update(BTC, &[("98", "1")]).ids(7, 11) });
    assert_eq!((wire.told().len(), wire.feed.counts().ignored), (0, 1), "another channel has ids of its own");
    wire.book(0, Said::update(BTC, &[("98", "1")]).ids(10, 11));
    assert_eq!(wire.told(), [("delta", 0, venue(11, 11), 1)]);
}

#[test]
fn only_the_third_of_several_numbered_instruments_is_mended_after_its_checksum_failed() {
    let symbols = ["BTC-USDT", "ETH-USDT", "SOL-USDT", "XRP-USDT"];
    let (mut wire, held): (_, Levels<'_>) = (Wire::new(), &[("100", "1")]);
    for symbol in symbols {
        wire.book(0, Said::snapshot(symbol, held).ids(-1, 10).sums(held));
    }
    wire.told();
    let both: Levels<'_> = &[("100", "1"), ("99", "2")];
    for (at, symbol) in symbols.into_iter().enumerate() {
        let right = if at == 2 { held } else { both };
        wire.book(0, Said::update(symbol, &[("99", "2")]).ids(10, 11).sums(right));
    }
    let delta = |symbol| ("delta", symbol, venue(11, 11), 1);
    assert_eq!(wire.told(), [delta(0), delta(1), ("broken", 2, None, 0), delta(3)]);
    assert_eq!(wire.feed.repairs(), [(LegId(0), "SOL-USDT".into())]);
    assert_eq!((wire.feed.counts().checksums_matched, wire.feed.counts().checksums_failed), (7, 1));
    // Until the snapshot its updates are told and held against nothing.
    wire.book(0, Said::update("SOL-USDT", &[("98", "2")]).ids(11, 12).sums(held));
    wire.book(0, Said::snapshot("SOL-USDT", both).ids(-1, 12).sums(both));
    let snapshot = ("snapshot", 2, venue(12, 12), 2);
    assert_eq!(wire.told(), [("delta", 2, venue(12, 12), 1), snapshot, ("delta", 2, venue(13, 12), 0)]);
    assert!(wire.feed.repairs().is_empty());
    assert_eq!((wire.feed.counts().checksums_matched, wire.feed.counts().checksums_failed), (8, 1));
}

#[test]
fn a_checksum_that_always_fails_is_put_aside_and_the_data_are_kept() {
    let held: Levels<'_> = &[("100", "1")];
    for ids in [Some((-1, 10)), None] {
        let mut wire = Wire::new();
        for _ in 0..7 {
            wire.book(0, Said { ids, checksum: 77, ..Said::snapshot(BTC, held) });
        }
        let kinds: Vec<_> = wire.told().into_iter().map(|(kind, ..)| kind).collect();
        let shown = kinds.iter().filter(|kind| **kind == "snapshot").count();
        assert_eq!(shown, 3, "{kinds:?}");
        let counts = wire.feed.counts();
        assert_eq!((counts.checksums_failed, counts.checks_put_aside), (7, 1));
        assert_eq!(wire.feed.repairs(), [(LegId(0), BTC.into())]);
    }
}

#[test]
fn books_without_ids_are_one_legs_and_another_takes_over_after_a_failed_checksum() {
    let mut wire = Wire::new();
    let (held, both): (Levels<'_>, Levels<'_>) = (&[("100", "1")], &[("100", "1"), ("99", "2")]);
    let symbols = ["BTC-USDT", "ETH-USDT", "SOL-USDT"];
    for symbol in symbols {
        wire.book(0, Said::snapshot(symbol, held).sums(held));
        wire.book(1, Said::snapshot(symbol, held).sums(held));
        wire.book(2, Said::snapshot(symbol, held).sums(held));
    }
    assert_eq!(wire.told().len(), 3, "one leg each");
    assert_eq!(wire.feed.active("SOL-USDT"), Some(LegId(0)));
    for symbol in symbols {
        wire.book(1, Said::update(symbol, &[("99", "2")]).sums(both));
        let right = if symbol == "SOL-USDT" { held } else { both };
        wire.book(0, Said::update(symbol, &[("99", "2")]).sums(right));
    }
    let told = wire.told();
    let kinds: Vec<_> = told.iter().map(|(kind, symbol, _, levels)| (*kind, *symbol, *levels)).collect();
    assert_eq!(kinds, [("delta", 0, 1), ("delta", 1, 1), ("snapshot", 2, 2)]);
    let active: Vec<_> = symbols.map(|symbol| wire.feed.active(symbol)).into();
    assert_eq!(active, [Some(LegId(0)), Some(LegId(0)), Some(LegId(1))]);
    assert_eq!(wire.feed.repairs(), [(LegId(0), "SOL-USDT".into())]);
}

#[test]
fn a_second_snapshot_without_notice_replaces() {
    let mut wire = Wire::new();
    wire.book(0, Said::snapshot(BTC, &[("100", "1"), ("99", "2")]).sums(&[("100", "1"), ("99", "2")]));
    wire.book(0, Said::snapshot(BTC, &[("95", "1")]).sums(&[("95", "1")]));
    wire.book(0, Said::update(BTC, &[("94", "1")]).sums(&[("95", "1"), ("94", "1")]));
    let arrival = |seq| Some(Sequence::Arrival(seq));
    let right = [("snapshot", 0, arrival(1), 2), ("snapshot", 0, arrival(2), 1), ("delta", 0, arrival(3), 1)];
    assert_eq!(wire.told(), right);
    assert_eq!(wire.feed.counts().checksums_failed, 0);
}

#[test]
fn several_books_of_one_message_are_one_change() {
    let mut wire = Wire::new();
    wire.book(0, Said::snapshot(BTC, &[("100", "1")]));
    let two = [Said::update(BTC, &[("99", "2")]), Said::update(BTC, &[("99", "0"), ("98", "3")])];
    let right: Levels<'_> = &[("100", "1"), ("98", "3")];
    let entries = [two[0].entry(), two[1].sums(right).entry()].join(",");
    let of = |action: &str| {
        format!(r#"{{"arg":{{"channel":"books","instId":"BTC-USDT"}},"action":"{action}","data":[{entries}]}}"#)
    };
    wire.say(0, &of("update")).unwrap();
    let arrival = |seq| Some(Sequence::Arrival(seq));
    assert_eq!(wire.told(), [("snapshot", 0, arrival(1), 1), ("delta", 0, arrival(2), 3)]);
    assert_eq!(wire.feed.counts().checksums_matched, 1);
    // Numbered ones have an order of their own.
    let entries = [two[0].ids(10, 12).entry(), two[1].ids(12, 15).entry()].join(",");
    wire.book(0, Said::snapshot("ETH-USDT", &[("100", "1")]).ids(-1, 10));
    wire.told();
    let text = format!(r#"{{"arg":{{"channel":"books","instId":"ETH-USDT"}},"action":"update","data":[{entries}]}}"#);
    wire.say(0, &text).unwrap();
    assert_eq!(wire.told(), [("delta", 1, venue(11, 12), 1), ("delta", 1, venue(13, 15), 2)]);
}

#[test]
fn the_end_of_a_subscription_or_of_a_connection_ends_what_was_held_against_checksums() {
    let held: Levels<'_> = &[("100", "1")];
    let mut wire = Wire::new();
    wire.book(0, Said::snapshot(BTC, held).ids(-1, 10).sums(held));
    wire.book(0, Said::snapshot("ETH-USDT", held).sums(held));
    wire.told();
    for symbol in [BTC, "ETH-USDT"] {
        wire.say(0, &format!(r#"{{"event":"unsubscribe","arg":{{"channel":"books","instId":"{symbol}"}}}}"#)).unwrap();
    }
    assert_eq!(wire.told(), [("broken", 1, None, 0)], "merged books go on with other legs");
    wire.book(0, Said::update(BTC, &[("99", "1")]).ids(10, 11).sums(held));
    assert_eq!(wire.told(), [("delta", 0, venue(11, 11), 1)]);
    wire.book(0, Said::snapshot(BTC, held).ids(-1, 11).sums(held));
    wire.frame(0, RawKind::Close, "").unwrap();
    wire.frame(0, RawKind::Open, "").unwrap();
    wire.book(0, Said::update(BTC, &[("99", "1")]).ids(11, 12).sums(held));
    assert_eq!(wire.feed.counts().checksums_failed, 0);
}
