//! Kraken Futures: whichever frame of the capture is lost, it is one gap of one product, or none where nothing can tell.
//!
//! Never: a gap told of a product that lost nothing.

use crate::{
    frames::{of, write},
    pipeline::{options, run},
};
use connectors::{
    decoder::Decoder,
    raw::{RawFrame, RawKind},
    venue_feed::listings::Listings,
};
use market::{
    Body, Event, FeedState, Guard, LegId, Sequence, SymbolId, Venue,
    guard::{Counts, Limits, Offer},
};
use sprag_tests::corpus;
use std::{collections::BTreeMap, sync::Arc};

const CAPTURE: &str = "kraken_futures/kraken_futures_2021-04.frames.jsonl.zst";

/// So many whole replays beside the exhaustive search.
const REPLAYS: usize = 20;

/// What a frame says about the book of a product.
#[derive(Clone, Copy, Debug)]
struct Step {
    frame: usize,
    leg: LegId,
    received_ns: u64,
    sequence: Sequence,
    snapshot: bool,
}

/// The steps of each product, by the real decoder, and how many frames there are.
fn steps(frames: &[RawFrame]) -> BTreeMap<SymbolId, Vec<Step>> {
    let mut decoder = Decoder::new(Arc::new(Listings::new(Arc::default())));
    let mut steps: BTreeMap<SymbolId, Vec<Step>> = BTreeMap::new();
    for (place, frame) in frames.iter().enumerate() {
        let mut events: Vec<Event> = Vec::new();
        decoder.decode(Venue::KrakenFutures, frame, u64::try_from(place).unwrap() + 1, &mut events).unwrap();
        for event in events {
            let (sequence, snapshot) = match &event.body {
                Body::Snapshot(snapshot) => (snapshot.sequence, true),
                // The word that nothing is missing after a snapshot comes in one frame with it.
                Body::Delta(delta) if delta.sequence.is_assurance() => continue,
                Body::Delta(delta) => (delta.sequence, false),
                _ => continue,
            };
            let step = Step { frame: place, leg: event.leg, received_ns: event.received_ns, sequence, snapshot };
            steps.entry(event.symbol).or_default().push(step);
        }
    }
    steps
}

/// A guard as its instrument uses it, without a book.
#[derive(Clone)]
struct Stream(Guard<(), ()>);

impl Stream {
    fn new() -> Self {
        Self(Guard::new(Limits::default(), 0, 1))
    }

    fn take(&mut self, step: Step) {
        let now_ns = step.received_ns;
        self.pass(now_ns);
        if step.snapshot {
            if self.0.offer_snapshot(now_ns, step.sequence, ()).is_ok_and(|replaced| replaced.is_some()) {
                while self.0.next_ready().is_some() {}
            }
            let last = step.sequence.last();
            return self.update(now_ns, step.leg, Sequence::Venue { first: last + 1, last });
        }
        self.update(now_ns, step.leg, step.sequence);
    }

    fn update(&mut self, now_ns: u64, leg: LegId, sequence: Sequence) {
        match self.0.offer(now_ns, leg, sequence) {
            Offer::Apply(_) => while self.0.next_ready().is_some() {},
            Offer::Hold => {
                self.0.hold(now_ns, leg, sequence, (), 1);
                self.settle(now_ns);
            }
            other => panic!("{other:?} of {sequence:?}"),
        }
    }

    /// What falls due until a time happens then.
    fn pass(&mut self, now_ns: u64) {
        if self.0.deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            self.settle(now_ns);
        }
    }

    fn settle(&mut self, now_ns: u64) {
        let _replaced = self.0.poll(now_ns);
        while self.0.next_ready().is_some() {}
    }

    /// After the last frame there is time enough for everything.
    fn ended(mut self, last_ns: u64) -> (Counts, FeedState) {
        for beyond in [Limits::default().bridge_ns, Limits::default().hole_ns] {
            self.pass(last_ns + 2 * beyond);
        }
        (self.0.counts(), self.0.state())
    }
}

