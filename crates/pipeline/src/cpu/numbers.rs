//! Values of selected rows, as ordinals one behind the other, and arithmetic on them.
//!
//! **Owns**: numbers of 64 or 128 bits, NULLs beside them, DataFusion's arithmetic. **Does not own**: where they come
//! from.
//!
//! **Invariants**: results are those of [`Expression`](crate::Expression)'s rules whatever the width worked in:
//! decimals are computed in 64 bits and again in 128 where that overflowed. An overflow in a row with a NULL is none.
//!
//! **Concurrency**: plain values.

use std::ops::{Add, Div, Mul, Rem, Sub};

use crate::ir::{DatePart, Operator, ValueType};
use crate::{PipelineError, ordinal};

/// Whole numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lane {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

impl Lane {
    pub(super) fn into_wide(self) -> Vec<i128> {
        match self {
            Self::Narrow(values) => values.into_iter().map(i128::from).collect(),
            Self::Wide(values) => values,
        }
    }
}

/// The values of some rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Numbers {
    pub(super) lane: Lane,
    /// Which are not NULL; `None` if all.
    pub(super) valid: Option<Vec<bool>>,
}

impl Numbers {
    /// No rows, with room for `capacity`.
    pub(super) fn none(is_wide: bool, capacity: usize) -> Self {
        let lane =
            if is_wide { Lane::Wide(Vec::with_capacity(capacity)) } else { Lane::Narrow(Vec::with_capacity(capacity)) };
        Self { lane, valid: None }
    }

    /// The same number for each of `count` rows.
    pub(super) fn repeated(value: i128, count: usize) -> Self {
        let lane = match i64::try_from(value) {
            Ok(value) => Lane::Narrow(vec![value; count]),
            Err(_) => Lane::Wide(vec![value; count]),
        };
        Self { lane, valid: None }
    }

    /// NULL for each of `count` rows.
    pub(super) fn nulls(count: usize) -> Self {
        Self { lane: Lane::Narrow(vec![0; count]), valid: Some(vec![false; count]) }
    }

    /// These, but where a test says so the others, which are of the same type.
    pub(super) fn replaced(self, others: &Self, is_replaced: impl Fn(usize) -> bool) -> Self {
        fn replace<T: Copy>(values: &mut [T], others: &[T], is_replaced: impl Fn(usize) -> bool) {
            for (at, (value, other)) in values.iter_mut().zip(others).enumerate() {
                *value = if is_replaced(at) { *other } else { *value };
            }
        }
        let Self { lane, valid } = self;
        let mut lane = match (lane, &others.lane) {
            (lane @ Lane::Narrow(_), Lane::Wide(_)) => Lane::Wide(lane.into_wide()),
            (lane, _) => lane,
        };
        let count = match (&mut lane, &others.lane) {
            (Lane::Narrow(values), Lane::Narrow(others)) => {
                replace(values, others, &is_replaced);
                values.len()
            }
            (Lane::Wide(values), others) => {
                replace(values, &others.clone().into_wide(), &is_replaced);
                values.len()
            }
            (Lane::Narrow(values), Lane::Wide(_)) => values.len(),
        };
        let valid = match (valid, &others.valid) {
            (None, None) => None,
            (valid, others) => {
                let mut valid = valid.unwrap_or_else(|| vec![true; count]);
                for (at, valid) in valid.iter_mut().enumerate() {
                    if is_replaced(at) {
                        *valid = others.as_ref().is_none_or(|others| others[at]);
                    }
                }
                Some(valid)
            }
        };
        Self { lane, valid }
    }

    /// Parts of dates.
    pub(super) fn date_parts(self, part: DatePart) -> Result<Self, PipelineError> {
        let Self { lane, valid } = self;
        // Dates have 32 bits.
        let Lane::Narrow(mut values) = lane else { return Ok(Self { lane, valid }) };
        for (at, value) in values.iter_mut().enumerate() {
            match part.of_days(*value as i32) {
                Some(number) => *value = number.into(),
                None if valid.as_ref().is_some_and(|valid| !valid[at]) => *value = 0,
                None => return Err(PipelineError::DateOutOfRange { part: part.name(), days: *value }),
            }
        }
        Ok(Self { lane: Lane::Narrow(values), valid })
    }

