//! What the columns of an answer are called.
//!
//! DataFusion calls an unnamed field of a struct by its whole path, `o.customer[city]`; other engines call it `city`.
//! So do we in what leaves the session (rows, `CREATE TABLE … AS`, `COPY`), unless another column of the answer has
//! that name. Inside a query the long name stays: it is the one by which DataFusion resolves columns.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::{DdlStatement, Distinct, Expr, LogicalPlan, Projection};

/// The statement, with fields of structs in its answer called by their own names.
///
/// # Errors
/// None that planning the statement would not have met before.
pub(super) fn shortened(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(mut command)) => {
            command.input = Arc::new(renamed(Arc::unwrap_or_clone(command.input))?);
            Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)))
        }
        LogicalPlan::Copy(mut command) => {
            command.input = Arc::new(renamed(Arc::unwrap_or_clone(command.input))?);
            Ok(LogicalPlan::Copy(command))
        }
        plan => renamed(plan),
    }
}

fn renamed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let names: Vec<Option<String>> = (0..plan.schema().fields().len()).map(|index| field_name(&plan, index)).collect();
    if names.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let mut uses = HashMap::new();
    for (field, name) in plan.schema().fields().iter().zip(&names) {
        *uses.entry(name.as_ref().unwrap_or(field.name()).clone()).or_insert(0) += 1;
    }
    let exprs = plan.schema().columns().into_iter().zip(names).map(|(column, name)| match name {
        Some(name) if uses.get(&name) == Some(&1) => Expr::Column(column).alias(name),
        _ => Expr::Column(column),
    });
    Ok(LogicalPlan::Projection(Projection::try_new(exprs.collect(), Arc::new(plan))?))
}

/// The name of the field that column `index` is, if nobody has given the column another name.
fn field_name(plan: &LogicalPlan, index: usize) -> Option<String> {
    match plan {
        LogicalPlan::Projection(projection) => expr_field_name(projection.expr.get(index)?, &projection.input),
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.get(index)? {
            // It stands for several columns.
            Expr::GroupingSet(_) => None,
            expr => expr_field_name(expr, &aggregate.input),
        },
        LogicalPlan::Sort(sort) => field_name(&sort.input, index),
        LogicalPlan::Limit(limit) => field_name(&limit.input, index),
        LogicalPlan::Filter(filter) => field_name(&filter.input, index),
        LogicalPlan::Distinct(Distinct::All(input)) => field_name(input, index),
        LogicalPlan::SubqueryAlias(alias) => field_name(&alias.input, index),
        LogicalPlan::Union(union) => field_name(union.inputs.first()?, index),
        _ => None,
    }
}

fn expr_field_name(expr: &Expr, input: &LogicalPlan) -> Option<String> {
    match expr {
        Expr::Column(column) => field_name(input, input.schema().maybe_index_of_column(column)?),
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => match call.args.last()? {
            Expr::Literal(name, _) => name.try_as_str().flatten().map(str::to_owned),
            _ => None,
        },
        _ => None,
    }
}
