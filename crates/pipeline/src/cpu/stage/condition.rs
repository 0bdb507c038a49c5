//! Conditions on several values, as sets of rows: of which they are true, and of which false.
//!
//! **Owns**: three-valued logic over masks, comparisons of two values. **Does not own**: tests of one value against a
//! set, which are stages.
//!
//! **Invariants**: no row is in both sets; a row in neither is one of which the condition is unknown. Of `AND` and `OR`
//! a part is looked at for the rows alone that those before it leave open, so that an overflow in a row that they
//! decide is none.
//!
//! **Concurrency**: each thread has its own.

use std::cmp::Ordering;

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::super::numbers::{Lane, Numbers};
use super::super::selection::{Selection, room_for};
use super::super::view::{RunContext, View};
use super::compile::filter_test;
use super::{Stage, zone_may_have_null};
use crate::PipelineError;
use crate::ir::{Comparison, Condition, Expression, Slot, ValueType, text_slot};
use crate::kernels::{InstructionSet, MASK_WORDS};
use crate::ordinal::NEGATIVE_ZERO;

/// The rows of which a condition is true, and those of which it is false.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) yes: Selection,
    no: Selection,
}

/// A condition over a run's slots.
#[derive(Debug, Clone)]
pub(super) enum CompiledCondition<'r> {
    /// A test of one value, and whether a NULL that it drops is known to fail it.
    In {
        stage: Stage<'r>,
        knows_null: bool,
    },
    IsNull(Slot),
    Numbers {
        comparison: Comparison,
        operands: &'r (Expression, Expression),
    },
    Texts {
        comparison: Comparison,
        left: Slot,
        right: Slot,
        ranks: Option<(usize, TextRanks)>,
    },
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

/// The places of two columns' texts in their common order, by their codes.
#[derive(Debug, Clone)]
pub(super) struct TextRanks {
    left: Vec<u32>,
    right: Vec<u32>,
}

impl<'r> CompiledCondition<'r> {
    /// The condition was checked when its pipeline was made.
    pub(super) fn new(context: RunContext<'r>, condition: &'r Condition) -> Self {
        let all = |parts: &'r [Condition]| parts.iter().map(|part| Self::new(context, part)).collect();
        match condition {
            Condition::In { slot, domain } => {
                let stage = Stage::new(context, *slot, filter_test(context, *slot, domain), domain.admits_null());
                Self::In { stage, knows_null: false }
            }
            Condition::Text { slot, test } => {
                Self::In { stage: Stage::of_text(context, *slot, test), knows_null: test.of_null().is_some() }
            }
            Condition::IsNull(slot) => Self::IsNull(*slot),
            Condition::Compare { comparison, operands } => {
                let slots = context.pipeline.slots();
                match (text_slot(&operands.0, slots), text_slot(&operands.1, slots)) {
                    (Some(left), Some(right)) => Self::Texts { comparison: *comparison, left, right, ranks: None },
                    _ => Self::Numbers { comparison: *comparison, operands },
                }
            }
            Condition::All(parts) => Self::All(all(parts)),
            Condition::Any(parts) => Self::Any(all(parts)),
            Condition::Not(part) => Self::Not(Box::new(Self::new(context, part))),
        }
    }

    /// Whether it may be true of a row of a row group, as far as zone maps tell.
    pub(super) fn may_pass(&self, context: RunContext<'_>, row_group: usize) -> bool {
        match self {
            Self::In { stage, .. } => stage.may_pass(context, row_group),
            Self::IsNull(slot) => zone_may_have_null(context, *slot, row_group),
            Self::All(parts) => parts.iter().all(|part| part.may_pass(context, row_group)),
            Self::Any(parts) => parts.iter().any(|part| part.may_pass(context, row_group)),
            Self::Numbers { .. } | Self::Texts { .. } | Self::Not(_) => true,
        }
    }

