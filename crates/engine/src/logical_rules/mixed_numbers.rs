//! Floats beside decimals are worked on as floats.
//!
//! Where a float and a decimal are compared, or are values of one column, DataFusion makes decimals of both, with fifteen
//! digits behind the point and up to twenty before it: `1e-20 > n` is false where `n` is `0.00`, `1e30` and infinities
//! fail the query, and a UNION of both rounds the floats. [`FloatsBesideDecimals`] stands before the stock type coercion
//! and casts the decimals to 64-bit floats, as arithmetic on both does.
//!
//! A number that is written in the query with at most fifteen digits on either side of its point is no float here, nor
//! are sums and products of such: to compare decimals with `0.05` DataFusion's way is exact, and what scans, indexes and
//! pipelines understand, and with `0.06 + 0.01` it is as exact, where the float is less than `0.07`.
//!
//! Invariants: names of columns stay. Stateless, shared freely.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery,
    Union, cast,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::{TypeCoercion, TypeCoercionRewriter};

use crate::plan_expressions::{any_expression, input_schema, map_expressions};

/// Functions whose arguments are values of one type, and that give back one of them, or whether they are alike.
const FUNCTIONS_OF_ONE_TYPE: [&str; 7] = ["coalesce", "nullif", "nvl", "ifnull", "greatest", "least", "make_array"];

/// Puts [`FloatsBesideDecimals`] before the stock type coercion.
pub(super) fn install(rules: &mut Vec<Arc<dyn AnalyzerRule + Send + Sync>>) {
    let coercion = TypeCoercion::new();
    let place = rules.iter().position(|rule| rule.name() == coercion.name()).unwrap_or(rules.len());
    rules.insert(place, Arc::new(FloatsBesideDecimals));
}

/// See the module.
#[derive(Debug)]
struct FloatsBesideDecimals;

impl AnalyzerRule for FloatsBesideDecimals {
    fn name(&self) -> &str {
        "floats_beside_decimals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_decimals(&plan)? {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(rewritten).data()
    }
}

