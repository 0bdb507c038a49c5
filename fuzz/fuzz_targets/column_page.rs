//! Arbitrary bytes as a column page.
#![no_main]

#[path = "../../crates/column-store/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_bodies::page::run(input));
