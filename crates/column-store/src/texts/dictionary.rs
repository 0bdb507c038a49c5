//! Dictionaries of texts, sorted, so that the order of codes is the order of texts.
//!
//! Sections: where each entry starts, and where the last one ends (4 bytes each); the entries' bytes.

use arrow::buffer::NullBuffer;

use super::{DecodedTexts, DistinctTexts, Text, checked_size};
use crate::PageError;
use crate::integers::Section;

/// What the codes of a page stand for: code `i` is entry `i`, and entries rise bytewise.
#[derive(Debug, Clone, Copy)]
pub struct Dictionary<'a> {
    starts: &'a [[u8; 4]],
    bytes: &'a [u8],
    section: Section<'a>,
}

/// Writes the entries in order into the two sections, and returns the codes of the texts.
pub(crate) fn write(distinct: DistinctTexts<'_>, starts: &mut Vec<u8>, bytes: &mut Vec<u8>) -> Vec<u64> {
    let mut order: Vec<u32> = (0..distinct.texts().len() as u32).collect();
    order.sort_unstable_by_key(|index| distinct.texts()[*index as usize]);
    let mut codes = vec![0; order.len()];
    // Buffers that grow would take up to three times as much.
    starts.reserve_exact((order.len() + 1) * size_of::<u32>());
    bytes.reserve_exact(distinct.texts().iter().map(Text::len).sum());
    for (code, index) in order.into_iter().enumerate() {
        codes[index as usize] = code as u64;
        starts.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(distinct.texts()[index as usize].bytes());
    }
    starts.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    distinct.into_places(|place| codes[place as usize])
}

impl<'a> Dictionary<'a> {
    pub(crate) fn open(starts: Section<'a>, bytes: Section<'a>) -> Result<Self, PageError> {
        let (entries, rest) = starts.bytes.as_chunks::<4>();
        if entries.len() < 2 || !rest.is_empty() {
            let expected = "4 bytes for each entry and 4 more".to_owned();
            return Err(starts.field("the length of the dictionary", 0, starts.bytes.len() as u64, expected));
        }
        let mut last = 0;
        for (index, start) in entries.iter().enumerate() {
            let start = u32::from_le_bytes(*start);
            let is_end = index + 1 == entries.len();
            let right = match index {
                0 => start == 0,
                _ if is_end => start as usize == bytes.bytes.len(),
                _ => start as usize <= bytes.bytes.len(),
            };
            if !right || start < last {
                let expected = format!("{last} to {}, from 0 to all of them", bytes.bytes.len());
                return Err(starts.field("where an entry of the dictionary starts", index * 4, start.into(), expected));
            }
            last = start;
        }
        Ok(Self { starts: entries, bytes: bytes.bytes, section: starts })
    }

    /// How many entries there are, at least one. Codes are below it.
    pub fn entry_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The text of a code; `None` if there is no such entry.
    #[inline]
    pub fn entry(&self, code: usize) -> Option<&'a [u8]> {
        let start = u32::from_le_bytes(*self.starts.get(code)?) as usize;
        let end = u32::from_le_bytes(*self.starts.get(code + 1)?) as usize;
        self.bytes.get(start..end)
    }

    /// The code of a text, or else the code of the first entry that is greater (which may be one past the last).
    pub fn code_of(&self, text: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.entry_count());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle).map(|entry| entry.cmp(text)) {
                Some(std::cmp::Ordering::Equal) => return Ok(middle),
                Some(std::cmp::Ordering::Less) => low = middle + 1,
                _ => high = middle,
            }
        }
        Err(low)
    }

    /// Codes must have entries.
    pub(crate) fn check(&self, codes: &[u32]) -> Result<(), PageError> {
        let greatest = codes.iter().copied().max().unwrap_or(0);
        if (greatest as usize) < self.entry_count() {
            return Ok(());
        }
        let expected = format!("less than {}, the entries of the dictionary", self.entry_count());
        Err(self.section.field("a code", 0, u64::from(greatest), expected))
    }

    /// All entries.
    pub(crate) fn entries(&self) -> Result<DecodedTexts, PageError> {
        checked_size(self.bytes.len())?;
        let offsets = self.starts.iter().map(|start| u32::from_le_bytes(*start) as i32).collect();
        Ok(DecodedTexts { offsets, bytes: self.bytes.to_vec() })
    }

    /// The texts of codes that were checked; of NULLs nothing, whatever their codes are.
    pub(crate) fn decode(&self, codes: &[u32], nulls: Option<&NullBuffer>) -> Result<DecodedTexts, PageError> {
        let mut decoded = DecodedTexts::with_capacity(codes.len());
        for (index, code) in codes.iter().enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(index)) {
                decoded.bytes.extend_from_slice(self.entry(*code as usize).unwrap_or_default());
            }
            decoded.end_text()?;
        }
        Ok(decoded)
    }
}
