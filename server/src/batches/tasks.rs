//! What the driver has done elsewhere: decoding on blocking threads, reads and writes of the log.
//!
//! Never: a decision about order; a write given up, unless the process ends.

use super::{
    BatchError,
    held::{Arrived, BatchTimes, Decoded, Original, Receipt},
    numbers::{BatchNumbers, count},
    rebuild::{Begun, Rebuilding, Rebuilt},
};
use connectors::{
    clickhouse::batch_log::{
        BatchLog, BatchLogError, DeadLetter, DeadState, Gap, GapState, Logged, LoggedBatch, LoggedContent,
    },
    neutron_dex::{Block, message},
    pubsub::{
        content,
        header::{BatchHeader, hex},
    },
};
use dataflow::ingest::{BATCH_BYTES_MAX, Batch, Ended, FeedSender};
use foldhash::HashSet;
use market::{
    Event,
    batch::{BatchId, BatchKind, BatchName, Hole, Rebuild},
};
use std::{sync::Arc, time::Duration};

/// First and longest pause before a write that failed is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Repeats a read or write until the store answers.
///
/// # Errors
/// What another attempt would not change.
pub(super) async fn insist<T, F>(
    numbers: &BatchNumbers,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> Result<T, BatchLogError>
where
    F: Future<Output = Result<T, BatchLogError>>,
{
    let mut pause = PAUSE_MIN;
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        count(&numbers.store_failures);
        tell(&error, what);
        if !error.passes() {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = PAUSE_MAX.min(pause.saturating_mul(2));
    }
}

fn tell(error: &BatchLogError, what: &str) {
    let passes = error.passes();
    let error = error as &dyn std::error::Error;
    if passes {
        tracing::warn!(error, what, "the store did not do it, and is asked again");
    } else {
        tracing::error!(error, what, "what the store has cannot be used");
    }
}

/// Decodes a batch; to be called on a blocking thread.
pub(super) fn decode(arrived: Arrived, content_bytes_max: usize) -> Result<Box<Decoded>, Box<(Arrived, BatchError)>> {
    match decoded(&arrived, content_bytes_max) {
        Ok((content, block)) => {
            let Arrived { header, original } = arrived;
            Ok(Box::new(Decoded { header, original, content: content.into(), block: Arc::new(block) }))
        }
        Err(error) => Err(Box::new((arrived, error))),
    }
}

fn decoded(arrived: &Arrived, content_bytes_max: usize) -> Result<(Vec<u8>, Block), BatchError> {
    let header = &arrived.header;
    // It is the one that its attributes name, or an error.
    let content = content::open(header, &arrived.original.data, content_bytes_max)?;
    let block = read(header.kind, &content)?;
    if block.height != header.height {
        return Err(BatchError::Height { named: header.height, found: block.height });
    }
    Ok((content, block))
}

fn read(kind: BatchKind, content: &[u8]) -> Result<Block, BatchError> {
    Ok(match kind {
        BatchKind::Block => message::decode_block(content)?,
        BatchKind::Snapshot => message::decode_snapshot(content)?,
    })
}

/// Inserts a batch into the log; gives the id of another one that is there at its height.
pub(super) async fn log(log: &BatchLog, numbers: &BatchNumbers, batch: LoggedBatch) -> Result<(), Option<BatchId>> {
    match insist(numbers, "log a batch", || log.insert(&batch)).await {
        Ok(Logged::New | Logged::Known) => {}
        Ok(Logged::Contradicts { known }) => return Err(Some(known)),
        Err(_) => return Err(None),
    }
    count(&numbers.logged);
    connectors::halt::point("batch-logged");
    Ok(())
}

/// Why a batch of the log cannot be used.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// It is not there any more, or damaged.
    Missing,
    /// It cannot be decoded.
    Undecodable(Box<Original>, BatchError),
}

