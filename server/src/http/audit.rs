//! `/v1/audit`: the last audit, and what the last ones found.
//!
//! Never: a read of the store.

use super::{Shared, failure};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

pub(super) async fn audit(State(shared): State<Shared>) -> Response {
    let Some(numbers) = &shared.audit else {
        return failure(StatusCode::NOT_FOUND, "there are no audits: no store, or audit.every_s is 0");
    };
    let view = numbers.view();
    let last = view.last.as_ref().map(|last| {
        json!({
            "host": last.host, "begun_ns": last.begun_at.to_string(), "ended_ns": last.ended_at.to_string(),
            "instruments": last.instruments, "instruments_skipped": last.instruments_skipped,
            "compared_ticks": last.compared_ticks, "skipped_ticks": last.skipped_ticks,
            "divergent_ticks": last.divergent_ticks, "corrected_ticks": last.corrected_ticks,
            "divergent_ppm": view.divergent_ppm(),
        })
    });
    let body = json!({
        "audits": view.audits, "failures": view.failures, "last": last, "findings": view.findings,
    });
    Json(body).into_response()
}