    /// Those at some places.
    pub(super) fn at(&self, places: &[u16]) -> Self {
        fn at<T: Copy>(values: &[T], places: &[u16]) -> Vec<T> {
            places.iter().map(|place| values[usize::from(*place)]).collect()
        }
        let lane = match &self.lane {
            Lane::Narrow(values) => Lane::Narrow(at(values, places)),
            Lane::Wide(values) => Lane::Wide(at(values, places)),
        };
        Self { lane, valid: self.valid.as_ref().map(|valid| at(valid, places)) }
    }

    #[inline(always)]
    pub(super) fn is_valid(&self, at: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid[at])
    }

    /// Integers of one type, wrapping around in it.
    pub(super) fn integers(
        operator: Operator,
        value_type: ValueType,
        left: Self,
        right: Self,
    ) -> Result<Self, PipelineError> {
        let valid = both_valid(left.valid, right.valid);
        let (Lane::Narrow(mut left), Lane::Narrow(mut right)) = (left.lane, right.lane) else {
            // Integers have at most 64 bits, so that lanes of them are narrow.
            return Ok(Self { lane: Lane::Narrow(Vec::new()), valid });
        };
        let is_biased = value_type == ValueType::UInt64;
        let bias = |values: &mut [i64]| values.iter_mut().for_each(|value| *value ^= i64::MIN);
        if is_biased {
            bias(&mut left);
            bias(&mut right);
        }
        match operator {
            Operator::Add => wrapping(value_type, &mut left, &right, i64::wrapping_add),
            Operator::Subtract => wrapping(value_type, &mut left, &right, i64::wrapping_sub),
            Operator::Multiply => wrapping(value_type, &mut left, &right, i64::wrapping_mul),
            Operator::Divide | Operator::Remainder => {
                for (at, (left, right)) in left.iter_mut().zip(&right).enumerate() {
                    if valid.as_ref().is_none_or(|valid: &Vec<bool>| valid[at]) {
                        *left = divided(operator, value_type, *left, *right)?;
                    }
                }
            }
        }
        if is_biased {
            bias(&mut left);
        }
        Ok(Self { lane: Lane::Narrow(left), valid })
    }

    /// Floats of one type.
    pub(super) fn floats(operator: Operator, value_type: ValueType, left: Self, right: Self) -> Self {
        let valid = both_valid(left.valid, right.valid);
        let (Lane::Narrow(mut left), Lane::Narrow(right)) = (left.lane, right.lane) else {
            return Self { lane: Lane::Narrow(Vec::new()), valid };
        };
        macro_rules! each {
            ($apply:expr, $apply_single:expr) => {
                for (left, right) in left.iter_mut().zip(&right) {
                    let (of_left, of_right) = (ordinal::to_float(*left), ordinal::to_float(*right));
                    let result = match value_type {
                        ValueType::Float32 => f64::from($apply_single(of_left as f32, of_right as f32)),
                        _ => $apply(of_left, of_right),
                    };
                    *left = ordinal::of_computed(result);
                }
            };
        }
        match operator {
            Operator::Add => each!(f64::add, f32::add),
            Operator::Subtract => each!(f64::sub, f32::sub),
            Operator::Multiply => each!(f64::mul, f32::mul),
            Operator::Divide => each!(f64::div, f32::div),
            Operator::Remainder => each!(f64::rem, f32::rem),
        }
        Self { lane: Lane::Narrow(left), valid }
    }

    /// The same numbers in another type, which those of theirs can be cast to.
    pub(super) fn cast(self, from: ValueType, to: ValueType) -> Result<Self, PipelineError> {
        let Self { lane, valid } = self;
        let scale = |of: ValueType| if let ValueType::Decimal { scale, .. } = of { u32::from(scale) } else { 0 };
        let lane = match (from, to) {
            (ValueType::Decimal { .. }, ValueType::Float64) => {
                let power = 10f64.powi(scale(from) as i32);
                let values = lane.into_wide().into_iter().map(|value| ordinal::of_float(value as f64 / power));
                Lane::Narrow(values.collect())
            }
            (ValueType::Float64, ValueType::Decimal { .. }) => {
                let (power, range) = (10f64.powi(scale(to) as i32), to.range());
                let mut values = lane.into_wide();
                for (at, value) in values.iter_mut().enumerate() {
                    let float = ordinal::to_float(*value as i64);
                    let rounded = (power * float).round();
                    // No number becomes 0, and what is too much the most, which no decimal is.
                    let number = (!rounded.is_nan()).then_some(rounded as i128);
                    let number =
                        number.filter(|number| range.is_some_and(|(least, most)| (least..=most).contains(number)));
                    *value = match number {
                        Some(number) => number,
                        None if valid.as_ref().is_some_and(|valid| !valid[at]) => 0,
                        None => return Err(PipelineError::Cast { value: float, to }),
                    };
                }
                narrowed(values)
            }
            (_, ValueType::Decimal { .. }) => {
                let factor = 10i128.pow(scale(to) - scale(from));
                let values = match lane {
                    Lane::Narrow(values) if from == ValueType::UInt64 => {
                        values.into_iter().map(|value| ordinal::to_unsigned(value).into()).collect()
                    }
                    // Most often nothing is to be done.
                    lane if factor == 1 => return Ok(Self { lane, valid }),
                    lane => lane.into_wide(),
                };
                // Values where there is a NULL may be anything.
                narrowed(values.into_iter().map(|value: i128| value.wrapping_mul(factor)).collect())
            }
            _ => widened(lane, from, to),
        };
        Ok(Self { lane, valid })
    }

    /// Decimals; each operand is multiplied by its factor first.
    pub(super) fn decimals(
        operator: Operator,
        (left, left_factor): (Self, i128),
        (right, right_factor): (Self, i128),
    ) -> Result<Self, PipelineError> {
        let valid = both_valid(left.valid, right.valid);
        if let (Lane::Narrow(left), Lane::Narrow(right)) = (&left.lane, &right.lane)
            && let (Ok(left_factor), Ok(right_factor)) = (i64::try_from(left_factor), i64::try_from(right_factor))
        {
            let narrow = match operator {
                Operator::Add => narrow(left, left_factor, right, right_factor, i64::overflowing_add),
                Operator::Subtract => narrow(left, left_factor, right, right_factor, i64::overflowing_sub),
                Operator::Multiply => narrow(left, 1, right, 1, i64::overflowing_mul),
                // Decimals are not divided.
                Operator::Divide | Operator::Remainder => None,
            };
            if let Some(values) = narrow {
                return Ok(Self { lane: Lane::Narrow(values), valid });
            }
        }
        let (mut left, right) = (left.lane.into_wide(), right.lane.into_wide());
        for (at, (left, right)) in left.iter_mut().zip(right).enumerate() {
            let apply = |left: i128, right: i128| match operator {
                Operator::Add => left.checked_add(right),
                Operator::Subtract => left.checked_sub(right),
                Operator::Multiply => left.checked_mul(right),
                Operator::Divide | Operator::Remainder => None,
            };
            let scaled = left.checked_mul(left_factor).zip(right.checked_mul(right_factor));
            *left = match scaled.and_then(|(left, right)| apply(left, right)) {
                Some(value) => value,
                None if valid.as_ref().is_some_and(|valid| !valid[at]) => 0,
                None => return Err(PipelineError::Overflow { left: *left, operator: operator.symbol(), right }),
            };
        }
        Ok(Self { lane: Lane::Wide(left), valid })
    }
}