/// Most queries have none, and are not looked at any further.
fn has_decimals(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = node.schema().fields().iter().any(|field| field.data_type().is_decimal())
            || any_expression(node, |expr| expr.exists(|nested| Ok(makes_decimal(nested))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn makes_decimal(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => cast.field.data_type().is_decimal(),
        Expr::TryCast(cast) => cast.field.data_type().is_decimal(),
        Expr::Literal(value, _) => value.data_type().is_decimal(),
        _ => false,
    }
}

fn rewritten(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Union(union) => united(union)?,
        LogicalPlan::Join(join) => joined(join)?,
        other => Transformed::no(other),
    };
    let schema = input_schema(&node.data)?;
    node.transform_data(|node| map_expressions(node, |expr| expr.transform_up(|nested| alike(nested, &schema))))?
        // A node above takes its columns for what they were.
        .map_data(|node| if matches!(node, LogicalPlan::Union(_)) { Ok(node) } else { node.recompute_schema() })
}

/// `expr` with what it compares, or gives out, of one type.
fn alike(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            Ok(as_floats(vec![*left, *right], schema)?.update_data(|mut sides| {
                let right = Box::new(sides.remove(1));
                Expr::BinaryExpr(BinaryExpr { left: Box::new(sides.remove(0)), op, right })
            }))
        }
        Expr::Between(Between { expr, negated, low, high }) => Ok(as_floats(vec![*expr, *low, *high], schema)?
            .update_data(|mut parts| {
                let (high, low) = (Box::new(parts.remove(2)), Box::new(parts.remove(1)));
                Expr::Between(Between { expr: Box::new(parts.remove(0)), negated, low, high })
            })),
        Expr::InList(InList { expr, mut list, negated }) => {
            list.insert(0, *expr);
            Ok(as_floats(list, schema)?.update_data(|mut list| {
                let expr = Box::new(list.remove(0));
                Expr::InList(InList { expr, list, negated })
            }))
        }
        Expr::Case(case) => of_one_case(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if FUNCTIONS_OF_ONE_TYPE.contains(&func.name()) => {
            Ok(as_floats(args, schema)?.update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => Ok(with_subquery(*expr, subquery, schema)?
            .update_data(|(expr, subquery)| Expr::InSubquery(InSubquery { expr: Box::new(expr), subquery, negated }))),
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            Ok(with_subquery(*expr, subquery, schema)?.update_data(|(expr, subquery)| {
                Expr::SetComparison(SetComparison { expr: Box::new(expr), subquery, op, quantifier })
            }))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// What a CASE compares is of one type, and so is what it gives.
fn of_one_case(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (mut whens, mut thens): (Vec<Expr>, Vec<Expr>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let (has_operand, has_else) = (expr.is_some(), else_expr.is_some());
    whens.extend(expr.map(|operand| *operand));
    thens.extend(else_expr.map(|otherwise| *otherwise));
    // Without an operand these are conditions.
    let whens = as_floats(whens, schema)?;
    let thens = as_floats(thens, schema)?;
    let transformed = whens.transformed || thens.transformed;
    let (mut whens, mut thens) = (whens.data, thens.data);
    let expr = if has_operand { whens.pop().map(Box::new) } else { None };
    let else_expr = if has_else { thens.pop().map(Box::new) } else { None };
    let when_then_expr = whens.into_iter().zip(thens).map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    let case = Expr::Case(Case { expr, when_then_expr, else_expr });
    Ok(if transformed { Transformed::yes(case) } else { Transformed::no(case) })
}

/// The expressions; decimals among them are cast if there are floats too.
fn as_floats(expressions: Vec<Expr>, schema: &DFSchema) -> Result<Transformed<Vec<Expr>>> {
    let kinds: Vec<Option<Kind>> = expressions.iter().map(|expr| Kind::of(expr, schema)).collect();
    if !Kind::are_mixed(kinds.iter().copied()) {
        return Ok(Transformed::no(expressions));
    }
    let cast_if_decimal = |(expr, kind): (Expr, Option<Kind>)| match kind {
        Some(Kind::Decimal) => cast(expr, DataType::Float64),
        _ => expr,
    };
    Ok(Transformed::yes(expressions.into_iter().zip(kinds).map(cast_if_decimal).collect()))
}

/// What matters of a value's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Decimal,
}

impl Kind {
    /// None for other types, for those that cannot be told, and for what goes with either.
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        Self::of_type(&expr.get_type(schema).ok()?).filter(|kind| *kind == Self::Decimal || !is_short_number(expr))
    }

    fn of_type(data_type: &DataType) -> Option<Self> {
        match data_type {
            data_type if data_type.is_floating() => Some(Self::Float),
            data_type if data_type.is_decimal() => Some(Self::Decimal),
            _ => None,
        }
    }

    fn are_mixed(kinds: impl Iterator<Item = Option<Self>> + Clone) -> bool {
        kinds.clone().any(|kind| kind == Some(Self::Float)) && kinds.clone().any(|kind| kind == Some(Self::Decimal))
    }
}

/// Whether the expression is a number of at most fifteen digits before and behind the point, which a decimal holds as it
/// is written, or NULL.
fn is_short_number(expr: &Expr) -> bool {
    Digits::of(expr).is_some_and(|digits| digits.magnitude < 1e15 && digits.fraction <= 15)
}

/// How many digits a number has that is written in the query, or reckoned from such.
struct Digits {
    /// Behind the point.
    fraction: usize,
    /// What the number is at most, with either sign.
    magnitude: f64,
}

impl Digits {
    /// None for what is not written.
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Literal(ScalarValue::Float64(Some(number)), _) => Self::written(*number),
            Expr::Literal(ScalarValue::Float32(Some(number)), _) => Self::written(f64::from(*number)),
            Expr::Literal(ScalarValue::Int64(Some(number)), _) => Self::written(*number as f64),
            Expr::Literal(value, _) if value.is_null() => Some(Self { fraction: 0, magnitude: 0.0 }),
            Expr::Negative(number) => Self::of(number),
            Expr::Alias(alias) => Self::of(&alias.expr),
            Expr::Cast(cast) => Self::of(&cast.expr),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (left, right) = (Self::of(left)?, Self::of(right)?);
                match op {
                    Operator::Plus | Operator::Minus => Some(Self {
                        fraction: left.fraction.max(right.fraction),
                        magnitude: left.magnitude + right.magnitude,
                    }),
                    Operator::Multiply => Some(Self {
                        fraction: left.fraction + right.fraction,
                        magnitude: left.magnitude * right.magnitude,
                    }),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// None for infinities and NaN, which have no digits.
    fn written(number: f64) -> Option<Self> {
        let magnitude = number.abs();
        let written = magnitude.to_string();
        let fraction = written.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        magnitude.is_finite().then_some(Self { fraction, magnitude })
    }
}

/// An expression beside the one column of a subquery, both of one type.
fn with_subquery(expr: Expr, subquery: Subquery, schema: &DFSchema) -> Result<Transformed<(Expr, Subquery)>> {
    let inner = &subquery.subquery;
    let kinds = [Kind::of(&expr, schema), Kind::of_type(inner.schema().field(0).data_type())];
    Ok(match kinds {
        [Some(Kind::Decimal), Some(Kind::Float)] => Transformed::yes((cast(expr, DataType::Float64), subquery)),
        [Some(Kind::Float), Some(Kind::Decimal)] => {
            let column = Expr::Column(Column::from(inner.schema().qualified_field(0)));
            let name = inner.schema().field(0).name().clone();
            let project = [cast(column, DataType::Float64).alias(name)];
            let inner = LogicalPlanBuilder::from(Arc::clone(inner)).project(project)?.build()?;
            Transformed::yes((expr, subquery.with_plan(Arc::new(inner))))
        }
        _ => Transformed::no((expr, subquery)),
    })
}

/// A join by keys of one type each.
fn joined(join: Join) -> Result<Transformed<LogicalPlan>> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let mut is_mixed = false;
    let as_floats = |(left_key, right_key): (Expr, Expr)| match [Kind::of(&left_key, left), Kind::of(&right_key, right)]
    {
        [Some(Kind::Decimal), Some(Kind::Float)] => {
            is_mixed = true;
            (cast(left_key, DataType::Float64), right_key)
        }
        [Some(Kind::Float), Some(Kind::Decimal)] => {
            is_mixed = true;
            (left_key, cast(right_key, DataType::Float64))
        }
        _ => (left_key, right_key),
    };
    let on = join.on.iter().cloned().map(as_floats).collect();
    let join = LogicalPlan::Join(Join { on, ..join });
    Ok(if is_mixed { Transformed::yes(join) } else { Transformed::no(join) })
}

/// A union whose columns are of one type each.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let kinds_of = |input: &Arc<LogicalPlan>| -> Vec<Option<Kind>> {
        let fields = input.schema().fields().iter().enumerate();
        let kind = |at: usize, data_type| {
            let is_written = matches!(&**input, LogicalPlan::Projection(made) if is_short_number(&made.expr[at]));
            Kind::of_type(data_type).filter(|kind| *kind == Kind::Decimal || !is_written)
        };
        fields.map(|(at, field)| kind(at, field.data_type())).collect()
    };
    let kinds: Vec<_> = union.inputs.iter().map(kinds_of).collect();
    let column_count = union.schema.fields().len();
    if kinds.iter().any(|kinds| kinds.len() != column_count) {
        // That is an error, which somebody else has words for.
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mixed: Vec<bool> = (0..column_count).map(|at| Kind::are_mixed(kinds.iter().map(|kinds| kinds[at]))).collect();
    if !mixed.contains(&true) {
        let is_of = |input: &Arc<LogicalPlan>| {
            let types = input.schema().fields().iter().map(|field| field.data_type());
            types.eq(union.schema.fields().iter().map(|field| field.data_type()))
        };
        // Until it is coerced a union has the types of its first input, which a union above would go by.
        return match union.inputs.iter().all(is_of) {
            true => Ok(Transformed::no(LogicalPlan::Union(union))),
            false => Ok(Transformed::yes(TypeCoercionRewriter::coerce_union(union)?)),
        };
    }
    let input_of_floats = |(input, kinds): (&Arc<LogicalPlan>, &Vec<Option<Kind>>)| -> Result<Arc<LogicalPlan>> {
        let columns = input.schema().iter().enumerate().map(|(at, (qualifier, field))| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match mixed[at] && kinds[at] == Some(Kind::Decimal) {
                true => cast(column, DataType::Float64).alias_qualified(qualifier.cloned(), field.name()),
                false => column,
            }
        });
        let columns = columns.collect();
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(input))?)))
    };
    let inputs = union.inputs.iter().zip(&kinds).map(input_of_floats).collect::<Result<Vec<_>>>()?;
    // Its columns are those of the first input, under names of its own.
    let fields = union.schema.iter().zip(inputs[0].schema().fields()).map(|((qualifier, field), input)| {
        (qualifier.cloned(), Arc::new(field.as_ref().clone().with_data_type(input.data_type().clone())))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.metadata().clone())?;
    let coerced = TypeCoercionRewriter::coerce_union(Union { inputs, schema: Arc::new(schema) })?;
    Ok(Transformed::yes(coerced))
}

#[cfg(test)]
mod tests;
