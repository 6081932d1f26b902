//! Sources of a live run: the market simulator, captures served at a pace, or connections to venues. Each is a thread
//! that stamps frames with the present (those of connections have their stamp), decodes them and feeds the first worker;
//! the exchange spreads them over the lanes.
//!
//! Never: a frame stamped with another time than that of its arrival here.

use crate::{dead_letters::DeadLetters, raw_log::RawLog};
use connectors::{
    capture::{CaptureError, CaptureFrame, MergedCaptures},
    decoder::Decoder,
    halt,
    live::{Live, LiveVenue, numbers::VenueNumbers, protocol::Listed},
    raw::RawFrame,
    simulator::Simulator,
    venue_feed::FeedCounts,
};
use dataflow::ingest::{BATCH_BYTES_MAX, Batch, Ended, FeedSender};
use foldhash::HashMap;
use market::{Directory, Event, SymbolId, Venue};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// How often a source looks for what is due.
const TURN: Duration = Duration::from_millis(2);

/// Simulated time made in one turn, nanoseconds: a source that was held up catches up in steps, not in one heap.
const STEP_NS: u64 = 10_000_000;

/// Wanted snapshots that wait for the source; more are asked for again by the guards' own back-off.
const REQUESTS_MAX: usize = 4_096;

/// Where guards ask for snapshots, and how a source is stopped.
#[derive(Clone)]
pub struct SourceControl {
    requests: SyncSender<SymbolId>,
    stop: Arc<AtomicBool>,
    numbers: Arc<SourceNumbers>,
}

/// What a source counts.
#[derive(Debug, Default)]
pub struct SourceNumbers {
    /// Frames decoded.
    pub frames: AtomicU64,
    /// Frames that could not be.
    pub dead_letters: AtomicU64,
    /// Checksums that did not match.
    pub checksums_failed: AtomicU64,
    /// Checksums that did.
    pub checksums_matched: AtomicU64,
    live: OnceLock<Vec<Arc<VenueNumbers>>>,
    view: Mutex<SourceView>,
}

/// A connection to a venue, and what came on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLeg {
    /// The venue.
    pub venue: Venue,
    /// The connection's name.
    pub conn: Arc<str>,
    /// Messages so far.
    pub messages: u64,
}

impl SourceLeg {
    /// The last part of the connection's name, which is the leg's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.conn.rsplit('/').next().unwrap_or_default()
    }

    /// Every leg that a decoder knows, by number.
    pub fn all(decoder: &Decoder) -> impl Iterator<Item = Self> + '_ {
        let named = decoder.legs().zip(decoder.messages());
        named.map(|((venue, conn), messages)| Self { venue, conn: Arc::clone(conn), messages })
    }
}

/// What a source counts by venue and leg.
#[derive(Clone, Debug, Default)]
pub struct SourceView {
    /// The legs, by number.
    pub legs: Vec<SourceLeg>,
    /// What the decoders counted.
    pub feeds: Vec<(Venue, FeedCounts)>,
    /// Dead letters by venue and reason.
    pub dead_letters: Vec<(Venue, &'static str, u64)>,
    /// Dead letters that were only counted.
    pub unkept: u64,
}

impl SourceView {
    fn update(&mut self, decoder: &Decoder, letters: &DeadLetters) {
        for (leg, messages) in self.legs.iter_mut().zip(decoder.messages()) {
            leg.messages = messages;
        }
        let known = self.legs.len();
        self.legs.extend(SourceLeg::all(decoder).skip(known));
        self.feeds.clear();
        self.feeds.extend(decoder.counts());
        self.dead_letters.clear();
        self.dead_letters.extend(letters.by_reason());
        self.unkept = letters.unkept();
    }
}

impl SourceNumbers {
    /// What was counted by venue and leg.
    #[must_use]
    pub fn view(&self) -> SourceView {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, SourceView> {
        // Numbers are right one by one, whoever panicked over them.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of the connections to venues, if there are any.
    #[must_use]
    pub fn live(&self) -> &[Arc<VenueNumbers>] {
        self.live.get().map(Vec::as_slice).unwrap_or_default()
    }
}

/// The source's end of its control.
pub struct SourcePort {
    requests: Receiver<SymbolId>,
    stop: Arc<AtomicBool>,
    numbers: Arc<SourceNumbers>,
}

/// A control and the source's end of it.
#[must_use]
pub fn control() -> (SourceControl, SourcePort) {
    let (sender, requests) = sync_channel(REQUESTS_MAX);
    let (stop, numbers) = (Arc::new(AtomicBool::new(false)), Arc::new(SourceNumbers::default()));
    let control = SourceControl { requests: sender, stop: Arc::clone(&stop), numbers: Arc::clone(&numbers) };
    (control, SourcePort { requests, stop, numbers })
}

impl SourceControl {
    /// Asks for snapshots of instruments.
    pub fn request(&self, symbols: &[SymbolId]) {
        for symbol in symbols {
            if self.requests.try_send(*symbol).is_err() {
                tracing::debug!(symbol = symbol.0, "the source takes no request now; the guard will ask again");
            }
        }
    }

    /// Ends the source.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// What the source counts.
    #[must_use]
    pub fn numbers(&self) -> &SourceNumbers {
        &self.numbers
    }
}

/// Decodes frames and feeds them on; what both sources share.
pub struct Outlet {
    /// The decoders.
    pub decoder: Decoder,
    /// The feed.
    pub feed: FeedSender,
    /// Where undecodable frames go.
    pub dead_letters: DeadLetters,
    /// Where all frames go as they came, if anywhere.
    pub raw_log: Option<RawLog>,
    /// The source's end of its control.
    pub port: SourcePort,
    /// Unix nanoseconds.
    pub now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Events not fed yet.
    pub events: Vec<Event>,
    /// Their bytes.
    pub bytes: u64,
}

impl Outlet {
    fn stopped(&self) -> bool {
        self.port.stop.load(Relaxed)
    }

    /// Feeds what was kept over the start, before anything else.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn restore(&mut self, events: Vec<Event>) -> Result<(), Ended> {
        let half = events.len() / 2;
        for (at, event) in events.into_iter().enumerate() {
            if at == half {
                halt::point("half-restored");
            }
            self.put(event)?;
        }
        self.flush()?;
        halt::point("restored");
        Ok(())
    }

    /// Feeds what introduces instruments before their venue says anything.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn introduce(&mut self, events: Vec<Event>) -> Result<(), Ended> {
        events.into_iter().try_for_each(|event| self.put(event))?;
        self.flush()
    }

