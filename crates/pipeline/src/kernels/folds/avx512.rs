//! The folds with AVX-512: 64 bytes of words at once, of which the mask's bits say which count.
//!
//! Owns: the instruction set's version of each fold; `scalar` is the safe reference that tests compare it with. What it
//! gains shows in the bench `pipelines`, lines `sum`.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512d, __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_add_pd, _mm512_and_si512, _mm512_castsi512_pd,
    _mm512_mask_add_pd, _mm512_mask_max_epi64, _mm512_mask_max_epu8, _mm512_mask_max_epu16, _mm512_mask_max_epu32,
    _mm512_mask_min_epi64, _mm512_mask_min_epu8, _mm512_mask_min_epu16, _mm512_mask_min_epu32, _mm512_maskz_add_epi64,
    _mm512_maskz_mov_epi8, _mm512_maskz_mov_epi16, _mm512_maskz_mov_epi32, _mm512_reduce_add_epi32,
    _mm512_reduce_add_epi64, _mm512_reduce_add_pd, _mm512_reduce_max_epi64, _mm512_reduce_min_epi64, _mm512_sad_epu8,
    _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_pd, _mm512_setzero_si512,
    _mm512_srai_epi64, _mm512_srli_epi32, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_xor_si512,
};

use thermocline_column_store::MINI_BLOCK_VALUES;

use crate::kernels::Mask;
use crate::kernels::avx512::{Avx512, load};

/// The words in a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn words<W: Copy + Default, const N: usize>(register: __m512i) -> [W; N] {
    const { assert!(size_of::<[W; N]>() == 64, "a register has 64 bytes") };
    let mut words = [W::default(); N];
    // SAFETY: these are 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast::<__m512i>(), register) };
    words
}

/// The float that each of eight ordinals stands for.
#[inline]
#[target_feature(enable = "avx512f")]
fn floats(ordinals: __m512i) -> __m512d {
    let signs = _mm512_srai_epi64::<63>(ordinals);
    _mm512_castsi512_pd(_mm512_xor_si512(ordinals, _mm512_srli_epi64::<1>(signs)))
}

/// `fold(state, bits, words)` for all words and the mask's bits for them, `$lanes` of type `$bits` at once.
macro_rules! fold {
    ($words:expr, $selected:expr, $lanes:literal, $bits:ty, |$mask:ident, $loaded:ident, $turn:ident| $body:block) => {
        for (at, selected) in $selected.iter().enumerate() {
            for $turn in 0..64 / $lanes {
                let $mask = (selected >> ($turn * $lanes)) as $bits;
                let $loaded = load($words, at * 64 + $turn * $lanes);
                $body
            }
        }
    };
}

/// A kernel with AVX-512 as a method of its proof.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$doc])*
        pub(in crate::kernels) fn $name(self, $($argument: $type),*) -> $result {
            #[target_feature(enable = "avx512f,avx512bw")]
            fn kernel($($argument: $type),*) -> $result $body
            // SAFETY: `self` exists only when the processor has these instructions.
            unsafe { kernel($($argument),*) }
        }
    };
}

impl Avx512 {
    kernel! {
        sum_u8(words: &[u8; MINI_BLOCK_VALUES], selected: &Mask) -> u64 {
            let mut sums = _mm512_setzero_si512();
            fold!(words, selected, 64, u64, |mask, loaded, _turn| {
                let kept = _mm512_maskz_mov_epi8(mask, loaded);
                sums = _mm512_add_epi64(sums, _mm512_sad_epu8(kept, _mm512_setzero_si512()));
            });
            _mm512_reduce_add_epi64(sums) as u64
        }
    }

