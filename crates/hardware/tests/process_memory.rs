//! The one test that measures its own process: in a binary of its own, since whatever else ran beside it would
//! allocate and free in the same process.

#![cfg(target_os = "linux")]

use thermocline_hardware::process_memory;

#[test]
fn memory_that_was_written_is_counted() {
    let before_bytes = process_memory().rss_anon_bytes;
    let written = std::hint::black_box(vec![1_u8; 64 << 20]);
    let after_bytes = process_memory().rss_anon_bytes;
    assert!(after_bytes >= before_bytes + (60 << 20), "{before_bytes} bytes before, {after_bytes} after");
    drop(std::hint::black_box(written));
}
