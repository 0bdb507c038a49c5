//! Arithmetic on values of a row.
//!
//! Types and overflow are DataFusion's: both operands of an integer operation have one type, which its result has too,
//! and which it wraps around in; integers are divided towards zero, by zero with an error; floats are IEEE 754's, in
//! their own width; decimals are brought to one scale for sums and differences, and a result that does not fit 128 bits
//! is an error. Decimals are not divided here. Of a NULL all is NULL.

use super::value_type::MAX_PRECISION;
use super::{Slot, SlotInfo, ValueType};
use crate::{PipelineError, ordinal};

/// What is done with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: of integers and floats.
    Divide,
    /// `%`: of integers and floats, with the sign of the left operand.
    Remainder,
}

impl Operator {
    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

/// An expression that a pipeline computes for each row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expression {
    /// The value in a slot; not a text.
    Slot(Slot),
    /// A whole number, of decimals the one behind them, of booleans 0 or 1, of floats what [`Expression::float`] makes
    /// of them.
    Literal {
        /// The number.
        value: i128,
        /// Its type.
        value_type: ValueType,
    },
    /// Two operands and what is done with them.
    Binary {
        /// What is done.
        operator: Operator,
        /// The left and the right operand.
        operands: Box<(Expression, Expression)>,
    },
    /// The same number in another type: an integer in a wider one, in a decimal with digits enough or in a float, which
    /// rounds it; a 32-bit float in one of 64 bits.
    Widen {
        /// What is widened.
        operand: Box<Expression>,
        /// The type it gets.
        to: ValueType,
    },
}

impl Expression {
    /// An operation on two operands.
    pub fn binary(operator: Operator, left: Expression, right: Expression) -> Self {
        Self::Binary { operator, operands: Box::new((left, right)) }
    }

    /// A floating-point number; one of 32 bits must be one of these.
    pub fn float(value: f64, value_type: ValueType) -> Self {
        Self::Literal { value: ordinal::of_float(value).into(), value_type }
    }

    /// The same number in a wider type.
    pub fn widen(self, to: ValueType) -> Self {
        Self::Widen { operand: Box::new(self), to }
    }

    /// The slots whose values it takes, in the order of their mention.
    pub fn slots(&self) -> Vec<Slot> {
        match self {
            Self::Slot(slot) => vec![*slot],
            Self::Literal { .. } => Vec::new(),
            Self::Binary { operands, .. } => [operands.0.slots(), operands.1.slots()].concat(),
            Self::Widen { operand, .. } => operand.slots(),
        }
    }

    /// The type of its values.
    ///
    /// # Errors
    /// [`PipelineError::Expression`] for what pipelines do not compute.
    pub(crate) fn value_type(&self, slots: &[SlotInfo]) -> Result<ValueType, PipelineError> {
        match self {
            Self::Slot(slot) => {
                let info = super::slot_info(slots, *slot)?;
                match info.value_type {
                    ValueType::Text => Err(refused(format!("{} is a text", info.name))),
                    other => Ok(other),
                }
            }
            Self::Literal { value, value_type } => match value_type.range() {
                Some((least, greatest)) if (least..=greatest).contains(value) => Ok(*value_type),
                None if is_float_literal(*value, *value_type) => Ok(*value_type),
                _ => Err(refused(format!("{value} is no {value_type}"))),
            },
            Self::Binary { operator, operands } => {
                Self::binary_type(*operator, operands.0.value_type(slots)?, operands.1.value_type(slots)?)
            }
            Self::Widen { operand, to } => {
                let from = operand.value_type(slots)?;
                let fits = match (from.range(), to.range()) {
                    (Some(inner), Some(outer)) => outer.0 <= inner.0 && inner.1 <= outer.1,
                    _ => false,
                };
                let is_number = to.is_integer() || matches!(to, ValueType::Decimal { scale: 0, .. });
                let is_float =
                    to.is_float() && from.is_integer() || from == ValueType::Float32 && *to == ValueType::Float64;
                if is_float || from.is_integer() && is_number && fits {
                    return Ok(*to);
                }
                Err(refused(format!("{from} cannot be widened to {to}")))
            }
        }
    }

    /// The type of an operation's result.
    pub(crate) fn binary_type(
        operator: Operator,
        left: ValueType,
        right: ValueType,
    ) -> Result<ValueType, PipelineError> {
        use ValueType::Decimal;
        match (left, right) {
            (Decimal { .. }, Decimal { .. }) if matches!(operator, Operator::Divide | Operator::Remainder) => {
                Err(refused(format!("{left} {} {right}: decimals are not divided in pipelines", operator.symbol())))
            }
            (Decimal { precision: p1, scale: s1 }, Decimal { precision: p2, scale: s2 }) => {
                let scale = match operator {
                    Operator::Multiply => s1 + s2,
                    _ => s1.max(s2),
                };
                let digits = match operator {
                    Operator::Multiply => p1 + p2 + 1,
                    _ => (p1 - s1).max(p2 - s2) + scale + 1,
                };
                if scale > MAX_PRECISION {
                    let symbol = operator.symbol();
                    return Err(refused(format!("{left} {symbol} {right} has {scale} digits behind the point")));
                }
                Ok(Decimal { precision: digits.min(MAX_PRECISION), scale })
            }
            _ if left == right && (left.is_integer() || left.is_float()) => Ok(left),
            _ => Err(refused(format!(
                "{left} {} {right} is not computed in pipelines: the operands must be two decimals, or two integers or floats of one type",
                operator.symbol()
            ))),
        }
    }
}

fn is_float_literal(value: i128, value_type: ValueType) -> bool {
    let Ok(ordinal) = i64::try_from(value) else { return false };
    let value = ordinal::to_float(ordinal);
    value_type == ValueType::Float64
        || value_type == ValueType::Float32 && (value.is_nan() || f64::from(value as f32).total_cmp(&value).is_eq())
}

fn refused(reason: String) -> PipelineError {
    PipelineError::Expression { reason }
}
