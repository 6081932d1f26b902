//! Parts in every order, repeated, contradicting, too many.
//!
//! Never: I/O.

use super::*;
use crate::pubsub::header::Encoding;
use proptest::prelude::*;

fn header(height: u64, part: u32, parts: u32) -> BatchHeader {
    BatchHeader {
        stream: "neutron-1".into(),
        kind: BatchKind::Block,
        height,
        previous: height - 1,
        id: BatchId([u8::try_from(height % 251).unwrap(); 32]),
        encoding: Encoding::Zstd,
        block_time_ns: 0,
        part,
        parts,
    }
}

fn data(height: u64, part: u32) -> Bytes {
    Bytes::from(format!("{height}:{part}"))
}

fn offer(parts: &mut Parts<u32>, height: u64, (part, of): (u32, u32), message: u32) -> PartsOffer<u32> {
    parts.offer(&header(height, part, of), data(height, part), message)
}

#[test]
fn one_part_is_complete_at_once_and_leaves_nothing() {
    let mut parts = Parts::new(0);
    for message in 0..3 {
        let offered = offer(&mut parts, 7, (0, 1), message);
        assert_eq!(offered, PartsOffer::Complete { data: vec![data(7, 0)], messages: vec![message] });
    }
    assert_eq!((parts.messages(), parts.bytes(), parts.batches()), (0, 0, 0));
}

#[test]
fn repeated_parts_are_acknowledged_with_their_batch() {
    let mut parts = Parts::new(1 << 20);
    assert_eq!(offer(&mut parts, 7, (1, 2), 0), PartsOffer::Waiting);
    assert_eq!(offer(&mut parts, 7, (1, 2), 1), PartsOffer::Waiting);
    let complete = PartsOffer::Complete { data: vec![data(7, 0), data(7, 1)], messages: vec![0, 1, 2] };
    assert_eq!(offer(&mut parts, 7, (0, 2), 2), complete);
    assert_eq!(offer(&mut parts, 7, (1, 2), 3), PartsOffer::Known(3), "after it was complete");
    assert_eq!((parts.messages(), parts.bytes()), (0, 0));
}

#[test]
fn a_batch_that_failed_can_be_complete_again() {
    let mut parts = Parts::new(1 << 20);
    for round in 0..3 {
        assert_eq!(offer(&mut parts, 7, (0, 2), round * 10), PartsOffer::Waiting);
        assert!(matches!(offer(&mut parts, 7, (1, 2), round * 10 + 1), PartsOffer::Complete { .. }));
        parts.forget(&header(7, 0, 2));
    }
}

#[test]
fn parts_that_contradict_are_told_and_the_first_stays() {
    let mut parts = Parts::new(1 << 20);
    assert_eq!(offer(&mut parts, 7, (0, 3), 0), PartsOffer::Waiting);
    let other = parts.offer(&header(7, 0, 3), Bytes::from_static(b"other"), 1);
    assert_eq!(other, PartsOffer::Conflict { conflict: PartConflict::Data(0), message: 1 });
    let changes: [fn(&mut BatchHeader); 5] = [
        |header| header.parts = 4,
        |header| header.parts = 1,
        |header| header.encoding = Encoding::Gzip,
        |header| header.previous = 1,
        |header| header.block_time_ns = 5,
    ];
    for change in changes {
        let mut header = header(7, 0, 3);
        change(&mut header);
        let offered = parts.offer(&header, data(7, 0), 2);
        assert_eq!(offered, PartsOffer::Conflict { conflict: PartConflict::Attributes, message: 2 }, "{header:?}");
    }
    assert_eq!(offer(&mut parts, 7, (1, 3), 3), PartsOffer::Waiting);
    let PartsOffer::Complete { data: whole, messages } = offer(&mut parts, 7, (2, 3), 4) else {
        panic!("not complete")
    };
    assert_eq!((whole, messages), ((0..3).map(|part| data(7, part)).collect(), vec![0, 3, 4]));
}

/// Two batches of one height are two batches; which of them is right is not decided here.
#[test]
fn batches_of_one_height_do_not_mix() {
    let mut parts = Parts::new(1 << 20);
    let mut other = header(7, 1, 2);
    other.id = BatchId([99; 32]);
    let mut snapshot = header(7, 1, 2);
    snapshot.kind = BatchKind::Snapshot;
    let mut stream = header(7, 1, 2);
    stream.stream = "other-1".into();
    assert_eq!(offer(&mut parts, 7, (0, 2), 0), PartsOffer::Waiting);
    for (at, header) in [other, snapshot, stream].iter().enumerate() {
        assert_eq!(parts.offer(header, data(7, 1), u32::try_from(at).unwrap() + 1), PartsOffer::Waiting);
    }
    assert_eq!(parts.batches(), 4);
    assert!(matches!(offer(&mut parts, 7, (1, 2), 9), PartsOffer::Complete { .. }));
    assert_eq!(parts.batches(), 3);
}

#[test]
fn over_the_bound_the_greatest_height_gives_way() {
    let mut parts = Parts::new(3 * (MESSAGE_BYTES + 10));
    for (message, height) in [(0, 5), (1, 9), (2, 7)] {
        assert_eq!(offer(&mut parts, height, (0, 3), message), PartsOffer::Waiting);
    }
    assert_eq!(offer(&mut parts, 5, (1, 3), 3), PartsOffer::Displaced(vec![1]), "height 9");
    assert_eq!(offer(&mut parts, 8, (1, 3), 4), PartsOffer::Displaced(vec![4]), "itself");
    assert_eq!(parts.batches(), 2);
    assert!(matches!(offer(&mut parts, 5, (2, 3), 5), PartsOffer::Complete { messages, .. } if messages == [0, 3, 5]));
}

