//! Filters and probes as tests of one value each, on the rows of a mini-block that are left.
//!
//! **Owns**: compiling a pipeline's steps, the choice between testing all values of a mini-block and single ones by how many
//! rows are left, leaving out row groups by zone maps.
//!
//! **Does not own**: the order of stages (`order`).
//!
//! **Invariants**: stages commute, apart from those that take a payload or what is computed of it, which come after its probe.
//! A stage that is *implied* by another may be left out.
//!
//! **Concurrency**: each thread has stages of its own.

use std::ops::Bound;

use thermocline_column_store::{Frame, MINI_BLOCK_VALUES, ZoneMap, ZoneValue};
use thermocline_predicate::{Domain, Scalar};

use super::column::{Block, ColumnReader};
use super::numbers::Lane;
use super::selection::Selection;
use super::view::{RunContext, View};
use crate::PipelineError;
use crate::ir::{Origin, Slot, Step, ValueType};
use crate::kernels::{InstructionSet, MASK_WORDS, Mask, Words};
use crate::membership::Membership;
use crate::table::{Distinct, KeyIndex};

/// Up to so many rows, ranges are tested value by value: a vector loop over all takes as long.
const SPARSE_RANGE_ROWS: usize = 40;
/// Up to so many rows, sets are looked into value by value: these loops are slower a value.
const SPARSE_SET_ROWS: usize = 400;
/// Ranges that are tested one after the other on whole mini-blocks.
const FEW_RANGES: usize = 4;

/// What a value is tested for.
#[derive(Debug, Clone)]
enum Test<'r> {
    /// A number, or a code of a table's payload. The domain tells of wide decimals.
    Numbers { membership: Membership, domain: Domain },
    /// A text of a scanned column: compiled to codes for each page, the row group's number beside.
    Texts { domain: Domain, compiled: Option<(usize, Membership)> },
    /// Keys of a table.
    Keys { keys: &'r KeyIndex, range: Option<(i64, i64)> },
}

/// A filter or a probe.
#[derive(Debug, Clone)]
pub(super) struct Stage<'r> {
    pub(super) slot: Slot,
    test: Test<'r>,
    admits_null: bool,
    /// Stages that must come before.
    pub(super) needs: Vec<usize>,
    /// Whether another stage drops all rows that this one drops.
    pub(super) implied: bool,
    /// The share of rows that it is guessed to keep, before anything is measured.
    pub(super) guessed_selectivity: f64,
    /// Whether it takes payload or computed values, which cost arithmetic or a look into a table.
    pub(super) takes_derived: bool,
}

/// The stages of a run's pipeline.
pub(super) fn stages<'r>(context: RunContext<'r>) -> Vec<Stage<'r>> {
    let mut stages: Vec<Stage<'r>> = Vec::new();
    let mut stage_of_step: Vec<Option<usize>> = Vec::new();
    for step in context.pipeline.steps() {
        let before = stages.len();
        match step {
            Step::Filter { slot, domain } => {
                let test = filter_test(context, *slot, domain);
                let needs = needs(context, *slot, &stage_of_step);
                let guessed_selectivity = guess(context, *slot, &test);
                let admits_null = domain.admits_null();
                let takes_derived = takes_derived(context, *slot);
                stages.push(Stage {
                    slot: *slot,
                    test,
                    admits_null,
                    needs,
                    implied: false,
                    guessed_selectivity,
                    takes_derived,
                });
            }
            Step::Probe { table, key, .. } => {
                let table = &context.tables[*table];
                let needs = needs(context, *key, &stage_of_step);
                let test = Test::Keys { keys: table.keys(), range: table.key_range() };
                let stage = |test: Test<'r>, implied| {
                    let guessed_selectivity = guess(context, *key, &test);
                    let takes_derived = takes_derived(context, *key);
                    let needs = needs.clone();
                    let slot = *key;
                    Stage { slot, test, admits_null: false, needs, implied, guessed_selectivity, takes_derived }
                };
                stages.push(stage(test, false));
                // The table's keys lie in a range, which is tested on packed values; worth it if it is narrow.
                if let Some((low, high)) = table.key_range() {
                    let bounds = Bound::Included(Scalar::Int(low.into()));
                    let domain = Domain::interval(bounds, Bound::Included(Scalar::Int(high.into())));
                    let membership = Membership::Range(low, high);
                    stages.push(stage(Test::Numbers { membership, domain }, true));
                }
            }
            Step::Compute { .. } => {}
        }
        stage_of_step.push((stages.len() > before).then_some(before));
    }
    stages
}

