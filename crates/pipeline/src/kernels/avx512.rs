//! The kernels with AVX-512: 64 bytes of words a comparison, which gives its bits directly; 16 words a look into a set,
//! if it is not a small one (`permutation`).
//!
//! Owns: the instruction set's version of each kernel; `scalar` is the safe reference that tests compare it with. What
//! it gains shows in the bench `pipelines`, lines `range` and `set`.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm256_loadu_si256, _mm512_add_epi32, _mm512_and_si512, _mm512_cmple_epu8_mask,
    _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask, _mm512_cvtepu8_epi32,
    _mm512_cvtepu16_epi32, _mm512_loadu_si512, _mm512_mask_i32gather_epi32, _mm512_maskz_compress_epi32,
    _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_sllv_epi32,
    _mm512_srli_epi32, _mm512_storeu_si512, _mm512_sub_epi8, _mm512_sub_epi16, _mm512_sub_epi32, _mm512_sub_epi64,
    _mm512_test_epi32_mask, _pdep_u64,
};

use std::mem::MaybeUninit;

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::permutation::Permutation;
use super::{MASK_WORDS, Mask, RunStarts, Words, count, reach};

/// Proof that the processor has AVX-512 with its comparisons of bytes, and what goes with it for single words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx512 {
    permutation: Option<Permutation>,
}

impl Avx512 {
    /// `None` when the processor lacks it.
    pub(super) fn detect() -> Option<Self> {
        let has_vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let has_bits = is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt");
        (has_vectors && has_bits).then(|| Self { permutation: Permutation::detect() })
    }

    /// Puts the bits of `found`, lowest first, in the place of the selected ones, which are at most 64.
    pub(super) fn spread(self, found: u64, selected: &mut [u64]) {
        #[target_feature(enable = "bmi2,popcnt")]
        fn kernel(found: u64, selected: &mut [u64]) {
            let mut taken = 0;
            for word in selected {
                let count = word.count_ones();
                // Past the 64th there are none.
                *word = _pdep_u64(found.wrapping_shr(taken), *word);
                taken += count;
            }
        }
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { kernel(found, selected) }
    }

    /// A bit for each row whose run is found: from a found run's first row to the next run's first the bits are the
    /// difference of the two as powers of two, modulo 2^64, and so are those of all found runs together.
    pub(super) fn rows_of_runs(self, found: &Mask, starts: &RunStarts) -> Mask {
        #[target_feature(enable = "bmi2")]
        fn kernel(found: &Mask, starts: &RunStarts) -> Mask {
            let (mask, before) = (starts.mask(), starts.before());
            let mut rows = [0; MASK_WORDS];
            for (at, word) in rows.iter_mut().enumerate() {
                // The run that the word before ends in, and those that start here. Before the first word there is none, and
                // whatever is taken for it ends at once.
                let first = usize::from(before[at]).wrapping_sub(1);
                let (from, shift) = (first / 64 % MASK_WORDS, first % 64);
                let next = found[(from + 1) % MASK_WORDS];
                let with_before = found[from] >> shift | next << 1 << (63 - shift);
                let found_here = with_before >> 1 | next >> shift << 63;
                // No word waits for another.
                let (ends, begins) = (_pdep_u64(with_before, mask[at]), _pdep_u64(found_here, mask[at]));
                *word = ends.wrapping_sub(begins).wrapping_sub(with_before & 1);
            }
            rows
        }
        // SAFETY: `self` exists only when the processor has these instructions.
        unsafe { kernel(found, starts) }
    }

    /// Which words, `shift` added, are the places of set bits, if that is best found out by permutes: of all, whichever
    /// are selected.
    pub(super) fn permuted(
        self,
        words: Words<'_>,
        selected: Option<&Mask>,
        word_count: usize,
        shift: u64,
        bits: &[u64],
    ) -> Option<Mask> {
        let proof = self.permutation.filter(|proof| proof.is_faster(bits, selected.map(count)))?;
        match words {
            Words::U8(words) => Some(proof.in_set_u8(words, word_count, shift, bits)),
            Words::U16(words) => Some(proof.in_set_u16(words, word_count, shift, bits)),
            Words::Zeros | Words::U32(_) | Words::U64(_) => None,
        }
    }
}

