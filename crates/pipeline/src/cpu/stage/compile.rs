//! From a pipeline's steps to stages: what each row is tested for, what must come before what, and where rows multiply.
//!
//! **Owns**: guesses at how many rows a test keeps. **Does not own**: the order of stages (`order`).
//!
//! **Concurrency**: each thread compiles stages of its own.

use std::ops::Bound;

use thermocline_column_store::{ZoneMap, ZoneValue};
use thermocline_predicate::{Domain, Scalar};

use super::super::texts::Texts;
use super::super::view::RunContext;
use super::condition::CompiledCondition;
use super::{Stage, Test};
use crate::BuiltTable;
use crate::ir::{Condition, Origin, ProbeKind, Slot, Step, TextTest, ValueType};
use crate::membership::Membership;
use crate::ordinal::UNSIGNED_BIAS;
use crate::table::{KeyCoding, KeyColumn, KeyIndex};

/// The share of rows that a test keeps of which nothing is known.
const UNKNOWN: f64 = 0.3;

/// A probe that may find several rows for a key.
#[derive(Debug, Clone)]
pub(in crate::cpu) struct Expansion<'r> {
    pub(in crate::cpu) step: usize,
    pub(in crate::cpu) table: &'r BuiltTable,
    /// Whether rows that find nothing stay.
    pub(in crate::cpu) is_outer: bool,
    /// What is tested then because it takes the payload, in the order of the steps.
    pub(in crate::cpu) stages: Vec<Stage<'r>>,
}

/// The stages of a run's pipeline.
#[derive(Debug, Default)]
pub(in crate::cpu) struct Stages<'r> {
    /// Those that are tested before rows multiply.
    pub(in crate::cpu) first: Vec<Stage<'r>>,
    /// Where rows multiply, in the order of the steps.
    pub(in crate::cpu) expansions: Vec<Expansion<'r>>,
    /// The stage among the first that each step has.
    stage_of_step: Vec<Option<usize>>,
}

impl<'r> Stages<'r> {
    pub(in crate::cpu) fn of(context: RunContext<'r>) -> Self {
        let mut stages = Self::default();
        for (number, step) in context.pipeline.steps().iter().enumerate() {
            let before = stages.first.len();
            match step {
                Step::Filter { slot, domain } => {
                    let test = filter_test(context, *slot, domain);
                    stages.push(context, vec![*slot], Stage::new(context, *slot, test, domain.admits_null()));
                }
                Step::Condition { condition: Condition::Text { slot, test } } => {
                    let stage = Stage { may_fail: test.may_fail(), ..Stage::of_text(context, *slot, test) };
                    stages.push(context, vec![*slot], stage);
                }
                Step::Condition { condition } => {
                    let slots = condition.slots();
                    if let Some(slot) = slots.first() {
                        let test = Test::Condition(Box::new(CompiledCondition::new(context, condition)));
                        let mut stage = Stage::new(context, *slot, test, false);
                        stage.takes_derived = true;
                        stage.may_fail = condition.may_fail(context.pipeline.slots());
                        stages.push(context, slots, stage);
                    }
                }
                Step::Probe { table, keys, kind, .. } => {
                    stages.probe(context, number, &context.tables[*table], keys, *kind);
                }
                Step::Compute { .. } => {}
            }
            stages.stage_of_step.push((stages.first.len() > before).then_some(before));
        }
        stages
    }

    fn probe(&mut self, context: RunContext<'r>, step: usize, table: &'r BuiltTable, keys: &[Slot], kind: ProbeKind) {
        let Some(first) = keys.first() else { return };
        let multiplies = kind.gives_payload() && table.multiplies();
        let is_late = keys.iter().any(|key| self.expansion_of(context, *key).is_some());
        let is_empty = table.row_count() == 0 && !table.has_null_key();
        let keeps_all = kind == ProbeKind::Outer || kind == ProbeKind::NullAwareAnti && is_empty;
        // Rows that multiply late are looked up then, and there is no need to look twice.
        if !(keeps_all || multiplies && is_late) {
            let is_anti = matches!(kind, ProbeKind::Anti | ProbeKind::NullAwareAnti);
            let test = if kind == ProbeKind::NullAwareAnti && table.has_null_key() {
                Test::Numbers { membership: Membership::Never, domain: Domain::none() }
            } else {
                key_test(context, step, table, keys)
            };
            let mut stage = Stage::new(context, *first, test, kind == ProbeKind::Anti);
            if is_anti && !matches!(stage.test, Test::Numbers { .. }) {
                stage.negated = true;
                stage.guessed_selectivity = 1.0 - stage.guessed_selectivity;
            }
            let probe = self.first.len();
            self.push(context, keys.to_vec(), stage);
            if !is_anti && !is_late {
                self.push_ranges(context, table, keys, probe);
            }
        }
        if multiplies {
            let is_outer = kind == ProbeKind::Outer;
            self.expansions.push(Expansion { step, table, is_outer, stages: Vec::new() });
        }
    }

