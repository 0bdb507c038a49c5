//! Filters and probes as tests of the rows of a mini-block that are left.
//!
//! **Owns**: compiling a pipeline's steps (`compile`), tests of one value against a set (`members`) and conditions on
//! several (`condition`), leaving out row groups by zone maps.
//!
//! **Does not own**: the order of stages (`order`), rows that multiply (`expansion`).
//!
//! **Invariants**: stages commute, apart from those that take a payload or what is computed of it, which come after its
//! probe. A stage that is *implied* by another may be left out.
//!
//! **Concurrency**: each thread has stages of its own.

mod compile;
mod condition;
mod members;

pub(super) use compile::{Expansion, Stages, number_set, scanned_sources, whole_range};
pub(super) use condition::orderings;

use std::sync::Arc;

use thermocline_column_store::{MINI_BLOCK_VALUES, ZoneValue};
use thermocline_predicate::{Domain, Scalar};

use super::column::ColumnReader;
use super::numbers::{Lane, Numbers};
use super::selection::{Selection, room_for};
use super::view::{RunContext, View};
use crate::BuiltTable;
use crate::PipelineError;
use crate::ir::{Origin, Slot, TextTest};
use crate::kernels::{InstructionSet, NO_RANK};
use crate::membership::Membership;
use crate::table::{ABSENT, KeyIndex};
use condition::CompiledCondition;
use members::{are_keys, in_set, members};

