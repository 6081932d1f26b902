//! What can be made to go wrong, what of it is armed, and how often it fired.
//!
//! Never: a fault that fires without being counted.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    str::FromStr,
};
use tonic::Code;

/// Changes of code among the failures of one method that wait; failures beyond them are not planned.
const PLANNED_MAX: usize = 1_024;

/// A call of the protocol, over gRPC or REST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum Method {
    CreateTopic,
    GetTopic,
    ListTopics,
    ListTopicSubscriptions,
    DeleteTopic,
    Publish,
    CreateSubscription,
    GetSubscription,
    ListSubscriptions,
    DeleteSubscription,
    ModifyAckDeadline,
    Acknowledge,
    Pull,
    StreamingPull,
}

impl Method {
    /// Every method that the emulator answers.
    pub const ALL: [Self; 14] = [
        Self::CreateTopic,
        Self::GetTopic,
        Self::ListTopics,
        Self::ListTopicSubscriptions,
        Self::DeleteTopic,
        Self::Publish,
        Self::CreateSubscription,
        Self::GetSubscription,
        Self::ListSubscriptions,
        Self::DeleteSubscription,
        Self::ModifyAckDeadline,
        Self::Acknowledge,
        Self::Pull,
        Self::StreamingPull,
    ];

    /// As the protocol names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTopic => "CreateTopic",
            Self::GetTopic => "GetTopic",
            Self::ListTopics => "ListTopics",
            Self::ListTopicSubscriptions => "ListTopicSubscriptions",
            Self::DeleteTopic => "DeleteTopic",
            Self::Publish => "Publish",
            Self::CreateSubscription => "CreateSubscription",
            Self::GetSubscription => "GetSubscription",
            Self::ListSubscriptions => "ListSubscriptions",
            Self::DeleteSubscription => "DeleteSubscription",
            Self::ModifyAckDeadline => "ModifyAckDeadline",
            Self::Acknowledge => "Acknowledge",
            Self::Pull => "Pull",
            Self::StreamingPull => "StreamingPull",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Not a method that the emulator answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such method")]
pub struct UnknownMethod;

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Self::ALL.into_iter().find(|method| method.name() == name).ok_or(UnknownMethod)
    }
}

/// How often each fault fired since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Calls that were made to fail; see [`FaultCounts::failed`].
    pub failures: BTreeMap<Method, u64>,
    /// Open streams that were ended with UNAVAILABLE.
    pub streams_reset: u64,
    /// Times that all connections were cut and the address was left.
    pub kills: u64,
    /// Times that it came back to its address.
    pub restarts: u64,
    /// Open streams that fell silent for good.
    pub streams_silenced: u64,
    /// Times that a stream had something to deliver and was held back.
    pub streams_held: u64,
    /// Messages that were delivered twice.
    pub duplicated: u64,
    /// Messages that were delivered before an earlier one that was ready.
    pub reordered: u64,
    /// Acks that were taken and forgotten.
    pub acks_forgotten: u64,
    /// Messages that were delivered with other bytes than they have.
    pub corrupted: u64,
}

impl FaultCounts {
    /// How many calls of `method` were made to fail.
    #[must_use]
    pub fn failed(&self, method: Method) -> u64 {
        self.failures.get(&method).copied().unwrap_or_default()
    }

    /// Every count with its name, as `GET /faults` has them.
    #[must_use]
    pub fn named(&self) -> Vec<(String, u64)> {
        let failures = self.failures.iter().map(|(method, count)| (format!("failed.{method}"), *count));
        let others = [
            ("streams_reset", self.streams_reset),
            ("kills", self.kills),
            ("restarts", self.restarts),
            ("streams_silenced", self.streams_silenced),
            ("streams_held", self.streams_held),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("acks_forgotten", self.acks_forgotten),
            ("corrupted", self.corrupted),
        ];
        failures.chain(others.map(|(name, count)| (name.to_owned(), count))).collect()
    }
}

/// What is armed.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    planned: BTreeMap<Method, VecDeque<(Code, u32)>>,
    /// Messages that are yet to be delivered twice.
    pub(crate) duplicates: u32,
    /// Messages that are yet to be delivered falsified.
    pub(crate) corruptions: u32,
    pub(crate) shuffle: Option<u64>,
    pub(crate) hold: bool,
    pub(crate) stall_acks: bool,
    /// Streams below this number are to end.
    pub(crate) reset_below: u64,
    /// Streams below this number say nothing any more.
    pub(crate) silent_below: u64,
    pub(crate) counts: FaultCounts,
}

impl Faults {
    pub(crate) fn plan(&mut self, method: Method, code: Code, times: u32) {
        let planned = self.planned.entry(method).or_default();
        let room = planned.len() < PLANNED_MAX;
        match planned.back_mut() {
            Some((last, count)) if *last == code => *count = count.saturating_add(times),
            _ if times > 0 && room => planned.push_back((code, times)),
            _ => {}
        }
    }

    /// The code that this call of `method` is to fail with.
    pub(crate) fn fails(&mut self, method: Method) -> Option<Code> {
        let planned = self.planned.get_mut(&method)?;
        let (code, times) = planned.front_mut()?;
        let code = *code;
        *times = times.saturating_sub(1);
        if *times == 0 {
            planned.pop_front();
        }
        *self.counts.failures.entry(method).or_default() += 1;
        Some(code)
    }
}

/// The number that decides a message's turn among its neighbours (splitmix64 of seed and place).
pub(crate) fn rank(seed: u64, place: u64) -> u64 {
    let mut mixed = seed ^ place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The bytes with the first, the middle and the last one falsified; nothing of no bytes.
pub(crate) fn corrupt(data: &[u8]) -> Option<Vec<u8>> {
    const FLIPPED: u8 = 0x55;
    let last = data.len().checked_sub(1)?;
    let mut data = data.to_vec();
    let mut places = vec![0, last / 2, last];
    places.dedup();
    for place in places {
        if let Some(byte) = data.get_mut(place) {
            *byte ^= FLIPPED;
        }
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_failures_come_in_order_and_are_counted() {
        let mut faults = Faults::default();
        faults.plan(Method::Publish, Code::Unavailable, 1);
        faults.plan(Method::Publish, Code::Unavailable, 1);
        faults.plan(Method::Publish, Code::Internal, 1);
        faults.plan(Method::Publish, Code::Aborted, 0);
        assert_eq!(faults.fails(Method::Acknowledge), None);
        let failed: Vec<_> = (0..4).map(|_| faults.fails(Method::Publish)).collect();
        assert_eq!(failed, [Some(Code::Unavailable), Some(Code::Unavailable), Some(Code::Internal), None]);
        assert_eq!(faults.counts.failed(Method::Publish), 3);
        assert_eq!(faults.counts.failed(Method::Acknowledge), 0);
    }

    #[test]
    fn methods_are_found_by_name() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
        assert_eq!("Seek".parse::<Method>(), Err(UnknownMethod));
    }

    #[test]
    fn corruption_changes_any_bytes_there_are() {
        assert_eq!(corrupt(&[]), None);
        assert_eq!(corrupt(&[0]), Some(vec![0x55]));
        assert_eq!(corrupt(&[0, 0]), Some(vec![0x55, 0x55]));
        assert_eq!(corrupt(&[0; 5]), Some(vec![0x55, 0, 0x55, 0, 0x55]));
    }
}
