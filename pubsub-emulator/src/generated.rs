//! The servers' traits, as `build.rs` makes them.
//!
//! Never: a line by hand beside the includes.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::disallowed_types,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]

/// `google.protobuf.Empty`, as prost has it.
pub(crate) type Empty = ();

include!(concat!(env!("OUT_DIR"), "/google.pubsub.v1.Publisher.rs"));
include!(concat!(env!("OUT_DIR"), "/google.pubsub.v1.Subscriber.rs"));
