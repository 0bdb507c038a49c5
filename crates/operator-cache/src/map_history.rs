//! How often a file was scanned whole, by the options it was read with, and what became of positional maps of it.
//!
//! **Owns**: the counts. **Does not own**: what follows from them
//! ([`map_making`](thermocline_placement::operator_cache::map_making)).
//!
//! **Concurrency**: a plain value, behind the lock of its file's record.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Options of one file that are counted apart; beyond, they share the last counts.
const COUNTED_OPTIONS: usize = 4;

/// What is remembered for one set of options.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MapHistory {
    /// Scans of the whole file that no map served.
    pub(crate) scan_count: u32,
    /// Maps that were begun and were not to be had, or not with all fields.
    pub(crate) lost_count: u32,
    /// Maps that were made.
    pub(crate) made_count: u32,
    /// Whether it was looked for a map that an earlier process made.
    pub(crate) is_sought: bool,
}

/// By a fingerprint of the options: two that have the same share their counts, which misleads a guess, never an answer.
#[derive(Debug, Default)]
pub(crate) struct MapHistories {
    known: Vec<(u64, MapHistory)>,
}

impl MapHistories {
    /// The most that is held on the heap.
    pub(crate) const HEAP_BYTES: usize = COUNTED_OPTIONS * size_of::<(u64, MapHistory)>();

    pub(crate) fn of<T>(&mut self, options: &str, change: impl FnOnce(&mut MapHistory) -> T) -> T {
        let mut hasher = DefaultHasher::new();
        options.hash(&mut hasher);
        let fingerprint = hasher.finish();
        let known = self.known.iter().position(|(of, _)| *of == fingerprint);
        let at = known.unwrap_or_else(|| {
            if self.known.len() < COUNTED_OPTIONS {
                self.known.push((fingerprint, MapHistory::default()));
            }
            self.known.len() - 1
        });
        change(&mut self.known[at].1)
    }
}
