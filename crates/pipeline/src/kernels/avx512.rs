//! The kernels with AVX-512: 64 bytes of words a comparison, which gives its bits directly; 16 words a look into a set.
//!
//! Owns: the instruction set's version of each kernel; `scalar` is the safe reference that tests compare it with. What
//! it gains shows in the bench `pipelines`, lines `range` and `set`.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm256_loadu_si256, _mm512_add_epi32, _mm512_and_si512, _mm512_cmple_epu8_mask,
    _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask, _mm512_cvtepu8_epi32,
    _mm512_cvtepu16_epi32, _mm512_loadu_si512, _mm512_mask_i32gather_epi32, _mm512_set1_epi8, _mm512_set1_epi16,
    _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_sllv_epi32, _mm512_srli_epi32, _mm512_sub_epi8,
    _mm512_sub_epi16, _mm512_sub_epi32, _mm512_sub_epi64, _mm512_test_epi32_mask,
};

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::{MASK_WORDS, Mask, reach};

/// Proof that the processor has AVX-512 with its comparisons of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx512(());

impl Avx512 {
    /// `None` when the processor lacks it.
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")).then_some(Self(()))
    }
}

/// 64 bytes of `words` from word `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load<W: Copy + Into<u64>>(words: &[W; MINI_BLOCK_VALUES], at: usize) -> __m512i {
    let loaded = &words[at..at + 64 / size_of::<W>()];
    // SAFETY: these are 64 bytes of integers; the load needs no alignment.
    unsafe { _mm512_loadu_si512(loaded.as_ptr().cast::<__m512i>()) }
}

macro_rules! in_range {
    ($name:ident, $word:ty, $signed:ty, $lanes:literal, $set1:ident, $sub:ident, $compare:ident) => {
        impl Avx512 {
            pub(super) fn $name(self, words: &[$word; MINI_BLOCK_VALUES], low: $word, span: $word) -> Mask {
                #[target_feature(enable = "avx512f,avx512bw")]
                fn kernel(words: &[$word; MINI_BLOCK_VALUES], low: $word, span: $word) -> Mask {
                    let (low, span) = ($set1(low as $signed), $set1(span as $signed));
                    let mut mask = [0; MASK_WORDS];
                    for (at, word) in mask.iter_mut().enumerate() {
                        for group in 0..64 / $lanes {
                            let distance = $sub(load(words, at * 64 + group * $lanes), low);
                            *word |= u64::from($compare(distance, span)) << (group * $lanes);
                        }
                    }
                    mask
                }
                // SAFETY: `self` exists only when the processor has these instructions.
                unsafe { kernel(words, low, span) }
            }
        }
    };
}

in_range!(in_range_u8, u8, i8, 64, _mm512_set1_epi8, _mm512_sub_epi8, _mm512_cmple_epu8_mask);
in_range!(in_range_u16, u16, i16, 32, _mm512_set1_epi16, _mm512_sub_epi16, _mm512_cmple_epu16_mask);
in_range!(in_range_u32, u32, i32, 16, _mm512_set1_epi32, _mm512_sub_epi32, _mm512_cmple_epu32_mask);
in_range!(in_range_u64, u64, i64, 8, _mm512_set1_epi64, _mm512_sub_epi64, _mm512_cmple_epu64_mask);

/// 16 words of `words` from word `at` on, in 32 bits each.
macro_rules! sixteen {
    (u8, $words:expr, $at:expr) => {{
        let loaded = &$words[$at..$at + 16];
        // SAFETY: these are 16 bytes of integers; the load needs no alignment.
        _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(loaded.as_ptr().cast()) })
    }};
    (u16, $words:expr, $at:expr) => {{
        let loaded = &$words[$at..$at + 16];
        // SAFETY: these are 32 bytes of integers; the load needs no alignment.
        _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(loaded.as_ptr().cast()) })
    }};
    (u32, $words:expr, $at:expr) => {
        load($words, $at)
    };
}

macro_rules! in_set {
    ($name:ident, $word:tt) => {
        impl Avx512 {
            /// `bits` are at most [`super::MAX_GATHERED_WORDS`].
            pub(super) fn $name(self, words: &[$word; MINI_BLOCK_VALUES], shift: u64, bits: &[u64]) -> Mask {
                /// The words from `low` to `low + span` are places of `bits` when `shift` is added modulo 2^32.
                #[target_feature(enable = "avx512f,avx512bw")]
                unsafe fn kernel(
                    words: &[$word; MINI_BLOCK_VALUES],
                    (low, span): (u32, u32),
                    shift: u32,
                    bits: &[u64],
                ) -> Mask {
                    let (low, span) = (_mm512_set1_epi32(low as i32), _mm512_set1_epi32(span as i32));
                    let (shift, one) = (_mm512_set1_epi32(shift as i32), _mm512_set1_epi32(1));
                    let within_word = _mm512_set1_epi32(31);
                    let mut mask = [0; MASK_WORDS];
                    for (at, word) in mask.iter_mut().enumerate() {
                        for group in 0..4 {
                            let words = sixteen!($word, words, at * 64 + group * 16);
                            let inside = _mm512_cmple_epu32_mask(_mm512_sub_epi32(words, low), span);
                            let place = _mm512_add_epi32(words, shift);
                            // SAFETY: lanes outside the set are masked out and not loaded; the others' 32-bit words lie
                            // in `bits`, whose words are little-endian on x86, so that bit `p` is bit `p % 32` of
                            // 32-bit word `p / 32`.
                            let found = unsafe {
                                let halves = bits.as_ptr().cast::<i32>();
                                let at = _mm512_srli_epi32::<5>(place);
                                _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), inside, at, halves)
                            };
                            let wanted = _mm512_sllv_epi32(one, _mm512_and_si512(place, within_word));
                            *word |= u64::from(_mm512_test_epi32_mask(found, wanted)) << (group * 16);
                        }
                    }
                    mask
                }
                match reach(shift, bits) {
                    // SAFETY: `self` exists only when the processor has these instructions; by these bounds all places
                    // that are loaded are in `bits`, and within reach of a gather.
                    Some(reach) => unsafe { kernel(words, reach, shift as u32, bits) },
                    None => [0; MASK_WORDS],
                }
            }
        }
    };
}

in_set!(in_set_u8, u8);
in_set!(in_set_u16, u16);
in_set!(in_set_u32, u32);
