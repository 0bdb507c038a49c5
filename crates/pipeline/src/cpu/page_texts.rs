//! The texts of a page, sorted, so that their codes are ordered as they are: its dictionary, or one that is made. Where
//! nobody asks for their order, they may be listed as they come.
//!
//! **Concurrency**: plain values and views.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thermocline_column_store::Dictionary;
use thermocline_predicate::Domain;

use crate::membership::Membership;

/// The texts of a page, sorted but for listed ones.
#[derive(Debug)]
pub(super) enum PageTexts<'p> {
    Dictionary(Dictionary<'p>),
    /// Of a page without a dictionary.
    Made(Vec<Vec<u8>>),
    /// In any order, some more than once, with NULLs among them.
    Listed(ArrayRef),
}

impl PageTexts<'_> {
    pub(super) fn entry_count(&self) -> usize {
        match self {
            Self::Dictionary(dictionary) => dictionary.entry_count(),
            Self::Made(texts) => texts.len(),
            Self::Listed(texts) => texts.len(),
        }
    }

    /// The text of a code; of a NULL any.
    pub(super) fn entry(&self, code: usize) -> Option<&[u8]> {
        match self {
            Self::Dictionary(dictionary) => dictionary.entry(code),
            Self::Made(texts) => texts.get(code).map(Vec::as_slice),
            Self::Listed(texts) if code >= texts.len() => None,
            Self::Listed(texts) => Some(match texts.data_type() {
                DataType::Utf8 => texts.as_string::<i32>().value(code).as_bytes(),
                DataType::LargeUtf8 => texts.as_string::<i64>().value(code).as_bytes(),
                DataType::Utf8View => texts.as_string_view().value(code).as_bytes(),
                // Only these are listed.
                _ => return None,
            }),
        }
    }

    /// The codes of the texts that are in a domain.
    pub(super) fn set_of(&self, domain: &Domain) -> Membership {
        match self {
            Self::Dictionary(dictionary) => {
                Membership::of_codes(domain, dictionary.entry_count(), |text| dictionary.code_of(text))
            }
            Self::Made(texts) => Membership::of_codes(domain, texts.len(), |text| {
                texts.binary_search_by(|entry| entry.as_slice().cmp(text))
            }),
            Self::Listed(texts) => {
                let text = |code| self.entry(code).and_then(|text| std::str::from_utf8(text).ok());
                Membership::of_places(texts.len(), |code| text(code).is_some_and(|text| domain.contains_str(text)))
            }
        }
    }

    /// All of them by their codes.
    ///
    /// # Errors
    /// What is no UTF-8, and texts of 2 GiB together.
    pub(super) fn array(&self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Listed(texts) => Ok(Arc::clone(texts)),
            _ => array_of((0..self.entry_count()).map(|code| self.entry(code).unwrap_or_default())),
        }
    }
}

/// Texts, which are checked to be some, one behind the other.
pub(super) fn array_of<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Result<ArrayRef, ArrowError> {
    let mut bytes = Vec::new();
    let mut starts = vec![0i32];
    for text in texts {
        bytes.extend_from_slice(text);
        let end = i32::try_from(bytes.len()).map_err(|_| ArrowError::OffsetOverflowError(bytes.len()))?;
        starts.push(end);
    }
    Ok(Arc::new(StringArray::try_new(OffsetBuffer::new(starts.into()), Buffer::from_vec(bytes), None)?))
}

/// Texts on the way to codes.
#[derive(Default)]
pub(super) struct TextCoding {
    /// The number of each text, in the order of their first occurrence.
    numbers: HashMap<Vec<u8>, u32, RandomState>,
    codes: Vec<u32>,
}

impl TextCoding {
    /// The number of a text for [`TextCoding::push_number`].
    pub(super) fn number(&mut self, text: &[u8]) -> u32 {
        let next = self.numbers.len() as u32;
        match self.numbers.get(text) {
            Some(number) => *number,
            None => *self.numbers.entry(text.to_vec()).or_insert(next),
        }
    }

    pub(super) fn push_number(&mut self, number: u32) {
        self.codes.push(number);
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        let number = self.number(text);
        self.push_number(number);
    }

    /// The code of each text, and the texts.
    pub(super) fn finish<'p>(mut self) -> (Vec<u32>, PageTexts<'p>) {
        let mut texts: Vec<(Vec<u8>, u32)> = self.numbers.into_iter().collect();
        texts.sort_unstable();
        let mut sorted = vec![0; texts.len()];
        for (place, (_, number)) in texts.iter().enumerate() {
            sorted[*number as usize] = place as u32;
        }
        for code in &mut self.codes {
            *code = sorted[*code as usize];
        }
        (self.codes, PageTexts::Made(texts.into_iter().map(|(text, _)| text).collect()))
    }
}