    /// The table's keys lie in ranges, which are tested on packed values; worth it if they are narrow. The stage `probe`
    /// looks the keys up.
    fn push_ranges(&mut self, context: RunContext<'r>, table: &BuiltTable, keys: &[Slot], probe: usize) {
        let ranges: Vec<Option<(i64, i64)>> = match table.coding() {
            KeyCoding::Number => vec![table.key_range()],
            coding => {
                let range = |column: &KeyColumn| match column {
                    KeyColumn::Numbers { least, greatest } => Some((*least, *greatest)),
                    KeyColumn::Texts(_) => None,
                };
                coding.columns().iter().map(range).collect()
            }
        };
        for (key, range) in keys.iter().zip(ranges) {
            let Some((low, high)) = range else { continue };
            let bounds = Bound::Included(Scalar::Int(low.into()));
            let domain = Domain::interval(bounds, Bound::Included(Scalar::Int(high.into())));
            let membership = if low <= high { Membership::Range(low, high) } else { Membership::Never };
            let mut stage = Stage::new(context, *key, Test::Numbers { membership, domain }, false);
            stage.implied_by = Some(probe);
            self.push(context, vec![*key], stage);
        }
    }

    /// Adds a stage that takes these slots' values where it belongs.
    fn push(&mut self, context: RunContext<'r>, slots: Vec<Slot>, mut stage: Stage<'r>) {
        stage.may_fail |= slots.iter().any(|slot| may_fail(context, *slot));
        match slots.iter().filter_map(|slot| self.expansion_of(context, *slot)).max() {
            Some(expansion) => {
                stage.slots = slots;
                self.expansions[expansion].stages.push(stage);
            }
            None => {
                stage.needs = slots.iter().flat_map(|slot| self.needs(context, *slot)).collect();
                stage.slots = slots;
                self.first.push(stage);
            }
        }
    }

    /// The last expansion that a slot's value depends on.
    fn expansion_of(&self, context: RunContext<'r>, slot: Slot) -> Option<usize> {
        let own = match context.pipeline.slot(slot).origin {
            Origin::Payload { step, .. } => self.expansions.iter().position(|expansion| expansion.step == step),
            _ => None,
        };
        let of_sources = sources(context, slot).into_iter().filter_map(|slot| self.expansion_of(context, slot)).max();
        own.max(of_sources)
    }

    /// The stages of the probes that a slot's value comes from.
    fn needs(&self, context: RunContext<'r>, slot: Slot) -> Vec<usize> {
        if let Origin::Payload { step, .. } = context.pipeline.slot(slot).origin
            && let Some(stage) = self.stage_of_step[step]
        {
            return vec![stage];
        }
        sources(context, slot).into_iter().flat_map(|slot| self.needs(context, slot)).collect()
    }
}

/// The scanned columns that the values in some slots come from: their slots, and which columns of the source they are.
pub(in crate::cpu) fn scanned_sources(
    context: RunContext<'_>,
    slots: impl IntoIterator<Item = Slot>,
) -> Vec<(Slot, usize)> {
    let mut columns: Vec<(Slot, usize)> = Vec::new();
    let mut left: Vec<Slot> = slots.into_iter().collect();
    while let Some(slot) = left.pop() {
        match context.pipeline.slot(slot).origin {
            Origin::Column(column) if columns.iter().all(|(of, _)| *of != slot) => columns.push((slot, column)),
            Origin::Column(_) => {}
            _ => left.extend(sources(context, slot)),
        }
    }
    columns
}

/// Whether computing a slot's value may be an error.
fn may_fail(context: RunContext<'_>, slot: Slot) -> bool {
    let pipeline = context.pipeline;
    let is_own = match pipeline.slot(slot).origin {
        Origin::Computed { step } => match &pipeline.steps()[step] {
            Step::Compute { expression, .. } => expression.may_fail(pipeline.slots()),
            _ => false,
        },
        Origin::Column(_) | Origin::Payload { .. } => false,
    };
    is_own || sources(context, slot).into_iter().any(|slot| may_fail(context, slot))
}

