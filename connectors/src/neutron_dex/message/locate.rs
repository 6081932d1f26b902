//! Where in a block an event stands, for those who ask why a tick is what it is.
//!
//! Never: on the way of a batch; it reads the document once more.

use super::{BlockError, shape::Attribute};
use crate::neutron_dex::book::{Attributes, Mode};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The parts of a block, in the order of their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Before the transactions.
    BeginBlock,
    /// The transactions.
    Transaction,
    /// After them.
    EndBlock,
}

impl Part {
    /// The venue's word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeginBlock => "BeginBlock",
            Self::Transaction => "Tx",
            Self::EndBlock => "EndBlock",
        }
    }
}

/// An event of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Of which part.
    pub part: Part,
    /// The transaction's place in the block, from 0, if it is of one.
    pub transaction: Option<u64>,
    /// Whether that transaction failed.
    pub failed: bool,
    /// Its place in the list of events that it stands in, from 0.
    pub event: u64,
    /// The event as it stands in the document.
    pub json: Box<str>,
}

type List<'a> = Option<Vec<&'a RawValue>>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Results<'a> {
    /// The results themselves, in an envelope.
    #[serde(borrow)]
    result: Option<Box<Results<'a>>>,
    #[serde(borrow)]
    txs_results: Option<Vec<Option<Transaction<'a>>>>,
    #[serde(borrow)]
    begin_block_events: List<'a>,
    #[serde(borrow)]
    end_block_events: List<'a>,
    #[serde(borrow)]
    finalize_block_events: List<'a>,
}

#[derive(Deserialize)]
struct Transaction<'a> {
    code: Option<u64>,
    #[serde(borrow)]
    events: List<'a>,
}

#[derive(Deserialize)]
struct WithMode<'a> {
    #[serde(borrow)]
    attributes: Option<Vec<Attribute<'a>>>,
}

fn mode_of(event: &RawValue) -> Result<Mode, BlockError> {
    let event: Option<WithMode<'_>> = serde_json::from_str(event.get())?;
    let mut attributes = Attributes::default();
    for Attribute { key, value } in event.and_then(|event| event.attributes).into_iter().flatten() {
        if let (Some(key), Some(value)) = (key.0, value.0) {
            attributes.take(&key, value);
        }
    }
    Ok(attributes.mode)
}

/// The event at a place among all events of a block; none if there are not so many.
///
/// # Errors
/// [`BlockError`] if the content is no block.
pub fn locate(content: &[u8], ordinal: u64) -> Result<Option<Located>, BlockError> {
    let text = std::str::from_utf8(content)?;
    let mut results: Results<'_> = serde_json::from_str(text)?;
    if let Some(inner) = results.result.take() {
        results = *inner;
    }
    let mut before: Vec<(u64, &RawValue)> = (0..).zip(results.begin_block_events.into_iter().flatten()).collect();
    let mut after: Vec<(u64, &RawValue)> = (0..).zip(results.end_block_events.into_iter().flatten()).collect();
    for (at, event) in (0..).zip(results.finalize_block_events.into_iter().flatten()) {
        match mode_of(event)? {
            Mode::Begin => before.push((at, event)),
            Mode::End => after.push((at, event)),
        }
    }
    let of_block = |part: Part| {
        move |(event, json): (u64, &RawValue)| Located {
            part,
            transaction: None,
            failed: false,
            event,
            json: json.get().into(),
        }
    };
    let transactions = (0..).zip(results.txs_results.into_iter().flatten().map(|transaction| {
        transaction.map(|transaction| (transaction.code, transaction.events.unwrap_or_default())).unwrap_or_default()
    }));
    let within = transactions.flat_map(|(at, (code, events))| {
        (0..).zip(events).map(move |(event, json)| Located {
            part: Part::Transaction,
            transaction: Some(at),
            failed: code.is_some_and(|code| code != 0),
            event,
            json: json.get().into(),
        })
    });
    let all = before.into_iter().map(of_block(Part::BeginBlock)).chain(within);
    let mut all = all.chain(after.into_iter().map(of_block(Part::EndBlock)));
    Ok(usize::try_from(ordinal).ok().and_then(|ordinal| all.nth(ordinal)))
}
