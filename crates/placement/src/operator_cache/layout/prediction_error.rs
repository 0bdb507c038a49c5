//! How well predicted costs agree with measured ones: the numbers of ReCache's Figure 7.
//!
//! Owns the error of one prediction and its summary over many; not the predictions. Pure.

/// `|predicted − measured| / measured`: 0.1 is an error of 10 %. A measured time of zero has no error if zero was
/// predicted, and an infinite one otherwise.
pub fn relative_error(predicted_ns: f64, measured_ns: f64) -> f64 {
    let difference_ns = (predicted_ns - measured_ns).abs();
    if difference_ns == 0.0 { 0.0 } else { difference_ns / measured_ns.abs() }
}

/// Errors counted by size. The paper has 90 % of its queries within 10 %, and 98 % within 30 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorSummary {
    /// Predictions that were compared with a measurement.
    pub prediction_count: u64,
    /// Those off by at most 10 %.
    pub within_10_percent: u64,
    /// Those off by at most 30 %, the former included.
    pub within_30_percent: u64,
}

impl ErrorSummary {
    /// Counts one prediction.
    pub fn add(&mut self, predicted_ns: f64, measured_ns: f64) {
        let error = relative_error(predicted_ns, measured_ns);
        self.prediction_count += 1;
        self.within_10_percent += u64::from(error <= 0.1);
        self.within_30_percent += u64::from(error <= 0.3);
    }

    /// Share of the predictions off by at most 10 %, from 0 to 1; 1 of none.
    pub fn share_within_10_percent(&self) -> f64 {
        self.share(self.within_10_percent)
    }

    /// Share of the predictions off by at most 30 %, from 0 to 1; 1 of none.
    pub fn share_within_30_percent(&self) -> f64 {
        self.share(self.within_30_percent)
    }

    fn share(&self, count: u64) -> f64 {
        if self.prediction_count == 0 { 1.0 } else { count as f64 / self.prediction_count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_share_of_what_was_measured() {
        assert_eq!(relative_error(150.0, 100.0), 0.5);
        assert_eq!(relative_error(50.0, 100.0), 0.5);
        assert_eq!(relative_error(0.0, 0.0), 0.0);
        assert_eq!(relative_error(1.0, 0.0), f64::INFINITY);
    }

    #[test]
    fn a_summary_counts_the_shares_of_figure_7() {
        let mut summary = ErrorSummary::default();
        assert_eq!((summary.share_within_10_percent(), summary.share_within_30_percent()), (1.0, 1.0));
        for predicted_ns in [100.0, 109.0, 75.0, 200.0] {
            summary.add(predicted_ns, 100.0);
        }
        assert_eq!((summary.share_within_10_percent(), summary.share_within_30_percent()), (0.5, 0.75));
    }
}
