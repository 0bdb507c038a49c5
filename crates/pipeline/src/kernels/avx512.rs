//! The kernels with AVX-512: 64 bytes of words a comparison, which gives its bits directly.
//!
//! Owns: the instruction set's version of the comparisons; `scalar` is the safe reference that tests compare it with. What it
//! gains shows in the bench `pipelines`, line `range`. Sets are looked into by `avx2`: gathers bound that, not the registers' width.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm512_cmple_epu8_mask, _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask,
    _mm512_loadu_si512, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_sub_epi8,
    _mm512_sub_epi16, _mm512_sub_epi32, _mm512_sub_epi64,
};

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::{MASK_WORDS, Mask};

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
