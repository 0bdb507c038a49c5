//! Texts in symbols: frequent pieces of up to eight bytes, one byte each (FSST).
//!
//! **Owns**: a page's symbol table, its choice (`builder`), writing and reading texts by it. **Does not own**: where
//! texts start (`texts`).
//!
//! **Invariants**: each text is written for itself, so that any can be read alone; equal texts are written alike.
//!
//! **Concurrency**: plain functions and views.
//!
//! Section 5 beside the starts and the texts: 8 bytes for each symbol, filled up with zeros, then the symbols' lengths
//! (1 byte each). A byte of a written text is the index of a symbol, or 255 and then a byte as it is.
//!
//! **Paper**: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression" (PVLDB 2020), §3 and §4.
//! Deviations: the symbols that may be next are looked up by length, longest first, so that none is lost as in the
//! paper's hash table of one symbol a slot.

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

/// Slots for symbols of two and more bytes, four for each that there can be: nearly every one is found where it
/// belongs.
const SLOTS: usize = 1024;
/// No symbol.
const NONE: u16 = u16::MAX;

/// Where to look first for what the low bytes of a word are, zeros above them.
#[inline(always)]
fn slot(bytes: u64) -> usize {
    // Fibonacci hashing: the high bits of the product depend on all bytes.
    (bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

/// Where it says which lengths the symbols have that start with the two low bytes of `word`.
#[inline(always)]
fn pair_slot(word: u64) -> usize {
    slot(word & 0xffff)
}

/// The low bytes of a word are the first of `text`; zeros behind its end.
#[inline]
fn first_word(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Symbols, and how to find the longest that a text starts with.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    symbols: Vec<Symbol>,
    /// Symbols of two and more bytes with their indexes, each in the first free slot from its own on.
    slots: Vec<(Symbol, u16)>,
    /// Of each pair of bytes, by its slot, a bit for each length of symbols that start so: bit 1 for two bytes. Pairs
    /// that share a slot share the bits.
    lengths: Vec<u8>,
    /// Symbols of one byte.
    single: [u16; 256],
}

impl SymbolTable {
    /// Of symbols that are all different.
    fn new(mut symbols: Vec<Symbol>) -> Self {
        symbols.truncate(MAX_SYMBOLS);
        symbols.sort_unstable();
        let mut slots = vec![(Symbol { bytes: 0, length: 0 }, NONE); SLOTS];
        let mut lengths = vec![0; SLOTS];
        let mut single = [NONE; 256];
        for (index, symbol) in symbols.iter().enumerate() {
            if symbol.length == 1 {
                single[usize::from(symbol.first())] = index as u16;
                continue;
            }
            let mut at = slot(symbol.bytes);
            while slots[at].1 != NONE {
                at = (at + 1) % SLOTS;
            }
            slots[at] = (*symbol, index as u16);
            lengths[pair_slot(symbol.bytes)] |= 1 << (symbol.length - 1);
        }
        Self { symbols, slots, lengths, single }
    }

    /// The longest symbol of at most `most` bytes that `word` starts with: its code and length. `most` is 1 to 8.
    #[inline]
    fn longest(&self, word: u64, most: usize) -> Option<(u8, usize)> {
        let mut lengths = self.lengths[pair_slot(word)] & (0xff >> (MAX_LENGTH - most));
        while lengths != 0 {
            let length = lengths.ilog2() as usize + 1;
            lengths ^= 1 << (length - 1);
            let wanted = Symbol { bytes: word & mask(length), length };
            let mut at = slot(wanted.bytes);
            // There are free slots, so that this ends.
            while self.slots[at].1 != NONE {
                if self.slots[at].0 == wanted {
                    return Some((self.slots[at].1 as u8, length));
                }
                at = (at + 1) % SLOTS;
            }
        }
        match self.single[usize::from(word as u8)] {
            NONE => None,
            index => Some((index as u8, 1)),
        }
    }

    /// Calls `each` for all that a text is written as: the code, or `None` for a byte that is no symbol, and the first
    /// byte.
    #[inline]
    fn walk(&self, mut text: &[u8], mut each: impl FnMut(Option<u8>, u8)) {
        while text.len() >= MAX_LENGTH {
            let word = first_word(text);
            let (code, length) =
                self.longest(word, MAX_LENGTH).map_or((None, 1), |(code, length)| (Some(code), length));
            each(code, word as u8);
            text = &text[length..];
        }
        // What is left fits a word.
        let mut word = first_word(text);
        let mut left = text.len();
        while left > 0 {
            let (code, length) = self.longest(word, left).map_or((None, 1), |(code, length)| (Some(code), length));
            each(code, word as u8);
            word >>= 8 * length;
            left -= length;
        }
    }

    /// Appends a text in symbols.
    pub(crate) fn encode(&self, text: &[u8], encoded: &mut Vec<u8>) {
        self.walk(text, |code, byte| match code {
            Some(code) => encoded.push(code),
            None => encoded.extend_from_slice(&[ESCAPE, byte]),
        });
    }

    /// Bytes of the section.
    pub(crate) fn size_bytes(&self) -> usize {
        self.symbols.len() * (MAX_LENGTH + 1)
    }

    /// Writes the texts, of `text_bytes` together, and the table.
    pub(crate) fn write<'t>(
        &self,
        text_bytes: usize,
        texts: impl ExactSizeIterator<Item = &'t [u8]>,
        starts_sections: &mut [Vec<u8>; INTEGER_SECTIONS],
    ) -> [Vec<u8>; 2] {
        // A table is taken where it leaves fewer bytes. A buffer that grows would take up to three times as many.
        let mut encoded = Vec::with_capacity(text_bytes);
        let mut starts = Vec::with_capacity(texts.len());
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