/// Deliveries of one part again and again must not fill the memory, though their data is not kept.
#[test]
fn repeats_are_bounded() {
    let mut parts = Parts::new(10 * MESSAGE_BYTES);
    let mut displaced = 0;
    for message in 0..1_000 {
        if let PartsOffer::Displaced(messages) = offer(&mut parts, 5, (0, 3), message) {
            displaced += messages.len();
        }
        assert!(parts.messages() <= 10);
    }
    assert_eq!(displaced + parts.messages(), 1_000);
}

#[test]
fn nothing_else_can_come_so_the_greatest_is_given_up() {
    let mut parts = Parts::new(1 << 20);
    let outstanding = Outstanding { messages: 3, bytes: 1_000 };
    offer(&mut parts, 5, (0, 3), 0);
    offer(&mut parts, 6, (0, 3), 1);
    assert_eq!(parts.stuck(outstanding), [0; 0]);
    offer(&mut parts, 6, (1, 3), 2);
    assert_eq!(parts.stuck(outstanding), [1, 2]);
    assert_eq!(parts.stuck(outstanding), [0; 0]);
    offer(&mut parts, 6, (1, 3), 3);
    assert_eq!(parts.stuck(Outstanding { messages: 100, bytes: 6 }), [3], "by bytes");
    assert_eq!(parts.stuck(Outstanding { messages: 1, bytes: 1_000 }), [0], "though it is the last");
}

#[test]
fn stale_batches_are_given_back_whole() {
    let mut parts = Parts::new(1 << 20);
    for (height, part, message) in [(5, 0, 10), (5, 1, 90), (6, 0, 20), (6, 2, 30)] {
        offer(&mut parts, height, (part, 3), message);
    }
    let stale = parts.take_stale(|message| *message < 50);
    assert_eq!(stale, [Incomplete { header: header(6, 0, 3), messages: vec![20, 30] }]);
    assert_eq!((parts.batches(), parts.messages()), (1, 2));
}

#[test]
fn what_was_complete_long_ago_is_forgotten() {
    let mut parts = Parts::new(1 << 20);
    let many = u64::try_from(COMPLETE_MAX).unwrap() + 10;
    for height in 1..=many {
        offer(&mut parts, height, (0, 2), 0);
        offer(&mut parts, height, (1, 2), 0);
    }
    assert_eq!((parts.complete.len(), parts.order.len()), (COMPLETE_MAX, COMPLETE_MAX));
    assert_eq!(offer(&mut parts, 1, (0, 2), 1), PartsOffer::Waiting);
    assert_eq!(offer(&mut parts, many, (0, 2), 1), PartsOffer::Known(1));
}

proptest! {
    /// Whatever the order and however often a part comes: each batch is complete once, with its own bytes in order, and
    /// every message comes out once.
    #[test]
    fn any_order_and_any_repeats(
        sizes in prop::collection::vec(1_u32..6, 1..6),
        repeats in prop::collection::vec(1_usize..4, 36),
        seed in any::<u64>(),
        bytes_max in prop_oneof![Just(1_usize << 20), 2_000_usize..8_000],
    ) {
        let mut deliveries: VecDeque<(u64, u32, u32)> = VecDeque::new();
        let mut repeat = repeats.iter().cycle();
        for (height, parts) in (1..).zip(&sizes) {
            for part in 0..*parts {
                let times = *repeat.next().unwrap();
                deliveries.extend(std::iter::repeat_n((height, part, *parts), times));
            }
        }
        use rand::{SeedableRng, seq::SliceRandom};
        deliveries.make_contiguous().shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
        let count = deliveries.len();
        let all: Vec<_> = deliveries.iter().copied().collect();
        let mut pending: VecDeque<u32> = (0..u32::try_from(count).unwrap()).collect();
        let mut parts = Parts::new(bytes_max);
        let mut out = vec![0; count];
        let mut complete = vec![0; sizes.len() + 1];
        let mut steps = 0;
        while let Some(message) = pending.pop_front() {
            steps += 1;
            if steps > 20_000 { break; }
            let (height, part, of) = all[usize::try_from(message).unwrap()];
            match offer(&mut parts, height, (part, of), message) {
                PartsOffer::Complete { data: whole, messages } => {
                    prop_assert_eq!(whole, (0..of).map(|part| data(height, part)).collect::<Vec<_>>());
                    complete[usize::try_from(height).unwrap()] += 1;
                    messages.iter().for_each(|message| out[usize::try_from(*message).unwrap()] += 1);
                }
                PartsOffer::Known(message) => out[usize::try_from(message).unwrap()] += 1,
                // They come again, as from a server.
                PartsOffer::Displaced(messages) => pending.extend(messages),
                PartsOffer::Waiting => {}
                PartsOffer::Conflict { .. } => prop_assert!(false, "nothing contradicts"),
            }
            prop_assert!(parts.bytes() <= bytes_max);
        }
        if bytes_max == 1 << 20 {
            prop_assert!(out.iter().all(|times| *times == 1));
            prop_assert_eq!((parts.messages(), parts.bytes()), (0, 0));
            for (height, of) in (1..).zip(&sizes) {
                prop_assert!(complete[height] == 1 || *of == 1);
            }
        } else {
            let held = out.iter().filter(|times| **times == 0).count();
            prop_assert!(out.iter().all(|times| *times <= 1));
            prop_assert!(held == parts.messages() + pending.len() + usize::from(steps > 20_000));
        }
    }
}
