//! How many bits of a mini-block are set, with the instruction for it: without, a word's bits take a dozen others.
//!
//! **Concurrency**: a plain function.
#![allow(unsafe_code)]

use crate::MINI_BLOCK_VALUES;

/// How many bits are set, of one for each value of a mini-block.
pub(crate) fn count_ones(bits: &[u8; MINI_BLOCK_VALUES / 8]) -> usize {
    #[inline(always)]
    fn any(bits: &[u8; MINI_BLOCK_VALUES / 8]) -> usize {
        bits.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word).count_ones() as usize).sum()
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        #[target_feature(enable = "popcnt")]
        fn counted(bits: &[u8; MINI_BLOCK_VALUES / 8]) -> usize {
            any(bits)
        }
        // SAFETY: the processor has this instruction.
        return unsafe { counted(bits) };
    }
    any(bits)
}
