//! How many bits of mini-blocks are set, with the instructions for it: without, a word's bits take a dozen others.
//!
//! **Concurrency**: a plain function.
#![allow(unsafe_code)]

use crate::MINI_BLOCK_VALUES;

/// A bit for each value of a mini-block.
type Bits = [u8; MINI_BLOCK_VALUES / 8];

/// Writes of each mini-block how many bits are set, of as many as there is room for.
pub(crate) fn count_ones(blocks: &[Bits], counts: &mut [u16]) {
    #[inline(always)]
    fn any(blocks: &[Bits], counts: &mut [u16]) {
        for (bits, count) in blocks.iter().zip(counts) {
            let words = bits.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            *count = words.map(|word| u64::from(word.count_ones())).sum::<u64>() as u16;
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "popcnt")]
        fn counted(blocks: &[Bits], counts: &mut [u16]) {
            any(blocks, counts);
        }
        #[target_feature(enable = "avx512f,avx512vpopcntdq")]
        fn counted_by_eights(blocks: &[Bits], counts: &mut [u16]) {
            any(blocks, counts);
        }
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: the processor has these instructions.
            return unsafe { counted_by_eights(blocks, counts) };
        }
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: as above.
            return unsafe { counted(blocks, counts) };
        }
    }
    any(blocks, counts);
}
