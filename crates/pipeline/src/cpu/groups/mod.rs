//! The aggregating sink: rows in groups.
//!
//! **Owns**: one thread's groups, merging those of all threads, the result. **Does not own**: which rows there are.
//!
//! **Invariants**: without grouping columns there is one group, also without rows; else there are those that rows have.
//!
//! **Concurrency**: a thread has groups of its own, merged when all are done.

mod accumulator;
mod added_up;
mod cells;
mod dimension;
mod few_cells;
mod parted;
mod text_extremes;

pub(super) use added_up::added_up;
pub(super) use cells::Dimension;
pub(super) use dimension::dimension;

use std::sync::Arc;

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::keyed::{Interners, Keyed};
use super::memory::Memory;
use super::numbers::Numbers;
use super::place::PagePlace;
use super::selection::Selection;
use super::view::{RunContext, View};
use super::whole_blocks::{Fitting, can_be_whole};
use super::{GroupWay, RunOptions};
use crate::ir::{Aggregate, ColumnShape, Origin, Slot, ValueType};
use crate::kernels::InstructionSet;
use crate::ordinal::NEGATIVE_ZERO;
use crate::table::Distinct;
use crate::{PipelineError, Result, Rowset, RowsetColumn, RowsetValues, TextList, Value};
use accumulator::{Accumulator, CELL_BYTES, MERGED_AT_ONCE};
use cells::{Cells, Outside, narrow};
use few_cells::GroupedRows;
use parted::{Chunk, MOST_COLUMNS, Parts, Values};

/// One thread's groups.
#[derive(Debug)]
pub(super) struct Groups<'r> {
    keys: Vec<Keyed<'r>>,
    aggregates: Vec<Aggregate>,
    cells: Cells,
    accumulators: Vec<Accumulator>,
    /// Whether a row has the cell.
    seen: Vec<bool>,
    found: GroupedRows,
    most_groups: Option<u64>,
    /// Rows that are added up when all are there, if they are.
    parts: Option<Parts>,
    /// What they have behind what they are grouped by: what aggregates take, each once.
    value_slots: Vec<Slot>,
    /// Whether there is one group, of whose aggregates each counts or folds what lies in mini-blocks.
    folds: bool,
    /// Of cells, or of rows that wait; last, so that it is given back when they are gone.
    memory: Memory,
}

/// The slot whose values an aggregate takes: none if it counts rows, or values of which none is NULL.
pub(super) fn value_of(context: RunContext<'_>, aggregate: Aggregate) -> Option<Slot> {
    let counts_all = |slot: &Slot| matches!(aggregate, Aggregate::Count(_)) && !context.pipeline.slot(*slot).nullable;
    aggregate.slot().filter(|slot| !counts_all(slot))
}

/// Whether a slot's numbers may need more than 64 bits.
fn may_be_wide(context: RunContext<'_>, slot: Slot) -> bool {
    !context.pipeline.slot(slot).value_type.fits_group_key()
}

/// Whether rows can be parted by their groups: numbers are what parts keep of them.
fn can_be_parted(context: RunContext<'_>, (groups, aggregates): (&[Slot], &[Aggregate])) -> bool {
    let is_of_numbers = |aggregate: &Aggregate| {
        let is_text = |slot| context.pipeline.slot(slot).value_type == ValueType::Text;
        let keeps_text = matches!(aggregate, Aggregate::Minimum(slot) | Aggregate::Maximum(slot) if is_text(*slot));
        !keeps_text
    };
    !groups.is_empty() && groups.len() + 2 * aggregates.len() <= MOST_COLUMNS && aggregates.iter().all(is_of_numbers)
}

/// What an aggregate takes of a mini-block as it lies there.
enum Folded {
    /// How many rows there are.
    Rows,
    Column(Slot, usize),
    Computed(Slot, Fitting),
}

/// Whether an aggregate counts, or folds a scanned column of numbers or what can be computed of some at once.
fn is_fold(context: RunContext<'_>, aggregate: Aggregate) -> bool {
    let is_of_numbers = |slot: Slot| {
        let info = context.pipeline.slot(slot);
        matches!(info.origin, Origin::Column(_)) && info.value_type != ValueType::Text
            || can_be_whole(context.pipeline, slot)
    };
    value_of(context, aggregate).is_none_or(is_of_numbers)
}

