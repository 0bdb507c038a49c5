//! Runs `UNNEST` and derived tables that name columns of the FROM items before them.
//!
//! DataFusion plans `FROM t, UNNEST(t.items) AS i` as a join whose right side is a `Subquery` with outer references,
//! and has no rule that could make such a join executable. [`DecorrelateUnnest`] rewrites it: the right side's plan is
//! rebuilt with the left side in the place of its one-row leaf, so that each of its nodes carries the left side's
//! columns along. What was a join for every left row becomes one unnest over all of them.
//!
//! ```text
//! Join                                        Projection: t.id, t.items, <element> AS i.i
//!   TableScan: t                                Unnest: <element>
//!   SubqueryAlias: i                 ─────▶       Projection: t.* under fresh names, t.items AS <element>
//!     Subquery:                                     TableScan: t
//!       Unnest: <element>
//!         Projection: outer_ref(t.items) AS <element>
//!           EmptyRelation: one row
//! ```
//!
//! Invariants: the output schema of a rewritten join is that of the join. Carried columns have names that no SQL can
//! name and no other rewrite of the plan has used, so that they never shadow a column of the right side.
//!
//! LEFT JOIN keeps rows of the left side whose list is NULL or empty, if nothing but `ON true` decides about a match
//! and nothing but the unnest about the right side's rows; any other condition is refused. So are correlated unnests in
//! expressions (`EXISTS (SELECT .. FROM UNNEST(t.items))`) and under aggregates, DISTINCT and LIMIT.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, NullHandling, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Distinct, EmptyRelation, Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    Subquery, SubqueryAlias, Unnest, binary_expr,
};
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use crate::lineage::is_null_of_nulls;

/// Adds [`DecorrelateUnnest`] where it belongs: before type coercion, which then sees only ordinary plans.
pub(crate) fn install_analyzer(rules: &mut Vec<Arc<dyn AnalyzerRule + Send + Sync>>) {
    rules.insert(0, Arc::new(DecorrelateUnnest));
}

/// Adds the same to the optimizer, as its first rule: PREPARE optimizes plans that were never analyzed, and the stock
/// rules would tear a correlated join apart.
pub(crate) fn install_optimizer(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
    rules.insert(0, Arc::new(DecorrelateUnnest));
}

/// Rewrites joins against a correlated UNNEST into an unnest of the join's left side.
#[derive(Debug, Default)]
pub(crate) struct DecorrelateUnnest;

impl AnalyzerRule for DecorrelateUnnest {
    fn name(&self) -> &str {
        "decorrelate_unnest"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(decorrelate_all(plan)?.data)
    }
}

impl OptimizerRule for DecorrelateUnnest {
    fn name(&self) -> &str {
        "decorrelate_unnest"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        decorrelate_all(plan)
    }
}

fn decorrelate_all(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if find_correlated_unnest(&plan)?.is_none() {
        return Ok(Transformed::no(plan));
    }
    let mut fresh = FreshNames::default();
    let plan = plan.transform_up_with_subqueries(|node| decorrelate(node, &mut fresh))?;
    match find_correlated_unnest(&plan.data)? {
        None => Ok(plan),
        Some(list) => not_impl_err!(
            "UNNEST({list}) depends on a row of an outer query in a way that is not supported. It may stand in FROM \
             after the table it belongs to (FROM t, UNNEST(t.list) AS i), joined by a comma, CROSS JOIN or JOIN .. ON, \
             or by LEFT JOIN .. ON true; not inside EXISTS, IN or a scalar subquery, and not under an aggregate, \
             DISTINCT or LIMIT of a LATERAL subquery"
        ),
    }
}

/// Hands out column names that are unique within one plan.
#[derive(Debug, Default)]
struct FreshNames {
    given: usize,
}

impl FreshNames {
    fn next(&mut self) -> Column {
        self.given += 1;
        Column::from_name(format!("__lateral_{}", self.given))
    }
}

/// Which column of the plan under construction holds which column of an outer query, innermost query last.
#[derive(Debug, Clone, Default)]
struct OuterColumns(Vec<(Column, Column)>);

impl OuterColumns {
    fn holder(&self, outer: &Column) -> Option<&Column> {
        self.0.iter().rev().find(|(name, _)| name == outer).map(|(_, holder)| holder)
    }
}

