//! How fast a device is, corrected by what is seen of it.
//!
//! What is seen is at most what the device can do: others may use it, too few requests may be under way. So faster reports are
//! followed at once and slower ones slowly, which makes the estimate a high quantile of what is seen.

/// A running estimate of S or M.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRate {
    calibrated_bytes_per_s: f64,
    bytes_per_s: f64,
}

/// Of the way to a faster report and to a slower one. In balance one report of nine lies above.
const UP: f64 = 0.25;
const DOWN: f64 = UP / 8.0;
/// Shorter reports say more about latency and caches than about the rate.
const SHORTEST_NS: u64 = 5_000_000;
/// The estimate stays within this ratio of the calibrated rate: beyond it is the report that is wrong.
const FARTHEST: f64 = 8.0;

impl DeviceRate {
    /// From a calibration or a guess, positive.
    pub fn new(calibrated_bytes_per_s: f64) -> Self {
        Self { calibrated_bytes_per_s, bytes_per_s: calibrated_bytes_per_s }
    }

    /// So many bytes came in so much time, in which the device had always something to do. Reports of times when it had not, and
    /// of a few milliseconds, say nothing; the latter are ignored.
    pub fn observe(&mut self, bytes: u64, device_bound_ns: u64) {
        if device_bound_ns < SHORTEST_NS {
            return;
        }
        let seen_bytes_per_s = bytes as f64 * 1e9 / device_bound_ns as f64;
        let way = if seen_bytes_per_s > self.bytes_per_s { UP } else { DOWN };
        let (least, most) = (self.calibrated_bytes_per_s / FARTHEST, self.calibrated_bytes_per_s * FARTHEST);
        self.bytes_per_s += way * (seen_bytes_per_s.min(most) - self.bytes_per_s);
        self.bytes_per_s = self.bytes_per_s.max(least);
    }

    /// The estimate.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes_per_s
    }
}
