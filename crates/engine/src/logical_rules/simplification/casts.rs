//! Comparisons of casts with constants, unwrapped only where that changes no answer.
//!
//! The stock simplifier turns `CAST(x AS T) = constant` into `x = constant`, the constant cast to `x`'s type, which rows
//! and pages can be pruned by. It cuts a timestamp to `x`'s unit (of milliseconds `ts >= 00:00:00.0015` becomes `ts >=
//! 00:00:00.001`), does not look at time zones, and takes for granted that the cast gives each value one of its own: of
//! 1.20 and 1.30 `CAST(d AS INT)` makes 1, and `TRY_CAST` of many numbers makes NULL.
//!
//! Casts of these kinds ([`loses`]) are put into calls of [`apart`], which the simplifier does not look through, while it
//! works. Behind it [`UnwrapTimestamps`] does for timestamps, which meet constants of finer units all the time, what the
//! simplifier would have done: `ts >= 00:00:00.0015` becomes `ts > 00:00:00.001`.
//!
//! Deviations: casts of the other kinds stay.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, and, binary_expr, lit, or};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::apart;
use crate::plan_expressions::{any_expression, input_schema, map_expressions};

/// Whether a comparison of such a cast with a constant may be another one when the constant is cast instead.
pub(crate) fn loses(from: &DataType, to: &DataType, gives_null: bool) -> bool {
    match (from, to) {
        (DataType::Timestamp(from, from_zone), DataType::Timestamp(to, to_zone)) => {
            to > from || !is_same_clock(from_zone.as_deref(), to_zone.as_deref())
        }
        // Days become milliseconds, or numbers of either stay as they are: the simplifier knows one of the two.
        (DataType::Int32, DataType::Date64) | (DataType::Date64, DataType::Int32) => true,
        (from, to) if from.is_decimal() && (to.is_decimal() || to.is_integer()) => {
            gives_null || scale(to) < scale(from)
        }
        (from, to) if from.is_integer() && to.is_integer() => gives_null && !holds_all(to, from),
        (from, to) if from.is_integer() || from.is_temporal() => {
            gives_null && (to.is_integer() || to.is_decimal() || to.is_temporal())
        }
        _ => false,
    }
}

/// Digits behind the point; integers have none.
fn scale(data_type: &DataType) -> i8 {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

/// Whether every value of the integer type `from` is one of the integer type `to`.
fn holds_all(to: &DataType, from: &DataType) -> bool {
    let (Some(to_bytes), Some(from_bytes)) = (to.primitive_width(), from.primitive_width()) else { return false };
    match (from.is_signed_integer(), to.is_signed_integer()) {
        (from, to) if from == to => to_bytes >= from_bytes,
        (false, _) => to_bytes > from_bytes,
        (true, _) => false,
    }
}

/// Whether the numbers of both count from the same instant.
pub(crate) fn is_same_clock(one: Option<&str>, other: Option<&str>) -> bool {
    let is_utc = |zone: &str| matches!(zone, "UTC" | "+00:00" | "Z");
    match (one, other) {
        // Instants, however they are shown.
        (Some(_), Some(_)) | (None, None) => true,
        (Some(zone), None) | (None, Some(zone)) => is_utc(zone),
    }
}

/// `value` of the finer unit in the coarser one, rounded down, and whether that is exact.
pub(crate) fn in_unit(value: i64, finer: TimeUnit, coarser: TimeUnit) -> (i64, bool) {
    let factor = in_a_second(finer) / in_a_second(coarser);
    (value.div_euclid(factor), value.rem_euclid(factor) == 0)
}

/// `value` of the coarser unit in the finer one, if there is such a number.
pub(crate) fn in_finer_unit(value: i64, coarser: TimeUnit, finer: TimeUnit) -> Option<i64> {
    value.checked_mul(in_a_second(finer) / in_a_second(coarser))
}

fn in_a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The number and unit of a timestamp that is not NULL.
pub(crate) fn timestamp(value: &ScalarValue) -> Option<(i64, TimeUnit)> {
    match value {
        ScalarValue::TimestampSecond(Some(value), _) => Some((*value, TimeUnit::Second)),
        ScalarValue::TimestampMillisecond(Some(value), _) => Some((*value, TimeUnit::Millisecond)),
        ScalarValue::TimestampMicrosecond(Some(value), _) => Some((*value, TimeUnit::Microsecond)),
        ScalarValue::TimestampNanosecond(Some(value), _) => Some((*value, TimeUnit::Nanosecond)),
        _ => None,
    }
}

/// A timestamp of this type.
pub(crate) fn timestamp_of(value: Option<i64>, unit: TimeUnit, zone: Option<&str>) -> ScalarValue {
    let zone = zone.map(Into::into);
    match unit {
        TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(value, zone),
    }
}

/// Whether `expr` is a cast that [`loses`].
pub(super) fn is_concerned(expr: &Expr, schema: &DFSchema) -> bool {
    let (operand, to, gives_null) = match expr {
        Expr::Cast(cast) => (&cast.expr, cast.field.data_type(), false),
        Expr::TryCast(cast) => (&cast.expr, cast.field.data_type(), true),
        _ => return false,
    };
    let is_of_some_kind = to.is_integer() || to.is_decimal() || to.is_temporal();
    is_of_some_kind && operand.get_type(schema).is_ok_and(|from| loses(&from, to, gives_null))
}

/// `expr` with such casts in calls of [`apart`]; one that is the whole of it, or of what is aggregated, is compared with
/// nothing.
pub(super) fn hide(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let enclosed = |nested: Expr| match is_concerned(&nested, schema) {
        true => Ok(Transformed::yes(apart::call(nested))),
        false => Ok(Transformed::no(nested)),
    };
    match expr {
        Expr::Alias(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::Column(_)
        | Expr::Literal(..) => expr.map_children(|child| hide(child, schema)),
        expr => expr.map_children(|child| child.transform_up(enclosed)),
    }
}

/// See the module. Stateless, shared freely.
#[derive(Debug)]
pub(super) struct UnwrapTimestamps;

impl OptimizerRule for UnwrapTimestamps {
    fn name(&self) -> &str {
        "unwrap_timestamps"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_cast = |expr: &Expr| matches!(expr, Expr::Cast(cast) if is_timestamp(cast.field.data_type()));
        if !any_expression(&plan, |expr| expr.exists(|nested| Ok(is_cast(nested))))? {
            return Ok(Transformed::no(plan));
        }
        let schema = input_schema(&plan)?;
        map_expressions(plan, |expr| expr.transform_up(|nested| Ok(unwrapped(nested, &schema))))
    }
}

fn is_timestamp(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..))
}

