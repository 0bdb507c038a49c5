//! Texts and binaries: the ways they can be written, and writing them.

use thermocline_placement::column_encoding::{Candidate, Encoding, IntegerEncoding};

use super::VALUES_SECTION;
use super::encode::Draft;
use super::fixed_width::integer_candidates;
use crate::ZoneMap;
use crate::integers::{self, IntegerStatistics};
use crate::texts::symbols::{self, SymbolTable};
use crate::texts::{self, DistinctTexts, Text, TextValues, dictionary};

/// Texts, and what was found out about them.
pub(super) struct Plan<'a, 't> {
    texts: &'a TextValues<'t>,
    /// Bytes of the texts that are not NULL.
    text_bytes: usize,
    dictionary: Option<CodedTexts>,
    /// A table of symbols, and the share of the texts' bytes that it leaves.
    symbols: Option<(SymbolTable, f64)>,
    /// The least and the greatest text that is not NULL.
    bounds: (Text<'t>, Text<'t>),
}

/// A dictionary that has been made.
struct CodedTexts {
    sections: [Vec<u8>; 2],
    codes: Vec<u64>,
    statistics: IntegerStatistics,
}

impl CodedTexts {
    fn entries_bytes(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }

    fn size_bytes(&self, encoding: IntegerEncoding) -> usize {
        self.entries_bytes() + self.statistics.size_bytes(encoding)
    }
}

impl<'a, 't> Plan<'a, 't> {
    /// `forced` is the encoding if it is not to be chosen. There is a text that is not NULL.
    pub(super) fn of(texts: &'a TextValues<'t>, forced: Option<Encoding>) -> Self {
        let text_bytes = texts.text_bytes();
        let distinct = match forced {
            Some(Encoding::Dictionary(_)) => DistinctTexts::of(texts.filled(), texts.len(), true),
            // With more entries than this a dictionary saves less than it costs, whatever the texts' lengths.
            None => DistinctTexts::of(texts.filled(), texts.len() / 2 + 1, false),
            _ => None,
        };
        let bounds = match &distinct {
            Some(distinct) => Text::bounds(distinct.texts().iter().copied()),
            None => Text::bounds(texts.filled()),
        };
        let is_dictionary = matches!(forced, Some(Encoding::Dictionary(_)));
        let distinct = distinct.filter(|distinct| is_dictionary || distinct.texts().len() > 1);
        let dictionary = distinct.map(|distinct| {
            let mut sections = [Vec::new(), Vec::new()];
            let [starts, bytes] = &mut sections;
            let codes = dictionary::write(distinct, starts, bytes);
            let statistics = IntegerStatistics::of(&codes, false);
            CodedTexts { sections, codes, statistics }
        });
        let mut plan = Self { texts, text_bytes, dictionary, symbols: None, bounds };
        let with_symbols = match forced {
            Some(encoding) => encoding == Encoding::Symbols,
            None => plan.may_gain_by_symbols(),
        };
        if with_symbols {
            plan.symbols = symbols::build(text_bytes, texts.written(0..texts.len()));
        }
        plan
    }

    pub(super) fn zone_map(&self) -> ZoneMap {
        ZoneMap::bytes(self.bounds.0.bytes(), self.bounds.1.bytes())
    }

    fn is_constant(&self) -> bool {
        self.bounds.0 == self.bounds.1
    }

    /// Whether a table of symbols is worth the search: not for what is shorter than the table, and not where a
    /// dictionary leaves little to gain.
    fn may_gain_by_symbols(&self) -> bool {
        let dictionary_bytes: usize =
            self.dictionary.iter().map(|dictionary| dictionary.size_bytes(IntegerEncoding::FrameOfReference)).sum();
        let gained_already = self.dictionary.is_some() && dictionary_bytes * 4 < self.text_bytes;
        !self.is_constant() && self.text_bytes >= 4096 && !gained_already
    }

    pub(super) fn candidates(&self) -> Vec<Candidate> {
        // An array of texts has an offset for each.
        let decoded_bytes = (self.text_bytes + self.texts.len() * 4) as u64;
        if self.is_constant() {
            let size_bytes = (self.text_bytes / self.texts.len()) as u64;
            return vec![Candidate { encoding: Encoding::Constant, size_bytes, decoded_bytes, run_count: 0 }];
        }
        let mut all = Vec::new();
        if let Some(dictionary) = &self.dictionary {
            let entries_bytes = dictionary.entries_bytes();
            all.extend(integer_candidates(&dictionary.statistics, decoded_bytes, entries_bytes, Encoding::Dictionary));
        }
        let plain = |starts_bytes| {
            let size_bytes = (starts_bytes + self.text_bytes) as u64;
            Candidate { encoding: Encoding::Plain, size_bytes, decoded_bytes, run_count: 0 }
        };
        // Where texts start need not be counted if the texts alone cost more than a dictionary.
        let value_count = self.texts.len() as u64;
        let least_ns = plain(0).cost_ns(value_count);
        if self.symbols.is_none() && all.iter().any(|candidate| candidate.cost_ns(value_count) < least_ns) {
            return all;
        }
        let starts_bytes = self.starts_bytes();
        all.insert(0, plain(starts_bytes));
        if let Some((table, share)) = &self.symbols {
            // Starts of shorter texts take fewer bits; as many as before is the most.
            let encoded_bytes = (self.text_bytes as f64 * share) as usize;
            let size_bytes = (starts_bytes + table.size_bytes() + encoded_bytes) as u64;
            all.push(Candidate { encoding: Encoding::Symbols, size_bytes, decoded_bytes, run_count: 0 });
        }
        all
    }

    /// What the starts of plain texts take.
    fn starts_bytes(&self) -> usize {
        let starts = self.texts.starts(None);
        IntegerStatistics::of(&starts, false).size_bytes(IntegerEncoding::Delta)
    }

    pub(super) fn write(mut self, encoding: Encoding, draft: &mut Draft) -> Result<(), &'static str> {
        // It may have as many bytes as the texts: none are written beside one that is not kept.
        let dictionary = self.dictionary.take().filter(|_| matches!(encoding, Encoding::Dictionary(_)));
        match encoding {
            Encoding::Constant if self.is_constant() => {
                draft.sections[VALUES_SECTION] = self.bounds.0.bytes().to_vec();
            }
            Encoding::Constant => return Err("they are not all the same"),
            Encoding::Plain => {
                let mut bytes = Vec::new();
                texts::write_starts(&self.texts.starts(Some(&mut bytes)), draft.integer_sections());
                draft.sections[VALUES_SECTION] = bytes;
            }
            Encoding::Dictionary(encoding) => {
                let Some(CodedTexts { sections, codes, .. }) = dictionary else {
                    return Err("they hardly repeat");
                };
                integers::write(encoding, &codes, false, draft.integer_sections());
                let [starts, bytes] = sections;
                draft.sections[VALUES_SECTION] = starts;
                draft.sections[VALUES_SECTION + 1] = bytes;
            }
            Encoding::Symbols => {
                let Some((table, _)) = &self.symbols else { return Err("all of them are empty") };
                let texts = self.texts.written(0..self.texts.len());
                let [texts, symbols] = table.write(self.text_bytes, texts, draft.integer_sections());
                draft.sections[VALUES_SECTION] = texts;
                draft.sections[VALUES_SECTION + 1] = symbols;
            }
            _ => return Err("it is for other types"),
        }
        Ok(())
    }
}