fn filter_test<'r>(context: RunContext<'r>, slot: Slot, domain: &Domain) -> Test<'r> {
    let info = context.pipeline.slot(slot);
    let membership = match (info.value_type, info.origin) {
        (ValueType::Text, Origin::Payload { step, payload }) => match context.payload_of(step, payload) {
            Some((table, _, payload)) => match table.column(payload).distinct() {
                Distinct::Texts(texts) => Membership::of_codes(domain, texts.len(), |text| {
                    texts.binary_search_by(|entry| entry.as_bytes().cmp(text))
                }),
                Distinct::Numbers(_) => Membership::Never,
            },
            None => Membership::Never,
        },
        (ValueType::Text, _) => return Test::Texts { domain: domain.clone(), compiled: None },
        _ => Membership::of_numbers(domain),
    };
    Test::Numbers { membership, domain: domain.clone() }
}

fn takes_derived(context: RunContext<'_>, slot: Slot) -> bool {
    !matches!(context.pipeline.slot(slot).origin, Origin::Column(_))
}

/// The stages of the probes that a slot's value comes from.
fn needs(context: RunContext<'_>, slot: Slot, stage_of_step: &[Option<usize>]) -> Vec<usize> {
    match context.pipeline.slot(slot).origin {
        Origin::Column(_) => Vec::new(),
        Origin::Payload { step, .. } => stage_of_step[step].into_iter().collect(),
        Origin::Computed { step } => match &context.pipeline.steps()[step] {
            Step::Compute { expression, .. } => {
                expression.slots().iter().flat_map(|slot| needs(context, *slot, stage_of_step)).collect()
            }
            _ => Vec::new(),
        },
    }
}

/// The share of the values that a test keeps if they are spread evenly over what zone maps say.
fn guess(context: RunContext<'_>, slot: Slot, test: &Test<'_>) -> f64 {
    const UNKNOWN: f64 = 0.3;
    let Origin::Column(column) = context.pipeline.slot(slot).origin else { return UNKNOWN };
    let Some((least, greatest)) = whole_range(context, column) else { return UNKNOWN };
    let width = |low: i64, high: i64| (high as f64 - low as f64 + 1.0).max(0.0);
    let overlap = |low: i64, high: i64| width(low.max(least), high.min(greatest));
    let kept = match test {
        Test::Numbers { membership: Membership::Range(low, high), .. } => overlap(*low, *high),
        Test::Numbers { membership: Membership::Ranges(ranges), .. } => {
            ranges.iter().map(|(low, high)| overlap(*low, *high)).sum()
        }
        Test::Numbers { membership: Membership::Set { bits, .. }, .. } => {
            bits.iter().map(|word| f64::from(word.count_ones())).sum()
        }
        Test::Numbers { membership: Membership::Never, .. } | Test::Keys { range: None, .. } => 0.0,
        Test::Keys { keys: KeyIndex::Dense(keys), .. } => {
            keys.bits().iter().map(|word| f64::from(word.count_ones())).sum()
        }
        Test::Keys { .. } | Test::Texts { .. } => return UNKNOWN,
    };
    (kept / width(least, greatest)).clamp(0.0, 1.0)
}

/// The least and greatest number of a scanned column by its zone maps; `None` if there are none, or not of 64 bits.
pub(super) fn whole_range(context: RunContext<'_>, column: usize) -> Option<(i64, i64)> {
    let mut range: Option<(i64, i64)> = None;
    for row_group in 0..context.source.row_group_count() {
        let facts = context.source.facts(row_group, column);
        if facts.null_count == context.source.row_count(row_group) {
            continue;
        }
        let (least, greatest) = zone_range(facts.zone_map)?;
        let (least, greatest) = (i64::try_from(least).ok()?, i64::try_from(greatest).ok()?);
        range = Some(range.map_or((least, greatest), |(low, high)| (low.min(least), high.max(greatest))));
    }
    range
}

