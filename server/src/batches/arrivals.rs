//! What comes from the subscription, until it is decoded: parts are put together, the rest waits its turn.
//!
//! Never: a message dropped that is not given back by it.

use super::{
    BatchError, BatchOptions,
    held::{Arrived, Original, Receipt},
};
use connectors::pubsub::{
    content::ContentError,
    header::BatchHeader,
    parts::{Outstanding, Parts, PartsOffer},
    pull::Pulled,
};
use foldhash::{HashMap, HashMapExt};
use market::batch::BatchName;
use std::collections::{BTreeMap, VecDeque};

/// Batches whose failures are counted; the oldest are forgotten, and then have as many attempts again.
const ATTEMPTS_MAX: usize = 4_096;

/// Parts that wait so long for others are looked up in the log.
const STALE_NS: u64 = 20_000_000_000;

/// What became of a message.
pub(super) enum Taken {
    /// It waits for its turn, or for other parts.
    Nothing,
    /// It cannot be used.
    Poison(Original, BatchError),
    /// These are in the way, and come again.
    GiveBack(Vec<Receipt>),
    /// Parts of a batch that came as a whole before, or that wait for others which may never come: only the log knows
    /// whether they are needed.
    Ask(BatchName, Vec<Receipt>),
}

/// A message without its data.
#[derive(Debug)]
struct Part {
    attributes: BTreeMap<String, String>,
    message_id: Box<str>,
    published_ns: u64,
    received_ns: u64,
    receipt: Receipt,
}

/// Batches on their way in.
pub(super) struct Arrivals {
    stream: Box<str>,
    outstanding: Outstanding,
    content_bytes_max: usize,
    parts: Parts<Part>,
    queue: VecDeque<Arrived>,
    queue_bytes: usize,
    failures: HashMap<Box<str>, u32>,
    failed: VecDeque<Box<str>>,
}

impl Arrivals {
    pub(super) fn new(options: &BatchOptions) -> Self {
        Self {
            stream: options.stream.clone(),
            outstanding: options.outstanding,
            content_bytes_max: options.content_bytes_max,
            parts: Parts::new(options.parts_bytes),
            queue: VecDeque::new(),
            queue_bytes: 0,
            failures: HashMap::new(),
            failed: VecDeque::new(),
        }
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.queue_bytes.saturating_add(self.parts.bytes())
    }

    /// Takes a message.
    pub(super) fn take(&mut self, pulled: Pulled) -> Taken {
        // The service's own count of deliveries has those in it that nothing was wrong with.
        let Pulled { attributes, data, message_id, published_ns, received_ns, lease, .. } = pulled;
        let header = BatchHeader::parse(|name| attributes.get(name).map(String::as_str)).map_err(BatchError::from);
        let of_stream = header.and_then(|header| {
            let right = header.stream == self.stream;
            let other = || BatchError::Stream { found: header.stream.clone(), wanted: self.stream.clone() };
            if right { Ok(header) } else { Err(other()) }
        });
        let part = Part { attributes, message_id, published_ns, received_ns, receipt: Receipt::Message(lease) };
        let header = match of_stream {
            Ok(header) => header,
            Err(error) => return Taken::Poison(original(vec![data], vec![part]), error),
        };
        if let Some(error) = beyond(&header, data.len(), self.content_bytes_max) {
            return Taken::Poison(original(vec![data], vec![part]), error);
        }
        match self.parts.offer(&header, data.clone(), part) {
            PartsOffer::Complete { data, messages } => {
                self.again(Arrived { header, original: original(data, messages) });
                Taken::Nothing
            }
            PartsOffer::Waiting => Taken::Nothing,
            PartsOffer::Known(part) => Taken::Ask(header.name(), receipts(vec![part])),
            PartsOffer::Displaced(parts) => Taken::GiveBack(receipts(parts)),
            PartsOffer::Conflict { conflict, message } => {
                let error = BatchError::Parts { height: header.height, part: header.part, source: conflict };
                Taken::Poison(original(vec![data], vec![message]), error)
            }
        }
    }

