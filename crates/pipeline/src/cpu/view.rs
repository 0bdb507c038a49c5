//! A row group while it is worked on: its pages, opened when the first value of them is needed, and the values in
//! slots.
//!
//! **Owns**: late materialisation (a page that no surviving row needs is not asked for), values of slots for selected
//! rows, also of rows that have multiplied.
//!
//! **Does not own**: which rows are selected.
//!
//! **Concurrency**: a view belongs to one thread.

use std::cell::OnceCell;
use std::sync::Arc;

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::ahead::Pace;
use super::column::ColumnReader;
use super::expansion::Multiplied;
use super::numbers::{Lane, Numbers, both_valid};
use super::place::PagePlace;
use super::selection::Selection;
use super::texts::{RunTexts, TextSets, Texts, Translations, translation};
use super::waiting::{Waiting, WaitingColumn};
use super::whole_blocks::Buffers;
use crate::ir::{Origin, Pipeline, ProbeKind, Slot, Step, TextTest};
use crate::kernels::NO_RANK;
use crate::membership::Membership;
use crate::table::{ABSENT, KeyCoding, KeyColumn};
use crate::{BuiltTable, PageSource, PipelineError, SourceColumn};

/// Up to how many rows of each mini-block are better looked up together, where nothing is known of the page.
const UNKNOWN_LATE_ROWS: usize = 16;

/// What all views of a run share.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'r> {
    pub(super) pipeline: &'r Pipeline,
    pub(super) source: &'r dyn PageSource,
    pub(super) tables: &'r [Arc<BuiltTable>],
    pub(super) texts: &'r RunTexts,
}

impl<'r> RunContext<'r> {
    /// The table of the probe that fills a payload slot, and which payload it is.
    pub(super) fn payload_of(&self, step: usize, payload: usize) -> Option<(&'r BuiltTable, usize)> {
        self.probe(step).map(|(table, ..)| (table, payload))
    }

    /// The table of a probe, the key that it is looked up by, and how.
    fn probe(&self, step: usize) -> Option<(&'r BuiltTable, &'r [Slot], ProbeKind)> {
        match &self.pipeline.steps()[step] {
            Step::Probe { table, keys, kind, .. } => Some((&self.tables[*table], keys, *kind)),
            _ => None,
        }
    }
}

/// A place for the pinned pages and the arrays of a row group, which must outlive its view.
pub(super) type Pins = Vec<OnceCell<SourceColumn>>;

pub(super) struct View<'p> {
    pub(super) context: RunContext<'p>,
    row_group: usize,
    pins: &'p Pins,
    /// By the numbers of slots.
    readers: Vec<Option<ColumnReader<'p>>>,
    pages_read: u64,
    pace: Pace,
    pub(super) buffers: Buffers,
    /// The digits of a key's texts by their codes: by the probe's step and the key's column.
    translations: Translations,
    /// Of the texts of scanned columns.
    text_sets: TextSets,
    /// The rows that values are asked of, if they are no longer the mini-block's.
    multiplied: Option<Multiplied>,
    /// The same, if they are those that have waited for the sink.
    waiting: Option<Waiting>,
    /// While the same rows are asked for all that a sink takes of them: what they have found, by the probe's step.
    found: Option<Vec<(usize, Vec<u32>)>>,
}

