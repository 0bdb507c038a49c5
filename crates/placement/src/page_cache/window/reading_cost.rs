//! What a byte that comes from storage costs pipelines beside the device's time, corrected by what is seen of it.
//!
//! A pipeline waits for a device to begin, for checks of what came, and where reads come unevenly: the more, the closer
//! the device's time is to that of its own work, since each of the two is now and then the slower one. Together with the
//! device's time as a bound this makes two straight lines of what is a curve: see the page cache's model. What a
//! pipeline waits for a device that is much too slow for it is the device's rate ([`DeviceRate`](super::DeviceRate)),
//! and waits for a few late pages are their latency; both say nothing here.

use std::ops::Range;

/// A running estimate of c.
#[derive(Clone, Copy, Debug)]
pub struct ReadingCost {
    bytes: f64,
    seconds: f64,
}

/// Of what was seen before, the part that still counts after a report.
const KEPT_PART: f64 = 0.9;
/// What was guessed counts as much as a report of so many bytes.
const GUESS_BYTES: f64 = 64e6;
/// The device's time in parts of that of a pipeline's work: below it waits are mostly latency, above it the device's
/// rate. Learned from pipelines that hardly read the cost came out twice as high as for those that read much.
const LIKE_TIMES: Range<f64> = 0.1..3.0;

/// What a pipeline that has ended read and waited.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// What came from storage.
    pub read_bytes: u64,
    /// From its beginning to its end.
    pub took_ns: u64,
    /// Of that time, what each of its threads waited on average.
    pub waited_ns: u64,
}

impl ReadingCost {
    /// From a guess.
    pub fn new(guessed_s_per_byte: f64) -> Self {
        Self { bytes: GUESS_BYTES, seconds: GUESS_BYTES * guessed_s_per_byte }
    }

    /// A pipeline has ended. Its waits count if the device, of `storage_bytes_per_s`, and its work needed times of like
    /// size.
    pub fn observe(&mut self, waits: Waits, storage_bytes_per_s: f64) {
        let Waits { read_bytes, took_ns, waited_ns } = waits;
        let storage_ns = read_bytes as f64 / storage_bytes_per_s * 1e9;
        let work_ns = took_ns.saturating_sub(waited_ns) as f64;
        if read_bytes > 0 && LIKE_TIMES.contains(&(storage_ns / work_ns)) {
            self.bytes = KEPT_PART * self.bytes + read_bytes as f64;
            self.seconds = KEPT_PART * self.seconds + waited_ns as f64 * 1e-9;
        }
    }

    /// The estimate, with a device of `storage_bytes_per_s`. It is at most what the device needs for a byte: a pipeline
    /// waits no longer for it, whatever else goes on in the machine.
    pub fn s_per_byte(&self, storage_bytes_per_s: f64) -> f64 {
        (self.seconds / self.bytes).min(storage_bytes_per_s.recip())
    }
}
