//! Arbitrary bytes through inference and the decoder of this format.
#![no_main]

#[path = "../../crates/raw/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_bodies::csv::run(input));
