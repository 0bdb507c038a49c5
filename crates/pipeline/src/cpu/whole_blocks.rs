//! Expressions of all values of a mini-block at once, where bounds tell that no result of any of them overflows: so
//! nothing is listed, copied or tested value by value.
//!
//! **Owns**: which expressions can be computed so, the bounds, the order of operations. **Does not own**: the loops
//! (`kernels`); what else an expression means (`computed`).
//!
//! **Invariants**: the results are those of `computed`, of the selected values as of all others: what a packed page has
//! for a NULL, or past its end, is within its bounds too.
//!
//! **Concurrency**: a view belongs to one thread.

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::column::Block;
use super::numbers::{Lane, Numbers};
use super::view::View;
use crate::PipelineError;
use crate::ir::{Expression, Operator, Origin, Pipeline, Slot, Step, ValueType};
use crate::kernels::{MASK_WORDS, Mask, Values, Words, arithmetic};

/// Operands that may wait for others: each has a buffer.
const MOST_DEEP: usize = 4;
/// From so many rows of a mini-block on, to compute all of them takes no longer than those alone.
const ENOUGH_ROWS: usize = MINI_BLOCK_VALUES / 8;

/// Of some whole numbers, their type and between which all of them are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    value_type: ValueType,
    least: i64,
    greatest: i64,
}

impl Bounds {
    /// If these are numbers of 64 bits and of the type, as far as that is not a decimal.
    fn new(value_type: ValueType, ends: [i128; 4]) -> Option<Self> {
        let (least, greatest) =
            ends.into_iter().fold((ends[0], ends[0]), |(least, greatest), end| (least.min(end), greatest.max(end)));
        // The digits of decimals are not checked: results may have more.
        let fits = match value_type {
            ValueType::Decimal { .. } => true,
            _ => value_type.range().is_some_and(|(from, to)| from <= least && greatest <= to),
        };
        let (least, greatest) = (i64::try_from(least).ok()?, i64::try_from(greatest).ok()?);
        fits.then_some(Self { value_type, least, greatest })
    }

    fn scaled(self, value_type: ValueType, factor: i64) -> Option<Self> {
        let [least, greatest] = [self.least, self.greatest].map(|end| i128::from(end) * i128::from(factor));
        Self::new(value_type, [least, greatest, least, greatest])
    }

    fn binary(operator: Operator, value_type: ValueType, left: Self, right: Self) -> Option<Self> {
        let ends = |bounds: Self| [i128::from(bounds.least), i128::from(bounds.greatest)];
        let ([a, b], [c, d]) = (ends(left), ends(right));
        let ends = match operator {
            Operator::Add => [a + c, b + d, a + c, b + d],
            Operator::Subtract => [a - d, b - c, a - d, b - c],
            Operator::Multiply => [a * c, a * d, b * c, b * d],
            Operator::Divide | Operator::Remainder => return None,
        };
        Self::new(value_type, ends)
    }
}

/// Whether values of the type are whole numbers whose ordinals they are themselves.
fn is_whole(value_type: ValueType) -> bool {
    value_type.is_integer() && value_type != ValueType::UInt64 || matches!(value_type, ValueType::Decimal { .. })
}

fn scale_of(value_type: ValueType) -> u32 {
    if let ValueType::Decimal { scale, .. } = value_type { scale.into() } else { 0 }
}

/// By what a number is multiplied to have the scale of another type; `None` if 64 bits do not hold that.
fn factor(from: ValueType, to: ValueType) -> Option<i64> {
    10i64.checked_pow(scale_of(to).checked_sub(scale_of(from))?)
}

/// By what the operands of an operation are multiplied first.
fn factors(operator: Operator, result: ValueType, left: ValueType, right: ValueType) -> Option<(i64, i64)> {
    match operator {
        Operator::Multiply => Some((1, 1)),
        _ => Some((factor(left, result)?, factor(right, result)?)),
    }
}

/// Whether the values of a slot can be computed so at all: sums, differences and products of scanned columns of whole
/// numbers.
pub(super) fn can_be_whole(pipeline: &Pipeline, slot: Slot) -> bool {
    let is_computed = matches!(pipeline.slot(slot).origin, Origin::Computed { .. });
    is_computed && is_of_columns(pipeline, &Expression::Slot(slot), 0)
}

