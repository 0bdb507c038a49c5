//! Groups of grouping sets come in no order.
//!
//! DataFusion takes rows that are ordered by a column, or have one value in it, to be grouped by it in that order, and
//! gives each group out once the next value comes. A grouping set that leaves the column out has NULL in its place: with
//! `ROLLUP`, `CUBE` and `GROUPING SETS` over a column that a filter makes constant, groups came several times, each with a
//! part of its rows (DataFusion 55.2, `AggregateExec`). [`UnorderedGroupingSets`] hides the order from such aggregates
//! before any other rule counts on it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::veil::{Hidden, VeilExec};

/// See the module. The first of all rules.
#[derive(Debug)]
pub(super) struct UnorderedGroupingSets;

impl PhysicalOptimizerRule for UnorderedGroupingSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<AggregateExec>().map(unordered).transpose()?.flatten() {
            Some(unordered) => Ok(Transformed::yes(unordered)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "unordered_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregate over columns that nothing is known of; `None` if it has one grouping. What is known of its input counts
/// even where it makes no use of that itself: whatever adds its groups up takes their columns for constant too.
fn unordered(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let groups = aggregate.group_expr();
    if groups.is_single() {
        return Ok(None);
    }
    let input = aggregate.input();
    // What is computed of constants is known to be one too: it becomes a column.
    let schema = input.schema();
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        ProjectionExpr { expr: column, alias: field.name().clone() }
    });
    let mut columns: Vec<ProjectionExpr> = columns.collect();
    let mut grouped = Vec::with_capacity(groups.expr().len());
    for (expr, name) in groups.expr() {
        let column = match expr.downcast_ref::<Column>() {
            Some(column) => column.clone(),
            None => {
                let alias = format!("group {}", columns.len());
                columns.push(ProjectionExpr { expr: Arc::clone(expr), alias: alias.clone() });
                Column::new(&alias, columns.len() - 1)
            }
        };
        grouped.push((Arc::new(column) as Arc<dyn PhysicalExpr>, name.clone()));
    }
    let input: Arc<dyn ExecutionPlan> = match columns.len() > schema.fields().len() {
        true => Arc::new(ProjectionExec::try_new(columns, Arc::clone(input))?),
        false => Arc::clone(input),
    };
    let groups = PhysicalGroupBy::new(grouped, groups.null_expr().to_vec(), groups.groups().to_vec(), true);
    let aggregate = AggregateExec::try_new(
        *aggregate.mode(),
        groups,
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::new(VeilExec::over(input, Hidden::Order)),
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(aggregate)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};

    #[tokio::test]
    async fn groups_over_constants_come_once() {
        let config = SessionConfig::new().with_target_partitions(2).with_batch_size(10);
        let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
        let mut rules = state.physical_optimizers().to_vec();
        super::super::install(&mut rules, &state.runtime_env().memory_pool);
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
        let session = SessionContext::new_with_state(state);
        let table = "CREATE TABLE t AS SELECT value % 2 AS a, value % 100 AS c FROM generate_series(1, 2000)";
        session.sql(table).await.unwrap().collect().await.unwrap();
        for (groups, expected) in [
            // c is even where a is 0.
            ("CUBE(a, c)", 2 * (50 + 1)),
            ("ROLLUP(a, c)", 50 + 2),
            ("CUBE('x', c)", 2 * (50 + 1)),
            ("GROUPING SETS ((a, c), (c), (a), ())", 2 * (50 + 1)),
            ("CUBE(a + 1, c)", 2 * (50 + 1)),
        ] {
            let sql =
                format!("SELECT count(*), sum(n) FROM (SELECT count(*) AS n FROM t WHERE a = 0 GROUP BY {groups})");
            let rows = session.sql(&sql).await.unwrap().collect().await.unwrap();
            let counted = rows[0].column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!(counted, expected, "{groups}");
        }
    }
}
