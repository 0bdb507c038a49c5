//! Which share of each column to keep: two linear programmes.
//!
//! [`least_time`] within a memory budget, and [`least_memory`] within a slow-down against all in memory (HPCache §4.2).
//! The predicted time is a sum of maxima of linear functions of the shares, so each maximum becomes one variable with a
//! lower bound for each of its terms (`normal_form`), and the rest is a solver's work (`solver`).
//!
//! **Ties.** Many placements take the same time. Of those fewer bytes are preferred, then shares near the earlier ones,
//! since moving pages costs reads: both by terms of [`TIE_BREAK`] of the time without memory, the second one quadratic,
//! so that there is one best placement and it changes little when little changes. What is predicted is at most as much
//! worse. Over time that is not enough, since paces are measured with errors and pages that go are read again:
//! [`next_placement`] weighs what that takes, and goes only a part of the way where that is better.
//!
//! **Without the solver**: where nothing can be gained, where there is no memory, and where there is enough for every
//! column to have the largest share that one of its pipelines can use.
//!
//! Deviations: HPCache hands its problem to CVXPY; the second programme is only named there. The limits that each
//! column gets are in bytes instead of pages.
//!
//! Pure; deterministic: one thread, no time limit. Cost: see `benches/page_programmes.rs`.

mod normal_form;
mod solver;
#[cfg(test)]
mod tests;

use super::ListKey;
use super::model::{Combination, Pipeline, Rates, Shares, list_bytes, workload_s};
use crate::broker::BenefitCurve;
use normal_form::NormalForm;
use solver::{Constraint, Goal};

/// What the programmes lose at most to prefer fewer bytes and steady shares, of the time without memory.
pub const TIE_BREAK: f64 = 1e-4;

/// A placement is clearly better than another if it takes less time by more than this part.
pub const CLEARLY_BETTER: f64 = 0.01;

/// How far towards the best placement the next one may go. The time is convex, so that the first part of the way gains
/// the most for what it gives up.
const WAYS: [f64; 4] = [1.0, 0.5, 0.25, 0.125];

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The pipelines of the window, equal ones merged.
    pub pipelines: &'a [Pipeline],
    /// Of the machine.
    pub rates: Rates,
    /// How the columns of a pipeline go together.
    pub combination: Combination,
    /// The placement so far.
    pub earlier: &'a Shares,
}

/// What a programme decides, with the numbers that made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Of every list that a pipeline reads.
    pub shares: Shares,
    /// The bytes of these shares, list by list; none for shares of nothing.
    pub quotas: Vec<(ListKey, u64)>,
    /// Predicted for the whole window, in seconds.
    pub predicted_s: f64,
    /// The same without any page in memory.
    pub without_memory_s: f64,
    /// Seconds of the window that the next byte saves. Where there is no memory and columns are combined by their
    /// maximum, a lower bound.
    pub marginal_benefit_s_per_byte: f64,
}

impl Placement {
    /// Of all lists.
    pub fn size_bytes(&self) -> u64 {
        self.quotas.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// No placement was found. The earlier one stays good.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgrammeError {
    /// The machine cannot be that fast or slow.
    #[error(
        "storage of {storage_bytes_per_s} bytes/s and memory of {memory_bytes_per_s} bytes/s, expected positive numbers and the first one finite"
    )]
    Rates {
        /// S as given.
        storage_bytes_per_s: f64,
        /// M as given.
        memory_bytes_per_s: f64,
    },
    /// The solver gave up.
    #[error(
        "the solver ended with {status} on {list_count} columns and {pipeline_count} pipelines, expected it solved"
    )]
    Solver {
        /// In the solver's words.
        status: String,
        /// Columns in the programme.
        list_count: usize,
        /// Pipelines in the programme.
        pipeline_count: usize,
    },
}

/// The shares with which all pipelines together take the least time, in at most `memory_bytes`.
///
/// # Errors
/// If the rates are no rates, or the solver fails.
pub fn least_time(workload: Workload<'_>, memory_bytes: u64) -> Result<Placement, ProgrammeError> {
    let form = NormalForm::new(workload)?;
    if form.pipelines.is_empty() {
        return Ok(form.placement(workload, &[], 0.0));
    }
    if memory_bytes == 0 {
        return Ok(form.placement(workload, &[], form.first_byte_s()));
    }
    let enough = form.enough();
    if let Some(enough) = &enough
        && form.size_bytes(enough) <= memory_bytes as f64
    {
        return Ok(form.placement(workload, enough, 0.0));
    }
    let (mut shares, price) = solver::solve(&form, Goal::Time, Constraint::Memory { bytes: memory_bytes as f64 })?;
    let over = form.size_bytes(&shares) / memory_bytes as f64;
    if over > 1.0 {
        shares.iter_mut().for_each(|share| *share /= over);
    }
    Ok(form.placement(workload, &shares, price))
}

