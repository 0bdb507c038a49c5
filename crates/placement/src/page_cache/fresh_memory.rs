//! Whether fresh memory is asked for on huge pages.
//!
//! Huge pages are touched first in an eighth of the time that small ones take, and queries on them take a fourteenth less.
//! But a virtual machine may give unused memory back to its host, by whole huge pages: to get one again takes
//! milliseconds, six times what small ones take, for which there is memory in the gaps that were never given back. So
//! chunks lie on huge pages until one is slow; then some lie on small ones, and the next huge one is a trial. After each
//! slow one the trials are half as frequent. What lies on small pages can be moved to huge ones when nobody waits.
//!
//! Pure; O(1).

/// Trials do not become rarer than this.
const MOST_SMALL_COUNT: u32 = 64;

/// Decides for one chunk after another.
#[derive(Debug, Clone)]
pub struct FreshMemory {
    slow_ns: u64,
    /// Chunks between two trials, and those until the next.
    small_count: u32,
    left_count: u32,
}

impl FreshMemory {
    /// A huge page is slow if it takes more than `slow_ns` to come.
    pub fn new(slow_ns: u64) -> Self {
        Self { slow_ns, small_count: 0, left_count: 0 }
    }

    /// Whether the next chunk is to lie on huge pages.
    pub fn is_next_huge(&mut self) -> bool {
        let is_huge = self.left_count == 0;
        self.left_count = self.left_count.saturating_sub(1);
        is_huge
    }

    /// A huge page took so long to come.
    pub fn came(&mut self, took_ns: u64) {
        let is_slow = took_ns > self.slow_ns;
        self.small_count = if is_slow { (2 * self.small_count).clamp(1, MOST_SMALL_COUNT) } else { 0 };
        self.left_count = self.small_count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of so many chunks lie on huge pages that take so long.
    fn huge_chunks(memory: &mut FreshMemory, took_ns: impl Fn(u32) -> u64, count: u32) -> Vec<u32> {
        let is_huge = |chunk: &u32| {
            let is_huge = memory.is_next_huge();
            if is_huge {
                memory.came(took_ns(*chunk));
            }
            is_huge
        };
        (0..count).filter(is_huge).collect()
    }

    #[test]
    fn all_chunks_lie_on_huge_pages_that_come_quickly() {
        assert_eq!(huge_chunks(&mut FreshMemory::new(100), |_| 100, 50), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn slow_ones_are_tried_ever_more_rarely() {
        let tried = huge_chunks(&mut FreshMemory::new(100), |_| 101, 300);
        assert_eq!(tried, [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]);
    }

    #[test]
    fn once_they_come_quickly_again_all_are_huge() {
        let mut memory = FreshMemory::new(100);
        let tried = huge_chunks(&mut memory, |chunk| if chunk < 10 { 500 } else { 20 }, 20);
        assert_eq!(tried, [0, 2, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
        assert_eq!(huge_chunks(&mut memory, |_| 500, 4), [0, 2], "from the beginning");
    }
}