fn unwrapped(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let unwrapped = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), right.as_ref()) {
            (cast, Expr::Literal(value, _)) => comparison(cast, *op, value, schema),
            (Expr::Literal(value, _), cast) => op.swap().and_then(|op| comparison(cast, op, value, schema)),
            _ => None,
        },
        Expr::InList(list) => membership(list, schema),
        _ => None,
    };
    match unwrapped {
        Some(unwrapped) => Transformed::yes(unwrapped),
        None => Transformed::no(expr),
    }
}

/// What is cast to a finer unit, and that unit.
struct Refined<'a> {
    operand: &'a Expr,
    unit: TimeUnit,
    zone: Option<String>,
    to: TimeUnit,
    may_be_null: bool,
}

impl<'a> Refined<'a> {
    fn of(expr: &'a Expr, schema: &DFSchema) -> Option<Self> {
        let Expr::Cast(cast) = expr else { return None };
        let DataType::Timestamp(to, to_zone) = cast.field.data_type() else { return None };
        let Ok(DataType::Timestamp(unit, zone)) = cast.expr.get_type(schema) else { return None };
        if *to <= unit || !is_same_clock(zone.as_deref(), to_zone.as_deref()) {
            return None;
        }
        let may_be_null = cast.expr.nullable(schema).unwrap_or(true);
        let zone = zone.map(|zone| zone.to_string());
        Some(Self { operand: &cast.expr, unit, zone, to: *to, may_be_null })
    }

    fn literal(&self, value: Option<i64>) -> Expr {
        lit(timestamp_of(value, self.unit, self.zone.as_deref()))
    }

    /// `answer` unless the operand is NULL, then NULL.
    fn always(&self, answer: bool) -> Expr {
        let null = lit(ScalarValue::Boolean(None));
        match (self.may_be_null, answer) {
            (false, answer) => lit(answer),
            (true, false) => and(self.operand.clone().is_null(), null),
            (true, true) => or(self.operand.clone().is_not_null(), null),
        }
    }
}

fn comparison(cast: &Expr, op: Operator, value: &ScalarValue, schema: &DFSchema) -> Option<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let (value, value_unit) = timestamp(value)?;
    let refined = Refined::of(cast, schema).filter(|refined| refined.to == value_unit)?;
    let (floor, is_exact) = in_unit(value, refined.to, refined.unit);
    let with_floor = |op: Operator| binary_expr(refined.operand.clone(), op, refined.literal(Some(floor)));
    match op {
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom if is_exact => Some(with_floor(op)),
        Lt | LtEq => Some(with_floor(LtEq)),
        Gt | GtEq => Some(with_floor(Gt)),
        Eq => Some(refined.always(false)),
        NotEq => Some(refined.always(true)),
        IsDistinctFrom => Some(lit(true)),
        IsNotDistinctFrom => Some(lit(false)),
        _ => None,
    }
}

fn membership(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let refined = Refined::of(&list.expr, schema)?;
    let mut kept = Vec::with_capacity(list.list.len());
    for element in &list.list {
        let Expr::Literal(value, _) = element else { return None };
        if value.is_null() {
            kept.push(refined.literal(None));
            continue;
        }
        let (value, unit) = timestamp(value).filter(|(_, unit)| *unit == refined.to)?;
        let (floor, is_exact) = in_unit(value, unit, refined.unit);
        if is_exact {
            kept.push(refined.literal(Some(floor)));
        }
    }
    Some(match kept.is_empty() {
        true => refined.always(list.negated),
        false => refined.operand.clone().in_list(kept, list.negated),
    })
}
