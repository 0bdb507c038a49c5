//! What the last runs of a plan say of its next one.
//!
//! **Owns**: the last few runs, and medians over them. Medians, because one run in ten takes half as long again as the
//! others: threads share a processor, other processes want memory. What is derived from runs is computed when it is asked
//! for, so that runs from before the cost of reading was known count by what is known of it now.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::reading_cost::Ran;
use crate::page_cache::ListKey;
use crate::page_cache::model::{Rates, expected_s};

/// So many runs are remembered: few enough that a plan whose constants change for good is known again soon.
const RUN_COUNT: usize = 5;

/// Of what a plan was known to ask for and what its last run did, the part of the last run.
const LATEST_PART: f64 = 0.5;

/// Runs take at most so many times as long as the model says, or as short.
const FARTHEST: f64 = 2.0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanHistory {
    /// The oldest first.
    runs: VecDeque<Ran>,
    /// Of what was offered of each list, the part that was asked for.
    asked_parts: HashMap<ListKey, f64>,
}

impl PlanHistory {
    /// A run has ended.
    pub(super) fn push(&mut self, ran: Ran) {
        if self.runs.len() == RUN_COUNT {
            self.runs.pop_front();
        }
        self.runs.push_back(ran);
    }

    /// A run asked for so many of the bytes of a list that it could have asked for.
    pub(super) fn note_asked(&mut self, list: ListKey, offered_bytes: u64, asked_bytes: u64) {
        let latest = asked_bytes as f64 / offered_bytes.max(1) as f64;
        let part = self.asked_parts.entry(list).or_insert(latest);
        *part += LATEST_PART * (latest - *part);
    }

    /// Forgets what was asked of these lists.
    pub(super) fn forget(&mut self, lists: &BTreeSet<ListKey>) {
        self.asked_parts.retain(|list, _| !lists.contains(list));
    }

    /// What the next run is taken to ask for of the bytes of a list.
    pub(super) fn asked_bytes(&self, list: ListKey, offered_bytes: u64) -> u64 {
        let part = self.asked_parts.get(&list).copied().unwrap_or(1.0);
        (part * offered_bytes as f64).round() as u64
    }

    /// The runs that show what reads cost, or all if none does: how long others took may have other reasons.
    fn telling(&self) -> impl Iterator<Item = &Ran> {
        let none_shows = !self.runs.iter().any(Ran::shows_cost);
        self.runs.iter().filter(move |ran| ran.shows_cost() || none_shows)
    }

    /// Means over the runs that show what reads cost: the part of their bytes that was read and competed with work, and
    /// the busy seconds for each.
    pub(super) fn mean_per_byte(&self) -> Option<(f64, f64)> {
        let runs = self.runs.iter().filter(|ran| ran.shows_cost()).filter_map(Ran::per_byte);
        let (count, sum) =
            runs.fold((0.0, (0.0, 0.0)), |(count, sum), run| (count + 1.0, (sum.0 + run.0, sum.1 + run.1)));
        (count > 0.0).then(|| (sum.0 / count, sum.1 / count))
    }

    /// 1/P.
    pub(super) fn work_s_per_byte(&self, rates: Rates) -> Option<f64> {
        median(self.telling().filter_map(|ran| ran.work_s_per_byte(rates)))
    }

    /// Of what was in memory when runs began, the part that still was when they worked on it.
    pub(super) fn kept_part(&self) -> f64 {
        median(self.runs.iter().filter_map(Ran::kept_part)).unwrap_or(1.0)
    }

    /// How many times as long as the model says runs took, given what they really read: beginnings and ends, and
    /// whatever else the model does not know.
    pub(super) fn took_ratio(&self, rates: Rates) -> f64 {
        let Some(work_s_per_byte) = self.work_s_per_byte(rates) else { return 1.0 };
        let ratio = |ran: &Ran| {
            let expected_s = expected_s(ran.bytes as f64, ran.read_bytes as f64, work_s_per_byte.recip(), rates);
            ran.took_s / expected_s
        };
        let runs = self.telling().filter(|ran| !ran.filled_new_memory());
        let ratio = median(runs.map(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0));
        ratio.unwrap_or(1.0).clamp(FARTHEST.recip(), FARTHEST)
    }
}

/// The one in the middle, or the mean of the two there.
fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (lower, upper) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(0.5 * (lower + upper))
}
