//! Correlated subqueries of any shape, by joins that depend on nothing.
//!
//! DataFusion pulls what a subquery compares with the outer row up to a join of the two (55.2, `PullUpCorrelatedExpr`). That
//! is right of filters and projections, and of one aggregate over comparisons by `=`. Elsewhere it refuses, or answers
//! another question: windows went over the rows of all outer rows, `max` over an empty `count` was NULL, `EXISTS (… OFFSET
//! 2)` forgot the offset, and of outer joins the rows without a match were gone. [`DependentJoins`] answers these as *Unnesting
//! Arbitrary Queries* (Neumann, Kemper; BTW 2015) does: the subquery is asked once of all the values that the outer rows
//! have in the columns that it names, the domain, whose columns go through every operator of it ([`dependent`]):
//!
//! ```text
//! Projection: d.k, (subquery of d.k)          Projection: d.k, __value
//!   d                                    ─▶     Left Join: d.k = __outer
//!                                                 d
//!                                                 the subquery over (SELECT DISTINCT d.k AS __outer), by __outer
//! ```
//!
//! A subquery's value is NULL where it has no row ([`one_row`]), of others than correlated ones too.
//!
//! What DataFusion joins rightly is left to it ([`stock`]): its joins have no domain.
//!
//! Deviations from the paper: the domain is computed by the outer query's plan a second time ([`domain`]), since there are no
//! operators with two outputs, and is never replaced by what it is compared with.
//!
//! Deviations from SQL: a subquery that is no aggregate may give a row at most, which is seen while it is joined; so it fails
//! of rows too that a `CASE` would not ask about. Conditions of joins are left as they are.

mod dependent;
mod domain;
mod one_row;
mod outer_columns;
mod stock;

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result, TableReference, plan_err};
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Filter, Join, LogicalPlan, Operator, Projection, Subquery, SubqueryAlias, binary_expr,
    lit,
};
use datafusion::optimizer::AnalyzerRule;

use self::dependent::{Dependent, Unnesting};
use self::domain::Domain;
pub(super) use self::outer_columns::is_any_named as names_outer_rows;
use self::stock::Asked;
use super::subquery_nulls::{has_member, with_asked_below};
use crate::plan_expressions::{any_expression, map_expressions};

/// See the module. Stateless, shared freely.
#[derive(Debug)]
pub(super) struct DependentJoins;

impl AnalyzerRule for DependentJoins {
    fn name(&self) -> &str {
        "dependent_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        let mut plan = plan.transform_up_with_subqueries(one_row::with_nullable_values)?;
        if plan.transformed {
            plan.data = with_nulls(plan.data)?;
        }
        let joined = plan.data.transform_down_with_subqueries(|node| {
            names.check()?;
            match node {
                LogicalPlan::Join(join) => lateral_joined(join, &mut names),
                LogicalPlan::Filter(_) | LogicalPlan::Projection(_) => {
                    let Some(schema) = asking_schema(&node, is_joined_here)? else { return Ok(Transformed::no(node)) };
                    joined(node, &schema, &mut names)
                }
                // These have what they ask from a projection below.
                LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
                    let Some(schema) = asking_schema(&node, is_asked_below)? else { return Ok(Transformed::no(node)) };
                    Ok(Transformed::yes(with_asked_below(node, |expr| is_asked_below(expr, &schema), Ok)?))
                }
                other => Ok(Transformed::no(other)),
            }
        })?;
        // A value that its subquery always has may be none where there is no row.
        if joined.transformed { with_nulls(joined.data) } else { Ok(joined.data) }
    }
}

