//! Row groups on the way to threads: each thread starts with a part of its own, and takes half of another's when it has
//! done.
//!
//! **Invariants**: each row group is given out once. **Concurrency**: any thread may take from any part; a part is two
//! 32-bit numbers in one atomic word, so that both ends move together.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is left of each thread's part.
#[derive(Debug)]
pub(super) struct RowGroupQueue {
    parts: Vec<AtomicU64>,
}

fn packed(part: Range<u32>) -> u64 {
    u64::from(part.start) << 32 | u64::from(part.end)
}

fn unpacked(part: u64) -> Range<u32> {
    (part >> 32) as u32..part as u32
}

impl RowGroupQueue {
    /// `row_group_count` row groups, in neighbouring parts for `thread_count` (at least 1) threads.
    pub(super) fn new(row_group_count: u32, thread_count: usize) -> Self {
        let bound = |part: usize| (u64::from(row_group_count) * part as u64 / thread_count as u64) as u32;
        let parts = (0..thread_count).map(|part| AtomicU64::new(packed(bound(part)..bound(part + 1)))).collect();
        Self { parts }
    }

    /// The next row group for a thread: the first of its own part, else of the half of what another has left.
    pub(super) fn next(&self, thread: usize) -> Option<u32> {
        let own = self.parts[thread].try_update(Ordering::Relaxed, Ordering::Relaxed, |part| {
            let part = unpacked(part);
            (!part.is_empty()).then(|| packed(part.start + 1..part.end))
        });
        if let Ok(before) = own {
            return Some(unpacked(before).start);
        }
        (1..self.parts.len()).find_map(|distance| self.steal(thread, (thread + distance) % self.parts.len()))
    }

    /// What a thread has before it, as long as nobody takes half of it.
    pub(super) fn rest(&self, thread: usize) -> Range<u32> {
        unpacked(self.parts[thread].load(Ordering::Relaxed))
    }

    /// Takes the latter half of what `victim` has left. Only its own thread adds to a part, and only when it is empty,
    /// so that what is stored here replaces nothing.
    fn steal(&self, thread: usize, victim: usize) -> Option<u32> {
        let middle = |part: &Range<u32>| part.start + (part.end - part.start) / 2;
        let stolen = self.parts[victim].try_update(Ordering::Relaxed, Ordering::Relaxed, |part| {
            let part = unpacked(part);
            (!part.is_empty()).then(|| packed(part.start..middle(&part)))
        });
        let before = unpacked(stolen.ok()?);
        let first = middle(&before);
        self.parts[thread].store(packed(first + 1..before.end), Ordering::Relaxed);
        Some(first)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn every_row_group_is_given_out_once_whoever_is_fast() {
        for (row_group_count, thread_count) in [(0, 1), (1, 4), (7, 2), (1000, 3), (501, 8)] {
            let queue = RowGroupQueue::new(row_group_count, thread_count);
            let mut taken: Vec<u32> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..thread_count)
                    .map(|thread| {
                        let queue = &queue;
                        scope.spawn(move || std::iter::from_fn(|| queue.next(thread)).collect::<Vec<_>>())
                    })
                    .collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            taken.sort_unstable();
            assert_eq!(taken, (0..row_group_count).collect::<Vec<_>>(), "{thread_count} threads");
        }
    }

    #[test]
    fn an_idle_thread_takes_half_of_what_another_has_left() {
        let queue = RowGroupQueue::new(8, 2);
        assert_eq!(queue.next(0), Some(0));
        assert_eq!((queue.rest(0), queue.rest(1)), (1..4, 4..8));
        // The second thread is through with 4 to 7, and takes 2 and 3 of 1, 2 and 3.
        assert_eq!([0; 5].map(|_| queue.next(1)), [Some(4), Some(5), Some(6), Some(7), Some(2)]);
        assert_eq!([queue.next(0), queue.next(1), queue.next(0), queue.next(1)], [Some(1), Some(3), None, None]);
    }
}
