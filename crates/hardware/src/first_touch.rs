//! What it costs to touch fresh memory first, on small pages and on huge ones.

// Memory is asked of the system directly: an allocator may have touched what it hands out.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use crate::{Clock, SystemClock};

/// Of a huge page, as most systems have them.
const HUGE_BYTES: usize = 2 << 20;

/// So many huge pages are touched, and the slowest counts: of what the system has free the first may be quick to touch
/// and all others slow.
#[cfg(target_os = "linux")]
const HUGE_COUNT: usize = 4;

/// A huge page that takes more than so many times as long to touch first as small ones is not made up for soon by what
/// it spares afterwards.
const TOLERATED_RATIO: u64 = 2;

/// What the system takes to bring in fresh memory. Measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstTouch {
    /// Nanoseconds for the bytes of one huge page, on small pages.
    pub small_ns: u64,
    /// Nanoseconds for one huge page; none where the system has none to offer.
    pub huge_ns: Option<u64>,
}

impl FirstTouch {
    /// A huge page is slow that takes more nanoseconds than that.
    pub fn slow_ns(&self) -> u64 {
        TOLERATED_RATIO * self.small_ns
    }

    /// Whether huge pages are slow to touch.
    pub fn is_huge_slow(&self) -> bool {
        self.huge_ns.is_some_and(|huge_ns| huge_ns > self.slow_ns())
    }

    /// Nanoseconds for a byte, on whichever pages take less.
    pub fn least_ns_per_byte(&self) -> f64 {
        self.huge_ns.map_or(self.small_ns, |huge_ns| huge_ns.min(self.small_ns)) as f64 / HUGE_BYTES as f64
    }
}

/// Touches as many bytes as a huge page has on small pages, then a few huge pages, once a process: later calls return
/// what was found then. Takes a millisecond or two as a rule, a tenth of a second where the system has to move memory to
/// make a huge page, and allocates nothing. None where the system takes no advice about pages, or has no memory.
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
        let size = (HUGE_COUNT + 2) * HUGE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let first = mapping.cast::<u8>().add(mapping.align_offset(HUGE_BYTES));
        // Nanoseconds for each quarter of the bytes of a huge page.
        let touch = |at: usize, advice| {
            let start = first.add(at * HUGE_BYTES);
            if libc::madvise(start.cast(), HUGE_BYTES, advice) != 0 {
                return None;
            }
            Some([0, 1, 2, 3].map(|quarter| {
                let began_ns = clock.monotonic_ns();
                for offset in (0..HUGE_BYTES / 4).step_by(SMALL_BYTES) {
                    start.add(quarter * HUGE_BYTES / 4 + offset).write_volatile(1);
                }
                clock.monotonic_ns().saturating_sub(began_ns)
            }))
        };
        let measured = touch(0, libc::MADV_NOHUGEPAGE).map(|[first_ns, rest_ns @ ..]| {
            // The quickest, since some small pages may come out of a large piece that is slow to come.
            let small_ns = 4 * rest_ns.into_iter().fold(first_ns, u64::min);
            let mut found = FirstTouch { small_ns, huge_ns: None };
            for at in 1..=if offers_huge() { HUGE_COUNT } else { 0 } {
                found.huge_ns = found.huge_ns.max(touch(at, libc::MADV_HUGEPAGE).map(|ns| ns.iter().sum()));
                if found.is_huge_slow() {
                    break;
                }
            }
            found
        });
        libc::munmap(mapping, size);
        measured
    }
}

/// Whether the system makes huge pages at all. Reads without allocating.
#[cfg(target_os = "linux")]
fn offers_huge() -> bool {
    let mut text = [0; 64];
    // SAFETY: the name ends in a NUL; at most as many bytes are written as there are.
    let size = unsafe {
        let file =
            libc::open(c"/sys/kernel/mm/transparent_hugepage/enabled".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return false;
        }
        let size = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        size
    };
    usize::try_from(size).is_ok_and(|size| !is_never(&text[..size]))
}

/// Whether, of the words of this text, `never` is the one in brackets.
#[cfg(target_os = "linux")]
fn is_never(text: &[u8]) -> bool {
    const NEVER: &[u8] = b"[never]";
    text.windows(NEVER.len()).any(|word| word == NEVER)
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
            assert!(touch.small_ns > 0 && touch.huge_ns != Some(0));
            assert_eq!(touch.huge_ns.is_some(), offers_huge());
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn of_the_words_the_one_in_brackets_counts() {
        assert!(is_never(b"always madvise [never]\n"));
        assert!(!is_never(b"always [madvise] never\n") && !is_never(b"[always] madvise never\n") && !is_never(b""));
    }

    #[test]
    fn what_is_slow_is_slow_beside_small_pages() {
        let touch = |huge_ns| FirstTouch { small_ns: 1 << 20, huge_ns };
        assert!(!touch(None).is_huge_slow() && !touch(Some(2 << 20)).is_huge_slow());
        assert!(touch(Some((2 << 20) + 1)).is_huge_slow());
        let least = |huge_ns| touch(huge_ns).least_ns_per_byte();
        assert_eq!((least(None), least(Some(1 << 19)), least(Some(4 << 20))), (0.5, 0.25, 0.5));
    }
}
