//! The values that the outer rows have in the columns that a subquery names.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result, not_impl_err};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, Filter, Join, Limit, LogicalPlan, Projection, Sort, SubqueryAlias,
    Window, WindowFrameUnits,
};

use super::super::correlated_keys::has_subquery;
use super::{Names, lateral, one_row, outer_columns};
use crate::plan_expressions::input_schema;

/// Those values, each once, and maybe others.
pub(super) struct Domain {
    source: Arc<LogicalPlan>,
    columns: Vec<(Column, FieldRef)>,
    has_nulls: bool,
}

impl Domain {
    /// Of the columns of a plan.
    ///
    /// # Errors
    /// When the plan may have other values when it is asked again. The rows with these would be taken to have no match.
    pub(super) fn of(rows: &LogicalPlan, columns: Vec<(Column, FieldRef)>) -> Result<Self> {
        let names: Vec<Column> = columns.iter().map(|(column, _)| column.clone()).collect();
        let source = with_values(rows, &names)?;
        if let Some(why) = unrepeatable(&source)? {
            return not_impl_err!(
                "a subquery that names {}, of rows that {why}: put those rows into a table first, by CREATE TABLE … AS",
                names.iter().map(Column::flat_name).collect::<Vec<_>>().join(", ")
            );
        }
        let mut has_nulls = false;
        for name in &names {
            has_nulls |= rows.schema().field_from_column(name)?.is_nullable();
        }
        Ok(Self { source: Arc::new(source), columns, has_nulls })
    }

    /// The columns of the outer rows.
    pub(super) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().map(|(column, _)| column)
    }

    /// The same, with their fields.
    pub(super) fn fields(&self) -> &[(Column, FieldRef)] {
        &self.columns
    }

    /// Whether NULL may be among the values.
    pub(super) fn has_nulls(&self) -> bool {
        self.has_nulls
    }

    /// A plan of the values, and its columns.
    pub(super) fn values(&self, names: &mut Names) -> Result<(LogicalPlan, Vec<Column>)> {
        let keys: Vec<String> = self.columns.iter().map(|_| names.fresh("outer")).collect();
        let named = self.columns().zip(&keys).map(|(column, key)| Expr::Column(column.clone()).alias(key.as_str()));
        let rows = LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::clone(&self.source))?);
        let keys = keys.into_iter().map(Column::new_unqualified).collect();
        Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(rows))), keys))
    }
}

/// A plan with the values that the columns have in `plan`, and maybe more: without what leaves out rows by chance, and what
/// the columns have nothing to do with.
fn with_values(plan: &LogicalPlan, columns: &[Column]) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Limit(Limit { input, .. }) | LogicalPlan::Sort(Sort { input, .. }) => with_values(input, columns),
        LogicalPlan::Window(window) => windowed(window, columns),
        LogicalPlan::Filter(filter) => filtered(filter, columns),
        LogicalPlan::Join(join) => match side_with(join, columns) {
            Some(side) => with_values(side, columns),
            None if join.join_type == JoinType::Inner && !is_lateral(join) => both_sides(join, columns),
            None => Ok(plan.clone()),
        },
        LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
            let is_needed =
                |place: usize| columns.iter().any(|column| schema.index_of_column(column).ok() == Some(place));
            let exprs = expr.iter().enumerate().filter(|(place, _)| is_needed(*place)).map(|(_, expr)| expr.clone());
            let exprs: Vec<Expr> = exprs.collect();
            let below = all_named(&exprs, input.schema())?;
            Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(with_values(input, &below)?))?))
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, schema, .. }) => {
            let of_input = input.schema().columns();
            let place = |column: &Column| schema.index_of_column(column);
            let below =
                columns.iter().map(|column| Ok(of_input[place(column)?].clone())).collect::<Result<Vec<_>>>()?;
            let named = SubqueryAlias::try_new(Arc::new(with_values(input, &below)?), alias.clone())?;
            Ok(LogicalPlan::SubqueryAlias(named))
        }
        LogicalPlan::Aggregate(Aggregate { input, group_expr, .. }) => {
            let is_set = group_expr.is_empty() || group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)));
            let below = all_named(group_expr, input.schema())?;
            if is_set {
                return Ok(plan.clone());
            }
            let groups = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(input), group_expr.clone(), Vec::new())?);
            if !has_all(&groups, columns) {
                return Ok(plan.clone());
            }
            groups.with_new_exprs(group_expr.clone(), vec![with_values(input, &below)?])
        }
        _ => Ok(plan.clone()),
    }
}

