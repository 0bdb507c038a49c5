//! Expressions and conditions, evaluated for the rows at some places of a view, one operation after the other.
//!
//! **Owns**: what an expression means on columns of numbers. **Does not own**: arithmetic itself (`numbers`), conditions
//! as tests of a mini-block's rows (`stage`).
//!
//! **Invariants**: all parts are evaluated for all rows: what a case leaves out, its value has no say in. Nothing that is
//! left out can fail but by an overflow, which may be an error then.
//!
//! **Concurrency**: a view belongs to one thread.

use std::cmp::Ordering;

use super::numbers::{Lane, Numbers};
use super::stage::{number_set, orderings};
use super::view::View;
use crate::PipelineError;
use crate::ir::{Comparison, Condition, Expression, Operator, Slot, ValueType, text_slot};
use crate::ordinal::UNSIGNED_BIAS;

impl View<'_> {
    /// The values of an expression, and their type.
    pub(super) fn computed(
        &mut self,
        expression: &Expression,
        block: usize,
        rows: &[u16],
    ) -> Result<(ValueType, Numbers), PipelineError> {
        Ok(match expression {
            Expression::Slot(slot) => {
                let value_type = self.context.pipeline.slot(*slot).value_type;
                (value_type, self.numbers(*slot, block, rows)?)
            }
            Expression::Literal { value, value_type } => {
                let bias = if *value_type == ValueType::UInt64 { UNSIGNED_BIAS } else { 0 };
                (*value_type, Numbers::repeated(*value - bias, rows.len()))
            }
            Expression::Null { value_type } => (*value_type, Numbers::nulls(rows.len())),
            Expression::Parameter { number, value_type } => {
                return Err(PipelineError::Parameter { number: *number, expected: *value_type });
            }
            Expression::Cast { operand, to } => {
                let (from, numbers) = self.computed(operand, block, rows)?;
                (*to, numbers.cast(from, *to)?)
            }
            Expression::Binary { operator, operands } => {
                let (left_type, left) = self.computed(&operands.0, block, rows)?;
                let (right_type, right) = self.computed(&operands.1, block, rows)?;
                let value_type = Expression::binary_type(*operator, left_type, right_type)?;
                let factor = |operand: ValueType| match (operator, operand, value_type) {
                    (Operator::Multiply, ..) => 1,
                    (_, ValueType::Decimal { scale: from, .. }, ValueType::Decimal { scale, .. }) => {
                        10i128.pow(u32::from(scale.saturating_sub(from)))
                    }
                    _ => 1,
                };
                let numbers = match value_type {
                    ValueType::Decimal { .. } => {
                        Numbers::decimals(*operator, (left, factor(left_type)), (right, factor(right_type)))?
                    }
                    ValueType::Float32 | ValueType::Float64 => Numbers::floats(*operator, value_type, left, right),
                    _ => Numbers::integers(*operator, value_type, left, right)?,
                };
                (value_type, numbers)
            }
            Expression::DatePart { part, operand } => {
                let (_, days) = self.computed(operand, block, rows)?;
                (ValueType::Int32, days.date_parts(*part)?)
            }
            Expression::Case { branches, otherwise } => {
                let mut chosen = match otherwise {
                    Some(value) => Some(self.computed(value, block, rows)?),
                    None => None,
                };
                // From the last on, so that the first that is true decides.
                for (condition, value) in branches.iter().rev() {
                    let truths = self.truths(condition, block, rows)?;
                    let (value_type, values) = self.computed(value, block, rows)?;
                    let others = chosen.map_or_else(|| Numbers::nulls(rows.len()), |(_, others)| others);
                    chosen = Some((value_type, others.replaced(&values, |at| truths[at] == Some(true))));
                }
                // There is a value: the expression was checked.
                chosen.unwrap_or_else(|| (ValueType::Int64, Numbers::nulls(rows.len())))
            }
        })
    }

    /// Of each row whether a condition is true; `None` where that is unknown.
    fn truths(
        &mut self,
        condition: &Condition,
        block: usize,
        rows: &[u16],
    ) -> Result<Vec<Option<bool>>, PipelineError> {
        Ok(match condition {
            Condition::In { slot, domain } => {
                let value_type = self.context.pipeline.slot(*slot).value_type;
                let set = if value_type == ValueType::Text {
                    self.open(*slot)?;
                    let texts = self.texts(*slot);
                    texts.set_of(domain)
                } else {
                    number_set(value_type, domain)
                };
                let numbers = self.numbers(*slot, block, rows)?;
                let of_null = domain.admits_null().then_some(true);
                match &numbers.lane {
                    Lane::Narrow(values) => each(&numbers, of_null, |at| set.contains(values[at])),
                    Lane::Wide(values) => each(&numbers, of_null, |at| domain.contains_int(values[at])),
                }
            }
            Condition::Text { slot, test } => {
                let set = self.text_set(*slot, test)?;
                let codes = self.numbers(*slot, block, rows)?;
                match &codes.lane {
                    Lane::Narrow(values) => each(&codes, test.of_null(), |at| set.contains(values[at])),
                    Lane::Wide(_) => vec![None; rows.len()],
                }
            }
            Condition::IsNull(slot) => {
                let numbers = self.numbers(*slot, block, rows)?;
                (0..rows.len()).map(|at| Some(!numbers.is_valid(at))).collect()
            }
            Condition::Compare { comparison, operands } => {
                let slots = self.context.pipeline.slots();
                if let (Some(left), Some(right)) = (text_slot(&operands.0, slots), text_slot(&operands.1, slots)) {
                    return self.text_comparisons(*comparison, (left, right), block, rows);
                }
                let left = self.computed(&operands.0, block, rows)?;
                let right = self.computed(&operands.1, block, rows)?;
                let holds = |ordering: Option<Ordering>| ordering.map(|ordering| comparison.holds(ordering));
                orderings(left, right).into_iter().map(holds).collect()
            }
            Condition::All(parts) => self.joined(parts, false, block, rows)?,
            Condition::Any(parts) => self.joined(parts, true, block, rows)?,
            Condition::Not(part) => {
                self.truths(part, block, rows)?.into_iter().map(|truth| truth.map(|is_true| !is_true)).collect()
            }
        })
    }

    /// `AND` or `OR`: `deciding` if a part is, else unknown if a part is.
    fn joined(
        &mut self,
        parts: &[Condition],
        deciding: bool,
        block: usize,
        rows: &[u16],
    ) -> Result<Vec<Option<bool>>, PipelineError> {
        let mut joined = vec![Some(!deciding); rows.len()];
        for part in parts {
            for (joined, truth) in joined.iter_mut().zip(self.truths(part, block, rows)?) {
                if *joined != Some(deciding) && truth != Some(!deciding) {
                    *joined = truth;
                }
            }
        }
        Ok(joined)
    }

    fn text_comparisons(
        &mut self,
        comparison: Comparison,
        (left, right): (Slot, Slot),
        block: usize,
        rows: &[u16],
    ) -> Result<Vec<Option<bool>>, PipelineError> {
        let (of_left, of_right) = (self.numbers(left, block, rows)?, self.numbers(right, block, rows)?);
        self.open(left)?;
        self.open(right)?;
        let (left_texts, right_texts) = (self.texts(left), self.texts(right));
        let (Lane::Narrow(left), Lane::Narrow(right)) = (&of_left.lane, &of_right.lane) else {
            return Ok(vec![None; rows.len()]);
        };
        let compared = |at: usize| {
            let ordering = left_texts.get(left[at] as usize).cmp(right_texts.get(right[at] as usize));
            (of_left.is_valid(at) && of_right.is_valid(at)).then(|| comparison.holds(ordering))
        };
        Ok((0..rows.len()).map(compared).collect())
    }
}

/// A test of each number, and what holds of NULLs.
fn each(numbers: &Numbers, of_null: Option<bool>, test: impl Fn(usize) -> bool) -> Vec<Option<bool>> {
    let count = match &numbers.lane {
        Lane::Narrow(values) => values.len(),
        Lane::Wide(values) => values.len(),
    };
    (0..count).map(|at| if numbers.is_valid(at) { Some(test(at)) } else { of_null }).collect()
}
