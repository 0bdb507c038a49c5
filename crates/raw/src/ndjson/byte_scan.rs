//! Finding the next interesting byte: ends of strings and of scalars.
//!
//! **Owns**: the shortest loops of the scanner, sixteen bytes a step on x86-64, byte by byte elsewhere.
//!
//! **Invariants**: `end` is the end of the record, at most the buffer's length. Nothing at or beyond `end` is ever
//! reported, though bytes there may be looked at. A position past the buffer reads as a zero byte, which no grammar
//! rule accepts.
//!
//! Values of real records are mostly shorter than sixteen bytes: one load, one mask and a trailing-zero count find
//! their end without a branch on their length, where a byte loop mispredicts once a value.

#![allow(unsafe_code)]

use super::bad::{Bad, What};

/// The byte at `pos`, zero past the buffer.
#[inline(always)]
pub(super) fn byte(buf: &[u8], pos: usize) -> u8 {
    buf.get(pos).copied().unwrap_or(0)
}

/// The first position from `pos` on that is no space, tab or carriage return.
#[inline(always)]
pub(super) fn skip_space(buf: &[u8], mut pos: usize) -> usize {
    while matches!(byte(buf, pos), b' ' | b'\t' | b'\r') {
        pos += 1;
    }
    pos
}

/// Whether a scalar ends before this byte: a comma, a closing bracket or brace, white space, the buffer's end.
#[inline(always)]
pub(super) fn is_delimiter(byte: u8) -> bool {
    byte == b',' || byte | 0x20 == b'}' || byte <= b' '
}

/// Position of the quote that ends the string whose first content byte is at `pos`, and whether it holds escapes.
#[inline(always)]
pub(super) fn string_end(buf: &[u8], pos: usize, end: usize) -> Result<(usize, bool), Bad> {
    let mut at = quote_or_backslash(buf, pos, end);
    let mut has_escape = false;
    loop {
        if at >= end {
            return Err(Bad::new(pos.saturating_sub(1), What::ClosingQuote));
        }
        if buf[at] == b'"' {
            return Ok((at, has_escape));
        }
        has_escape = true;
        at = quote_or_backslash(buf, at + 2, end);
    }
}

/// The first quote or backslash from `pos` on, or some position at or after `end`.
#[inline(always)]
fn quote_or_backslash(buf: &[u8], mut pos: usize, end: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    while pos < end {
        let Some(chunk) = buf.get(pos..).and_then(|rest| rest.first_chunk::<16>()) else { break };
        let mask = quote_or_backslash_mask(chunk);
        if mask != 0 {
            return pos + mask.trailing_zeros() as usize;
        }
        pos += 16;
    }
    quote_or_backslash_by_byte(buf, pos, end)
}

#[inline]
fn quote_or_backslash_by_byte(buf: &[u8], mut pos: usize, end: usize) -> usize {
    while pos < end && !matches!(buf[pos], b'"' | b'\\') {
        pos += 1;
    }
    pos
}

/// The end of the number or literal at `pos`: the first delimiter, at most `end`.
#[inline(always)]
pub(super) fn scalar_end(buf: &[u8], mut pos: usize, end: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    while pos < end {
        let Some(chunk) = buf.get(pos..).and_then(|rest| rest.first_chunk::<16>()) else { break };
        let mask = delimiter_mask(chunk);
        if mask != 0 {
            return (pos + mask.trailing_zeros() as usize).min(end);
        }
        pos += 16;
    }
    scalar_end_by_byte(buf, pos, end)
}

/// Bytes of a string that are looked at together.
pub(super) const PLAIN_STEP: usize = 32;

/// How many bytes from the first one on stand for themselves and are ASCII: those before a quote or a backslash.
#[inline(always)]
pub(super) fn plain_length(step: &[u8; PLAIN_STEP]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let (low, high) = step.split_at(PLAIN_STEP / 2);
        let mask = |half: &[u8]| half.first_chunk().map_or(0, plain_end_mask);
        (mask(low) | mask(high) << 16).trailing_zeros() as usize
    }
    #[cfg(not(target_arch = "x86_64"))]
    plain_length_by_byte(step)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_length_by_byte(step: &[u8; PLAIN_STEP]) -> usize {
    step.iter().position(|byte| matches!(byte, b'"' | b'\\') || !byte.is_ascii()).unwrap_or(PLAIN_STEP)
}

#[inline]
fn scalar_end_by_byte(buf: &[u8], mut pos: usize, end: usize) -> usize {
    while pos < end && !is_delimiter(buf[pos]) {
        pos += 1;
    }
    pos.min(end)
}

/// Bit i is set where byte i is a quote or a backslash.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn quote_or_backslash_mask(chunk: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86-64, and the load reads the 16 bytes of `chunk`, needing no alignment. Gains about a
    // third of the time of walking records of short fields (`benches/ndjson.rs`).
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        _mm_movemask_epi8(_mm_or_si128(quotes, backslashes)) as u32
    }
}

/// Bit i is set where byte i is a quote, a backslash or not ASCII.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn plain_end_mask(chunk: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    // SAFETY: as in `quote_or_backslash_mask`.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        // The mask takes the uppermost bit of each byte, which ASCII has not.
        _mm_movemask_epi8(_mm_or_si128(bytes, _mm_or_si128(quotes, backslashes))) as u32
    }
}

/// Bit i is set where [`is_delimiter`] holds for byte i.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn delimiter_mask(chunk: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: as in `quote_or_backslash_mask`.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let space = _mm_set1_epi8(b' ' as i8);
        let commas = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b',' as i8));
        let closers = _mm_cmpeq_epi8(_mm_or_si128(bytes, space), _mm_set1_epi8(b'}' as i8));
        let blanks = _mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(commas, closers), blanks)) as u32
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_bytes_find_the_same_ends() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..20_000 {
            let mut next = |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % bound
            };
            let len = next(80) as usize;
            let alphabet = b"aaaaaaaaaaaaaaaa01\"\\,}] \t\r{[\x00\xff\xa2\xdc";
            let buf: Vec<u8> = (0..len).map(|_| alphabet[next(alphabet.len() as u64) as usize]).collect();
            let end = next(len as u64 + 1) as usize;
            let pos = next(end as u64 + 1) as usize;
            let scalar = scalar_end(&buf, pos, end);
            assert_eq!(scalar, scalar_end_by_byte(&buf, pos, end), "{buf:?} {pos} {end}");
            let quote = quote_or_backslash(&buf, pos, end).min(end);
            assert_eq!(quote, quote_or_backslash_by_byte(&buf, pos, end), "{buf:?} {pos} {end}");
            if let Some(step) = buf.first_chunk() {
                assert_eq!(plain_length(step), plain_length_by_byte(step), "{step:?}");
            }
        }
    }

    #[test]
    fn strings_end_at_the_first_quote_that_is_not_escaped() {
        let end_of = |text: &str| string_end(text.as_bytes(), 0, text.len());
        assert_eq!(end_of(r#"abc"x"#), Ok((3, false)));
        assert_eq!(end_of(r#"a\"b"x"#), Ok((4, true)));
        assert_eq!(end_of(r#"a\\"b"x"#), Ok((3, true)));
        assert_eq!(end_of(r#""#), Err(Bad::new(0, What::ClosingQuote)));
        assert!(end_of(r#"abc\"#).is_err());
        assert!(end_of(r#"abc\""#).is_err());
        assert!(string_end(br#"abcd"efg"#, 0, 4).is_err());
    }
}
