//! The allocator of a process, or of an extension module beside its host's: mimalloc, counted.
//!
//! **Owns**: how long freed memory is kept, how long idle threads live that may keep some, on which pages fresh memory
//! lies, and the count of what is allocated.
//! **Does not own**: the budget that is judged by that count.
//!
//! mimalloc keeps freed pages for a while before it gives them back, here for ten seconds, and gives them back only
//! while the process allocates. That spares the system clearing them again and again, a tenth of all processor time in
//! joins. But a budget is judged by what the kernel counts: with items of 10 MB that come and go under a budget of 64 MB
//! the process held up to 201 MB when they were kept for a second, and 146 MB with a delay of 10 ms. So memory is kept
//! only while at most half of the budget is in use.
//!
//! Fresh memory lies on huge pages where the system offers them on request, which spares look-ups of addresses, unless
//! touching them first is much dearer than touching small ones ([`prepare`]).
//!
//! **Concurrency**: everything may be called on any thread.

// The allocator is a C library; each call of it says why it is sound.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use mimalloc::MiMalloc;
pub use thermocline_budget::CountingAllocator;
use thermocline_hardware::first_touch;

/// `mi_option_purge_delay` of mimalloc 2 and 3, which the bindings do not name: one before `mi_option_use_numa_nodes`.
const PURGE_DELAY: c_int = libmimalloc_sys::mi_option_use_numa_nodes - 1;

/// `mi_option_allow_thp` of mimalloc 3, which the bindings do not name.
const ALLOW_HUGE_PAGES: c_int = 43;

/// Freed memory that is used again within it is not cleared anew by the system, from one question to the next. With
/// mimalloc's own second, a hundred joins of five CSV files had 500 huge pages cleared in six seconds instead of 410,
/// and held no less at their peak.
const PLENTY_MS: c_long = 10_000;

/// Long enough for a buffer that is freed and allocated again for each batch, short beside a query. A load of 1.7 GB of
/// Parquet held 5 to 40 MB less than with 10 ms, and took no longer.
const SCARCE_MS: c_long = 2;

/// How long a thread that has nothing to do should live, such as those of a runtime for work that blocks. What a thread
/// allocated and others freed goes back only when it allocates again or ends: where 28 threads in turn read and encoded
/// 1.7 GB of Parquet, ten seconds of idle life had the process hold 500 MB above what was allocated, and these 90 MB. To
/// start a thread anew takes some tens of microseconds.
pub const IDLE_THREAD: Duration = Duration::from_millis(5);

/// Databases that are short of memory. Locked while the delay is set by it, and for nothing that waits or allocates.
static SCARCE_COUNT: Mutex<usize> = Mutex::new(0);

unsafe extern "C" {
    fn mi_process_init();
}

/// Makes this the allocator of a binary or of a shared library. Once in each, in a module that allows unsafe code.
#[macro_export]
macro_rules! install {
    () => {
        /// Counts what is really allocated: the budget's check on what nobody announced.
        #[global_allocator]
        static ALLOCATOR: $crate::CountingAllocator<$crate::MiMalloc> =
            $crate::CountingAllocator::new($crate::MiMalloc);

        // Before anything is allocated: what mimalloc has asked of the system stays as it was asked.
        #[cfg(target_os = "linux")]
        #[used]
        #[unsafe(link_section = ".init_array")]
        static PREPARE: extern "C" fn() = $crate::prepare;
    };
}

/// Keeps freed memory for ten seconds while no database is short of memory, and gives it back soon while one is. The
/// environment variable `MIMALLOC_PURGE_DELAY` has no effect after that.
pub fn heed_scarcity(is_scarce: bool) {
    let mut scarce_count = SCARCE_COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    *scarce_count = if is_scarce { *scarce_count + 1 } else { scarce_count.saturating_sub(1) };
    let delay_ms = if *scarce_count > 0 { SCARCE_MS } else { PLENTY_MS };
    // SAFETY: the option is a number that mimalloc reads when it frees; it may be set at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, delay_ms) };
    drop(scarce_count);
    if is_scarce {
        // SAFETY: this frees what was kept under the longer delay, and may be done on any thread.
        unsafe { libmimalloc_sys::mi_collect(true) };
    }
}

