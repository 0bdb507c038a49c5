//! A row group while it is worked on: its pages, opened when the first value of them is needed, and the values in slots.
//!
//! **Owns**: late materialisation (a page that no surviving row needs is not asked for), values of slots for selected rows.
//!
//! **Does not own**: which rows are selected.
//!
//! **Concurrency**: a view belongs to one thread.

use std::cell::OnceCell;
use std::sync::Arc;

use super::column::ColumnReader;
use super::numbers::{Lane, Numbers};
use super::place::PagePlace;
use crate::ir::{Expression, Operator, Origin, Pipeline, Slot, Step, ValueType};
use crate::table::Distinct;
use crate::{BuiltTable, PageSource, PinnedPage, PipelineError};

/// What all views of a run share.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'r> {
    pub(super) pipeline: &'r Pipeline,
    pub(super) source: &'r dyn PageSource,
    pub(super) tables: &'r [Arc<BuiltTable>],
}

impl<'r> RunContext<'r> {
    /// The table of the probe that fills a payload slot, the slot of its key, and which payload it is.
    pub(super) fn payload_of(&self, step: usize, payload: usize) -> Option<(&'r BuiltTable, Slot, usize)> {
        match &self.pipeline.steps()[step] {
            Step::Probe { table, key, .. } => Some((&self.tables[*table], *key, payload)),
            _ => None,
        }
    }
}

/// A place for the pinned pages of a row group, which must outlive its view.
pub(super) type Pins = Vec<OnceCell<PinnedPage>>;

pub(super) struct View<'p> {
    context: RunContext<'p>,
    row_group: usize,
    pins: &'p Pins,
    /// By the numbers of slots.
    readers: Vec<Option<ColumnReader<'p>>>,
    pages_read: u64,
}

impl<'p> View<'p> {
    /// `pins` has a place for each slot, all empty.
    pub(super) fn new(context: RunContext<'p>, row_group: usize, pins: &'p Pins) -> Self {
        let readers = pins.iter().map(|_| None).collect();
        Self { context, row_group, pins, readers, pages_read: 0 }
    }

    pub(super) fn row_group(&self) -> usize {
        self.row_group
    }

    pub(super) fn pages_read(&self) -> u64 {
        self.pages_read
    }

    /// Whether the page of a scanned column is open already.
    pub(super) fn is_open(&self, slot: Slot) -> bool {
        self.readers[slot.index()].is_some()
    }

    /// The page of a scanned column.
    pub(super) fn reader(&mut self, slot: Slot, column: usize) -> Result<&mut ColumnReader<'p>, PipelineError> {
        let Self { context, row_group, pins, readers, pages_read } = self;
        match &mut readers[slot.index()] {
            Some(reader) => Ok(reader),
            none => {
                let info = context.pipeline.slot(slot);
                let place = PagePlace { row_group: *row_group, column: info.name.clone() };
                let pinned = context.source.page(*row_group, column).map_err(|source| PipelineError::Source {
                    row_group: *row_group,
                    column: info.name.clone(),
                    source,
                })?;
                *pages_read += 1;
                let bytes = (**pins[slot.index()].get_or_init(|| pinned)).as_ref();
                let row_count = context.source.row_count(*row_group);
                Ok(none.insert(ColumnReader::open(bytes, info.value_type, row_count, place)?))
            }
        }
    }

    /// The numbers in a slot for some rows of a mini-block: of texts of scanned columns the page's codes, of texts of payload the
    /// table's.
    pub(super) fn numbers(&mut self, slot: Slot, block: usize, rows: &[u16]) -> Result<Numbers, PipelineError> {
        let context = self.context;
        match context.pipeline.slot(slot).origin {
            Origin::Column(column) => {
                let reader = self.reader(slot, column)?;
                let valid = reader
                    .valid(block)
                    .map(|mask| rows.iter().map(|row| mask[usize::from(*row) / 64] >> (row % 64) & 1 != 0).collect());
                let lane = if reader.is_wide() {
                    let mut values = Vec::with_capacity(rows.len());
                    reader.gather_wide(block, rows, &mut values)?;
                    Lane::Wide(values)
                } else {
                    let mut values = Vec::with_capacity(rows.len());
                    reader.gather(block, rows, &mut values)?;
                    Lane::Narrow(values)
                };
                Ok(Numbers { lane, valid })
            }
            Origin::Payload { step, payload } => {
                let codes = self.payload_codes(step, payload, block, rows)?;
                let Some((table, _, payload)) = context.payload_of(step, payload) else { return Ok(codes) };
                match (table.column(payload).distinct(), codes) {
                    (Distinct::Numbers(numbers), Numbers { lane: Lane::Narrow(mut values), valid }) => {
                        for value in &mut values {
                            // NULL's code has no number.
                            *value = numbers.get(*value as usize).copied().unwrap_or(0);
                        }
                        Ok(Numbers { lane: Lane::Narrow(values), valid })
                    }
                    (_, codes) => Ok(codes),
                }
            }
            Origin::Computed { step } => match &context.pipeline.steps()[step] {
                Step::Compute { expression, .. } => Ok(self.computed(expression, block, rows)?.1),
                _ => Ok(Numbers::repeated(0, rows.len())),
            },
        }
    }

    /// The codes that a payload column has for some rows, which have all passed the probe.
    pub(super) fn payload_codes(
        &mut self,
        step: usize,
        payload: usize,
        block: usize,
        rows: &[u16],
    ) -> Result<Numbers, PipelineError> {
        let Some((table, key, payload)) = self.context.payload_of(step, payload) else {
            return Ok(Numbers::repeated(0, rows.len()));
        };
        let mut keys = self.numbers(key, block, rows)?;
        let column = table.column(payload);
        let null = column.distinct().count() as i64;
        let mut has_null = false;
        if let Lane::Narrow(values) = &mut keys.lane {
            for value in values {
                *value = table.keys().row(*value).map_or(null, |row| column.code(row).into());
                has_null |= *value == null;
            }
            keys.valid = match (&keys.lane, has_null) {
                (Lane::Narrow(codes), true) => Some(codes.iter().map(|code| *code != null).collect()),
                _ => None,
            };
        }
        Ok(keys)
    }

    /// The values of an expression, and their type.
    fn computed(
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
            Expression::Literal { value, value_type } => (*value_type, Numbers::repeated(*value, rows.len())),
            Expression::Widen { operand, to } => (*to, self.computed(operand, block, rows)?.1),
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
                    _ => Numbers::integers(*operator, value_type, left, right),
                };
                (value_type, numbers)
            }
        })
    }
}