    fn put(&mut self, event: Event) -> Result<(), Ended> {
        self.bytes += event.bytes();
        self.events.push(event);
        if self.bytes >= BATCH_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    fn frame(&mut self, venue: Venue, frame: &RawFrame, position: u64) -> Result<(), Ended> {
        let before = self.events.len();
        if let Some(log) = &mut self.raw_log {
            log.keep(venue, frame);
        }
        if let Err(reason) = self.decoder.decode(venue, frame, position, &mut self.events) {
            self.dead_letters.keep(venue, frame, &reason);
        }
        self.port.numbers.frames.fetch_add(1, Relaxed);
        self.bytes += self.events.iter().skip(before).map(Event::bytes).sum::<u64>();
        if self.bytes >= BATCH_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Ended> {
        let (mut matched, mut failed) = (0, 0);
        for (_, counts) in self.decoder.counts() {
            matched += counts.checksums_matched;
            failed += counts.checksums_failed;
        }
        let numbers = &self.port.numbers;
        numbers.checksums_matched.store(matched, Relaxed);
        numbers.checksums_failed.store(failed, Relaxed);
        numbers.dead_letters.store(self.dead_letters.count(), Relaxed);
        numbers.locked().update(&self.decoder, &self.dead_letters);
        self.bytes = 0;
        let events = std::mem::take(&mut self.events);
        if events.is_empty() { Ok(()) } else { self.feed.send(Batch { cut: 0, events }) }
    }
}

/// Runs the simulator until it is stopped.
///
/// # Errors
/// [`Ended`] if the workers ended first.
pub fn simulate(mut simulator: Simulator, directory: &Directory, outlet: &mut Outlet) -> Result<(), Ended> {
    let mut frames: Vec<(Venue, RawFrame)> = Vec::new();
    let mut position = 0;
    simulator.opening(&mut frames);
    while !outlet.stopped() {
        let now_ns = (outlet.now_ns)();
        let until_ns = now_ns.min(simulator.now_ns().saturating_add(STEP_NS));
        simulator.advance(until_ns, &mut frames);
        while let Ok(symbol) = outlet.port.requests.try_recv() {
            if let Some(instrument) = directory.get(symbol) {
                simulator.snapshot(instrument.venue, &instrument.symbol, now_ns, &mut frames);
            }
        }
        for (venue, frame) in frames.drain(..) {
            position += 1;
            outlet.frame(venue, &frame, position)?;
        }
        outlet.flush()?;
        if until_ns == now_ns {
            thread::sleep(TURN);
        }
    }
    Ok(())
}

/// How long the venues' own lists of instruments are waited for at the start.
const LISTED_WAIT: Duration = Duration::from_secs(5);

/// Lines of the log about single instruments of one venue, so that a wrong list of them does not hide all else.
const DOUBTS_MAX: usize = 20;

/// Why an instrument that is connected to may well have no data.
#[derive(Debug, PartialEq, Eq)]
enum Doubt<'a> {
    /// The venue does not list it.
    Unknown,
    /// The venue's word for its state.
    Halted(&'a str),
}

/// The instruments of a venue that it does not list, or says not to trade, in their order.
fn doubts<'a>(venue: &'a LiveVenue, listed: &'a [Listed]) -> Vec<(&'a str, Doubt<'a>)> {
    let states: HashMap<&str, Option<&str>> =
        listed.iter().map(|listed| (&*listed.symbol, listed.halted.as_deref())).collect();
    let doubt = |symbol: &str| match states.get(symbol) {
        None => Some(Doubt::Unknown),
        Some(halted) => halted.map(Doubt::Halted),
    };
    venue.instruments.iter().filter_map(|symbol| doubt(symbol).map(|doubt| (&**symbol, doubt))).collect()
}

/// Warns of them; they are subscribed to all the same.
fn warn_of(venue: Venue, doubts: &[(&str, Doubt<'_>)]) {
    for (symbol, doubt) in doubts.iter().take(DOUBTS_MAX) {
        match doubt {
            Doubt::Unknown => {
                tracing::warn!(%venue, symbol, "the venue does not list this instrument; is its name right?");
            }
            Doubt::Halted(status) => {
                tracing::warn!(%venue, symbol, status, "the venue does not trade this instrument now");
            }
        }
    }
    let more = doubts.len().saturating_sub(DOUBTS_MAX);
    if more > 0 {
        tracing::warn!(%venue, more, "and so many more that the venue does not list or trade");
    }
}

/// What venues themselves say about the instruments that are connected to. What they do not say in time is left to the
/// rules for symbols, and to the numbers that come.
pub async fn venue_listings(venues: &[LiveVenue]) -> Vec<(Venue, Listed)> {
    let mut known = Vec::new();
    let asked = venues.iter().map(|venue| async move { (venue, venue.listed(LISTED_WAIT).await) });
    for (venue, answer) in futures_util::future::join_all(asked).await {
        let name = venue.venue;
        let listed = match answer {
            Ok(listed) => listed,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(venue = %name, error, "the venue does not tell its instruments; their symbols are split by rule, their steps are those seen");
                continue;
            }
        };
        let all = listed.len();
        let wanted = |listed: &Listed| venue.instruments.contains(&listed.symbol);
        let found: Vec<_> = listed.into_iter().filter(wanted).collect();
        tracing::info!(venue = %name, listed = all, "the venue told its instruments");
        warn_of(name, &doubts(venue, &found));
        known.extend(found.into_iter().map(|listed| (name, listed)));
    }
    known
}

/// Feeds what connections to venues bring, until they shall end.
///
/// # Errors
/// [`Ended`] if the workers or the connections ended first.
pub fn connect(live: &Live, directory: &Directory, outlet: &mut Outlet) -> Result<(), Ended> {
    // The run has one source, so nobody set this before.
    drop(outlet.port.numbers.live.set(live.numbers()));
    let mut frames: Vec<(Venue, RawFrame)> = Vec::new();
    let mut position = 0;
    while !outlet.stopped() {
        if !live.take(TURN, &mut frames) {
            return Err(Ended);
        }
        for (venue, frame) in frames.drain(..) {
            position += 1;
            outlet.frame(venue, &frame, position)?;
        }
        outlet.flush()?;
        for (venue, conn) in outlet.decoder.reconnects() {
            live.reconnect(venue, &conn);
        }
        for repair in outlet.decoder.repairs() {
            live.repair(repair.venue, &repair.conn, &repair.symbol);
        }
        while let Ok(symbol) = outlet.port.requests.try_recv() {
            if let Some(instrument) = directory.get(symbol) {
                let active = outlet.decoder.active(instrument.venue, &instrument.symbol);
                live.request(instrument.venue, &instrument.symbol, active.map(|conn| &**conn));
            }
        }
    }
    Ok(())
}

/// Waits for the end beside a source that has a thread of its own.
pub fn idle(outlet: &Outlet) {
    while !outlet.stopped() {
        thread::sleep(TURN);
    }
}

/// A capture source as configured.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Their venue.
    pub venue: Venue,
    /// Times the recorded pace; 0 for as fast as the pipeline takes it.
    pub speed: f64,
    /// Begin anew at the end.
    pub repeat: bool,
}

/// Serves captures as if they arrived now, the first time those that are open already. At their end the feed falls silent, as a venue's would.
///
/// # Errors
/// [`CaptureError`]; the end of the workers is no error here, since they are what was stopped.
pub fn serve_captures(
    mut captures: MergedCaptures,
    options: &CaptureOptions,
    outlet: &mut Outlet,
) -> Result<(), CaptureError> {
    let mut position = 0;
    loop {
        if serve_once(&mut captures, options, &mut position, outlet)?.is_err() || outlet.stopped() {
            return Ok(());
        }
        tracing::info!(frames = position, "the capture has ended");
        if !options.repeat {
            while !outlet.stopped() {
                thread::sleep(TURN);
            }
            return Ok(());
        }
        captures = MergedCaptures::open(&options.files)?;
    }
}

fn serve_once(
    captures: &mut dyn Iterator<Item = Result<CaptureFrame, CaptureError>>,
    options: &CaptureOptions,
    position: &mut u64,
    outlet: &mut Outlet,
) -> Result<Result<(), Ended>, CaptureError> {
    let started = Instant::now();
    let mut origin_ns = None;
    for captured in captures {
        let mut frame = captured?.frame;
        let elapsed = Duration::from_nanos(frame.ts_ns.saturating_sub(*origin_ns.get_or_insert(frame.ts_ns)));
        if options.speed > 0.0 {
            let due = started + elapsed.div_f64(options.speed);
            while Instant::now() < due {
                if let Err(ended) = outlet.flush() {
                    return Ok(Err(ended));
                }
                thread::sleep(due.saturating_duration_since(Instant::now()).min(TURN));
            }
        }
        if outlet.stopped() {
            return Ok(Ok(()));
        }
        *position += 1;
        frame.ts_ns = (outlet.now_ns)();
        if let Err(ended) = outlet.frame(options.venue, &frame, *position) {
            return Ok(Err(ended));
        }
    }
    Ok(outlet.flush())
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::{
        raw::{RawKind, RawPayload},
        venue_feed::listings::Listings,
    };
    use dataflow::ingest::feed;

    fn frame(ts_ns: u64, conn: &str, symbol: &str) -> RawFrame {
        let text = format!(
            r#"{{"stream":"x@depth@100ms","data":{{"e":"depthUpdate","E":1735689600100,"s":"{symbol}","U":101,"u":102,"b":[["1.5","1"]],"a":[]}}}}"#
        );
        RawFrame { ts_ns, kind: RawKind::Ws, conn: conn.into(), url: None, raw: RawPayload::Text(text) }
    }

    #[test]
    fn instruments_that_a_venue_does_not_list_or_trade_are_told_apart() {
        let venue = LiveVenue {
            venue: Venue::BinanceSpot,
            dialect: None,
            instruments: ["BTCUSDT", "BTCUSDTT", "OLDUSDT"].map(Into::into).to_vec(),
            legs: 1,
            socket_url: None,
            rest_url: None,
        };
        let listed = |symbol: &str, halted: Option<&str>| Listed {
            symbol: symbol.into(),
            asset_0: symbol.into(),
            asset_1: "USDT".into(),
            price_step: None,
            quantity_step: None,
            halted: halted.map(Into::into),
        };
        let all = [listed("OLDUSDT", Some("BREAK")), listed("BTCUSDT", None)];
        assert_eq!(doubts(&venue, &all), [("BTCUSDTT", Doubt::Unknown), ("OLDUSDT", Doubt::Halted("BREAK"))]);
    }

    #[test]
    fn data_of_an_unknown_symbol_are_counted_and_sampled_and_never_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dead-letters.jsonl");
        let listings = Listings::new(Arc::default()).with_only(Venue::BinanceSpot, ["BTCUSDT"]);
        let known = Arc::clone(listings.directory());
        let (control, port) = control();
        // Nobody takes what is fed; it fits into the feed.
        let (sender, _receiver) = feed();
        let mut outlet = Outlet {
            decoder: Decoder::new(Arc::new(listings)),
            feed: sender,
            dead_letters: DeadLetters::append_to(&path).unwrap(),
            raw_log: None,
            port,
            now_ns: Arc::new(|| 0),
            events: Vec::new(),
            bytes: 0,
        };
        for at in 1..=100 {
            outlet.frame(Venue::BinanceSpot, &frame(at, "binance_spot/a", "OTHERUSDT"), at).unwrap();
        }
        outlet.frame(Venue::BinanceSpot, &frame(101, "binance_spot/b", "BTCUSDT"), 101).unwrap();
        outlet.flush().unwrap();
        let view = control.numbers().view();
        assert_eq!(view.dead_letters, [(Venue::BinanceSpot, "unlisted", 100)]);
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(u64::try_from(kept.lines().count()).unwrap() + view.unkept, 100);
        assert!(view.unkept > 0 && kept.contains("OTHERUSDT"), "{kept}");
        assert_eq!((known.len(), &*known.get(SymbolId(0)).unwrap().symbol), (1, "BTCUSDT"));
        let legs: Vec<_> = view.legs.iter().map(|leg| (leg.name(), leg.messages)).collect();
        assert_eq!(legs, [("a", 100), ("b", 1)]);
        assert_eq!(view.feeds[0].1.undecodable, 100);
    }
}