    /// Of which rows of `selection` it is true, and of which false.
    pub(super) fn truth(
        &mut self,
        view: &mut View<'_>,
        context: RunContext<'_>,
        block: usize,
        selection: &Selection,
        instructions: InstructionSet,
    ) -> Result<Truth, PipelineError> {
        let none = Selection::of([0; MASK_WORDS]);
        Ok(match self {
            Self::In { stage, knows_null } => {
                let mut yes = *selection;
                stage.apply(view, context, block, &mut yes, instructions)?;
                let mut no = selection.without(&yes);
                if !*knows_null {
                    no = no.without(&nulls(view, context, stage.slot, block, selection)?);
                }
                Truth { yes, no }
            }
            Self::IsNull(slot) => {
                let yes = nulls(view, context, *slot, block, selection)?;
                Truth { yes, no: selection.without(&yes) }
            }
            Self::Numbers { comparison, operands } => {
                let mut rows = [0; room_for(MINI_BLOCK_VALUES)];
                let rows = selection.rows(&mut rows);
                let left = view.computed(&operands.0, block, rows)?;
                let right = view.computed(&operands.1, block, rows)?;
                let orderings = orderings(left, right);
                split(selection, |at| orderings[at].map(|ordering| comparison.holds(ordering)))
            }
            Self::Texts { comparison, left, right, ranks } => {
                let row_group = view.row_group();
                let ranks = match ranks {
                    Some((of, ranks)) if *of == row_group => ranks,
                    _ => &mut ranks.insert((row_group, TextRanks::new(view, *left, *right)?)).1,
                };
                let mut rows = [0; room_for(MINI_BLOCK_VALUES)];
                let rows = selection.rows(&mut rows);
                let (left, right) = (view.numbers(*left, block, rows)?, view.numbers(*right, block, rows)?);
                let rank = |numbers: &Numbers, ranks: &[u32], at: usize| match &numbers.lane {
                    Lane::Narrow(codes) if numbers.is_valid(at) => ranks.get(codes[at] as usize).copied(),
                    _ => None,
                };
                split(selection, |at| {
                    let (left, right) = (rank(&left, &ranks.left, at)?, rank(&right, &ranks.right, at)?);
                    Some(comparison.holds(left.cmp(&right)))
                })
            }
            Self::All(parts) => {
                let (mut yes, mut no) = (*selection, none);
                for part in parts {
                    let open = selection.without(&no);
                    if open.count() == 0 {
                        break;
                    }
                    let truth = part.truth(view, context, block, &open, instructions)?;
                    (yes, no) = (yes.and(truth.yes.mask()), no.or(&truth.no));
                }
                Truth { yes, no }
            }
            Self::Any(parts) => {
                let (mut yes, mut no) = (none, *selection);
                for part in parts {
                    let open = selection.without(&yes);
                    if open.count() == 0 {
                        break;
                    }
                    let truth = part.truth(view, context, block, &open, instructions)?;
                    (yes, no) = (yes.or(&truth.yes), no.and(truth.no.mask()));
                }
                Truth { yes, no }
            }
            Self::Not(part) => {
                let Truth { yes, no } = part.truth(view, context, block, selection, instructions)?;
                Truth { yes: no, no: yes }
            }
        })
    }
}

/// The rows whose value is NULL.
fn nulls(
    view: &mut View<'_>,
    context: RunContext<'_>,
    slot: Slot,
    block: usize,
    selection: &Selection,
) -> Result<Selection, PipelineError> {
    if !context.pipeline.slot(slot).nullable {
        return Ok(Selection::of([0; MASK_WORDS]));
    }
    let mut rows = [0; room_for(MINI_BLOCK_VALUES)];
    let numbers = view.numbers(slot, block, selection.rows(&mut rows))?;
    Ok(split(selection, |at| Some(!numbers.is_valid(at))).yes)
}

