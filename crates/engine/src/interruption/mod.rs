//! Lets a query with joins be stopped.
//!
//! A query is cancelled by dropping its stream: tasks end the next time they return to the runtime. Joins may not
//! return for minutes. A cross join answers every poll with a batch that costs its scan nothing, so that an aggregate
//! above it never runs out of the runtime's budget; a join whose condition nothing meets goes through all pairs of rows
//! in one poll. [`interruptible`] changes the physical plan in two ways:
//!
//! - what a join puts out counts against the budget, and between batches that a join probes with the task returns to
//!   the runtime ([`returning`]);
//! - a condition that is asked about pairs of rows first asks whether anybody still wants the answer ([`stop_check`]),
//!   which the root of the plan knows, or what a sink takes its rows from ([`run`]). If the pairs take it long, it also
//!   frees the runtime's worker: whoever drops the stream may need one ([`hand_over`]).
//!
//! Beside that, nested loop joins are made able to execute their left side again ([`repeatable`]).
//!
//! Sort-merge joins (off by default) are left as they are. Answers, order and partitions are those of the plan as it
//! was.
//!
//! Concurrency: the only shared state is two atomics a query.

mod hand_over;
mod repeatable;
mod returning;
mod run;
mod stop_check;

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::JoinType::{Full, Inner, Left, Right};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use thermocline_hardware::Clock;

use self::repeatable::RepeatableExec;
use self::returning::{Place, ReturningExec};
use self::run::{Run, RunExec};
use self::stop_check::StopCheck;

/// The plan with joins that stop soon after its streams are dropped. Plans without joins stay as they are.
pub(crate) fn interruptible(plan: Arc<dyn ExecutionPlan>, clock: &Arc<dyn Clock>) -> Result<Arc<dyn ExecutionPlan>> {
    let run = Arc::new(Run::new(Arc::clone(clock)));
    let mut is_checked = false;
    let plan = plan.transform_up(|node| {
        let join: Arc<dyn ExecutionPlan> = if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            is_checked = true;
            let filter = join.filter().cloned().unwrap_or_else(always);
            let join =
                NestedLoopJoinExecBuilder::from(join).with_filter(Some(StopCheck::before(&filter, &run))).build()?;
            with_probe_side(with_repeatable_side(Arc::new(join))?)?
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            // One that only tells whether there is a match may find many of them without putting anything out.
            let only_tells = !matches!(join.join_type, Inner | Left | Right | Full);
            match join.filter().cloned().or_else(|| only_tells.then(always)) {
                Some(filter) => {
                    is_checked = true;
                    let filter = StopCheck::before(&filter, &run);
                    with_probe_side(join.builder().with_filter(Some(filter)).build_exec()?)?
                }
                None => with_probe_side(Arc::clone(&node))?,
            }
        } else if node.downcast_ref::<CrossJoinExec>().is_some() {
            Arc::clone(&node)
        } else {
            return Ok(Transformed::no(node));
        };
        let properties = Arc::clone(node.properties());
        Ok(Transformed::yes(Arc::new(ReturningExec::new(join, Place::Output, properties)) as _))
    })?;
    if is_checked { with_readers(plan.data, &run) } else { Ok(plan.data) }
}

/// The plan, which knows of those who read it. A sink reads by itself: it has undone what it did when the plan's stream is
/// dropped, which it could not were it at work in a task.
fn with_readers(plan: Arc<dyn ExecutionPlan>, run: &Arc<Run>) -> Result<Arc<dyn ExecutionPlan>> {
    if !has_sink(&plan) {
        return Ok(Arc::new(RunExec::new(plan, Arc::clone(run))));
    }
    // The input of a sink; or a plan with a sink, and subqueries beside it.
    let children = plan.children().into_iter().map(|child| with_readers(Arc::clone(child), run));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// Whether what a plan computes goes into a sink.
fn has_sink(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<ScalarSubqueryExec>() {
        Some(exec) => has_sink(exec.input()),
        None => plan.is::<DataSinkExec>(),
    }
}

/// The condition of a join that has none.
fn always() -> JoinFilter {
    JoinFilter::new(lit(true), vec![], Arc::new(Schema::empty()))
}

fn with_repeatable_side(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children: Vec<_> = join.children().into_iter().cloned().collect();
    if let Some(gathered) = children.first_mut() {
        *gathered = Arc::new(RepeatableExec::new(Arc::clone(gathered)));
    }
    replace_children_if_necessary(join, children)
}

fn with_probe_side(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children: Vec<_> = join.children().into_iter().cloned().collect();
    if let Some(probe_side) = children.pop() {
        let properties = Arc::clone(probe_side.properties());
        children.push(Arc::new(ReturningExec::new(probe_side, Place::ProbeSide, properties)));
    }
    replace_children_if_necessary(join, children)
}

#[cfg(test)]
mod tests;
