//! Small sets looked into by permutes: the byte that a word's bit is in is taken out of registers, 64 words at a time.
//!
//! Owns: the instruction set's version of looks into sets of up to [`MOST_WORDS`]; `scalar` is the reference. Each 128
//! bytes of a set are a table of their own that all words are looked up in, so that it takes as long as the set is: a
//! mini-block 41 ns and at most 8.5 ns a table where gathers take 410 (AMD EPYC of the fourth generation).
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_add_epi16, _mm512_cmpeq_epi8_mask, _mm512_cmple_epu16_mask,
    _mm512_cvtepu8_epi16, _mm512_loadu_si512, _mm512_mask_test_epi8_mask, _mm512_mask2_permutex2var_epi8,
    _mm512_permutex2var_epi8, _mm512_permutexvar_epi8, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi64,
    _mm512_srli_epi16, _mm512_sub_epi16,
};

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::{MASK_WORDS, Mask, reach};

/// Most words of a set: of twice as many, permutes take as long as gathers.
const MOST_WORDS: usize = 320;
/// Words of a set that one permute looks into: 128 bytes.
const TABLE_WORDS: usize = 16;
/// Vectors of 64 words that are looked up in a table while it is loaded.
const AT_ONCE: usize = 4;
/// To lay the selected words together takes as long as to look all up in so many tables more.
const TABLES_FOR_NOTHING: usize = 8;
/// Gathered words that take as long as to look all up in one table.
const GATHERED_WORDS_A_TABLE: usize = 21;

/// Proof that the processor permutes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permutation(());

/// The even bytes of two vectors laid together are the low bytes of their words, the odd ones the high bytes.
const LOW_BYTES: [u8; 64] = every_second(0);
const HIGH_BYTES: [u8; 64] = every_second(1);

const fn every_second(first: u8) -> [u8; 64] {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        places[at] = at as u8 * 2 + first;
        at += 1;
    }
    places
}

/// A vector of these bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn vector(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: these are 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// 64 words from word `at` on, in two vectors of 16 bits each.
macro_rules! sixty_four {
    (u8, $words:expr, $at:expr) => {{
        let loaded = &$words[$at..$at + 64];
        // SAFETY: these are 64 bytes; the loads need no alignment.
        [0, 32].map(|half| _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(loaded.as_ptr().add(half).cast()) }))
    }};
    (u16, $words:expr, $at:expr) => {
        [0, 32].map(|half| super::avx512::load($words, $at + half))
    };
}

/// Where the bits of 64 words are.
#[derive(Clone, Copy)]
struct Places {
    /// The words that are within the set.
    inside: u64,
    /// Which table, which byte of it, and then that byte itself; which bit of it.
    table: __m512i,
    byte: __m512i,
    bit: __m512i,
}

impl Places {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn of(words: [__m512i; 2], (low, span): (u16, u16), shift: u16) -> Self {
        let [low, span, shift] = [low, span, shift].map(|number| _mm512_set1_epi16(number as i16));
        let inside = words.map(|words| _mm512_cmple_epu16_mask(_mm512_sub_epi16(words, low), span));
        let [first, second] = words.map(|words| _mm512_add_epi16(words, shift));
        let eighths = [_mm512_srli_epi16::<3>(first), _mm512_srli_epi16::<3>(second)];
        let quarters = [_mm512_srli_epi16::<2>(first), _mm512_srli_epi16::<2>(second)];
        Self {
            inside: u64::from(inside[0]) | u64::from(inside[1]) << 32,
            // 1,024 places are 128 bytes.
            table: _mm512_permutex2var_epi8(quarters[0], vector(&HIGH_BYTES), quarters[1]),
            byte: _mm512_permutex2var_epi8(eighths[0], vector(&LOW_BYTES), eighths[1]),
            bit: _mm512_permutex2var_epi8(first, vector(&LOW_BYTES), second),
        }
    }
}

/// Puts the bytes that are in a set's table number `number` in the place of where they are in it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(table: &[u64; TABLE_WORDS], number: usize, places: &mut [Places; AT_ONCE]) {
    let bytes = table.as_ptr().cast::<u8>();
    // SAFETY: these are the first and the second 64 bytes of the table, whose words are little-endian on x86, so that bit
    // `p` is bit `p % 8` of byte `p / 8`; the loads need no alignment.
    let [first, second] = unsafe { [_mm512_loadu_si512(bytes.cast()), _mm512_loadu_si512(bytes.add(64).cast())] };
    let number = _mm512_set1_epi8(number as i8);
    for places in places {
        let are_here = _mm512_cmpeq_epi8_mask(places.table, number);
        // No place is in two tables, so that what has been found is no place for any other.
        places.byte = _mm512_mask2_permutex2var_epi8(first, places.byte, are_here, second);
    }
}

macro_rules! in_set {
    ($name:ident, $word:tt) => {
        /// Which words, `shift` added, are the places of set bits, of the first `word_count` words of the mask.
        pub(super) fn $name(
            self,
            words: &[$word; MINI_BLOCK_VALUES],
            word_count: usize,
            shift: u64,
            bits: &[u64],
        ) -> Mask {
            #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
            fn kernel(
                words: &[$word; MINI_BLOCK_VALUES],
                word_count: usize,
                (reach, shift): ((u16, u16), u16),
                bits: &[u64],
            ) -> Mask {
                let (tables, rest) = bits.as_chunks::<TABLE_WORDS>();
                let mut last = [0; TABLE_WORDS];
                last[..rest.len()].copy_from_slice(rest);
                let mut mask = [0; MASK_WORDS];
                for (group, mask) in mask.chunks_mut(AT_ONCE).take(word_count.div_ceil(AT_ONCE)).enumerate() {
                    let first = group * AT_ONCE * 64;
                    let mut places: [Places; AT_ONCE] =
                        std::array::from_fn(|at| Places::of(sixty_four!($word, words, first + at * 64), reach, shift));
                    for (number, table) in tables.iter().enumerate() {
                        look_up(table, number, &mut places);
                    }
                    if !rest.is_empty() {
                        look_up(&last, tables.len(), &mut places);
                    }
                    let single_bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
                    for (mask, places) in mask.iter_mut().zip(&places) {
                        let wanted = _mm512_permutexvar_epi8(places.bit, single_bits);
                        *mask = _mm512_mask_test_epi8_mask(places.inside, places.byte, wanted);
                    }
                }
                mask
            }
            let limit = u32::from(u16::MAX);
            match reach(shift, bits) {
                Some((low, span)) if low <= limit => {
                    let reach = (low as u16, (low + span).min(limit) as u16 - low as u16);
                    // SAFETY: `self` exists only when the processor has these instructions.
                    unsafe { kernel(words, word_count, (reach, shift as u16), bits) }
                }
                _ => [0; MASK_WORDS],
            }
        }
    };
}

impl Permutation {
    /// `None` when the processor lacks it.
    pub(super) fn detect() -> Option<Self> {
        let has_vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        (has_vectors && is_x86_feature_detected!("avx512vbmi")).then_some(Self(()))
    }

    /// Whether it is faster than gathers of so many words, if these are selected ones that are laid together first.
    pub(super) fn is_faster(self, bits: &[u64], selected: Option<usize>) -> bool {
        let paid = selected.map_or(usize::MAX, |selected| TABLES_FOR_NOTHING + selected / GATHERED_WORDS_A_TABLE);
        bits.len() <= MOST_WORDS && bits.len().div_ceil(TABLE_WORDS) <= paid
    }

    in_set!(in_set_u8, u8);
    in_set!(in_set_u16, u16);
}
