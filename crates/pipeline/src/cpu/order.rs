//! In which order stages are worked through: by what they drop for their cost, as measured.
//!
//! **Owns**: guesses before the first measurement, sampled measurements, the order. **Does not own**: the clock.
//!
//! **Invariants**: each stage stands behind those it needs. One that may fail stands behind all that may not, unless they
//! need it, and is never measured: it is not to see a row that they drop. An implied stage stands before the one that it is implied by;
//! if it drops next to nothing, or is no cheaper than that one, it is left out.
//!
//! **Concurrency**: each thread has an order of its own, and with it adapts to the row groups it gets.
//!
//! Independent tests that cost `c` a row and keep the share `s` take least time in the order of `c / (1 - s)`
//! (Hellerstein and Stonebraker, "Predicate Migration", SIGMOD 1993). Costs and shares are those of whole mini-blocks,
//! measured now and then on all rows, so that they do not depend on which stages came before. A stage is not independent
//! of one that it implies: behind that one it keeps the quotient of their shares.

use std::sync::Arc;

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
/// Guessed time for a row of a stage on payload or computed values, which is measured on all rows only where it is a
/// condition on scanned columns: else that would compute what other stages spare. So these come late.
const GUESSED_DERIVED_NS: f64 = 10.0;

#[derive(Debug, Clone)]
struct Measure {
    selectivity: f64,
    ns_per_row: f64,
    is_measured: bool,
}

/// What a stage is to the others.
#[derive(Debug)]
struct Relation {
    /// Stages that must come before.
    needs: Vec<usize>,
    implied_by: Option<usize>,
    may_fail: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Order {
    relations: Arc<[Relation]>,
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
        let relation = |stage: &Stage<'_>| Relation {
            needs: stage.needs.clone(),
            implied_by: stage.implied_by,
            may_fail: stage.may_fail,
        };
        let relations = stages.iter().map(relation).collect();
        let measures = stages.iter().map(measure).collect();
        let mut order = Self { relations, measures, sequence: Vec::new(), block_count: 0 };
        order.arrange();
        order
    }

    /// The numbers of stages, first to last.
    pub(super) fn sequence(&self) -> &[usize] {
        &self.sequence
    }

    /// How many stages of the sequence come before each mini-block is down to so few rows, as far as was measured, that
    /// the next one is better done for rows of many together: at most `late_rows` of that stage, out of `row_count`. And
    /// how many rows that is.
    pub(super) fn dense_count(&self, row_count: usize, late_rows: impl Fn(usize) -> usize) -> (usize, usize) {
        let mut expected = row_count as f64;
        for (number, stage) in self.sequence.iter().enumerate() {
            if expected <= late_rows(*stage) as f64 {
                return (number, expected as usize);
            }
            if self.measures[*stage].is_measured {
                expected *= self.share(*stage, &self.sequence[..number]);
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

    /// The share of rows that a stage keeps behind others.
    fn share(&self, stage: usize, before: &[usize]) -> f64 {
        let implied = before.iter().filter(|earlier| self.relations[**earlier].implied_by == Some(stage));
        let implied: f64 = implied.map(|implied| self.measures[*implied].selectivity).product();
        let selectivity = self.measures[stage].selectivity;
        // The two were not measured at the same time.
        if selectivity < implied { selectivity / implied } else { 1.0 }
    }

    /// Puts the stages in order by what was measured.
    pub(super) fn arrange(&mut self) {
        let relations = Arc::clone(&self.relations);
        let mut sequence = Vec::with_capacity(relations.len());
        let mut left: Vec<usize> = (0..relations.len())
            .filter(|stage| relations[*stage].implied_by.is_none_or(|by| self.spares(*stage, by)))
            .collect();
        // A thousandth keeps stages that drop nothing, or seem to take no time, comparable.
        let rank = |stage: usize, before: &[usize]| {
            (self.measures[stage].ns_per_row + 1e-3) / (1.0 - self.share(stage, before) + 1e-3)
        };
        while !left.is_empty() {
            let is_ready = |stage: &usize| relations[*stage].needs.iter().all(|needed| !left.contains(needed));
            let compared = |a: &usize, b: &usize| {
                let by_failing = relations[*a].may_fail.cmp(&relations[*b].may_fail);
                by_failing.then_with(|| rank(*a, &sequence).total_cmp(&rank(*b, &sequence)))
            };
            let next = left.iter().copied().filter(is_ready).min_by(compared);
            // Stages need earlier ones only, so that the first one left is always ready.
            let next = next.unwrap_or(left[0]);
            // What it implies has nothing left to drop.
            left.retain(|stage| *stage != next && relations[*stage].implied_by != Some(next));
            sequence.push(next);
        }
        self.sequence = sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An order of an implied stage, number 1, and the one that it is implied by.
    fn order((implied_ns, selectivity): (f64, f64), by_ns: f64, is_measured: bool) -> Order {
        let measure = |selectivity, ns_per_row| Measure { selectivity, ns_per_row, is_measured };
        let measures = vec![measure(selectivity, by_ns), measure(selectivity, implied_ns)];
        with(measures, &[None, Some(0)])
    }

    fn with(measures: Vec<Measure>, implied_by: &[Option<usize>]) -> Order {
        let relation =
            |implied_by: &Option<usize>| Relation { needs: Vec::new(), implied_by: *implied_by, may_fail: false };
        let relations = implied_by.iter().map(relation);
        let mut order = Order { relations: relations.collect(), measures, sequence: Vec::new(), block_count: 0 };
        order.arrange();
        order
    }

    #[test]
    fn a_stage_behind_the_one_that_it_implies_is_counted_by_what_it_still_drops() {
        let measure = |selectivity, ns_per_row| Measure { selectivity, ns_per_row, is_measured: true };
        // A look-up, its range, which drops nearly the same rows, and a filter.
        let order = with(vec![measure(0.14, 0.3), measure(0.15, 0.1), measure(0.5, 0.2)], &[None, Some(0), None]);
        assert_eq!(order.sequence(), [1, 2, 0]);
        let (dense_count, rows) = order.dense_count(1000, |_| 80);
        assert_eq!((dense_count, rows), (2, 75), "those that the range and the filter keep");
        let (dense_count, rows) = order.dense_count(1000, |_| 0);
        assert_eq!((dense_count, rows), (3, 70), "and the look-up nearly all of these");
    }

    #[test]
    fn an_implied_stage_has_nothing_to_do_behind_the_one_that_implies_it() {
        let measure = |selectivity, ns_per_row| Measure { selectivity, ns_per_row, is_measured: true };
        // A look-up that drops much for its cost, and a range that drops little.
        let order = with(vec![measure(0.02, 0.2), measure(0.9, 0.1)], &[None, Some(0)]);
        assert_eq!(order.sequence(), [0]);
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
