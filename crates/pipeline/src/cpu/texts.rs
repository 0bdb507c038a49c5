//! Texts by code, wherever codes come from, their translation to a key's digits, and what tests find out of them.
//!
//! **Concurrency**: plain functions and views.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder};
use arrow::error::ArrowError;
use thermocline_predicate::Domain;

use super::page_texts::{PageTexts, array_of};
use super::view::RunContext;
use crate::ir::{Origin, Pipeline, Sink, Slot, Step, TextTest, ValueType};
use crate::membership::Membership;
use crate::table::{Distinct, KeyColumn};
use crate::{PipelineError, TextList};

/// How much of a table's texts is copied at a time for a test: enough of them that a call costs little for each, and as
/// little as what else is not reserved.
const PIECE_BYTES: usize = 64 << 10;

/// Of a column that is not there.
static NO_TEXTS: TextList = TextList::new();

/// What codes stand for: texts, sorted where somebody asks for their order.
#[derive(Debug)]
pub(super) enum Texts<'a> {
    /// Of a page, `None` if all its values are NULL.
    Page(Option<&'a PageTexts<'a>>),
    /// Of a table's payload.
    Payload { texts: &'a TextList, are_sorted: bool },
}

impl<'a> Texts<'a> {
    /// Of the payload of a probe.
    pub(super) fn of_payload(context: RunContext<'a>, step: usize, payload: usize) -> Self {
        let distinct = context.payload_of(step, payload).and_then(|(table, payload)| table.column(payload).distinct());
        match distinct {
            Some(Distinct::Texts { texts, are_sorted }) => Self::Payload { texts, are_sorted: *are_sorted },
            _ => Self::Payload { texts: &NO_TEXTS, are_sorted: true },
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Page(texts) => texts.map_or(0, PageTexts::entry_count),
            Self::Payload { texts, .. } => texts.len(),
        }
    }

    /// The text of a code; empty for one that there is not.
    pub(super) fn get(&self, code: usize) -> &[u8] {
        match self {
            Self::Page(texts) => texts.and_then(|texts| texts.entry(code)).unwrap_or_default(),
            Self::Payload { texts, .. } => texts.get(code).map(|text| text.as_bytes()).unwrap_or_default(),
        }
    }

    /// The codes of those that are in a domain.
    pub(super) fn set_of(&self, domain: &Domain) -> Membership {
        match self {
            Self::Page(texts) => texts.map_or(Membership::Never, |texts| texts.set_of(domain)),
            Self::Payload { texts, are_sorted: true } => {
                Membership::of_codes(domain, texts.len(), |text| texts.search(text))
            }
            Self::Payload { texts, are_sorted: false } => {
                Membership::of_places(texts.len(), |code| texts.get(code).is_some_and(|text| domain.contains_str(text)))
            }
        }
    }

    /// The texts by their codes, if they lie in an array, where they are in no order.
    pub(super) fn listed(&self) -> Option<&ArrayRef> {
        match self {
            Self::Page(Some(PageTexts::Listed(texts))) => Some(texts),
            _ => None,
        }
    }

    /// Whether codes are ordered as the texts are.
    pub(super) fn are_sorted(&self) -> bool {
        match self {
            Self::Payload { are_sorted, .. } => *are_sorted,
            Self::Page(_) => self.listed().is_none(),
        }
    }

    /// All codes in the order of their texts.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let mut codes: Vec<usize> = (0..self.count()).collect();
        if !self.are_sorted() {
            codes.sort_unstable_by_key(|code| self.get(*code));
        }
        codes
    }

    /// All of them by their codes.
    ///
    /// # Errors
    /// What is no UTF-8, and texts of 2 GiB together.
    pub(super) fn array(&self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Page(Some(texts)) => texts.array(),
            Self::Page(None) => array_of(std::iter::empty()),
            Self::Payload { texts, .. } => array_of(texts.iter().map(str::as_bytes)),
        }
    }
}

/// What the codes of a scanned column's texts are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TextUse {
    /// To be compared: they are ordered as the texts are.
    #[default]
    Ordered,
    /// The least or the greatest is looked for: some are compared, by their codes if these are ordered.
    Extreme,
    /// To be looked up or kept by what they stand for.
    Taken,
    /// To be tested alone.
    Tested,
    /// To be kept by the sink, or counted, and for nothing else.
    Kept,
    /// To be grouped by, and for nothing else: of a few groups each has many rows.
    Grouped,
}

/// The codes of the texts of slots that pass tests.
#[derive(Debug, Default)]
pub(super) struct TextSets(Vec<(Slot, TextTest, Arc<Membership>)>);

impl TextSets {
    pub(super) fn get(&self, slot: Slot, test: &TextTest) -> Option<&Arc<Membership>> {
        self.0.iter().find(|(of, by, _)| *of == slot && by == test).map(|(.., set)| set)
    }

