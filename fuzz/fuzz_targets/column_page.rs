//! Arbitrary bytes as a column page.
#![no_main]

#[path = "../../crates/column-store/tests/fuzz_bodies/page.rs"]
mod fuzz_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_body::run(input));
