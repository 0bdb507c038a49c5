//! The places of a mask's bits, with the instruction that lays selected lanes together: 64 at a time, as bytes.
//!
//! Owns: the instruction set's version of the loop in `scalar`; tests compare the two.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm256_add_epi16, _mm256_cvtepu8_epi16, _mm256_set1_epi16, _mm256_storeu_si256,
    _mm512_castsi512_si128, _mm512_extracti32x4_epi32, _mm512_loadu_si512, _mm512_maskz_compress_epi8,
};

use super::{Mask, PLACES_AT_ONCE};

/// Proof that the processor lays selected bytes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compression(());

impl Compression {
    /// `None` when the processor lacks it.
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        let has_vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let has_rest = is_x86_feature_detected!("avx512vbmi2") && is_x86_feature_detected!("popcnt");
        (has_vectors && has_rest).then_some(Self(()))
    }

    pub(super) fn places(self, mask: &Mask, places: &mut [u16]) -> usize {
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
        fn kernel(mask: &Mask, places: &mut [u16]) -> usize {
            const IN_WORD: [u8; 64] = {
                let mut places = [0; 64];
                let mut at = 0;
                while at < 64 {
                    places[at] = at as u8;
                    at += 1;
                }
                places
            };
            // SAFETY: these are 64 bytes; the load needs no alignment.
            let in_word = unsafe { _mm512_loadu_si512(IN_WORD.as_ptr().cast::<__m512i>()) };
            let mut end = 0;
            for (number, word) in mask.iter().enumerate() {
                let count = word.count_ones() as usize;
                let first = _mm256_set1_epi16((number * 64) as i16);
                let selected = _mm512_maskz_compress_epi8(*word, in_word);
                let mut store = |at: usize, places_in_word: __m128i| {
                    let to = &mut places[end + at..end + at + PLACES_AT_ONCE];
                    let placed = _mm256_add_epi16(_mm256_cvtepu8_epi16(places_in_word), first);
                    // SAFETY: these are 32 bytes; the store needs no alignment.
                    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast::<__m256i>(), placed) };
                };
                store(0, _mm512_castsi512_si128(selected));
                // Of few selected rows, which is usual, there are no more.
                if count > PLACES_AT_ONCE {
                    store(PLACES_AT_ONCE, _mm512_extracti32x4_epi32::<1>(selected));
                    if count > 2 * PLACES_AT_ONCE {
                        store(2 * PLACES_AT_ONCE, _mm512_extracti32x4_epi32::<2>(selected));
                    }
                    if count > 3 * PLACES_AT_ONCE {
                        store(3 * PLACES_AT_ONCE, _mm512_extracti32x4_epi32::<3>(selected));
                    }
                }
                end += count;
            }
            end
        }
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { kernel(mask, places) }
    }
}