fn zone_range(zone_map: &ZoneMap) -> Option<(i128, i128)> {
    match (&zone_map.least, &zone_map.greatest) {
        (Some(ZoneValue::Integer(least)), Some(ZoneValue::Integer(greatest))) => Some((*least, *greatest)),
        _ => None,
    }
}

impl<'r> Stage<'r> {
    /// Whether a row of a row group may pass, as far as zone maps tell.
    pub(super) fn may_pass(&self, context: RunContext<'_>, row_group: usize) -> bool {
        let Origin::Column(column) = context.pipeline.slot(self.slot).origin else { return true };
        let facts = context.source.facts(row_group, column);
        if self.admits_null && facts.null_count > 0 {
            return true;
        }
        if facts.null_count == context.source.row_count(row_group) {
            return false;
        }
        let domain = match &self.test {
            Test::Numbers { domain, .. } | Test::Texts { domain, .. } => domain,
            // The implied range beside it tells.
            Test::Keys { range, .. } => return range.is_some(),
        };
        domain.intervals().iter().any(|interval| {
            let zone_value = |bound: &Bound<Scalar>| match bound {
                Bound::Included(Scalar::Int(value)) => Bound::Included(ZoneValue::Integer(*value)),
                Bound::Excluded(Scalar::Int(value)) => Bound::Excluded(ZoneValue::Integer(*value)),
                Bound::Included(Scalar::Utf8(text)) => Bound::Included(ZoneValue::Bytes(text.as_bytes().to_vec())),
                Bound::Excluded(Scalar::Utf8(text)) => Bound::Excluded(ZoneValue::Bytes(text.as_bytes().to_vec())),
                _ => Bound::Unbounded,
            };
            let (low, high) = (zone_value(&interval.low), zone_value(&interval.high));
            facts.zone_map.may_contain(low.as_ref(), high.as_ref())
        })
    }

    /// The rows of `selection` that pass, of mini-block `block`.
    pub(super) fn apply(
        &mut self,
        view: &mut View<'_>,
        context: RunContext<'_>,
        block: usize,
        selection: &Selection,
        instructions: InstructionSet,
    ) -> Result<Selection, PipelineError> {
        let Origin::Column(column) = context.pipeline.slot(self.slot).origin else {
            return self.apply_to_slot(view, block, selection);
        };
        let row_group = view.row_group();
        let reader = view.reader(self.slot, column)?;
        let valid = reader.valid(block);
        let values = valid.map_or(*selection, |valid| selection.and(&valid));
        let kept = if values.count() == 0 {
            values
        } else {
            match &mut self.test {
                Test::Numbers { domain, .. } if reader.is_wide() => {
                    let (mut rows, mut wide) = ([0; MINI_BLOCK_VALUES], Vec::new());
                    reader.gather_wide(block, values.rows(&mut rows), &mut wide)?;
                    let mut wide = wide.into_iter();
                    values.retain(|_| wide.next().is_some_and(|value| domain.contains_int(value)))
                }
                Test::Numbers { membership, .. } => members(membership, reader, block, &values, instructions)?,
                Test::Texts { domain, compiled } => {
                    if compiled.as_ref().is_none_or(|(of, _)| *of != row_group) {
                        let membership = reader.texts().map_or(Membership::Never, |texts| {
                            Membership::of_codes(domain, texts.entry_count(), |text| texts.code_of(text))
                        });
                        *compiled = Some((row_group, membership));
                    }
                    match compiled {
                        Some((_, membership)) => members(membership, reader, block, &values, instructions)?,
                        None => values,
                    }
                }
                Test::Keys { keys: KeyIndex::Dense(keys), .. } => {
                    in_set(keys.base(), keys.bits(), |key| keys.contains(key), reader, block, &values, instructions)?
                }
                Test::Keys { keys, .. } => one_by_one(|key| keys.row(key).is_some(), reader, block, &values)?,
            }
        };
        Ok(match valid {
            Some(valid) if self.admits_null => kept.or(&selection.and_not(&valid)),
            _ => kept,
        })
    }

