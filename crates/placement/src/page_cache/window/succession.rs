//! In which order plans run, and so which are likely to come next.
//!
//! **Owns**: the plans of the last runs by their signatures, and how often what they foretold came true. **Does not
//! own**: what those plans read.
//!
//! Dashboards and reports ask the same questions in the same order. So what followed on the last occasion on which the
//! plans that ran last had run in this order is taken to follow again. Of several occasions those count after which the
//! most plans agree, going back from the run that has just begun (the longest context, as in prediction by partial
//! matching: Cleary and Witten 1984). How far that can be relied on is measured: the part of the last forecasts that
//! came true. Of questions in no order hardly any does.
//!
//! Pure; a run costs a look at each of those remembered.

use std::collections::VecDeque;

/// Plans that are compared to tell occasions apart.
const CONTEXT: usize = 8;

/// Forecasts are for so many runs ahead at most.
const MOST_AHEAD: usize = 128;

/// Of occasions that are equally like this one the latest counts that so many runs have followed.
const ENOUGH_AHEAD: usize = 16;

/// Forecasts are checked so many runs ahead: beyond what pipelines of one query follow from each other.
const CHECKED_AHEAD: usize = 8;

/// So many forecasts tell how many come true.
const CHECKED_COUNT: usize = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Succession {
    /// The oldest first.
    plans: VecDeque<u64>,
    /// How many runs ago the occasion was that the last run is like.
    occasion: Option<usize>,
    /// For the runs to come, the next first: what was foretold of each.
    foretold: VecDeque<Option<u64>>,
    /// Whether that came true.
    came_true: VecDeque<bool>,
}

impl Succession {
    /// A run begins.
    pub(super) fn push(&mut self, plan: u64) {
        if self.foretold.len() == CHECKED_AHEAD
            && let Some(Some(foretold)) = self.foretold.pop_front()
        {
            if self.came_true.len() == CHECKED_COUNT {
                self.came_true.pop_front();
            }
            self.came_true.push_back(foretold == plan);
        }
        self.plans.push_back(plan);
        self.occasion = self.most_alike();
        let foretold = self.next().nth(CHECKED_AHEAD - 1);
        self.foretold.push_back(foretold);
    }

    /// Forgets the oldest run and returns its plan.
    pub(super) fn pop_oldest(&mut self) -> Option<u64> {
        self.occasion = self.occasion.filter(|ago| ago + 1 < self.plans.len());
        self.plans.pop_front()
    }

    /// How many runs are remembered.
    pub(super) fn len(&self) -> usize {
        self.plans.len()
    }

    /// The plans that are likely to follow the last run, the next first; none if its plan has not run before.
    pub(super) fn next(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.occasion.map_or(self.plans.len(), |ago| self.plans.len() - ago);
        self.plans.range(first..).copied().take(MOST_AHEAD)
    }

    /// The part of forecasts that are likely to come true, as far as the last ones tell.
    pub(super) fn confidence(&self) -> f64 {
        let true_count = self.came_true.iter().filter(|came_true| **came_true).count();
        // As if of two more forecasts one had come true.
        (true_count + 1) as f64 / (self.came_true.len() + 2) as f64
    }

    /// How many runs ago the occasion was that is most like that of the last run.
    fn most_alike(&self) -> Option<usize> {
        let last = self.plans.len().checked_sub(1)?;
        let alike_count = |ago: usize| {
            let earlier = self.plans.range(..=last - ago).rev().take(CONTEXT);
            earlier.zip(self.plans.iter().rev()).take_while(|(earlier, now)| earlier == now).count()
        };
        let mut best: Option<(usize, usize)> = None;
        for ago in 1..=last {
            let count = alike_count(ago);
            let is_better = best.is_none_or(|(best_count, best_ago)| {
                count > best_count || count == best_count && best_ago < ENOUGH_AHEAD
            });
            if count > 0 && is_better {
                best = Some((count, ago));
            }
        }
        best.map(|(_, ago)| ago)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    fn after(plans: impl IntoIterator<Item = u64>) -> Succession {
        let mut succession = Succession::default();
        plans.into_iter().for_each(|plan| succession.push(plan));
        succession
    }

    #[test]
    fn what_came_before_comes_again() {
        assert_eq!(after([]).next().count(), 0);
        assert_eq!(after([1, 2, 3, 4]).next().count(), 0);
        assert_eq!(after([1, 2, 3, 1]).next().collect::<Vec<_>>(), [2, 3, 1]);
        assert_eq!(after([5, 1, 9, 6, 1, 8, 5, 1]).next().take(2).collect::<Vec<_>>(), [9, 6], "after 5 and 1");
        let round = [1, 7, 1, 8, 2, 7, 2, 8, 7];
        let mut succession = after(round.into_iter().cycle().take(30));
        for at in 30..60 {
            succession.push(round[at % 9]);
            let next: Vec<u64> = succession.next().take(9).collect();
            let expected: Vec<u64> = (at + 1..at + 10).map(|at| round[at % 9]).collect();
            assert_eq!(next, expected, "run {at}");
        }
        assert!(succession.confidence() > 0.9, "{}", succession.confidence());
    }

    #[test]
    fn a_plan_that_runs_again_and_again_is_foretold_for_many_runs() {
        assert_eq!(after([7; 40]).next().collect::<Vec<_>>(), [7; ENOUGH_AHEAD]);
        assert_eq!(after([7; 12]).next().collect::<Vec<_>>(), [7; 4], "of as many as are alike");
    }

    #[test]
    fn of_plans_in_no_order_little_is_believed() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let succession = after((0..500).map(|_| random.below_u64(13)));
            assert!(succession.confidence() < 0.4, "seed {seed}: {}", succession.confidence());
        }
    }

    #[test]
    fn what_is_forgotten_foretells_nothing() {
        let mut succession = after([1, 2, 1]);
        assert_eq!((succession.len(), succession.pop_oldest()), (3, Some(1)));
        assert_eq!(succession.next().count(), 0);
        succession.push(2);
        assert_eq!(succession.next().collect::<Vec<_>>(), [1, 2]);
    }
}
