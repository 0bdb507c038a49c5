//! The materialising sink: rows as they are.
//!
//! **Concurrency**: a thread keeps rows of its own, laid together when all are done, or given out when there are
//! enough.

use std::sync::Arc;

use thermocline_budget::Account;

use super::keyed::{Interners, Keyed};
use super::memory::Memory;
use super::numbers::Lane;
use super::view::{RunContext, View};
use crate::ir::{Origin, Sink, Slot, ValueType};
use crate::table::Distinct;
use crate::threads::Threads;
use crate::{Result, Rowset, RowsetColumn, RowsetValues, TextList};

/// One thread's rows.
#[derive(Debug)]
pub(super) struct Rows<'r> {
    columns: Vec<KeptColumn<'r>>,
    row_count: usize,
    /// Bytes of the rows' texts, as often as they come: what they take when they are given out, wherever they lie now.
    text_bytes: usize,
    /// Whether rows are given out.
    counts_texts: bool,
    memory: Memory,
}

#[derive(Debug)]
struct KeptColumn<'r> {
    keyed: Keyed<'r>,
    is_decimal: bool,
    narrow: Vec<i64>,
    wide: Vec<i128>,
    /// Empty as long as all are valid.
    valid: Vec<bool>,
}

impl<'r> Rows<'r> {
    pub(super) fn new(
        context: RunContext<'r>,
        slots: &[Slot],
        interners: &'r Interners,
        account: &Account,
    ) -> Result<Self> {
        let column = |slot: &Slot| {
            let info = context.pipeline.slot(*slot);
            let keyed = match (info.origin, info.value_type, interners.of(*slot)) {
                (Origin::Column(column), ValueType::Text, None) => Keyed::listing(*slot, column, account)?,
                (_, _, interner) => Keyed::new(context, *slot, interner, false),
            };
            let is_decimal = matches!(info.value_type, ValueType::Decimal { .. });
            Ok(KeptColumn { keyed, is_decimal, narrow: Vec::new(), wide: Vec::new(), valid: Vec::new() })
        };
        let columns = slots.iter().map(column).collect::<Result<_>>()?;
        let counts_texts = matches!(context.pipeline.sink(), Sink::Materialise { .. });
        Ok(Self { columns, row_count: 0, text_bytes: 0, counts_texts, memory: Memory::new(account, 0)? })
    }

    /// Takes in some rows of a mini-block.
    pub(super) fn take(&mut self, view: &mut View<'_>, block: usize, rows: &[u16]) -> Result<()> {
        let row_bytes = self.row_bytes();
        // Vectors grow by doubling.
        self.memory.ensure(2 * (self.row_count + rows.len()) * row_bytes)?;
        for column in &mut self.columns {
            let values = column.keyed.values(view, block, rows)?;
            if let (true, Lane::Narrow(codes)) = (self.counts_texts, &values.lane)
                && let Some(texts) = column.keyed.texts()
            {
                let codes = codes.iter().enumerate().filter(|(at, _)| values.is_valid(*at));
                self.text_bytes += codes.map(|(_, code)| texts.len_of(*code as usize)).sum::<usize>();
            }
            match (values.valid, column.valid.is_empty()) {
                (Some(valid), true) if valid.contains(&false) => {
                    column.valid.resize(self.row_count, true);
                    column.valid.extend(valid);
                }
                (_, true) => {}
                (Some(valid), false) => column.valid.extend(valid),
                (None, false) => column.valid.resize(self.row_count + rows.len(), true),
            }
            match values.lane {
                lane if column.is_decimal => column.wide.extend(lane.into_wide()),
                Lane::Narrow(values) => column.narrow.extend(values),
                // Only decimals are wide.
                Lane::Wide(values) => column.narrow.extend(values.into_iter().map(|value| value as i64)),
            }
        }
        self.row_count += rows.len();
        Ok(())
    }