    /// Of payload and computed values.
    fn apply_to_slot(
        &self,
        view: &mut View<'_>,
        block: usize,
        selection: &Selection,
    ) -> Result<Selection, PipelineError> {
        let mut rows = [0; MINI_BLOCK_VALUES];
        let numbers = view.numbers(self.slot, block, selection.rows(&mut rows))?;
        let mut places = 0..;
        Ok(selection.retain(|_| {
            let Some(at) = places.next() else { return false };
            if !numbers.is_valid(at) {
                return self.admits_null;
            }
            match (&self.test, &numbers.lane) {
                (Test::Numbers { membership, .. }, Lane::Narrow(values)) => membership.contains(values[at]),
                (Test::Numbers { domain, .. }, Lane::Wide(values)) => domain.contains_int(values[at]),
                (Test::Keys { keys, .. }, Lane::Narrow(values)) => keys.row(values[at]).is_some(),
                // Computed values are numbers, and keys have 64 bits.
                _ => false,
            }
        }))
    }
}

/// The rows whose number is in a set.
fn members(
    membership: &Membership,
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &Selection,
    instructions: InstructionSet,
) -> Result<Selection, PipelineError> {
    if let Some((least, greatest)) = reader.bounds(block) {
        if membership.covers(least, greatest) {
            return Ok(*selection);
        }
        if !membership.may_meet(least, greatest) {
            return Ok(Selection::of([0; MASK_WORDS]));
        }
    }
    let ranges = match membership {
        Membership::Never => return Ok(Selection::of([0; MASK_WORDS])),
        Membership::Set { base, bits } => {
            let contains = |value| membership.contains(value);
            return in_set(*base, bits, contains, reader, block, selection, instructions);
        }
        Membership::Range(low, high) => &[(*low, *high)][..],
        Membership::Ranges(ranges) => ranges,
    };
    if selection.count() <= SPARSE_RANGE_ROWS || ranges.len() > FEW_RANGES {
        return one_by_one(|value| membership.contains(value), reader, block, selection);
    }
    let block = reader.block(block)?;
    let mut mask = [0; MASK_WORDS];
    for (low, high) in ranges {
        let in_range = in_range(block.base, block.words, *low, *high, instructions);
        for (word, more) in mask.iter_mut().zip(in_range) {
            *word |= more;
        }
    }
    Ok(selection.and(&mask))
}

/// Which values from `low` to `high` are; values are `base` plus the word.
fn in_range(base: i64, words: Words<'_>, low: i64, high: i64, instructions: InstructionSet) -> Mask {
    if let Words::U64(_) = words {
        // Modulo 2^64 all differences are exact.
        return instructions.in_range(words, low.wrapping_sub(base) as u64, high.wrapping_sub(low) as u64);
    }
    let low = (i128::from(low) - i128::from(base)).max(0);
    let high = (i128::from(high) - i128::from(base)).min(words.limit().into());
    if low > high {
        return [0; MASK_WORDS];
    }
    instructions.in_range(words, low as u64, (high - low) as u64)
}

/// The rows whose number is `base` plus the place of a set bit, which `contains` says of one.
fn in_set(
    base: i64,
    bits: &[u64],
    contains: impl Fn(i64) -> bool,
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &Selection,
    instructions: InstructionSet,
) -> Result<Selection, PipelineError> {
    if selection.count() <= SPARSE_SET_ROWS {
        return one_by_one(contains, reader, block, selection);
    }
    let block = reader.block(block)?;
    let shift = block.base.wrapping_sub(base) as u64;
    Ok(selection.and(&instructions.in_set(block.words, shift, bits)))
}

/// The rows whose number passes a test.
#[inline(always)]
fn one_by_one(
    contains: impl Fn(i64) -> bool,
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &Selection,
) -> Result<Selection, PipelineError> {
    if let Some(Frame { base, differences }) = reader.packed(block, selection.count()) {
        return Ok(selection.retain(|row| contains(base.wrapping_add(differences.get(row)) as i64)));
    }
    let Block { base, words } = reader.block(block)?;
    macro_rules! retain {
        ($words:expr) => {
            selection.retain(|row| contains(base.wrapping_add($words[row % MINI_BLOCK_VALUES] as i64)))
        };
    }
    Ok(match words {
        Words::Zeros => selection.retain(|_| contains(base)),
        Words::U8(words) => retain!(words),
        Words::U16(words) => retain!(words),
        Words::U32(words) => retain!(words),
        Words::U64(words) => retain!(words),
    })
}