fn decorrelate(node: LogicalPlan, fresh: &mut FreshNames) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = &node else {
        return Ok(Transformed::no(node));
    };
    if find_correlated_unnest(&join.right)?.is_none() {
        return Ok(Transformed::no(node));
    }
    // A reference that the left side cannot answer belongs to a FROM item further left: the join with that one is a
    // parent.
    let left_schema = join.left.schema();
    if !join.right.all_out_ref_exprs().iter().all(|outer| match outer {
        Expr::OuterReferenceColumn(_, column) => left_schema.has_column(column),
        _ => true,
    }) {
        return Ok(Transformed::no(node));
    }
    match attach_join(join.left.as_ref().clone(), &OuterColumns::default(), join, fresh)? {
        Some(plan) => Ok(Transformed::yes(plan)),
        None => Ok(Transformed::no(node)),
    }
}

/// `join` with `left` in the place of its left side: the columns of `left`, then those of the right side, which may
/// refer to columns of `left` and to `outer` ones. None if its shape is not understood.
fn attach_join(
    left: LogicalPlan,
    outer: &OuterColumns,
    join: &Join,
    fresh: &mut FreshNames,
) -> Result<Option<LogicalPlan>> {
    if !has_outer_reference(&join.right)? {
        return join_with_left(left, outer, join);
    }
    let right = match join.join_type {
        JoinType::Inner => Arc::clone(&join.right),
        JoinType::Left => match preserving(join)? {
            Some(right) => Arc::new(right),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };

    let mut visible = outer.clone();
    let (mut renamed, mut restored) = (vec![], vec![]);
    for (qualifier, field) in left.schema().iter() {
        let column = Column::from((qualifier, field));
        let holder = fresh.next();
        renamed.push(Expr::Column(column.clone()).alias(holder.name.clone()));
        restored.push(Expr::Column(holder.clone()).alias_qualified(qualifier.cloned(), field.name()));
        // Columns carried for an outer query keep answering under their outer names.
        for (_, carried) in visible.0.iter_mut().filter(|(_, carried)| *carried == column) {
            carried.clone_from(&holder);
        }
        visible.0.push((column, holder));
    }
    let left = project(renamed, left)?;
    let Some(plan) = attach(left, &visible, &right, fresh)? else {
        return Ok(None);
    };
    restored.extend(right.schema().columns().into_iter().map(Expr::Column));
    let plan = project(restored, plan)?;
    let Some(condition) = join_condition(join) else {
        return Ok(Some(plan));
    };
    let Some(condition) = resolved(condition, outer)? else {
        return Ok(None);
    };
    Ok(Some(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?)))
}

/// `join`, whose right side stands alone, with `left` in the place of its left side.
fn join_with_left(left: LogicalPlan, outer: &OuterColumns, join: &Join) -> Result<Option<LogicalPlan>> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Ok(None);
    }
    let filter = match join.filter.clone() {
        None => None,
        Some(filter) => match resolved(filter, outer)? {
            None => return Ok(None),
            filter => filter,
        },
    };
    Join::try_new(
        Arc::new(left),
        Arc::clone(&join.right),
        join.on.clone(),
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )
    .map(|join| Some(LogicalPlan::Join(join)))
}

