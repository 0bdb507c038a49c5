//! Conditions on several values of a row, in three-valued logic.
//!
//! **Invariants**: a condition that was checked has values of one kind on both sides of each comparison, and no part
//! without a slot: what is constant is for a planner to fold.

use super::{Expression, Slot, SlotInfo, TextTest, ValueType, compared_slot, slot_info};
use crate::PipelineError;
use thermocline_predicate::{Domain, ScalarKind};

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Whether two values that are ordered like this compare so.
    #[inline(always)]
    pub(crate) fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// A condition on a row: true, false, or unknown where a NULL leaves it open. Rows are kept of which it is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Whether a value is in a set. Of NULL it is true if the set admits NULL, else unknown.
    In {
        /// The value.
        slot: Slot,
        /// The set.
        domain: Domain,
    },
    /// What a test finds out of a text.
    Text {
        /// The text.
        slot: Slot,
        /// The test.
        test: TextTest,
    },
    /// Whether there is no value; never unknown.
    IsNull(Slot),
    /// A comparison of two numbers of one type, two decimals of any scales, or two texts, which only slots hold.
    /// Unknown if one of them is NULL.
    Compare {
        /// How.
        comparison: Comparison,
        /// The left and the right operand.
        operands: Box<(Expression, Expression)>,
    },
    /// `AND`: false if one is, true if all are.
    All(Vec<Condition>),
    /// `OR`: true if one is, false if all are.
    Any(Vec<Condition>),
    /// `NOT`: unknown stays unknown.
    Not(Box<Condition>),
}

impl Condition {
    /// A comparison of two operands.
    pub fn compare(comparison: Comparison, left: Expression, right: Expression) -> Self {
        Self::Compare { comparison, operands: Box::new((left, right)) }
    }

    /// The slots whose values it takes, in the order of their mention.
    pub fn slots(&self) -> Vec<Slot> {
        match self {
            Self::In { slot, .. } | Self::Text { slot, .. } | Self::IsNull(slot) => vec![*slot],
            Self::Compare { operands, .. } => [operands.0.slots(), operands.1.slots()].concat(),
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::slots).collect(),
            Self::Not(part) => part.slots(),
        }
    }

    /// The same with values in place of parameters: see [`Expression::bound`].
    pub(super) fn bound(&self, values: &[Expression]) -> Result<Self, PipelineError> {
        let all_bound = |parts: &[Self]| parts.iter().map(|part| part.bound(values)).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Self::In { .. } | Self::Text { .. } | Self::IsNull(_) => self.clone(),
            Self::Compare { comparison, operands } => {
                Self::compare(*comparison, operands.0.bound(values)?, operands.1.bound(values)?)
            }
            Self::All(parts) => Self::All(all_bound(parts)?),
            Self::Any(parts) => Self::Any(all_bound(parts)?),
            Self::Not(part) => Self::Not(Box::new(part.bound(values)?)),
        })
    }

    /// Whether it may fail for some whole numbers.
    pub(super) fn divides(&self, slots: &[SlotInfo]) -> bool {
        match self {
            Self::In { .. } | Self::Text { .. } | Self::IsNull(_) => false,
            Self::Compare { operands, .. } => operands.0.divides(slots) || operands.1.divides(slots),
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.divides(slots)),
            Self::Not(part) => part.divides(slots),
        }
    }

    /// Whether it may be an error of some values, as far as types and constants tell.
    pub(crate) fn may_fail(&self, slots: &[SlotInfo]) -> bool {
        match self {
            Self::In { .. } | Self::IsNull(_) => false,
            Self::Text { test, .. } => test.may_fail(),
            Self::Compare { operands, .. } => operands.0.may_fail(slots) || operands.1.may_fail(slots),
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.may_fail(slots)),
            Self::Not(part) => part.may_fail(slots),
        }
    }

    /// The condition and all that are part of it.
    pub(super) fn with_parts(&self) -> Vec<&Self> {
        let parts: Vec<&Self> = match self {
            Self::In { .. } | Self::Text { .. } | Self::IsNull(_) => Vec::new(),
            Self::Compare { operands, .. } => [operands.0.conditions(), operands.1.conditions()].concat(),
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::with_parts).collect(),
            Self::Not(part) => part.with_parts(),
        };
        [vec![self], parts].concat()
    }

    /// Whether it compares what can be compared.
    pub(crate) fn check(&self, slots: &[SlotInfo]) -> Result<(), PipelineError> {
        match self {
            Self::In { slot, domain } => check_domain(compared_slot(slots, *slot)?, domain),
            Self::Text { slot, test } => match compared_slot(slots, *slot)? {
                info if info.value_type == ValueType::Text => Ok(()),
                info => Err(refused(format!("{test}: {} is of type {}, and no text", info.name, info.value_type))),
            },
            Self::IsNull(slot) => slot_info(slots, *slot).map(|_| ()),
            Self::Compare { comparison, operands } => {
                if self.slots().is_empty() {
                    return Err(refused(format!("a comparison ({}) of constants alone", comparison.symbol())));
                }
                let (left, right) = (operand_type(&operands.0, slots)?, operand_type(&operands.1, slots)?);
                let are_decimals = matches!((left, right), (ValueType::Decimal { .. }, ValueType::Decimal { .. }));
                if left == right || are_decimals {
                    return Ok(());
                }
                Err(refused(format!(
                    "{left} {} {right} is not compared in pipelines: both sides must be of one type",
                    comparison.symbol()
                )))
            }
            Self::All(parts) | Self::Any(parts) if parts.is_empty() => {
                Err(refused("a condition of no parts".to_owned()))
            }
            Self::All(parts) | Self::Any(parts) => parts.iter().try_for_each(|part| part.check(slots)),
            Self::Not(part) => part.check(slots),
        }
    }
}

/// The slot whose text an expression is, if it is one.
pub(crate) fn text_slot(expression: &Expression, slots: &[SlotInfo]) -> Option<Slot> {
    match expression {
        Expression::Slot(slot) => {
            slots.get(slot.index()).is_some_and(|info| info.value_type == ValueType::Text).then_some(*slot)
        }
        _ => None,
    }
}

fn operand_type(expression: &Expression, slots: &[SlotInfo]) -> Result<ValueType, PipelineError> {
    match text_slot(expression, slots) {
        Some(slot) => compared_slot(slots, slot).map(|_| ValueType::Text),
        None => expression.value_type(slots),
    }
}

/// Whether a slot's values are of the kind that a domain's bounds are of.
pub(super) fn check_domain(info: &SlotInfo, domain: &Domain) -> Result<(), PipelineError> {
    let expected = match info.value_type {
        ValueType::Text => ScalarKind::Utf8,
        ValueType::Float32 | ValueType::Float64 => ScalarKind::Float,
        ValueType::Boolean => ScalarKind::Boolean,
        _ => ScalarKind::Int,
    };
    match domain.kind() {
        Some(found) if found != expected => Err(PipelineError::Domain {
            name: info.name.clone(),
            value_type: info.value_type,
            found: found.to_string(),
        }),
        _ => Ok(()),
    }
}

fn refused(reason: String) -> PipelineError {
    PipelineError::Expression { reason }
}
