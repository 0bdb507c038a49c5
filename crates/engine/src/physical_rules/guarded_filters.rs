//! Filters whose parts that can fail see only rows that the parts before them let through.
//!
//! `x <> 0 AND 1000 / x > 5` is one filter of DataFusion's, which works out both sides for a whole batch unless few rows
//! pass the first: one row without a quotient fails the query. Over files the first part is the scan's own, so that the
//! same query has an answer there. [`GuardedFilters`] makes several filters of one: what cannot fail comes first, whatever
//! the order it was written in, and then each part that can, in that order.
//!
//! Which rows pass stays the same.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

/// Comes after all rules that move filters, which would make one of two again.
#[derive(Debug)]
pub(super) struct GuardedFilters;

impl PhysicalOptimizerRule for GuardedFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<FilterExec>().map(guarded).transpose()?.flatten() {
            Some(guarded) => Ok(Transformed::yes(guarded)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "guarded_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Several filters for one with a part that can fail beside others.
fn guarded(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = filter.input().schema();
    let (guards, mut steps): (Vec<_>, Vec<_>) =
        split_conjunction(filter.predicate()).into_iter().cloned().partition(|part| never_fails(part, &schema));
    if !guards.is_empty() {
        steps.insert(0, conjunction(guards));
    }
    let Some(last) = steps.pop().filter(|_| !steps.is_empty()) else { return Ok(None) };
    let mut input = Arc::clone(filter.input());
    for step in steps {
        let below = FilterExecBuilder::new(step, input)
            .with_default_selectivity(filter.default_selectivity())
            .with_batch_size(filter.batch_size());
        input = Arc::new(below.build()?);
    }
    Ok(Some(Arc::new(FilterExecBuilder::from(filter).with_predicate(last).with_input(input).build()?)))
}

/// Whether the expression has a value for every row. Of what is not known it is not said.
fn never_fails(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    is_total(expr.as_ref(), schema) && expr.children().into_iter().all(|child| never_fails(child, schema))
}

/// Functions that have a value for all values of their arguments' types.
const TOTAL_FUNCTIONS: [&str; 17] = [
    "apart",
    "bit_length",
    "btrim",
    "character_length",
    "contains",
    "ends_with",
    "lower",
    "ltrim",
    "octet_length",
    "one_nan",
    "reverse",
    "rtrim",
    "starts_with",
    "strpos",
    "trim",
    "upper",
    "date_part",
];

/// Whether the expression has a value for all values of its children.
fn is_total(expr: &dyn PhysicalExpr, schema: &Schema) -> bool {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return is_total_operation(binary, schema);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return cast.expr().data_type(schema).is_ok_and(|from| is_total_cast(&from, cast));
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return TOTAL_FUNCTIONS.contains(&function.fun().name());
    }
    expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<LikeExpr>()
        || expr.is::<DynamicFilterPhysicalExpr>()
}

fn is_total_operation(binary: &BinaryExpr, schema: &Schema) -> bool {
    use Operator::{
        And, Divide, Eq, Gt, GtEq, ILikeMatch, IsDistinctFrom, IsNotDistinctFrom, LikeMatch, Lt, LtEq, Minus, Modulo,
        Multiply, NotEq, NotILikeMatch, NotLikeMatch, Or, Plus,
    };
    let is_of = |holds: fn(&DataType) -> bool| {
        [binary.left(), binary.right()].iter().all(|side| side.data_type(schema).is_ok_and(|side| holds(&side)))
    };
    match binary.op() {
        Divide | Modulo => is_of(DataType::is_floating),
        // Of integers they wrap around.
        Plus | Minus | Multiply => is_of(DataType::is_floating) || is_of(DataType::is_integer),
        And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => true,
        LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch => true,
        // A pattern may be none.
        _ => false,
    }
}

fn is_total_cast(from: &DataType, cast: &CastExpr) -> bool {
    let to = cast.cast_type();
    let values_of = |from: &DataType| match from {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    };
    cast.is_bigger_cast(from)
        || (from.is_numeric() && to.is_floating())
        || (from.is_string() && to.is_string())
        || values_of(from) == *to
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::array::{Float64Array, Int32Array, RecordBatch, StringArray};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::physical_plan::displayable;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// A table of one column of each kind, with rows that no division and no cast has a value for.
    fn session() -> SessionContext {
        let state = SessionStateBuilder::new().with_default_features().build();
        let mut rules = state.physical_optimizers().to_vec();
        rules.push(Arc::new(GuardedFilters));
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
        let session = SessionContext::new_with_state(state);
        let batch = RecordBatch::try_from_iter([
            ("x", Arc::new(Int32Array::from(vec![1, 0, 100, 500, 0, 7])) as _),
            ("y", Arc::new(Float64Array::from(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])) as _),
            ("s", Arc::new(StringArray::from(vec!["1", "a", "b", "4", "5", "6"])) as _),
        ]);
        session.register_batch("t", batch.unwrap()).unwrap();
        session
    }

    async fn filter_count(session: &SessionContext, sql: &str) -> usize {
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        displayable(plan.as_ref()).indent(true).to_string().matches("FilterExec").count()
    }

    #[tokio::test]
    async fn what_can_fail_sees_only_rows_that_the_rest_lets_through() {
        let session = session();
        for (sql, expected) in [
            ("SELECT x FROM t WHERE x <> 0 AND 1000 / x > 5 ORDER BY x", vec![1, 7, 100]),
            ("SELECT x FROM t WHERE 1000 / x > 5 AND x <> 0 ORDER BY x", vec![1, 7, 100]),
            ("SELECT x FROM t WHERE x > 0 AND 1000 % x = 0 AND y < 3 ORDER BY x", vec![1, 100]),
            ("SELECT x FROM t WHERE s NOT IN ('a', 'b') AND CAST(s AS INT) > 3 ORDER BY x", vec![0, 7, 500]),
            ("SELECT x FROM t WHERE 1000 / (x + 1) > 2 AND 1000 / x > 5 AND x <> 0 LIMIT 9", vec![1, 100, 7]),
            ("SELECT x FROM t WHERE 5 / (x + 1) < 5 AND 1000 / x > 5 ORDER BY x", vec![1, 7, 100]),
            ("SELECT x FROM t WHERE lower(s) <> 'a' AND s <> 'b' AND CAST(s AS INT) < 3 AND y < 9", vec![1]),
        ] {
            assert!(filter_count(&session, sql).await > 1, "{sql}");
            let rows = session.sql(sql).await.unwrap().collect().await.unwrap();
            let found: Vec<i32> = rows
                .iter()
                .flat_map(|batch| batch.column(0).as_any().downcast_ref::<Int32Array>().unwrap().values().to_vec())
                .collect();
            assert_eq!(found, expected, "{sql}: {}", pretty_format_batches(&rows).unwrap());
        }
        let sql = "SELECT x FROM t WHERE 1000 / x > 5";
        assert!(session.sql(sql).await.unwrap().collect().await.is_err());
    }

    #[tokio::test]
    async fn filters_of_one_kind_stay_one() {
        let session = session();
        for sql in [
            "SELECT s FROM t WHERE x <> 0 AND y / x > 2 AND x + 1 < 9 AND s LIKE '%a' AND x IS NOT NULL",
            "SELECT s FROM t WHERE CAST(x AS BIGINT) > 3 AND y <> 3 AND NOT (x = 3 OR s IN ('a', 'b'))",
            "SELECT s FROM t WHERE 10 / x > 3",
        ] {
            assert_eq!(filter_count(&session, sql).await, 1, "{sql}");
        }
    }
}
