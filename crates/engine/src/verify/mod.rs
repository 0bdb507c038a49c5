//! `SET thermocline.verify = true`: every query runs once with the caches and fused pipelines and once without, and the
//! answers must agree.
//!
//! A tool for those who doubt, and for tests. Both runs see the same versions of files and column tables; where a table in
//! memory has changed between them, they are run again. Rows are compared as multisets; floating point values may differ
//! by the rounding of another order of summation. Queries of which nothing is determined run once, and so do those that
//! read `information_schema`, whose settings are others in each run.

mod comparison;
mod determined;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use crate::error::{Error, ErrorKind, Result};
use crate::query::QueryContext;
use crate::session::{MemoryTable, QueryResult, Session};
use crate::settings::ThermoclineConfig;
use comparison::{Closeness, difference};
use determined::Determined;

/// How often the runs are repeated whose tables in memory have changed between them. Who changes them all the time gets
/// an answer that was not compared.
const ATTEMPTS: usize = 3;

/// What two runs of `plan` must agree on; `Nothing` for a statement that must not run twice.
fn determined(plan: &LogicalPlan) -> Determined {
    match plan {
        LogicalPlan::Copy(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::DescribeTable(_) => Determined::Nothing,
        plan if reads_streams(plan) => Determined::Nothing,
        plan => Determined::of(plan),
    }
}

/// Whether running the plan twice is harmless and its answer repeatable.
pub(crate) fn applies_to(plan: &LogicalPlan) -> bool {
    determined(plan) != Determined::Nothing
}

/// Runs `plan` both ways and returns the rows if they agree.
pub(crate) async fn run(session: &Session, plan: &LogicalPlan) -> Result<QueryResult> {
    let mut attempt = 1;
    loop {
        let before = versions(plan);
        let context = Arc::new(QueryContext::default());
        let with = |config: &mut ThermoclineConfig| config.cache = true;
        let (schema, cached) = session.collect_with(plan, &context, with).await?;
        let without = |config: &mut ThermoclineConfig| (config.cache, config.fused_pipelines) = (false, false);
        let (_, plain) = session.collect_with(plan, &context, without).await?;
        let closeness = Closeness::new(sums(plan));
        let found = difference(&determined(plan), closeness, &cached, &plain).map_err(DataFusionError::from)?;
        let Some(difference) = found else { return QueryResult::from_batches(schema, cached) };
        if versions(plan) == before {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("thermocline.verify: the answer with caches differs from the one without: {difference}"),
            ));
        }
        if attempt == ATTEMPTS {
            return QueryResult::from_batches(schema, cached);
        }
        attempt += 1;
    }
}

/// The versions of the tables in memory that the plan reads.
fn versions(plan: &LogicalPlan) -> Vec<u64> {
    let mut versions = Vec::new();
    each_table(plan, |table| versions.extend(table.downcast_ref::<MemoryTable>().map(MemoryTable::version)));
    versions
}

/// Whether the plan reads what is made up while it runs, such as the tables of `information_schema`.
fn reads_streams(plan: &LogicalPlan) -> bool {
    let mut is_read = false;
    each_table(plan, |table| is_read |= table.is::<StreamingTable>());
    is_read
}

fn each_table(plan: &LogicalPlan, mut see: impl FnMut(&dyn TableProvider)) {
    // The closure never fails, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            see(provider.as_ref());
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

/// Whether the plan computes values of many rows, which may be added up in any order.
fn sums(plan: &LogicalPlan) -> bool {
    let mut sums = false;
    // The closure never fails, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        sums |= matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
        Ok(if sums { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    sums
}
