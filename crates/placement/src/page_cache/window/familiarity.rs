//! Whether questions stay with their columns: how much of what runs may ask for, others asked for shortly before.
//!
//! **Owns**: that share, of the last runs. **Does not own**: what follows from it ([`PipelineWindow::outlook`]).
//!
//! Who looks into something asks several questions of the same columns, each with a plan that has not run before, and
//! then turns to other columns. How often they are asked again is measured, not guessed.
//!
//! Pure; a run costs a look-up for each of its lists.
//!
//! [`PipelineWindow::outlook`]: super::PipelineWindow::outlook

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::page_cache::ListKey;

/// Shortly before are so many runs: pipelines of two or three queries.
pub(super) const SHORTLY_BEFORE: usize = 8;
/// The share is that of so many runs.
const MEASURED: usize = 32;
/// No more runs of the same columns are expected, however often they came before.
const MOST_AGAIN: f64 = 3.0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Familiarity {
    /// The lists of the last runs, the oldest first.
    recent: VecDeque<Vec<ListKey>>,
    /// How many of these runs each list is one of.
    recent_runs: HashMap<ListKey, usize>,
    /// What runs may have asked for, and how much of that others had shortly before.
    measured: VecDeque<(u64, u64)>,
}

impl Familiarity {
    /// A run begins that may ask for these bytes.
    pub(super) fn push(&mut self, offered: &[(ListKey, u64)]) {
        let all = offered.iter().map(|(_, bytes)| bytes).sum();
        let seen = offered.iter().filter(|(list, _)| self.recent_runs.contains_key(list)).map(|(_, bytes)| bytes).sum();
        if self.measured.len() == MEASURED {
            self.measured.pop_front();
        }
        self.measured.push_back((all, seen));
        if self.recent.len() == SHORTLY_BEFORE {
            for list in self.recent.pop_front().unwrap_or_default() {
                match self.recent_runs.get_mut(&list) {
                    Some(runs) if *runs > 1 => *runs -= 1,
                    _ => drop(self.recent_runs.remove(&list)),
                }
            }
        }
        let lists: Vec<ListKey> = offered.iter().map(|(list, _)| *list).collect();
        lists.iter().for_each(|list| *self.recent_runs.entry(*list).or_default() += 1);
        self.recent.push_back(lists);
    }

    /// These lists mean something else from now on.
    pub(super) fn forget(&mut self, gone: &BTreeSet<ListKey>) {
        self.recent.iter_mut().for_each(|lists| lists.retain(|list| !gone.contains(list)));
        self.recent_runs.retain(|list, _| !gone.contains(list));
    }

    /// How often the columns of a run are likely to be asked for again before others are, if each next run stays with them
    /// with the probability that was measured.
    pub(super) fn times_again(&self) -> f64 {
        let (all, seen) =
            self.measured.iter().fold((0.0, 0.0), |(all, seen), run| (all + run.0 as f64, seen + run.1 as f64));
        // As if once more it had not.
        let last = self.measured.back().map_or(0.0, |run| run.0 as f64);
        let share = if all > 0.0 { seen / (all + last) } else { 0.0 };
        (share / (1.0 - share).max(f64::EPSILON)).min(MOST_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(runs: &[&[u32]]) -> f64 {
        let mut familiarity = Familiarity::default();
        runs.iter().for_each(|run| {
            familiarity.push(&run.iter().map(|list| (ListKey(*list), 100)).collect::<Vec<_>>());
        });
        familiarity.times_again()
    }

    #[test]
    fn columns_that_come_again_are_expected_to_and_new_ones_not() {
        assert_eq!(after(&[]), 0.0);
        assert_eq!(after(&[&[1, 2]]), 0.0);
        // Of three that could have come again two have, as if one more had not.
        let times = after(&[&[1, 2], &[1, 2], &[1, 2]]);
        assert!((times - 1.0).abs() < 1e-9, "{times}");
        assert!(after(&[&[1, 2][..]; 20]) > 2.9, "nearly always");
        assert_eq!(after(&[&[1], &[2], &[3], &[4], &[5]]), 0.0);
        let half = after(&[&[1, 2], &[1, 3], &[3, 4], &[4, 5], &[5, 6], &[6, 7], &[7, 8], &[8, 9]]);
        assert!((0.5..1.0).contains(&half), "{half}");
    }

    #[test]
    fn what_was_asked_for_long_ago_is_new() {
        let others: Vec<Vec<u32>> = (10..18).map(|list| vec![list]).collect();
        let runs: Vec<&[u32]> =
            std::iter::once(&[1][..]).chain(others.iter().map(Vec::as_slice)).chain([&[1][..]]).collect();
        assert_eq!(after(&runs), 0.0);
    }
}
