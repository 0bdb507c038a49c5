//! Arbitrary bytes as the file of a segment.
#![no_main]

#[path = "../../crates/column-store/tests/fuzz_bodies/segment.rs"]
mod fuzz_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_body::run(input));
