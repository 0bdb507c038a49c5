//! What is known of grouping columns before a row was read: between which numbers their values are.
//!
//! **Concurrency**: plain functions.

use super::cells::Dimension;
use crate::cpu::stage::whole_range;
use crate::cpu::view::RunContext;
use crate::ir::{Expression, Origin, Slot, Step, ValueType};
use crate::table::Distinct;

/// The possible values of a grouping column, as far as tables and zone maps tell.
pub(in crate::cpu) fn dimension(context: RunContext<'_>, slot: Slot) -> Option<Dimension> {
    let info = context.pipeline.slot(slot);
    match info.origin {
        _ if info.value_type.is_float() => None,
        Origin::Payload { step, payload } => {
            let (table, column) = context.payload_of(step, payload)?;
            let column = table.column(column);
            match (column.distinct(), column.range()) {
                (Some(distinct), _) => Some(Dimension { least: 0, value_count: distinct.count() as u64 }),
                (None, Some((least, greatest))) => {
                    Some(Dimension { least, value_count: greatest.abs_diff(least).checked_add(1)? })
                }
                (None, None) => None,
            }
        }
        Origin::Column(_) => {
            let (least, greatest) = ordinal_range(context, slot)?;
            Some(Dimension { least, value_count: greatest.abs_diff(least).checked_add(1)? })
        }
        Origin::Computed { step } => match &context.pipeline.steps()[step] {
            Step::Compute { expression: Expression::DatePart { part, operand }, .. } => {
                let Expression::Slot(date) = **operand else { return None };
                let (first_day, last_day) = ordinal_range(context, date)?;
                let (least, greatest) = part.range(first_day, last_day);
                Some(Dimension { least, value_count: greatest.abs_diff(least) + 1 })
            }
            _ => None,
        },
    }
}

/// Between which ordinals the numbers in a slot are, as far as tables and zone maps tell.
fn ordinal_range(context: RunContext<'_>, slot: Slot) -> Option<(i64, i64)> {
    let info = context.pipeline.slot(slot);
    match info.origin {
        Origin::Column(column) if info.value_type != ValueType::Text => whole_range(context, column, info.value_type),
        Origin::Payload { step, payload } => {
            let (table, column) = context.payload_of(step, payload)?;
            let column = table.column(column);
            match column.distinct() {
                Some(Distinct::Numbers(numbers)) => Some((*numbers.first()?, *numbers.last()?)),
                Some(Distinct::Texts { .. }) => None,
                None => column.range(),
            }
        }
        Origin::Column(_) | Origin::Computed { .. } => None,
    }
}
