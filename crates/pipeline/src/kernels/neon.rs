//! The kernels with NEON: 16 bytes of words a comparison, 64 bits of a mask at once.
//!
//! Owns: the instruction set's version of the comparison with a range; `scalar` is the safe reference that tests compare
//! it with. There are no gathers, so that the reference looks into sets. What it gains shows in the bench `pipelines`,
//! lines `range`.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use std::arch::aarch64::{
    uint8x16_t, uint16x8_t, uint32x4_t, uint64x2_t, vandq_u8, vcleq_u8, vcleq_u16, vcleq_u32, vcleq_u64, vcombine_u8,
    vcombine_u16, vcombine_u32, vdupq_n_u8, vdupq_n_u16, vdupq_n_u32, vdupq_n_u64, vgetq_lane_u64, vld1q_u8, vld1q_u16,
    vld1q_u32, vld1q_u64, vmovn_u16, vmovn_u32, vmovn_u64, vpaddq_u8, vreinterpretq_u64_u8, vsubq_u8, vsubq_u16,
    vsubq_u32, vsubq_u64,
};

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::{MASK_WORDS, Mask};

/// Proof that the processor has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Neon(());

macro_rules! in_range {
    ($name:ident, $word:ty, $within:ident) => {
        pub(super) fn $name(self, words: &[$word; MINI_BLOCK_VALUES], low: $word, span: $word) -> Mask {
            // SAFETY: `self` exists only when the processor has these instructions.
            unsafe { mask_of(|at| $within(words, at, low, span)) }
        }
    };
}

impl Neon {
    /// `None` when the processor lacks it.
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }

    in_range!(in_range_u8, u8, within_u8);
    in_range!(in_range_u16, u16, within_u16);
    in_range!(in_range_u32, u32, within_u32);
    in_range!(in_range_u64, u64, within_u64);
}

/// Of every 64 words a bit each; `within` has a byte of ones or zeros for each of 16 words from a place on.
#[inline]
#[target_feature(enable = "neon")]
fn mask_of(within: impl Fn(usize) -> uint8x16_t) -> Mask {
    const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: 16 bytes.
    let weights = unsafe { vld1q_u8(WEIGHTS.as_ptr()) };
    let mut mask = [0; MASK_WORDS];
    for (at, word) in mask.iter_mut().enumerate() {
        let [a, b, c, d] = [0, 16, 32, 48].map(|part| vandq_u8(within(at * 64 + part), weights));
        // Three times neighbours are added: eight bytes of one bit each become one.
        let sums = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
        *word = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)));
    }
    mask
}

macro_rules! outcome {
    ($name:ident, $word:ty, $vector:ty, $load:ident, $less:ident, $is_at_most:ident, $all:ident) => {
        /// Ones for each word from place `at` on that is `low` to `low + span`, as many as a register holds.
        #[inline]
        #[target_feature(enable = "neon")]
        fn $name(words: &[$word; MINI_BLOCK_VALUES], at: usize, low: $word, span: $word) -> $vector {
            let loaded = &words[at..at + 16 / size_of::<$word>()];
            // SAFETY: these are 16 bytes of integers; the load needs no alignment.
            let loaded = unsafe { $load(loaded.as_ptr()) };
            $is_at_most($less(loaded, $all(low)), $all(span))
        }
    };
}

outcome!(within_u8, u8, uint8x16_t, vld1q_u8, vsubq_u8, vcleq_u8, vdupq_n_u8);
outcome!(eight, u16, uint16x8_t, vld1q_u16, vsubq_u16, vcleq_u16, vdupq_n_u16);
outcome!(four, u32, uint32x4_t, vld1q_u32, vsubq_u32, vcleq_u32, vdupq_n_u32);
outcome!(two, u64, uint64x2_t, vld1q_u64, vsubq_u64, vcleq_u64, vdupq_n_u64);

#[inline]
#[target_feature(enable = "neon")]
fn bytes(first: uint16x8_t, second: uint16x8_t) -> uint8x16_t {
    vcombine_u8(vmovn_u16(first), vmovn_u16(second))
}

#[inline]
#[target_feature(enable = "neon")]
fn halves(first: uint32x4_t, second: uint32x4_t) -> uint16x8_t {
    vcombine_u16(vmovn_u32(first), vmovn_u32(second))
}

#[inline]
#[target_feature(enable = "neon")]
fn within_u16(words: &[u16; MINI_BLOCK_VALUES], at: usize, low: u16, span: u16) -> uint8x16_t {
    bytes(eight(words, at, low, span), eight(words, at + 8, low, span))
}

#[inline]
#[target_feature(enable = "neon")]
fn within_u32(words: &[u32; MINI_BLOCK_VALUES], at: usize, low: u32, span: u32) -> uint8x16_t {
    let [a, b, c, d] = [0, 4, 8, 12].map(|part| four(words, at + part, low, span));
    bytes(halves(a, b), halves(c, d))
}

#[inline]
#[target_feature(enable = "neon")]
fn within_u64(words: &[u64; MINI_BLOCK_VALUES], at: usize, low: u64, span: u64) -> uint8x16_t {
    let pair = |part: usize| {
        let (first, second) = (two(words, at + part, low, span), two(words, at + part + 2, low, span));
        vcombine_u32(vmovn_u64(first), vmovn_u64(second))
    };
    bytes(halves(pair(0), pair(4)), halves(pair(8), pair(12)))
}
