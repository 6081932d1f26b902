//! The emulator's own paths: faults to be armed and counts to be read by another process. The crate's documentation lists
//! them.
//!
//! Never: a path that the service has.

use crate::{
    error::code_named,
    faults::Method,
    rest::answered,
    state::Shared,
    supervisor::{Command, Commands},
};
use axum::{
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// What the paths act on.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Commands,
}

/// Longest outage that can be asked for; an hour, so that a slip of the keyboard ends some day.
const OUTAGE_MS_MAX: u64 = 3_600_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailNext {
    method: String,
    code: String,
    times: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Times {
    times: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct On {
    on: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outage {
    for_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Why a fault was not armed.
#[derive(Debug, thiserror::Error)]
enum NotArmed {
    #[error("no such fault")]
    Unknown,
    #[error("the body does not fit the fault")]
    Body(#[from] serde_json::Error),
    #[error("no such method or code")]
    Name,
    #[error("an outage lasts {OUTAGE_MS_MAX} ms at most")]
    TooLong,
    #[error("the emulator's thread has ended")]
    Gone,
}

/// `GET /faults`.
pub(crate) async fn report(State(control): State<Control>) -> Response {
    let counts = control.shared.lock().faults.counts.named();
    let counts: Map<_, _> = counts.into_iter().map(|(name, count)| (name, json!(count))).collect();
    answered(StatusCode::OK, &Value::Object(counts))
}

/// `GET /backlog`.
pub(crate) async fn backlog(State(control): State<Control>) -> Response {
    control.shared.advance();
    let held = control.shared.held_bytes();
    let state = control.shared.lock();
    let topics = state.topics.iter().map(|(name, topic)| (name.clone(), json!({"published": topic.published})));
    let topics: Map<_, _> = topics.collect();
    let subscriptions = state.subscriptions.iter().map(|(name, subscription)| {
        let (ready, leased) = subscription.backlog.counts();
        let done = subscription.deliveries;
        let shown = json!({
            "ready": ready, "leased": leased, "delivered": done.delivered, "acknowledged": done.acknowledged,
            "nacked": done.nacked, "expired": done.expired, "dead_lettered": done.dead_lettered,
        });
        (name.clone(), shown)
    });
    let subscriptions: Map<_, _> = subscriptions.collect();
    answered(StatusCode::OK, &json!({"held_bytes": held, "topics": topics, "subscriptions": subscriptions}))
}

/// `POST /fault/{fault}`.
pub(crate) async fn arm(State(control): State<Control>, Path(fault): Path<String>, body: Bytes) -> Response {
    match armed(&control, &fault, &body) {
        Ok(()) => answered(StatusCode::OK, &json!({})),
        Err(error) => {
            let status =
                if matches!(error, NotArmed::Unknown) { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
            answered(status, &json!({"error": error.to_string()}))
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, NotArmed> {
    let body = if body.is_empty() { b"{}" } else { body };
    Ok(serde_json::from_slice(body)?)
}

fn armed(control: &Control, fault: &str, body: &[u8]) -> Result<(), NotArmed> {
    let shared = &control.shared;
    match fault {
        "fail_next" => {
            let FailNext { method, code, times } = read(body)?;
            let method: Method = method.parse().map_err(|_| NotArmed::Name)?;
            shared.fail_next(method, code_named(&code).ok_or(NotArmed::Name)?, times);
        }
        "reset_streams" => read::<Nothing>(body).map(|_| shared.reset_streams())?,
        "silence_streams" => read::<Nothing>(body).map(|_| shared.silence_streams())?,
        "hold_streams" => shared.hold_streams(read::<On>(body)?.on),
        "duplicate_next" => shared.duplicate_next(read::<Times>(body)?.times),
        "shuffle" => shared.shuffle(read::<Seed>(body)?.seed),
        "stall_acks" => shared.stall_acks(read::<On>(body)?.on),
        "corrupt_next" => shared.corrupt_next(read::<Times>(body)?.times),
        "outage" => {
            let Outage { for_ms } = read(body)?;
            if for_ms > OUTAGE_MS_MAX {
                return Err(NotArmed::TooLong);
            }
            let outage = Command::Outage(Duration::from_millis(for_ms));
            control.commands.try_send(outage).map_err(|_| NotArmed::Gone)?;
        }
        _ => return Err(NotArmed::Unknown),
    }
    Ok(())
}