/// What rows are tested for.
#[derive(Debug, Clone)]
enum Test<'r> {
    /// A number, or a code of a table's payload. The domain tells of wide decimals.
    Numbers { membership: Membership, domain: Domain },
    /// A text of a scanned column: compiled to codes for each page, the row group's number beside.
    Texts { domain: Domain, compiled: Option<(usize, Membership)> },
    /// A text of a scanned column, likewise.
    Tested { test: &'r TextTest, compiled: Option<(usize, Arc<Membership>)> },
    /// Keys of a table.
    Keys { keys: &'r KeyIndex, range: Option<(i64, i64)> },
    /// Keys of a table that are texts of a scanned column, compiled likewise.
    TextKeys { table: &'r BuiltTable, compiled: Option<(usize, Membership)> },
    /// Keys of a table by their codes, of the probe that is this step.
    CodedKeys { step: usize, table: &'r BuiltTable },
    /// A condition on several values.
    Condition(Box<CompiledCondition<'r>>),
}

/// A filter or a probe.
#[derive(Debug, Clone)]
pub(super) struct Stage<'r> {
    /// What is tested, or the first of several.
    pub(super) slot: Slot,
    slots: Vec<Slot>,
    test: Test<'r>,
    admits_null: bool,
    /// Whether it keeps the values that fail the test.
    negated: bool,
    /// Stages that must come before.
    pub(super) needs: Vec<usize>,
    /// The stage that drops all rows that this one drops, if there is one.
    pub(super) implied_by: Option<usize>,
    /// The share of rows that it is guessed to keep, before anything is measured.
    pub(super) guessed_selectivity: f64,
    /// Whether it takes payload or computed values, which cost arithmetic or a look into a table.
    pub(super) takes_derived: bool,
    /// Whether it may be an error of rows that others drop.
    pub(super) may_fail: bool,
}

/// Whether a slot may be NULL in a row group, as far as is known.
fn zone_may_have_null(context: RunContext<'_>, slot: Slot, row_group: usize) -> bool {
    match context.pipeline.slot(slot).origin {
        Origin::Column(column) => context.source.facts(row_group, column).is_none_or(|facts| facts.null_count > 0),
        _ => true,
    }
}

impl Stage<'_> {
    /// Whether the pages of all that it takes are open.
    pub(super) fn is_open(&self, view: &View<'_>) -> bool {
        self.slots.iter().all(|slot| view.is_open(*slot))
    }

    /// Whether a row of a row group may pass, as far as zone maps tell.
    pub(super) fn may_pass(&self, context: RunContext<'_>, row_group: usize) -> bool {
        if let Test::Condition(condition) = &self.test {
            return condition.may_pass(context, row_group);
        }
        let Origin::Column(column) = context.pipeline.slot(self.slot).origin else { return true };
        let Some(facts) = context.source.facts(row_group, column) else { return true };
        if self.admits_null && facts.null_count > 0 {
            return true;
        }
        if facts.null_count == context.source.row_count(row_group) {
            return false;
        }
        let domain = match &self.test {
            Test::Numbers { domain, .. } | Test::Texts { domain, .. } => domain,
            _ if self.negated => return true,
            // The implied range beside it tells.
            Test::Keys { range, .. } => return range.is_some(),
            Test::TextKeys { table, .. } | Test::CodedKeys { table, .. } => return table.row_count() > 0,
            Test::Tested { .. } | Test::Condition(_) => return true,
        };
        domain.intervals().iter().any(|interval| {
            let zone_value = |value: &Scalar| match value {
                Scalar::Boolean(value) => ZoneValue::Integer((*value).into()),
                Scalar::Int(value) => ZoneValue::Integer(*value),
                Scalar::Float(value) => ZoneValue::Float(*value),
                Scalar::Utf8(text) => ZoneValue::Bytes(text.as_bytes().to_vec()),
            };
            let (low, high) = (interval.low.as_ref().map(zone_value), interval.high.as_ref().map(zone_value));
            facts.zone_map.may_contain(low.as_ref(), high.as_ref())
        })
    }

    /// The slots that it takes.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Up to how many rows of each mini-block are better tested together with those of others.
    pub(super) fn late_rows(&self, view: &View<'_>) -> usize {
        self.slots.iter().map(|slot| view.late_rows(*slot)).min().unwrap_or(0)
    }

    /// Drops the rows of `selection` that do not pass, of mini-block `block`.
    pub(super) fn apply(
        &mut self,
        view: &mut View<'_>,
        context: RunContext<'_>,
        block: usize,
        selection: &mut Selection,
        instructions: InstructionSet,
    ) -> Result<(), PipelineError> {
        match &mut self.test {
            Test::Condition(condition) => {
                *selection = condition.truth(view, context, block, selection, instructions)?.yes;
                return Ok(());
            }
            Test::CodedKeys { step, table } => {
                let (step, table) = (*step, *table);
                return self.apply_to_codes(view, (step, table), block, selection);
            }
            _ => {}
        }
        let Origin::Column(column) = context.pipeline.slot(self.slot).origin else {
            return self.apply_to_slot(view, block, selection);
        };
        let row_group = view.row_group();
        match &mut self.test {
            Test::Tested { test, compiled } => {
                if compiled.as_ref().is_none_or(|(of, _)| *of != row_group) {
                    *compiled = Some((row_group, view.text_set(self.slot, test)?));
                }
            }
            test => test.compile(view.reader(self.slot, column)?, row_group),
        }
        if view.has_other_rows() {
            return self.apply_to_slot(view, block, selection);
        }
        let reader = view.reader(self.slot, column)?;
        let valid = reader.valid(block);
        if valid.is_none() && !self.negated {
            return self.test.retain(reader, block, selection, instructions);
        }
        let before = *selection;
        if let Some(valid) = &valid {
            selection.intersect(valid);
        }
        let values = *selection;
        if values.count() > 0 {
            self.test.retain(reader, block, selection, instructions)?;
        }
        if self.negated {
            *selection = values.without(selection);
        }
        if let (Some(valid), true) = (valid, self.admits_null) {
            *selection = selection.or(&before.and_not(&valid));
        }
        Ok(())
    }

    /// Of payload and computed values, and of rows that have multiplied or waited.
    fn apply_to_slot(&self, view: &mut View<'_>, block: usize, selection: &mut Selection) -> Result<(), PipelineError> {
        let mut rows = [0; room_for(MINI_BLOCK_VALUES)];
        let numbers = view.numbers(self.slot, block, selection.rows(&mut rows))?;
        match (&self.test, &numbers.lane) {
            (Test::Tested { compiled: Some((_, membership)), .. }, Lane::Narrow(values)) => {
                self.retain_at(selection, &numbers, |at| membership.contains(values[at]));
            }
            (Test::Numbers { domain, .. }, Lane::Wide(values)) => {
                self.retain_at(selection, &numbers, |at| domain.contains_int(values[at]));
            }
            (Test::Keys { keys: KeyIndex::Dense(keys), .. }, Lane::Narrow(values)) => {
                self.retain_at(selection, &numbers, |at| keys.contains(values[at]));
            }
            (Test::Keys { keys, .. }, Lane::Narrow(values)) => {
                let found = keys.rows(values);
                self.retain_at(selection, &numbers, |at| found[at] != NO_RANK);
            }
            (
                Test::Numbers { membership, .. }
                | Test::Texts { compiled: Some((_, membership)), .. }
                | Test::TextKeys { compiled: Some((_, membership)), .. },
                Lane::Narrow(values),
            ) => match membership {
                Membership::Range(low, high) => {
                    self.retain_at(selection, &numbers, |at| *low <= values[at] && values[at] <= *high);
                }
                other => self.retain_at(selection, &numbers, |at| other.contains(values[at])),
            },
            // Computed values are numbers, and keys have 64 bits.
            _ => self.retain_at(selection, &numbers, |_| false),
        }
        Ok(())
    }

    /// Drops the rows that do not pass `test`, which is given their place among the selected ones.
    #[inline(always)]
    fn retain_at(&self, selection: &mut Selection, numbers: &Numbers, test: impl Fn(usize) -> bool) {
        let mut places = 0..selection.count();
        match numbers.valid {
            None => selection.retain(|_| places.next().is_some_and(|at| test(at) != self.negated)),
            Some(_) => selection.retain(|_| {
                let passes = |at| if numbers.is_valid(at) { test(at) != self.negated } else { self.admits_null };
                places.next().is_some_and(passes)
            }),
        }
    }

    /// Of keys that are found by what they are coded as.
    fn apply_to_codes(
        &self,
        view: &mut View<'_>,
        (step, table): (usize, &BuiltTable),
        block: usize,
        selection: &mut Selection,
    ) -> Result<(), PipelineError> {
        let mut rows = [0; room_for(MINI_BLOCK_VALUES)];
        let codes = view.key_codes(step, block, selection.rows(&mut rows))?;
        let Lane::Narrow(keys) = &codes.lane else {
            selection.clear();
            return Ok(());
        };
        let found = table.keys().rows(keys);
        let mut places = 0..;
        selection.retain(|_| {
            let Some(at) = places.next() else { return false };
            if codes.is_valid(at) { (found[at] != NO_RANK) != self.negated } else { self.admits_null }
        });
        Ok(())
    }
}

impl Test<'_> {
    /// Drops the rows of a scanned column's mini-block whose value, which is not NULL, does not pass.
    fn retain(
        &self,
        reader: &mut ColumnReader<'_>,
        block: usize,
        selection: &mut Selection,
        instructions: InstructionSet,
    ) -> Result<(), PipelineError> {
        match self {
            Self::Numbers { domain, .. } if reader.is_wide() => {
                let (mut rows, mut wide) = ([0; room_for(MINI_BLOCK_VALUES)], Vec::new());
                reader.gather_wide(block, selection.rows(&mut rows), &mut wide)?;
                let mut wide = wide.into_iter();
                selection.retain(|_| wide.next().is_some_and(|value| domain.contains_int(value)));
                Ok(())
            }
            Self::Numbers { membership, .. }
            | Self::Texts { compiled: Some((_, membership)), .. }
            | Self::TextKeys { compiled: Some((_, membership)), .. } => {
                members(membership, reader, block, selection, instructions)
            }
            Self::Tested { compiled: Some((_, membership)), .. } => {
                members(membership, reader, block, selection, instructions)
            }
            Self::Keys { keys: KeyIndex::Dense(keys), .. } => {
                in_set(keys.base(), keys.bits(), |key| keys.contains(key), reader, block, selection, instructions)
            }
            Self::Keys { keys, .. } => are_keys(keys, reader, block, selection, instructions),
            // Compiled, or dealt with before.
            Self::Texts { .. }
            | Self::Tested { .. }
            | Self::TextKeys { .. }
            | Self::CodedKeys { .. }
            | Self::Condition(_) => Ok(()),
        }
    }

    /// Makes a test of texts one of the codes of a row group's page.
    fn compile(&mut self, reader: &ColumnReader<'_>, row_group: usize) {
        match self {
            Self::Texts { domain, compiled } if compiled.as_ref().is_none_or(|(of, _)| *of != row_group) => {
                let membership = reader.texts().map_or(Membership::Never, |texts| texts.set_of(domain));
                *compiled = Some((row_group, membership));
            }
            Self::TextKeys { table, compiled } if compiled.as_ref().is_none_or(|(of, _)| *of != row_group) => {
                let (texts, keys) = (reader.texts(), table.coding().columns().first());
                let membership = texts.zip(keys).map_or(Membership::Never, |(texts, keys)| {
                    let digit = |code: usize| texts.entry(code).map_or(ABSENT, |text| keys.digit_of_text(text));
                    Membership::of_places(texts.entry_count(), |code| digit(code) != ABSENT)
                });
                *compiled = Some((row_group, membership));
            }
            _ => {}
        }
    }
}
