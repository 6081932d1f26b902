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
    /// It was refused or stayed quiet: what is asked for it comes after what others need.
    pub(super) unproven: bool,
    /// Pauses while that is so; of all connections.
    pub(super) refusals: Insistence,
}

impl Subscription {
    pub(super) fn new(symbol: &str) -> Self {
        Self {
            symbol: symbol.into(),
            stage: Stage::Absent,
            again_at_ns: None,
            insistence: Insistence::default(),
            unproven: false,
            refusals: Insistence::after_refusals(),
        }
    }

    /// When it may begin anew.
    pub(super) fn due_ns(&self, now_ns: u64) -> u64 {
        if self.unproven { self.refusals.due_ns(now_ns) } else { self.insistence.due_ns(now_ns) }
    }

    /// It begins anew; whether that is so often in a row that a person should look.
    pub(super) fn begun(&mut self, now_ns: u64) -> bool {
        if self.unproven { self.refusals.done(now_ns) } else { self.insistence.done(now_ns) }
    }

    /// It flows. What was planned since it did not is void.
    pub(super) fn proven(&mut self) {
        self.stage = Stage::Verified;
        if self.unproven {
            self.unproven = false;
            self.again_at_ns = None;
            self.refusals = Insistence::after_refusals();
        }
    }

    /// The connection is another.
    pub(super) fn forget(&mut self) {
        self.stage = Stage::Absent;
        self.again_at_ns = None;
        self.unproven = false;
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
    /// For one that was refused or stayed quiet.
    pub(super) late: bool,
    pub(super) sent_ns: u64,
}