impl<'r> Groups<'r> {
    /// `dimensions` must be the same for all threads of a run.
    pub(super) fn new(
        context: RunContext<'r>,
        sink: (&[Slot], &[Aggregate]),
        dimensions: &[Option<Dimension>],
        interners: &'r Interners,
        options: &RunOptions<'_>,
    ) -> Result<Self> {
        if options.groups != GroupWay::Parted || !can_be_parted(context, sink) {
            return Self::together(context, sink, dimensions, interners, options);
        }
        let unknown = vec![None; dimensions.len()];
        let mut parted = Self::together(context, sink, &unknown, interners, options)?;
        let word_count = |slot: &Slot| 1 + usize::from(may_be_wide(context, *slot));
        let column_count = dimensions.len() + parted.value_slots.iter().map(word_count).sum::<usize>();
        parted.parts = Some(Parts::new(dimensions, column_count));
        Ok(parted)
    }

    /// Groups that rows are added up in as they come.
    fn together(
        context: RunContext<'r>,
        (groups, aggregates): (&[Slot], &[Aggregate]),
        dimensions: &[Option<Dimension>],
        interners: &'r Interners,
        options: &RunOptions<'_>,
    ) -> Result<Self> {
        let keys = groups.iter().map(|slot| Keyed::new(context, *slot, interners.of(*slot), true)).collect();
        let accumulators = aggregates
            .iter()
            .map(|aggregate| {
                let value_type = aggregate.slot().map(|slot| context.pipeline.slot(slot).value_type);
                Accumulator::new(*aggregate, value_type)
            })
            .collect();
        let mut value_slots: Vec<Slot> = Vec::new();
        for slot in aggregates.iter().filter_map(|aggregate| value_of(context, *aggregate)) {
            if !value_slots.contains(&slot) {
                value_slots.push(slot);
            }
        }
        let source = context.source;
        let rows_of =
            |row_group| source.row_count(row_group).min(source.mini_blocks(row_group).len() * MINI_BLOCK_VALUES);
        let row_count = (0..source.row_group_count()).map(|row_group| rows_of(row_group) as u64).sum();
        let mut collected = Self {
            keys,
            aggregates: aggregates.to_vec(),
            cells: Cells::new(dimensions, row_count),
            accumulators,
            seen: Vec::new(),
            memory: Memory::new(options.account, 0)?,
            found: GroupedRows::default(),
            most_groups: match options.groups {
                GroupWay::AtMost(limit) => Some(limit),
                GroupWay::Together | GroupWay::Parted => None,
            },
            parts: None,
            value_slots,
            folds: groups.is_empty() && aggregates.iter().all(|aggregate| is_fold(context, *aggregate)),
        };
        collected.resize(0)?;
        Ok(collected)
    }

    /// Bytes of what is kept while `more` cells come.
    fn size_bytes_with(&self, more: usize) -> usize {
        let extra_bytes: usize = self.accumulators.iter().map(|accumulator| accumulator.extra_bytes()).sum();
        let cell_bytes = self.accumulators.len() * CELL_BYTES + 1;
        // Vectors grow by doubling.
        self.cells.size_bytes_with(more) + 2 * (self.cells.count() + more) * cell_bytes + extra_bytes
    }

    /// Makes room for the cells that there are; `more` may come before the next call.
    fn resize(&mut self, more: usize) -> Result<()> {
        let cell_count = self.cells.count();
        self.memory.ensure(self.size_bytes_with(more))?;
        for accumulator in &mut self.accumulators {
            accumulator.resize(cell_count);
        }
        self.seen.resize(cell_count, false);
        Ok(())
    }

