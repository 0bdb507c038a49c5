//! What a byte that comes from storage costs pipelines beside the device's time, corrected by what is seen of it.
//!
//! While the device is faster than a pipeline, that waits for it only to begin, for checks of what came, and where reads come
//! unevenly. What it then waits is this cost: see the page cache's model.

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

impl ReadingCost {
    /// From a guess.
    pub fn new(guessed_s_per_byte: f64) -> Self {
        Self { bytes: GUESS_BYTES, seconds: GUESS_BYTES * guessed_s_per_byte }
    }

    /// A pipeline that is slower than the device waited so long, each of its threads, for so many bytes that it read.
    pub fn observe(&mut self, read_bytes: u64, waited_ns: u64) {
        if read_bytes > 0 {
            self.bytes = KEPT_PART * self.bytes + read_bytes as f64;
            self.seconds = KEPT_PART * self.seconds + waited_ns as f64 * 1e-9;
        }
    }

    /// The estimate.
    pub fn s_per_byte(&self) -> f64 {
        self.seconds / self.bytes
    }
}