/// The conditions that are about what the plan with the values has, or can have.
fn filtered(filter: &Filter, columns: &[Column]) -> Result<LogicalPlan> {
    let Filter { predicate, input, .. } = filter;
    let side = match input.as_ref() {
        LogicalPlan::Join(join) => side_with(join, columns).unwrap_or(input),
        other => other,
    };
    let (mut kept, mut needed) = (Vec::new(), columns.to_vec());
    for part in split_conjunction(predicate) {
        let refs = part.column_refs();
        let is_there = refs.iter().all(|column| side.schema().has_column(column));
        if is_there && !part.is_volatile() && !has_subquery(part) {
            refs.into_iter().for_each(|column| add(&mut needed, column));
            kept.push(part.clone());
        }
    }
    let input = with_values(side, &needed)?;
    match conjunction(kept) {
        Some(kept) => Ok(LogicalPlan::Filter(Filter::try_new(kept, Arc::new(input))?)),
        None => Ok(input),
    }
}

/// The numbers of windows, where the rest is not needed.
fn windowed(window: &Window, columns: &[Column]) -> Result<LogicalPlan> {
    let Window { input, window_expr, schema, .. } = window;
    if has_all(input, columns) {
        return with_values(input, columns);
    }
    let column_count = input.schema().fields().len();
    let mut needed = Vec::new();
    for column in columns {
        let place = schema.index_of_column(column)?.checked_sub(column_count);
        needed.extend(place.and_then(|place| window_expr.get(place)).cloned());
    }
    let windowed = LogicalPlan::Window(Window::try_new(needed, Arc::clone(input))?);
    let columns = columns.iter().cloned().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(windowed))?))
}

/// The rows that an inner join has of what is needed of its sides.
fn both_sides(join: &Join, columns: &[Column]) -> Result<LogicalPlan> {
    let mut needed = columns.to_vec();
    let pairs = join.on.iter().flat_map(|(left, right)| [left, right]);
    let schema = join.left.schema().join(join.right.schema())?;
    all_named(pairs.chain(&join.filter), &schema)?.iter().for_each(|column| add(&mut needed, column));
    let side = |plan: &LogicalPlan| -> Result<Arc<LogicalPlan>> {
        let own: Vec<Column> = needed.iter().filter(|column| plan.schema().has_column(column)).cloned().collect();
        Ok(Arc::new(with_values(plan, &own)?))
    };
    let (left, right, on, filter) = (side(&join.left)?, side(&join.right)?, join.on.clone(), join.filter.clone());
    let (kind, constraint) = (join.join_type, join.join_constraint);
    let joined = Join::try_new(left, right, on, filter, kind, constraint, join.null_equality, join.null_aware)?;
    Ok(LogicalPlan::Join(joined))
}

/// The side of a join that has the columns, none of whose values the join has besides.
fn side_with<'a>(join: &'a Join, columns: &[Column]) -> Option<&'a LogicalPlan> {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let (left, right) = (join.left.as_ref(), join.right.as_ref());
    match join.join_type {
        _ if is_lateral(join) && !has_all(left, columns) => None,
        Inner | Left | LeftSemi | LeftAnti | LeftMark if has_all(left, columns) => Some(left),
        Inner | Right | RightSemi | RightAnti | RightMark if has_all(right, columns) => Some(right),
        _ => None,
    }
}

