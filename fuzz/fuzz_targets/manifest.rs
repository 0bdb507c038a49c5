//! Arbitrary bytes as a manifest.
#![no_main]

#[path = "../../crates/column-store/tests/fuzz_bodies/manifest.rs"]
mod fuzz_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_body::run(input);
});
