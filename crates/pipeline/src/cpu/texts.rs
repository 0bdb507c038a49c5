//! Texts by code, wherever codes come from, and their translation to a key's digits.
//!
//! **Concurrency**: plain functions and views.

use std::collections::HashMap;
use std::sync::Arc;

use super::page_texts::PageTexts;
use super::view::RunContext;
use crate::ir::{Origin, Pipeline, Step, ValueType};
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
}

/// The digits of a key's column by the codes of its texts: by the probe's step and the number of the column.
pub(super) type Translations = HashMap<(usize, usize), Vec<i64>>;

/// The digits of a key's column by the codes of texts.
pub(super) fn translation(texts: &Texts<'_>, column: &KeyColumn) -> Vec<i64> {
    (0..texts.count()).map(|code| column.digit_of_text(texts.get(code))).collect()
}

/// Those of keys that are payload of other tables, which hold for the whole run.
pub(super) fn payload_translations(pipeline: &Pipeline, context: RunContext<'_>) -> Translations {
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
