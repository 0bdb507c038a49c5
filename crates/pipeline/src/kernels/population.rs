//! Loops that count bits, with the instruction for it: without, a word's bits take a dozen others.
//!
//! Owns: the instruction set's version of the loops in `scalar`, which are compiled a second time here; tests compare
//! the two.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm512_add_epi64, _mm512_and_si512,
    _mm512_cvtepi64_epi16, _mm512_cvtepu16_epi32, _mm512_cvtepu16_epi64, _mm512_loadu_si512, _mm512_permutex2var_epi64,
    _mm512_permutexvar_epi32, _mm512_popcnt_epi64, _mm512_set1_epi64, _mm512_sllv_epi64, _mm512_srli_epi64,
    _mm512_sub_epi64,
};

use super::runs::counted_run_of;
use super::{MASK_WORDS, Mask, RunStarts, scalar};

/// Proof that the processor counts bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Population(());

impl Population {
    /// `None` when the processor lacks it.
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("popcnt").then_some(Self(()))
    }

    pub(super) fn count(self, mask: &Mask) -> usize {
        #[target_feature(enable = "popcnt")]
        fn kernel(mask: &Mask) -> usize {
            scalar::count(mask)
        }
        // SAFETY: `self` exists only when the processor has this instruction.
        unsafe { kernel(mask) }
    }

    pub(super) fn intersect(self, mask: &mut [u64], other: &Mask) -> usize {
        #[target_feature(enable = "popcnt")]
        fn kernel(mask: &mut [u64], other: &Mask) -> usize {
            scalar::intersect(mask, other)
        }
        // SAFETY: as above.
        unsafe { kernel(mask, other) }
    }

    pub(super) fn run_starts(self, mask: Mask) -> RunStarts {
        #[target_feature(enable = "popcnt")]
        fn kernel(mask: Mask) -> RunStarts {
            RunStarts::counted(mask)
        }
        // SAFETY: as above.
        unsafe { kernel(mask) }
    }

    pub(super) fn run_of(self, row: usize, starts: &Mask) -> usize {
        #[target_feature(enable = "popcnt")]
        fn kernel(row: usize, starts: &Mask) -> usize {
            counted_run_of(row, starts)
        }
        // SAFETY: as above.
        unsafe { kernel(row, starts) }
    }

    pub(super) fn runs_of(self, starts: &RunStarts, rows: &[u16], runs: &mut [u16]) {
        #[target_feature(enable = "popcnt")]
        fn kernel(starts: &RunStarts, rows: &[u16], runs: &mut [u16]) {
            starts.each_run_of(rows, runs);
        }
        // SAFETY: as above.
        unsafe { kernel(starts, rows, runs) }
    }

    pub(super) fn ranks(self, places: &[u64], bits: &[u64], before: &[u32], ranks: &mut Vec<u32>) {
        #[target_feature(enable = "popcnt")]
        fn kernel(places: &[u64], bits: &[u64], before: &[u32], ranks: &mut Vec<u32>) {
            scalar::ranks(places, bits, before, ranks);
        }
        // SAFETY: as above.
        unsafe { kernel(places, bits, before, ranks) }
    }
}

/// Proof that the processor counts the bits of eight words at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VectorPopulation(());

/// Rows that are looked up at once.
const ROWS_AT_ONCE: usize = 8;

impl VectorPopulation {
    /// `None` when the processor lacks it.
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        let has_it = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq");
        (has_it && is_x86_feature_detected!("popcnt")).then_some(Self(()))
    }

    pub(super) fn runs_of(self, starts: &RunStarts, rows: &[u16], runs: &mut [u16]) {
        #[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
        fn kernel(starts: &RunStarts, rows: &[u16], runs: &mut [u16]) {
            let (eights, rest) = rows.as_chunks::<ROWS_AT_ONCE>();
            let (to_eights, to_rest) = runs.as_chunks_mut::<ROWS_AT_ONCE>();
            let look_up = LookUp::new(starts);
            for (rows, runs) in eights.iter().zip(to_eights.iter_mut()) {
                look_up.runs_of(rows, runs);
            }
            let to_rest = to_eights.get_mut(eights.len()).map_or(to_rest, |to| to.as_mut_slice());
            starts.each_run_of(rest, to_rest);
        }
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { kernel(starts, rows, runs) }
    }
}

/// Where runs start, in registers that words are taken out of by their places.
struct LookUp {
    words: [__m512i; 2],
    /// How many runs start before each word, in 32 bits.
    before: __m512i,
}

impl LookUp {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(starts: &RunStarts) -> Self {
        let (mask, before) = (starts.mask(), starts.before());
        const { assert!(MASK_WORDS == 16, "two registers of words, one of counts") };
        // SAFETY: the mask has 128 bytes, and there are 32 of counts; the loads need no alignment.
        unsafe {
            let words = mask.as_ptr();
            let words = [_mm512_loadu_si512(words.cast()), _mm512_loadu_si512(words.add(8).cast())];
            let before = _mm512_cvtepu16_epi32(_mm256_loadu_si256(before.as_ptr().cast()));
            Self { words, before }
        }
    }

    /// As [`RunStarts::run_of`], of eight rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    fn runs_of(&self, rows: &[u16; ROWS_AT_ONCE], runs: &mut [u16; ROWS_AT_ONCE]) {
        // SAFETY: these are 16 bytes; the load needs no alignment.
        let rows = _mm512_cvtepu16_epi64(unsafe { _mm_loadu_si128(rows.as_ptr().cast()) });
        let at = _mm512_srli_epi64::<6>(rows);
        let place = _mm512_and_si512(rows, _mm512_set1_epi64(63));
        let word = _mm512_permutex2var_epi64(self.words[0], at, self.words[1]);
        let up_to_here = _mm512_sllv_epi64(word, _mm512_sub_epi64(_mm512_set1_epi64(63), place));
        // The upper half of each number of a word is 0, and what is found there is masked out.
        let before = _mm512_permutexvar_epi32(at, self.before);
        let before = _mm512_and_si512(before, _mm512_set1_epi64(0xffff));
        let started = _mm512_add_epi64(before, _mm512_popcnt_epi64(up_to_here));
        let of_rows = _mm512_cvtepi64_epi16(_mm512_sub_epi64(started, _mm512_set1_epi64(1)));
        // SAFETY: these are 16 bytes; the store needs no alignment.
        unsafe { _mm_storeu_si128(runs.as_mut_ptr().cast(), of_rows) };
    }
}
