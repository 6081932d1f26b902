//! One instrument's place in a leg's subscription set, and the requests about it.
//!
//! Never: a stage that outlives its connection.

use crate::live::backoff::Insistence;

/// How far an instrument's subscription is on the present connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing was sent, or the wish waits in the outbox.
    Absent,
    /// Sent.
    Asked,
    /// Acknowledged, which is no proof.
    Acknowledged { since_ns: u64 },
    /// Data came, or where it may be quiet nothing more is waited for.
    Verified,
    /// The end of the subscription was asked for, so that it can begin anew.
    Leaving,
    /// The venue said no; it is asked again later.
    Refused,
}

/// One instrument.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) symbol: Box<str>,
    pub(super) stage: Stage,
    /// When it shall begin anew.
    pub(super) again_at_ns: Option<u64>,
    pub(super) insistence: Insistence,
}

impl Subscription {
    pub(super) fn new(symbol: &str) -> Self {
        let insistence = Insistence::default();
        Self { symbol: symbol.into(), stage: Stage::Absent, again_at_ns: None, insistence }
    }

    /// The connection is another.
    pub(super) fn forget(&mut self) {
        self.stage = Stage::Absent;
        self.again_at_ns = None;
    }

    /// What was waited for is waited for from now on.
    pub(super) fn wait_from(&mut self, now_ns: u64) {
        if let Stage::Acknowledged { since_ns } = &mut self.stage {
            *since_ns = now_ns;
        }
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Subscribe,
    Unsubscribe,
    /// What goes beside the books.
    Beside,
}

/// A request in the outbox, or one that waits for answers.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) purpose: Purpose,
    /// Those not answered yet, by their place in the set.
    pub(super) symbols: Vec<usize>,
    pub(super) text: String,
    pub(super) sent_ns: u64,
}
