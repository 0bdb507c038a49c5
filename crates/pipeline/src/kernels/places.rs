//! The places of a mask's bits, with the instruction that lays selected lanes together.
//!
//! Owns: the instruction set's version of the loop in `scalar`; tests compare the two.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi16, _mm512_loadu_si512, _mm512_maskz_compress_epi16, _mm512_set1_epi16, _mm512_storeu_si512,
};

use super::{MASK_WORDS, Mask, PLACES_AT_ONCE};

/// Proof that the processor lays 16-bit lanes together.
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
            const FIRST: [u16; PLACES_AT_ONCE] = {
                let mut first = [0; PLACES_AT_ONCE];
                let mut at = 0;
                while at < PLACES_AT_ONCE {
                    first[at] = at as u16;
                    at += 1;
                }
                first
            };
            // SAFETY: these are 64 bytes; the load needs no alignment.
            let mut at = unsafe { _mm512_loadu_si512(FIRST.as_ptr().cast::<__m512i>()) };
            let mut end = 0;
            for half in 0..2 * MASK_WORDS {
                let bits = (mask[half / 2] >> (half % 2 * PLACES_AT_ONCE)) as u32;
                let to = &mut places[end..end + PLACES_AT_ONCE];
                // SAFETY: these are 64 bytes; the store needs no alignment.
                unsafe {
                    _mm512_storeu_si512(to.as_mut_ptr().cast::<__m512i>(), _mm512_maskz_compress_epi16(bits, at));
                }
                end += bits.count_ones() as usize;
                at = _mm512_add_epi16(at, _mm512_set1_epi16(PLACES_AT_ONCE as i16));
            }
            end
        }
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { kernel(mask, places) }
    }
}