    /// Takes in some rows of a mini-block.
    pub(super) fn take(
        &mut self,
        view: &mut View<'_>,
        context: RunContext<'_>,
        block: usize,
        rows: &[u16],
    ) -> Result<()> {
        let mut columns = Vec::with_capacity(self.keys.len());
        for key in &mut self.keys {
            let (mut values, valid) = narrow_of(key, view, context, block, rows)?;
            if context.pipeline.slot(key.slot()).value_type.is_float() {
                values.iter_mut().filter(|value| **value == NEGATIVE_ZERO).for_each(|value| *value = 0);
            }
            columns.push((values, valid));
        }
        if let Some(parts) = &mut self.parts {
            for slot in &self.value_slots {
                let numbers = view.numbers(*slot, block, rows)?;
                let pushed = parted::push_words(numbers, may_be_wide(context, *slot), &mut columns);
                let name = || context.pipeline.slot(*slot).name.clone();
                pushed.map_err(|value| PipelineError::Digits { name: name(), value })?;
            }
            let outside = parts.push(&columns, rows.len(), &self.memory)?;
            return outside.map_or(Ok(()), |outside| Err(self.outside(outside, view, context)));
        }
        let (found, outside) = self.find(&columns, rows.len())?;
        if let Some(outside) = outside {
            return Err(self.outside(outside, view, context));
        }
        for at in 0..self.aggregates.len() {
            let values = match value_of(context, self.aggregates[at]) {
                Some(slot) => {
                    let numbers = view.numbers(slot, block, rows)?;
                    Some(self.accumulators[at].prepared(numbers, context.pipeline.slot(slot).value_type))
                }
                None => None,
            };
            match (self.aggregates[at].slot(), &values) {
                (Some(slot), Some(codes)) if self.accumulators[at].takes_texts() => {
                    view.open(slot)?;
                    let others_bytes = self.size_bytes_with(0) - self.accumulators[at].extra_bytes();
                    let reserve = |extra_bytes| self.memory.ensure(others_bytes + extra_bytes);
                    let wrong =
                        |code| view.place(slot).mismatch(format!("text {code} that is no UTF-8"), "UTF-8".to_owned());
                    let texts = view.texts(slot);
                    self.accumulators[at].add_texts(&found, (codes, &texts), reserve, wrong)?;
                }
                _ => self.accumulators[at].add(&found, values.as_ref()),
            }
        }
        self.found = found;
        Ok(())
    }

    /// The error that a value is which its column cannot have.
    #[cold]
    fn outside(&self, outside: Outside, view: &View<'_>, context: RunContext<'_>) -> PipelineError {
        let Outside { column, value, of: Dimension { least, value_count } } = outside;
        let slot = self.keys[column].slot();
        let PagePlace { row_group, column } = view.place(slot);
        let value_of = |ordinal| Value::of_ordinal(context.pipeline.slot(slot).value_type, ordinal);
        let greatest = least.wrapping_add_unsigned(value_count).wrapping_sub(1);
        let [value, least, greatest] = [value, least, greatest].map(value_of);
        let (found, expected) = (value.to_string(), format!("{least} to {greatest}"));
        PipelineError::OutsideOfStatistics { row_group, column, found, expected }
    }

    /// The cells of some rows, which are there then; or a value that its column cannot have.
    fn find(&mut self, keys: &[Values], row_count: usize) -> Result<(GroupedRows, Option<Outside>)> {
        if let Cells::Hashed { .. } = self.cells {
            self.resize(row_count)?;
        }
        let mut found = std::mem::take(&mut self.found);
        let outside = self.cells.find(keys, row_count, &mut found.cells);
        if let Cells::Hashed { .. } = self.cells {
            if let Some(limit) = self.most_groups.filter(|limit| self.cells.count() as u64 > *limit) {
                return Err(PipelineError::TooManyGroups { limit });
            }
            self.resize(0)?;
        }
        found.count(self.cells.count());
        match found.counts() {
            Some(counts) => self.seen.iter_mut().zip(counts).for_each(|(seen, count)| *seen |= *count > 0),
            None => found.cells.iter().for_each(|cell| self.seen[*cell as usize] = true),
        }
        Ok((found, outside))
    }

