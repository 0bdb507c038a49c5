//! Floats beside decimals are worked on as floats.
//!
//! Where a float and a decimal are compared, or are values of one column, DataFusion makes decimals of both, with fifteen
//! digits behind the point and up to twenty before it: `1e-20 > n` is false where `n` is `0.00`, `1e30` and infinities
//! fail the query, and a UNION of both rounds the floats. [`FloatsBesideDecimals`] stands before the stock type coercion
//! and casts the decimals to 64-bit floats, as arithmetic on both does.
//!
//! A number that is written in the query in at most fifteen digits is no float here, nor are sums and products of such:
//! beside decimals it becomes the decimal that is written. DataFusion would make decimals of fifteen digits behind the
//! point of the float, of `99999.99` one that no price equals; and the float of `0.06 + 0.01` is less than `0.07`.
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
        analyzed(plan).data()
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

fn analyzed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up(|node| {
        // Behind the inputs, whose columns subqueries know.
        let schema = input_schema(&node)?;
        node.map_subqueries(|subquery| of_subquery(subquery, &schema))?.transform_data(|node| rewritten(node, &schema))
    })
}

/// A subquery of a node whose inputs have these columns.
fn of_subquery(plan: LogicalPlan, outer: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Subquery(subquery) = plan else { return Ok(Transformed::no(plan)) };
    let of_now = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(field, column) => match outer.qualified_field_from_column(&column) {
            Ok((_, now)) if now.data_type() != field.data_type() => {
                Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(now), column)))
            }
            // One of further outside.
            _ => Ok(Transformed::no(Expr::OuterReferenceColumn(field, column))),
        },
        other => Ok(Transformed::no(other)),
    };
    let columns = subquery.outer_ref_columns.into_iter().map(|expr| expr.transform_up(of_now).data());
    let outer_ref_columns = columns.collect::<Result<_>>()?;
    let plan = Arc::unwrap_or_clone(subquery.subquery)
        .transform_up_with_subqueries(|node| map_expressions(node, |expr| expr.transform_up(of_now)))?;
    let plan = analyzed(plan.data)?.data;
    let spans = subquery.spans;
    Ok(Transformed::yes(LogicalPlan::Subquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans })))
}

fn rewritten(node: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Union(union) => united(union)?,
        LogicalPlan::Join(join) => joined(join)?,
        other => Transformed::no(other),
    };
    node.transform_data(|node| map_expressions(node, |expr| expr.transform_up(|nested| alike(nested, schema))))?
        // A node above takes its columns for what they were.
        .map_data(|node| if matches!(node, LogicalPlan::Union(_)) { Ok(node) } else { node.recompute_schema() })
}

/// `expr` with what it compares, or gives out, of one type.
fn alike(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            Ok(of_one_kind(vec![*left, *right], schema)?.update_data(|mut sides| {
                let right = Box::new(sides.remove(1));
                Expr::BinaryExpr(BinaryExpr { left: Box::new(sides.remove(0)), op, right })
            }))
        }
        Expr::Between(Between { expr, negated, low, high }) => Ok(of_one_kind(vec![*expr, *low, *high], schema)?
            .update_data(|mut parts| {
                let (high, low) = (Box::new(parts.remove(2)), Box::new(parts.remove(1)));
                Expr::Between(Between { expr: Box::new(parts.remove(0)), negated, low, high })
            })),
        Expr::InList(InList { expr, mut list, negated }) => {
            list.insert(0, *expr);
            Ok(of_one_kind(list, schema)?.update_data(|mut list| {
                let expr = Box::new(list.remove(0));
                Expr::InList(InList { expr, list, negated })
            }))
        }
        Expr::Case(case) => of_one_case(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if FUNCTIONS_OF_ONE_TYPE.contains(&func.name()) => {
            Ok(of_one_kind(args, schema)?.update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args })))
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
    let whens = of_one_kind(whens, schema)?;
    let thens = of_one_kind(thens, schema)?;
    let transformed = whens.transformed || thens.transformed;
    let (mut whens, mut thens) = (whens.data, thens.data);
    let expr = if has_operand { whens.pop().map(Box::new) } else { None };
    let else_expr = if has_else { thens.pop().map(Box::new) } else { None };
    let when_then_expr = whens.into_iter().zip(thens).map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    let case = Expr::Case(Case { expr, when_then_expr, else_expr });
    Ok(if transformed { Transformed::yes(case) } else { Transformed::no(case) })
}

/// The expressions, all floats or all decimals if there are decimals among them.
fn of_one_kind(expressions: Vec<Expr>, schema: &DFSchema) -> Result<Transformed<Vec<Expr>>> {
    let kinds: Vec<Option<Kind>> = expressions.iter().map(|expr| Kind::of(expr, schema)).collect();
    let Some(common) = Kind::common(kinds.iter().copied()) else { return Ok(Transformed::no(expressions)) };
    let alike = expressions.into_iter().zip(kinds).map(|(expr, kind)| common.of_this(expr, kind));
    Ok(Transformed::yes(alike.collect()))
}

/// What matters of a value's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Decimal,
    /// A float that is written in few digits: either.
    Written(Written),
}

impl Kind {
    /// None for other types, and for those that cannot be told.
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        match Self::of_type(&expr.get_type(schema).ok()?)? {
            Self::Float => Some(Written::of(expr).map_or(Self::Float, Self::Written)),
            other => Some(other),
        }
    }

    fn of_type(data_type: &DataType) -> Option<Self> {
        match data_type {
            data_type if data_type.is_floating() => Some(Self::Float),
            data_type if data_type.is_decimal() => Some(Self::Decimal),
            _ => None,
        }
    }

    /// What decimals and others of these kinds are to be; None if there is nothing to be done.
    fn common(kinds: impl Iterator<Item = Option<Self>> + Clone) -> Option<Common> {
        let has = |holds: fn(Self) -> bool| kinds.clone().flatten().any(holds);
        match has(|kind| kind == Self::Decimal) {
            true if has(|kind| kind == Self::Float) => Some(Common::Floats),
            true if has(|kind| matches!(kind, Self::Written(_))) => Some(Common::Decimals),
            _ => None,
        }
    }
}

