//! How much of a plan's answer the query determines: two right runs may differ in the rest.
//!
//! SQL leaves open which of several tied rows `ORDER BY … LIMIT` keeps, in which order an aggregate such as `array_agg`
//! sees its rows, and how `row_number()` counts rows that tie.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{
    Distinct, Expr, LogicalPlan, Sort, SortExpr, Volatility, WindowFrameUnits, WindowFunctionDefinition,
};

/// What two runs of a plan must agree on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Determined {
    /// Every row.
    Rows,
    /// The values of these columns of the answer, by which `ORDER BY … LIMIT` has sorted it, and every row that does
    /// not tie with the first or last one in them.
    SortedBy(Vec<usize>),
    /// Nothing: the query may answer otherwise each time.
    Nothing,
}

impl Determined {
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let limited = limited_sort(plan);
        let mut repeatable = true;
        // The closure never fails, so neither does the walk.
        let _ = plan.apply_with_subqueries(|node| {
            let is_root = std::ptr::eq(node, plan) || limited.is_some_and(|sort| std::ptr::eq(node, sort.node));
            if (!is_root && keeps_any_of_tied_rows(node)) || node.expressions().iter().any(may_change) {
                repeatable = false;
                return Ok(TreeNodeRecursion::Stop);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        match limited {
            _ if !repeatable => Self::Nothing,
            Some(limited) => match columns_of(&limited.sort.expr, limited.sort.input.schema()) {
                Some(columns) => Self::SortedBy(columns),
                None => Self::Nothing,
            },
            None if keeps_any_of_tied_rows(plan) => Self::Nothing,
            None => Self::Rows,
        }
    }
}

/// A sort of which the plan's root keeps a part.
#[derive(Clone, Copy)]
struct LimitedSort<'a> {
    node: &'a LogicalPlan,
    sort: &'a Sort,
}

fn limited_sort(plan: &LogicalPlan) -> Option<LimitedSort<'_>> {
    let node = match plan {
        LogicalPlan::Limit(limit) => limit.input.as_ref(),
        sorted => sorted,
    };
    match node {
        LogicalPlan::Sort(sort) if sort.fetch.is_some() || matches!(plan, LogicalPlan::Limit(_)) => {
            Some(LimitedSort { node, sort })
        }
        _ => None,
    }
}

/// Whether `node` keeps some rows of its input and the query does not say which.
fn keeps_any_of_tied_rows(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Limit(limit) => !matches!(limit.input.as_ref(), LogicalPlan::Sort(sort) if orders_wholly(sort)),
        LogicalPlan::Sort(sort) => sort.fetch.is_some() && !orders_wholly(sort),
        LogicalPlan::Distinct(Distinct::On(_)) => true,
        _ => false,
    }
}

/// Whether rows that tie in the sort are equal in every column.
fn orders_wholly(sort: &Sort) -> bool {
    let schema = sort.input.schema();
    columns_of(&sort.expr, schema)
        .is_some_and(|columns| (0..schema.fields().len()).all(|index| columns.contains(&index)))
}

/// The columns that the sort expressions are; nothing if one of them is another expression.
fn columns_of(sorts: &[SortExpr], schema: &DFSchema) -> Option<Vec<usize>> {
    sorts
        .iter()
        .map(|sort| match &sort.expr {
            Expr::Column(column) => schema.index_of_column(column).ok(),
            _ => None,
        })
        .collect()
}

/// Whether an expression, or one below it, may give another value for the same rows.
fn may_change(expr: &Expr) -> bool {
    let changes = |expr: &Expr| match expr {
        // A stable function, such as `now()`, is constant within one run only.
        Expr::ScalarFunction(ScalarFunction { func, .. }) => func.signature().volatility != Volatility::Immutable,
        Expr::AggregateFunction(AggregateFunction { func, .. }) => depends_on_order(func.name()),
        Expr::WindowFunction(window) => window_depends_on_order(window),
        _ => false,
    };
    // The closure never fails, so neither does the walk.
    expr.exists(|expr| Ok(changes(expr))).unwrap_or(true)
}

/// Aggregates whose value depends on the order in which they see rows, or in which parts of them are merged.
fn depends_on_order(aggregate: &str) -> bool {
    const NAMES: [&str; 9] = [
        "any_value",
        "approx_median",
        "approx_percentile_cont",
        "approx_percentile_cont_with_weight",
        "array_agg",
        "first_value",
        "last_value",
        "nth_value",
        "string_agg",
    ];
    NAMES.contains(&aggregate)
}

fn window_depends_on_order(window: &WindowFunction) -> bool {
    match &window.fun {
        WindowFunctionDefinition::WindowUDF(function) => {
            !["rank", "dense_rank", "percent_rank", "cume_dist"].contains(&function.name())
        }
        WindowFunctionDefinition::AggregateUDF(function) => {
            window.params.window_frame.units == WindowFrameUnits::Rows || depends_on_order(function.name())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::SessionContext;

    use super::Determined;

    async fn of(sql: &str) -> Determined {
        let context = SessionContext::new();
        context.sql("CREATE TABLE t (a INT, b INT)").await.unwrap();
        Determined::of(&context.state().create_logical_plan(sql).await.unwrap())
    }

    #[tokio::test]
    async fn answers_that_no_order_decides_are_determined() {
        for sql in [
            "SELECT a, b FROM t",
            "SELECT a, sum(b) FROM t GROUP BY a ORDER BY 2",
            "SELECT rank() OVER (ORDER BY a), sum(b) OVER (ORDER BY a) FROM t",
            "SELECT count(*) FROM (SELECT a FROM t ORDER BY a LIMIT 3) WHERE a > 1",
        ] {
            assert_eq!(of(sql).await, Determined::Rows, "{sql}");
        }
    }

    #[tokio::test]
    async fn a_limited_order_determines_its_keys() {
        assert_eq!(of("SELECT a, b FROM t ORDER BY b LIMIT 3").await, Determined::SortedBy(vec![1]));
        assert_eq!(of("SELECT a, b FROM t ORDER BY b, a LIMIT 3 OFFSET 2").await, Determined::SortedBy(vec![1, 0]));
    }

    #[tokio::test]
    async fn what_ties_chance_or_the_clock_decide_is_not_determined() {
        for sql in [
            "SELECT a FROM t LIMIT 3",
            "SELECT a FROM t ORDER BY b LIMIT 3",
            "SELECT a FROM t ORDER BY a + b LIMIT 3",
            "SELECT sum(b) FROM (SELECT a, b FROM t ORDER BY a LIMIT 3)",
            "SELECT a FROM t WHERE b IN (SELECT b FROM t LIMIT 3)",
            "SELECT DISTINCT ON (a) a, b FROM t",
            "SELECT array_agg(a) FROM t",
            "SELECT row_number() OVER (ORDER BY a) FROM t",
            "SELECT sum(b) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING) FROM t",
            "SELECT a FROM t WHERE random() < 0.5",
            "SELECT now()",
        ] {
            assert_eq!(of(sql).await, Determined::Nothing, "{sql}");
        }
    }
}
