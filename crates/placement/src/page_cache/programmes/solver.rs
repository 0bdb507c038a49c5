//! The programmes in the form that the solver wants. The only file that names it.
//!
//! Variables: a share for each list, then a time for each pipeline, in parts of B/S. Every constraint is a row
//! `a·x <= b`. Times, bytes and parts are divided by their totals, so that all numbers are near one whatever the
//! machine.
//!
//! The solver is an interior-point method (Goulart and Chen, "Clarabel: an interior-point solver for conic programs
//! with quadratic objectives", 2024). Its answers lie inside of the polygon by a part in 10^9, and are cut to the
//! bounds here. It reads the clock for statistics of its own, on which nothing depends.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};

use super::normal_form::NormalForm;
use super::{Combination, ProgrammeError, TIE_BREAK};

/// What is to be small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    Time,
    Memory,
}

/// What must not be exceeded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constraint {
    Memory { bytes: f64 },
    Time { seconds: f64 },
}

/// Relative gap between the answer and the best one, and how far a row may be violated.
const TOLERANCE: f64 = 1e-9;
/// Shares below are none, and those as near to one are one.
const NEGLIGIBLE_SHARE: f64 = 1e-7;

#[derive(Debug, Default)]
struct Rows {
    row_at: Vec<usize>,
    variable_at: Vec<usize>,
    factors: Vec<f64>,
    bounds: Vec<f64>,
}

impl Rows {
    fn at_most(&mut self, bound: f64, terms: impl IntoIterator<Item = (usize, f64)>) {
        for (variable, factor) in terms {
            self.row_at.push(self.bounds.len());
            self.variable_at.push(variable);
            self.factors.push(factor);
        }
        self.bounds.push(bound);
    }
}

/// The best shares, and the seconds that one byte more would save.
pub(super) fn solve(form: &NormalForm, goal: Goal, constraint: Constraint) -> Result<(Vec<f64>, f64), ProgrammeError> {
    let list_count = form.lists.len();
    let variable_count = list_count + form.pipelines.len();
    let all_bytes = form.all_bytes();
    let all_s = form.seconds(&vec![0.0; list_count]);
    let byte_parts = || form.lists.iter().map(|(_, size_bytes, _)| size_bytes / all_bytes).enumerate();
    let time_parts =
        || form.pipelines.iter().enumerate().map(|(at, pipeline)| (list_count + at, pipeline.weight_s / all_s));

    let mut rows = Rows::default();
    match constraint {
        Constraint::Memory { bytes } => {
            rows.at_most(1.0, byte_parts().map(|(list, part)| (list, part * (all_bytes / bytes))));
        }
        Constraint::Time { seconds } => {
            rows.at_most(1.0, time_parts().map(|(time, part)| (time, part * (all_s / seconds))));
        }
    }
    for list in 0..list_count {
        rows.at_most(0.0, [(list, -1.0)]);
        rows.at_most(1.0, [(list, 1.0)]);
    }
    for (time, pipeline) in (list_count..).zip(&form.pipelines) {
        let columns = || pipeline.columns.iter().copied();
        if pipeline.reading > 0.0 {
            let saved = columns().map(|(list, part)| (list, -part * pipeline.reading));
            rows.at_most(-pipeline.least - pipeline.reading, saved.chain([(time, -1.0)]));
        } else {
            rows.at_most(-pipeline.least, [(time, -1.0)]);
        }
        match form.combination {
            Combination::SumOverDevice => {
                rows.at_most(-1.0, columns().map(|(list, part)| (list, -part)).chain([(time, -1.0)]));
                if pipeline.memory > 0.0 {
                    rows.at_most(
                        0.0,
                        columns().map(|(list, part)| (list, part * pipeline.memory)).chain([(time, -1.0)]),
                    );
                }
            }
            Combination::MaxOverColumns => {
                for (list, part) in columns() {
                    rows.at_most(-part, [(list, -part), (time, -1.0)]);
                    if pipeline.memory > 0.0 {
                        rows.at_most(0.0, [(list, part * pipeline.memory), (time, -1.0)]);
                    }
                }
            }
        }
    }

    // Half of the tie break is for fewer bytes, half for steady shares: (share - earlier)^2 is at most one.
    let mut objective = vec![0.0; variable_count];
    let mut curvature = vec![0.0; variable_count];
    for ((list, part), (_, _, earlier)) in byte_parts().zip(&form.lists) {
        let tie_break = TIE_BREAK / 2.0 * part;
        let per_byte = if goal == Goal::Memory { part } else { tie_break };
        objective[list] = per_byte - 2.0 * tie_break * earlier;
        curvature[list] = 2.0 * tie_break;
    }
    if goal == Goal::Time {
        time_parts().for_each(|(time, part)| objective[time] = part);
    }

    let solution = run(objective, &curvature, rows).map_err(|status| ProgrammeError::Solver {
        status: format!("{status:?}"),
        list_count,
        pipeline_count: form.pipelines.len(),
    })?;
    let cut = |share: &f64| match *share {
        share if share < NEGLIGIBLE_SHARE => 0.0,
        share if share > 1.0 - NEGLIGIBLE_SHARE => 1.0,
        share => share,
    };
    let shares = solution.shares_and_times[..list_count].iter().map(cut).collect();
    let price = match constraint {
        Constraint::Memory { bytes } => solution.first_row_price * all_s / bytes,
        // The price is in parts of all bytes for the whole time; no price, no time to be had for bytes.
        Constraint::Time { seconds } if solution.first_row_price > TOLERANCE => {
            seconds / (solution.first_row_price * all_bytes)
        }
        Constraint::Time { .. } => 0.0,
    };
    Ok((shares, price))
}

struct Solution {
    shares_and_times: Vec<f64>,
    /// By how much the objective falls for each part by which the first row's bound of one rises.
    first_row_price: f64,
}

fn run(objective: Vec<f64>, curvature: &[f64], rows: Rows) -> Result<Solution, SolverStatus> {
    let (row_count, variable_count) = (rows.bounds.len(), objective.len());
    let diagonal: Vec<usize> = (0..variable_count).filter(|at| curvature[*at] > 0.0).collect();
    let curvature = diagonal.iter().map(|at| curvature[*at]).collect();
    let curvature = CscMatrix::new_from_triplets(variable_count, variable_count, diagonal.clone(), diagonal, curvature);
    let factors = CscMatrix::new_from_triplets(row_count, variable_count, rows.row_at, rows.variable_at, rows.factors);
    let settings = DefaultSettings {
        verbose: false,
        tol_gap_abs: TOLERANCE,
        tol_gap_rel: TOLERANCE,
        tol_feas: TOLERANCE,
        ..DefaultSettings::default()
    };
    let cones = [NonnegativeConeT(row_count)];
    let mut solver = DefaultSolver::new(&curvature, &objective, &factors, &rows.bounds, &cones, settings);
    solver.solve();
    match solver.solution.status {
        SolverStatus::Solved | SolverStatus::AlmostSolved => {
            Ok(Solution { first_row_price: solver.solution.z[0].max(0.0), shares_and_times: solver.solution.x })
        }
        status => Err(status),
    }
}
