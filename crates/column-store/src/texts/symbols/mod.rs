//! Texts in symbols: frequent pieces of up to eight bytes, one byte each (FSST).
//!
//! **Owns**: a page's symbol table, its choice (`builder`), writing and reading texts by it. **Does not own**: where texts
//! start (`texts`).
//!
//! **Invariants**: each text is written for itself, so that any can be read alone; equal texts are written alike.
//!
//! **Concurrency**: plain functions and views.
//!
//! Section 5 beside the starts and the texts: 8 bytes for each symbol, filled up with zeros, then the symbols' lengths (1 byte
//! each). A byte of a written text is the index of a symbol, or 255 and then a byte as it is.
//!
//! **Paper**: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression" (PVLDB 2020), §3 and §4. Deviations:
//! symbols are found in buckets by their first two bytes, longest first, so that none is lost as in the paper's hash table of
//! one symbol a slot.

mod builder;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub(crate) use builder::build;

use std::ops::Range;

use super::{DecodedTexts, Texts, write_starts};
use crate::PageError;
use crate::integers::{INTEGER_SECTIONS, Section};

/// What stands before a byte that is no symbol.
const ESCAPE: u8 = 255;
/// Most symbols of a table.
const MAX_SYMBOLS: usize = 255;
/// Most bytes of a symbol.
const MAX_LENGTH: usize = 8;

/// A piece of text, its first byte lowest; zeros behind its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    bytes: u64,
    length: usize,
}

impl Symbol {
    fn byte(byte: u8) -> Self {
        Self { bytes: u64::from(byte), length: 1 }
    }

    fn first(self) -> u8 {
        self.bytes as u8
    }

    /// Both, one behind the other, as far as there is room.
    fn joined(self, next: Self) -> Self {
        if self.length == MAX_LENGTH {
            return self;
        }
        let length = (self.length + next.length).min(MAX_LENGTH);
        Self { bytes: (self.bytes | next.bytes << (8 * self.length)) & mask(length), length }
    }
}

/// The low `length` bytes, 1 to 8.
fn mask(length: usize) -> u64 {
    u64::MAX >> (64 - 8 * length)
}

/// Buckets of symbols of two and more bytes.
const BUCKETS: usize = 2048;
/// No symbol.
const NONE: u16 = u16::MAX;

/// The bucket of the symbols that start with the two low bytes of `word`.
#[inline(always)]
fn bucket(word: u64) -> usize {
    // Fibonacci hashing: the high bits of the product depend on all of the 16.
    ((word as u16).wrapping_mul(0x9e37) >> 5) as usize
}

/// Symbols, and how to find the longest that a text starts with.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    /// Those of two and more bytes by bucket, the longest first; then those of one.
    symbols: Vec<Symbol>,
    /// Of each bucket the index of its first symbol, and where the last one ends.
    buckets: Vec<u16>,
    /// Symbols of one byte.
    single: [u16; 256],
}

impl SymbolTable {
    fn new(mut symbols: Vec<Symbol>) -> Self {
        symbols.truncate(MAX_SYMBOLS);
        let place = |symbol: &Symbol| if symbol.length > 1 { bucket(symbol.bytes) } else { BUCKETS };
        symbols.sort_unstable_by_key(|symbol| (place(symbol), MAX_LENGTH - symbol.length, symbol.bytes));
        let mut buckets = vec![0; BUCKETS + 1];
        let mut single = [NONE; 256];
        for (index, symbol) in symbols.iter().enumerate() {
            match symbol.length {
                1 => single[usize::from(symbol.first())] = index as u16,
                _ => buckets[place(symbol) + 1] += 1,
            }
        }
        for index in 0..BUCKETS {
            buckets[index + 1] += buckets[index];
        }
        Self { symbols, buckets, single }
    }

    /// The longest symbol at the start of `text`, which is not empty.
    #[inline]
    fn longest(&self, text: &[u8]) -> Option<(u8, Symbol)> {
        let word = match text.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        let bucket = bucket(word);
        let (start, end) = (self.buckets[bucket], self.buckets[bucket + 1]);
        for index in start..end {
            let symbol = self.symbols[usize::from(index)];
            if word & mask(symbol.length) == symbol.bytes && symbol.length <= text.len() {
                return Some((index as u8, symbol));
            }
        }
        match self.single[usize::from(word as u8)] {
            NONE => None,
            index => Some((index as u8, Symbol::byte(word as u8))),
        }
    }

