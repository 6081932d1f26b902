//! The shapes of a block's results as JSON: what is read of it on the fly, and what is passed over.
//!
//! Never: a copy of what can be borrowed; a list of events in memory.

use super::{Part, Reader};
use crate::neutron_dex::book::{Attributes, Mode};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// The type of event that tells a tick.
const TICK_UPDATE: &str = "TickUpdate";

/// A text, or null.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text or null")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text(None))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

/// Reads a map or null, each key by `field`; then `end`.
macro_rules! map_or_null {
    ($seed:ty, $value:ty, $what:literal, |$this:ident, $map:ident| $visit:block, $null:expr) => {
        impl<'de> DeserializeSeed<'de> for $seed {
            type Value = $value;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<$value, D::Error> {
                deserializer.deserialize_any(self)
            }
        }

        impl<'de> Visitor<'de> for $seed {
            type Value = $value;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str($what)
            }

            fn visit_unit<E>(self) -> Result<$value, E> {
                Ok($null)
            }

            fn visit_map<M: MapAccess<'de>>(self, mut $map: M) -> Result<$value, M::Error> {
                let $this = self;
                $visit
            }
        }
    };
}

/// Reads a list or null, each element by a seed.
macro_rules! list_or_null {
    ($seed:ty, $what:literal, |$this:ident, $list:ident| $visit:block) => {
        impl<'de> DeserializeSeed<'de> for $seed {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                deserializer.deserialize_any(self)
            }
        }

        impl<'de> Visitor<'de> for $seed {
            type Value = ();

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str($what)
            }

            fn visit_unit<E>(self) -> Result<(), E> {
                Ok(())
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut $list: S) -> Result<(), S::Error> {
                let $this = self;
                $visit
            }
        }
    };
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Result,
    Error,
    Height,
    TxsResults,
    BeginBlockEvents,
    EndBlockEvents,
    FinalizeBlockEvents,
    #[serde(other)]
    Other,
}

/// The results of a block; with `true` perhaps in an envelope, whose `result` they are then.
pub(super) struct Document<'r>(pub(super) &'r mut Reader, pub(super) bool);

map_or_null!(
    Document<'_>,
    (),
    "the results of a block",
    |this, map| {
        let Document(reader, enveloped) = this;
        let mut seen = Vec::new();
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::Result if enveloped => map.next_value_seed(Document(reader, false))?,
                Field::Error if enveloped => {
                    reader.refused |= map.next_value::<Option<IgnoredAny>>()?.is_some();
                    continue;
                }
                Field::Height => reader.height = map.next_value::<Text<'de>>()?.0.map(Into::into),
                Field::TxsResults => map.next_value_seed(Transactions(reader))?,
                Field::BeginBlockEvents => map.next_value_seed(Events(reader, List::Part(Part::BeginBlock)))?,
                Field::EndBlockEvents => map.next_value_seed(Events(reader, List::Part(Part::EndBlock)))?,
                Field::FinalizeBlockEvents => map.next_value_seed(Events(reader, List::ByMode))?,
                Field::Result | Field::Error | Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            }
            if seen.contains(&field) {
                return Err(Error::custom("a field stands there twice"));
            }
            seen.push(field);
        }
        if seen.contains(&Field::Result) && seen.len() > 1 {
            return Err(Error::custom("results of a block beside an envelope of some"));
        }
        Ok(())
    },
    ()
);

struct Transactions<'r>(&'r mut Reader);

list_or_null!(Transactions<'_>, "transactions", |this, list| {
    while list.next_element_seed(Transaction(this.0))?.is_some() {}
    Ok(())
});

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum TransactionField {
    Code,
    Events,
    #[serde(other)]
    Other,
}

struct Transaction<'r>(&'r mut Reader);

map_or_null!(
    Transaction<'_>,
    (),
    "a transaction",
    |this, map| {
        let reader = this.0;
        let mark = reader.mark();
        let mut failed = false;
        while let Some(field) = map.next_key::<TransactionField>()? {
            match field {
                TransactionField::Code => failed |= map.next_value::<Option<u64>>()?.is_some_and(|code| code != 0),
                TransactionField::Events => {
                    map.next_value_seed(Events(reader, List::Part(Part::Transaction)))?;
                }
                TransactionField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if failed {
            reader.take_back(mark);
        }
        Ok(())
    },
    ()
);

/// What a list's events are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Part(Part),
    /// Each says it itself.
    ByMode,
}

struct Events<'r>(&'r mut Reader, List);

list_or_null!(Events<'_>, "events", |this, list| {
    let Events(reader, kind) = this;
    while let Some(event) = list.next_element_seed(EventSeed(kind))? {
        let part = match (kind, event.attributes.mode) {
            (List::Part(part), _) => part,
            (List::ByMode, Mode::Begin) => Part::BeginBlock,
            (List::ByMode, Mode::End) => Part::EndBlock,
        };
        let [older, newer] = &mut reader.listed;
        match kind {
            List::Part(Part::Transaction) => {}
            List::Part(_) => *older += 1,
            List::ByMode => *newer += 1,
        }
        reader.take(part, event);
    }
    Ok(())
});

/// An event as it is read.
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// Its type is that of those that tell ticks.
    pub(super) counts: bool,
    pub(super) attributes: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum EventField {
    Type,
    Attributes,
    #[serde(other)]
    Other,
}

struct EventSeed(List);

map_or_null!(
    EventSeed,
    Event<'de>,
    "an event",
    |this, map| {
        let mut event = Event::default();
        let mut wanted = true;
        while let Some(field) = map.next_key::<EventField>()? {
            match field {
                EventField::Type => {
                    event.counts = map.next_value::<Text<'de>>()?.0.is_some_and(|text| text == TICK_UPDATE);
                    wanted = event.counts || this.0 == List::ByMode;
                }
                EventField::Attributes if wanted => map.next_value_seed(AttributesSeed(&mut event.attributes))?,
                EventField::Attributes | EventField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(event)
    },
    Event::default()
);

/// One attribute.
#[derive(Deserialize)]
pub(super) struct Attribute<'a> {
    #[serde(borrow, default)]
    pub(super) key: Text<'a>,
    #[serde(borrow, default)]
    pub(super) value: Text<'a>,
}

struct AttributesSeed<'r, 'a>(&'r mut Attributes<'a>);

impl<'de> DeserializeSeed<'de> for AttributesSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AttributesSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("attributes")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        while let Some(attribute) = list.next_element::<Attribute<'de>>()? {
            if let (Some(key), Some(value)) = (attribute.key.0, attribute.value.0) {
                self.0.take(&key, value);
            }
        }
        Ok(())
    }
}
