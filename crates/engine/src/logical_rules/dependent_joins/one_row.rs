//! `one_row(value, row_count)`: the value, of a row at most, which may be NULL whatever it is of.
//!
//! DataFusion takes a subquery's value to be as NULL as its column is (55.2, `Expr::nullable`), also where it has no row: of
//! `SELECT (SELECT 1 WHERE false)` it said that NULL is no value of the column, and `(…) IS NULL` was false.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::max;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Distinct, EmptyRelation, Expr, LogicalPlan, Projection, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Sort, Subquery, SubqueryAlias, Volatility, Window, lit,
};

use crate::plan_expressions::map_expressions;

static ONE_ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(OneRow::default())));

/// `one_row(value, row_count)`.
pub(super) fn call(value: Expr, row_count: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&ONE_ROW), vec![value, row_count]))
}

/// Whether it is `one_row(..)`, which is the same each time.
pub(super) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if Arc::ptr_eq(&call.func, &ONE_ROW))
}

/// The node, whose subqueries' values may be NULL unless they always have a row.
pub(super) fn with_nullable_values(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    map_expressions(node, |expr| {
        expr.transform_up(|nested| match nested {
            Expr::ScalarSubquery(asked)
                if !asked.subquery.schema().field(0).is_nullable() && !has_row(&asked.subquery) =>
            {
                let (qualifier, field) = asked.subquery.schema().qualified_field(0);
                let value = call(Expr::Column(Column::from((qualifier, field))), lit(1_i64));
                let value = value.alias_qualified(qualifier.cloned(), field.name());
                let plan = Projection::try_new(vec![value], Arc::clone(&asked.subquery))?;
                let subquery = Arc::new(LogicalPlan::Projection(plan));
                Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery, ..asked })))
            }
            other => Ok(Transformed::no(other)),
        })
    })
}

/// Whether there is a row in any case.
fn has_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => group_expr.is_empty(),
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row, .. }) => *produce_one_row,
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
        | LogicalPlan::Sort(Sort { input, fetch: None, .. })
        | LogicalPlan::Window(Window { input, .. })
        | LogicalPlan::Distinct(Distinct::All(input)) => has_row(input),
        _ => false,
    }
}

/// No name that SQL could find. Volatile, so that it is asked where it stands: of the rows that a query is about.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneRow {
    signature: Signature,
}

impl Default for OneRow {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for OneRow {
    fn name(&self) -> &str {
        "one_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [value, _] => Ok(value.clone()),
            types => plan_err!("one_row takes two arguments, not {}", types.len()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [value, _] => Ok(Arc::new(Field::new(self.name(), value.data_type().clone(), true))),
            fields => plan_err!("one_row takes two arguments, not {}", fields.len()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(row_counts), Some(value), 0) = (args.args.pop(), args.args.pop(), args.args.len()) else {
            return plan_err!("one_row takes two arguments");
        };
        let row_counts = row_counts.into_array(args.number_rows)?;
        if let Some(most) = max(row_counts.as_primitive::<Int64Type>())
            && most > 1
        {
            return exec_err!(
                "a subquery that is used as a value has {most} rows for a row of the query around it, where there may be one at \
                 most: take an aggregate of them, or LIMIT 1"
            );
        }
        Ok(value)
    }
}
