//! The places of a mask's bits, with the instruction that lays selected lanes together: 64 at a time, as bytes.
//!
//! Owns: the instruction set's version of the loop in `scalar`; tests compare the two.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi16, _mm512_castsi512_si256, _mm512_cvtepu8_epi16, _mm512_extracti64x4_epi64,
    _mm512_loadu_si512, _mm512_maskz_compress_epi8, _mm512_set1_epi16, _mm512_storeu_si512,
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
                let first = _mm512_set1_epi16((number * 64) as i16);
                let selected = _mm512_maskz_compress_epi8(*word, in_word);
                let halves = [_mm512_castsi512_si256(selected), _mm512_extracti64x4_epi64::<1>(selected)];
                // Of few selected rows, which is usual, the second half has none.
                for (half, at) in
                    halves.into_iter().zip([0, PLACES_AT_ONCE]).take(1 + usize::from(count > PLACES_AT_ONCE))
                {
                    let to = &mut places[end + at..end + at + PLACES_AT_ONCE];
                    let placed = _mm512_add_epi16(_mm512_cvtepu8_epi16(half), first);
                    // SAFETY: these are 64 bytes; the store needs no alignment.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast::<__m512i>(), placed) };
                }
                end += count;
            }
            end
        }
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { kernel(mask, places) }
    }
}
