//! What a venue's messages about the connection mean for its subscriptions: what was answered, refused, proven by data, or
//! ended.
//!
//! Never: an acknowledgement taken for life.

use super::{Action, LEAVE_SPREAD_MS, Leg, Link, Note, Purpose, Request, Stage, ms};
use crate::live::protocol::Answer;
use foldhash::HashSet;
use std::borrow::Cow;

/// Handles that are remembered since their data came before the venue named their instrument; it names it within a
/// message or two, so the oldest gives way.
pub(super) const EARLY_MAX: usize = 64;

/// What a refusal says where the venue itself gave no reason.
pub(super) const UNNAMED_REFUSAL: &str = "not among the subscriptions that the venue names";

impl Leg {
    /// A message came.
    pub fn message(&mut self, now_ns: u64, text: &str) {
        self.heard(now_ns);
        let Link::Open(open) = &mut self.link else { return };
        match self.protocol.understand(text) {
            Answer::Life => {}
            Answer::Leaving => {
                let spread_ns = ms(LEAVE_SPREAD_MS.saturating_mul(self.index));
                open.leave_at_ns = open.leave_at_ns.min(now_ns.saturating_add(spread_ns));
                let leave_at_ns = open.leave_at_ns;
                self.look_at(leave_at_ns);
            }
            Answer::Data(key) => {
                open.proven = true;
                self.flows(&key);
            }
            Answer::DataOf(keys) => {
                open.proven = true;
                keys.iter().for_each(|key| self.flows(key));
            }
            Answer::Subscribed { key, handle } => self.subscribed(now_ns, &key, &handle),
            Answer::Unsubscribed(handle) => self.unsubscribed(now_ns, &handle),
            Answer::Respond(text) => self.due.push_back(Action::Send(text)),
            Answer::Reply { request, key, refusal } => {
                self.replied(now_ns, request, key.as_deref(), refusal.as_deref());
            }
            Answer::Beside { key, refusal } => {
                if let Some(at) = self.by_key.get(&*key).copied() {
                    self.settle(now_ns, Purpose::Beside, at, refusal.as_deref());
                }
            }
            Answer::Standing { books, beside } => self.standing(now_ns, &books, &beside),
        }
    }

    /// Data of an instrument came, by its key or its handle.
    fn flows(&mut self, name: &str) {
        match self.by_key.get(name).or_else(|| self.by_handle.get(name)).copied() {
            Some(at) => self.flows_at(at),
            None if self.protocol.ends_by_handle() => {
                if self.early.len() >= EARLY_MAX {
                    self.early.pop_front();
                }
                self.early.push_back(name.into());
            }
            None => {}
        }
    }

    fn flows_at(&mut self, at: usize) {
        let Some(subscription) = self.subscriptions.get_mut(at) else { return };
        if matches!(subscription.stage, Stage::Asked | Stage::Acknowledged { .. }) {
            self.verified(at);
        }
    }

    pub(super) fn verified(&mut self, at: usize) {
        if let Some(subscription) = self.subscriptions.get_mut(at) {
            subscription.proven();
        }
        if self.by_rest {
            self.due.push_back(Action::Carried(at));
        }
    }

    pub(super) fn handle(&self, at: usize) -> Option<&str> {
        self.by_handle.iter().find(|(_, known)| **known == at).map(|(handle, _)| &**handle)
    }

    /// The venue named the handle of an instrument's subscription, of which it has one at a time.
    fn subscribed(&mut self, now_ns: u64, key: &str, handle: &str) {
        let Some(at) = self.by_key.get(key).copied() else { return };
        self.by_handle.retain(|_, known| *known != at);
        self.by_handle.insert(handle.into(), at);
        self.settle(now_ns, Purpose::Subscribe, at, None);
        if let Some(early) = self.early.iter().position(|name| **name == *handle) {
            self.early.remove(early);
            self.flows_at(at);
        }
    }

    /// The subscription with a handle ended: as it was asked for, or as the venue likes, then it begins anew.
    fn unsubscribed(&mut self, now_ns: u64, handle: &str) {
        let Some(at) = self.by_handle.remove(handle) else { return };
        if !self.settle(now_ns, Purpose::Unsubscribe, at, None) {
            self.stage(at, Stage::Refused);
            self.again(now_ns, at);
        }
    }

    /// The first request of a kind that was not answered for an instrument is answered for it; whether there was one.
    fn settle(&mut self, now_ns: u64, purpose: Purpose, at: usize, refusal: Option<&str>) -> bool {
        let asks = |request: &Request| request.purpose == purpose && request.symbols.contains(&at);
        let Some(found) = self.asked.iter().position(asks) else { return false };
        self.take(now_ns, found, Some(at), refusal);
        true
    }

