//! The texts of a page, sorted, so that their codes are ordered as they are: its dictionary, or one that is made. Of
//! texts that are tested alone, they may be listed as they come.
//!
//! **Concurrency**: plain values and views.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::error::ArrowError;
use thermocline_column_store::Dictionary;

/// The texts of a page, sorted but for listed ones.
#[derive(Debug)]
pub(super) enum PageTexts<'p> {
    Dictionary(Dictionary<'p>),
    /// Of a page without a dictionary.
    Made(Vec<Vec<u8>>),
    /// In any order, with NULLs among them: for tests alone.
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

    /// The text of a code. Of listed ones none is asked for.
    pub(super) fn entry(&self, code: usize) -> Option<&[u8]> {
        match self {
            Self::Dictionary(dictionary) => dictionary.entry(code),
            Self::Made(texts) => texts.get(code).map(Vec::as_slice),
            Self::Listed(_) => None,
        }
    }

    /// The code of a text, or else that of the first text behind it. Listed ones have no such order.
    pub(super) fn code_of(&self, text: &[u8]) -> Result<usize, usize> {
        match self {
            Self::Dictionary(dictionary) => dictionary.code_of(text),
            Self::Made(texts) => texts.binary_search_by(|entry| entry.as_slice().cmp(text)),
            Self::Listed(texts) => Err(texts.len()),
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