/// The slots that a slot's value is made of: keys that payload is found by, operands.
fn sources(context: RunContext<'_>, slot: Slot) -> Vec<Slot> {
    match context.pipeline.slot(slot).origin {
        Origin::Column(_) => Vec::new(),
        Origin::Payload { step, .. } | Origin::Computed { step } => match &context.pipeline.steps()[step] {
            Step::Compute { expression, .. } => expression.slots(),
            Step::Probe { keys, .. } => keys.clone(),
            _ => Vec::new(),
        },
    }
}

impl<'r> Stage<'r> {
    /// A test of a slot's value, which neither needs nor is implied by another.
    pub(super) fn new(context: RunContext<'r>, slot: Slot, test: Test<'r>, admits_null: bool) -> Self {
        let guessed_selectivity = guess(context, slot, &test);
        let takes_derived = !matches!(context.pipeline.slot(slot).origin, Origin::Column(_));
        Self {
            slot,
            slots: vec![slot],
            test,
            admits_null,
            negated: false,
            needs: Vec::new(),
            implied_by: None,
            guessed_selectivity,
            takes_derived,
            may_fail: false,
        }
    }

    /// A test of a slot's texts.
    pub(super) fn of_text(context: RunContext<'r>, slot: Slot, test: &'r TextTest) -> Self {
        let compiled = match context.texts.sets.get(slot, test) {
            // Of payload codes are the same for the whole run.
            Some(set) => Test::Numbers { membership: Membership::clone(set), domain: Domain::not_null() },
            None => Test::Tested { test, compiled: None },
        };
        Self::new(context, slot, compiled, test.of_null() == Some(true))
    }
}

/// The ordinals of the numbers of a type that are in a domain.
pub(in crate::cpu) fn number_set(value_type: ValueType, domain: &Domain) -> Membership {
    match value_type {
        ValueType::Boolean => Membership::of_booleans(domain),
        ValueType::UInt64 => Membership::of_numbers(domain, UNSIGNED_BIAS),
        _ => Membership::of_numbers(domain, 0),
    }
}

/// How a slot's values are tested for being in a domain.
pub(super) fn filter_test<'r>(context: RunContext<'r>, slot: Slot, domain: &Domain) -> Test<'r> {
    let info = context.pipeline.slot(slot);
    let membership = match (info.value_type, info.origin) {
        (ValueType::Text, Origin::Payload { step, payload }) => {
            Texts::of_payload(context, step, payload).set_of(domain)
        }
        (ValueType::Text, _) => return Test::Texts { domain: domain.clone(), compiled: None },
        (value_type, _) => number_set(value_type, domain),
    };
    Test::Numbers { membership, domain: domain.clone() }
}

/// How keys are looked for in a table.
fn key_test<'r>(context: RunContext<'r>, step: usize, table: &'r BuiltTable, keys: &[Slot]) -> Test<'r> {
    match (table.coding(), keys) {
        (KeyCoding::Number, _) => Test::Keys { keys: table.keys(), range: table.key_range() },
        (_, [key])
            if context.pipeline.slot(*key).value_type == ValueType::Text
                && matches!(context.pipeline.slot(*key).origin, Origin::Column(_)) =>
        {
            Test::TextKeys { table, compiled: None }
        }
        _ => Test::CodedKeys { step, table },
    }
}

/// The share of the values that a test keeps if they are spread evenly over what zone maps say.
fn guess(context: RunContext<'_>, slot: Slot, test: &Test<'_>) -> f64 {
    let Origin::Column(column) = context.pipeline.slot(slot).origin else { return UNKNOWN };
    let value_type = context.pipeline.slot(slot).value_type;
    let Some((least, greatest)) = whole_range(context, column, value_type) else { return UNKNOWN };
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
        _ => return UNKNOWN,
    };
    (kept / width(least, greatest)).clamp(0.0, 1.0)
}

/// The least and greatest ordinal of a scanned column by its zone maps; `None` if there are none, or not of 64 bits,
/// and for floats, of which zone maps leave out NaNs.
pub(in crate::cpu) fn whole_range(context: RunContext<'_>, column: usize, value_type: ValueType) -> Option<(i64, i64)> {
    let bias = if value_type == ValueType::UInt64 { UNSIGNED_BIAS } else { 0 };
    let mut range: Option<(i64, i64)> = None;
    for row_group in 0..context.source.row_group_count() {
        let facts = context.source.facts(row_group, column)?;
        if facts.null_count == context.source.row_count(row_group) {
            continue;
        }
        let (least, greatest) = zone_range(facts.zone_map)?;
        let (least, greatest) = (i64::try_from(least - bias).ok()?, i64::try_from(greatest - bias).ok()?);
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