/// Reads a batch of the log and decodes it.
pub(super) async fn read_logged(
    log: &BatchLog,
    numbers: &BatchNumbers,
    name: BatchName,
) -> Result<(BatchTimes, Arc<Block>), Unreadable> {
    let found = insist(numbers, "read the log", || log.read(name.height, name.kind)).await;
    let Ok(Some(found)) = found else { return Err(Unreadable::Missing) };
    let times = times_of(&found);
    let decoding = tokio::task::spawn_blocking(move || {
        let block = read(name.kind, &found.content);
        (found.content, block)
    });
    match decoding.await {
        Ok((_, Ok(block))) => Ok((times, Arc::new(block))),
        Ok((content, Err(error))) => Err(Unreadable::Undecodable(Box::new(logged(name, times, content)), error)),
        Err(_) => Err(Unreadable::Missing),
    }
}

/// Whether the log has that very batch at a height: `Ok` if so, else what it has.
pub(super) async fn look_up(log: &BatchLog, numbers: &BatchNumbers, name: BatchName) -> Result<(), Option<BatchId>> {
    let found = insist(numbers, "look into the log", || log.id_at(name.height, name.kind)).await.ok().flatten();
    if found == Some(name.id) { Ok(()) } else { Err(found) }
}

/// Puts a batch into the dead letters; whether it is there.
pub(super) async fn bury(log: &BatchLog, numbers: &BatchNumbers, letter: DeadLetter) -> bool {
    let buried = insist(numbers, "bury a batch", || log.bury(&letter)).await.is_ok();
    if buried {
        count(&numbers.dead_letters);
    }
    connectors::halt::point("batch-buried");
    buried
}

/// A gap that has become something else.
#[derive(Clone, Copy, Debug)]
pub(super) struct GapChange {
    pub(super) hole: Hole,
    pub(super) state: GapState,
    pub(super) now_ns: u64,
}

/// Notes what became of gaps, in order.
pub(super) async fn note_gaps(log: &BatchLog, numbers: &BatchNumbers, changes: Vec<GapChange>) {
    for GapChange { hole, state, now_ns } in changes {
        // What cannot be noted is in the process's own log.
        let noted = insist(numbers, "note a gap", || async move {
            let known = log.open_gap(hole, now_ns).await?;
            if known.state == state || state == GapState::Open {
                return Ok(());
            }
            log.note_gap(&Gap { state, changed_ns: now_ns.max(known.changed_ns.saturating_add(1)), ..known }).await
        });
        drop(noted.await);
    }
}

/// The names of the log within a range, however many: 56 bytes each.
pub(super) async fn names_within(
    log: &BatchLog,
    numbers: &BatchNumbers,
    after: u64,
    through: u64,
) -> Result<Vec<BatchName>, BatchLogError> {
    let mut names: Vec<BatchName> = Vec::new();
    loop {
        let from = names.last().map_or(after, |name| name.height);
        let more = insist(numbers, "read the log's names", || log.names_within(from, through)).await?;
        if more.is_empty() {
            return Ok(names);
        }
        names.extend(more);
    }
}

/// Whether a batch is among the dead letters, in any state.
pub(super) async fn is_dead(log: &BatchLog, numbers: &BatchNumbers, name: BatchName) -> bool {
    let id = hex(name.id);
    let dead = insist(numbers, "read the dead letters", || log.dead(None)).await.unwrap_or_default();
    dead.iter().any(|head| head.height == name.height && head.attributes.get("batch_id") == Some(&id))
}

/// A batch of the log as it is there, for the dead letters.
pub(super) async fn original_of(log: &BatchLog, numbers: &BatchNumbers, name: BatchName) -> Option<Original> {
    let found = insist(numbers, "read the log", || log.read(name.height, name.kind)).await.ok().flatten()?;
    Some(logged(name, times_of(&found), found.content))
}

fn times_of(found: &LoggedContent) -> BatchTimes {
    BatchTimes { block_ns: found.block_time_ns, published_ns: found.published_ns, received_ns: found.received_ns }
}

fn logged(name: BatchName, times: BatchTimes, content: Vec<u8>) -> Original {
    Original::of_log(format!("log/{}", name.height).into(), times, content.into())
}