/// The rows of `body` for each row of `left`: the columns of `left`, which all have fresh names, then those of `body`.
fn attach(
    left: LogicalPlan,
    outer: &OuterColumns,
    body: &LogicalPlan,
    fresh: &mut FreshNames,
) -> Result<Option<LogicalPlan>> {
    if let LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema }) = body
        && schema.fields().is_empty()
    {
        return Ok(Some(left));
    }
    if !has_outer_reference(body)? {
        return LogicalPlanBuilder::from(left).cross_join(body.clone())?.build().map(Some);
    }
    let carried: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
    match body {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => attach(left, outer, subquery, fresh),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, schema, .. }) => {
            let Some(input_plan) = attach(left, outer, input, fresh)? else {
                return Ok(None);
            };
            let mut exprs = carried;
            for (column, (qualifier, field)) in input.schema().columns().into_iter().zip(schema.iter()) {
                exprs.push(Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()));
            }
            project(exprs, input_plan).map(Some)
        }
        LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
            let Some(input) = attach(left, outer, input, fresh)? else {
                return Ok(None);
            };
            let mut exprs = carried;
            for (expr, (qualifier, field)) in expr.iter().zip(schema.iter()) {
                let Some(expr) = resolved(expr.clone(), outer)? else {
                    return Ok(None);
                };
                let (named_qualifier, name) = expr.qualified_name();
                let is_named = named_qualifier.as_ref() == qualifier && &name == field.name();
                exprs.push(if is_named { expr } else { expr.alias_qualified(qualifier.cloned(), field.name()) });
            }
            project(exprs, input).map(Some)
        }
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let Some(predicate) = resolved(predicate.clone(), outer)? else {
                return Ok(None);
            };
            match attach(left, outer, input, fresh)? {
                Some(input) => Ok(Some(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?))),
                None => Ok(None),
            }
        }
        LogicalPlan::Unnest(Unnest { input, exec_columns, options, .. }) => match attach(left, outer, input, fresh)? {
            Some(input) => {
                let unnest = Unnest::try_new(Arc::new(input), exec_columns.clone(), options.clone())?;
                Ok(Some(LogicalPlan::Unnest(unnest)))
            }
            None => Ok(None),
        },
        // The order of a subquery in FROM means nothing without a LIMIT.
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => attach(left, outer, &sort.input, fresh),
        LogicalPlan::Join(join) => match attach(left, outer, &join.left, fresh)? {
            Some(left) => attach_join(left, outer, join, fresh),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Projects. Renamings of a projection become one with it: beside being shorter, `i AS i.i` over `x AS i` trips
/// DataFusion's `push_down_leaf_projections`, which passes `i.i` through the upper projection and then finds two
/// columns called `i`. What is volatile and read twice is computed once, below.
fn project(mut exprs: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(inner) = &input else {
        return Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?));
    };
    let mut renamed = Vec::with_capacity(exprs.len());
    let mut volatile = HashSet::new();
    for expr in &exprs {
        let Expr::Column(column) = expr.clone().unalias() else {
            break;
        };
        let (qualifier, name) = expr.qualified_name();
        let index = inner.schema.index_of_column(&column)?;
        let source = inner.expr[index].clone().unalias();
        if source.is_volatile() && !volatile.insert(index) {
            break;
        }
        renamed.push(if source.qualified_name() == (qualifier.clone(), name.clone()) {
            source
        } else {
            source.alias_qualified(qualifier, name)
        });
    }
    let is_renaming = renamed.len() == exprs.len();
    let input = if is_renaming { Arc::clone(&inner.input) } else { Arc::new(input) };
    if is_renaming {
        exprs = renamed;
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, input)?))
}

/// The whole condition of a join, if it has one.
fn join_condition(join: &Join) -> Option<Expr> {
    let operator = match join.null_equality {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    let keys = join.on.iter().map(|(left, right)| binary_expr(left.clone(), operator, right.clone()));
    conjunction(keys.chain(join.filter.clone()))
}

/// `expr` with outer references replaced by the columns that hold them. None if one of them is not held, or if a
/// subquery inside `expr` may need one of them.
fn resolved(expr: Expr, outer: &OuterColumns) -> Result<Option<Expr>> {
    let mut understood = true;
    let expr = expr.transform(|nested| match &nested {
        Expr::OuterReferenceColumn(_, column) => match outer.holder(column) {
            Some(holder) => Ok(Transformed::yes(Expr::Column(holder.clone()))),
            None => {
                understood = false;
                Ok(Transformed::no(nested))
            }
        },
        Expr::ScalarSubquery(subquery) => {
            understood &= is_independent(subquery, outer);
            Ok(Transformed::no(nested))
        }
        Expr::Exists(exists) => {
            understood &= is_independent(&exists.subquery, outer);
            Ok(Transformed::no(nested))
        }
        Expr::InSubquery(in_subquery) => {
            understood &= is_independent(&in_subquery.subquery, outer);
            Ok(Transformed::no(nested))
        }
        Expr::SetComparison(comparison) => {
            understood &= is_independent(&comparison.subquery, outer);
            Ok(Transformed::no(nested))
        }
        _ => Ok(Transformed::no(nested)),
    })?;
    Ok(understood.then_some(expr.data))
}

fn is_independent(subquery: &Subquery, outer: &OuterColumns) -> bool {
    subquery.outer_ref_columns.iter().all(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => outer.holder(column).is_none(),
        _ => true,
    })
}