    kernel! {
        sum_u16(words: &[u16; MINI_BLOCK_VALUES], selected: &Mask) -> u64 {
            // All 1,024 together are below 2^26.
            let low = _mm512_set1_epi32(0xffff);
            let mut sums = [_mm512_setzero_si512(); 2];
            fold!(words, selected, 32, u32, |mask, loaded, turn| {
                let kept = _mm512_maskz_mov_epi16(mask, loaded);
                let both = _mm512_add_epi32(_mm512_and_si512(kept, low), _mm512_srli_epi32::<16>(kept));
                sums[turn % 2] = _mm512_add_epi32(sums[turn % 2], both);
            });
            _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1])) as u64
        }
    }

    kernel! {
        sum_u32(words: &[u32; MINI_BLOCK_VALUES], selected: &Mask) -> u64 {
            let low = _mm512_set1_epi64(0xffff_ffff);
            let mut sums = [_mm512_setzero_si512(); 2];
            fold!(words, selected, 16, u16, |mask, loaded, turn| {
                let kept = _mm512_maskz_mov_epi32(mask, loaded);
                let both = _mm512_add_epi64(_mm512_and_si512(kept, low), _mm512_srli_epi64::<32>(kept));
                sums[turn % 2] = _mm512_add_epi64(sums[turn % 2], both);
            });
            _mm512_reduce_add_epi64(_mm512_add_epi64(sums[0], sums[1])) as u64
        }
    }

    kernel! {
        sum_u64(words: &[u64; MINI_BLOCK_VALUES], base: i64, selected: &Mask) -> i128 {
            // Of the lower and the upper halves apart: 1,024 of either don't overflow.
            let (base, low) = (_mm512_set1_epi64(base), _mm512_set1_epi64(0xffff_ffff));
            let (mut lower, mut upper) = (_mm512_setzero_si512(), _mm512_setzero_si512());
            fold!(words, selected, 8, u8, |mask, loaded, _turn| {
                let kept = _mm512_maskz_add_epi64(mask, loaded, base);
                lower = _mm512_add_epi64(lower, _mm512_and_si512(kept, low));
                upper = _mm512_add_epi64(upper, _mm512_srai_epi64::<32>(kept));
            });
            i128::from(_mm512_reduce_add_epi64(lower)) + (i128::from(_mm512_reduce_add_epi64(upper)) << 32)
        }
    }

    kernel! {
        sum_of_floats(words: &[u64; MINI_BLOCK_VALUES], base: i64, selected: &Mask) -> f64 {
            let base = _mm512_set1_epi64(base);
            // Four, so that none waits for the one before.
            let mut sums = [_mm512_setzero_pd(); 4];
            fold!(words, selected, 8, u8, |mask, loaded, turn| {
                let of_these = floats(_mm512_add_epi64(loaded, base));
                sums[turn % 4] = _mm512_mask_add_pd(sums[turn % 4], mask, sums[turn % 4], of_these);
            });
            let [a, b, c, d] = sums;
            _mm512_reduce_add_pd(_mm512_add_pd(_mm512_add_pd(a, b), _mm512_add_pd(c, d)))
        }
    }

    kernel! {
        /// The greatest that there can be if none is selected.
        least_u64(words: &[u64; MINI_BLOCK_VALUES], base: i64, selected: &Mask) -> i64 {
            let (base, mut least) = (_mm512_set1_epi64(base), _mm512_set1_epi64(i64::MAX));
            fold!(words, selected, 8, u8, |mask, loaded, _turn| {
                least = _mm512_mask_min_epi64(least, mask, least, _mm512_add_epi64(loaded, base));
            });
            _mm512_reduce_min_epi64(least)
        }
    }

    kernel! {
        /// The least that there can be if none is selected.
        greatest_u64(words: &[u64; MINI_BLOCK_VALUES], base: i64, selected: &Mask) -> i64 {
            let (base, mut greatest) = (_mm512_set1_epi64(base), _mm512_set1_epi64(i64::MIN));
            fold!(words, selected, 8, u8, |mask, loaded, _turn| {
                greatest = _mm512_mask_max_epi64(greatest, mask, greatest, _mm512_add_epi64(loaded, base));
            });
            _mm512_reduce_max_epi64(greatest)
        }
    }
}

macro_rules! extremes {
    ($least:ident, $greatest:ident, $word:ty, $lanes:literal, $bits:ty, $set1:ident, $min:ident, $max:ident) => {
        impl Avx512 {
            kernel! {
                $least(all: &[$word; MINI_BLOCK_VALUES], selected: &Mask) -> $word {
                    let mut least = $set1(-1);
                    fold!(all, selected, $lanes, $bits, |mask, loaded, _turn| {
                        least = $min(least, mask, least, loaded);
                    });
                    words::<$word, $lanes>(least).into_iter().fold(<$word>::MAX, <$word>::min)
                }
            }

            kernel! {
                $greatest(all: &[$word; MINI_BLOCK_VALUES], selected: &Mask) -> $word {
                    let mut greatest = $set1(0);
                    fold!(all, selected, $lanes, $bits, |mask, loaded, _turn| {
                        greatest = $max(greatest, mask, greatest, loaded);
                    });
                    words::<$word, $lanes>(greatest).into_iter().fold(0, <$word>::max)
                }
            }
        }
    };
}

extremes!(least_u8, greatest_u8, u8, 64, u64, _mm512_set1_epi8, _mm512_mask_min_epu8, _mm512_mask_max_epu8);
extremes!(least_u16, greatest_u16, u16, 32, u32, _mm512_set1_epi16, _mm512_mask_min_epu16, _mm512_mask_max_epu16);
extremes!(least_u32, greatest_u32, u32, 16, u16, _mm512_set1_epi32, _mm512_mask_min_epu32, _mm512_mask_max_epu32);