    /// Parts that wait so long that the others may have been acknowledged before a restart.
    pub(super) fn stale(&mut self, now_ns: u64) -> Vec<(BatchName, Vec<Receipt>)> {
        let limit_ns = now_ns.saturating_sub(STALE_NS);
        let stale = self.parts.take_stale(|part| part.received_ns < limit_ns);
        stale.into_iter().map(|batch| (batch.header.name(), receipts(batch.messages))).collect()
    }

    /// Gives a batch back; all its parts are to come again.
    pub(super) fn give_back(&mut self, original: Original) {
        let header = BatchHeader::parse(|name| original.attributes.get(name).map(String::as_str));
        if let Ok(header) = header {
            self.parts.forget(&header);
        }
        drop(original);
    }

    /// Puts a whole batch behind the others.
    pub(super) fn again(&mut self, arrived: Arrived) {
        self.queue_bytes = self.queue_bytes.saturating_add(arrived.original.bytes());
        self.queue.push_back(arrived);
    }

    /// The next batch to be decoded.
    pub(super) fn next(&mut self) -> Option<Arrived> {
        let arrived = self.queue.pop_front()?;
        self.queue_bytes = self.queue_bytes.saturating_sub(arrived.original.bytes());
        Some(arrived)
    }

    /// Whether batches wait to be decoded.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// If every message that may be outstanding is a part that waits for others, gives some back, so that those can come.
    pub(super) fn unstick(&mut self) {
        if self.queue.is_empty() {
            drop(receipts(self.parts.stuck(self.outstanding)));
        }
    }

    /// Counts a failure of a batch; gives how many there were.
    pub(super) fn failed(&mut self, original: &Original) -> u32 {
        if original.attempt > 0 {
            return original.attempt;
        }
        // Any part of a batch may have come first.
        let key: Box<str> = match (original.attributes.get("batch_id"), original.attributes.get("height")) {
            (Some(id), Some(height)) => format!("{height}/{id}").into(),
            _ => original.message_id.clone(),
        };
        if !self.failures.contains_key(&key) {
            self.failed.push_back(key.clone());
            if self.failed.len() > ATTEMPTS_MAX
                && let Some(oldest) = self.failed.pop_front()
            {
                self.failures.remove(&oldest);
            }
        }
        let count = self.failures.entry(key).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Gives everything back.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        drop(receipts(self.parts.take_stale(|_| true).into_iter().flat_map(|batch| batch.messages).collect()));
    }
}

/// Whether a batch's parts are certain to be more than a batch may have: all but the last are equally long.
fn beyond(header: &BatchHeader, part_bytes: usize, content_bytes_max: usize) -> Option<BatchError> {
    let whole = usize::try_from(header.parts.saturating_sub(1)).unwrap_or(usize::MAX);
    let least = if header.part.saturating_add(1) < header.parts { whole.saturating_mul(part_bytes) } else { 0 };
    (least > content_bytes_max).then_some(BatchError::Content(ContentError::TooLarge { max: content_bytes_max }))
}

fn receipts(parts: Vec<Part>) -> Vec<Receipt> {
    parts.into_iter().map(|part| part.receipt).collect()
}

/// A whole batch of its parts; its attributes are those of the first, without what says that there are several.
fn original(data: Vec<bytes::Bytes>, parts: Vec<Part>) -> Original {
    let mut original = Original {
        attributes: BTreeMap::new(),
        data,
        message_id: Box::default(),
        published_ns: 0,
        received_ns: 0,
        attempt: 0,
        receipts: Vec::with_capacity(parts.len()),
    };
    for (at, part) in parts.into_iter().enumerate() {
        if at == 0 {
            original.message_id = part.message_id;
            original.attributes = part.attributes;
        }
        original.published_ns = original.published_ns.max(part.published_ns);
        original.received_ns = original.received_ns.max(part.received_ns);
        original.receipts.push(part.receipt);
    }
    if original.data.len() > 1 {
        original.attributes.remove("part");
        original.attributes.remove("parts");
    }
    original
}
