//! Texts and binaries: the ways they can be written, and writing them.

use arrow::buffer::NullBuffer;
use thermocline_placement::column_encoding::{Candidate, Encoding, IntegerEncoding};

use super::VALUES_SECTION;
use super::encode::Draft;
use super::fixed_width::{filled, integer_candidates};
use crate::PageError;
use crate::integers::{self, IntegerStatistics};
use crate::texts::{self, DistinctTexts, dictionary};

/// Texts, and what was found out about them.
pub(super) struct Plan<'a, 't> {
    texts: &'a [&'t [u8]],
    nulls: Option<&'a NullBuffer>,
    /// Bytes of the texts that are not NULL.
    text_bytes: usize,
    starts: IntegerStatistics,
    dictionary: Option<CodedTexts>,
    is_constant: bool,
}

/// A dictionary that has been made.
struct CodedTexts {
    sections: [Vec<u8>; 2],
    codes: Vec<u64>,
    statistics: IntegerStatistics,
}

impl<'a, 't> Plan<'a, 't> {
    /// `forced` is the encoding if it is not to be chosen. There is a text that is not NULL.
    pub(super) fn of(
        texts: &'a [&'t [u8]],
        nulls: Option<&'a NullBuffer>,
        forced: Option<Encoding>,
    ) -> Result<Self, PageError> {
        let filled = filled(texts, nulls, |text| text);
        let mut text_bytes = 0;
        let starts: Vec<u64> = written(texts, nulls)
            .map(|text| {
                let start = text_bytes as u64;
                text_bytes += text.len();
                start
            })
            .collect();
        let starts = IntegerStatistics::of(&starts, false);
        let is_constant = filled.iter().all(|text| *text == filled[0]);
        let dictionary = match forced {
            Some(Encoding::Dictionary(_)) => DistinctTexts::of(&filled, filled.len()),
            // With more entries than this a dictionary saves less than it costs, whatever the texts' lengths.
            None if !is_constant => DistinctTexts::of(&filled, filled.len() / 2 + 1),
            _ => None,
        };
        let dictionary = dictionary.map(|distinct| {
            let mut sections = [Vec::new(), Vec::new()];
            let [starts, bytes] = &mut sections;
            let codes = dictionary::write(&distinct, starts, bytes);
            let statistics = IntegerStatistics::of(&codes, false);
            CodedTexts { sections, codes, statistics }
        });
        Ok(Self { texts, nulls, text_bytes, starts, dictionary, is_constant })
    }

    pub(super) fn candidates(&self) -> Vec<Candidate> {
        // An array of texts has an offset for each.
        let decoded_bytes = (self.text_bytes + self.texts.len() * 4) as u64;
        if self.is_constant {
            let size_bytes = (self.text_bytes / self.texts.len()) as u64;
            return vec![Candidate { encoding: Encoding::Constant, size_bytes, decoded_bytes, run_count: 0 }];
        }
        let starts_bytes = self.starts.size_bytes(IntegerEncoding::Delta);
        let size_bytes = (starts_bytes + self.text_bytes) as u64;
        let mut all = vec![Candidate { encoding: Encoding::Plain, size_bytes, decoded_bytes, run_count: 0 }];
        if let Some(dictionary) = &self.dictionary {
            let entries_bytes = dictionary.sections.iter().map(Vec::len).sum();
            all.extend(integer_candidates(&dictionary.statistics, decoded_bytes, entries_bytes, Encoding::Dictionary));
        }
        all
    }

    pub(super) fn write(mut self, encoding: Encoding, draft: &mut Draft) -> Result<(), &'static str> {
        match encoding {
            Encoding::Constant if self.is_constant => {
                let first = filled(self.texts, self.nulls, |text| text)[0];
                draft.sections[VALUES_SECTION] = first.to_vec();
            }
            Encoding::Constant => return Err("they are not all the same"),
            Encoding::Plain => {
                let mut bytes = Vec::with_capacity(self.text_bytes);
                texts::write(written(self.texts, self.nulls), draft.integer_sections(), &mut bytes);
                draft.sections[VALUES_SECTION] = bytes;
            }
            Encoding::Dictionary(encoding) => {
                let Some(CodedTexts { sections, codes, .. }) = self.dictionary.take() else {
                    return Err("they hardly repeat");
                };
                integers::write(encoding, &codes, false, draft.integer_sections());
                let [starts, bytes] = sections;
                draft.sections[VALUES_SECTION] = starts;
                draft.sections[VALUES_SECTION + 1] = bytes;
            }
            _ => return Err("it is for other types"),
        }
        Ok(())
    }
}

/// The texts, empty ones for NULLs.
fn written<'t>(texts: &[&'t [u8]], nulls: Option<&NullBuffer>) -> impl ExactSizeIterator<Item = &'t [u8]> {
    texts.iter().enumerate().map(
        move |(index, text)| {
            if nulls.is_none_or(|nulls| nulls.is_valid(index)) { *text } else { &[] }
        },
    )
}