/// Rebuilds a stream: the state where it begins, then every block of the log up to the position. `late` names the blocks
/// whose pairs need it; none for all.
pub(super) async fn rebuild(
    log: &BatchLog,
    numbers: &BatchNumbers,
    rebuild: Rebuild,
    late: &[Hole],
    position: u64,
) -> Result<Vec<Rebuilt>, Unreadable> {
    let mut rebuilding = Rebuilding::default();
    let from = match rebuild {
        Rebuild::From(after) => {
            let ticks = insist(numbers, "read the state before a loss", || log.state_at(after)).await;
            for tick in ticks.map_err(|_| Unreadable::Missing)? {
                let Some((token_0, token_1)) = message::assets(&tick.symbol) else { continue };
                rebuilding.begin(&Begun {
                    token_0: &token_0,
                    token_1: &token_1,
                    side: tick.side,
                    tick_index: tick.tick_index,
                    fee: tick.fee,
                    tranche: &tick.tranche,
                    reserves: tick.reserves,
                });
            }
            after
        }
        Rebuild::Snapshot(name) => {
            let (_, block) = read_logged(log, numbers, name).await?;
            rebuilding.begin_snapshot(&block);
            name.height
        }
    };
    let mut names = names_within(log, numbers, from, position).await.map_err(|_| Unreadable::Missing)?;
    // A snapshot is the state at the end of its height.
    names.sort_by_key(|name| (name.height, name.kind == BatchKind::Snapshot));
    for name in names {
        let (_, block) = read_logged(log, numbers, name).await?;
        if name.kind == BatchKind::Snapshot {
            rebuilding.snapshot(&block);
            continue;
        }
        if late.iter().any(|hole| hole.after < name.height && name.height <= hole.through) {
            rebuilding.want(&block);
        }
        rebuilding.block(&block);
    }
    Ok(rebuilding.finish())
}

/// Feeds events to the lanes, waiting while they are busy; to be called on a blocking thread.
pub(super) fn feed(feed: &FeedSender, events: Vec<Event>) -> Result<(), Ended> {
    let mut batch = Vec::new();
    let mut bytes = 0_u64;
    for event in events {
        bytes = bytes.saturating_add(event.bytes());
        batch.push(event);
        if bytes >= BATCH_BYTES_MAX {
            feed.send(Batch { cut: 0, events: std::mem::take(&mut batch) })?;
            bytes = 0;
        }
    }
    if batch.is_empty() { Ok(()) } else { feed.send(Batch { cut: 0, events: batch }) }
}

/// Letters that are read at one time; each may have the size of a batch.
const LETTERS_MAX: usize = 2;

/// Dead letters that an operator wants tried again and that are not in work, and those that still cannot be used.
pub(super) async fn letters(
    log: &BatchLog,
    numbers: &BatchNumbers,
    in_work: &HashSet<Box<str>>,
) -> (Vec<Arrived>, Vec<(Original, BatchError)>) {
    let wanted = insist(numbers, "read the dead letters", || log.dead(Some(DeadState::Replay))).await;
    let (mut arrived, mut unreadable) = (Vec::new(), Vec::new());
    let wanted = wanted.unwrap_or_default().into_iter().filter(|head| !in_work.contains(&head.id));
    for head in wanted.take(LETTERS_MAX) {
        let letter = insist(numbers, "read a dead letter", || log.dead_letter(&head.id)).await;
        let Ok(Some(DeadLetter { head, payload })) = letter else { continue };
        let header = BatchHeader::parse(|name| head.attributes.get(name).map(String::as_str));
        let header = header.map_err(BatchError::from).and_then(|header| usable(header, log.stream()));
        let original = Original {
            attributes: head.attributes,
            data: vec![payload.into()],
            message_id: head.message_id,
            published_ns: head.published_ns,
            received_ns: head.received_ns,
            attempt: head.attempts.saturating_add(1),
            receipts: vec![Receipt::Letter(head.id)],
        };
        match header {
            Ok(header) => arrived.push(Arrived { header, original }),
            Err(error) => unreadable.push((original, error)),
        }
    }
    (arrived, unreadable)
}

fn usable(header: BatchHeader, stream: &str) -> Result<BatchHeader, BatchError> {
    if *header.stream != *stream {
        return Err(BatchError::Stream { found: header.stream, wanted: stream.into() });
    }
    if header.parts > 1 {
        return Err(BatchError::Lone { part: header.part, parts: header.parts });
    }
    Ok(header)
}