/// The placement to go by from now on: the earlier one, the best one or one between the two, whichever takes the least
/// time for the window together with reading once more what is given up; the earlier one unless another is clearly
/// better (by [`CLEARLY_BETTER`]), since paces are measured with errors, and where there are many columns hardly
/// different paces make very different placements the best.
///
/// # Errors
/// As [`least_time`].
pub fn next_placement(workload: Workload<'_>, memory_bytes: u64) -> Result<Placement, ProgrammeError> {
    let best = least_time(workload, memory_bytes)?;
    let form = NormalForm::new(workload)?;
    let earlier: Vec<f64> = form.lists.iter().map(|(_, _, earlier)| *earlier).collect();
    let fitting = (memory_bytes as f64 / form.size_bytes(&earlier)).min(1.0);
    let kept: Vec<f64> = earlier.iter().map(|share| share * fitting).collect();
    let marginal_s_per_byte = best.marginal_benefit_s_per_byte;
    let Rates { storage_bytes_per_s, reading_s_per_byte, .. } = workload.rates;
    let read_again_s_per_byte = storage_bytes_per_s.recip() + reading_s_per_byte;
    let at = |way: f64| {
        let shares: Vec<f64> = form
            .lists
            .iter()
            .zip(&kept)
            .map(|((list, ..), kept)| kept + way * (best.shares.of(*list) - kept))
            .collect();
        let placement = form.placement(workload, &shares, marginal_s_per_byte);
        let given_up = form.lists.iter().zip(kept.iter().zip(&shares));
        let given_up_bytes: f64 = given_up.map(|((_, bytes, _), (kept, share))| bytes * (kept - share).max(0.0)).sum();
        (placement.predicted_s + given_up_bytes * read_again_s_per_byte, placement)
    };
    let (kept_s, kept) = at(0.0);
    let others = WAYS.map(at).into_iter();
    let (other_s, other) = others.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((kept_s, kept.clone()));
    Ok(if other_s * (1.0 + CLEARLY_BETTER) < kept_s { other } else { kept })
}

/// The shares of the fewest bytes with which all pipelines together take at most `1 + slow_down` of the time that they
/// would take with all in memory. A negative slow-down is none.
///
/// For who chooses how much memory to have: the engine has been given its memory and divides it by [`least_time`].
///
/// # Errors
/// If the rates are no rates, or the solver fails.
pub fn least_memory(workload: Workload<'_>, slow_down: f64) -> Result<Placement, ProgrammeError> {
    let form = NormalForm::new(workload)?;
    let without_memory_s = workload_s(workload.pipelines, workload.rates, &Shares::default(), workload.combination);
    let allowed_s = (1.0 + slow_down.max(0.0)) * in_memory_s(workload);
    if form.pipelines.is_empty() || without_memory_s <= allowed_s {
        return Ok(form.placement(workload, &[], form.first_byte_s()));
    }
    // The pipelines that are left out take the same time whatever is in memory.
    let left_out_s = without_memory_s - form.seconds(&vec![0.0; form.lists.len()]);
    let allowed_s = allowed_s - left_out_s;
    let (shares, price) = solver::solve(&form, Goal::Memory, Constraint::Time { seconds: allowed_s })?;
    Ok(form.placement(workload, &shares, price))
}

/// Predicted for the whole window with all pages in memory, in seconds.
pub fn in_memory_s(workload: Workload<'_>) -> f64 {
    let all = Shares::new(list_bytes(workload.pipelines).into_keys().map(|list| (list, 1.0)));
    workload_s(workload.pipelines, workload.rates, &all, workload.combination)
}

/// Seconds of the window saved over bytes, from `point_count` placements of up to `most_bytes`; more of them where
/// there is little memory, since that is where the curve bends.
///
/// # Errors
/// As [`least_time`].
pub fn benefit_curve(
    workload: Workload<'_>,
    most_bytes: u64,
    point_count: u32,
) -> Result<BenefitCurve, ProgrammeError> {
    let form = NormalForm::new(workload)?;
    let useful_bytes = form.enough().map_or(form.all_bytes(), |enough| form.size_bytes(&enough));
    let last_bytes = useful_bytes.ceil().min(most_bytes as f64);
    let mut points = Vec::new();
    for point in 1..=point_count {
        let part = f64::from(point) / f64::from(point_count);
        let placement = least_time(workload, (last_bytes * part * part) as u64)?;
        points.push((placement.size_bytes(), placement.without_memory_s - placement.predicted_s));
    }
    Ok(BenefitCurve::new(points))
}
