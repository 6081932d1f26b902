//! The emulator on real sockets: call by call over gRPC and HTTP, and through the official library, there beside Google's
//! own emulator where that is installed.
//!
//! Never: an address beyond loopback.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

#[path = "protocol/calls.rs"]
mod calls;
#[path = "protocol/common.rs"]
mod common;
#[path = "protocol/faults.rs"]
mod faults;
#[path = "protocol/google.rs"]
mod google;
#[path = "protocol/ours.rs"]
mod ours;
#[path = "protocol/raw.rs"]
mod raw;

use std::time::Duration;

/// Longer than anything takes that is waited for, however busy the machine.
const LONG: Duration = Duration::from_secs(60);

/// Long enough for what must not come to have come.
const QUIET: Duration = Duration::from_millis(300);
