//! The cheapest set of items over segments.
//!
//! Owns the dynamic programme of [`super`] and its bound on items of several runs. Pure.

use std::ops::Range;

use super::{FileScan, PartialItem, Segments, Source};

/// Items of several runs that are tried in all combinations at most: 64 of them.
pub const MAX_SCATTERED_ITEMS: usize = 6;

/// Segments times items times combinations at most: about a millisecond. With long lists of values fewer items are
/// tried in all combinations.
const MAX_STEPS: usize = 1 << 18;

/// For each segment where it comes from, and what all that costs together.
pub(super) struct Cheapest {
    pub(super) sources: Vec<Source>,
    pub(super) predicted_ns: f64,
}

/// An item of a single run, or of several of which one is used.
struct Simple {
    id: u64,
    run: Range<usize>,
    scan_ns: f64,
}

/// How the best way to have everything up to a position came there.
#[derive(Clone, Copy)]
enum Step {
    /// The segment before was free: an item of several runs was paid for.
    Paid,
    /// The segment before is part of the remainder.
    Remainder,
    /// The simple item at this place, from that position on.
    Item { simple: usize, from: usize },
}

/// The least cost of having everything up to a position, of equal ones that with fewest items.
#[derive(Clone, Copy)]
struct Best {
    cost_ns: f64,
    item_count: usize,
    step: Step,
}

impl Best {
    fn is_better_than(&self, other: &Self) -> bool {
        self.cost_ns < other.cost_ns || (self.cost_ns == other.cost_ns && self.item_count < other.item_count)
    }
}

/// The cheapest way to have all segments.
pub(super) fn cheapest(segments: &Segments, items: &[PartialItem], file: &FileScan) -> Cheapest {
    let steps = segments.spans.len().saturating_mul(items.len()).max(1);
    let tried_count = (MAX_STEPS / steps).checked_ilog2().map_or(0, |log| MAX_SCATTERED_ITEMS.min(log as usize));
    let (simple, scattered) = sort_items(segments, items, tried_count);
    let mut at: Vec<Vec<usize>> = vec![Vec::new(); segments.spans.len()];
    for (index, item) in simple.iter().enumerate() {
        item.run.clone().for_each(|position| at[position].push(index));
    }
    let mut best: Option<(f64, usize, Vec<Source>)> = None;
    for chosen in 0..1_u32 << scattered.len() {
        let mut sources = vec![Source::Remainder; segments.spans.len()];
        let mut paid_ns = 0.0;
        for (_, index) in scattered.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1) {
            paid_ns += items[*index].scan_ns as f64;
            for run in &segments.runs[*index] {
                sources[run.clone()].fill(Source::Item(items[*index].id));
            }
        }
        let paid_count = chosen.count_ones() as usize;
        // Once without a scan of the file, once with: only the latter pays for reading it, and may leave a remainder.
        for kept_ns in [None, Some(file.kept_ns as f64)] {
            let file_ns = if kept_ns.is_some() { file.file_ns as f64 } else { 0.0 };
            let (last, filled) = fill(segments, &simple, &at, &sources, kept_ns);
            let (cost_ns, item_count) = (paid_ns + file_ns + last.cost_ns, paid_count + last.item_count);
            if best.as_ref().is_none_or(|(ns, count, _)| cost_ns < *ns || (cost_ns == *ns && item_count < *count)) {
                best = Some((cost_ns, item_count, filled));
            }
        }
    }
    best.map(|(predicted_ns, _, sources)| Cheapest { sources, predicted_ns })
        .unwrap_or(Cheapest { sources: Vec::new(), predicted_ns: 0.0 })
}

/// Items by how they are treated: simple ones, and the positions of those that are tried in all combinations.
fn sort_items(segments: &Segments, items: &[PartialItem], tried_count: usize) -> (Vec<Simple>, Vec<usize>) {
    let share = |run: &Range<usize>| segments.shares[run.clone()].iter().sum::<f64>();
    let mut scattered: Vec<usize> = (0..items.len()).filter(|index| segments.runs[*index].len() > 1).collect();
    let total = |index: &usize| segments.runs[*index].iter().map(share).sum::<f64>();
    scattered.sort_by(|a, b| total(b).total_cmp(&total(a)).then(items[*a].id.cmp(&items[*b].id)));
    let reduced = scattered.split_off(scattered.len().min(tried_count));
    let mut simple: Vec<Simple> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let runs = &segments.runs[index];
        if runs.len() == 1 || reduced.contains(&index) {
            let widest = runs.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
            simple.extend(widest.map(|run| Simple { id: item.id, run: run.clone(), scan_ns: item.scan_ns as f64 }));
        }
    }
    simple.sort_by_key(|item| item.id);
    (simple, scattered)
}

/// The dynamic programme: `at` has for each segment the simple items that cover it; `sources` says which segments are
/// paid for already (those not of the remainder); `kept_ns` is what keeping the whole request costs in a scan of the
/// file, `None` if there is to be none. Gives the last position's best, whose cost is infinite if the segments can't be
/// had so, and each segment's source.
fn fill(
    segments: &Segments,
    simple: &[Simple],
    at: &[Vec<usize>],
    sources: &[Source],
    kept_ns: Option<f64>,
) -> (Best, Vec<Source>) {
    let unreached = Best { cost_ns: f64::INFINITY, item_count: 0, step: Step::Remainder };
    let mut best = vec![unreached; sources.len() + 1];
    best[0].cost_ns = 0.0;
    for position in 0..sources.len() {
        let here = best[position];
        if here.cost_ns == f64::INFINITY {
            continue;
        }
        let mut reach = |to: usize, more_ns: f64, more_items: usize, step: Step| {
            let reached = Best { cost_ns: here.cost_ns + more_ns, item_count: here.item_count + more_items, step };
            if reached.is_better_than(&best[to]) {
                best[to] = reached;
            }
        };
        if sources[position] != Source::Remainder {
            reach(position + 1, 0.0, 0, Step::Paid);
        } else if let Some(kept_ns) = kept_ns {
            reach(position + 1, kept_ns * segments.shares[position], 0, Step::Remainder);
        }
        for &index in &at[position] {
            let item = &simple[index];
            reach(item.run.end, item.scan_ns, 1, Step::Item { simple: index, from: position });
        }
    }
    let mut filled = sources.to_vec();
    let mut position = sources.len();
    while position > 0 && best[position].cost_ns < f64::INFINITY {
        position = match best[position].step {
            Step::Paid | Step::Remainder => position - 1,
            Step::Item { simple: index, from } => {
                // What is paid for already is read from there: an item's rows are read once anyway.
                let unpaid = filled[from..position].iter_mut().filter(|source| **source == Source::Remainder);
                unpaid.for_each(|source| *source = Source::Item(simple[index].id));
                from
            }
        };
    }
    (best[sources.len()], filled)
}