/// Numbers in 64 bits if all fit.
fn narrowed(values: Vec<i128>) -> Lane {
    match values.iter().map(|value| i64::try_from(*value)).collect() {
        Ok(narrow) => Lane::Narrow(narrow),
        Err(_) => Lane::Wide(values),
    }
}

/// Integers in wider types or floats, floats in wider ones.
fn widened(lane: Lane, from: ValueType, to: ValueType) -> Lane {
    let Lane::Narrow(mut values) = lane else { return lane };
    match (from, to) {
        _ if from == to || from.is_float() => {}
        (ValueType::UInt64, ValueType::Float32) => {
            values.iter_mut().for_each(|value| *value = single(ordinal::to_unsigned(*value) as f32));
        }
        (ValueType::UInt64, _) => {
            values.iter_mut().for_each(|value| *value = ordinal::of_float(ordinal::to_unsigned(*value) as f64));
        }
        (_, ValueType::Float32) => values.iter_mut().for_each(|value| *value = single(*value as f32)),
        (_, ValueType::Float64) => values.iter_mut().for_each(|value| *value = ordinal::of_float(*value as f64)),
        (_, ValueType::UInt64) => values.iter_mut().for_each(|value| *value = ordinal::of_unsigned(*value as u64)),
        _ => {}
    }
    Lane::Narrow(values)
}