    /// Takes in rows that were parted.
    fn add_chunk(&mut self, context: RunContext<'_>, chunk: Chunk) -> Result<()> {
        let row_count = chunk.row_count();
        let columns = chunk.into_values();
        let mut columns = columns.into_iter();
        let keys: Vec<Values> = columns.by_ref().take(self.keys.len()).collect();
        let (found, outside) = self.find(&keys, row_count)?;
        debug_assert_eq!(outside, None, "they were looked at when they were parted");
        let mut values: Vec<(Slot, Numbers)> = Vec::with_capacity(self.value_slots.len());
        for slot in &self.value_slots {
            values.push((*slot, parted::from_words(&mut columns, may_be_wide(context, *slot))));
        }
        for (aggregate, accumulator) in self.aggregates.iter().zip(&mut self.accumulators) {
            let of = value_of(context, *aggregate).and_then(|slot| values.iter().find(|(of, _)| *of == slot));
            match of {
                Some((slot, numbers)) if context.pipeline.slot(*slot).value_type == ValueType::UInt64 => {
                    accumulator.add(&found, Some(&accumulator.prepared(numbers.clone(), ValueType::UInt64)));
                }
                Some((_, numbers)) => accumulator.add(&found, Some(numbers)),
                None => accumulator.add(&found, None),
            }
        }
        self.found = found;
        Ok(())
    }

    /// Whether rows wait to be added up.
    pub(super) fn are_parted(&self) -> bool {
        self.parts.is_some()
    }

    /// Takes in the selected rows of a mini-block by their values as they lie there, if it can; whether it has.
    pub(super) fn take_block(
        &mut self,
        view: &mut View<'_>,
        context: RunContext<'_>,
        block: usize,
        selection: &Selection,
        instructions: InstructionSet,
    ) -> Result<bool> {
        if !self.folds {
            return Ok(false);
        }
        // All must be able to be taken so, or none is.
        let mut all = Vec::with_capacity(self.aggregates.len());
        for aggregate in &self.aggregates {
            let slot = value_of(context, *aggregate);
            all.push(match slot.map(|slot| (slot, context.pipeline.slot(slot).origin)) {
                None => Folded::Rows,
                Some((slot, Origin::Column(column))) if !view.reader(slot, column)?.is_wide() => {
                    Folded::Column(slot, column)
                }
                Some((_, Origin::Column(_) | Origin::Payload { .. })) => return Ok(false),
                Some((slot, Origin::Computed { .. })) => match view.fitting(slot, block)? {
                    Some(fitting) => Folded::Computed(slot, fitting),
                    None => return Ok(false),
                },
            });
        }
        for (folded, accumulator) in all.into_iter().zip(&mut self.accumulators) {
            let (slot, (values, valid), floats) = match folded {
                Folded::Rows => {
                    accumulator.add_block(selection.mask(), None, None, instructions);
                    continue;
                }
                Folded::Column(slot, column) => {
                    let reader = view.reader(slot, column)?;
                    let valid = reader.valid(block);
                    let (values, floats) = reader.foldable(block)?;
                    (slot, (values, valid), floats)
                }
                Folded::Computed(slot, fitting) => (slot, view.whole_block(fitting)?, None),
            };
            let selected = valid.map_or(*selection, |valid| selection.and(&valid));
            let value_type = context.pipeline.slot(slot).value_type;
            accumulator.add_block(selected.mask(), Some((values, value_type)), floats, instructions);
        }
        self.seen[0] = true;
        Ok(true)
    }

    /// Takes in the groups of another thread: some at a time, so that there is room for them before they come, and
    /// little besides.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn merge(&mut self, other: Self) -> Result<()> {
        let (mut found, mut pairs) = (Vec::new(), Vec::new());
        let mut cells = other.seen_cells();
        loop {
            let some: Vec<u32> = cells.by_ref().take(MERGED_AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            let of_column = |column: usize| {
                let values = || some.iter().map(|cell| other.cells.value(*cell, column));
                let valid = values().map(|value| value.is_some()).collect();
                (values().map(|value| value.unwrap_or(0)).collect(), Some(valid))
            };
            let columns: Vec<Values> = (0..self.keys.len()).map(of_column).collect();
            self.resize(some.len())?;
            let outside = self.cells.find(&columns, some.len(), &mut found);
            debug_assert_eq!(outside, None, "threads know the same");
            self.resize(0)?;
            pairs.clear();
            pairs.extend(some.into_iter().zip(found.iter().copied()));
            for (_, to) in &pairs {
                self.seen[*to as usize] = true;
            }
            for (accumulator, more) in self.accumulators.iter_mut().zip(&other.accumulators) {
                accumulator.merge(more, &pairs);
            }
        }
        // Texts were the other's until now.
        self.resize(0)
    }

