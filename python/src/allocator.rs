//! The allocator of this extension module; the interpreter and other modules have allocators of their own.
//!
//! mimalloc keeps freed pages for a second before it gives them back, and only while the process allocates. That spares the
//! system clearing them again and again, a tenth of all processor time in joins. But a budget is judged by what the
//! kernel counts: with items of 10 MB that come and go under a budget of 64 MB the process held up to 201 MB, and 146 MB with
//! a delay of 10 ms. So memory is kept only while at most half of the budget is in use. (The command does the same.)

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicUsize, Ordering};

use mimalloc::MiMalloc;
use thermocline::memory::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator<MiMalloc> = CountingAllocator::new(MiMalloc);

/// `mi_option_purge_delay` of mimalloc 2 and 3, which the bindings do not name: one before `mi_option_use_numa_nodes`.
const PURGE_DELAY: c_int = libmimalloc_sys::mi_option_use_numa_nodes - 1;

/// mimalloc's own: freed memory that is used again within it is not cleared anew by the system.
const PLENTY_MS: c_long = 1000;

/// Long enough for a buffer that is freed and allocated again for each batch, short beside a query.
const SCARCE_MS: c_long = 10;

/// Databases that are short of memory.
static SCARCE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Keeps freed memory for a second while no database is short of memory, and gives it back soon while one is. The
/// environment variable `MIMALLOC_PURGE_DELAY` has no effect after that.
pub(crate) fn heed_scarcity(is_scarce: bool) {
    let is_any_scarce = if is_scarce {
        SCARCE_COUNT.fetch_add(1, Ordering::Relaxed);
        true
    } else {
        SCARCE_COUNT.fetch_sub(1, Ordering::Relaxed) > 1
    };
    let delay_ms = if is_any_scarce { SCARCE_MS } else { PLENTY_MS };
    // SAFETY: the option is a number that mimalloc reads when it frees; it may be set at any time. Collecting frees
    // what was kept under the longer delay, and may be done on any thread.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, delay_ms);
        if is_scarce {
            libmimalloc_sys::mi_collect(true);
        }
    }
}

/// Bytes allocated now, for the budget.
pub(crate) fn allocated_bytes() -> u64 {
    CountingAllocator::<MiMalloc>::allocated_bytes()
}
