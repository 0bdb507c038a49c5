//! Local ratio: a plan that loses at most four times what the best one does, for items of any size and cost.
//!
//! It stands for "log-optimal" in ReCache §6.3: Irani, "Page replacement with multi-size pages and applications to Web
//! caching" (STOC 1997), whose offline algorithms come within a factor O(log k) of the best for pages of different
//! sizes, k pages of the smallest size filling the cache, when a miss costs either one or the page's size. Costs here
//! depend on neither, so a later algorithm is used that takes any costs and has a constant bound: Bar-Noy, Bar-Yehuda,
//! Freund, Naor, Schieber, "A unified approach to approximating resource allocation and scheduling" (JACM 2001), the
//! part on general caching.
//!
//! The time between two requests for an item is an *interval*: it is as wide as the item is large, and losing it costs
//! the seconds `p = t + c − s − l` of the request at its end. To choose intervals that fit the limit at all times and
//! lose least:
//!
//! ```text
//! while some moment holds more than the limit:
//!     Δ ← the greatest excess, D ← the intervals at that moment
//!     ε ← the least p / min(Δ, width) in D
//!     p ← p − ε · min(Δ, width) in D; set the intervals aside whose p is 0
//! take the intervals set aside back where they fit, the last one first
//! ```
//!
//! Why four: any plan loses width Δ or more of D, so ε · Δ or more of what a step subtracts. What is lost of D in the
//! end does not fit on one side of the moment or the other; at the place on each side where it fails nearest to the
//! moment, all that is lost for that side's sake overlaps, and is together narrower than Δ and one interval more: 2 · ε
//! · Δ a side.
//!
//! The bound is on the sum of `p`. `c` is in it for every loss, though an item that is not kept at its next request
//! either is not cached again. Deviations: zero-width intervals are always held; intervals that save nothing, or are
//! wider than the limit, never. Pure; O(n · (m + log n)) for n requests of m items.

mod load;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::OfflinePolicy;
use super::future::next_requests;
use crate::operator_cache::trace::Request;
use load::Load;

/// Loses at most four times the least seconds that can be lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalRatio;

/// An item from one request, number `start`, to before the next, number `end`.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: usize,
    end: usize,
    width_bytes: u64,
    /// Seconds lost without it, less what was subtracted already.
    loss_s: f64,
    is_chosen: bool,
}

impl OfflinePolicy for LocalRatio {
    fn name(&self) -> &'static str {
        "local-ratio"
    }

    fn plan(&self, requests: &[Request], limit_bytes: u64) -> Vec<bool> {
        let mut load = Load::new(requests.len());
        let mut items: HashMap<u64, usize> = HashMap::new();
        // Each item's intervals in their order; they don't overlap.
        let mut intervals: Vec<Vec<Interval>> = Vec::new();
        for (start, next) in next_requests(requests).into_iter().enumerate() {
            let Some(end) = next else { continue };
            let (width_bytes, loss_s) = (requests[start].size_bytes, requests[end].saving_s());
            if width_bytes > limit_bytes || loss_s <= 0.0 {
                continue;
            }
            let item = *items.entry(requests[start].item).or_insert_with(|| {
                intervals.push(Vec::new());
                intervals.len() - 1
            });
            load.add(start..end, i128::from(width_bytes));
            intervals[item].push(Interval { start, end, width_bytes, loss_s, is_chosen: true });
        }
        let mut set_aside: Vec<(usize, usize)> = Vec::new();
        while let Some((moment, held_bytes)) = load.highest()
            && held_bytes > i128::from(limit_bytes)
        {
            let excess_bytes = held_bytes - i128::from(limit_bytes);
            let at_moment = at(&intervals, moment);
            let weight = |interval: &Interval| excess_bytes.min(i128::from(interval.width_bytes)) as f64;
            let ratio = |interval: &Interval| interval.loss_s / weight(interval);
            let least =
                at_moment.iter().map(|&(item, index)| ratio(&intervals[item][index])).fold(f64::INFINITY, f64::min);
            for (item, index) in at_moment {
                let interval = &mut intervals[item][index];
                if ratio(interval) <= least {
                    interval.is_chosen = false;
                    load.add(interval.start..interval.end, -i128::from(interval.width_bytes));
                    set_aside.push((item, index));
                } else {
                    interval.loss_s = (interval.loss_s - least * weight(interval)).max(0.0);
                }
            }
        }
        for (item, index) in set_aside.into_iter().rev() {
            let interval = &mut intervals[item][index];
            let (moments, width_bytes) = (interval.start..interval.end, i128::from(interval.width_bytes));
            if load.highest_in(moments.clone()) + width_bytes <= i128::from(limit_bytes) {
                interval.is_chosen = true;
                load.add(moments, width_bytes);
            }
        }
        let mut plan = vec![false; requests.len()];
        for interval in intervals.iter().flatten() {
            plan[interval.start] = interval.is_chosen;
        }
        plan
    }
}

/// The chosen intervals with a width that hold at a moment, at most one of each item: item and place in its list.
fn at(intervals: &[Vec<Interval>], moment: usize) -> Vec<(usize, usize)> {
    intervals
        .iter()
        .enumerate()
        .filter_map(|(item, list)| {
            let index = list.partition_point(|interval| interval.start <= moment).checked_sub(1)?;
            let interval = &list[index];
            (interval.is_chosen && moment < interval.end && interval.width_bytes > 0).then_some((item, index))
        })
        .collect()
}
