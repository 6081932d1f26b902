//! For tests: frames of one venue through its decoder into real guards and books, instrument by instrument, as a lane
//! would take them, with the time of the frames as the only clock.
//!
//! Never: a decision about order of its own.

use crate::{
    capture::MergedCaptures,
    decoder::Decoder,
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::{FeedCounts, Undecodable, listings::Listings},
};
use market::{
    Body, Book, Delta, Directory, Event, FeedState, Guard, Scale, Side, Snapshot, SymbolId, TickChange, Trade, Venue,
    Version,
    guard::{Counts, Limits, Offer},
};
use proptest::prelude::*;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// One instrument.
pub(crate) struct Stream {
    pub(crate) guard: Guard<Snapshot, Delta>,
    pub(crate) book: Book,
    pub(crate) trades: Vec<Trade>,
}

/// What became of all updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) offered: u64,
    pub(crate) applied: u64,
    pub(crate) dropped: u64,
    pub(crate) replaced: u64,
    pub(crate) crossed: u64,
}

/// A venue's frames and what they come to.
pub(crate) struct Wire {
    venue: Venue,
    decoder: Decoder,
    directory: Arc<Directory>,
    streams: BTreeMap<SymbolId, Stream>,
    position: u64,
    pub(crate) now_ns: u64,
    pub(crate) fates: Fates,
    pub(crate) events: Vec<Event>,
}

impl Wire {
    pub(crate) fn new(venue: Venue) -> Self {
        Self::listed(venue, |listings| listings)
    }

    /// The same with listings of one's own.
    pub(crate) fn listed(venue: Venue, listed: impl FnOnce(Listings) -> Listings) -> Self {
        let directory = Arc::new(Directory::default());
        let listings = Arc::new(listed(Listings::new(Arc::clone(&directory))));
        let (decoder, streams) = (Decoder::new(listings), BTreeMap::new());
        let (fates, events) = (Fates::default(), Vec::new());
        Self { venue, decoder, directory, streams, position: 0, now_ns: 1_000_000_000, fates, events }
    }

    /// A frame of a connection, a millisecond after the one before.
    pub(crate) fn say(&mut self, kind: RawKind, conn: &str, url: Option<&str>, raw: &str) -> Result<(), Undecodable> {
        let ts_ns = self.now_ns + 1_000_000;
        let raw = RawPayload::Text(raw.to_owned());
        self.frame(&RawFrame { ts_ns, kind, conn: conn.into(), url: url.map(Into::into), raw })
    }

    /// A message on a connection.
    pub(crate) fn ws(&mut self, conn: &str, raw: &str) -> Result<(), Undecodable> {
        self.say(RawKind::Ws, conn, None, raw)
    }

    /// A frame at its own time. What came before an error counts.
    pub(crate) fn frame(&mut self, frame: &RawFrame) -> Result<(), Undecodable> {
        self.wait(frame.ts_ns.saturating_sub(self.now_ns));
        self.position += 1;
        let mut events = Vec::new();
        let decoded = self.decoder.decode(self.venue, frame, self.position, &mut events);
        for event in &events {
            self.take(event.clone());
        }
        self.events = events;
        decoded
    }

    /// Time passes, and nothing comes.
    pub(crate) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
        let now_ns = self.now_ns;
        for stream in self.streams.values_mut() {
            stream.settle(now_ns, &mut self.fates);
        }
    }

    fn take(&mut self, event: Event) {
        let (now_ns, leg) = (self.now_ns, event.leg);
        if let Body::Listing(listing) = &event.body {
            let guard = Guard::new(Limits::default(), listing.epoch, listing.block);
            let new = Stream { guard, book: Book::default(), trades: Vec::new() };
            self.streams.entry(event.symbol).or_insert(new);
        }
        match &event.body {
            Body::LegUp => self.streams.values_mut().for_each(|stream| stream.guard.leg_up(now_ns, leg)),
            Body::LegDown => self.streams.values_mut().for_each(|stream| stream.guard.leg_down(leg)),
            _ => {}
        }
        let Some(stream) = self.streams.get_mut(&event.symbol) else { return };
        match event.body {
            Body::Delta(delta) => {
                self.fates.offered += 1;
                match stream.guard.offer(now_ns, leg, delta.sequence) {
                    Offer::Apply(version) => {
                        stream.apply(version, &delta, &mut self.fates);
                        stream.drain(&mut self.fates);
                    }
                    Offer::Hold => {
                        stream.guard.hold(now_ns, leg, delta.sequence, delta, 1);
                        stream.settle(now_ns, &mut self.fates);
                    }
                    _ => self.fates.dropped += 1,
                }
            }
            Body::Snapshot(snapshot) => {
                if let Ok(Some((_, snapshot))) = stream.guard.offer_snapshot(now_ns, snapshot.sequence, snapshot) {
                    stream.replace(&snapshot, &mut self.fates);
                }
            }
            Body::Trade { trade, .. } => stream.trades.push(trade),
            Body::Broken(_) => stream.guard.broken(now_ns),
            _ => {}
        }
    }

    pub(crate) fn stream(&self, symbol: &str) -> &Stream {
        let name = format!("{}/{symbol}", self.venue.name());
        let instrument = self.directory.find(&name).unwrap_or_else(|| panic!("{name} is not listed"));
        &self.streams[&instrument.id]
    }

    /// All instruments by name.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (Arc<str>, &Stream)> {
        self.streams.iter().map(|(id, stream)| (self.directory.get(*id).unwrap().symbol.clone(), stream))
    }

    pub(crate) fn counts(&self) -> FeedCounts {
        self.decoder.counts().next().map(|(_, counts)| counts).unwrap_or_default()
    }

    /// The guards' counts together.
    pub(crate) fn gaps(&self) -> (u64, u64) {
        let counts = self.streams.values().map(|stream| stream.guard.counts());
        counts.fold((0, 0), |(gaps, refused), Counts { gaps: more, refused: also, .. }| (gaps + more, refused + also))
    }
}

