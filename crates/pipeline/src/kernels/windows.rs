//! Comparing a few words at once, with instructions that every processor of its kind has.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

/// Words that are compared at once.
pub(crate) const WINDOW: usize = 4;

/// The place of the first of some words that is `word`; their number if none is.
#[inline(always)]
pub(crate) fn first_equal(words: &[u32; WINDOW], word: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_ps, _mm_set1_epi32,
        };
        // SAFETY: 16 bytes are read, which the words are; the instructions are of SSE2, which x86-64 has.
        let equal = unsafe {
            let words = _mm_loadu_si128(words.as_ptr().cast::<__m128i>());
            _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(words, _mm_set1_epi32(word as i32))))
        };
        (equal as u32 | 1 << WINDOW).trailing_zeros()
    }
    #[cfg(not(target_arch = "x86_64"))]
    first_equal_scalar(words, word)
}

/// The reference.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn first_equal_scalar(words: &[u32; WINDOW], word: u32) -> u32 {
    words.iter().position(|held| *held == word).unwrap_or(WINDOW) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_words_is_found() {
        for pattern in 0..3u32.pow(WINDOW as u32) {
            let words = std::array::from_fn(|at| pattern / 3u32.pow(at as u32) % 3);
            for word in 0..3 {
                assert_eq!(first_equal(&words, word), first_equal_scalar(&words, word), "{word} of {words:?}");
            }
        }
    }
}
