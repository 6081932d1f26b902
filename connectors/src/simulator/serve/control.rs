//! The paths for tests and operators: books, state and faults as JSON, pause and resume.
//!
//! Never: a path that a venue has.

use super::{Shared, faults::Fault, http::Reply};
use hyper::Method;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

/// Venues in JSON, by name.
pub(super) mod venue {
    use market::Venue;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::borrow::Cow;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(in crate::simulator::serve) fn serialize<S: Serializer>(venue: &Venue, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(venue.name())
    }

    pub(in crate::simulator::serve) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Venue, D::Error> {
        Cow::<str>::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Answers a request below `/sim`, or for the page that lists the addresses.
pub(super) fn answer(method: &Method, path: &str, body: &[u8], shared: &Arc<Shared>) -> Reply {
    match (method.as_str(), path) {
        ("GET", "/") => Reply::text(200, &shared.world().addresses(shared.address)),
        ("GET", "/sim/books") => json_of(&shared.world().books()),
        ("GET", "/sim/state") => json_of(&shared.world().state()),
        ("GET", "/sim/faults") => json_of(&shared.world().bus.faults.report()),
        ("POST", "/sim/faults") => match serde_json::from_slice::<Fault>(body) {
            Ok(fault) => match shared.set_fault(fault) {
                Ok(id) => Reply::json(200, json!({"id": id}).to_string()),
                Err(error) => refused(&error),
            },
            Err(error) => refused(&error),
        },
        ("DELETE", "/sim/faults") => {
            shared.world().bus.faults.clear();
            Reply::json(200, "{}".to_owned())
        }
        ("POST", "/sim/pause") => {
            shared.pause();
            json_of(&shared.world().state())
        }
        ("POST", "/sim/resume") => {
            shared.resume();
            json_of(&shared.world().state())
        }
        (_, "/" | "/sim/books" | "/sim/state" | "/sim/faults" | "/sim/pause" | "/sim/resume") => {
            Reply::text(405, "not with this method\n")
        }
        _ => Reply::not_found(),
    }
}

fn refused(error: &dyn std::error::Error) -> Reply {
    Reply::json(400, json!({"error": error.to_string()}).to_string())
}

fn json_of(value: &impl Serialize) -> Reply {
    match serde_json::to_string(value) {
        Ok(body) => Reply::json(200, body),
        Err(error) => Reply::json(500, json!({"error": error.to_string()}).to_string()),
    }
}