/// What the loss of one step comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// One gap, and the book has its mark.
    Gap,
    /// The snapshot's: there is no book, and nothing is shown.
    NoBook,
    /// Nothing follows that could tell it.
    Untold,
}

/// What the rules say of the loss of a step.
fn right(product: &[Step], place: usize) -> Loss {
    let (step, next) = (product[place], product.get(place + 1));
    match next {
        _ if step.snapshot => Loss::NoBook,
        None => Loss::Untold,
        Some(_) => Loss::Gap,
    }
}

/// What the loss of the step between these comes to.
fn lost(before: &Stream, after: &[Step], last_ns: u64) -> Loss {
    let mut stream = before.clone();
    after.iter().for_each(|step| stream.take(*step));
    let (counts, state) = stream.ended(last_ns);
    match (counts.gaps, counts.refused, state) {
        (1, 0, FeedState::Gapped) => Loss::Gap,
        (0, 0, FeedState::Syncing) => Loss::NoBook,
        (0, 0, FeedState::Live) => Loss::Untold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_one_frame_that_is_lost_is_one_gap_of_one_product() {
    let Some(path) = corpus::file(CAPTURE) else {
        return println!("corpus absent: skipped {CAPTURE} (set {} to its directory)", corpus::VARIABLE);
    };
    let frames = of(&path);
    let last_ns = frames.last().unwrap().ts_ns;
    let steps = steps(&frames);
    let mut losses: BTreeMap<Loss, usize> = BTreeMap::new();
    for product in steps.values() {
        let mut before = Stream::new();
        for (place, step) in product.iter().enumerate() {
            let loss = lost(&before, &product[place + 1..], last_ns);
            assert_eq!(loss, right(product, place), "{place} of {}: {step:?}", product.len());
            *losses.entry(loss).or_default() += 1;
            before.take(*step);
        }
        assert_eq!(before.ended(last_ns), (Counts::default(), FeedState::Live));
    }
    let messages = frames.iter().filter(|frame| frame.kind == RawKind::Ws).count();
    let told: usize = steps.values().map(Vec::len).sum();
    println!("kraken_futures: of {messages} frames {told} are of books; lost, each comes to {losses:?}");
    assert_eq!((messages, told), (7_123, 6_528 + 10));
    assert_eq!((losses[&Loss::NoBook], losses[&Loss::Untold]), (10, 10));
    assert_eq!(losses[&Loss::Gap], 6_528 - 10);
}

#[test]
fn a_sample_of_losses_through_the_whole_pipeline() {
    let Some(path) = corpus::file(CAPTURE) else {
        return println!("corpus absent: skipped {CAPTURE} (set {} to its directory)", corpus::VARIABLE);
    };
    let frames = of(&path);
    let steps = steps(&frames);
    let places = steps.values().flat_map(|product| (0..product.len()).map(move |place| (product, place)));
    let told = places.filter(|(product, place)| right(product, *place) == Loss::Gap);
    let told: Vec<usize> = told.map(|(product, place)| product[place].frame).collect();
    let mut one = 0;
    for sample in 0..REPLAYS {
        let lost = sample * (frames.len() - 1) / (REPLAYS - 1);
        let left = frames.iter().enumerate().filter(|(place, _)| *place != lost).map(|(_, frame)| frame.clone());
        let file = write(left.collect());
        let (lines, summary) = run(file.path(), &options(Venue::KrakenFutures, 1));
        let right = u64::from(told.contains(&lost));
        one += right;
        assert_eq!(summary.lanes.gaps, right, "without frame {lost}");
        let gapped = crate::books::read(&lines).into_values().filter(|reader| reader.state == "GAPPED").count();
        assert_eq!(u64::try_from(gapped).unwrap(), right, "without frame {lost}");
    }
    println!("kraken_futures: {one} of {REPLAYS} losses were a gap");
    assert!(one > 0 && one < 20);
}
