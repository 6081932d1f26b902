//! One `StreamingPull`: what its reader asks for and acknowledges, and what it is sent.
//!
//! Messages are leased only when the stream can take an answer, so a reader that stands still holds one answer and no
//! more. Requests after the first one may acknowledge, move deadlines, change the time of new leases, or be empty: a sign
//! of life.
//!
//! Never: a message beyond the stream's flow control, but for a duplicate that a test asked for.

use crate::{
    error::Refusal,
    faults::corrupt,
    state::{Handed, Shared},
    subscription::Want,
    terms::{extension, stream_lease},
};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    ReceivedMessage, StreamingPullRequest, StreamingPullResponse, streaming_pull_response::SubscriptionProperties,
};
use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, mpsc},
    time::sleep_until,
};
use tonic::{Status, Streaming};

/// Messages in one answer: few enough that several streams share a backlog.
const ANSWER_MESSAGES_MAX: usize = 100;
/// An answer that waits for the reader; one more is being written.
pub(crate) const ANSWERS_MAX: usize = 1;

type Answers = mpsc::Sender<Result<StreamingPullResponse, Status>>;

/// An open stream; registered while it lives.
pub(crate) struct Pulling {
    shared: Arc<Shared>,
    name: String,
    number: u64,
    changed: Arc<Notify>,
    want: Want,
    /// Whether it was told to fall silent.
    silenced: bool,
}

/// What to do next.
enum Step {
    Send(StreamingPullResponse),
    Wait(Option<Instant>),
    End(Refusal),
}

impl Drop for Pulling {
    fn drop(&mut self) {
        self.shared.close_stream(&self.name, self.number);
    }
}

impl Pulling {
    /// Opens what the first request asks for.
    pub(crate) fn open(shared: &Arc<Shared>, first: &StreamingPullRequest) -> Result<Self, Refusal> {
        let lease = stream_lease(first.stream_ack_deadline_seconds)?;
        let limit = |limit: i64| u64::try_from(limit).ok().filter(|&limit| limit > 0);
        let (number, changed) = shared.open_stream(&first.subscription)?;
        let want = Want {
            stream: Some(number),
            lease,
            messages_max: limit(first.max_outstanding_messages),
            bytes_max: limit(first.max_outstanding_bytes),
            answer_max: ANSWER_MESSAGES_MAX,
        };
        let name = first.subscription.clone();
        let mut pulling = Self { shared: Arc::clone(shared), name, number, changed, want, silenced: false };
        pulling.acknowledge(first)?;
        Ok(pulling)
    }

    /// Serves the stream until either end of it is gone.
    pub(crate) async fn run(mut self, mut requests: Streaming<StreamingPullRequest>, answers: Answers) {
        let changed = Arc::clone(&self.changed);
        let mut reading = true;
        loop {
            let mut woken = pin!(changed.notified());
            woken.as_mut().enable();
            let permit = match answers.try_reserve() {
                Ok(permit) => Some(permit),
                Err(mpsc::error::TrySendError::Full(())) => None,
                Err(mpsc::error::TrySendError::Closed(())) => return,
            };
            let full = permit.is_none();
            let mut until = None;
            if let Some(permit) = permit {
                match self.step() {
                    Step::Send(answer) => {
                        permit.send(Ok(answer));
                        continue;
                    }
                    Step::End(refusal) => {
                        permit.send(Err(refusal.into()));
                        return;
                    }
                    Step::Wait(at) => until = at,
                }
            }
            tokio::select! {
                () = woken => {}
                request = requests.message(), if reading => match request {
                    Ok(Some(request)) => if let Err(refusal) = self.request(&request) {
                        // A reader that is gone needs no reason.
                        answers.send(Err(refusal.into())).await.ok();
                        return;
                    },
                    Ok(None) => reading = false,
                    Err(_) => return,
                },
                permit = answers.reserve(), if full => if permit.is_err() { return },
                () = look_again(until) => {}
                () = answers.closed() => return,
            }
        }
    }

    fn step(&mut self) -> Step {
        let mut state = self.shared.lock();
        let ready = state.subscriptions.get(&self.name).is_some_and(|found| found.backlog.counts().0 > 0);
        let faults = &mut state.faults;
        if self.number < faults.silent_below && !self.silenced {
            self.silenced = true;
            faults.counts.streams_silenced += 1;
        }
        faults.counts.streams_held += u64::from(faults.hold && !self.silenced && ready);
        let held = self.silenced || faults.hold;
        let reset = !held && self.number < faults.reset_below;
        faults.counts.streams_reset += u64::from(reset);
        drop(state);
        if reset {
            return Step::End(Refusal::Reset);
        }
        if held {
            return Step::Wait(None);
        }
        match self.shared.hand_out(&self.name, &self.want) {
            Err(refusal) => Step::End(refusal),
            Ok((handed, look_again)) if handed.is_empty() => Step::Wait(look_again),
            Ok((handed, _)) => self.answer(handed),
        }
    }

    fn answer(&self, handed: Vec<Handed>) -> Step {
        let properties = {
            let state = self.shared.lock();
            state.subscriptions.get(&self.name).map(|subscription| SubscriptionProperties {
                exactly_once_delivery_enabled: subscription.config.enable_exactly_once_delivery,
                message_ordering_enabled: subscription.config.enable_message_ordering,
            })
        };
        Step::Send(StreamingPullResponse {
            received_messages: handed.into_iter().map(received).collect(),
            subscription_properties: properties,
            ..StreamingPullResponse::default()
        })
    }

    /// A request after the first one; a silent stream's is lost, as on a path that was cut.
    fn request(&mut self, request: &StreamingPullRequest) -> Result<(), Refusal> {
        if self.silenced || self.shared.lock().faults.hold {
            return Ok(());
        }
        let fixed = [
            (!request.subscription.is_empty(), "subscription"),
            (request.max_outstanding_messages != 0, "max_outstanding_messages"),
            (request.max_outstanding_bytes != 0, "max_outstanding_bytes"),
        ];
        if let Some((_, field)) = fixed.into_iter().find(|(set, _)| *set) {
            return Err(Refusal::Fixed { field });
        }
        if request.stream_ack_deadline_seconds != 0 {
            self.want.lease = stream_lease(request.stream_ack_deadline_seconds)?;
        }
        self.acknowledge(request)
    }

    fn acknowledge(&mut self, request: &StreamingPullRequest) -> Result<(), Refusal> {
        if request.modify_deadline_seconds.len() != request.modify_deadline_ack_ids.len() {
            return Err(Refusal::Unreadable { field: "modify_deadline_seconds" });
        }
        if !request.ack_ids.is_empty() {
            self.shared.acknowledge(&self.name, &request.ack_ids)?;
        }
        for (ack_id, seconds) in request.modify_deadline_ack_ids.iter().zip(&request.modify_deadline_seconds) {
            self.shared.modify(&self.name, std::slice::from_ref(ack_id), extension(*seconds)?)?;
        }
        Ok(())
    }
}

/// A message as the protocol has it; the attempt is told only where there are dead letters.
pub(crate) fn received(handed: Handed) -> ReceivedMessage {
    let Handed { ack_id, entry, attempt, corrupted } = handed;
    let mut message = entry.message.message.clone();
    if let Some(data) = corrupted.then(|| corrupt(&message.data)).flatten() {
        message.data = data.into();
    }
    ReceivedMessage { ack_id, message: Some(message), delivery_attempt: attempt }
}

/// Waits for a moment; without one, for ever.
pub(crate) async fn look_again(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// As long as a single pull waits for its first message.
pub(crate) const PULL_WAIT: Duration = Duration::from_secs(5);