/// The right side of a LEFT JOIN, changed to give one row of NULLs where it would give none. None unless that is all
/// there is to the join: it must hold for every pair of rows, and one unnest alone must decide how many rows there are.
fn preserving(join: &Join) -> Result<Option<LogicalPlan>> {
    let always = matches!(
        (&join.filter, join.on.as_slice()),
        (None | Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)), [])
    );
    if !always {
        return Ok(None);
    }
    let (mut unnest_count, mut understood) = (0, true);
    let right = join.right.as_ref().clone().transform_down(|node| match node {
        LogicalPlan::Unnest(mut unnest) => {
            unnest_count += 1;
            // What is computed beside the lists is there for a row without elements too, and so is an outer list of lists
            // whose inner ones are empty.
            understood &= unnest.input.schema().fields().len() == unnest.exec_columns.len()
                && unnest.list_type_columns.iter().all(|(_, list)| list.depth == 1);
            unnest.options.null_handling = NullHandling::PreserveAndExpandEmpty;
            Ok(Transformed::yes(LogicalPlan::Unnest(unnest)))
        }
        LogicalPlan::Projection(projection) => {
            // Above the unnest, an expression must pass the NULLs of the kept row on.
            understood &= unnest_count > 0 || projection.expr.iter().all(is_null_of_nulls);
            Ok(Transformed::no(LogicalPlan::Projection(projection)))
        }
        LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) => Ok(Transformed::no(node)),
        other => {
            understood = false;
            Ok(Transformed::new(other, false, TreeNodeRecursion::Stop))
        }
    })?;
    Ok((understood && unnest_count == 1).then_some(right.data))
}

/// Whether `plan` may refer to an outer query. Counts references of its own subqueries to itself, too.
fn has_outer_reference(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = node.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The list of the first UNNEST anywhere in `plan` whose list is computed from columns of an outer query.
fn find_correlated_unnest(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Unnest(unnest) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        if !has_outer_reference(&unnest.input)? {
            return Ok(TreeNodeRecursion::Continue);
        }
        let mut search = OuterSearch::default();
        for column in &unnest.exec_columns {
            let index = unnest.input.schema().index_of_column(column)?;
            if let Some(expr) = search.below(&unnest.input, index)? {
                found = Some(sql_name(expr)?);
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Follows columns to what they are computed from, each column of each node once.
#[derive(Default)]
struct OuterSearch {
    /// Nodes by their place, with the number of a column; none where all columns of a node are one.
    visited: HashSet<(*const LogicalPlan, Option<usize>)>,
}

impl OuterSearch {
    /// What column `index` of `plan` is computed from that refers to an outer query, if anything is.
    fn below(&mut self, plan: &LogicalPlan, index: usize) -> Result<Option<Expr>> {
        // Which of the new columns is which makes no difference to who can't rewrite it.
        let is_one_for_all = match plan {
            LogicalPlan::Aggregate(_) => true,
            LogicalPlan::Window(window) => index >= window.input.schema().fields().len(),
            _ => false,
        };
        if !self.visited.insert((std::ptr::from_ref(plan), (!is_one_for_all).then_some(index))) {
            return Ok(None);
        }
        let (exprs, input) = match plan {
            LogicalPlan::Projection(Projection { expr, input, .. }) => (vec![expr[index].clone()], input),
            LogicalPlan::Aggregate(aggregate) => (plan.expressions(), &aggregate.input),
            LogicalPlan::Window(window) if is_one_for_all => (plan.expressions(), &window.input),
            LogicalPlan::Window(window) => return self.below(&window.input, index),
            LogicalPlan::Unnest(unnest) => return self.below(&unnest.input, unnest.dependency_indices[index]),
            LogicalPlan::Join(join) if matches!(join.join_type, JoinType::Inner | JoinType::Left) => {
                return match index.checked_sub(join.left.schema().fields().len()) {
                    Some(index) => self.below(&join.right, index),
                    None => self.below(&join.left, index),
                };
            }
            LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => {
                return match plan.inputs().as_slice() {
                    [input] => self.below(input, index),
                    _ => Ok(None),
                };
            }
            _ => return Ok(None),
        };
        for expr in exprs {
            if expr.contains_outer() {
                return Ok(Some(expr));
            }
            for column in expr.column_refs() {
                if let Some(index) = input.schema().maybe_index_of_column(column)
                    && let Some(found) = self.below(input, index)?
                {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}

/// The expression as its author knows it: without `outer_ref(..)`.
fn sql_name(expr: Expr) -> Result<String> {
    let plain = expr.unalias().transform(|nested| match nested {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plain.data.schema_name().to_string())
}

#[cfg(test)]
mod tests;
