//! What a pipeline does, apart from how and where: the intermediate representation.
//!
//! **Owns**: slots and their types, steps, sinks, arithmetic; building a pipeline, which checks it; showing one.
//!
//! **Does not own**: pages, tables, the order in which filters and probes are really evaluated (a backend's choice:
//! those that follow one another commute).
//!
//! **Invariants**
//! - A [`Pipeline`] that exists is valid: each slot is filled before it is used, types are ones that every backend
//!   computes with, what cannot be expressed was refused by [`PipelineBuilder`] with the reason.
//! - A row meets each step in order; a probe for payload yields it once for each row of its table that it finds.
//!
//! **Concurrency**: plain values.
//!
//! **NULLs.** A filter keeps a NULL if its domain admits NULL, a condition in three-valued logic if it is true; a key
//! with a NULL in it finds nothing; arithmetic with NULL gives NULL; aggregates pass over NULLs and are NULL (counts 0)
//! without values; NULLs of a grouping column make a group.

mod builder;
mod condition;
mod date_part;
mod display;
mod expression;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod text_map;
mod text_test;
mod value_type;

pub use builder::PipelineBuilder;
pub(crate) use condition::text_slot;
pub use condition::{Comparison, Condition};
pub use date_part::DatePart;
pub use expression::{Expression, Operator};
pub use text_map::TextMap;
pub use text_test::TextTest;
pub use value_type::ValueType;

use thermocline_predicate::Domain;

use crate::PipelineError;

/// A value of each row: of a scanned column, of a probed table's payload, or computed. Slots are numbered as they are
/// made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(u32);

/// One slot as a key of one column.
impl AsRef<[Slot]> for Slot {
    fn as_ref(&self) -> &[Slot] {
        std::slice::from_ref(self)
    }
}

impl Slot {
    /// Its number.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Slot number `index`, which is below 2^32.
    pub(crate) fn at(index: usize) -> Self {
        Self(index as u32)
    }
}

/// Where a slot's values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A column of the page source.
    Column(usize),
    /// The payload of a probe.
    Payload {
        /// The probe's step.
        step: usize,
        /// Which column of its table's payload.
        payload: usize,
    },
    /// The expression of a step.
    Computed {
        /// The step.
        step: usize,
    },
}

/// What is known of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its name, for people and for the columns of results.
    pub name: String,
    /// The type of its values.
    pub value_type: ValueType,
    /// Whether there may be NULLs.
    pub nullable: bool,
    /// Where they come from.
    pub origin: Origin,
    /// What is made of the column's texts, if the values are not these themselves.
    pub text_map: Option<TextMap>,
}

/// A column of a built table or of a result, as far as it is known before it is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnShape {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub value_type: ValueType,
    /// Whether there may be NULLs.
    pub nullable: bool,
}

/// What a table will be that a pipeline builds, for those that probe it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableShape {
    /// Its name, for people.
    pub name: String,
    /// The types of its key's columns, most often of one.
    pub key_types: Vec<ValueType>,
    /// What its rows carry.
    pub payload: Vec<ColumnShape>,
}

/// Which rows a probe keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// Those whose key is in the table, with the payload of the table's row: once for each row that has the key.
    Inner,
    /// Those whose key is in the table, once, without payload.
    Semi,
    /// Those whose key is not in the table, also for a NULL in it: `NOT EXISTS`.
    Anti,
    /// Those whose key is certainly not in the table: `NOT IN`. All if the table is empty; else none if a key of the
    /// table had a NULL, and none that has a NULL itself. Only for keys of one column.
    NullAwareAnti,
    /// All, as [`ProbeKind::Inner`] those whose key is in the table, the others once, with NULLs for payload.
    Outer,
}

impl ProbeKind {
    /// Whether it gives payload.
    pub fn gives_payload(self) -> bool {
        matches!(self, Self::Inner | Self::Outer)
    }

    /// As pipelines are shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inner => "probe",
            Self::Semi => "semi-probe",
            Self::Anti => "anti-probe",
            Self::NullAwareAnti => "null-aware anti-probe",
            Self::Outer => "outer probe",
        }
    }
}

/// One thing that happens to each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Keeps the rows whose value is in a set.
    Filter {
        /// The value.
        slot: Slot,
        /// The set.
        domain: Domain,
    },
    /// Keeps the rows of which a condition is true.
    Condition {
        /// The condition.
        condition: Condition,
    },
    /// Looks a key up in a built table.
    Probe {
        /// Which of the pipeline's tables ([`Pipeline::tables`]).
        table: usize,
        /// The columns of the key.
        keys: Vec<Slot>,
        /// Which rows are kept.
        kind: ProbeKind,
        /// A slot for each payload column that is taken along.
        payload: Vec<Slot>,
    },
    /// Computes a value.
    Compute {
        /// Where it goes.
        slot: Slot,
        /// What is computed.
        expression: Expression,
    },
}