    /// Takes in the rows of other threads.
    ///
    /// # Errors
    /// No memory for a column of all rows beside its parts, or for listed texts.
    pub(super) fn merge(&mut self, others: Vec<Self>, threads: Threads) -> Result<()> {
        let row_counts: Vec<usize> =
            std::iter::once(self.row_count).chain(others.iter().map(|of| of.row_count)).collect();
        let row_count: usize = row_counts.iter().sum();
        if row_count > self.row_count {
            let widest = if self.columns.iter().any(|column| column.is_decimal) { 16 } else { 8 };
            self.memory.grow(row_count * widest)?;
        }
        let mut others: Vec<_> = others.into_iter().map(|other| (other.columns.into_iter(), other.memory)).collect();
        for column in &mut self.columns {
            let (mut valid, mut narrow, mut wide) = (
                vec![std::mem::take(&mut column.valid)],
                vec![std::mem::take(&mut column.narrow)],
                vec![std::mem::take(&mut column.wide)],
            );
            for mut more in others.iter_mut().filter_map(|(columns, _)| columns.next()) {
                let offset = column.keyed.append_listed(more.keyed)?;
                if offset > 0 {
                    more.narrow.iter_mut().for_each(|code| *code += offset);
                }
                valid.push(more.valid);
                narrow.push(more.narrow);
                wide.push(more.wide);
            }
            if valid.iter().any(|valid| !valid.is_empty()) {
                valid.iter_mut().zip(&row_counts).for_each(|(valid, row_count)| valid.resize(*row_count, true));
            }
            column.valid = threads.joined(valid);
            column.narrow = threads.joined(narrow);
            column.wide = threads.joined(wide);
        }
        self.row_count = row_count;
        others.into_iter().for_each(|(_, memory)| self.memory.absorb(memory));
        Ok(())
    }

    /// Bytes of the rows that are kept to be given out, with their texts as often as they come.
    pub(super) fn size_bytes(&self) -> usize {
        self.row_count * self.row_bytes() + self.text_bytes
    }

    pub(super) fn row_count(&self) -> usize {
        self.row_count
    }

    fn row_bytes(&self) -> usize {
        self.columns.iter().map(|column| if column.is_decimal { 17 } else { 9 }).sum()
    }

    /// The rows as a rowset, and the memory they take; none are left.
    pub(super) fn finish(
        &mut self,
        context: RunContext<'_>,
        texts: &[(Slot, Arc<TextList>)],
        account: &Account,
    ) -> Result<(Rowset, Memory)> {
        let memory = std::mem::replace(&mut self.memory, Memory::new(account, 0)?);
        let row_count = std::mem::take(&mut self.row_count);
        self.text_bytes = 0;
        if context.pipeline.output().iter().any(|shape| shape.value_type == ValueType::Text) {
            // Of one column at a time, the codes are there beside what they are made of.
            memory.grow(row_count * size_of::<u32>())?;
        }
        let columns = self.columns.iter_mut().zip(context.pipeline.output()).map(|(column, shape)| {
            let (narrow, wide) = (std::mem::take(&mut column.narrow), std::mem::take(&mut column.wide));
            let valid = std::mem::take(&mut column.valid);
            let slot = column.keyed.slot();
            let interned = texts.iter().find(|(of, _)| *of == slot).map(|(_, texts)| Arc::clone(texts));
            let dictionary = match (column.keyed.take_listed(account)?, column.keyed.distinct()) {
                (Some((texts, of_texts)), _) => {
                    memory.absorb(of_texts);
                    Some(Arc::new(texts))
                }
                (None, Some(Distinct::Texts { texts, .. })) => Some(Arc::clone(texts)),
                (None, _) => interned,
            };
            let values = match dictionary {
                Some(dictionary) => {
                    // NULL's code stands for no text.
                    let last = dictionary.len().saturating_sub(1) as u32;
                    let codes = narrow.iter().map(|code| (*code as u32).min(last)).collect();
                    RowsetValues::Texts { codes, dictionary }
                }
                None if column.is_decimal => RowsetValues::Wide(wide),
                None => RowsetValues::of_ordinals(shape.value_type, narrow),
            };
            let valid = (!valid.is_empty()).then_some(valid);
            Ok(RowsetColumn { shape: shape.clone(), values, valid })
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok((Rowset { columns, row_count }, memory))
    }
}
