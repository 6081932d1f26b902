//! The binary `sprag`.
//!
//! Never: anything but the way into the library.

use std::process::ExitCode;

/// Cross-thread frees are common here (decoded on one thread, dropped on another), which it is good at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    server::cli::main()
}
