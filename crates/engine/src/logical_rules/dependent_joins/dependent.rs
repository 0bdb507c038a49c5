//! A subquery of one outer row, as a query of all of them: each operator keeps the domain's columns.
//!
//! - Where nothing outer is named, the rows are those of the domain times the operator's own.
//! - Filters and projections name the columns in the outer row's place.
//! - Groups, windows' partitions, and what `DISTINCT` compares are by them too; an aggregate of no groups has a row for each
//!   value of the domain, of none of its rows as well. `LIMIT` numbers the rows within them.
//! - Joins that keep rows without a match have the columns on the side whose rows they keep, and compare them where both
//!   sides have them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, NullEquality, Result, ScalarValue, not_impl_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, FetchType, Filter, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Projection, SkipType, Sort, SubqueryAlias, Union, Unnest, Values, Window, cast, lit,
};

use super::domain::{Domain, all_named};
use super::outer_columns::{self, Replaced};
use super::{Names, is_same, lateral, named};

/// A plan with the columns of the one that it stands for, under their names, and those of the domain.
pub(super) struct Dependent {
    pub(super) plan: LogicalPlan,
    /// The domain's, in its order.
    pub(super) keys: Vec<Column>,
}

/// What makes plans of one domain.
pub(super) struct Unnesting<'a> {
    pub(super) domain: &'a Domain,
    pub(super) names: &'a mut Names,
}

