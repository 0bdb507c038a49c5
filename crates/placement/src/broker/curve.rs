//! How a cache's benefit grows with its bytes.

/// The concave hull of a cache's benefit in seconds over the bytes it may hold, from nothing at no bytes.
///
/// Real curves have steps and convex stretches (half of an index may save nothing). The hull bridges them: it is the
/// least concave curve that is nowhere below the measured points, and its corners are measured points.
#[derive(Clone, Debug, PartialEq)]
pub struct BenefitCurve {
    /// Corners behind the origin: bytes strictly rising, slopes strictly falling, positive.
    corners: Vec<(u64, f64)>,
}

impl BenefitCurve {
    /// From `(bytes, seconds saved with that many bytes)`, in any order. Points that aren't better than fewer bytes,
    /// and those that aren't finite, count for nothing.
    pub fn new(points: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let mut points: Vec<(u64, f64)> =
            points.into_iter().filter(|(bytes, seconds)| *bytes > 0 && seconds.is_finite() && *seconds > 0.0).collect();
        // Of equal bytes the best first: the others then bring no gain.
        points.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut corners: Vec<(u64, f64)> = Vec::with_capacity(points.len());
        for point in points {
            if corners.last().is_some_and(|last| point.1 <= last.1) {
                continue;
            }
            while let Some(&last) = corners.last()
                && slope(last, point) >= slope(corners.len().checked_sub(2).map_or((0, 0.0), |i| corners[i]), last)
            {
                corners.pop();
            }
            corners.push(point);
        }
        Self { corners }
    }

    /// Length in bytes and slope in seconds per byte of each straight piece, from the origin. Slopes fall strictly.
    pub fn segments(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let from = std::iter::once(&(0, 0.0)).chain(&self.corners);
        from.zip(&self.corners).map(|(&from, &to)| (to.0 - from.0, slope(from, to)))
    }

    /// Seconds saved with `bytes`, by the hull. Beyond the last point more bytes save nothing more.
    pub fn seconds(&self, bytes: u64) -> f64 {
        let mut left_bytes = bytes;
        let mut seconds = 0.0;
        for (length_bytes, slope) in self.segments() {
            let taken_bytes = length_bytes.min(left_bytes);
            seconds += taken_bytes as f64 * slope;
            left_bytes -= taken_bytes;
        }
        seconds
    }

    /// Seconds lost for each of `bytes` that go of `held_bytes`. No more go than are held; taking nothing is priced as
    /// taking one byte.
    pub fn lost_s_per_byte(&self, held_bytes: u64, bytes: u64) -> f64 {
        let bytes = bytes.clamp(1, held_bytes.max(1));
        (self.seconds(held_bytes) - self.seconds(held_bytes.saturating_sub(bytes))) / bytes as f64
    }

    /// Seconds saved for each of `bytes` that come to `held_bytes`.
    pub fn gained_s_per_byte(&self, held_bytes: u64, bytes: u64) -> f64 {
        let bytes = bytes.max(1);
        (self.seconds(held_bytes.saturating_add(bytes)) - self.seconds(held_bytes)) / bytes as f64
    }
}

fn slope(from: (u64, f64), to: (u64, f64)) -> f64 {
    (to.1 - from.1) / (to.0 - from.0) as f64
}