/// Applies an operator of 64 bits to integers of a type, and brings the results into it. Apart for each width, so that
/// the loops are vectors' work.
#[inline(always)]
fn wrapping(value_type: ValueType, left: &mut [i64], right: &[i64], apply: impl Fn(i64, i64) -> i64) {
    macro_rules! each {
        ($wrap:expr) => {
            left.iter_mut().zip(right).for_each(|(left, right)| *left = $wrap(apply(*left, *right)))
        };
    }
    match value_type {
        ValueType::Int64 | ValueType::UInt64 => each!(|value: i64| value),
        ValueType::Int32 => each!(|value: i64| i64::from(value as i32)),
        value_type => each!(|value: i64| value_type.wrap(value)),
    }
}

/// The ordinal of a 32-bit float.
fn single(value: f32) -> i64 {
    ordinal::of_float(value.into())
}

/// An integer divided by another of its type, or what is left of it, as DataFusion's kernels do.
fn divided(operator: Operator, value_type: ValueType, left: i64, right: i64) -> Result<i64, PipelineError> {
    let whole = |value: i64| match value_type {
        ValueType::UInt64 => i128::from(value as u64),
        _ => value.into(),
    };
    let (left, right) = (whole(left), whole(right));
    if right == 0 {
        return Err(PipelineError::DivisionByZero { left, operator: operator.symbol() });
    }
    let result = if operator == Operator::Divide { left / right } else { left % right };
    match value_type.range() {
        Some((least, greatest)) if least <= result && result <= greatest => Ok(result as i64),
        _ => Err(PipelineError::Overflow { left, operator: operator.symbol(), right }),
    }
}

/// In 64 bits; `None` if something overflowed.
#[inline(always)]
fn narrow(
    left: &[i64],
    left_factor: i64,
    right: &[i64],
    right_factor: i64,
    apply: impl Fn(i64, i64) -> (i64, bool),
) -> Option<Vec<i64>> {
    let mut overflowed = false;
    let values = left.iter().zip(right).map(|(left, right)| {
        let (left, over_left) = left.overflowing_mul(left_factor);
        let (right, over_right) = right.overflowing_mul(right_factor);
        let (value, over) = apply(left, right);
        overflowed |= over_left | over_right | over;
        value
    });
    let values = values.collect();
    (!overflowed).then_some(values)
}

/// Which values of two columns are both not NULL.
pub(super) fn both_valid(left: Option<Vec<bool>>, right: Option<Vec<bool>>) -> Option<Vec<bool>> {
    match (left, right) {
        (Some(mut left), Some(right)) => {
            for (left, right) in left.iter_mut().zip(right) {
                *left &= right;
            }
            Some(left)
        }
        (left, right) => left.or(right),
    }
}