/// 64 bytes of `words` from word `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn load<W: Copy + Into<u64>>(words: &[W; MINI_BLOCK_VALUES], at: usize) -> __m512i {
    let loaded = &words[at..at + 64 / size_of::<W>()];
    // SAFETY: these are 64 bytes of integers; the load needs no alignment.
    unsafe { _mm512_loadu_si512(loaded.as_ptr().cast::<__m512i>()) }
}

macro_rules! retain_in_range {
    ($name:ident, $word:ty, $signed:ty, $lanes:literal, $set1:ident, $sub:ident, $compare:ident) => {
        impl Avx512 {
            pub(super) fn $name(
                self,
                words: &[$word; MINI_BLOCK_VALUES],
                low: $word,
                span: $word,
                mask: &mut [u64],
            ) -> usize {
                #[target_feature(enable = "avx512f,avx512bw,popcnt")]
                fn kernel(words: &[$word; MINI_BLOCK_VALUES], (low, span): ($word, $word), mask: &mut [u64]) -> usize {
                    let (low, span) = ($set1(low as $signed), $set1(span as $signed));
                    let mut count = 0;
                    for (at, word) in mask.iter_mut().take(MASK_WORDS).enumerate() {
                        let mut inside = 0;
                        for group in 0..64 / $lanes {
                            let distance = $sub(load(words, at * 64 + group * $lanes), low);
                            inside |= u64::from($compare(distance, span)) << (group * $lanes);
                        }
                        *word &= inside;
                        count += word.count_ones() as usize;
                    }
                    count
                }
                // SAFETY: `self` exists only when the processor has these instructions.
                unsafe { kernel(words, (low, span), mask) }
            }
        }
    };
}

retain_in_range!(retain_in_range_u8, u8, i8, 64, _mm512_set1_epi8, _mm512_sub_epi8, _mm512_cmple_epu8_mask);
retain_in_range!(retain_in_range_u16, u16, i16, 32, _mm512_set1_epi16, _mm512_sub_epi16, _mm512_cmple_epu16_mask);
retain_in_range!(retain_in_range_u32, u32, i32, 16, _mm512_set1_epi32, _mm512_sub_epi32, _mm512_cmple_epu32_mask);
retain_in_range!(retain_in_range_u64, u64, i64, 8, _mm512_set1_epi64, _mm512_sub_epi64, _mm512_cmple_epu64_mask);

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

/// What words are looked for, in every lane.
#[derive(Clone, Copy)]
struct Sought {
    low: __m512i,
    span: __m512i,
    shift: __m512i,
}

impl Sought {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new((low, span): (u32, u32), shift: u64) -> Self {
        let [low, span, shift] = [low, span, shift as u32].map(|number| _mm512_set1_epi32(number as i32));
        Self { low, span, shift }
    }

    /// Which of 16 words are the places of set bits when the shift is added.
    ///
    /// # Safety
    /// The words from `low` to `low + span` are places of `bits` when `shift` is added modulo 2^32.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn are_in(self, bits: &[u64], words: __m512i) -> u16 {
        let inside = _mm512_cmple_epu32_mask(_mm512_sub_epi32(words, self.low), self.span);
        let place = _mm512_add_epi32(words, self.shift);
        // SAFETY: lanes outside the set are masked out and not loaded; the others' 32-bit words lie in `bits`, whose
        // words are little-endian on x86, so that bit `p` is bit `p % 32` of 32-bit word `p / 32`.
        let found = unsafe {
            let halves = bits.as_ptr().cast::<i32>();
            _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), inside, _mm512_srli_epi32::<5>(place), halves)
        };
        let wanted = _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_and_si512(place, _mm512_set1_epi32(31)));
        _mm512_test_epi32_mask(found, wanted)
    }
}