fn is_of_columns(pipeline: &Pipeline, expression: &Expression, depth: usize) -> bool {
    let is_here = |operand: &Expression, depth: usize| is_of_columns(pipeline, operand, depth);
    depth < MOST_DEEP
        && match expression {
            Expression::Slot(slot) => {
                let info = pipeline.slot(*slot);
                match info.origin {
                    Origin::Column(_) => is_whole(info.value_type),
                    Origin::Computed { step } => match &pipeline.steps()[step] {
                        Step::Compute { expression, .. } => is_here(expression, depth),
                        _ => false,
                    },
                    Origin::Payload { .. } => false,
                }
            }
            Expression::Literal { value_type, .. } => is_whole(*value_type),
            Expression::Cast { operand, to } => is_whole(*to) && is_here(operand, depth),
            Expression::Binary { operator, operands } => {
                matches!(operator, Operator::Add | Operator::Subtract | Operator::Multiply)
                    && is_here(&operands.0, depth)
                    && is_here(&operands.1, depth + 1)
            }
            Expression::Null { .. }
            | Expression::Parameter { .. }
            | Expression::DatePart { .. }
            | Expression::Case { .. } => false,
        }
}

/// Buffers for values, each made when it is needed first.
#[derive(Debug, Default)]
pub(super) struct Buffers([Option<Box<Values>>; MOST_DEEP]);

impl Buffers {
    fn take(&mut self, depth: usize) -> Box<Values> {
        self.0[depth].take().unwrap_or_else(|| Box::new([0; MINI_BLOCK_VALUES]))
    }
}

/// A computed slot and a mini-block in which none of its values overflows.
#[derive(Debug)]
pub(super) struct Fitting {
    slot: Slot,
    block: usize,
}

