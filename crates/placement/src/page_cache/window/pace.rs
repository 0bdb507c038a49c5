//! How fast a pipeline works on pages that are in memory, estimated while it runs.
//!
//! Paper: HPCache §4.3: "the execution time for each pipeline invocation after the input pages are present in memory",
//! taken to be equally distributed across threads. Deviation: a pipeline of a known plan starts from what it was known
//! for, which fades as pages come in.

/// The pace so far of one running pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    thread_count: u32,
    bytes: f64,
    busy_thread_s: f64,
    /// What it was known for counts as much as so many bytes of what is seen.
    known_bytes: f64,
    known_s_per_byte: f64,
}

/// What was known counts as much as this part of the pipeline's bytes: after a third of them it counts a tenth.
const KNOWN_PART: f64 = 0.04;

impl Pace {
    /// Of a pipeline of so many threads that will read `size_bytes`, with the throughput that it was known for.
    pub fn new(thread_count: u32, size_bytes: u64, known_bytes_per_s: Option<f64>) -> Self {
        let known_s_per_byte = known_bytes_per_s.filter(|rate| *rate > 0.0).map(f64::recip);
        Self {
            thread_count: thread_count.max(1),
            bytes: 0.0,
            busy_thread_s: 0.0,
            known_bytes: if known_s_per_byte.is_some() { size_bytes as f64 * KNOWN_PART } else { 0.0 },
            known_s_per_byte: known_s_per_byte.unwrap_or(0.0),
        }
    }

    /// One thread worked so long on so many bytes, waiting not counted.
    pub fn observe(&mut self, bytes: u64, busy_ns: u64) {
        self.bytes += bytes as f64;
        self.busy_thread_s += busy_ns as f64 * 1e-9;
    }

    /// P as it looks by now: of all threads together. `None` if nothing is known or seen; infinite if no time was seen
    /// to pass.
    pub fn throughput_bytes_per_s(&self) -> Option<f64> {
        let bytes = self.bytes + self.known_bytes;
        let busy_s = self.busy_thread_s / f64::from(self.thread_count) + self.known_bytes * self.known_s_per_byte;
        (bytes > 0.0).then(|| bytes / busy_s)
    }
}
