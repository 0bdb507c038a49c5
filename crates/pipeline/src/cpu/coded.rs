//! Arrays with a dictionary as columns: codes of what is different, looked up for the rows that are looked at.
//!
//! **Owns**: the ordinal of each entry, in as few bytes as all of them need; single values and mini-blocks of them.
//! **Does not own**: how texts are ordered (`array_texts`), NULLs.
//!
//! **Invariants**: a code that the dictionary lacks, which only a NULL has, is read as some entry.
//!
//! **Concurrency**: views and plain values.

use std::borrow::Cow;

use arrow::array::{AnyDictionaryArray, Array, AsArray};
use arrow::datatypes::{DataType, UInt8Type, UInt16Type, UInt32Type};
use thermocline_column_store::MINI_BLOCK_VALUES;

use super::form::{Scratch, Unpacked};
use super::native::Native;
use crate::ir::ValueType;

/// See the module.
#[derive(Debug)]
pub(super) struct Coded<'p> {
    codes: Codes<'p>,
    base: i64,
    /// Of each entry its ordinal, less the base.
    words: Words,
}

#[derive(Debug)]
enum Codes<'p> {
    U8(&'p [u8]),
    U16(&'p [u16]),
    U32(Cow<'p, [u32]>),
}

#[derive(Debug)]
enum Words {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl<'p> Codes<'p> {
    fn of(array: &'p dyn AnyDictionaryArray) -> Self {
        match array.keys().data_type() {
            DataType::UInt8 => Self::U8(array.keys().as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Self::U16(array.keys().as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Self::U32(Cow::Borrowed(array.keys().as_primitive::<UInt32Type>().values())),
            // All are NULL.
            _ if array.values().is_empty() => Self::U32(vec![0; array.len()].into()),
            _ => Self::U32(array.normalized_keys().into_iter().map(|code| code as u32).collect()),
        }
    }
}

impl Words {
    /// The least of some ordinals, and their differences to it.
    fn of(ordinals: &[i64]) -> (i64, Self) {
        let base = ordinals.iter().copied().min().unwrap_or_default();
        let differences = || ordinals.iter().map(|ordinal| ordinal.wrapping_sub(base) as u64);
        let words = match differences().max().unwrap_or_default() {
            0..=0xff => Self::U8(differences().map(|word| word as u8).collect()),
            0x100..=0xffff => Self::U16(differences().map(|word| word as u16).collect()),
            0x1_0000..=0xffff_ffff => Self::U32(differences().map(|word| word as u32).collect()),
            _ => Self::U64(differences().collect()),
        };
        (base, words)
    }
}

/// The codes of a mini-block.
fn block<T>(codes: &[T], index: usize) -> &[T] {
    let codes = codes.get(index * MINI_BLOCK_VALUES..).unwrap_or_default();
    &codes[..codes.len().min(MINI_BLOCK_VALUES)]
}

impl<'p> Coded<'p> {
    /// The array whose entries have these ordinals.
    pub(super) fn new(array: &'p dyn AnyDictionaryArray, ordinals: &[i64]) -> Self {
        let (base, words) = Words::of(ordinals);
        Self { codes: Codes::of(array), base, words }
    }

    /// An array of numbers that has this type; `None` if it has another one, or needs more than 64 bits.
    pub(super) fn of_numbers(array: &'p dyn Array, value_type: ValueType) -> Option<Self> {
        let array = array.as_any_dictionary_opt()?;
        let entries = Native::of(array.values().as_ref(), value_type).filter(|entries| !entries.is_wide())?;
        let count = array.values().len();
        let places: Vec<u16> = (0..MINI_BLOCK_VALUES as u16).collect();
        let mut ordinals = Vec::with_capacity(count);
        for (index, first) in (0..count).step_by(MINI_BLOCK_VALUES).enumerate() {
            entries.gather(index, &places[..MINI_BLOCK_VALUES.min(count - first)], &mut ordinals);
        }
        Some(Self::new(array, &ordinals))
    }

    /// Appends the ordinals of values at some places of a mini-block.
    pub(super) fn gather(&self, index: usize, places: &[u16], ordinals: &mut Vec<i64>) {
        macro_rules! extend {
            ($codes:expr, $words:expr) => {{
                let codes = block($codes, index);
                ordinals.extend(places.iter().map(|place| {
                    let word = $words.get(codes[usize::from(*place)] as usize).copied().unwrap_or_default();
                    self.base.wrapping_add(word as i64)
                }))
            }};
        }
        match (&self.codes, &self.words) {
            (Codes::U8(codes), Words::U8(words)) => extend!(codes, words),
            (Codes::U8(codes), Words::U16(words)) => extend!(codes, words),
            (Codes::U8(codes), Words::U32(words)) => extend!(codes, words),
            (Codes::U8(codes), Words::U64(words)) => extend!(codes, words),
            (Codes::U16(codes), Words::U8(words)) => extend!(codes, words),
            (Codes::U16(codes), Words::U16(words)) => extend!(codes, words),
            (Codes::U16(codes), Words::U32(words)) => extend!(codes, words),
            (Codes::U16(codes), Words::U64(words)) => extend!(codes, words),
            (Codes::U32(codes), Words::U8(words)) => extend!(codes, words),
            (Codes::U32(codes), Words::U16(words)) => extend!(codes, words),
            (Codes::U32(codes), Words::U32(words)) => extend!(codes, words),
            (Codes::U32(codes), Words::U64(words)) => extend!(codes, words),
        }
    }

    /// Writes the words of a mini-block; the base, and where they are.
    pub(super) fn fill(&self, index: usize, scratch: &mut Scratch) -> (i64, Unpacked) {
        macro_rules! fill {
            ($words:expr, $to:ident, $unpacked:ident) => {{
                match &self.codes {
                    Codes::U8(codes) => look_up(block(codes, index), $words, &mut scratch.$to),
                    Codes::U16(codes) => look_up(block(codes, index), $words, &mut scratch.$to),
                    Codes::U32(codes) => look_up(block(codes, index), $words, &mut scratch.$to),
                }
                (self.base, Unpacked::$unpacked)
            }};
        }
        match &self.words {
            Words::U8(words) => fill!(words, bytes, U8),
            Words::U16(words) => fill!(words, halves, U16),
            Words::U32(words) => fill!(words, words, U32),
            Words::U64(words) => fill!(words, longs, U64),
        }
    }
}

/// The words of some codes.
fn look_up<C: Copy + Into<u32>, W: Copy + Default>(codes: &[C], words: &[W], to: &mut [W]) {
    for (to, code) in to.iter_mut().zip(codes) {
        let code: u32 = (*code).into();
        *to = words.get(code as usize).copied().unwrap_or_default();
    }
}