impl Stream {
    /// The shown version's sequence, and the levels of a side as text, the best first.
    pub(crate) fn shown(&self, side: Side) -> (Option<u64>, Vec<(String, String)>) {
        let scale = self.book.scale();
        let text = |level: market::Level| (scale.price_text(level.tick_index), scale.quantity_text(level.quantity));
        (self.guard.version().map(|version| version.seq), self.book.levels(side).map(text).collect())
    }

    pub(crate) fn state(&self) -> FeedState {
        self.guard.state()
    }

    fn apply(&mut self, version: Version, delta: &Delta, fates: &mut Fates) {
        assert_eq!(self.guard.version(), Some(version));
        let finest = self.book.scale().finest(delta.scale);
        let Some(changes) =
            converted(&delta.changes, delta.scale, finest).filter(|_| self.book.rescale(finest).is_ok())
        else {
            return self.guard.broken(0);
        };
        for change in changes {
            self.book.apply(change);
        }
        fates.applied += 1;
        self.check(fates);
    }

    fn check(&mut self, fates: &mut Fates) {
        self.book.close_cut(&mut Vec::new());
        fates.crossed += u64::from(self.book.flags().crossed);
    }

    fn replace(&mut self, snapshot: &Snapshot, fates: &mut Fates) {
        let scale = self.book.scale().finest(snapshot.scale);
        let Some(ticks) = converted(&snapshot.ticks, snapshot.scale, scale) else { return self.guard.broken(0) };
        self.book.replace(&ticks, scale, snapshot.window, &mut Vec::new());
        fates.replaced += 1;
        self.check(fates);
        self.drain(fates);
    }

    fn drain(&mut self, fates: &mut Fates) {
        while let Some((version, delta)) = self.guard.next_ready() {
            self.apply(version, &delta, fates);
        }
    }

    fn settle(&mut self, now_ns: u64, fates: &mut Fates) {
        if let Some((_, snapshot)) = self.guard.poll(now_ns) {
            self.replace(&snapshot, fates);
        } else {
            self.drain(fates);
        }
    }
}

fn converted(changes: &[TickChange], from: Scale, to: Scale) -> Option<Vec<TickChange>> {
    let one = |change: &TickChange| {
        let tick_index = from.price_in(to, change.key.tick_index)?;
        Some(TickChange::at(change.side, tick_index, from.quantity_in(to, change.reserves)?))
    };
    changes.iter().map(one).collect()
}

/// All frames of a recording of the corpus, if it is there.
pub(crate) fn recorded(rel: &str) -> Option<Vec<RawFrame>> {
    let named = std::env::var_os("SPRAG_CORPUS").map(PathBuf::from);
    let directory = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"));
    let file = directory.join(rel);
    if !file.is_file() {
        eprintln!("skipped: {} is not there; SPRAG_CORPUS names the corpus", file.display());
        return None;
    }
    Some(MergedCaptures::open(&[file]).unwrap().map(|frame| frame.unwrap().frame).collect())
}

/// A whole recording; every frame must be readable.
pub(crate) fn replayed(venue: Venue, frames: &[RawFrame]) -> Wire {
    let mut wire = Wire::new(venue);
    for frame in frames {
        wire.frame(frame).unwrap_or_else(|error| panic!("{frame:?}: {error}"));
    }
    wire.wait(1_000_000_000);
    wire
}

/// The text of a frame.
pub(crate) fn text(frame: &RawFrame) -> &str {
    match &frame.raw {
        RawPayload::Text(text) => text,
        RawPayload::Binary(_) => "",
    }
}

/// A message, or the answer to a request if there is an address: mutated from one of these, or nothing but noise.
pub(crate) fn noise(
    real: &'static [(Option<&'static str>, &'static str)],
) -> impl Strategy<Value = (Option<&'static str>, String)> {
    let bytes = prop_oneof![prop::sample::select(&b"0123456789.-eE\"[]{},:nulltrue\\"[..]), any::<u8>(),];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..4_usize, bytes), 0..6);
    let mutated = (prop::sample::select(real), edits).prop_map(|((url, text), edits)| {
        let mut raw = text.as_bytes().to_vec();
        for (at, remove, byte) in edits {
            let at = at.index(raw.len() + 1);
            let end = (at + remove).min(raw.len());
            raw.splice(at..end, [byte]);
        }
        (url, String::from_utf8_lossy(&raw).into_owned())
    });
    prop_oneof![
        9 => mutated,
        1 => prop::collection::vec(any::<u8>(), 0..64).prop_map(|raw| (None, String::from_utf8_lossy(&raw).into_owned())),
    ]
}

/// Takes noise: nothing panics, every refusal is counted, and no version goes back.
pub(crate) fn survives(venue: Venue, noise: &[(Option<&str>, String)]) {
    let mut wire = Wire::new(venue);
    let mut refused = 0;
    let mut shown: BTreeMap<SymbolId, Version> = BTreeMap::new();
    for (url, text) in noise {
        let kind = if url.is_some() { RawKind::Http } else { RawKind::Ws };
        refused += u64::from(wire.say(kind, "0", *url, text).is_err());
        for (symbol, stream) in &wire.streams {
            let Some(version) = stream.guard.version() else { continue };
            let before = shown.insert(*symbol, version);
            assert!(before.is_none_or(|before| before <= version), "{before:?} {version:?}");
        }
    }
    assert_eq!((wire.counts().frames, wire.counts().undecodable), (noise.len() as u64, refused));
}