/// What values become that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Common {
    Floats,
    Decimals,
}

impl Common {
    /// The value, one of these.
    fn of_this(self, expr: Expr, kind: Option<Kind>) -> Expr {
        match (self, kind) {
            (Self::Floats, Some(Kind::Decimal)) => cast(expr, DataType::Float64),
            (Self::Decimals, Some(Kind::Written(number))) => number.literal(),
            _ => expr,
        }
    }
}

/// A number of at most fifteen digits before its point and as many behind it: `digits` divided by ten to the power of
/// `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    digits: i128,
    scale: u32,
}

impl Written {
    /// How many digits a 64-bit float has as it is written.
    const MOST_DIGITS: u32 = 15;

    /// The number that is written, or that is reckoned from such.
    fn of(expr: &Expr) -> Option<Self> {
        let number = match expr {
            Expr::Literal(ScalarValue::Float64(Some(number)), _) => Self::float(*number)?,
            Expr::Literal(ScalarValue::Int64(Some(number)), _) => Self { digits: (*number).into(), scale: 0 },
            Expr::Negative(number) => {
                let Self { digits, scale } = Self::of(number)?;
                Self { digits: -digits, scale }
            }
            Expr::Alias(alias) => Self::of(&alias.expr)?,
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (left, right) = (Self::of(left)?, Self::of(right)?);
                let scale = left.scale.max(right.scale);
                let (of_left, of_right) = (left.digits_at(scale), right.digits_at(scale));
                match op {
                    Operator::Plus => Self { digits: of_left + of_right, scale },
                    Operator::Minus => Self { digits: of_left - of_right, scale },
                    Operator::Multiply => {
                        Self { digits: left.digits.checked_mul(right.digits)?, scale: left.scale + right.scale }
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        let is_short = number.scale <= Self::MOST_DIGITS
            && number.digits.unsigned_abs() < 10u128.pow(Self::MOST_DIGITS + number.scale);
        is_short.then_some(number)
    }

    /// The shortest decimal that is read as the float is the one that was written, if that has not more digits than
    /// floats have.
    fn float(number: f64) -> Option<Self> {
        let written = number.abs().to_string();
        let (whole, fraction) = written.split_once('.').unwrap_or((&written, ""));
        let (digits, scale) = (format!("{whole}{fraction}"), u32::try_from(fraction.len()).ok()?);
        if !number.is_finite() || digits.trim_start_matches('0').len() > Self::MOST_DIGITS as usize {
            return None;
        }
        let digits: i128 = digits.parse().ok()?;
        Some(Self { digits: if number.is_sign_negative() { -digits } else { digits }, scale })
    }

    /// The digits with more zeros behind the point; both numbers are short, so that there is room for them.
    fn digits_at(self, scale: u32) -> i128 {
        self.digits * 10i128.pow(scale - self.scale)
    }

    fn literal(self) -> Expr {
        let digits = self.digits.unsigned_abs().checked_ilog10().map_or(1, |power| power + 1).max(self.scale);
        // Both are at most thirty.
        Expr::Literal(ScalarValue::Decimal128(Some(self.digits), digits as u8, self.scale as i8), None)
    }
}

/// An expression beside the one column of a subquery, both of one type.
fn with_subquery(expr: Expr, subquery: Subquery, schema: &DFSchema) -> Result<Transformed<(Expr, Subquery)>> {
    let inner = &subquery.subquery;
    let kinds = [Kind::of(&expr, schema), Kind::of_type(inner.schema().field(0).data_type())];
    Ok(match kinds {
        [Some(Kind::Decimal), Some(Kind::Float)] => Transformed::yes((cast(expr, DataType::Float64), subquery)),
        [Some(Kind::Written(number)), Some(Kind::Decimal)] => Transformed::yes((number.literal(), subquery)),
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
        let written = |at: usize| match &**input {
            LogicalPlan::Projection(made) => Written::of(&made.expr[at]),
            _ => None,
        };
        let kind = |at: usize, data_type| match Kind::of_type(data_type)? {
            Kind::Float => Some(written(at).map_or(Kind::Float, Kind::Written)),
            other => Some(other),
        };
        fields.map(|(at, field)| kind(at, field.data_type())).collect()
    };
    let kinds: Vec<_> = union.inputs.iter().map(kinds_of).collect();
    let column_count = union.schema.fields().len();
    if kinds.iter().any(|kinds| kinds.len() != column_count) {
        // That is an error, which somebody else has words for.
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let common: Vec<_> = (0..column_count).map(|at| Kind::common(kinds.iter().map(|kinds| kinds[at]))).collect();
    if common.iter().all(Option::is_none) {
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
    let input_of_one_kind = |(input, kinds): (&Arc<LogicalPlan>, &Vec<Option<Kind>>)| -> Result<Arc<LogicalPlan>> {
        let columns = input.schema().iter().enumerate().map(|(at, (qualifier, field))| {
            let column = Expr::Column(Column::from((qualifier, field)));
            let value = common[at].map_or_else(|| column.clone(), |common| common.of_this(column.clone(), kinds[at]));
            if value == column { column } else { value.alias_qualified(qualifier.cloned(), field.name()) }
        });
        let columns = columns.collect();
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(input))?)))
    };
    let inputs = union.inputs.iter().zip(&kinds).map(input_of_one_kind).collect::<Result<Vec<_>>>()?;
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