/// Bytes allocated now, for the budget.
pub fn allocated_bytes() -> u64 {
    CountingAllocator::<MiMalloc>::allocated_bytes()
}

/// Has freed memory kept for ten seconds, and lets fresh memory lie on small pages where huge ones are much slower to
/// touch first. (Virtual machines that give unused memory back to their host have it brought in again by whole huge
/// pages: there a scan that keeps its rows took a sixth longer.) Takes less than a millisecond, or ten where huge pages
/// are slow. Nothing else in the process is changed; the environment variables `MIMALLOC_PURGE_DELAY` and
/// `MIMALLOC_ALLOW_THP` have the last word.
pub extern "C" fn prepare() {
    // SAFETY: initialising happens once, whoever asks for it; the option is a number that mimalloc reads when it frees.
    unsafe {
        mi_process_init();
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PLENTY_MS);
    }
    // SAFETY: the name ends in a NUL. Nobody else runs yet who could change the environment meanwhile.
    let is_told = unsafe { !libc::getenv(c"MIMALLOC_ALLOW_THP".as_ptr()).is_null() };
    if is_told {
        return;
    }
    if first_touch().is_some_and(|touch| touch.is_huge_slow()) {
        use_small_pages();
    }
}

/// From now on what mimalloc asks of the system is not asked for as huge pages.
fn use_small_pages() {
    // SAFETY: initialising happens once, whoever asks for it; until it has, the option would be taken as a wish for the
    // whole process. The option is a number that is read whenever memory is asked of the system. It is the one that is
    // meant: of mimalloc 3, and switched on.
    unsafe {
        mi_process_init();
        if libmimalloc_sys::mi_version() / 10_000 == 3 && libmimalloc_sys::mi_option_get(ALLOW_HUGE_PAGES) == 1 {
            libmimalloc_sys::mi_option_set(ALLOW_HUGE_PAGES, 0);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};
    use std::fs;

    use super::*;

    /// Whether the memory at `address` was asked for as huge pages.
    fn is_advised_huge(address: usize) -> bool {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_inside = false;
        for line in maps.lines() {
            if let Some((from, to)) = line.split_once(' ').and_then(|(range, _)| range.split_once('-'))
                && let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                is_inside = (from..to).contains(&address);
            } else if is_inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.split_whitespace().any(|flag| flag == "hg");
            }
        }
        false
    }

    #[test]
    fn freed_memory_is_kept_long_when_no_database_is_short_of_it_whoever_was_told_last() {
        // SAFETY: reads a number.
        let delay_ms = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        heed_scarcity(true);
                        assert_eq!(delay_ms(), SCARCE_MS, "this one is short of it");
                        heed_scarcity(false);
                    }
                });
            }
        });
        assert_eq!(delay_ms(), PLENTY_MS);
    }

    #[test]
    fn memory_asked_for_after_the_choice_of_small_pages_is_not_asked_for_as_huge_ones() {
        // Too large for what mimalloc has asked for already.
        let layout = Layout::from_size_align(3 << 30, 2 << 20).unwrap();
        // SAFETY: the layout is not empty.
        let allocate = || unsafe { MiMalloc.alloc(layout) };
        let is_huge = |allocated: *mut u8| is_advised_huge(allocated as usize + (64 << 20));
        let before = allocate();
        use_small_pages();
        // The first is still there, so that this one has to be asked for.
        let after = allocate();
        let (was_huge, is_huge) = (is_huge(before), is_huge(after));
        for allocated in [before, after] {
            // SAFETY: allocated above, with the same layout.
            unsafe { MiMalloc.dealloc(allocated, layout) };
        }
        assert!(!is_huge, "before the choice: {was_huge}");
    }
}
