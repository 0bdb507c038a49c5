//! What a byte that comes from storage costs pipelines beside the device's time, corrected by what is seen of it.
//!
//! While the device is faster than a pipeline, that waits for it only to begin, for checks of what came, and where
//! reads come unevenly. What it then waits is this cost: see the page cache's model. What a pipeline waits for a device
//! that is too slow for it is the device's rate ([`DeviceRate`](super::DeviceRate)), and says nothing here.

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
/// Of the time that a pipeline works, the device must need less than this part to be the faster one without doubt.
const CLEARLY_FASTER: f64 = 0.7;

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

    /// A pipeline has ended. Its waits count if the device, of `storage_bytes_per_s`, was clearly faster than its work.
    pub fn observe(&mut self, waits: Waits, storage_bytes_per_s: f64) {
        let Waits { read_bytes, took_ns, waited_ns } = waits;
        let storage_ns = read_bytes as f64 / storage_bytes_per_s * 1e9;
        if read_bytes > 0 && storage_ns < CLEARLY_FASTER * took_ns.saturating_sub(waited_ns) as f64 {
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