/// Whether the right side is asked of rows of the left one, without which it is nothing.
fn is_lateral(join: &Join) -> bool {
    lateral(&join.right).is_some()
}

fn has_all(plan: &LogicalPlan, columns: &[Column]) -> bool {
    columns.iter().all(|column| plan.schema().has_column(column))
}

/// The columns of a schema that expressions are about, or their subqueries.
pub(super) fn all_named<'a>(exprs: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    for expr in exprs {
        expr.column_refs().into_iter().for_each(|column| add(&mut columns, column));
        outer_columns::of_subqueries(expr, schema)?.iter().for_each(|(column, _)| add(&mut columns, column));
    }
    Ok(columns)
}

fn add(columns: &mut Vec<Column>, column: &Column) {
    if !columns.contains(column) {
        columns.push(column.clone());
    }
}

/// Why a plan may have other values when it is asked again, if it may.
fn unrepeatable(plan: &LogicalPlan) -> Result<Option<&'static str>> {
    let mut why = None;
    plan.apply_with_subqueries(|node| {
        let schema = input_schema(node)?;
        node.apply_expressions(|expr| {
            expr.apply(|nested| {
                match nested {
                    Expr::AggregateFunction(AggregateFunction { func, params })
                        if !is_exact(func.name(), &params.args, &schema)? =>
                    {
                        why = Some("are computed in no fixed order");
                    }
                    called if called.is_volatile_node() && !one_row::is_call(called) => {
                        why = Some("are other ones each time")
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        match node {
            LogicalPlan::Limit(_) => why = why.or(Some("are cut off by LIMIT")),
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                if let LogicalPlan::Window(window) = input.as_ref()
                    && are_numbers(expr, window)
                {
                    why = why.or(unrepeatable(&window.input)?);
                    return Ok(if why.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Jump });
                }
            }
            LogicalPlan::Window(window) => {
                for called in &window.window_expr {
                    if !is_same_of_peers(called, &schema)? {
                        why = why.or(Some("windows are computed of"));
                    }
                }
            }
            LogicalPlan::Distinct(Distinct::On(_)) => why = why.or(Some("DISTINCT ON chooses")),
            LogicalPlan::RecursiveQuery(_) | LogicalPlan::Extension(_) => why = why.or(Some("may be others each time")),
            _ => {}
        }
        Ok(if why.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(why)
}

/// Whether what is projected of a window are numbers of rows, and what rows have in common that may as well have each other's.
fn are_numbers(exprs: &[Expr], window: &Window) -> bool {
    let [Expr::WindowFunction(called)] = window.window_expr.as_slice() else { return false };
    let Some(number) = window.schema.columns().pop() else { return false };
    let params = &called.params;
    let is_common = |expr: &Expr| {
        *expr == Expr::Column(number.clone())
            || params.partition_by.contains(expr)
            || params.order_by.iter().any(|sort| sort.expr == *expr)
    };
    called.fun.name() == "row_number" && exprs.iter().all(is_common)
}

/// Whether a window's value is that of all rows that are alike in its order, and the same each time.
fn is_same_of_peers(called: &Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::WindowFunction(called) = called.clone().unalias() else { return Ok(false) };
    let (name, params) = (called.fun.name(), &called.params);
    let is_by_rows = params.window_frame.units == WindowFrameUnits::Rows && !params.order_by.is_empty();
    Ok(matches!(name, "rank" | "dense_rank") || !is_by_rows && is_exact(name, &params.args, schema)?)
}

/// Whether an aggregate has the same value in whatever order its rows come.
fn is_exact(name: &str, args: &[Expr], schema: &DFSchema) -> Result<bool> {
    if matches!(name, "count" | "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor" | "grouping")
    {
        return Ok(true);
    }
    let [arg] = args else { return Ok(false) };
    let data_type = arg.get_type(schema)?;
    let is_decimal = matches!(
        data_type,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    );
    Ok(name == "sum" && (data_type.is_integer() || is_decimal) || name == "avg" && is_decimal)
}
