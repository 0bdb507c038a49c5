//! Arithmetic on values of a row.
//!
//! Types and overflow are DataFusion's: both operands of an integer operation have one type, which its result has too, and
//! which it wraps around in; decimals are brought to one scale for sums and differences, and a result that does not fit 128 bits
//! is an error. Of a NULL all is NULL.

use super::value_type::MAX_PRECISION;
use super::{Slot, SlotInfo, ValueType};
use crate::PipelineError;

/// What is done with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

impl Operator {
    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
        }
    }
}

/// An expression that a pipeline computes for each row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expression {
    /// The value in a slot; not a text.
    Slot(Slot),
    /// A whole number, of decimals the one behind them.
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
    /// The same number in another type that has it for certain: an integer in a wider one, or in a decimal with digits enough.
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
                if from.is_integer() && is_number && fits {
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
            (Decimal { precision: p1, scale: s1 }, Decimal { precision: p2, scale: s2 }) => {
                let scale = match operator {
                    Operator::Multiply => s1 + s2,
                    Operator::Add | Operator::Subtract => s1.max(s2),
                };
                let digits = match operator {
                    Operator::Multiply => p1 + p2 + 1,
                    Operator::Add | Operator::Subtract => (p1 - s1).max(p2 - s2) + scale + 1,
                };
                if scale > MAX_PRECISION {
                    let symbol = operator.symbol();
                    return Err(refused(format!("{left} {symbol} {right} has {scale} digits behind the point")));
                }
                Ok(Decimal { precision: digits.min(MAX_PRECISION), scale })
            }
            _ if left == right && left.is_integer() => Ok(left),
            _ => Err(refused(format!(
                "{left} {} {right} is not computed in pipelines: the operands must be two decimals or two integers of one type",
                operator.symbol()
            ))),
        }
    }
}

fn refused(reason: String) -> PipelineError {
    PipelineError::Expression { reason }
}
