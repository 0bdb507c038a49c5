//! How fast a device is, corrected by what is seen of it.
//!
//! What is seen is at most what the device can do: it may have been asked for little at once, and others may use it. So
//! faster reports are followed soon and slower ones slowly, which makes the estimate a high quantile of what is seen.

/// A running estimate of S.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRate {
    guessed_bytes_per_s: f64,
    bytes_per_s: f64,
}

/// Busy seconds after which a faster and a slower rate that stays has been followed for two thirds of the way.
const UP_S: f64 = 0.1;
const DOWN_S: f64 = 0.3;
/// Shorter reports say more about latency, and about the one long read that ended or did not, than about the rate.
pub const SHORTEST_REPORT_NS: u64 = 20_000_000;
/// The estimate stays within this ratio of the guess: beyond it is the report that is wrong.
const FARTHEST: f64 = 64.0;

impl DeviceRate {
    /// From a guess, positive.
    pub fn new(guessed_bytes_per_s: f64) -> Self {
        Self { guessed_bytes_per_s, bytes_per_s: guessed_bytes_per_s }
    }

    /// So many bytes came in so much time, in which the device had always something to do. Reports of less than
    /// [`SHORTEST_REPORT_NS`] are ignored.
    pub fn observe(&mut self, bytes: u64, busy_ns: u64) {
        if busy_ns < SHORTEST_REPORT_NS {
            return;
        }
        let busy_s = busy_ns as f64 * 1e-9;
        let (least, most) = (self.guessed_bytes_per_s / FARTHEST, self.guessed_bytes_per_s * FARTHEST);
        let seen_bytes_per_s = (bytes as f64 / busy_s).clamp(least, most);
        let settling_s = if seen_bytes_per_s > self.bytes_per_s { UP_S } else { DOWN_S };
        let way = 1.0 - (-busy_s / settling_s).exp();
        self.bytes_per_s += way * (seen_bytes_per_s - self.bytes_per_s);
    }

    /// The estimate.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes_per_s
    }
}
