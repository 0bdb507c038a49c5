//! Skipping out of objects and lists 64 bytes a step.
//!
//! **Owns**: [`skip_levels`] with AVX2 and carry-less multiplication, detected at run time. The safe reference is
//! [`skip_levels_by_byte`](super::skip::skip_levels_by_byte), which a test compares it against.
//!
//! Each block becomes bit masks of quotes, backslashes, opening and closing brackets. Escaped quotes drop out by
//! arithmetic on runs of backslashes, a prefix exclusive-or of the rest marks what is inside strings, and only brackets
//! outside of them count (Langdale, Lemire: "Parsing gigabytes of JSON per second", VLDB Journal 2019, §3.1).
//!
//! The block masks find the end of a 400-byte object in about 7 steps, several times faster than bytes
//! (`benches/ndjson.rs`).

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi8, _mm256_cmpeq_epi8,
    _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
};

use super::skip::{Levels, Outcome};

const BLOCK_BYTES: usize = 64;

/// As the reference; None on machines without the instructions.
#[inline]
pub(super) fn skip_levels(buf: &[u8], pos: usize, end: usize, levels: Levels) -> Option<Outcome> {
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the instructions that the function is compiled for are there.
        Some(unsafe { skip_blocks(buf, pos, end, levels) })
    } else {
        None
    }
}

#[target_feature(enable = "avx2,pclmulqdq,bmi1,popcnt")]
fn skip_blocks(buf: &[u8], mut pos: usize, end: usize, mut levels: Levels) -> Outcome {
    let mut inside_string = 0_u64; // all ones when the block before ended inside a string
    let mut escaped_first = 0_u64; // one when the block before ended with an open escape
    let mut padded = [0_u8; BLOCK_BYTES];
    while pos < end {
        let block = match buf.get(pos..).and_then(|rest| rest.first_chunk::<BLOCK_BYTES>()) {
            Some(block) => block,
            None => {
                let rest = &buf[pos..];
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            }
        };
        let masks = masks(block);
        let mut quotes = masks.quotes & !escaped(masks.backslashes, &mut escaped_first);
        let mut opening = masks.opening;
        let mut closing = masks.closing;
        if end - pos < BLOCK_BYTES {
            let valid = (1_u64 << (end - pos)) - 1;
            quotes &= valid;
            opening &= valid;
            closing &= valid;
        }
        let strings = prefix_xor(quotes) ^ inside_string;
        inside_string = ((strings as i64) >> 63) as u64;
        opening &= !strings;
        closing &= !strings;
        if opening == 0 {
            let count = closing.count_ones();
            if count < levels.open {
                levels.open -= count;
            } else {
                for _ in 1..levels.open {
                    closing &= closing - 1;
                }
                return Outcome::Closed(pos + closing.trailing_zeros() as usize);
            }
        } else {
            let mut brackets = opening | closing;
            while brackets != 0 {
                let at = brackets.trailing_zeros();
                if closing >> at & 1 == 1 {
                    levels.open -= 1;
                    if levels.open == 0 {
                        return Outcome::Closed(pos + at as usize);
                    }
                } else {
                    levels.open += 1;
                    if levels.is_too_deep() {
                        return Outcome::TooDeep(pos + at as usize);
                    }
                }
                brackets &= brackets - 1;
            }
        }
        pos += BLOCK_BYTES;
    }
    Outcome::Unclosed
}

/// Bit i speaks of byte i of a block.
struct Masks {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
}

#[inline]
#[target_feature(enable = "avx2")]
fn masks(block: &[u8; BLOCK_BYTES]) -> Masks {
    // SAFETY: two unaligned loads of the 64 bytes of `block`.
    let (low, high): (__m256i, __m256i) = unsafe {
        let start = block.as_ptr();
        (_mm256_loadu_si256(start.cast()), _mm256_loadu_si256(start.add(32).cast()))
    };
    // Bit 5 apart, '[' is '{' and ']' is '}'.
    let bit = _mm256_set1_epi8(0x20);
    let (low_folded, high_folded) = (_mm256_or_si256(low, bit), _mm256_or_si256(high, bit));
    Masks {
        quotes: equal(low, high, b'"'),
        backslashes: equal(low, high, b'\\'),
        opening: equal(low_folded, high_folded, b'{'),
        closing: equal(low_folded, high_folded, b'}'),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn equal(low: __m256i, high: __m256i, byte: u8) -> u64 {
    let wanted = _mm256_set1_epi8(byte as i8);
    let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted)) as u32;
    let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)) as u32;
    u64::from(high) << 32 | u64::from(low)
}

/// Which bytes an odd run of backslashes escapes. `carry` is one when the first byte is escaped by the block before.
#[inline]
fn escaped(backslashes: u64, carry: &mut u64) -> u64 {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    if backslashes == 0 {
        return std::mem::take(carry);
    }
    let starts = backslashes & !*carry;
    // The subtraction borrows through each run: bytes after it alternate between escape and escaped.
    let alternating = ((starts << 1 | ODD).wrapping_sub(starts)) ^ ODD;
    let escaped = alternating ^ (backslashes | *carry);
    *carry = (alternating & backslashes) >> 63;
    escaped
}

/// Bit i of the result is the parity of bits 0 to i.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn prefix_xor(bits: u64) -> u64 {
    // A carry-less product with all ones adds every bit to all above it.
    let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, bits as i64), _mm_set1_epi8(-1));
    _mm_cvtsi128_si64(product) as u64
}
