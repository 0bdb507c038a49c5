//! What is measured of a scan while it runs.
//!
//! **Owns**: the sums, and that time and bytes among them are of the same morsels. **Does not own**: what follows from
//! them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_placement::operator_cache::eagerness::Worth;
use thermocline_placement::operator_cache::extrapolate::Progress;

/// What was measured of a scan.
#[derive(Debug, Default)]
pub(crate) struct ScanMeters {
    /// Getting morsels from the source and decoding them, summed over threads.
    pub(crate) execute_ns: AtomicU64,
    pub(crate) cache_ns: AtomicU64,
    pub(crate) scanned_bytes: AtomicU64,
    pub(crate) total_bytes: AtomicU64,
    pub(crate) kept_bytes: AtomicU64,
    /// Bytes of the item that it completes that its rows have as well.
    pub(crate) lent_bytes: AtomicU64,
    /// Bytes of the item that the scan made, or as far as could be told of the one it would have made; the base's among
    /// them. 0 while the scan keeps its rows.
    pub(crate) item_bytes: AtomicU64,
    /// Bytes that it may keep, of the file's first part alone; 0 if it is to keep all.
    pub(crate) head_bytes: AtomicU64,
    /// Bytes of the file whose rows were decoded.
    pub(crate) decoded_bytes: AtomicU64,
    /// Whether the cache has looked at a sample.
    pub(crate) judged: AtomicBool,
    /// What it then was worth, and what it displaces, seconds.
    pub(crate) worth: Mutex<Option<Worth>>,
    /// Whether its use is among those remembered of its select.
    pub(crate) remembered: AtomicBool,
    /// Whether it was chosen between rows and positions.
    pub(crate) chosen: AtomicBool,
    /// Queries that took part.
    pub(crate) participant_count: AtomicU64,
}

/// What a morsel is and took that is not yet among what was measured of its scan.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MorselWork {
    pub(crate) source_bytes: u64,
    pub(crate) execute_ns: u64,
}

/// How far a scan is, and what that took: of the same morsels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SoFar {
    pub(crate) progress: Progress,
    pub(crate) execute_ns: u64,
    pub(crate) cache_ns: u64,
}

impl ScanMeters {
    /// With a morsel that is being kept.
    pub(crate) fn so_far(&self, morsel: MorselWork) -> SoFar {
        SoFar {
            progress: Progress {
                scanned_bytes: self.decoded_bytes.load(Ordering::Relaxed) + morsel.source_bytes,
                total_bytes: self.total_bytes.load(Ordering::Relaxed),
            },
            execute_ns: self.execute_ns.load(Ordering::Relaxed) + morsel.execute_ns,
            cache_ns: self.cache_ns.load(Ordering::Relaxed),
        }
    }

    /// A morsel is done. Only now, since other threads extrapolate: the time of many over the bytes of few would be too
    /// much.
    pub(super) fn add(&self, morsel: MorselWork, cache_ns: u64) {
        self.execute_ns.fetch_add(morsel.execute_ns, Ordering::Relaxed);
        self.cache_ns.fetch_add(cache_ns, Ordering::Relaxed);
        self.decoded_bytes.fetch_add(morsel.source_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_extrapolated_with_the_bytes_of_the_morsels_that_took_it() {
        let meters = ScanMeters::default();
        meters.total_bytes.store(1000, Ordering::Relaxed);
        let morsel = MorselWork { source_bytes: 100, execute_ns: 7 };
        let so_far = meters.so_far(morsel);
        assert_eq!((so_far.progress.scanned_bytes, so_far.execute_ns, so_far.cache_ns), (100, 7, 0));
        meters.add(morsel, 3);
        let so_far = meters.so_far(MorselWork::default());
        assert_eq!((so_far.progress.scanned_bytes, so_far.execute_ns, so_far.cache_ns), (100, 7, 3));
        assert_eq!(so_far.progress.whole_ns(so_far.execute_ns), Some(70));
    }
}
