//! From the part of a scan that is done to the whole.
//!
//! The fraction done is that of the source's bytes (compressed bytes, if the source is compressed): it is known while
//! the scan runs, which the number of rows isn't. Pure.
//!
//! Paper: ReCache §5.2 extrapolates times from a sample at the beginning of the file by the file's size over the
//! sample's. Deviation: sizes carry a safety margin, because room is reserved on their strength. What is known already
//! needs none, so the margin applies to the part that isn't scanned, and is gone when the scan is done.

/// How far a scan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the source that are scanned.
    pub scanned_bytes: u64,
    /// Bytes that the scan will read in all.
    pub total_bytes: u64,
}

/// Added to the part of an item that is not yet seen. A tenth covers sources whose later records are somewhat longer
/// or more often selected than the first; an item that outgrows its estimate all the same grows through the budget,
/// or is given up, so the margin need not cover everything.
pub const DEFAULT_MARGIN: f64 = 0.1;

impl Progress {
    /// The fraction done, from 0 to 1. A source without bytes is done.
    pub fn fraction(&self) -> f64 {
        if self.scanned_bytes >= self.total_bytes { 1.0 } else { self.scanned_bytes as f64 / self.total_bytes as f64 }
    }

    /// Size of the whole item, when `item_bytes` came from the part that is scanned: those, plus as much for the rest
    /// in proportion, plus `margin` of the latter. Exact when the scan is done; `None` before anything is scanned.
    ///
    /// ```
    /// use thermocline_placement::operator_cache::extrapolate::Progress;
    /// let progress = Progress { scanned_bytes: 25, total_bytes: 100 };
    /// assert_eq!(progress.whole_bytes(1000, 0.1), Some(1000 + 3300));
    /// ```
    pub fn whole_bytes(&self, item_bytes: u64, margin: f64) -> Option<u64> {
        let rest_bytes = self.rest(item_bytes as f64)? * (1.0 + margin.max(0.0));
        // A float beyond the range becomes the greatest integer: larger than any limit.
        Some(item_bytes.saturating_add(rest_bytes.round() as u64))
    }

    /// Time for the whole, when the part that is scanned took `part_ns`. No margin: times are compared with times.
    /// `None` before anything is scanned.
    pub fn whole_ns(&self, part_ns: u64) -> Option<u64> {
        Some(part_ns.saturating_add(self.rest(part_ns as f64)?.round() as u64))
    }

    /// What the rest of the scan adds to a quantity in proportion.
    fn rest(&self, part: f64) -> Option<f64> {
        let fraction = self.fraction();
        if fraction == 0.0 { None } else { Some(part / fraction * (1.0 - fraction)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_be_said_before_the_first_byte() {
        let start = Progress { scanned_bytes: 0, total_bytes: 100 };
        assert_eq!(start.whole_bytes(0, DEFAULT_MARGIN), None);
        assert_eq!(start.whole_ns(0), None);
    }

    #[test]
    fn the_estimate_is_exact_when_the_scan_is_done() {
        for (scanned_bytes, total_bytes) in [(100, 100), (101, 100), (0, 0)] {
            let done = Progress { scanned_bytes, total_bytes };
            assert_eq!(done.whole_bytes(777, DEFAULT_MARGIN), Some(777));
            assert_eq!(done.whole_ns(777), Some(777));
        }
    }

    #[test]
    fn the_margin_applies_to_the_unseen_part_alone() {
        let half = Progress { scanned_bytes: 50, total_bytes: 100 };
        assert_eq!(half.whole_bytes(1000, 0.2), Some(2200));
        assert_eq!(half.whole_ns(1000), Some(2000));
    }

    #[test]
    fn an_estimate_beyond_all_bounds_stays_the_greatest_number() {
        let little = Progress { scanned_bytes: 1, total_bytes: u64::MAX };
        assert_eq!(little.whole_bytes(u64::MAX, DEFAULT_MARGIN), Some(u64::MAX));
    }
}
