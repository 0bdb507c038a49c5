//! The kernels with AVX2: 32 bytes of words a comparison, 8 words a look into a set.
//!
//! Owns: the instruction set's version of each kernel; `scalar` is the safe reference that tests compare it with. What
//! it gains shows in the bench `pipelines`, lines `range` and `set`.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmpeq_epi8,
    _mm256_cmpeq_epi16, _mm256_cmpeq_epi32, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_mask_i32gather_epi32,
    _mm256_min_epu8, _mm256_min_epu16, _mm256_min_epu32, _mm256_movemask_epi8, _mm256_movemask_pd, _mm256_movemask_ps,
    _mm256_packs_epi16, _mm256_permute4x64_epi64, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_sub_epi8, _mm256_sub_epi16,
    _mm256_sub_epi32, _mm256_sub_epi64, _mm256_xor_si256,
};

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::{MASK_WORDS, Mask, reach, scalar};

/// Proof that the processor has AVX2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx2(());

impl Avx2 {
    /// `None` when the processor lacks it.
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// The reference's loop, compiled for wider registers.
    pub(super) fn narrow(self, values: &[i64], words: &mut [u32; MINI_BLOCK_VALUES]) -> Option<i64> {
        #[target_feature(enable = "avx2")]
        fn kernel(values: &[i64], words: &mut [u32; MINI_BLOCK_VALUES]) -> Option<i64> {
            scalar::narrow(values, words)
        }
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { kernel(values, words) }
    }

    pub(super) fn in_range_u8(self, words: &[u8; MINI_BLOCK_VALUES], low: u8, span: u8) -> Mask {
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { in_range_u8(words, low, span) }
    }

    pub(super) fn in_range_u16(self, words: &[u16; MINI_BLOCK_VALUES], low: u16, span: u16) -> Mask {
        // SAFETY: as above.
        unsafe { in_range_u16(words, low, span) }
    }

    pub(super) fn in_range_u32(self, words: &[u32; MINI_BLOCK_VALUES], low: u32, span: u32) -> Mask {
        // SAFETY: as above.
        unsafe { in_range_u32(words, low, span) }
    }

    pub(super) fn in_range_u64(self, words: &[u64; MINI_BLOCK_VALUES], low: u64, span: u64) -> Mask {
        // SAFETY: as above.
        unsafe { in_range_u64(words, low, span) }
    }

    /// Words of 8 and 16 bits are widened first: there are no narrower gathers. `bits` are at most
    /// [`super::MAX_GATHERED_WORDS`].
    pub(super) fn in_set_narrow<W: Copy + Into<u32>>(
        self,
        words: &[W; MINI_BLOCK_VALUES],
        shift: u64,
        bits: &[u64],
    ) -> Mask {
        let mut wide = [0; MINI_BLOCK_VALUES];
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { widen(words, &mut wide) };
        self.in_set_u32(&wide, shift, bits)
    }

    /// `bits` are at most [`super::MAX_GATHERED_WORDS`].
    pub(super) fn in_set_u32(self, words: &[u32; MINI_BLOCK_VALUES], shift: u64, bits: &[u64]) -> Mask {
        let Some((low, span)) = reach(shift, bits) else { return [0; MASK_WORDS] };
        // SAFETY: as above; by these bounds all places that are loaded are in `bits`, and within reach of a gather.
        unsafe { in_set(words, low, span, shift as u32, bits) }
    }
}

/// 32 bytes of `words` from word `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn load<W: Copy + Into<u64>>(words: &[W; MINI_BLOCK_VALUES], at: usize) -> __m256i {
    let loaded = &words[at..at + 32 / size_of::<W>()];
    // SAFETY: these are 32 bytes of integers; the load needs no alignment.
    unsafe { _mm256_loadu_si256(loaded.as_ptr().cast::<__m256i>()) }
}

#[target_feature(enable = "avx2")]
fn in_range_u8(words: &[u8; MINI_BLOCK_VALUES], low: u8, span: u8) -> Mask {
    let (low, span) = (_mm256_set1_epi8(low as i8), _mm256_set1_epi8(span as i8));
    let bits = |at: usize| {
        let distance = _mm256_sub_epi8(load(words, at), low);
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(distance, span), distance)) as u32
    };
    let mut mask = [0; MASK_WORDS];
    for (at, word) in mask.iter_mut().enumerate() {
        *word = u64::from(bits(at * 64)) | u64::from(bits(at * 64 + 32)) << 32;
    }
    mask
}

