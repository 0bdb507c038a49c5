//! Arithmetic on values of a row.
//!
//! Types and overflow are DataFusion's: both operands of an integer operation have one type, which its result has too,
//! and which it wraps around in; integers are divided towards zero, by zero with an error; floats are IEEE 754's, in
//! their own width; decimals are brought to one scale for sums and differences, and a result that does not fit 128 bits
//! is an error. Decimals are not divided here. Of a NULL all is NULL, but for what a case makes of it.

use super::value_type::MAX_PRECISION;
use super::{Condition, DatePart, Slot, SlotInfo, ValueType};
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// No value.
    Null {
        /// Of which type it is none.
        value_type: ValueType,
    },
    /// A value, or none, that is known before a run, but not when the pipeline is made: one for all rows.
    Parameter {
        /// Which of the values that the pipeline is bound to ([`Pipeline::bound`](super::Pipeline::bound)).
        number: usize,
        /// Its type; not text.
        value_type: ValueType,
    },
    /// Two operands and what is done with them.
    Binary {
        /// What is done.
        operator: Operator,
        /// The left and the right operand.
        operands: Box<(Expression, Expression)>,
    },
    /// The same number in another type: an integer or a decimal in one with digits enough before the point and behind it,
    /// or in a float, which rounds it; a 32-bit float in one of 64 bits; a 64-bit float in a decimal, rounded to its
    /// digits, which is an error if it has too many.
    Cast {
        /// What is cast.
        operand: Box<Expression>,
        /// The type it gets.
        to: ValueType,
    },
    /// A part of a date, as a whole number of 32 bits.
    DatePart {
        /// Which.
        part: DatePart,
        /// The date.
        operand: Box<Expression>,
    },
    /// The value behind the first condition that is true: `CASE WHEN`. All values are of one type, and nothing in it
    /// divides whole numbers: what another branch decides is computed too.
    Case {
        /// Conditions and their values.
        branches: Vec<(Condition, Expression)>,
        /// The value where none is true; without it NULL.
        otherwise: Option<Box<Expression>>,
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

    /// The same number in another type.
    pub fn cast(self, to: ValueType) -> Self {
        Self::Cast { operand: Box::new(self), to }
    }

    /// A part of a date.
    pub fn date_part(part: DatePart, operand: Expression) -> Self {
        Self::DatePart { part, operand: Box::new(operand) }
    }

    /// The slots whose values it takes, in the order of their mention.
    pub fn slots(&self) -> Vec<Slot> {
        match self {
            Self::Slot(slot) => vec![*slot],
            Self::Literal { .. } | Self::Null { .. } | Self::Parameter { .. } => Vec::new(),
            Self::Binary { operands, .. } => [operands.0.slots(), operands.1.slots()].concat(),
            Self::Cast { operand, .. } | Self::DatePart { operand, .. } => operand.slots(),
            Self::Case { branches, otherwise } => {
                let of_branch = |(condition, value): &(Condition, Self)| [condition.slots(), value.slots()].concat();
                let of_last = otherwise.iter().flat_map(|value| value.slots());
                branches.iter().flat_map(of_branch).chain(of_last).collect()
            }
        }
    }

    /// Its conditions, with all that are part of others.
    pub(super) fn conditions(&self) -> Vec<&Condition> {
        match self {
            Self::Slot(_) | Self::Literal { .. } | Self::Null { .. } | Self::Parameter { .. } => Vec::new(),
            Self::Binary { operands, .. } => [operands.0.conditions(), operands.1.conditions()].concat(),
            Self::Cast { operand, .. } | Self::DatePart { operand, .. } => operand.conditions(),
            Self::Case { branches, otherwise } => {
                let of_branches = branches
                    .iter()
                    .flat_map(|(condition, value)| [condition.with_parts(), value.conditions()].concat());
                of_branches.chain(otherwise.iter().flat_map(|value| value.conditions())).collect()
            }
        }
    }

    /// Whether there may be NULLs among its values.
    pub(crate) fn is_nullable(&self, slots: &[SlotInfo]) -> bool {
        match self {
            Self::Slot(slot) => slots[slot.index()].nullable,
            Self::Literal { .. } => false,
            Self::Null { .. } | Self::Parameter { .. } => true,
            Self::Binary { operands, .. } => operands.0.is_nullable(slots) || operands.1.is_nullable(slots),
            Self::Cast { operand, .. } | Self::DatePart { operand, .. } => operand.is_nullable(slots),
            Self::Case { branches, otherwise } => {
                let of_last = otherwise.as_ref().is_none_or(|value| value.is_nullable(slots));
                of_last || branches.iter().any(|(_, value)| value.is_nullable(slots))
            }
        }
    }

    /// The same with values in place of parameters, by their numbers.
    ///
    /// # Errors
    /// [`PipelineError::Parameter`] for one without a value, or with one of another type.
    pub(super) fn bound(&self, values: &[Expression]) -> Result<Self, PipelineError> {
        Ok(match self {
            Self::Parameter { number, value_type: expected } => match values.get(*number) {
                Some(value @ (Self::Literal { value_type, .. } | Self::Null { value_type }))
                    if value_type == expected =>
                {
                    value.clone()
                }
                _ => return Err(PipelineError::Parameter { number: *number, expected: *expected }),
            },
            Self::Slot(_) | Self::Literal { .. } | Self::Null { .. } => self.clone(),
            Self::Binary { operator, operands } => {
                Self::binary(*operator, operands.0.bound(values)?, operands.1.bound(values)?)
            }
            Self::Cast { operand, to } => operand.bound(values)?.cast(*to),
            Self::DatePart { part, operand } => Self::date_part(*part, operand.bound(values)?),
            Self::Case { branches, otherwise } => {
                let bound =
                    |(condition, value): &(Condition, Self)| Ok((condition.bound(values)?, value.bound(values)?));
                let branches = branches.iter().map(bound).collect::<Result<_, PipelineError>>()?;
                let otherwise = otherwise.as_ref().map(|value| value.bound(values).map(Box::new)).transpose()?;
                Self::Case { branches, otherwise }
            }
        })
    }

    /// Whether it may fail for some whole numbers.
    pub(super) fn divides(&self, slots: &[SlotInfo]) -> bool {
        match self {
            Self::Slot(_) | Self::Literal { .. } | Self::Null { .. } | Self::Parameter { .. } => false,
            Self::Binary { operator, operands } => {
                let of_integers = || operands.0.value_type(slots).is_ok_and(ValueType::is_integer);
                matches!(operator, Operator::Divide | Operator::Remainder) && of_integers()
                    || operands.0.divides(slots)
                    || operands.1.divides(slots)
            }
            Self::Cast { operand, .. } | Self::DatePart { operand, .. } => operand.divides(slots),
            // It was checked when it was made part of this one.
            Self::Case { .. } => false,
        }
    }

    /// Whether it may be an error of some values, as far as types and constants tell: a division of whole numbers, more
    /// digits than decimals have.
    pub(crate) fn may_fail(&self, slots: &[SlotInfo]) -> bool {
        self.total_type(slots).is_none()
    }

    /// The type of its values, if it has one whatever is in the slots. (Days that no calendar has are none.)
    fn total_type(&self, slots: &[SlotInfo]) -> Option<ValueType> {
        match self {
            Self::Slot(slot) => slots.get(slot.index()).map(|info| info.value_type),
            Self::Literal { value_type, .. } | Self::Null { value_type } | Self::Parameter { value_type, .. } => {
                Some(*value_type)
            }
            Self::Binary { operator, operands } => {
                let (left, right) = (operands.0.total_type(slots)?, operands.1.total_type(slots)?);
                let is_total = match (left, right) {
                    (
                        ValueType::Decimal { precision: p1, scale: s1 },
                        ValueType::Decimal { precision: p2, scale: s2 },
                    ) => decimal_digits(*operator, (p1, s1), (p2, s2)).0 <= MAX_PRECISION,
                    _ if left.is_float() || !matches!(operator, Operator::Divide | Operator::Remainder) => true,
                    _ => matches!(operands.1, Self::Literal { value: 1.., .. }),
                };
                Self::binary_type(*operator, left, right).ok().filter(|_| is_total)
            }
            Self::Cast { operand, to } => {
                operand.total_type(slots).filter(|from| !from.is_float() || to.is_float()).map(|_| *to)
            }
            Self::DatePart { operand, .. } => operand.total_type(slots).map(|_| ValueType::Int32),
            Self::Case { branches, otherwise } => {
                let mut of_values = branches.iter().map(|(_, value)| value).chain(otherwise.as_deref());
                let of_first = of_values.next()?.total_type(slots)?;
                let are_total = of_values.all(|value| !value.may_fail(slots))
                    && branches.iter().all(|(condition, _)| !condition.may_fail(slots));
                are_total.then_some(of_first)
            }
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
            Self::Parameter { number, value_type: ValueType::Text } => {
                Err(refused(format!("parameter ${number} is a text")))
            }
            Self::Null { value_type } | Self::Parameter { value_type, .. } => Ok(*value_type),
            Self::Binary { operator, operands } => {
                Self::binary_type(*operator, operands.0.value_type(slots)?, operands.1.value_type(slots)?)
            }
            Self::Cast { operand, to } => {
                let from = operand.value_type(slots)?;
                if from.casts_to(*to) {
                    return Ok(*to);
                }
                Err(refused(format!("{from} is not cast to {to}")))
            }
            Self::DatePart { part, operand } => match operand.value_type(slots)? {
                ValueType::Date => Ok(ValueType::Int32),
                other => Err(refused(format!("the {} of {other}, which is no date", part.name()))),
            },
            Self::Case { branches, otherwise } => {
                let mut of_values = branches.iter().map(|(_, value)| value).chain(otherwise.as_deref());
                let Some(first) = of_values.next() else { return Err(refused("a case without values".to_owned())) };
                let value_type = first.value_type(slots)?;
                let mut divides = first.divides(slots);
                for value in of_values {
                    let other = value.value_type(slots)?;
                    if other != value_type {
                        return Err(refused(format!("a case of {value_type} and {other}")));
                    }
                    divides |= value.divides(slots);
                }
                for (condition, _) in branches {
                    condition.check(slots)?;
                    divides |= condition.divides(slots);
                }
                if divides {
                    return Err(refused("a case that divides whole numbers".to_owned()));
                }
                Ok(value_type)
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
                let (digits, scale) = decimal_digits(operator, (p1, s1), (p2, s2));
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

/// How many digits an operation on two decimals may need, and how many of them behind the point.
fn decimal_digits(operator: Operator, (p1, s1): (u8, u8), (p2, s2): (u8, u8)) -> (u8, u8) {
    match operator {
        Operator::Multiply => (p1 + p2 + 1, s1 + s2),
        _ => ((p1 - s1).max(p2 - s2) + s1.max(s2) + 1, s1.max(s2)),
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