impl<'p> View<'p> {
    /// `pins` has a place for each slot, all empty.
    pub(super) fn new(context: RunContext<'p>, row_group: usize, pins: &'p Pins, pace: Pace) -> Self {
        let readers = pins.iter().map(|_| None).collect();
        let translations = Translations::default();
        Self {
            context,
            row_group,
            pins,
            readers,
            pages_read: 0,
            pace,
            buffers: Buffers::default(),
            translations,
            text_sets: TextSets::default(),
            multiplied: None,
            waiting: None,
            found: None,
        }
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

    /// Whether the page of a scanned column was asked for.
    pub(super) fn has_page(&self, column: usize) -> bool {
        let first = self.context.pipeline.first_slot(column);
        first.is_some_and(|first| self.pins[first.index()].get().is_some())
    }

    /// Whether rows are no longer a mini-block's, but those of an expansion or those that have waited.
    pub(super) fn has_other_rows(&self) -> bool {
        self.multiplied.is_some() || self.waiting.is_some()
    }

    /// The rows of an expansion.
    pub(super) fn row_count(&self) -> usize {
        self.multiplied.as_ref().map_or(0, Multiplied::count)
    }

    /// Drops the rows of an expansion, or of those that have waited, that are not selected.
    pub(super) fn retain(&mut self, selection: &Selection) {
        if let Some(waiting) = &mut self.waiting {
            waiting.retain(selection);
        }
        if let Some(multiplied) = &mut self.multiplied
            && selection.count() < multiplied.count()
        {
            multiplied.retain(selection);
        }
    }

    /// Sets of which rows values are asked from now on; those before.
    pub(super) fn expand(&mut self, multiplied: Option<Multiplied>) -> Option<Multiplied> {
        std::mem::replace(&mut self.multiplied, multiplied)
    }

    /// Asks for some more of what the next mini-block will need, now that memory is idle.
    pub(super) fn ask_ahead(&mut self) {
        let mut left = self.pace.lines_at_once();
        for reader in self.readers.iter_mut().flatten() {
            left -= reader.ahead().ask(left);
            if left == 0 {
                return;
            }
        }
    }

    /// The pace for the next row group.
    pub(super) fn next_pace(&mut self) -> Pace {
        let counts = self.readers.iter_mut().flatten().map(|reader| reader.ahead().counts());
        let (asked, missed) = counts.fold((0, 0), |all, some| (all.0 + some.0, all.1 + some.1));
        self.pace.after(asked, missed)
    }

    /// Lets some rows of a mini-block wait.
    pub(super) fn keep(&mut self, waiting: &mut Waiting, block: usize, rows: &[u16]) -> Result<(), PipelineError> {
        let are_first = waiting.row_count() == 0;
        let usual_rows = waiting.usual_rows.unwrap_or(rows.len());
        waiting.push(block, rows);
        for WaitingColumn { slot, column, numbers, is_late } in &mut waiting.columns {
            if are_first {
                *is_late = match &self.readers[slot.index()] {
                    Some(reader) => reader.is_late(block, usual_rows),
                    None => usual_rows <= UNKNOWN_LATE_ROWS,
                };
            }
            if !*is_late {
                let reader = self.reader(*slot, *column)?;
                let numbers = numbers.get_or_insert_with(|| Numbers::none(reader.is_wide(), MINI_BLOCK_VALUES));
                reader.append(block, rows, numbers)?;
            }
        }
        Ok(())
    }

    /// Up to how many rows of each mini-block the values in a slot are better looked up together with those of others.
    pub(super) fn late_rows(&self, slot: Slot) -> usize {
        self.readers[slot.index()].as_ref().map_or(UNKNOWN_LATE_ROWS, ColumnReader::late_rows)
    }

    /// The values of a scanned column for some of the rows that have waited, by their places among them.
    fn waiting_numbers(
        &mut self,
        mut waiting: Waiting,
        slot: Slot,
        places: &[u16],
    ) -> Result<(Waiting, Numbers), PipelineError> {
        let Some(at) = waiting.columns.iter().position(|column| column.slot == slot) else {
            debug_assert!(false, "slot {slot:?} does not wait");
            return Ok((waiting, Numbers::repeated(0, places.len())));
        };
        if waiting.columns[at].numbers.is_none() {
            let reader = self.reader(slot, waiting.columns[at].column)?;
            let mut numbers = Numbers::none(reader.is_wide(), waiting.row_count());
            reader.append_rows(waiting.rows(), &mut numbers)?;
            waiting.columns[at].numbers = Some(numbers);
        }
        let all = waiting.columns[at].numbers.as_ref();
        let numbers = all.map(|all| if places.len() == waiting.row_count() { all.clone() } else { all.at(places) });
        let numbers = numbers.unwrap_or_else(|| Numbers::repeated(0, places.len()));
        Ok((waiting, numbers))
    }

    /// Sets of which rows values are asked from now on: those that have waited, by their places among them, whatever the
    /// mini-block. Those before.
    pub(super) fn ask_of(&mut self, waiting: Option<Waiting>) -> Option<Waiting> {
        std::mem::replace(&mut self.waiting, waiting)
    }

    /// From now on values are asked of the same rows, until [`View::end_of_same_rows`]: probes are asked once.
    pub(super) fn same_rows(&mut self) {
        self.found = Some(Vec::new());
    }

    pub(super) fn end_of_same_rows(&mut self) {
        self.found = None;
    }

    /// Opens the page of a slot if it is a scanned column.
    pub(super) fn open(&mut self, slot: Slot) -> Result<(), PipelineError> {
        match self.context.pipeline.slot(slot).origin {
            Origin::Column(column) => self.reader(slot, column).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// A slot in this row group, for messages.
    pub(super) fn place(&self, slot: Slot) -> PagePlace {
        let row_group = self.context.source.stored_row_group(self.row_group);
        PagePlace { row_group, column: self.context.pipeline.slot(slot).name.clone() }
    }

    /// The texts that the codes of a slot stand for, whose page is open.
    pub(super) fn texts(&self, slot: Slot) -> Texts<'_> {
        match self.context.pipeline.slot(slot).origin {
            Origin::Payload { step, payload } => Texts::of_payload(self.context, step, payload),
            _ => Texts::Page(self.readers[slot.index()].as_ref().and_then(ColumnReader::texts)),
        }
    }

    /// The codes of a slot's texts that pass a test.
    pub(super) fn text_set(&mut self, slot: Slot, test: &TextTest) -> Result<Arc<Membership>, PipelineError> {
        let known = self.context.texts.sets.get(slot, test).or_else(|| self.text_sets.get(slot, test));
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        self.open(slot)?;
        let texts = self.texts(slot).array();
        let texts = texts.map_err(|error| self.place(slot).mismatch(error.to_string(), "UTF-8".to_owned()))?;
        self.text_sets.add(slot, test, &texts)
    }

    /// The page of a scanned column.
    #[inline]
    pub(super) fn reader(&mut self, slot: Slot, column: usize) -> Result<&mut ColumnReader<'p>, PipelineError> {
        let Self { context, row_group, pins, readers, pages_read, pace, .. } = self;
        match &mut readers[slot.index()] {
            Some(reader) => Ok(reader),
            none => {
                // Slots of one column share its page.
                let pin = &pins[context.pipeline.first_slot(column).unwrap_or(slot).index()];
                *pages_read += u64::from(pin.get().is_none());
                Ok(none.insert(open((*context, *row_group), (slot, column), pin, *pace)?))
            }
        }
    }

    /// The numbers in a slot for some rows of a mini-block: of texts of scanned columns the page's codes, of texts of
    /// payload the table's.
    pub(super) fn numbers(&mut self, slot: Slot, block: usize, rows: &[u16]) -> Result<Numbers, PipelineError> {
        let context = self.context;
        match context.pipeline.slot(slot).origin {
            Origin::Column(column) => {
                if let Some(waiting) = self.waiting.take() {
                    let (waiting, numbers) = self.waiting_numbers(waiting, slot, rows)?;
                    self.waiting = Some(waiting);
                    return Ok(numbers);
                }
                let mapped = self.multiplied.as_ref().map(|multiplied| multiplied.rows_of(rows));
                let rows = mapped.as_deref().unwrap_or(rows);
                let reader = self.reader(slot, column)?;
                let mut numbers = Numbers::none(reader.is_wide(), rows.len());
                reader.append(block, rows, &mut numbers)?;
                Ok(numbers)
            }
            Origin::Payload { step, payload } => {
                let found = self.found_rows(step, block, rows)?;
                let Some((table, payload)) = context.payload_of(step, payload) else {
                    return Ok(Numbers::repeated(0, rows.len()));
                };
                let (ordinals, valid) = table.column(payload).ordinals_of(&found);
                Ok(Numbers { lane: Lane::Narrow(ordinals), valid })
            }
            Origin::Computed { step } => {
                if let Some(numbers) = self.whole_numbers(slot, block, rows)? {
                    return Ok(numbers);
                }
                match &context.pipeline.steps()[step] {
                    Step::Compute { expression, .. } => Ok(self.computed(expression, block, rows)?.1),
                    _ => Ok(Numbers::repeated(0, rows.len())),
                }
            }
        }
    }

    /// The codes that a probe's keys have in its table, for some rows. A key with a NULL in it is NULL.
    pub(super) fn key_codes(&mut self, step: usize, block: usize, rows: &[u16]) -> Result<Numbers, PipelineError> {
        let Some((table, keys, _)) = self.context.probe(step) else { return Ok(Numbers::repeated(0, rows.len())) };
        if let (KeyCoding::Number, [key]) = (table.coding(), keys) {
            return self.numbers(*key, block, rows);
        }
        let mut valid = None;
        let mut digits = Vec::with_capacity(keys.len());
        for (number, (key, column)) in keys.iter().zip(table.coding().columns()).enumerate() {
            let values = self.numbers(*key, block, rows)?;
            valid = both_valid(valid, values.valid);
            let Lane::Narrow(mut values) = values.lane else { return Ok(Numbers::repeated(ABSENT.into(), rows.len())) };
            match column {
                KeyColumn::Numbers { .. } => {
                    values.iter_mut().for_each(|value| *value = column.digit_of_number(*value));
                }
                KeyColumn::Texts(_) => {
                    let translation = self.translation((step, number), *key, column)?;
                    for value in &mut values {
                        *value = translation.get(*value as usize).copied().unwrap_or(ABSENT);
                    }
                }
            }
            digits.push(values);
        }
        let mut codes = table.coding().codes(&digits, rows.len());
        for (at, code) in codes.iter_mut().enumerate() {
            if valid.as_ref().is_some_and(|valid| !valid[at]) {
                *code = ABSENT;
            }
        }
        Ok(Numbers { lane: Lane::Narrow(codes), valid })
    }

    /// The digits of a key column by the codes of a slot's texts.
    fn translation(&mut self, of: (usize, usize), key: Slot, column: &KeyColumn) -> Result<&[i64], PipelineError> {
        if let Some(digits) = self.context.texts.translations.get(&of) {
            return Ok(digits);
        }
        if !self.translations.contains_key(&of) {
            self.open(key)?;
            let digits = translation(&self.texts(key), column);
            self.translations.insert(of, digits);
        }
        Ok(self.translations.get(&of).map_or(&[], Vec::as_slice))
    }

    /// The codes that a payload column has for some rows, which have all passed the probe.
    pub(super) fn payload_codes(
        &mut self,
        step: usize,
        payload: usize,
        block: usize,
        rows: &[u16],
    ) -> Result<Numbers, PipelineError> {
        let found = self.found_rows(step, block, rows)?;
        let Some((table, _, _)) = self.context.probe(step) else { return Ok(Numbers::repeated(0, rows.len())) };
        let column = table.column(payload);
        let codes = column.codes_of(&found);
        let null = column.distinct().map(|distinct| distinct.count() as i64);
        let is_null = |code: &i64| Some(*code) == null;
        let valid = codes.iter().any(is_null).then(|| codes.iter().map(|code| !is_null(code)).collect());
        Ok(Numbers { lane: Lane::Narrow(codes), valid })
    }

    /// The rows of a probe's table that some rows have found, [`NO_RANK`] for those that have found none.
    fn found_rows(&mut self, step: usize, block: usize, rows: &[u16]) -> Result<Vec<u32>, PipelineError> {
        let Some((table, _, kind)) = self.context.probe(step) else { return Ok(vec![NO_RANK; rows.len()]) };
        if let Some(multiplied) = &self.multiplied
            && let Some(found) = multiplied.found(step, rows)
        {
            return Ok(found.map(|row| row.unwrap_or(NO_RANK)).collect());
        }
        let known = self.found.as_ref().and_then(|found| found.iter().find(|(of, _)| *of == step));
        if let Some((_, found)) = known {
            return Ok(found.clone());
        }
        let keys = self.key_codes(step, block, rows)?;
        let Lane::Narrow(codes) = keys.lane else { return Ok(vec![NO_RANK; rows.len()]) };
        let mut found = table.keys().rows(&codes);
        // Rows of other probes would not be left with a NULL for a key.
        if let (ProbeKind::Outer, Some(valid)) = (kind, keys.valid) {
            found.iter_mut().zip(valid).filter(|(_, valid)| !valid).for_each(|(row, _)| *row = NO_RANK);
        }
        if let Some(known) = &mut self.found {
            known.push((step, found.clone()));
        }
        Ok(found)
    }
}

/// Opens the page of a scanned column, which is held by `pin` from then on.
#[inline(never)]
fn open<'p>(
    (context, row_group): (RunContext<'p>, usize),
    (slot, column): (Slot, usize),
    pin: &'p OnceCell<SourceColumn>,
    pace: Pace,
) -> Result<ColumnReader<'p>, PipelineError> {
    let info = context.pipeline.slot(slot);
    let stored = context.source.stored_row_group(row_group);
    let place = PagePlace { row_group: stored, column: info.name.clone() };
    let values = match pin.get() {
        Some(values) => values,
        None => {
            let values = context.source.column(row_group, column);
            let failed = |source| PipelineError::Source { row_group: stored, column: info.name.clone(), source };
            let values = values.map_err(failed)?;
            pin.get_or_init(|| values)
        }
    };
    let row_count = context.source.row_count(row_group);
    let of_type = (info.value_type, context.texts.use_of(slot));
    let mut reader = match values {
        SourceColumn::Page(pinned) => {
            let mini_blocks = context.source.mini_blocks(row_group);
            ColumnReader::of_page((**pinned).as_ref(), of_type, (row_count, mini_blocks), place, pace)
        }
        SourceColumn::Array(array) => ColumnReader::of_array(array, of_type, row_count, place, pace),
    }?;
    if let Some(map) = &info.text_map {
        reader.map_texts(map)?;
    }
    Ok(reader)
}