    fn seen_cells(&self) -> impl Iterator<Item = u32> {
        (0..self.seen.len() as u32).filter(|cell| self.seen[*cell as usize])
    }

    /// Reserves what the groups take as rows.
    fn reserve_rows(&self, row_count: usize, output: &[ColumnShape]) -> Result<()> {
        // Which cell it is, and of each column that it is grouped by a number (of a decimal twice, once in 128 bits) and
        // whether it is one.
        let of_keys = output[..self.keys.len()].iter().map(|shape| match shape.value_type {
            ValueType::Decimal { .. } => 25,
            _ => 9,
        });
        let row_bytes = size_of::<u32>() + of_keys.sum::<usize>();
        let of_aggregates = self.accumulators.iter().map(|accumulator| accumulator.finish_bytes(row_count));
        self.memory.grow(row_count * row_bytes + of_aggregates.sum::<usize>())
    }

    /// The groups as rows, and the memory they take.
    ///
    /// # Errors
    /// No memory for rows beside groups; a sum for an average that does not fit.
    pub(super) fn finish(
        mut self,
        context: RunContext<'_>,
        texts: &[(Slot, Arc<TextList>)],
    ) -> Result<(Rowset, Memory)> {
        if self.keys.is_empty() {
            self.resize(0)?;
            self.seen[0] = true;
        }
        let output = context.pipeline.output();
        let row_count = self.seen_cells().count();
        self.reserve_rows(row_count, output)?;
        let mut cells = Vec::with_capacity(row_count);
        cells.extend(self.seen_cells());
        let mut columns = Vec::with_capacity(output.len());
        for (at, key) in self.keys.iter().enumerate() {
            let shape = output[at].clone();
            let codes = || cells.iter().map(|cell| self.cells.value(*cell, at));
            let valid: Vec<bool> = codes().map(|code| code.is_some()).collect();
            let number = |code: Option<i64>| match (key.distinct(), code) {
                (Some(Distinct::Numbers(numbers)), Some(code)) => numbers.get(code as usize).copied().unwrap_or(0),
                (_, code) => code.unwrap_or(0),
            };
            let interned = texts.iter().find(|(slot, _)| *slot == key.slot()).map(|(_, texts)| texts);
            let values = match (key.distinct(), interned) {
                (Some(Distinct::Texts { texts: dictionary, .. }), _) | (_, Some(dictionary)) => RowsetValues::Texts {
                    codes: codes().map(|code| code.unwrap_or(0) as u32).collect(),
                    dictionary: Arc::clone(dictionary),
                },
                _ => RowsetValues::of_ordinals(shape.value_type, codes().map(number).collect()),
            };
            columns.push(RowsetColumn { shape, values, valid: valid.contains(&false).then_some(valid) });
        }
        // Each is gone when the next one's turn comes.
        for (accumulator, shape) in self.accumulators.into_iter().zip(&output[self.keys.len()..]) {
            columns.push(accumulator.finish(shape, &cells)?);
        }
        Ok((Rowset { columns, row_count }, self.memory))
    }
}

/// What some rows are told apart by, which 64 bits hold.
fn narrow_of(
    keyed: &mut Keyed<'_>,
    view: &mut View<'_>,
    context: RunContext<'_>,
    block: usize,
    rows: &[u16],
) -> Result<(Vec<i64>, Option<Vec<bool>>)> {
    let values = keyed.values(view, block, rows)?;
    let name = || context.pipeline.slot(keyed.slot()).name.clone();
    narrow(values).map_err(|value| PipelineError::Digits { name: name(), value })
}