    /// Appends a text in symbols.
    pub(crate) fn encode(&self, mut text: &[u8], encoded: &mut Vec<u8>) {
        while let Some((first, rest)) = text.split_first() {
            match self.longest(text) {
                Some((code, symbol)) => {
                    encoded.push(code);
                    text = &text[symbol.length..];
                }
                None => {
                    encoded.extend_from_slice(&[ESCAPE, *first]);
                    text = rest;
                }
            }
        }
    }

    /// Bytes of the section.
    pub(crate) fn size_bytes(&self) -> usize {
        self.symbols.len() * (MAX_LENGTH + 1)
    }

    /// Writes the texts and the table.
    pub(crate) fn write<'t>(
        &self,
        texts: impl Iterator<Item = &'t [u8]>,
        starts_sections: &mut [Vec<u8>; INTEGER_SECTIONS],
    ) -> [Vec<u8>; 2] {
        let mut encoded = Vec::new();
        let mut starts = Vec::new();
        for text in texts {
            starts.push(encoded.len() as u64);
            self.encode(text, &mut encoded);
        }
        write_starts(&starts, starts_sections);
        let mut table: Vec<u8> = self.symbols.iter().flat_map(|symbol| symbol.bytes.to_le_bytes()).collect();
        table.extend(self.symbols.iter().map(|symbol| symbol.length as u8));
        [encoded, table]
    }
}

/// Texts written in symbols.
#[derive(Debug, Clone, Copy)]
pub struct SymbolTexts<'a> {
    texts: Texts<'a>,
    symbols: &'a [[u8; MAX_LENGTH]],
    lengths: &'a [u8],
    section: Section<'a>,
}

impl<'a> SymbolTexts<'a> {
    pub(crate) fn open(texts: Texts<'a>, table: Section<'a>) -> Result<Self, PageError> {
        let count = table.bytes.len() / (MAX_LENGTH + 1);
        if count > MAX_SYMBOLS {
            let expected = format!("at most {MAX_SYMBOLS}");
            return Err(table.field("the number of symbols", 0, count as u64, expected));
        }
        table.expect_length("the symbols and their lengths", count * (MAX_LENGTH + 1))?;
        let (symbols, lengths) = table.bytes.split_at(count * MAX_LENGTH);
        if let Some(at) = lengths.iter().position(|length| !(1..=MAX_LENGTH as u8).contains(length)) {
            let expected = format!("1 to {MAX_LENGTH}");
            return Err(table.field("the length of a symbol", symbols.len() + at, lengths[at].into(), expected));
        }
        Ok(Self { texts, symbols: symbols.as_chunks().0, lengths, section: texts.bytes })
    }

    /// The texts in symbols, for who compares them as they are: equal texts are written alike.
    pub fn encoded(&self) -> &Texts<'a> {
        &self.texts
    }

    /// Appends to `text` what is written as `encoded`.
    ///
    /// # Errors
    /// A symbol that is not in the table, or an escape with nothing behind it.
    pub fn decode_text(&self, encoded: &[u8], text: &mut Vec<u8>) -> Result<(), PageError> {
        let mut codes = encoded.iter();
        while let Some(code) = codes.next() {
            if let (Some(symbol), Some(length)) =
                (self.symbols.get(usize::from(*code)), self.lengths.get(usize::from(*code)))
            {
                // Eight bytes are copied faster than as many as are needed.
                let end = text.len() + usize::from(*length);
                text.extend_from_slice(symbol);
                text.truncate(end);
            } else if let (ESCAPE, Some(byte)) = (*code, codes.next()) {
                text.push(*byte);
            } else {
                let expected = format!("less than {}, or 255 and a byte", self.symbols.len());
                return Err(self.section.field("a symbol", 0, u64::from(*code), expected));
            }
        }
        Ok(())
    }

    /// Decodes these mini-blocks of `text_count` texts.
    pub(crate) fn decode(&self, mini_blocks: Range<usize>, text_count: usize) -> Result<DecodedTexts, PageError> {
        let mut decoded = DecodedTexts::with_capacity(text_count);
        for index in mini_blocks {
            self.texts.for_each(index, |encoded| {
                self.decode_text(encoded, &mut decoded.bytes)?;
                decoded.end_text()
            })?;
        }
        Ok(decoded)
    }
}