    /// Evaluates a test, for whoever asks next too.
    pub(super) fn add(
        &mut self,
        slot: Slot,
        test: &TextTest,
        texts: &ArrayRef,
    ) -> Result<Arc<Membership>, PipelineError> {
        let passed = test.evaluate(texts)?;
        Ok(self.note(slot, test, Membership::of_places(passed.len(), |code| passed.value(code))))
    }

    /// Evaluates a test for the texts of a table, some at a time: they are copied for it.
    fn add_of_table(&mut self, slot: Slot, test: &TextTest, texts: &Texts<'_>) -> Result<(), PipelineError> {
        let failed = |error: ArrowError| PipelineError::TextTest { test: test.to_string(), source: error.into() };
        let mut passed = BooleanBufferBuilder::new(texts.count());
        while passed.len() < texts.count() {
            let mut size_bytes = 0;
            let piece = (passed.len()..texts.count()).map(|code| texts.get(code)).take_while(|text| {
                let is_first = size_bytes == 0;
                size_bytes += text.len() + size_of::<i32>();
                is_first || size_bytes <= PIECE_BYTES
            });
            passed.append_buffer(test.evaluate(&array_of(piece).map_err(failed)?)?.values());
        }
        self.note(slot, test, Membership::of_places(passed.len(), |code| passed.get_bit(code)));
        Ok(())
    }

    fn note(&mut self, slot: Slot, test: &TextTest, set: Membership) -> Arc<Membership> {
        let set = Arc::new(set);
        self.0.push((slot, test.clone(), Arc::clone(&set)));
        set
    }
}

/// What is known of texts for a whole run.
#[derive(Debug, Default)]
pub(super) struct RunTexts {
    /// Of texts that are payload and keys.
    pub(super) translations: Translations,
    /// Of texts that are payload.
    pub(super) sets: TextSets,
    /// By slot, what codes of texts are for.
    uses: Vec<TextUse>,
}

impl RunTexts {
    /// # Errors
    /// What tests meet.
    pub(super) fn new(pipeline: &Pipeline, context: RunContext<'_>) -> Result<Self, PipelineError> {
        let mut sets = TextSets::default();
        for (slot, test) in &pipeline.text_tests() {
            if let Origin::Payload { step, payload } = pipeline.slot(*slot).origin
                && sets.get(*slot, test).is_none()
            {
                sets.add_of_table(*slot, test, &Texts::of_payload(context, step, payload))?;
            }
        }
        let (ordered, extremes) = (pipeline.ordered_texts(), pipeline.extremes());
        let (taken, looked_at) = (pipeline.taken(), pipeline.looked_at());
        let use_of = |slot: Slot| match slot {
            _ if ordered.contains(&slot) => TextUse::Ordered,
            _ if extremes.contains(&slot) => TextUse::Extreme,
            _ if !looked_at.contains(&slot) && pipeline.slot(slot).text_map.is_none() => match pipeline.sink() {
                Sink::Aggregate { .. } => TextUse::Grouped,
                Sink::Build { .. } | Sink::Materialise { .. } => TextUse::Kept,
            },
            _ if taken.contains(&slot) => TextUse::Taken,
            _ => TextUse::Tested,
        };
        let uses = (0..pipeline.slots().len()).map(|number| use_of(Slot::at(number))).collect();
        Ok(Self { translations: payload_translations(pipeline, context), sets, uses })
    }

    /// What the codes of a slot's texts are for.
    pub(super) fn use_of(&self, slot: Slot) -> TextUse {
        self.uses.get(slot.index()).copied().unwrap_or_default()
    }
}

/// The digits of a key's column by the codes of its texts: by the probe's step and the number of the column.
pub(super) type Translations = HashMap<(usize, usize), Vec<i64>>;

/// The digits of a key's column by the codes of texts.
pub(super) fn translation(texts: &Texts<'_>, column: &KeyColumn) -> Vec<i64> {
    (0..texts.count()).map(|code| column.digit_of_text(texts.get(code))).collect()
}

/// Those of keys that are payload of other tables, which hold for the whole run.
fn payload_translations(pipeline: &Pipeline, context: RunContext<'_>) -> Translations {
    let mut translations = Translations::new();
    for (step, of) in pipeline.steps().iter().enumerate() {
        let Step::Probe { table, keys, .. } = of else { continue };
        for (number, (key, column)) in keys.iter().zip(context.tables[*table].coding().columns()).enumerate() {
            let info = pipeline.slot(*key);
            if let (ValueType::Text, Origin::Payload { step: from, payload }) = (info.value_type, info.origin) {
                let texts = Texts::of_payload(context, from, payload);
                translations.insert((step, number), translation(&texts, column));
            }
        }
    }
    translations
}