/// The plan, whose nodes know of the NULLs of those below, and its subqueries of those of the rows around them.
fn with_nulls(plan: LogicalPlan) -> Result<LogicalPlan> {
    let nullable = |expr: Expr| {
        expr.transform_up(|nested| match nested {
            Expr::OuterReferenceColumn(field, column) if !field.is_nullable() => {
                let field = Arc::new(field.as_ref().clone().with_nullable(true));
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })
    };
    let known = plan.transform_up_with_subqueries(|node| {
        map_expressions(node, nullable)?.data.recompute_schema().map(Transformed::yes)
    });
    known.data()
}

/// Names that no query has, each of them once.
#[derive(Debug, Default)]
struct Names {
    count: usize,
}

impl Names {
    /// Refuses what would take for ever to plan: the plan of the outer rows is there twice for each subquery.
    fn check(&self) -> Result<()> {
        if self.count > MOST_NAMES {
            return plan_err!(
                "subqueries within each other that name columns from outside of them would be asked of too many parts of the \
                 query: put what is asked for into tables first"
            );
        }
        Ok(())
    }

    fn fresh(&mut self, what: &str) -> String {
        self.count += 1;
        format!("__{what}_{}", self.count)
    }
}

/// A subquery has some five names.
const MOST_NAMES: usize = 2_000;

/// The columns that the node's subqueries see, if it has such that `is_asked` is true of.
fn asking_schema(node: &LogicalPlan, is_asked: fn(&Expr, &DFSchema) -> Result<bool>) -> Result<Option<Arc<DFSchema>>> {
    let [input] = node.inputs()[..] else { return Ok(None) };
    let schema = input.schema();
    Ok(any_expression(node, |expr| expr.exists(|nested| is_asked(nested, schema)))?.then(|| Arc::clone(schema)))
}

/// Whether it is joined here, or by DataFusion below a projection alone.
fn is_asked_below(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    match expr {
        Expr::ScalarSubquery(Subquery { subquery, .. }) => Ok(!outer_columns::of(subquery, schema)?.is_empty()),
        other => is_joined_here(other, schema),
    }
}

/// Whether it is a subquery on columns of the schema that DataFusion does not join, or not rightly.
fn is_joined_here(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let (subquery, asked) = match expr {
        Expr::ScalarSubquery(subquery) => (subquery, Asked::Value),
        Expr::Exists(Exists { subquery, .. }) => (subquery, Asked::Rows),
        Expr::InSubquery(InSubquery { subquery, negated: false, .. }) => (subquery, Asked::Member),
        _ => return Ok(false),
    };
    let plan = &subquery.subquery;
    Ok(!outer_columns::of(plan, schema)?.is_empty() && !stock::joins(plan, asked)?)
}

/// A filter or projection over a join with what its subqueries say of each row.
fn joined(node: LogicalPlan, schema: &Arc<DFSchema>, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let asks = |expr: &Expr| expr.exists(|nested| is_joined_here(nested, schema));
    let (node, input) = match node {
        // Rows that other conditions leave out are not asked about.
        LogicalPlan::Filter(Filter { predicate, mut input, .. }) => {
            let (mut asking, mut others) = (Vec::new(), Vec::new());
            for part in split_conjunction(&predicate) {
                if asks(part)? { asking.push(part.clone()) } else { others.push(part.clone()) }
            }
            if let Some(others) = conjunction(others) {
                input = Arc::new(LogicalPlan::Filter(Filter::try_new(others, input)?));
            }
            let predicate = conjunction(asking).unwrap_or(predicate);
            (LogicalPlan::Filter(Filter::try_new(predicate, Arc::clone(&input))?), input)
        }
        other => {
            let [input] = other.inputs()[..] else { return Ok(Transformed::no(other)) };
            let input = Arc::new(input.clone());
            (other, input)
        }
    };
    let mut with_answers = Joined { rows: Arc::clone(&input), input: Arc::clone(&input), names };
    let mut exprs = Vec::new();
    let is_projection = matches!(node, LogicalPlan::Projection(_));
    for (expr, (qualifier, field)) in node.expressions().into_iter().zip(node.schema().iter()) {
        let answered = expr.transform_down(|nested| {
            if !is_joined_here(&nested, schema)? {
                return Ok(Transformed::no(nested));
            }
            Ok(Transformed::new(with_answers.answer(nested)?, true, TreeNodeRecursion::Jump))
        })?;
        let renamed = is_projection && answered.transformed;
        exprs.push(if renamed { named(answered.data, qualifier, field) } else { answered.data });
    }
    let rows = with_answers.rows;
    Ok(Transformed::yes(match exprs.pop() {
        Some(predicate) if !is_projection => {
            let columns = node.schema().columns().into_iter().map(Expr::Column).collect();
            let kept = LogicalPlan::Filter(Filter::try_new(predicate, rows)?);
            LogicalPlan::Projection(Projection::try_new(columns, Arc::new(kept))?)
        }
        last => {
            exprs.extend(last);
            LogicalPlan::Projection(Projection::try_new(exprs, rows)?)
        }
    }))
}

/// The expression under the name of a field.
fn named(expr: Expr, qualifier: Option<&TableReference>, field: &FieldRef) -> Expr {
    let (relation, name) = expr.qualified_name();
    if relation.as_ref() == qualifier && name == *field.name() {
        return expr;
    }
    expr.unalias().alias_qualified(qualifier.cloned(), field.name())
}

/// A node's input, and what is known of each of its rows.
struct Joined<'a> {
    /// The input with columns behind its own.
    rows: Arc<LogicalPlan>,
    input: Arc<LogicalPlan>,
    names: &'a mut Names,
}