    /// A request is answered for one instrument, or for all that it still waits for.
    fn take(&mut self, now_ns: u64, found: usize, at: Option<usize>, refusal: Option<&str>) {
        let Some(request) = self.asked.get_mut(found) else { return };
        let answered: Vec<usize> = match at {
            Some(at) => request.symbols.extract_if(.., |one| *one == at).collect(),
            None => std::mem::take(&mut request.symbols),
        };
        let purpose = request.purpose;
        if request.symbols.is_empty() {
            self.asked.remove(found);
        }
        for at in answered {
            self.answered(now_ns, purpose, at, refusal);
        }
    }

    fn replied(&mut self, now_ns: u64, id: Option<u64>, key: Option<&str>, refusal: Option<&str>) {
        let named = key.and_then(|key| self.by_key.get(key).copied());
        let found = match (id, named, key) {
            (Some(id), ..) => self.asked.iter().position(|request| request.id == id),
            (None, Some(named), _) => {
                let about = |request: &Request| request.symbols.contains(&named);
                let books = |request: &Request| request.purpose != Purpose::Beside && about(request);
                self.asked.iter().position(books).or_else(|| self.asked.iter().position(about))
            }
            (None, None, Some(_)) => None,
            (None, None, None) => (!self.asked.is_empty()).then_some(0),
        };
        if let Some(found) = found {
            self.take(now_ns, found, named, refusal);
        }
    }

    /// The venue named everything that is subscribed to. The first request that this answers, if only in part, is the
    /// one that it was said for; if it answers none, it is the first that waits, which was not heeded.
    fn standing(&mut self, now_ns: u64, books: &[Cow<'_, str>], beside: &[Cow<'_, str>]) {
        let at = |keys: &[Cow<'_, str>]| -> HashSet<usize> {
            keys.iter().filter_map(|key| self.by_key.get(&**key).copied()).collect()
        };
        let (books, beside) = (at(books), at(beside));
        let right = |purpose, at: &usize| match purpose {
            Purpose::Subscribe => books.contains(at),
            Purpose::Beside => beside.contains(at),
            Purpose::Unsubscribe => !books.contains(at),
        };
        let answers = |request: &Request| request.symbols.iter().any(|at| right(request.purpose, at));
        let found = self.asked.iter().position(answers).unwrap_or(0);
        let Some(request) = self.asked.get(found) else { return };
        let (purpose, symbols) = (request.purpose, request.symbols.clone());
        if purpose == Purpose::Unsubscribe && !answers(request) {
            return;
        }
        let (done, refused): (Vec<usize>, Vec<usize>) = symbols.into_iter().partition(|at| right(purpose, at));
        done.into_iter().for_each(|at| self.take(now_ns, found, Some(at), None));
        if !refused.is_empty() {
            self.take(now_ns, found, None, Some(UNNAMED_REFUSAL));
        }
    }

    fn answered(&mut self, now_ns: u64, purpose: Purpose, at: usize, refusal: Option<&str>) {
        let Link::Open(open) = &mut self.link else { return };
        let too_often = self.protocol.terms().too_often;
        let put_off = refusal.zip(too_often).is_some_and(|(refusal, too_often)| refusal.contains(too_often));
        match (purpose, refusal) {
            // Nothing was done: neither ended nor refused for good.
            (Purpose::Unsubscribe | Purpose::Subscribe, Some(refusal)) if put_off => {
                self.stage(at, Stage::Refused);
                self.again(now_ns, at);
                self.due.push_back(Action::Note(Note::Refused(at, refusal.into())));
            }
            // Whether it was subscribed to before or not, it is not now.
            (Purpose::Unsubscribe, _) => {
                self.stage(at, Stage::Absent);
                self.ask(Purpose::Subscribe, &[at]);
            }
            (Purpose::Subscribe, None) => {
                open.acknowledged_ns = now_ns;
                let asked = self.subscriptions.get(at).is_some_and(|one| one.stage == Stage::Asked);
                if asked {
                    self.stage(at, Stage::Acknowledged { since_ns: now_ns });
                    self.look_at(now_ns);
                }
            }
            (Purpose::Subscribe, Some(refusal)) => {
                self.stage(at, Stage::Refused);
                self.retry(now_ns, at);
                self.due.push_back(Action::Note(Note::Refused(at, refusal.into())));
            }
            (Purpose::Beside, Some(refusal)) => self.due.push_back(Action::Note(Note::Refused(at, refusal.into()))),
            (Purpose::Beside, None) => {}
        }
    }
}
