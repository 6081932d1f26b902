//! The agenda: what will happen, by virtual time; what is due at one time happens in the order in which it was planned.
//!
//! Never: an order that depends on anything but times and the order of planning.

use super::{
    faults::Fault,
    setup::{Leg, Market, Viewer},
    truth::{Changed, Whole},
};
use bytes::Bytes;
use dataflow::sink::SinkMessage;
use server::fanout::ConnectionId;
use std::{collections::BTreeMap, sync::Arc};

/// What a venue says on a leg.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Changed(Market, Arc<Changed>),
    Whole(Market, Arc<Whole>),
    Heartbeat,
}

/// Something that will happen. `run` and `connection` name what it belongs to: it is void once that is gone.
#[derive(Debug)]
pub(super) enum Action {
    /// The venue changes an instrument by itself.
    Move(Market),
    /// A leg carries a heartbeat.
    Heartbeat(Leg),
    /// A message of a leg arrives.
    Arrive { leg: Leg, generation: u64, said: Said },
    /// The connector opens a leg.
    Open { leg: Leg, run: u64 },
    /// The answer to a question for a snapshot arrives.
    Reply { run: u64, market: Market, whole: Arc<Whole> },
    /// The venue takes a new subscription, which it answers with a snapshot on the leg.
    Resubscribe { run: u64, market: Market, leg: Leg },
    /// A question for a snapshot is given up.
    GiveUp { run: u64, market: Market },
    /// The lanes close their open cut.
    Cut { run: u64 },
    /// A worker's messages reach the hub.
    Sink { run: u64, messages: Vec<SinkMessage> },
    /// A terminal tries to connect.
    Dial { viewer: Viewer, attempt: u64 },
    /// The last bytes to a terminal are out of the server's hands.
    Sent { viewer: Viewer, connection: ConnectionId },
    /// A message reaches a terminal.
    Down { viewer: Viewer, connection: ConnectionId, bytes: Bytes },
    /// A message of a terminal reaches the server.
    Up { run: u64, connection: ConnectionId, bytes: Bytes },
    /// A terminal notices that its connection is gone, with the wait that the server asks for if it said so.
    Gone { viewer: Viewer, connection: ConnectionId, wait_ms: Option<u64> },
    /// The server notices that a terminal is gone.
    Teardown { run: u64, connection: ConnectionId },
    /// A terminal looks at the clock.
    Watch(Viewer),
    /// A fault begins or ends.
    Fault(Fault),
}

/// What will happen.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    planned: BTreeMap<(u64, u64), Action>,
    order: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at_ns: u64, action: Action) {
        self.order += 1;
        self.planned.insert((at_ns, self.order), action);
    }

    /// The next action that is due by a time, with its own time.
    pub(super) fn next(&mut self, until_ns: u64) -> Option<(u64, Action)> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 <= until_ns)?;
        let ((at_ns, _), action) = entry.remove_entry();
        Some((at_ns, action))
    }
}
