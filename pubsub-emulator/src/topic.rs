//! A topic, what may be published to it, and a message while anybody still needs it.
//!
//! Never: who receives it; that is in `subscription`.

use crate::error::Refusal;
use bytes::Bytes;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Bytes of all messages of one publish request, the service's limit; so also of one message.
pub(crate) const REQUEST_BYTES_MAX: u64 = 10_000_000;
/// Messages of one publish request, the service's limit.
pub(crate) const REQUEST_MESSAGES_MAX: usize = 1_000;
/// Attributes of one message, the service's limit.
const ATTRIBUTES_MAX: usize = 100;
/// Bytes of an attribute's name, the service's limit.
const ATTRIBUTE_NAME_BYTES_MAX: usize = 256;
/// Bytes of an attribute's value and of an ordering key, the service's limit.
const ATTRIBUTE_BYTES_MAX: usize = 1_024;
/// Bytes that a message costs beside its own, so that a backlog of tiny ones is bounded too.
const OVERHEAD_BYTES: u64 = 256;

/// A topic and what has come to it.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) config: pb::Topic,
    /// Messages, dead letters included.
    pub(crate) published: u64,
}

/// A message that somebody has not acknowledged yet; shared by the subscriptions of its topic.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) message: pb::PubsubMessage,
    /// Data, attributes and ordering key: what flow control counts.
    pub(crate) bytes: u64,
    held: Held,
}

/// Bytes held by all messages together; a message gives its own back when the last one that needs it lets go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<AtomicU64>);

impl Held {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stored {
    pub(crate) fn new(message: pb::PubsubMessage, held: &Held) -> Self {
        let bytes = bytes_of(&message);
        held.0.fetch_add(bytes + OVERHEAD_BYTES, Ordering::Relaxed);
        Self { message, bytes, held: held.clone() }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes + OVERHEAD_BYTES, Ordering::Relaxed);
    }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

fn bytes_of(message: &pb::PubsubMessage) -> u64 {
    let attributes: u64 = message.attributes.iter().map(|(name, value)| length(name) + length(value)).sum();
    let data = u64::try_from(message.data.len()).unwrap_or(u64::MAX);
    data.saturating_add(attributes).saturating_add(length(&message.ordering_key))
}

/// Whether the service would take these messages in one request.
pub(crate) fn check(messages: &[pb::PubsubMessage]) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(Refusal::Empty);
    }
    if messages.len() > REQUEST_MESSAGES_MAX {
        return Err(Refusal::TooMany { count: messages.len() });
    }
    let bytes = messages.iter().map(bytes_of).fold(0, u64::saturating_add);
    if bytes > REQUEST_BYTES_MAX {
        return Err(Refusal::TooLarge { bytes });
    }
    for message in messages {
        if message.data.is_empty() && message.attributes.is_empty() {
            return Err(Refusal::Empty);
        }
        let within = message.attributes.len() <= ATTRIBUTES_MAX
            && message.ordering_key.len() <= ATTRIBUTE_BYTES_MAX
            && message.attributes.iter().all(|(name, value)| {
                !name.is_empty() && name.len() <= ATTRIBUTE_NAME_BYTES_MAX && value.len() <= ATTRIBUTE_BYTES_MAX
            });
        if !within {
            return Err(Refusal::Attributes);
        }
    }
    Ok(())
}

/// The messages with data of their own: as received, one that is kept would keep the whole request with it.
pub(crate) fn apart(mut messages: Vec<pb::PubsubMessage>) -> Vec<pb::PubsubMessage> {
    if messages.len() > 1 {
        for message in &mut messages {
            message.data = Bytes::copy_from_slice(&message.data);
        }
    }
    messages
}

/// Whether `name` is `projects/PROJECT/KIND/NAME`.
pub(crate) fn check_name(name: &str, kind: &'static str) -> Result<(), Refusal> {
    let parts: Vec<_> = name.split('/').collect();
    match parts.as_slice() {
        ["projects", project, found, id] if *found == kind && !project.is_empty() && fits(id) => Ok(()),
        _ => Err(Refusal::Name { name: name.into(), kind }),
    }
}

/// The service wants three characters at least; a shorter name harms nobody here.
fn fits(id: &str) -> bool {
    (1..=255).contains(&id.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(data: usize) -> pb::PubsubMessage {
        pb::PubsubMessage { data: vec![0; data].into(), ..Default::default() }
    }

    #[test]
    fn a_request_is_refused_from_one_byte_over_the_limit() {
        assert_eq!(check(&[message(10_000_000)]), Ok(()));
        assert_eq!(check(&[message(10_000_001)]), Err(Refusal::TooLarge { bytes: 10_000_001 }));
        assert_eq!(check(&[message(9_999_999), message(2)]), Err(Refusal::TooLarge { bytes: 10_000_001 }));
        assert_eq!(check(&vec![message(1); 1_001]), Err(Refusal::TooMany { count: 1_001 }));
    }

    #[test]
    fn attributes_count_and_have_limits() {
        let mut one = message(9_999_990);
        one.attributes.insert("12345".into(), "123456".into());
        assert_eq!(check(&[one]), Err(Refusal::TooLarge { bytes: 10_000_001 }));
        let mut one = message(1);
        one.attributes.insert("name".into(), "v".repeat(1_025));
        assert_eq!(check(&[one]), Err(Refusal::Attributes));
        assert_eq!(check(&[message(0)]), Err(Refusal::Empty));
        assert_eq!(check(&[]), Err(Refusal::Empty));
    }

    #[test]
    fn held_bytes_come_back_with_the_last_owner() {
        let held = Held::default();
        let stored = Arc::new(Stored::new(message(100), &held));
        let other = Arc::clone(&stored);
        drop(stored);
        assert_eq!(held.bytes(), 100 + OVERHEAD_BYTES);
        drop(other);
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn names_have_four_parts() {
        assert_eq!(check_name("projects/p/topics/t", "topics"), Ok(()));
        for wrong in
            ["projects/p/topics/", "projects/p/subscriptions/t", "t", "projects//topics/t", "projects/p/topics/t/u"]
        {
            assert!(check_name(wrong, "topics").is_err(), "{wrong}");
        }
    }
}
