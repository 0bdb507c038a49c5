//! Texts by code, wherever codes come from, their translation to a key's digits, and what tests find out of them.
//!
//! **Concurrency**: plain functions and views.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::error::ArrowError;

use super::page_texts::{PageTexts, array_of};
use super::view::RunContext;
use crate::PipelineError;
use crate::ir::{Origin, Pipeline, Slot, Step, TextTest, ValueType};
use crate::membership::Membership;
use crate::table::{Distinct, KeyColumn};

/// What codes stand for: sorted texts.
#[derive(Debug)]
pub(super) enum Texts<'a> {
    /// Of a page, `None` if all its values are NULL.
    Page(Option<&'a PageTexts<'a>>),
    /// Of a table's payload.
    Payload(&'a [Arc<str>]),
}

impl<'a> Texts<'a> {
    /// Of the payload of a probe.
    pub(super) fn of_payload(context: RunContext<'a>, step: usize, payload: usize) -> Self {
        let distinct = context.payload_of(step, payload).and_then(|(table, payload)| table.column(payload).distinct());
        match distinct {
            Some(Distinct::Texts(texts)) => Self::Payload(texts),
            _ => Self::Payload(&[]),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Page(texts) => texts.map_or(0, PageTexts::entry_count),
            Self::Payload(texts) => texts.len(),
        }
    }

    /// The text of a code; empty for one that there is not.
    pub(super) fn get(&self, code: usize) -> &[u8] {
        match self {
            Self::Page(texts) => texts.and_then(|texts| texts.entry(code)).unwrap_or_default(),
            Self::Payload(texts) => texts.get(code).map(|text| text.as_bytes()).unwrap_or_default(),
        }
    }

    /// The code of a text, or else that of the first text behind it.
    pub(super) fn code_of(&self, text: &[u8]) -> Result<usize, usize> {
        match self {
            Self::Page(texts) => texts.map_or(Err(0), |texts| texts.code_of(text)),
            Self::Payload(texts) => texts.binary_search_by(|entry| entry.as_bytes().cmp(text)),
        }
    }

    /// All of them by their codes.
    ///
    /// # Errors
    /// What is no UTF-8, and texts of 2 GiB together.
    pub(super) fn array(&self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Page(Some(texts)) => texts.array(),
            Self::Page(None) => array_of(std::iter::empty()),
            Self::Payload(texts) => array_of(texts.iter().map(|text| text.as_bytes())),
        }
    }
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
        let set = Arc::new(Membership::of_places(passed.len(), |code| passed.value(code)));
        self.0.push((slot, test.clone(), Arc::clone(&set)));
        Ok(set)
    }
}

/// What is known of texts for a whole run.
#[derive(Debug, Default)]
pub(super) struct RunTexts {
    /// Of texts that are payload and keys.
    pub(super) translations: Translations,
    /// Of texts that are payload.
    pub(super) sets: TextSets,
    /// By slot, whether tests are all that looks at its texts.
    only_tested: Vec<bool>,
}

impl RunTexts {
    /// # Errors
    /// What tests meet.
    pub(super) fn new(pipeline: &Pipeline, context: RunContext<'_>) -> Result<Self, PipelineError> {
        let (mentions, tests) = (pipeline.mentions(), pipeline.text_tests());
        let mut only_tested = vec![false; pipeline.slots().len()];
        let mut sets = TextSets::default();
        for (slot, test) in &tests {
            let of_slot = tests.iter().filter(|(of, _)| of == slot).count();
            only_tested[slot.index()] = mentions.iter().filter(|of| *of == slot).count() == of_slot;
            if let Origin::Payload { step, payload } = pipeline.slot(*slot).origin
                && sets.get(*slot, test).is_none()
            {
                let texts = Texts::of_payload(context, step, payload).array();
                let texts =
                    texts.map_err(|error| PipelineError::TextTest { test: test.to_string(), source: error.into() })?;
                sets.add(*slot, test, &texts)?;
            }
        }
        Ok(Self { translations: payload_translations(pipeline, context), sets, only_tested })
    }

    /// Whether tests are all that looks at the texts of a slot.
    pub(super) fn are_only_tested(&self, slot: Slot) -> bool {
        self.only_tested.get(slot.index()).copied().unwrap_or(false)
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
