//! In which order stages are worked through: by what they drop for their cost, as measured.
//!
//! **Owns**: guesses before the first measurement, sampled measurements, the order. **Does not own**: the clock.
//!
//! **Invariants**: each stage stands behind those it needs. An implied stage that drops next to nothing, or is
//! no cheaper than the one that it is implied by, is left out.
//!
//! **Concurrency**: each thread has an order of its own, and with it adapts to the row groups it gets.
//!
//! Independent tests that cost `c` a row and keep the share `s` take least time in the order of `c / (1 - s)`
//! (Hellerstein and Stonebraker, "Predicate Migration", SIGMOD 1993). Costs and shares are those of whole mini-blocks,
//! measured now and then on all rows, so that they do not depend on which stages came before.

use super::stage::Stage;

/// Every so many mini-blocks all stages whose pages are there are measured on all rows: the sixty-fourth costs a
/// percent or two.
const SAMPLE_EVERY: usize = 64;
/// Weight of a new measurement.
const WEIGHT: f64 = 0.3;
/// What an implied stage must not keep more than.
const WORTHWHILE: f64 = 0.95;
/// Guessed time for a row, until there is a measurement; all that matters is that stages start alike.
const GUESSED_NS: f64 = 1.0;
/// Guessed time for a row of a stage on payload or computed values, which is never measured on all rows: that would
/// compute what other stages spare. So these come late, and rows that others drop seldom meet an overflow.
const GUESSED_DERIVED_NS: f64 = 10.0;

#[derive(Debug, Clone)]
struct Measure {
    selectivity: f64,
    ns_per_row: f64,
    is_measured: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Order {
    measures: Vec<Measure>,
    sequence: Vec<usize>,
    /// Mini-blocks so far.
    block_count: usize,
}

impl Order {
    pub(super) fn new(stages: &[Stage<'_>]) -> Self {
        let measure = |stage: &Stage<'_>| Measure {
            selectivity: stage.guessed_selectivity,
            ns_per_row: if stage.takes_derived { GUESSED_DERIVED_NS } else { GUESSED_NS },
            is_measured: false,
        };
        let mut order = Self { measures: stages.iter().map(measure).collect(), sequence: Vec::new(), block_count: 0 };
        order.arrange(stages);
        order
    }

    /// The numbers of stages, first to last.
    pub(super) fn sequence(&self) -> &[usize] {
        &self.sequence
    }

    /// How many stages of the sequence come before each mini-block is down to so few rows, as far as was measured, that
    /// the next one is better done for rows of many together: at most `late_rows` of that stage, out of `row_count`. And
    /// how many rows that is.
    pub(super) fn dense_count(
        &self,
        stages: &[Stage<'_>],
        row_count: usize,
        late_rows: impl Fn(usize) -> usize,
    ) -> (usize, usize) {
        let mut expected = row_count as f64;
        for (number, stage) in self.sequence.iter().enumerate() {
            if expected <= late_rows(*stage) as f64 {
                return (number, expected as usize);
            }
            let measure = &self.measures[*stage];
            // What an implied stage drops, the one that implies it counts.
            if measure.is_measured && stages[*stage].implied_by.is_none() {
                expected *= measure.selectivity;
            }
        }
        (self.sequence.len(), expected as usize)
    }

    /// Whether stages are to be measured on the next mini-block: the second one, when pages are open, and every so many
    /// behind it.
    pub(super) fn samples_next(&mut self) -> bool {
        self.block_count += 1;
        self.block_count % SAMPLE_EVERY == 2
    }

    /// Takes down that a stage kept `kept` of `row_count` rows.
    pub(super) fn measured(&mut self, stage: usize, row_count: usize, kept: usize, ns: u64) {
        if row_count == 0 {
            return;
        }
        let measure = &mut self.measures[stage];
        let ns_per_row = ns as f64 / row_count as f64;
        if measure.is_measured {
            measure.selectivity += WEIGHT * (kept as f64 / row_count as f64 - measure.selectivity);
            // A thread that the system has put aside measures too much, never too little.
            let rises = ns_per_row > measure.ns_per_row;
            let (ns_per_row, weight) =
                if rises { (ns_per_row.min(2.0 * measure.ns_per_row), WEIGHT) } else { (ns_per_row, 1.0 - WEIGHT) };
            measure.ns_per_row += weight * (ns_per_row - measure.ns_per_row);
        } else {
            measure.selectivity = kept as f64 / row_count as f64;
            measure.ns_per_row = ns_per_row;
        }
        measure.is_measured = true;
    }

    /// Whether an implied stage drops enough, and takes less time than the one that it is implied by.
    fn spares(&self, implied: usize, by: usize) -> bool {
        let [implied, by] = [implied, by].map(|stage| &self.measures[stage]);
        let is_cheap = !(implied.is_measured && by.is_measured) || implied.ns_per_row < by.ns_per_row;
        implied.selectivity < WORTHWHILE && is_cheap
    }

    /// Puts the stages in order by what was measured.
    pub(super) fn arrange(&mut self, stages: &[Stage<'_>]) {
        self.sequence.clear();
        let mut left: Vec<usize> = (0..stages.len())
            .filter(|stage| stages[*stage].implied_by.is_none_or(|by| self.spares(*stage, by)))
            .collect();
        let rank = |stage: &usize| {
            let Measure { selectivity, ns_per_row, .. } = self.measures[*stage];
            // A thousandth keeps stages that drop nothing, or seem to take no time, comparable.
            (ns_per_row + 1e-3) / (1.0 - selectivity + 1e-3)
        };
        while !left.is_empty() {
            let is_ready = |stage: &usize| stages[*stage].needs.iter().all(|needed| !left.contains(needed));
            let next = left.iter().copied().filter(is_ready).min_by(|a, b| rank(a).total_cmp(&rank(b)));
            // Stages need earlier ones only, so that the first one left is always ready.
            let next = next.unwrap_or(left[0]);
            left.retain(|stage| *stage != next);
            self.sequence.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An order of an implied stage, number 1, and the one that it is implied by.
    fn order((implied_ns, selectivity): (f64, f64), by_ns: f64, is_measured: bool) -> Order {
        let measure = |selectivity, ns_per_row| Measure { selectivity, ns_per_row, is_measured };
        let measures = vec![measure(selectivity, by_ns), measure(selectivity, implied_ns)];
        Order { measures, sequence: Vec::new(), block_count: 0 }
    }

    #[test]
    fn an_implied_stage_is_worked_through_if_it_drops_enough_and_is_the_cheaper_one() {
        assert!(order((0.1, 0.2), 0.4, true).spares(1, 0));
        assert!(!order((0.4, 0.2), 0.4, true).spares(1, 0), "as dear as the look-up");
        assert!(!order((0.1, 0.99), 0.4, true).spares(1, 0), "drops next to nothing");
        assert!(order((1.0, 0.2), 1.0, false).spares(1, 0), "nothing is measured");
        assert!(!order((1.0, 0.99), 1.0, false).spares(1, 0), "guessed to drop next to nothing");
    }
}