/// The rows by what is said of each, which are numbered from 0.
fn split(selection: &Selection, mut test: impl FnMut(usize) -> Option<bool>) -> Truth {
    let mut known = Vec::with_capacity(selection.count());
    let mut places = 0..;
    let yes = selection.retained(|_| {
        let truth = places.next().and_then(&mut test);
        known.push(truth.is_some());
        truth == Some(true)
    });
    let mut known = known.into_iter();
    let known = selection.retained(|_| known.next() == Some(true));
    Truth { yes, no: known.without(&yes) }
}

/// How the numbers of each row are ordered; `None` where one is NULL. Decimals are compared as numbers, whatever their
/// scales, and both zeros of floats are equal.
pub(in crate::cpu) fn orderings(
    (left_type, left): (ValueType, Numbers),
    (right_type, right): (ValueType, Numbers),
) -> Vec<Option<Ordering>> {
    let scale = |value_type: ValueType| if let ValueType::Decimal { scale, .. } = value_type { scale } else { 0 };
    let (left_scale, right_scale) = (scale(left_type), scale(right_type));
    let count = match &left.lane {
        Lane::Narrow(values) => values.len(),
        Lane::Wide(values) => values.len(),
    };
    let is_valid = |at: usize| left.is_valid(at) && right.is_valid(at);
    if let (Lane::Narrow(left), Lane::Narrow(right), true) = (&left.lane, &right.lane, left_type.is_float()) {
        let compared = |ordinal: i64| if ordinal == NEGATIVE_ZERO { 0 } else { ordinal };
        let ordering = |at: usize| compared(left[at]).cmp(&compared(right[at]));
        return (0..count).map(|at| is_valid(at).then(|| ordering(at))).collect();
    }
    if let (Lane::Narrow(left), Lane::Narrow(right), true) = (&left.lane, &right.lane, left_scale == right_scale) {
        return (0..count).map(|at| is_valid(at).then(|| left[at].cmp(&right[at]))).collect();
    }
    let whole = |lane: &Lane, at: usize| match lane {
        Lane::Narrow(values) => values[at].into(),
        Lane::Wide(values) => values[at],
    };
    let power = |digits: u8| 10i128.pow(u32::from(digits));
    let ordering = |at: usize| {
        let (left, right) = (whole(&left.lane, at), whole(&right.lane, at));
        if left_scale < right_scale {
            // What does not fit is greater than whatever does, or less.
            let scaled = left.checked_mul(power(right_scale - left_scale));
            scaled.map_or(left.cmp(&0), |left| left.cmp(&right))
        } else {
            let scaled = right.checked_mul(power(left_scale - right_scale));
            scaled.map_or(0.cmp(&right), |right| left.cmp(&right))
        }
    };
    (0..count).map(|at| is_valid(at).then(|| ordering(at))).collect()
}

impl TextRanks {
    fn new(view: &mut View<'_>, left: Slot, right: Slot) -> Result<Self, PipelineError> {
        view.open(left)?;
        view.open(right)?;
        let (left, right) = (view.texts(left), view.texts(right));
        let (left_order, right_order) = (left.in_order(), right.in_order());
        let mut ranks = Self { left: vec![0; left_order.len()], right: vec![0; right_order.len()] };
        let (mut of_left, mut of_right) = (left_order.into_iter().peekable(), right_order.into_iter().peekable());
        for rank in 0.. {
            let next_left = of_left.peek().map(|code| left.get(*code));
            let next_right = of_right.peek().map(|code| right.get(*code));
            let Some(least) = next_left.into_iter().chain(next_right).min() else { break };
            // Texts of tables are listed row by row, so that several codes may stand for one text.
            while let Some(code) = of_left.next_if(|code| left.get(*code) == least) {
                ranks.left[code] = rank;
            }
            while let Some(code) = of_right.next_if(|code| right.get(*code) == least) {
                ranks.right[code] = rank;
            }
        }
        Ok(ranks)
    }
}