/// An aggregate over the rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aggregate {
    /// `COUNT(*)`, 64 bits.
    CountRows,
    /// The number of values that are not NULL, 64 bits.
    Count(Slot),
    /// `SUM`: of integers 64 bits, with a sign if they have one, which it wraps around in as DataFusion's does; of a
    /// decimal one of ten digits more, modulo 2^128 likewise; of floats 64 bits, in the order in which threads come to
    /// rows.
    Sum(Slot),
    /// The sum as a decimal of 38 digits: of integers it cannot overflow. With a count it makes an average.
    WideSum(Slot),
    /// The least value that is not NULL; of floats by total order, in which NaNs are the ends.
    Minimum(Slot),
    /// The greatest value that is not NULL.
    Maximum(Slot),
}

impl Aggregate {
    /// The slot whose values it takes.
    pub fn slot(self) -> Option<Slot> {
        match self {
            Self::CountRows => None,
            Self::Count(slot) | Self::Sum(slot) | Self::WideSum(slot) | Self::Minimum(slot) | Self::Maximum(slot) => {
                Some(slot)
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::CountRows | Self::Count(_) => "count",
            Self::Sum(_) => "sum",
            Self::WideSum(_) => "wide_sum",
            Self::Minimum(_) => "min",
            Self::Maximum(_) => "max",
        }
    }
}

/// Where the rows end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// In groups: the grouping values, then the aggregates. Without grouping values there is exactly one row.
    Aggregate {
        /// What groups are made by.
        groups: Vec<Slot>,
        /// What is computed of each.
        aggregates: Vec<Aggregate>,
    },
    /// In a table that other pipelines probe. Rows with a NULL in their key are left out, and remembered to have been
    /// there: nothing finds them.
    Build {
        /// The table's name, for people.
        name: String,
        /// What its rows are found by.
        keys: Vec<Slot>,
        /// What its rows carry.
        payload: Vec<Slot>,
    },
    /// As they are, in any order.
    Materialise {
        /// The values that are kept of each.
        columns: Vec<Slot>,
    },
}

/// A scan with all that happens to its rows up to the next pipeline breaker. Made by [`PipelineBuilder`]; shown in
/// lines of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    slots: Vec<SlotInfo>,
    tables: Vec<TableShape>,
    steps: Vec<Step>,
    sink: Sink,
    output: Vec<ColumnShape>,
    lists_texts: bool,
}

impl Pipeline {
    /// The slots by their numbers. Those of scanned columns may stand among the others.
    pub fn slots(&self) -> &[SlotInfo] {
        &self.slots
    }

    /// What is known of a slot of this pipeline.
    pub fn slot(&self, slot: Slot) -> &SlotInfo {
        &self.slots[slot.index()]
    }

    /// The tables that must be there before it runs, one for each probe, in the order of the probes.
    pub fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    /// What happens to each row, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Where the rows end.
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// The columns of the result: groups and aggregates, the kept values, or a table's key and payload.
    pub fn output(&self) -> &[ColumnShape] {
        &self.output
    }

    /// The same with values in place of parameters ([`Expression::Parameter`]), by their numbers: literals or
    /// [`Expression::Null`].
    ///
    /// # Errors
    /// [`PipelineError::Parameter`] for a parameter without a value, or with one of another type.
    pub fn bound(&self, values: &[Expression]) -> Result<Self, PipelineError> {
        let step = |step: &Step| {
            Ok(match step {
                Step::Condition { condition } => Step::Condition { condition: condition.bound(values)? },
                Step::Compute { slot, expression } => {
                    Step::Compute { slot: *slot, expression: expression.bound(values)? }
                }
                Step::Filter { .. } | Step::Probe { .. } => step.clone(),
            })
        };
        let steps = self.steps.iter().map(step).collect::<Result<_, PipelineError>>()?;
        Ok(Self { steps, ..self.clone() })
    }

    /// The same, but texts that its table carries are listed as they come, and equal ones may have several codes: that takes
    /// less time. For tables that are probed where rows are wanted as they are; groups by such texts would come apart.
    pub fn listing_texts(self) -> Self {
        Self { lists_texts: true, ..self }
    }

    /// Whether equal texts of its table may have several codes.
    pub(crate) fn lists_texts(&self) -> bool {
        self.lists_texts
    }

    /// Whether it computes anything of a row's values, so that arithmetic, or a test that fails, may end a run.
    pub fn computes(&self) -> bool {
        let is_arithmetic = |operand: &Expression| {
            use Expression::{Literal, Null, Parameter, Slot};
            !matches!(operand, Slot(_) | Literal { .. } | Null { .. } | Parameter { .. })
        };
        let compares_computed = |condition: &Condition| match condition {
            Condition::Compare { operands, .. } => is_arithmetic(&operands.0) || is_arithmetic(&operands.1),
            Condition::Text { test, .. } => test.may_fail(),
            _ => false,
        };
        let may_fail = |slot: &SlotInfo| slot.text_map.as_ref().is_some_and(TextMap::may_fail);
        self.steps.iter().any(|step| matches!(step, Step::Compute { .. }))
            || self.slots.iter().any(may_fail)
            || self.conditions().into_iter().any(compares_computed)
    }

