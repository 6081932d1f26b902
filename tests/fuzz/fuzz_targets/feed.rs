//! Bytes to `sprag_tests::fuzz::feed`.
//!
//! Never: anything but that.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sprag_tests::fuzz::feed(data));