#[target_feature(enable = "avx2")]
fn in_range_u16(words: &[u16; MINI_BLOCK_VALUES], low: u16, span: u16) -> Mask {
    let (low, span) = (_mm256_set1_epi16(low as i16), _mm256_set1_epi16(span as i16));
    let within = |at: usize| {
        let distance = _mm256_sub_epi16(load(words, at), low);
        _mm256_cmpeq_epi16(_mm256_min_epu16(distance, span), distance)
    };
    // Packing works in each half of the register: the quarters come out as 0, 2, 1, 3.
    let bits = |at: usize| {
        let packed = _mm256_packs_epi16(within(at), within(at + 16));
        _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed)) as u32
    };
    let mut mask = [0; MASK_WORDS];
    for (at, word) in mask.iter_mut().enumerate() {
        *word = u64::from(bits(at * 64)) | u64::from(bits(at * 64 + 32)) << 32;
    }
    mask
}

#[target_feature(enable = "avx2")]
fn in_range_u32(words: &[u32; MINI_BLOCK_VALUES], low: u32, span: u32) -> Mask {
    let (low, span) = (_mm256_set1_epi32(low as i32), _mm256_set1_epi32(span as i32));
    let bits = |at: usize| {
        let distance = _mm256_sub_epi32(load(words, at), low);
        let within = _mm256_cmpeq_epi32(_mm256_min_epu32(distance, span), distance);
        _mm256_movemask_ps(_mm256_castsi256_ps(within)) as u64
    };
    let mut mask = [0; MASK_WORDS];
    for (at, word) in mask.iter_mut().enumerate() {
        *word = (0..8).fold(0, |word, group| word | bits(at * 64 + group * 8) << (group * 8));
    }
    mask
}

#[target_feature(enable = "avx2")]
fn in_range_u64(words: &[u64; MINI_BLOCK_VALUES], low: u64, span: u64) -> Mask {
    // There is only a signed comparison: the highest bit is turned on both sides.
    let flip = _mm256_set1_epi64x(i64::MIN);
    let (low, span) = (_mm256_set1_epi64x(low as i64), _mm256_xor_si256(_mm256_set1_epi64x(span as i64), flip));
    let outside = |at: usize| {
        let distance = _mm256_xor_si256(_mm256_sub_epi64(load(words, at), low), flip);
        _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(distance, span))) as u64
    };
    let mut mask = [0; MASK_WORDS];
    for (at, word) in mask.iter_mut().enumerate() {
        *word = !(0..16).fold(0, |word, group| word | outside(at * 64 + group * 4) << (group * 4));
    }
    mask
}

#[target_feature(enable = "avx2")]
fn widen<W: Copy + Into<u32>>(words: &[W; MINI_BLOCK_VALUES], wide: &mut [u32; MINI_BLOCK_VALUES]) {
    for (wide, word) in wide.iter_mut().zip(words) {
        *wide = (*word).into();
    }
}

/// The words from `low` to `low + span`, and no others, are places of `bits` when `shift` is added modulo 2^32.
#[target_feature(enable = "avx2")]
unsafe fn in_set(words: &[u32; MINI_BLOCK_VALUES], low: u32, span: u32, shift: u32, bits: &[u64]) -> Mask {
    let (low, span) = (_mm256_set1_epi32(low as i32), _mm256_set1_epi32(span as i32));
    let shift = _mm256_set1_epi32(shift as i32);
    let within_word = _mm256_set1_epi32(31);
    let looked_up = |at: usize| {
        let words = load(words, at);
        let distance = _mm256_sub_epi32(words, low);
        let inside = _mm256_cmpeq_epi32(_mm256_min_epu32(distance, span), distance);
        let place = _mm256_add_epi32(words, shift);
        // SAFETY: lanes outside the set are masked out and not loaded; the others' 32-bit words lie in `bits`, whose
        // words are little-endian on x86, so that bit `p` is bit `p % 32` of 32-bit word `p / 32`.
        let found = unsafe {
            let halves = bits.as_ptr().cast::<i32>();
            _mm256_mask_i32gather_epi32::<4>(_mm256_setzero_si256(), halves, _mm256_srli_epi32::<5>(place), inside)
        };
        // The wanted bit goes to the lane's highest, which is what `movemask` takes.
        let left = _mm256_sub_epi32(within_word, _mm256_and_si256(place, within_word));
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_sllv_epi32(found, left))) as u64
    };
    let mut mask = [0; MASK_WORDS];
    for (at, word) in mask.iter_mut().enumerate() {
        *word = (0..8).fold(0, |word, group| word | looked_up(at * 64 + group * 8) << (group * 8));
    }
    mask
}
