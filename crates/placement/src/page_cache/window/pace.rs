//! How fast a pipeline works on pages that are in memory, estimated while it runs.
//!
//! Paper: HPCache §4.3: "the execution time for each pipeline invocation after the input pages are present in memory",
//! taken to be equally distributed across threads. Deviation: a pipeline of a known plan starts from what it was known
//! for, which fades as pages come in.

use super::{Ran, Rates};

/// The pace so far of one running pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    thread_count: f64,
    bytes: u64,
    read_bytes: u64,
    busy_thread_s: f64,
    waited_thread_s: f64,
    new_memory_bytes: u64,
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
            thread_count: f64::from(thread_count.max(1)),
            bytes: 0,
            read_bytes: 0,
            busy_thread_s: 0.0,
            waited_thread_s: 0.0,
            new_memory_bytes: 0,
            known_bytes: if known_s_per_byte.is_some() { size_bytes as f64 * KNOWN_PART } else { 0.0 },
            known_s_per_byte: known_s_per_byte.unwrap_or(0.0),
        }
    }

    /// One thread worked so long on so many bytes, of which some came from storage, and waited so long for these.
    pub fn observe(&mut self, bytes: u64, read_bytes: u64, busy_ns: u64, waited_ns: u64) {
        self.bytes += bytes;
        self.read_bytes += read_bytes;
        self.busy_thread_s += busy_ns as f64 * 1e-9;
        self.waited_thread_s += waited_ns as f64 * 1e-9;
    }

    /// So much memory was taken from the system since it began.
    pub fn note_new_memory(&mut self, bytes: u64) {
        self.new_memory_bytes = bytes;
    }

    /// What was worked on so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What came from storage so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// How long each of its threads has waited for that on average.
    pub fn waited_s(&self) -> f64 {
        self.waited_thread_s / self.thread_count
    }

    /// What all its threads have done on bytes in memory and from the database's storage; how long that took, and what was
    /// in memory when they began, is the caller's to say.
    pub fn ran(&self) -> Ran {
        Ran {
            bytes: self.bytes,
            read_bytes: self.read_bytes,
            busy_s: self.busy_thread_s / self.thread_count,
            waited_s: self.waited_s(),
            new_memory_bytes: self.new_memory_bytes,
            shows_storage: true,
            ..Ran::default()
        }
    }

    /// P as it looks by now, if reads and memory cost so much: of all threads together. `None` if nothing is known or seen;
    /// infinite if no time was seen to pass.
    pub fn throughput_bytes_per_s(&self, rates: Rates) -> Option<f64> {
        let seen_s_per_byte = self.ran().work_s_per_byte(rates).unwrap_or(0.0);
        let bytes = self.bytes as f64 + self.known_bytes;
        let work_s = self.bytes as f64 * seen_s_per_byte + self.known_bytes * self.known_s_per_byte;
        (bytes > 0.0).then(|| bytes / work_s)
    }
}