impl Joined<'_> {
    /// What stands for a subquery, over the rows.
    fn answer(&mut self, asked: Expr) -> Result<Expr> {
        match asked {
            Expr::ScalarSubquery(Subquery { subquery, .. }) => self.value(&subquery),
            Expr::Exists(Exists { subquery, negated }) => self.has_row(&subquery.subquery, negated),
            Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
                let equal = has_member(&subquery.subquery, *expr, self.input.schema())?;
                self.has_row(&equal, false)
            }
            other => plan_err!("{other} is no subquery that is joined"),
        }
    }

    fn value(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        let (domain, Dependent { plan, keys }) = self.unnested(subquery)?;
        let value = Column::from(subquery.schema().qualified_field(0));
        let name = self.names.fresh("value");
        let mut columns = vec![Expr::Column(value).alias(name.as_str())];
        columns.extend(keys.iter().cloned().map(Expr::Column));
        let mut plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        let value = Expr::Column(Column::new_unqualified(name));
        if stock::gives_one_row(subquery)? {
            self.join(&domain, plan, keys)?;
            return Ok(value);
        }
        let (name, row_count) = (self.names.fresh("value"), self.names.fresh("rows"));
        let grouped = keys.iter().cloned().map(Expr::Column).collect();
        let of_group =
            vec![first_value(value, Vec::new()).alias(name.as_str()), count(lit(1_i64)).alias(row_count.as_str())];
        plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), grouped, of_group)?);
        self.join(&domain, plan, keys)?;
        let column = |name: String| Expr::Column(Column::new_unqualified(name));
        Ok(one_row::call(column(name), column(row_count)))
    }

    fn has_row(&mut self, subquery: &LogicalPlan, negated: bool) -> Result<Expr> {
        let (domain, Dependent { plan, keys }) = self.unnested(subquery)?;
        let mut columns: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(columns.clone(), Arc::new(plan))?);
        let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
        let name = self.names.fresh("found");
        columns.push(lit(true).alias(name.as_str()));
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        self.join(&domain, plan, keys)?;
        let found = Expr::Column(Column::new_unqualified(name));
        Ok(if negated { found.is_null() } else { found.is_not_null() })
    }

    fn unnested(&mut self, subquery: &LogicalPlan) -> Result<(Domain, Dependent)> {
        let columns = outer_columns::of(subquery, self.input.schema())?;
        let domain = Domain::of(&self.input, columns)?;
        let dependent = Unnesting { domain: &domain, names: self.names }.dependent(subquery)?;
        Ok((domain, dependent))
    }

    /// Joins the plan to the rows, those without a match included, by the domain's columns, where NULL is a value as others
    /// are.
    fn join(&mut self, domain: &Domain, plan: LogicalPlan, keys: Vec<Column>) -> Result<()> {
        let pairs = domain.columns().cloned().zip(keys);
        let on = pairs.map(|(outer, key)| (Expr::Column(outer), Expr::Column(key))).collect();
        let nulls = if domain.has_nulls() { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing };
        let (rows, plan) = (Arc::clone(&self.rows), Arc::new(plan));
        let join = Join::try_new(rows, plan, on, None, JoinType::Left, JoinConstraint::On, nulls, false)?;
        self.rows = Arc::new(LogicalPlan::Join(join));
        Ok(())
    }
}

/// That two sides have the same values of the domain.
fn is_same(domain: &Domain, left: &[Column], right: &[Column]) -> Option<Expr> {
    let op = if domain.has_nulls() { Operator::IsNotDistinctFrom } else { Operator::Eq };
    let pairs = left.iter().cloned().zip(right.iter().cloned());
    conjunction(pairs.map(|(left, right)| binary_expr(Expr::Column(left), op, Expr::Column(right))))
}

/// A join whose right side is asked of each row of the left one, as a join of the two.
fn lateral_joined(join: Join, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    // Where its subqueries alone name the left side's columns nothing says that it is one.
    let (subquery, alias) = lateral(&join.right).unwrap_or((&join.right, None));
    let columns = outer_columns::of(subquery, join.left.schema())?;
    let is_row_by_row = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    if columns.is_empty() || !is_row_by_row || stock::joins(subquery, Asked::Lateral)? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let domain = Domain::of(&join.left, columns)?;
    let Dependent { plan, mut keys } = Unnesting { domain: &domain, names }.dependent(subquery)?;
    let mut plan = dependent::under_names(plan, subquery.schema().columns(), subquery.schema(), &keys)?;
    if let Some(alias) = alias {
        plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), alias.clone())?);
        keys = keys.into_iter().map(|key| Column::new(Some(alias.clone()), key.name)).collect();
    }
    let outer: Vec<Column> = domain.columns().cloned().collect();
    let condition = conjunction(join.filter.into_iter().chain(is_same(&domain, &outer, &keys)));
    let columns = join.schema.columns().into_iter().map(Expr::Column).collect();
    let joined = Join::try_new(
        join.left,
        Arc::new(plan),
        join.on,
        condition,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let joined = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(LogicalPlan::Join(joined)))?);
    Ok(Transformed::yes(joined))
}

/// What is asked of each row of a join's other side, and what it is called.
fn lateral(side: &LogicalPlan) -> Option<(&LogicalPlan, Option<&TableReference>)> {
    match side {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Some((subquery, None)),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => match input.as_ref() {
            LogicalPlan::Subquery(Subquery { subquery, .. }) => Some((subquery, Some(alias))),
            _ => None,
        },
        _ => None,
    }
}