/// The columns of a plan under the names of a schema, in its order, and the keys behind them.
pub(super) fn under_names(
    plan: LogicalPlan,
    columns: impl IntoIterator<Item = Column>,
    schema: &DFSchema,
    keys: &[Column],
) -> Result<LogicalPlan> {
    let columns = columns.into_iter().zip(schema.iter());
    let columns = columns.map(|(column, (qualifier, field))| named(Expr::Column(column), qualifier, field));
    let columns = columns.chain(keys.iter().cloned().map(Expr::Column)).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// The columns of the plan as it was, in the order that it had them.
fn as_before(dependent: Dependent, schema: &DFSchema) -> Result<Dependent> {
    let plan = under_names(dependent.plan, schema.columns(), schema, &dependent.keys)?;
    Ok(Dependent { plan, ..dependent })
}

impl Unnesting<'_> {
    /// # Errors
    /// When the plan has an operator that cannot be asked of many rows at once.
    pub(super) fn dependent(&mut self, plan: &LogicalPlan) -> Result<Dependent> {
        if !self.is_correlated(plan)? {
            return self.times_domain(plan);
        }
        match plan {
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let Dependent { plan: rows, keys } = self.dependent(input)?;
                let predicate = self.over(&keys).in_expr(predicate.clone(), input.schema())?;
                Ok(Dependent { plan: LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(rows))?), keys })
            }
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                let Dependent { plan, keys } = as_before(self.dependent(input)?, input.schema())?;
                let plan = SubqueryAlias::try_new(Arc::new(plan), alias.clone())?;
                let keys = keys.into_iter().map(|key| Column::new(Some(alias.clone()), key.name)).collect();
                Ok(Dependent { plan: LogicalPlan::SubqueryAlias(plan), keys })
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => self.whole_aggregate(aggregate),
            LogicalPlan::Aggregate(aggregate) => self.grouped_aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Dependent { plan, keys } = as_before(self.dependent(input)?, input.schema())?;
                Ok(Dependent { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(plan))), keys })
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.first_of_each(distinct, plan.schema()),
            LogicalPlan::Sort(Sort { expr, input, fetch: None }) => {
                let Dependent { plan, keys } = self.dependent(input)?;
                let expr = self.sorted_by(expr, &keys, input.schema())?;
                Ok(Dependent { plan: LogicalPlan::Sort(Sort { expr, input: Arc::new(plan), fetch: None }), keys })
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Unnest(Unnest { input, exec_columns, options, .. }) => {
                let Dependent { plan, keys } = as_before(self.dependent(input)?, input.schema())?;
                let plan = Unnest::try_new(Arc::new(plan), exec_columns.clone(), options.clone())?;
                Ok(Dependent { plan: LogicalPlan::Unnest(plan), keys })
            }
            LogicalPlan::Values(values) => self.values(values),
            other => {
                not_impl_err!("a subquery that names columns from outside of it in, or below, {}", other.display())
            }
        }
    }

    fn is_correlated(&self, plan: &LogicalPlan) -> Result<bool> {
        outer_columns::names_any(plan, self.domain.fields())
    }

    fn over<'b>(&'b self, keys: &'b [Column]) -> Replaced<'b> {
        Replaced { outer: self.domain.fields(), own: keys }
    }

    fn times_domain(&mut self, plan: &LogicalPlan) -> Result<Dependent> {
        let (values, keys) = self.domain.values(self.names)?;
        let plan = match plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => values,
            plan => LogicalPlanBuilder::from(values).cross_join(plan.clone())?.build()?,
        };
        Ok(Dependent { plan, keys })
    }

    fn projection(&mut self, projection: &Projection) -> Result<Dependent> {
        let Projection { expr, input, schema, .. } = projection;
        let Dependent { plan, keys } = self.dependent(input)?;
        let mut columns = Vec::new();
        for (expr, (qualifier, field)) in expr.iter().zip(schema.iter()) {
            columns.push(named(self.over(&keys).in_expr(expr.clone(), input.schema())?, qualifier, field));
        }
        columns.extend(keys.iter().cloned().map(Expr::Column));
        Ok(Dependent { plan: LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?), keys })
    }

    fn all_over(&self, exprs: &[Expr], keys: &[Column], schema: &DFSchema) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.over(keys).in_expr(expr.clone(), schema)).collect()
    }

    fn sorted_by(&self, sorts: &[SortExpr], keys: &[Column], schema: &DFSchema) -> Result<Vec<SortExpr>> {
        let over = |sort: &SortExpr| Ok(sort.with_expr(self.over(keys).in_expr(sort.expr.clone(), schema)?));
        sorts.iter().map(over).collect()
    }

    fn grouped_aggregate(&mut self, aggregate: &Aggregate) -> Result<Dependent> {
        let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
        if group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return not_impl_err!(
                "a subquery that names columns from outside of it below GROUPING SETS, ROLLUP or CUBE"
            );
        }
        let Dependent { plan, keys } = self.dependent(input)?;
        let mut groups = self.all_over(group_expr, &keys, input.schema())?;
        groups.extend(keys.iter().cloned().map(Expr::Column));
        let (group_count, with_keys) = (group_expr.len(), groups.len());
        let of_groups = self.all_over(aggr_expr, &keys, input.schema())?;
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), groups, of_groups)?);
        let mut columns = plan.schema().columns();
        columns.drain(group_count..with_keys);
        Ok(Dependent { plan: under_names(plan, columns, schema, &keys)?, keys })
    }

    /// Of each value of the domain, the aggregates of its rows; of no rows where it has none. A row of each that is not
    /// counted sees to that.
    fn whole_aggregate(&mut self, aggregate: &Aggregate) -> Result<Dependent> {
        let Aggregate { input, aggr_expr, schema, .. } = aggregate;
        let Dependent { plan: rows, keys } = self.dependent(input)?;
        let of_rows = self.all_over(aggr_expr, &keys, input.schema())?;
        let mut needed = all_named(&of_rows, rows.schema())?;
        needed.retain(|column| !keys.contains(column));
        let (values, value_keys) = self.domain.values(self.names)?;
        let counted = self.names.fresh("counted");
        let (mut of_rows_columns, mut of_values_columns) = (Vec::new(), Vec::new());
        for column in &needed {
            let field = rows.schema().field_from_column(column)?;
            let name = self.names.fresh("column");
            of_rows_columns.push(Expr::Column(column.clone()).alias(name.as_str()));
            let null = ScalarValue::try_from(field.data_type())?;
            of_values_columns.push(Expr::Literal(null, None).alias(name.as_str()));
        }
        for (key, value) in keys.iter().zip(value_keys) {
            of_rows_columns.push(Expr::Column(key.clone()).alias(key.name.as_str()));
            of_values_columns.push(Expr::Column(value).alias(key.name.as_str()));
        }
        of_rows_columns.push(lit(true).alias(counted.as_str()));
        of_values_columns.push(lit(false).alias(counted.as_str()));
        let rows = LogicalPlan::Projection(Projection::try_new(of_rows_columns, Arc::new(rows))?);
        let values = LogicalPlan::Projection(Projection::try_new(of_values_columns, Arc::new(values))?);
        let all = LogicalPlan::Union(Union::try_new(vec![Arc::new(rows), Arc::new(values)])?);
        let named = all
            .schema()
            .columns()
            .into_iter()
            .map(Expr::Column)
            .zip(needed.iter().chain(&keys).map(Some).chain([None]));
        let named = named.map(|(column, name)| match name {
            Some(name) => column.alias_qualified(name.relation.clone(), name.name.as_str()),
            None => column,
        });
        let all = LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(all))?);
        let is_counted = Expr::Column(Column::new_unqualified(counted));
        let of_counted = of_rows.into_iter().map(|expr| {
            let filtered = expr.transform_down(|nested| match nested {
                Expr::AggregateFunction(mut called) => {
                    let filter = called.params.filter.take().map(|filter| *filter);
                    called.params.filter = conjunction(filter.into_iter().chain([is_counted.clone()])).map(Box::new);
                    Ok(Transformed::new(Expr::AggregateFunction(called), true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            });
            filtered.data()
        });
        let of_counted = of_counted.collect::<Result<Vec<_>>>()?;
        let groups = keys.iter().cloned().map(Expr::Column).collect();
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(all), groups, of_counted)?);
        let columns = plan.schema().columns().split_off(keys.len());
        Ok(Dependent { plan: under_names(plan, columns, schema, &keys)?, keys })
    }

    fn window(&mut self, window: &Window) -> Result<Dependent> {
        let Window { input, window_expr, schema, .. } = window;
        let Dependent { plan, keys } = as_before(self.dependent(input)?, input.schema())?;
        let parted = self.all_over(window_expr, &keys, input.schema())?.into_iter().map(|expr| {
            let parted = expr.transform_down(|nested| match nested {
                Expr::WindowFunction(mut called) => {
                    called.params.partition_by.extend(keys.iter().cloned().map(Expr::Column));
                    Ok(Transformed::new(Expr::WindowFunction(called), true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            });
            parted.data()
        });
        let plan = Window::try_new(parted.collect::<Result<Vec<_>>>()?, Arc::new(plan))?;
        let mut columns = plan.schema.columns();
        let column_count = input.schema().fields().len();
        columns.drain(column_count..column_count + keys.len());
        Ok(Dependent { plan: under_names(LogicalPlan::Window(plan), columns, schema, &keys)?, keys })
    }

    /// `rows` behind which their number is among those with the same values of `parts`, in an order.
    fn numbered(&mut self, rows: LogicalPlan, parts: Vec<Expr>, order: Vec<SortExpr>) -> Result<(LogicalPlan, Expr)> {
        let number = row_number().partition_by(parts).order_by(order).build()?;
        let plan = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(rows))?);
        let last = plan.schema().columns().pop();
        match last {
            Some(number) => Ok((plan, Expr::Column(number))),
            None => not_impl_err!("rows without columns have no number"),
        }
    }

    fn first_of_each(&mut self, distinct: &DistinctOn, schema: &DFSchema) -> Result<Dependent> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = distinct;
        let Dependent { plan, keys } = as_before(self.dependent(input)?, input.schema())?;
        let mut parts = self.all_over(on_expr, &keys, input.schema())?;
        parts.extend(keys.iter().cloned().map(Expr::Column));
        let order = self.sorted_by(sort_expr.as_deref().unwrap_or_default(), &keys, input.schema())?;
        let (plan, number) = self.numbered(plan, parts, order)?;
        let first = LogicalPlan::Filter(Filter::try_new(number.eq(lit(1_u64)), Arc::new(plan))?);
        let mut columns = Vec::new();
        for (expr, (qualifier, field)) in
            self.all_over(select_expr, &keys, input.schema())?.into_iter().zip(schema.iter())
        {
            columns.push(named(expr, qualifier, field));
        }
        columns.extend(keys.iter().cloned().map(Expr::Column));
        Ok(Dependent { plan: LogicalPlan::Projection(Projection::try_new(columns, Arc::new(first))?), keys })
    }

    fn limit(&mut self, limit: &Limit) -> Result<Dependent> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return not_impl_err!(
                "LIMIT and OFFSET that are no numbers, in a subquery that names columns from outside of it"
            );
        };
        // What is between it and the order that it goes by makes a row of each.
        let below = |input: &Arc<LogicalPlan>| {
            Arc::new(LogicalPlan::Limit(Limit { input: Arc::clone(input), ..limit.clone() }))
        };
        match limit.input.as_ref() {
            LogicalPlan::Projection(projection) => {
                let limited = Projection::try_new(projection.expr.clone(), below(&projection.input))?;
                return self.dependent(&LogicalPlan::Projection(limited));
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let limited = SubqueryAlias::try_new(below(&alias.input), alias.alias.clone())?;
                return self.dependent(&LogicalPlan::SubqueryAlias(limited));
            }
            _ => {}
        }
        let (sorts, input) = match limit.input.as_ref() {
            LogicalPlan::Sort(Sort { expr, input, fetch: None }) => (expr.as_slice(), input),
            _ => (&[][..], &limit.input),
        };
        let Dependent { plan, keys } = as_before(self.dependent(input)?, input.schema())?;
        let order = self.sorted_by(sorts, &keys, input.schema())?;
        let (plan, number) = self.numbered(plan, keys.iter().cloned().map(Expr::Column).collect(), order)?;
        let (skip, fetch) = (skip as u64, fetch.map(|fetch| fetch as u64));
        let behind = (skip > 0).then(|| number.clone().gt(lit(skip)));
        let up_to = fetch.map(|fetch| number.lt_eq(lit(skip.saturating_add(fetch))));
        let kept = match conjunction(behind.into_iter().chain(up_to)) {
            Some(within) => LogicalPlan::Filter(Filter::try_new(within, Arc::new(plan))?),
            None => plan,
        };
        Ok(Dependent { plan: under_names(kept, input.schema().columns(), input.schema(), &keys)?, keys })
    }

    fn union(&mut self, union: &Union) -> Result<Dependent> {
        let names: Vec<String> = self.domain.columns().map(|_| self.names.fresh("outer")).collect();
        let mut inputs = Vec::new();
        for input in &union.inputs {
            let Dependent { plan, keys } = self.dependent(input)?;
            let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
            columns.extend(keys.into_iter().zip(&names).map(|(key, name)| Expr::Column(key).alias(name.as_str())));
            inputs.push(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)));
        }
        self.united(inputs, &union.schema)
    }

    /// The union of plans that have the domain's columns last.
    fn united(&mut self, inputs: Vec<Arc<LogicalPlan>>, schema: &DFSchema) -> Result<Dependent> {
        let plan = match <[_; 1]>::try_from(inputs) {
            Ok([one]) => Arc::unwrap_or_clone(one),
            Err(inputs) => LogicalPlan::Union(Union::try_new(inputs)?),
        };
        let mut columns = plan.schema().columns();
        let keys = columns.split_off(schema.fields().len());
        Ok(Dependent { plan: under_names(plan, columns, schema, &keys)?, keys })
    }

    fn values(&mut self, values: &Values) -> Result<Dependent> {
        let names: Vec<String> = self.domain.columns().map(|_| self.names.fresh("outer")).collect();
        let mut rows = Vec::new();
        for row in &values.values {
            let (plan, keys) = self.domain.values(self.names)?;
            let mut columns = Vec::new();
            for (expr, field) in self.all_over(row, &keys, &DFSchema::empty())?.into_iter().zip(values.schema.fields())
            {
                columns.push(cast(expr, field.data_type().clone()).alias(field.name()));
            }
            columns.extend(keys.into_iter().zip(&names).map(|(key, name)| Expr::Column(key).alias(name.as_str())));
            rows.push(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)));
        }
        self.united(rows, &values.schema)
    }

    fn join(&mut self, join: &Join) -> Result<Dependent> {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
        if lateral(&join.right).is_some() {
            return self.lateral(join);
        }
        let (asks_left, asks_right) = (self.is_correlated(&join.left)?, self.is_correlated(&join.right)?);
        let (needs_left, needs_right) = match join.join_type {
            Inner => (asks_left || !asks_right, asks_right),
            Left | LeftSemi | LeftAnti | LeftMark => (true, asks_right),
            Right | RightSemi | RightAnti | RightMark => (asks_left, true),
            Full => (true, true),
        };
        let (left, left_keys) = self.side(&join.left, needs_left)?;
        let (right, right_keys) = self.side(&join.right, needs_right)?;
        let known = left_keys.as_ref().or(right_keys.as_ref()).map_or(&[][..], Vec::as_slice);
        let replaced = self.over(known);
        let mut on = Vec::new();
        for (of_left, of_right) in &join.on {
            let (of_left, of_right) = (of_left.clone(), of_right.clone());
            on.push((replaced.in_expr(of_left, join.left.schema())?, replaced.in_expr(of_right, join.right.schema())?));
        }
        let schema = left.schema().join(right.schema());
        let mut filter = match &join.filter {
            Some(filter) => Some(replaced.in_expr(filter.clone(), schema.as_ref().unwrap_or(join.schema.as_ref()))?),
            None => None,
        };
        if let (Some(left_keys), Some(right_keys)) = (&left_keys, &right_keys) {
            let is_one = join.null_equality == NullEquality::NullEqualsNull || !self.domain.has_nulls();
            if is_one {
                let column = |key: &Column| Expr::Column(key.clone());
                on.extend(left_keys.iter().zip(right_keys).map(|(left, right)| (column(left), column(right))));
            } else {
                filter = conjunction(filter.into_iter().chain(is_same(self.domain, left_keys, right_keys)));
            }
        }
        let (left, right) = (Arc::new(left), Arc::new(right));
        let (kind, constraint) = (join.join_type, join.join_constraint);
        let joined = Join::try_new(left, right, on, filter, kind, constraint, join.null_equality, join.null_aware)?;
        let plan = LogicalPlan::Join(joined);
        let keys = match (kind, left_keys, right_keys) {
            (Full, Some(left), Some(right)) => return self.of_either_side(plan, &join.schema, &left, &right),
            (Right | RightSemi | RightAnti | RightMark, _, Some(keys)) | (_, Some(keys), _) | (_, None, Some(keys)) => {
                keys
            }
            (_, None, None) => Vec::new(),
        };
        Ok(Dependent { plan, keys })
    }

    fn side(&mut self, side: &LogicalPlan, is_needed: bool) -> Result<(LogicalPlan, Option<Vec<Column>>)> {
        if !is_needed {
            return Ok((side.clone(), None));
        }
        let Dependent { plan, keys } = self.dependent(side)?;
        Ok((plan, Some(keys)))
    }

    /// Of a full join a row has the domain's columns from one side or the other.
    fn of_either_side(
        &mut self,
        plan: LogicalPlan,
        schema: &DFSchema,
        left: &[Column],
        right: &[Column],
    ) -> Result<Dependent> {
        let mut columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
        let mut keys = Vec::new();
        for (left, right) in left.iter().zip(right) {
            let name = self.names.fresh("outer");
            let either = coalesce(vec![Expr::Column(left.clone()), Expr::Column(right.clone())]);
            columns.push(either.alias(name.as_str()));
            keys.push(Column::new_unqualified(name));
        }
        Ok(Dependent { plan: LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?), keys })
    }

    /// A join whose right side is asked of each row of the left one. It will be of the domain's columns in the left one too.
    fn lateral(&mut self, join: &Join) -> Result<Dependent> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return not_impl_err!(
                "a {} join with LATERAL, in a subquery that names columns from outside of it",
                join.join_type
            );
        }
        let Dependent { plan: left, keys } = self.dependent(&join.left)?;
        let replaced = self.over(&keys);
        let right = replaced.in_lateral(&join.right, join.left.schema())?;
        let filter = join.filter.clone().map(|filter| replaced.in_expr(filter, &join.schema)).transpose()?;
        let mut on = Vec::new();
        for (of_left, of_right) in &join.on {
            let (of_left, of_right) = (of_left.clone(), of_right.clone());
            on.push((replaced.in_expr(of_left, join.left.schema())?, replaced.in_expr(of_right, join.right.schema())?));
        }
        let (left, right, kind, constraint) = (Arc::new(left), Arc::new(right), join.join_type, join.join_constraint);
        let joined = Join::try_new(left, right, on, filter, kind, constraint, join.null_equality, join.null_aware)?;
        Ok(Dependent { plan: LogicalPlan::Join(joined), keys })
    }
}
