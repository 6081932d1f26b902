//! The subscription set: state, of which the server is told the difference.
//!
//! Never: a queue of requests; what is wanted and what was asked for are two sets.

use std::collections::BTreeSet;
use wire::{
    Subscription, SubscriptionItem, ToServer,
    bounds::{ITEMS_MAX, PATTERN_BYTES_MAX, REQUEST_BYTES_MAX},
};

/// Bytes of a request beside its items: kind, number and count.
const HEADER_BYTES_MAX: usize = 8;

/// Bytes of an item beside its pattern: channel and length.
const ITEM_HEADER_BYTES_MAX: usize = 3;

/// The item cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The pattern is over its bound.
    #[error("a pattern of {bytes} bytes, more than {PATTERN_BYTES_MAX}")]
    PatternTooLong {
        /// Its length.
        bytes: usize,
    },
}

/// What is wanted, and what the present connection was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    wanted: BTreeSet<SubscriptionItem>,
    asked: BTreeSet<SubscriptionItem>,
    request: u32,
    /// The sets may differ.
    dirty: bool,
}

impl Subscriptions {
    pub(crate) fn add(&mut self, items: &[SubscriptionItem]) -> Result<(), SubscribeError> {
        if let Some(long) = items.iter().find(|item| item.pattern.len() > PATTERN_BYTES_MAX) {
            return Err(SubscribeError::PatternTooLong { bytes: long.pattern.len() });
        }
        self.wanted.extend(items.iter().cloned());
        self.dirty = true;
        Ok(())
    }

    pub(crate) fn remove(&mut self, items: &[SubscriptionItem]) {
        for item in items {
            self.wanted.remove(item);
        }
        self.dirty = true;
    }

    pub(crate) fn wanted(&self) -> impl ExactSizeIterator<Item = &SubscriptionItem> {
        self.wanted.iter()
    }

    /// A new connection knows nothing.
    pub(crate) fn forget_asked(&mut self) {
        self.asked.clear();
        self.dirty = true;
    }

    /// The next request that brings what was asked for closer to what is wanted.
    pub(crate) fn next_request(&mut self) -> Option<ToServer> {
        if !self.dirty {
            return None;
        }
        let gone = fitting(self.asked.difference(&self.wanted));
        if !gone.is_empty() {
            for item in &gone {
                self.asked.remove(item);
            }
            return Some(ToServer::Unsubscribe(self.numbered(gone)));
        }
        let new = fitting(self.wanted.difference(&self.asked));
        if new.is_empty() {
            self.dirty = false;
            return None;
        }
        self.asked.extend(new.iter().cloned());
        Some(ToServer::Subscribe(self.numbered(new)))
    }

    fn numbered(&mut self, items: Vec<SubscriptionItem>) -> Subscription {
        self.request = self.request.wrapping_add(1);
        Subscription { request: self.request, items }
    }
}

/// As many items as one request holds.
fn fitting<'a>(items: impl Iterator<Item = &'a SubscriptionItem>) -> Vec<SubscriptionItem> {
    let mut bytes = HEADER_BYTES_MAX;
    items
        .take(ITEMS_MAX)
        .take_while(|item| {
            bytes = bytes.saturating_add(ITEM_HEADER_BYTES_MAX).saturating_add(item.pattern.len());
            bytes <= REQUEST_BYTES_MAX
        })
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Channel;

    #[test]
    fn a_large_set_is_asked_for_in_requests_that_fit() {
        let items: Vec<_> = (0..5_000)
            .map(|at| SubscriptionItem { channel: Channel::Book, pattern: format!("{at:0>200}").into() })
            .collect();
        let mut subscriptions = Subscriptions::default();
        subscriptions.add(&items).unwrap();
        let mut asked = 0;
        while let Some(request) = subscriptions.next_request() {
            assert!(request.encode().is_ok());
            let ToServer::Subscribe(request) = request else { panic!("{request:?}") };
            asked += request.items.len();
        }
        assert_eq!(asked, items.len());
        subscriptions.remove(&items[1..]);
        while let Some(request) = subscriptions.next_request() {
            assert!(request.encode().is_ok());
            assert!(matches!(request, ToServer::Unsubscribe(_)));
        }
        assert_eq!(subscriptions.asked.len(), 1);
        let long = SubscriptionItem { channel: Channel::Book, pattern: "x".repeat(513).into() };
        assert_eq!(subscriptions.add(&[long]), Err(SubscribeError::PatternTooLong { bytes: 513 }));
    }
}