macro_rules! in_set {
    ($name:ident, $name_of:ident, $word:tt) => {
        impl Avx512 {
            /// Of the first `word_count` words of the mask; `bits` are at most [`super::MAX_GATHERED_WORDS`].
            pub(super) fn $name(
                self,
                words: &[$word; MINI_BLOCK_VALUES],
                word_count: usize,
                shift: u64,
                bits: &[u64],
            ) -> Mask {
                /// See [`Sought::are_in`].
                #[target_feature(enable = "avx512f,avx512bw")]
                unsafe fn kernel(
                    words: &[$word; MINI_BLOCK_VALUES],
                    word_count: usize,
                    sought: Sought,
                    bits: &[u64],
                ) -> Mask {
                    let mut mask = [0; MASK_WORDS];
                    for (at, word) in mask.iter_mut().take(word_count).enumerate() {
                        for group in 0..4 {
                            let words = sixteen!($word, words, at * 64 + group * 16);
                            // SAFETY: as the caller promises.
                            *word |= u64::from(unsafe { sought.are_in(bits, words) }) << (group * 16);
                        }
                    }
                    mask
                }
                match reach(shift, bits) {
                    // SAFETY: `self` exists only when the processor has these instructions; by these bounds all places
                    // that are loaded are in `bits`, and within reach of a gather.
                    Some(reach) => unsafe { kernel(words, word_count, Sought::new(reach, shift), bits) },
                    None => [0; MASK_WORDS],
                }
            }

            /// The same of the selected words, which are laid together first; of others no bit is set.
            pub(super) fn $name_of(
                self,
                words: &[$word; MINI_BLOCK_VALUES],
                selected: &Mask,
                shift: u64,
                bits: &[u64],
            ) -> Mask {
                /// See [`Sought::are_in`].
                #[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
                unsafe fn kernel(
                    words: &[$word; MINI_BLOCK_VALUES],
                    selected: &Mask,
                    reach: (u32, u32),
                    shift: u64,
                    bits: &[u64],
                ) -> Mask {
                    let mut together = Together::new();
                    for (at, selected) in selected.iter().enumerate() {
                        for group in 0..4 {
                            let words = sixteen!($word, words, at * 64 + group * 16);
                            together.push((selected >> (group * 16)) as u16, words);
                        }
                    }
                    // SAFETY: as the caller promises.
                    unsafe { together.in_set(selected, Sought::new(reach, shift), bits) }
                }
                match reach(shift, bits) {
                    // SAFETY: as above.
                    Some(reach) => unsafe { kernel(words, selected, reach, shift, bits) },
                    None => [0; MASK_WORDS],
                }
            }
        }
    };
}

in_set!(in_set_u8, in_set_of_u8, u8);
in_set!(in_set_u16, in_set_of_u16, u16);
in_set!(in_set_u32, in_set_of_u32, u32);

/// Selected words, one behind the other, and behind the last one what is none of them, up to the end of its sixteen.
struct Together {
    words: [MaybeUninit<u32>; MINI_BLOCK_VALUES + 16],
    count: usize,
}

impl Together {
    #[inline]
    fn new() -> Self {
        // To fill all with zeros takes as long as to look for fifty words.
        Self { words: [const { MaybeUninit::uninit() }; MINI_BLOCK_VALUES + 16], count: 0 }
    }

    /// Writes sixteen words behind the others.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(&mut self, words: __m512i) {
        let to = &mut self.words[self.count..self.count + 16];
        // SAFETY: these are 64 bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) };
    }

    /// Appends the selected ones of 16 words.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn push(&mut self, selected: u16, words: __m512i) {
        self.store(_mm512_maskz_compress_epi32(selected, words));
        self.count += selected.count_ones() as usize;
    }

    /// Which of the selected words are in a set, as bits at their places.
    ///
    /// # Safety
    /// That of [`Sought::are_in`].
    #[inline]
    #[target_feature(enable = "avx512f,bmi2,popcnt")]
    unsafe fn in_set(&mut self, selected: &Mask, sought: Sought, bits: &[u64]) -> Mask {
        self.store(_mm512_setzero_si512());
        let mut found = [0u64; MASK_WORDS + 1];
        for group in 0..self.count.div_ceil(16) {
            let loaded = &self.words[group * 16..group * 16 + 16];
            // SAFETY: these are 64 bytes, of which those behind the last word were written now; the load needs no
            // alignment. For the rest, as the caller promises.
            let in_set = unsafe { sought.are_in(bits, _mm512_loadu_si512(loaded.as_ptr().cast())) };
            found[group / 4] |= u64::from(in_set) << (group % 4 * 16);
        }
        let mut taken = 0;
        let mut mask = [0; MASK_WORDS];
        for (word, selected) in mask.iter_mut().zip(selected) {
            let (at, shift) = (taken / 64, taken % 64);
            let rest = if shift == 0 { 0 } else { found[at + 1] << (64 - shift) };
            *word = _pdep_u64(found[at] >> shift | rest, *selected);
            taken += selected.count_ones() as usize;
        }
        mask
    }
}
