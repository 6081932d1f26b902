//! Why the emulator does not run, and why a call was refused.
//!
//! Never: what an injected fault means; that is in `faults`.

use crate::{faults::Method, topic};
use std::{io, net::SocketAddr};
use tonic::{Code, Status};
use tonic_types::{ErrorInfo, StatusExt};

/// What the service says of an ack id whose lease has ended; the libraries look for its beginning.
const STALE: &str = "PERMANENT_FAILURE_INVALID_ACK_ID";
const DOMAIN: &str = "pubsub.googleapis.com";

/// Why an [`Emulator`](crate::Emulator) does not serve.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The address is in use or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// As it was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No thread or runtime for it.
    #[error("cannot start the emulator's threads")]
    Threads(#[source] io::Error),
    /// A topic or subscription cannot be made.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Its own thread has ended, which only a broken invariant does.
    #[error("the emulator's thread has ended")]
    Gone,
}

/// Why a call was refused, as the protocol would tell it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Refused(#[from] Refusal);

impl Refused {
    /// The protocol's status.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.0.code()
    }
}

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("Resource not found (resource={resource}).")]
    NotFound { resource: Box<str> },
    #[error("Resource already exists in the project (resource={resource}).")]
    AlreadyExists { resource: Box<str> },
    #[error("Invalid resource name given (name={name}); projects/PROJECT/{kind}/NAME is meant.")]
    Name { name: Box<str>, kind: &'static str },
    #[error("The value for {field} is {value}; {lowest} to {highest} is allowed.")]
    OutOfRange { field: &'static str, value: i64, lowest: i64, highest: i64 },
    #[error("The value for {field} cannot be read.")]
    Unreadable { field: &'static str },
    #[error("The value for {field} cannot be changed on an open stream.")]
    Fixed { field: &'static str },
    #[error("minimum_backoff is greater than maximum_backoff.")]
    Backoff,
    #[error("The request has {bytes} bytes of messages; {max} is the limit.", max = topic::REQUEST_BYTES_MAX)]
    TooLarge { bytes: u64 },
    #[error("The request has {count} messages; {max} is the limit.", max = topic::REQUEST_MESSAGES_MAX)]
    TooMany { count: usize },
    #[error("One or more messages have neither data nor attributes.")]
    Empty,
    #[error("Attributes or the ordering key of a message are over their limits.")]
    Attributes,
    #[error("The emulator does not implement {what}.")]
    Unimplemented { what: &'static str },
    #[error("The emulator holds {held} of {max} bytes that nobody has acknowledged.")]
    Full { held: u64, max: u64 },
    #[error("The emulator has {max} {what}, as many as it takes.")]
    NoMore { what: &'static str, max: usize },
    #[error("Some ack ids are not, or no longer, of a lease.")]
    Stale { ack_ids: Vec<String> },
    #[error("Stream reset by an injected fault.")]
    Reset,
    #[error("Injected into {method}.")]
    Injected { method: Method, code: Code },
}

impl Refusal {
    pub(crate) fn not_found(resource: &str) -> Self {
        Self::NotFound { resource: resource.into() }
    }

    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::AlreadyExists { .. } => Code::AlreadyExists,
            Self::Name { .. }
            | Self::OutOfRange { .. }
            | Self::Unreadable { .. }
            | Self::Fixed { .. }
            | Self::Backoff
            | Self::TooLarge { .. }
            | Self::TooMany { .. }
            | Self::Empty
            | Self::Attributes => Code::InvalidArgument,
            Self::Unimplemented { .. } => Code::Unimplemented,
            Self::Full { .. } | Self::NoMore { .. } => Code::ResourceExhausted,
            Self::Stale { .. } => Code::FailedPrecondition,
            Self::Reset => Code::Unavailable,
            Self::Injected { code, .. } => *code,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let (code, text) = (refusal.code(), refusal.to_string());
        match refusal {
            Refusal::Stale { ack_ids } => {
                let metadata = ack_ids.into_iter().map(|ack_id| (ack_id, STALE.to_owned())).collect();
                let info = ErrorInfo { reason: STALE.to_owned(), domain: DOMAIN.to_owned(), metadata };
                Self::with_error_details_vec(code, text, [info.into()])
            }
            _ => Self::new(code, text),
        }
    }
}

/// Status codes with their names and what HTTP makes of them, as `google.rpc.Code` has it.
const CODES: [(Code, &str, u16); 17] = [
    (Code::Ok, "OK", 200),
    (Code::Cancelled, "CANCELLED", 499),
    (Code::Unknown, "UNKNOWN", 500),
    (Code::InvalidArgument, "INVALID_ARGUMENT", 400),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED", 504),
    (Code::NotFound, "NOT_FOUND", 404),
    (Code::AlreadyExists, "ALREADY_EXISTS", 409),
    (Code::PermissionDenied, "PERMISSION_DENIED", 403),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED", 429),
    (Code::FailedPrecondition, "FAILED_PRECONDITION", 400),
    (Code::Aborted, "ABORTED", 409),
    (Code::OutOfRange, "OUT_OF_RANGE", 400),
    (Code::Unimplemented, "UNIMPLEMENTED", 501),
    (Code::Internal, "INTERNAL", 500),
    (Code::Unavailable, "UNAVAILABLE", 503),
    (Code::DataLoss, "DATA_LOSS", 500),
    (Code::Unauthenticated, "UNAUTHENTICATED", 401),
];

/// The code's name and HTTP status.
pub(crate) fn code_texts(code: Code) -> (&'static str, u16) {
    CODES.iter().find(|(known, ..)| *known == code).map_or(("UNKNOWN", 500), |&(_, name, http)| (name, http))
}

/// A code by its name, as `UNAVAILABLE`.
pub(crate) fn code_named(name: &str) -> Option<Code> {
    CODES.iter().find(|(_, known, _)| *known == name).map(|&(code, ..)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_both_ways() {
        for (code, name, http) in CODES {
            assert_eq!(code_named(name), Some(code));
            assert_eq!(code_texts(code), (name, http));
        }
        assert_eq!(code_named("unavailable"), None);
    }
}
