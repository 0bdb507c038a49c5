//! How far an item's measured costs are from the predicted ones.
//!
//! Owns a smoothed ratio measured / predicted for each layout and kind of query (on records, on elements), and one for
//! conversions: nine numbers an item. Ratios are smoothed as logarithms, so that half and double weigh alike. Pure.

use crate::operator_cache::layout::Layout;

/// Weight of a new ratio in the smoothed one. A quarter follows a change within some ten queries, and lets one outlier move
/// a cost by the fourth root of what it is off.
pub const SMOOTHING: f64 = 0.25;

/// No ratio counts for more than this, or for less than one over it: beyond that it is a pause, not a property of the item.
pub const GREATEST_RATIO: f64 = 8.0;

/// The smoothed logarithm of a ratio; `None` before the first.
type LogRatio = Option<f64>;

/// What predictions for an item are multiplied by. Starts at its default: nothing observed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correction {
    /// By [`Layout::index`]; of queries on records, and on elements.
    queries: [[LogRatio; 2]; 4],
    conversions: LogRatio,
}

impl Correction {
    /// Takes in what a query took in a layout, beside what the model said.
    pub fn observe_query(&mut self, layout: Layout, reads_elements: bool, predicted_ns: f64, measured_ns: f64) {
        smooth(&mut self.queries[layout.index()][usize::from(reads_elements)], predicted_ns, measured_ns);
    }

    /// Takes in what a conversion took, beside what the model said.
    pub fn observe_conversion(&mut self, predicted_ns: f64, measured_ns: f64) {
        smooth(&mut self.conversions, predicted_ns, measured_ns);
    }

    /// What to multiply a prediction for a query in `layout` by, while the item is in `present`. Where that layout was not yet
    /// read by such queries, the present one speaks for it, since whatever made the model wrong there (the machine, the
    /// width of values) is likely to do so here; else the same layout's other queries; else the prediction stands.
    pub fn of_query(&self, layout: Layout, present: Layout, reads_elements: bool) -> f64 {
        let kind = usize::from(reads_elements);
        let own = self.queries[layout.index()];
        own[kind].or(self.queries[present.index()][kind]).or(own[1 - kind]).unwrap_or(0.0).exp()
    }

    /// What to multiply a prediction for a conversion by.
    pub fn of_conversion(&self) -> f64 {
        self.conversions.unwrap_or(0.0).exp()
    }
}

fn smooth(ratio: &mut LogRatio, predicted_ns: f64, measured_ns: f64) {
    if predicted_ns <= 0.0 || measured_ns <= 0.0 {
        return;
    }
    let bound = GREATEST_RATIO.ln();
    let observed = (measured_ns / predicted_ns).ln().clamp(-bound, bound);
    *ratio = Some(ratio.map_or(observed, |smoothed| smoothed + SMOOTHING * (observed - smoothed)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b
    }

    #[test]
    fn a_prediction_stands_until_something_is_observed() {
        let mut correction = Correction::default();
        assert_eq!(correction.of_query(Layout::Flat, Layout::Flat, true), 1.0);
        assert_eq!(correction.of_conversion(), 1.0);
        correction.observe_query(Layout::Flat, true, 100.0, 0.0);
        correction.observe_query(Layout::Flat, true, 0.0, 100.0);
        assert_eq!(correction, Correction::default());
    }

    #[test]
    fn each_kind_of_query_is_corrected_by_its_own_and_the_unobserved_by_the_present_layout() {
        let mut correction = Correction::default();
        correction.observe_query(Layout::Flat, true, 100.0, 200.0);
        correction.observe_query(Layout::Flat, false, 100.0, 50.0);
        correction.observe_query(Layout::Nested, false, 100.0, 300.0);
        assert!(close(correction.of_query(Layout::Flat, Layout::Flat, true), 2.0));
        assert!(close(correction.of_query(Layout::Flat, Layout::Flat, false), 0.5));
        assert!(close(correction.of_query(Layout::Striped, Layout::Flat, true), 2.0));
        assert!(close(correction.of_query(Layout::Nested, Layout::Flat, true), 2.0));
        assert!(close(correction.of_query(Layout::Nested, Layout::Striped, true), 3.0));
        assert_eq!(correction.of_query(Layout::RowWise, Layout::Striped, true), 1.0);
    }

    #[test]
    fn a_ratio_follows_a_lasting_change_and_is_hardly_moved_by_a_pause() {
        let mut correction = Correction::default();
        let ratio = |correction: &Correction| correction.of_query(Layout::Flat, Layout::Flat, true);
        for _ in 0..5 {
            correction.observe_query(Layout::Flat, true, 100.0, 100.0);
        }
        correction.observe_query(Layout::Flat, true, 100.0, 1e12);
        assert!(close(ratio(&correction), 8.0_f64.powf(0.25)), "{}", ratio(&correction));
        for _ in 0..30 {
            correction.observe_query(Layout::Flat, true, 100.0, 300.0);
        }
        assert!((ratio(&correction) - 3.0).abs() < 0.01, "{}", ratio(&correction));
        for _ in 0..100 {
            correction.observe_query(Layout::Flat, true, 100.0, 1e12);
            correction.observe_conversion(100.0, 1e-3);
        }
        assert!((7.9..=8.0 + 1e-9).contains(&ratio(&correction)));
        assert!(close(correction.of_conversion(), 0.125));
    }
}