impl View<'_> {
    /// Whether the values of a computed slot can be computed of a whole mini-block.
    pub(super) fn fitting(&mut self, slot: Slot, block: usize) -> Result<Option<Fitting>, PipelineError> {
        let fits =
            can_be_whole(self.context.pipeline, slot) && self.bounds_of(&Expression::Slot(slot), block)?.is_some();
        Ok(fits.then_some(Fitting { slot, block }))
    }

    /// The values of a computed slot in all rows of a mini-block, and which of them are not NULL; `None` if all.
    pub(super) fn whole_block(
        &mut self,
        Fitting { slot, block }: Fitting,
    ) -> Result<(Block<'_>, Option<Mask>), PipelineError> {
        let mut valid = None;
        self.evaluate(&Expression::Slot(slot), block, 0, &mut valid)?;
        let words = self.buffers.0[0].as_deref().map_or(Words::Zeros, Words::U64);
        Ok((Block { base: 0, words }, valid))
    }

    /// The same of some rows; `None` where these are few or no longer a mini-block's, or where a result may overflow.
    pub(super) fn whole_numbers(
        &mut self,
        slot: Slot,
        block: usize,
        rows: &[u16],
    ) -> Result<Option<Numbers>, PipelineError> {
        if rows.len() < ENOUGH_ROWS || self.has_other_rows() {
            return Ok(None);
        }
        let Some(fitting) = self.fitting(slot, block)? else { return Ok(None) };
        let (Block { words: Words::U64(values), .. }, valid) = self.whole_block(fitting)? else { return Ok(None) };
        let values = rows.iter().map(|row| values[usize::from(*row) % MINI_BLOCK_VALUES] as i64).collect();
        let is_valid =
            |mask: Mask| rows.iter().map(|row| mask[usize::from(*row) / 64] >> (row % 64) & 1 != 0).collect();
        Ok(Some(Numbers { lane: Lane::Narrow(values), valid: valid.map(is_valid) }))
    }

    /// Between which numbers the values of an expression are, whichever row it is of; `None` if something may overflow.
    fn bounds_of(&mut self, expression: &Expression, block: usize) -> Result<Option<Bounds>, PipelineError> {
        let pipeline = self.context.pipeline;
        Ok(match expression {
            Expression::Slot(slot) => match pipeline.slot(*slot).origin {
                Origin::Column(column) => {
                    let value_type = pipeline.slot(*slot).value_type;
                    let reader = self.reader(*slot, column)?;
                    if reader.is_wide() {
                        return Ok(None);
                    }
                    let bounds = match reader.bounds(block) {
                        None => {
                            let Block { base, words } = reader.block(block)?;
                            base.checked_add_unsigned(words.limit()).map(|greatest| (base, greatest))
                        }
                        known => known,
                    };
                    bounds.map(|(least, greatest)| Bounds { value_type, least, greatest })
                }
                Origin::Computed { step } => match &pipeline.steps()[step] {
                    Step::Compute { expression, .. } => self.bounds_of(expression, block)?,
                    _ => None,
                },
                Origin::Payload { .. } => None,
            },
            Expression::Literal { value, value_type } => Bounds::new(*value_type, [*value; 4]),
            Expression::Cast { operand, to } => {
                let Some(bounds) = self.bounds_of(operand, block)? else { return Ok(None) };
                factor(bounds.value_type, *to).and_then(|factor| bounds.scaled(*to, factor))
            }
            Expression::Binary { operator, operands } => {
                let (left, right) = (self.bounds_of(&operands.0, block)?, self.bounds_of(&operands.1, block)?);
                let Some((left, right)) = left.zip(right) else { return Ok(None) };
                let value_type = Expression::binary_type(*operator, left.value_type, right.value_type)?;
                let scaled = factors(*operator, value_type, left.value_type, right.value_type);
                let scaled = scaled.and_then(|(of_left, of_right)| {
                    left.scaled(left.value_type, of_left).zip(right.scaled(right.value_type, of_right))
                });
                scaled.and_then(|(left, right)| Bounds::binary(*operator, value_type, left, right))
            }
            Expression::Null { .. }
            | Expression::Parameter { .. }
            | Expression::DatePart { .. }
            | Expression::Case { .. } => None,
        })
    }

    /// Computes the values of an expression whose bounds are known into the buffer of a depth, and takes NULLs out of
    /// `valid`. Their type.
    fn evaluate(
        &mut self,
        expression: &Expression,
        block: usize,
        depth: usize,
        valid: &mut Option<Mask>,
    ) -> Result<ValueType, PipelineError> {
        let pipeline = self.context.pipeline;
        match expression {
            Expression::Slot(slot) => match pipeline.slot(*slot).origin {
                Origin::Column(column) => {
                    let mut values = self.buffers.take(depth);
                    let reader = self.reader(*slot, column)?;
                    if let Some(bitmap) = reader.valid(block) {
                        let all = valid.get_or_insert([u64::MAX; MASK_WORDS]);
                        all.iter_mut().zip(bitmap).for_each(|(word, bits)| *word &= bits);
                    }
                    let Block { base, words } = reader.block(block)?;
                    arithmetic::widen(words, base as u64, &mut values);
                    self.buffers.0[depth] = Some(values);
                    Ok(pipeline.slot(*slot).value_type)
                }
                Origin::Computed { step } => match &pipeline.steps()[step] {
                    Step::Compute { expression, .. } => self.evaluate(expression, block, depth, valid),
                    _ => Ok(ValueType::Int64),
                },
                Origin::Payload { .. } => Ok(ValueType::Int64),
            },
            Expression::Literal { value, value_type } => {
                let mut values = self.buffers.take(depth);
                values.fill(*value as u64);
                self.buffers.0[depth] = Some(values);
                Ok(*value_type)
            }
            Expression::Cast { operand, to } => {
                let from = self.evaluate(operand, block, depth, valid)?;
                self.scale(depth, factor(from, *to).unwrap_or(1));
                Ok(*to)
            }
            Expression::Binary { operator, operands } => {
                let left_type = self.evaluate(&operands.0, block, depth, valid)?;
                let right_type = self.evaluate(&operands.1, block, depth + 1, valid)?;
                let value_type = Expression::binary_type(*operator, left_type, right_type)?;
                let (of_left, of_right) = factors(*operator, value_type, left_type, right_type).unwrap_or((1, 1));
                self.scale(depth, of_left);
                self.scale(depth + 1, of_right);
                let (mut left, right) = (self.buffers.take(depth), self.buffers.take(depth + 1));
                match operator {
                    Operator::Add => arithmetic::add(&mut left, &right),
                    Operator::Subtract => arithmetic::subtract(&mut left, &right),
                    Operator::Multiply => arithmetic::multiply(&mut left, &right),
                    Operator::Divide | Operator::Remainder => {}
                }
                (self.buffers.0[depth], self.buffers.0[depth + 1]) = (Some(left), Some(right));
                Ok(value_type)
            }
            Expression::Null { .. }
            | Expression::Parameter { .. }
            | Expression::DatePart { .. }
            | Expression::Case { .. } => Ok(ValueType::Int64),
        }
    }

    fn scale(&mut self, depth: usize, factor: i64) {
        if let Some(values) = self.buffers.0[depth].as_deref_mut().filter(|_| factor != 1) {
            arithmetic::scale(values, factor as u64);
        }
    }
}
