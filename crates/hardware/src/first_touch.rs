//! What it costs to touch fresh memory first, on small pages and on huge ones.

// Memory is asked of the system directly: an allocator may have touched what it hands out.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use crate::{Clock, SystemClock};

/// Of a huge page, as most systems have them.
const HUGE_BYTES: usize = 2 << 20;

/// What the system takes to bring in fresh memory. Measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstTouch {
    /// Nanoseconds for the bytes of one huge page, on small pages.
    pub small_ns: u64,
    /// Nanoseconds for one huge page; as above where the system has none to offer.
    pub huge_ns: u64,
}

impl FirstTouch {
    /// How many times as long a huge page takes as small ones of its size.
    pub fn huge_over_small(&self) -> f64 {
        self.huge_ns as f64 / self.small_ns.max(1) as f64
    }

    /// Nanoseconds for a byte, on whichever pages take less.
    pub fn least_ns_per_byte(&self) -> f64 {
        self.small_ns.min(self.huge_ns) as f64 / HUGE_BYTES as f64
    }
}

/// Touches as many bytes as a huge page has on small pages, then a huge page, once a process: later calls return what
/// was found then. Takes less than a millisecond as a rule, a tenth of a second where the system has to move memory to
/// make a huge page, and allocates nothing. None where there are no huge pages to ask for, or no memory.
pub fn first_touch() -> Option<FirstTouch> {
    static MEASURED: OnceLock<Option<FirstTouch>> = OnceLock::new();
    *MEASURED.get_or_init(measure)
}

#[cfg(target_os = "linux")]
fn measure() -> Option<FirstTouch> {
    const SMALL_BYTES: usize = 4 << 10;
    let clock = SystemClock::new();
    // SAFETY: a private mapping of its own, given back below; what is written lies within it.
    unsafe {
        let size = 3 * HUGE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let first = mapping.cast::<u8>().add(mapping.align_offset(HUGE_BYTES));
        let touch = |start: *mut u8, advice| {
            if libc::madvise(start.cast(), HUGE_BYTES, advice) != 0 {
                return None;
            }
            let began_ns = clock.monotonic_ns();
            for offset in (0..HUGE_BYTES).step_by(SMALL_BYTES) {
                start.add(offset).write_volatile(1);
            }
            Some(clock.monotonic_ns().saturating_sub(began_ns))
        };
        let small_ns = touch(first, libc::MADV_NOHUGEPAGE);
        let huge_ns = touch(first.add(HUGE_BYTES), libc::MADV_HUGEPAGE);
        libc::munmap(mapping, size);
        Some(FirstTouch { small_ns: small_ns?, huge_ns: huge_ns? })
    }
}

/// Elsewhere the system decides alone.
#[cfg(not(target_os = "linux"))]
fn measure() -> Option<FirstTouch> {
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn touching_takes_time_where_the_system_takes_advice() {
        assert_eq!(first_touch(), first_touch());
        if let Some(touch) = first_touch() {
            assert!(touch.small_ns > 0 && touch.huge_ns > 0);
            assert!(touch.huge_over_small().is_finite());
        }
    }

    #[test]
    fn the_ratio_of_nothing_is_finite() {
        assert_eq!(FirstTouch { small_ns: 0, huge_ns: 0 }.huge_over_small(), 0.0);
        assert_eq!(FirstTouch { small_ns: 10, huge_ns: 30 }.huge_over_small(), 3.0);
        assert_eq!(FirstTouch { small_ns: 4 << 20, huge_ns: 1 << 20 }.least_ns_per_byte(), 0.5);
    }
}