    /// The texts in slots that conditions test, and by what.
    pub(crate) fn text_tests(&self) -> Vec<(Slot, &TextTest)> {
        let test = |condition| match condition {
            &Condition::Text { slot, ref test } => Some((slot, test)),
            _ => None,
        };
        self.conditions().into_iter().filter_map(test).collect()
    }

    /// The slots whose texts must have codes that are ordered as they are: what is compared, and what computed values look
    /// for in sets (whose codes they find for each mini-block anew).
    pub(crate) fn ordered_texts(&self) -> Vec<Slot> {
        let compared = self.conditions().into_iter().flat_map(|condition| match condition {
            Condition::Compare { operands, .. } => [&operands.0, &operands.1].map(|side| text_slot(side, &self.slots)),
            _ => [None, None],
        });
        let of_computed = self.steps.iter().flat_map(|step| match step {
            Step::Compute { expression, .. } => expression.conditions(),
            Step::Filter { .. } | Step::Condition { .. } | Step::Probe { .. } => Vec::new(),
        });
        let in_sets = of_computed.filter_map(|condition| match condition {
            Condition::In { slot, .. } => Some(*slot),
            _ => None,
        });
        compared.flatten().chain(in_sets).collect()
    }

    /// The slots of which the least or the greatest is looked for.
    pub(crate) fn extremes(&self) -> Vec<Slot> {
        let extreme = |aggregate: &Aggregate| match aggregate {
            Aggregate::Minimum(slot) | Aggregate::Maximum(slot) => Some(*slot),
            _ => None,
        };
        let aggregates = if let Sink::Aggregate { aggregates, .. } = &self.sink { aggregates.as_slice() } else { &[] };
        aggregates.iter().filter_map(extreme).collect()
    }

    /// All conditions, with those that are part of others.
    fn conditions<'p>(&'p self) -> Vec<&'p Condition> {
        let of_step = |step: &'p Step| -> Vec<&'p Condition> {
            match step {
                Step::Condition { condition } => condition.with_parts(),
                Step::Compute { expression, .. } => expression.conditions(),
                Step::Filter { .. } | Step::Probe { .. } => Vec::new(),
            }
        };
        self.steps.iter().flat_map(of_step).collect()
    }

    /// The first slot of a scanned column, of those whose values come from the same page.
    pub(crate) fn first_slot(&self, column: usize) -> Option<Slot> {
        self.slots.iter().position(|info| info.origin == Origin::Column(column)).map(Slot::at)
    }

    /// The slots whose values its probes look up, and those that its sink takes.
    pub(crate) fn taken(&self) -> Vec<Slot> {
        let of_step = |step: &Step| match step {
            Step::Probe { keys, .. } => keys.clone(),
            Step::Filter { .. } | Step::Condition { .. } | Step::Compute { .. } => Vec::new(),
        };
        let of_sink = match &self.sink {
            Sink::Aggregate { groups, aggregates } => {
                groups.iter().copied().chain(aggregates.iter().filter_map(|aggregate| aggregate.slot())).collect()
            }
            Sink::Build { keys, payload, .. } => [keys.as_slice(), payload.as_slice()].concat(),
            Sink::Materialise { columns } => columns.clone(),
        };
        self.steps.iter().flat_map(of_step).chain(of_sink).collect()
    }

    /// The slots whose values something before the sink looks at.
    pub(crate) fn looked_at(&self) -> Vec<Slot> {
        let of_step = |step: &Step| match step {
            Step::Filter { slot, .. } => vec![*slot],
            Step::Condition { condition } => condition.slots(),
            Step::Probe { keys, .. } => keys.clone(),
            Step::Compute { expression, .. } => expression.slots(),
        };
        self.steps.iter().flat_map(of_step).collect()
    }

    /// The table that it builds, if it builds one.
    pub fn table_shape(&self) -> Option<TableShape> {
        let Sink::Build { name, keys, .. } = &self.sink else { return None };
        let (keys, payload) = self.output.split_at(keys.len());
        let key_types = keys.iter().map(|key| key.value_type).collect();
        Some(TableShape { name: name.clone(), key_types, payload: payload.to_vec() })
    }
}

/// What is known of a slot whose values are compared or looked up, as those of texts that are made of others are not.
fn compared_slot(slots: &[SlotInfo], slot: Slot) -> Result<&SlotInfo, PipelineError> {
    let info = slot_info(slots, slot)?;
    match &info.text_map {
        Some(_) => {
            Err(PipelineError::Expression { reason: format!("{} is made of a text, and not compared", info.name) })
        }
        None => Ok(info),
    }
}

fn slot_info(slots: &[SlotInfo], slot: Slot) -> Result<&SlotInfo, PipelineError> {
    slots.get(slot.index()).ok_or(PipelineError::UnknownSlot { slot: slot.index(), slot_count: slots.len() })
}
