//! The allocator of this process: mimalloc, counted.
//!
//! mimalloc keeps freed pages for a second before it gives them back. A budget is judged by what the kernel counts, so they
//! go back sooner here (the Python package, which has an allocator of its own, does the same and says what that gained).

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

use mimalloc::MiMalloc;
use thermocline_budget::CountingAllocator;

/// Counts what is really allocated: the budget's check on what nobody announced.
#[global_allocator]
static ALLOCATOR: CountingAllocator<MiMalloc> = CountingAllocator::new(MiMalloc);

/// `mi_option_purge_delay` of mimalloc 2 and 3, which the bindings do not name: one before `mi_option_use_numa_nodes`.
const PURGE_DELAY: c_int = libmimalloc_sys::mi_option_use_numa_nodes - 1;

/// Long enough for a buffer that is freed and allocated again for each batch, short beside a query.
const PURGE_DELAY_MS: c_long = 10;

/// Makes freed memory go back to the system soon. The environment variable `MIMALLOC_PURGE_DELAY` has no effect after it.
pub(crate) fn give_back_early() {
    // SAFETY: the option is a number that mimalloc reads when it frees; it may be set at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
}

/// Bytes allocated now, for the budget.
pub(crate) fn allocated_bytes() -> u64 {
    CountingAllocator::<MiMalloc>::allocated_bytes()
}
